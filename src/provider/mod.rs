//! What each vendor wants: where its API is, how it is asked, how the key is shown.
//!
//! Pure: a provider only *describes*. It opens no socket, reads no clock and knows no session. What a
//! vendor's shapes look like will live beside it when it speaks another shape than ours.

use crate::api::body::{Body, Edit};
use crate::api::operation::Operation;
use crate::config::account::Account;
use crate::config::read::nearest;
use crate::error::Error;
use adapter::{Adapter, CallTarget};
use http::{HeaderMap, Method};
use rescue::Prefill;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;
use token_exchange::{Credentials, TokenExchange};
use translation_notes::TranslationNotes;

pub mod adapter;
pub mod anthropic;
pub mod azure;
pub mod bedrock;
pub mod cohere;
pub mod embeddings;
pub mod error_class;
pub mod gemini;
pub mod google;
pub mod key;
pub mod openai_chat;
pub mod openai_compatible;
mod patching;
pub mod rerank;
pub mod rescue;
pub mod rewriter;
mod self_hosted;
pub mod spec;
pub mod token_exchange;
pub mod translation;
pub mod translation_notes;
pub mod vertex;
pub mod workers_ai;

/// What a provider may know of a call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub operation: Operation,
    pub method: &'a Method,
    /// As the caller wrote it (still percent-encoded), relative to the version segment and without a
    /// leading slash: `chat/completions`.
    pub path: &'a str,
    /// As the caller wrote it, without the `?`.
    pub query: Option<&'a str>,
    /// The model the upstream will be asked for, when the call names one.
    pub model: Option<&'a str>,
    /// The answer shall be streamed: some providers have another path for it.
    pub streamed: bool,
}

/// A request about to leave, for providers that sign what they send.
#[derive(Debug, Clone, Copy)]
pub struct Signing<'a> {
    pub method: &'a Method,
    /// `https://host:port/path?query`, exactly as it goes out.
    pub url: &'a str,
    pub body: &'a [u8],
    pub now: SystemTime,
}

/// One vendor.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// The plain identifier callers use (`openai`, `groq`), as in reference 12.1.
    fn id(&self) -> &'static str;

    /// Other names callers may use.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Scheme and host, perhaps with a path, that calls are appended to when the account has no custom
    /// host. Ends without a slash.
    ///
    /// # Errors
    /// 400 when the account lacks what the address is made of; `param` names the config key.
    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error>;

    /// Path and query, with a leading slash: what is appended to [`Provider::base_url`], or to the
    /// account's custom host (path included, trailing slashes taken off) when it has one. The caller's
    /// query is part of it: nobody else appends it.
    ///
    /// # Errors
    /// 400 when the call lacks what the path is made of (a model in the path, say), or would climb out of
    /// the base with `..`.
    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error>;

    /// The part of the address's own path that [`Provider::path`] is appended to (no slash at its end; empty
    /// for none). All of it, but for providers whose paths do not all hang below one address.
    fn base_path<'a>(&self, _call: &Call<'_>, _account: &Account, path: &'a str) -> &'a str {
        path
    }

    /// How this call is had here. `call.operation` is the caller's. For [`Way::Chat`] the other functions
    /// are asked with [`Operation::ChatCompletions`] from then on.
    ///
    /// # Errors
    /// 400 or 501 that says what the provider does not have.
    fn adapter(&self, _call: &Call<'_>, _account: &Account) -> Result<Adapter, Error> {
        Ok(Adapter::Passthrough(None))
    }

    /// For [`Way::Same`]: what this provider wants otherwise in a body of the caller's shape, as changes of
    /// top-level members. None, nearly always.
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

    /// Whether this model goes on from an assistant's message at the end of the chat, where nothing in the request
    /// speaks against it ([`rescue::request`] judges that). No, unless it is known.
    fn prefill(&self, _model: &str) -> Prefill {
        Prefill::No
    }

    /// What must be fetched before calls of this account can be authorized.
    ///
    /// # Errors
    /// 400 when the account says it halfway.
    fn token_exchange(
        &self,
        _call: &Call<'_>,
        _account: &Account,
    ) -> Result<Option<Arc<dyn TokenExchange>>, Error> {
        Ok(None)
    }

    /// Writes what a grant yielded, or a signature over the request, into its headers: all of them, as they
    /// go out. Called for each attempt, after [`Provider::authorize`], when the provider
    /// [signs](Provider::signs) or has a grant.
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
            headers.insert(http::header::AUTHORIZATION, key::bearer(token)?);
        }
        Ok(())
    }

    /// Whether auth headers depend on the model asked for: then they are made for each call, not once.
    fn auth_varies(&self) -> bool {
        false
    }

    /// Whether each request is signed: then its body must be read before it goes out.
    fn signs(&self, _account: &Account) -> bool {
        false
    }

    /// Writes the provider's auth headers (and other headers it always wants) over what the caller sent,
    /// and takes out any other credential header there, so that nobody's key travels to a stranger. To be
    /// called before `forward_headers` are written: what is forwarded on purpose is not stale.
    ///
    /// The call is an argument because one vendor may want its key shown differently on different paths.
    ///
    /// # Errors
    /// 401 when the key is missing and the vendor's own host would refuse us anyway; 400 when the key
    /// cannot stand in a header.
    fn authorize(&self, call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error>;
}

/// The vendors with words of their own: one line each.
static NATIVE: &[&dyn Provider] = &[
    &anthropic::Anthropic,
    &azure::AzureAi,
    &azure::AzureOpenAi,
    &bedrock::Bedrock,
    &cohere::Cohere,
    &google::Google,
    &vertex::Vertex,
    &workers_ai::WorkersAi,
];

/// Finds a provider by its plain identifier or one of its other names. A linear search: meant for when a
/// config is compiled, not for every request.
pub fn find(id: &str) -> Option<&'static dyn Provider> {
    let native =
        NATIVE.iter().copied().find(|provider| provider.id() == id || provider.aliases().contains(&id));
    native.or_else(|| openai_compatible::find(id).map(|spec| spec as &'static dyn Provider))
}

/// Every provider id, for problem texts and docs.
pub fn ids() -> impl Iterator<Item = &'static str> {
    let native = NATIVE.iter().map(|provider| provider.id());
    native.chain(openai_compatible::SPECS.iter().map(|spec| spec.id))
}

/// Whether the provider of this name could sign in with this account, as far as can be told beforehand. Unknown
/// names are judged elsewhere.
///
/// # Errors
/// As [`Provider::grant`].
pub fn check_account(name: &str, account: &Account) -> Result<(), Error> {
    let Some(provider) = find(name) else { return Ok(()) };
    let call = Call {
        operation: Operation::ChatCompletions,
        method: &Method::POST,
        path: "chat/completions",
        query: None,
        model: None,
        streamed: false,
    };
    provider.token_exchange(&call, account).map(drop)
}

/// What to tell whoever named a provider we do not know.
pub fn unknown(name: &str) -> String {
    let supported: Vec<&str> = ids().collect();
    match nearest(&supported, name) {
        Some(near) => format!("is not a provider this gateway knows; did you mean {near}?"),
        None => "is not a provider this gateway knows; docs/providers.md lists them.".to_owned(),
    }
}

/// The whole URL of a call: custom host or base URL, path, query. Whether a custom host may be reached is
/// not judged here.
///
/// # Errors
/// As [`Provider::base_url`] and [`Provider::path`].
pub fn url(provider: &dyn Provider, call: &Call<'_>, account: &Account) -> Result<String, Error> {
    let base = match &account.custom_host {
        Some(host) => Cow::Borrowed(host.as_str()),
        None => provider.base_url(account)?,
    };
    let base = base.trim_end_matches('/');
    let authority = base.find("://").map_or(0, |at| at + 3);
    let end = base.get(authority..).and_then(|rest| rest.find('/')).map_or(base.len(), |at| authority + at);
    let (origin, path) = base.split_at_checked(end).unwrap_or((base, ""));
    let path = provider.base_path(call, account, path);
    Ok(format!("{origin}{path}{}", provider.path(call, account)?))
}

#[cfg(test)]
mod goldens;
#[cfg(test)]
mod tests;
