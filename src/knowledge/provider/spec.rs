//! One vendor as data: its address, how its key is sent, which of its paths differ.
//!
//! Not the list (`openai_compatible`) and not message formats: a spec is all that is needed for a vendor that
//! speaks OpenAI's. A vendor that needs code gets a file of its own.
//!
//! **Custom hosts.** A custom host replaces the vendor's address. Vendors disagree on where the version
//! segment belongs, and so do the users who write custom hosts; [`CustomHost`] says per vendor what happens.
//! For example, `http://localhost:11434` and `http://localhost:11434/v1` both reach Ollama's chat.

use super::adapter::{Adapter, CallTarget, ChatAdapter, JsonAdapter, ResponsePatch};
use super::batch_jobs::BatchJobs;
use super::fine_tuning::Jobs;
use super::fine_tuning::files::FileApi;
use super::fine_tuning::training::TrainingFormat;
use super::key::{Key, header_value, secret_value};
use super::openai_chat::edits::apply_rule;
use super::openai_chat::{CHAT_PATCH, OpenAiChat, Rule, quirks};
use super::prompt_marks::MarkForm;
use super::rescue::Prefill;
use super::translation_notes::TranslationNotes;
use super::vendor_host::host_below;
use super::{Call, Provider};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// One vendor whose API is OpenAI's.
#[derive(Debug)]
pub struct ProviderSpec {
    /// Portkey's id, if it lists the vendor.
    pub id: &'static str,
    /// Other names that clients may use.
    pub aliases: &'static [&'static str],
    pub host: Host,
    /// The path between the vendor's own host and the client's path: `/v1`, or empty. A whole segment may be
    /// `{resource_name}` or `{deployment}`; it is filled in percent-encoded.
    pub prefix: &'static str,
    /// Operations with another prefix on the vendor's own host.
    pub other_prefixes: &'static [(Operation, &'static str)],
    pub custom_host: CustomHost,
    pub key: Key,
    /// Further headers the vendor needs. Names are in lower case.
    pub headers: &'static [(&'static str, Value)],
    /// How it deviates from OpenAI's chat. `None`: it has no chat, and its paths are only passed on.
    pub chat: Option<&'static OpenAiChat>,
    /// Corrects its chat responses.
    pub chat_patch: Option<&'static dyn ResponsePatch>,
    /// Differences in requests other than chat: operation, member and what to do with it.
    pub rules: &'static [(Operation, &'static str, Rule)],
    /// Translates rerank where it is not in the shape of Cohere and Jina.
    pub rerank: Option<&'static dyn JsonAdapter>,
    /// Translates its fine-tuning jobs where they are not in OpenAI's shape.
    pub fine_tuning: Option<&'static Jobs>,
    /// How its files differ from OpenAI's.
    pub files: Option<&'static FileApi>,
    /// Corrects its embedding responses.
    pub embeddings_patch: Option<&'static dyn ResponsePatch>,
    /// The APIs it has besides chat completions; requests for any other are translated to its chat.
    pub native_apis: &'static [NativeApi],
    /// Its Responses API, where it serves OpenAI's models under their own names.
    pub responses_chat: Option<&'static dyn ChatAdapter>,
    /// Its batch jobs, where they are not OpenAI's batches.
    pub batch_jobs: Option<&'static dyn BatchJobs>,
    /// Calls of batch jobs that are not below [`ProviderSpec::prefix`] of its own host.
    pub other_hosts: &'static [OtherHost],
    /// Which of its models continue a prefilled assistant message, and how.
    pub prefill: fn(&str) -> Prefill,
    /// What a user should know, in one sentence.
    pub note: &'static str,
    /// Where these facts come from: the vendor's documentation, or Portkey's list.
    pub source: &'static str,
}

/// The vendor's address when the account has no custom host.
#[derive(Debug, Clone, Copy)]
pub enum Host {
    /// Scheme and host, without a trailing slash.
    Fixed(&'static str),
    /// `resource_name` names the host: a full name below one of these domains, or a label below the first.
    /// Never any other host: those must be a `custom_host`, which is checked against forbidden addresses.
    Below(&'static [&'static str]),
    /// None: the account must have a custom host.
    Custom,
    /// Computed from the account by the vendor's own file; the text describes it for the documentation.
    Made(&'static str),
}

/// Where calls are sent whose path begins in a certain way.
#[derive(Debug)]
pub struct OtherHost {
    /// How the path begins, with the slash behind it.
    pub path: &'static str,
    /// Scheme and host, possibly with a path.
    pub base: &'static str,
    /// Whether `path` itself is part of the path there.
    pub keeps_path: bool,
    /// Whether the vendor's key is sent. A signed address needs none, and its host must not get it.
    pub takes_key: bool,
}

/// What a custom host replaces.
#[derive(Debug, Clone, Copy)]
pub enum CustomHost {
    /// The whole base URL including the version segment: `http://h/v1` + `/chat/completions`.
    Base,
    /// The host before this prefix: `http://h` + `/v1/chat/completions`. A custom host that already ends in a
    /// version segment (`/v1`, `/v1beta`) is taken as the whole base URL.
    Prefixed(&'static str),
    /// A server with its own API besides OpenAI's: as `Prefixed`, but paths outside the endpoint list follow
    /// the custom host directly, so that Ollama's `/api/chat` stays reachable.
    Server(&'static str),
}

/// An API besides chat completions that a vendor implements itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeApi {
    /// Anthropic's `/messages`, under the prefix in `other_prefixes` if it has one there.
    Messages,
    /// `/messages/count_tokens`.
    CountTokens,
    /// `/completions`.
    Completions,
    /// `/responses` without storage: no stored response can be fetched, deleted or continued.
    Responses,
    /// `/responses` with storage.
    StoredResponses,
    /// `/responses/input_tokens`.
    InputTokens,
    /// `/responses/compact`.
    Compaction,
    /// Items `compaction_trigger` in the input of `/responses`.
    CompactionTriggers,
}

/// The value of a further header.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// This value, unless the client sent the header.
    Default(&'static str),
    /// The account's organization, if it has one.
    Organization,
    /// The account's project, if it has one.
    Project,
}

/// Encodes everything but the unreserved characters of RFC 3986.
pub(super) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl ProviderSpec {
    /// The most common vendor; each spec lists its differences from it.
    pub(super) const PLAIN: ProviderSpec = ProviderSpec {
        id: "",
        aliases: &[],
        host: Host::Custom,
        prefix: "/v1",
        other_prefixes: &[],
        custom_host: CustomHost::Base,
        key: Key::BEARER,
        headers: &[],
        chat: Some(&quirks::PLAIN),
        chat_patch: Some(&CHAT_PATCH),
        rules: &[],
        rerank: None,
        fine_tuning: None,
        files: None,
        embeddings_patch: None,
        native_apis: &[],
        responses_chat: None,
        batch_jobs: None,
        other_hosts: &[],
        prefill: |_| Prefill::No,
        note: "",
        source: "",
    };

    /// Writes the vendor's further headers.
    ///
    /// # Errors
    /// 400 when an account field contains characters that are not allowed in a header.
    pub(super) fn write_headers(&self, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        for &(name, value) in self.headers {
            let name = HeaderName::from_static(name);
            let (param, setting) = match value {
                Value::Default(value) => {
                    headers.entry(name).or_insert(HeaderValue::from_static(value));
                    continue;
                }
                Value::Organization => ("provider_organization", &account.organization),
                Value::Project => ("provider_project", &account.project),
            };
            if let Some(setting) = setting {
                headers.insert(name, header_value(param, setting)?);
            }
        }
        Ok(())
    }

    fn prefix_for(&self, operation: Operation, account: &Account) -> &'static str {
        let Some(host) = &account.custom_host else {
            let other = self.other_prefixes.iter().find(|(listed, _)| *listed == operation);
            return other.map_or(self.prefix, |(_, prefix)| prefix);
        };
        match self.custom_host {
            CustomHost::Server(_) if operation == Operation::Passthrough => "",
            CustomHost::Prefixed(prefix) | CustomHost::Server(prefix) if !ends_in_version(host) => prefix,
            CustomHost::Base | CustomHost::Prefixed(_) | CustomHost::Server(_) => "",
        }
    }

    /// Fills in one segment of a prefix.
    fn segment<'a>(
        &self,
        segment: &'static str,
        call: &Call<'a>,
        account: &'a Account,
    ) -> Result<Cow<'a, str>, Error> {
        let (param, value) = match segment {
            "{resource_name}" => ("resource_name", account.resource_name.as_deref()),
            // A model may be written `base:adapter`; the base is what is deployed.
            "{deployment}" => ("deployment_id", account.deployment_id.as_deref().or(base_model(call.model))),
            plain => return Ok(Cow::Borrowed(plain)),
        };
        let value = value.filter(|value| !value.is_empty()).ok_or_else(|| self.missing_param(param))?;
        if has_dot_segment(value) {
            let message = format!("{param} must not contain '.' or '..' as a path segment.");
            return Err(Error::invalid_request(param, message).with_provider(self.id));
        }
        Ok(encode_segment(value))
    }

    /// What translates the operation, where it is one of fine-tuning.
    fn jobs_for(&self, operation: Operation) -> Option<&'static Jobs> {
        self.fine_tuning.filter(|_| operation.is_fine_tuning())
    }

    /// Whether it serves `/messages` itself. Behind a custom host only where `/messages` has the same prefix
    /// as the chat: a custom host is the address of the chat.
    fn has_messages(&self, account: &Account) -> bool {
        let apart = self.other_prefixes.iter().any(|(operation, _)| *operation == Operation::Messages);
        self.has(NativeApi::Messages) && !(apart && account.custom_host.is_some())
    }

    /// The other host of a call, with the path there.
    fn other_host<'a>(&self, call: &Call<'a>) -> Option<(&'static OtherHost, &'a str)> {
        if call.operation != Operation::Passthrough {
            return None;
        }
        self.other_hosts.iter().find_map(|host| {
            let rest = call.path.strip_prefix(host.path)?;
            Some((host, if host.keeps_path { call.path } else { rest }))
        })
    }

    fn has(&self, api: NativeApi) -> bool {
        self.native_apis.contains(&api)
    }

    /// The error for a request that needs a stored response.
    pub(super) fn no_stored_responses(&self, call: &Call<'_>) -> Error {
        let id = self.id;
        let method = call.method;
        let message = format!(
            "{method} /v1/responses/{{id}} needs a provider that keeps responses; {id} keeps none. Send the whole \
             conversation with each request instead."
        );
        Error::bad_request(message).with_provider(id)
    }

    fn missing_param(&self, param: &str) -> Error {
        let id = self.id;
        let message = match param {
            "custom_host" => format!(
                "{id} has no address of its own: give custom_host (https://host[:port]) in the config, in the \
                 stored provider, or as a header."
            ),
            "deployment_id" => format!("{id} has the model in its path: give deployment_id or a model."),
            _ => format!("{id} needs {param} in the config or in the stored provider."),
        };
        Error::invalid_request(param, message).with_provider(id)
    }
}

impl Provider for ProviderSpec {
    fn id(&self) -> &'static str {
        self.id
    }

    fn prefill(&self, model: &str) -> Prefill {
        (self.prefill)(model)
    }

    fn batch_jobs(&self) -> Option<&'static dyn BatchJobs> {
        self.batch_jobs
    }

    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error> {
        let domains = match self.host {
            Host::Fixed(host) => return Ok(Cow::Borrowed(host)),
            Host::Custom | Host::Made(_) => return Err(self.missing_param("custom_host")),
            Host::Below(domains) => domains,
        };
        let name = account.resource_name.as_deref().ok_or_else(|| self.missing_param("resource_name"))?;
        host_below(name, domains).map(Cow::Owned).ok_or_else(|| {
            let message = format!(
                "resource_name must be a name or host of {}. For any other host use custom_host.",
                domains.join(" or ")
            );
            Error::invalid_request("resource_name", message).with_provider(self.id)
        })
    }

    fn other_base_url(
        &self,
        call: &Call<'_>,
        _account: &Account,
    ) -> Result<Option<Cow<'static, str>>, Error> {
        Ok(self.other_host(call).map(|(host, _)| Cow::Borrowed(host.base)))
    }

    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error> {
        if has_dot_segment(call.path) {
            let message = "The path must not contain '.' or '..' as a segment.";
            return Err(Error::bad_request(message).with_provider(self.id));
        }
        if let Some(jobs) = self.jobs_for(call.operation) {
            let prefix = jobs.0.prefix().unwrap_or_else(|| self.prefix_for(call.operation, account));
            return Ok([prefix, &jobs.path(call, account)?].concat());
        }
        let own_path = match self.files {
            Some(files) if call.operation == Operation::FilesUpload => files.upload_path,
            _ => call.path,
        };
        let (prefix, call_path) = match self.other_host(call).filter(|_| account.custom_host.is_none()) {
            Some((_, path)) => ("", path),
            None => (self.prefix_for(call.operation, account), own_path),
        };
        let query = call.query.map_or(0, |query| query.len() + 1);
        let mut path = String::with_capacity(prefix.len() + call_path.len() + query + 1);
        for segment in prefix.split('/').skip(1) {
            path.push('/');
            path.push_str(&self.segment(segment, call, account)?);
        }
        path.push('/');
        path.push_str(call_path);
        if let Some(query) = call.query {
            path.push('?');
            path.push_str(query);
        }
        Ok(path)
    }

    fn base_path<'a>(&self, call: &Call<'_>, _account: &Account, path: &'a str) -> &'a str {
        match self.jobs_for(call.operation).and_then(|jobs| jobs.0.prefix()) {
            // The base of the chat, or that of the fine-tuning API: its prefix is part of the path.
            Some(prefix) => {
                let path = path.trim_end_matches('/');
                path.strip_suffix(self.prefix).or_else(|| path.strip_suffix(prefix)).unwrap_or(path)
            }
            None => path,
        }
    }

    fn adapter(&self, call: &Call<'_>, account: &Account) -> Result<Adapter, Error> {
        if let Some(jobs) = self.jobs_for(call.operation) {
            return jobs.adapter(call.operation);
        }
        match (call.operation, self.rerank) {
            (Operation::Rerank, Some(rerank)) => return Ok(Adapter::Json(rerank)),
            (Operation::Embeddings, _) => return Ok(Adapter::Passthrough(self.embeddings_patch)),
            _ => {}
        }
        let Some(chat) = self.chat else {
            if call.operation.is_gemini_chat() || call.operation == Operation::ResponsesCompact {
                let message = format!("{} has no chat. Choose another provider.", self.id);
                return Err(Error::not_implemented(message).with_provider(self.id));
            }
            return Ok(Adapter::Passthrough(None));
        };
        Ok(match call.operation {
            operation if operation.is_gemini_chat() => Adapter::Chat(chat),
            Operation::ChatCompletions => Adapter::Passthrough(self.chat_patch),
            Operation::Completions if !self.has(NativeApi::Completions) => Adapter::Chat(chat),
            Operation::Messages if !self.has_messages(account) => Adapter::Chat(chat),
            Operation::CountTokens if !(self.has(NativeApi::CountTokens) && self.has_messages(account)) => {
                Adapter::Chat(chat)
            }
            Operation::Responses
                if !self.has(NativeApi::Responses) && !self.has(NativeApi::StoredResponses) =>
            {
                Adapter::Chat(chat)
            }
            Operation::ResponsesCompact if !self.has(NativeApi::Compaction) => Adapter::Chat(chat),
            operation if operation.is_stored_response() && !self.has(NativeApi::StoredResponses) => {
                return Err(self.no_stored_responses(call));
            }
            operation => Adapter::Passthrough(self.files.and_then(|files| files.patch(operation))),
        })
    }

    fn responses_chat(&self, _call: &Call<'_>, _account: &Account) -> Option<&'static dyn ChatAdapter> {
        self.responses_chat
    }

    fn training_format(&self) -> Option<TrainingFormat> {
        self.fine_tuning.and_then(|jobs| jobs.0.training_format())
    }

    fn sends_cancelled_job(&self) -> bool {
        self.fine_tuning.is_none_or(|jobs| jobs.0.sends_cancelled_job())
    }

    fn counts_responses(&self) -> bool {
        self.has(NativeApi::InputTokens)
    }

    fn takes_compaction_triggers(&self) -> bool {
        self.has(NativeApi::CompactionTriggers)
    }

    fn takes_stream_options(&self, call: &Call<'_>) -> bool {
        let is_openai = matches!(call.operation, Operation::ChatCompletions | Operation::Completions);
        is_openai && self.chat.is_some_and(|chat| chat.stream_options)
    }

    fn takes_anthropic_version(&self, operation: Operation) -> bool {
        let is_messages = matches!(operation, Operation::Messages | Operation::CountTokens);
        operation == Operation::Passthrough || (is_messages && self.has(NativeApi::Messages))
    }

    fn edits(
        &self,
        body: &Body,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<Edit<'static>>, Error> {
        let operation = target.call.operation;
        let mut edits = match self.chat {
            Some(chat) if operation == Operation::ChatCompletions => {
                chat.edits(body, target.account, notes)?
            }
            _ => Vec::new(),
        };
        for (_, name, rule) in self.rules.iter().filter(|(ruled, ..)| *ruled == operation) {
            apply_rule(name, *rule, body, notes, &mut edits);
        }
        Ok(edits)
    }

    fn mark_form(&self, target: &CallTarget<'_>) -> Option<MarkForm> {
        let is_claude = target.model.contains("claude");
        let form = match target.call.operation {
            Operation::Messages if self.has_messages(target.account) => MarkForm::Messages,
            Operation::ChatCompletions if self.chat?.takes_cache_marks(target.account) => MarkForm::Chat,
            _ => return None,
        };
        is_claude.then_some(form)
    }

    fn authorize(&self, call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        if self.other_host(call).is_some_and(|(host, _)| !host.takes_key) {
            // Only removes the client's credentials.
            return Key::OPTIONAL.write(self.id, &Account::default(), headers);
        }
        self.key.write(self.id, account, headers)?;
        // Vendors with Anthropic's endpoint expect the key in different headers: DeepSeek documents x-api-key
        // only, vLLM and Ollama's cloud take a bearer. It is sent in both.
        if matches!(call.operation, Operation::Messages | Operation::CountTokens)
            && let Some(key) = &account.api_key
            && !key.expose().is_empty()
        {
            headers.insert("x-api-key", secret_value("api_key", key.expose())?);
        }
        self.write_headers(account, headers)
    }
}

/// Percent-encodes `value` as one path segment.
pub(super) fn encode_segment(value: &str) -> Cow<'_, str> {
    utf8_percent_encode(value, SEGMENT).into()
}

fn base_model(model: Option<&str>) -> Option<&str> {
    model.and_then(|model| model.split(':').next())
}

/// How often a path may be percent-encoded.
const MAX_ENCODED: usize = 4;

/// Whether a path or value has a `.` or `..` segment in any spelling. Upstreams and the proxies before
/// them resolve these, so a stored provider's key could be used outside the base it is meant for.
pub(super) fn has_dot_segment(path: &str) -> bool {
    // The fast path: most paths contain neither.
    if memchr::memchr2(b'.', b'%', path.as_bytes()).is_none() {
        return false;
    }
    // Each server on the way may decode once more before it resolves. No honest path is encoded this often.
    let mut decoded = Cow::Borrowed(path);
    let mut levels = 0;
    while decoded.contains('%') {
        let next = percent_decode_str(&decoded).decode_utf8_lossy().into_owned();
        if next == *decoded {
            break;
        }
        levels += 1;
        if levels > MAX_ENCODED {
            return true;
        }
        decoded = Cow::Owned(next);
    }
    // Java's servers resolve a segment without the parameters behind its semicolon.
    let name = |segment: &str| segment.split(';').next().is_some_and(|name| matches!(name, "." | ".."));
    decoded.contains('.') && decoded.split(['/', '\\']).any(name)
}

/// Whether the path of a custom host ends in a version segment: `/v1`, `/api/v3`, `/v1beta/`.
pub(super) fn ends_in_version(custom_host: &str) -> bool {
    let rest = custom_host.split_once("://").map_or(custom_host, |(_, rest)| rest);
    let Some((_, path)) = rest.trim_end_matches('/').split_once('/') else { return false };
    let last = path.rsplit('/').next().unwrap_or_default();
    let Some(number) = last.strip_prefix('v') else { return false };
    number.starts_with(|first: char| first.is_ascii_digit())
        && number.chars().all(|each| each.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_segments_are_recognized_only_at_the_end_of_the_path() {
        for host in ["http://h/v1", "http://h:1/v1/", "https://h/openai/v1beta", "h/v4"] {
            assert!(ends_in_version(host), "{host}");
        }
        for host in ["http://h", "http://v1", "http://v1.example.com/", "http://h/v1/openai", "http://h/vx"] {
            assert!(!ends_in_version(host), "{host}");
        }
    }

    #[test]
    fn dot_segments_are_recognized_in_every_spelling() {
        for path in [
            "..",
            "a/../b",
            "a/.",
            "%2e%2e/x",
            "a%2F..%2fb",
            "a\\..\\b",
            "%252e%252e",
            "./a",
            "a/..;/b",
            "..;x=y/b",
            "%2e%2e;/b",
            "a/.;",
            "..%3bx/b",
            "%25252e%25252525%32e",
            "%2525252e%2525252e/x",
            "x%252525252525252f",
        ] {
            assert!(has_dot_segment(path), "{path}");
        }
        for path in [
            "",
            "a.b/c..d",
            "...",
            "files/a%2Fb",
            "models/gpt-4.1",
            ".well-known",
            "a;b/..c;d",
            "a;..",
            "100%",
            "%zz.%",
            "a%252Fb.c",
        ] {
            assert!(!has_dot_segment(path), "{path}");
        }
    }
}
