//! What a provider describes: its address, its paths, how it serves an operation, and how its key is sent.
//!
//! Not here: which providers there are (`mod.rs`, `openai_compatible`).

use super::adapter::{Adapter, CallTarget, ChatAdapter};
use super::anthropic::BetaHost;
use super::batch_jobs::BatchJobs;
use super::fine_tuning::training::TrainingFormat;
use super::prompt_marks::MarkForm;
use super::rescue::Prefill;
use super::token_exchange::{Credentials, TokenExchange};
use super::translation_notes::TranslationNotes;
use http::{HeaderMap, Method};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// What a provider may know of a call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub operation: Operation,
    pub method: &'a Method,
    /// As the client wrote it (still percent-encoded), relative to the version segment and without a
    /// leading slash: `chat/completions`.
    pub path: &'a str,
    /// As the client wrote it, without the `?`.
    pub query: Option<&'a str>,
    /// The model requested from the upstream, when the call names one.
    pub model: Option<&'a str>,
    /// Whether a streamed response is requested; some providers have another path for it.
    pub streamed: bool,
}

/// A request that is about to be sent, for providers that sign requests.
#[derive(Debug, Clone, Copy)]
pub struct Signing<'a> {
    pub method: &'a Method,
    /// `https://host:port/path?query`, exactly as it is sent.
    pub url: &'a str,
    pub body: &'a [u8],
    pub now: SystemTime,
}

/// One vendor.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// The plain identifier that clients use (`openai`, `groq`), as in `docs/providers.md`.
    fn id(&self) -> &'static str;

    /// Other names that clients may use.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Scheme and host, possibly with a path, to which calls are appended when the account has no custom
    /// host. Has no trailing slash.
    ///
    /// # Errors
    /// 400 when the account lacks what the address is made of; `param` names the config key.
    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error>;

    /// Scheme and host, possibly with a path, of a call that the provider has at another host than the others, such as a bucket's. Not for
    /// accounts with a custom host, which have all calls there. The default is no such call.
    ///
    /// # Errors
    /// As [`Provider::base_url`].
    fn other_base_url(
        &self,
        _call: &Call<'_>,
        _account: &Account,
    ) -> Result<Option<Cow<'static, str>>, Error> {
        Ok(None)
    }

    /// Path and query, with a leading slash. They are appended to [`Provider::base_url`], or to the account's
    /// custom host (with its path, without trailing slashes) when it has one. The client's query must be
    /// included here: no other code appends it.
    ///
    /// # Errors
    /// 400 when the call lacks what the path is made of (for example the model), or when the path would leave
    /// the base with `..`.
    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error>;

    /// The part of the base address's path that [`Provider::path`] is appended to (without a trailing slash;
    /// empty for none). The whole path, except for providers whose operations have different bases.
    fn base_path<'a>(&self, _call: &Call<'_>, _account: &Account, path: &'a str) -> &'a str {
        path
    }

    /// How this provider serves the call. `call.operation` is the client's. After [`Adapter::Chat`] the other
    /// functions are called with [`Operation::ChatCompletions`].
    ///
    /// # Errors
    /// 400 or 501 that names what the provider does not support.
    fn adapter(&self, _call: &Call<'_>, _account: &Account) -> Result<Adapter, Error> {
        Ok(Adapter::Passthrough(None))
    }

    /// Its Responses API as the upstream format of a chat, for models that take some chats only there ([`super::responses_only`]). The
    /// default is none.
    fn responses_chat(&self, _call: &Call<'_>, _account: &Account) -> Option<&'static dyn ChatAdapter> {
        None
    }

    /// For [`Adapter::Passthrough`]: the changes of top-level members that this provider needs in a body of
    /// the client's shape. Usually none.
    ///
    /// # Errors
    /// 400 that names what the provider cannot do.
    fn edits(
        &self,
        _body: &Body,
        _target: &CallTarget<'_>,
        _notes: &mut TranslationNotes,
    ) -> Result<Vec<Edit<'static>>, Error> {
        Ok(Vec::new())
    }

    /// Its batch jobs, where they are not OpenAI's batches and are translated. The default is no: requests for batches and their
    /// files pass on.
    fn batch_jobs(&self) -> Option<&'static dyn BatchJobs> {
        None
    }

    /// Whether it counts the input tokens of requests of the Responses API (`/responses/input_tokens`). The default is no.
    fn counts_responses(&self) -> bool {
        false
    }

    /// Whether its Responses API compacts a conversation whose input requests it (`compaction_trigger`). The default is no.
    fn takes_compaction_triggers(&self) -> bool {
        false
    }

    /// Whether streams of a call that passes in OpenAI's shape have usage only where `stream_options.include_usage` requests
    /// it. The default is no: the provider sends usage anyway, or refuses the member.
    fn takes_stream_options(&self, _call: &Call<'_>) -> bool {
        false
    }

    /// Whether this model continues an assistant message at the end of the chat, if the request allows it
    /// ([`super::rescue::request`] checks that). The default is no: support must be documented.
    fn prefill(&self, _model: &str) -> Prefill {
        Prefill::No
    }

    /// The token exchange that is needed before calls of this account can be authorized.
    ///
    /// # Errors
    /// 400 when the account's settings for it are incomplete.
    fn token_exchange(&self, _account: &Account) -> Result<Option<Arc<dyn TokenExchange>>, Error> {
        Ok(None)
    }

    /// Writes fetched credentials, or a signature over the request, into its headers. `headers` are complete,
    /// exactly as they will be sent. Called for each attempt, after [`Provider::authorize`], when the
    /// provider [signs](Provider::signs) or has a token exchange.
    ///
    /// # Errors
    /// 400 or 401 when the account lacks what is needed.
    fn sign(
        &self,
        _signing: &Signing<'_>,
        _account: &Account,
        credentials: Option<&Credentials>,
        headers: &mut HeaderMap,
    ) -> Result<(), Error> {
        if let Some(Credentials::Bearer(token)) = credentials {
            headers.insert(http::header::AUTHORIZATION, super::key::bearer(token)?);
        }
        Ok(())
    }

    /// Whether a client's `anthropic-version` goes along with a call: only where the client speaks to Anthropic's API
    /// itself. A translated call gets the version that its body is written for.
    fn takes_anthropic_version(&self, operation: Operation) -> bool {
        operation == Operation::Passthrough
    }

    /// Where the models of Anthropic's are served that a call gets: the betas of the client's header that it takes go along. The
    /// default is none: the header passes as it is.
    fn beta_host(&self, _operation: Operation, _model: &str) -> Option<BetaHost> {
        None
    }

    /// How marks are written for the cache of prompts of the model that is called, where that cache ends at marks. `target`: the call as
    /// it is sent; a translated chat is [`Operation::ChatCompletions`]. The default: Anthropic's, where its models are served so.
    fn mark_form(&self, target: &CallTarget<'_>) -> Option<MarkForm> {
        let operation = target.call.operation;
        self.beta_host(operation, target.model).and(MarkForm::of_messages(operation))
    }

    /// Whether betas of Anthropic's go into the body of a call, so that no `anthropic-beta` header is sent.
    fn takes_betas_in_body(&self, _operation: Operation) -> bool {
        false
    }

    /// Whether the provider has this operation of Gemini's API itself, so that a client's request passes in its own bytes.
    fn has_gemini(&self, _operation: Operation, _model: Option<&str>) -> bool {
        false
    }

    /// The format of training data that the gateway uploads for a fine-tuning job. The default is none: clients upload them to the
    /// provider.
    fn training_format(&self) -> Option<TrainingFormat> {
        None
    }

    /// Whether the response to a request that cancels a fine-tuning job is that job. Otherwise the job is fetched for the client.
    fn sends_cancelled_job(&self) -> bool {
        true
    }

    /// Whether the `api-version` of a client that speaks Azure's dialect goes along with a call.
    fn takes_api_version(&self) -> bool {
        false
    }

    /// Headers that clients may send under a neutral name: that name and the vendor's own.
    fn neutral_headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Whether auth headers depend on the requested model: then they are made for each call, not once.
    fn auth_varies(&self) -> bool {
        false
    }

    /// Whether each request is signed, which requires its whole body before it is sent.
    fn signs(&self, _account: &Account) -> bool {
        false
    }

    /// Writes the provider's auth headers (and other headers it always needs) over the client's and removes
    /// every other credential header, so that a key for one vendor never reaches another. Must be called
    /// before `forward_headers` are written: headers that are forwarded on purpose must survive.
    ///
    /// The call is an argument because a vendor may expect its key in a different form on different paths.
    ///
    /// # Errors
    /// 401 when the key is missing and the vendor's own host would refuse the request anyway; 400 when the
    /// key contains characters that are not allowed in a header.
    fn authorize(&self, call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error>;
}
