//! How a partner is called: the request from the row of the partner, the response to a finding.
//!
//! A check that judges sends the text that is judged. One that redacts sends every text, as many in a call as the partner takes, so
//! that what it returns can be put in their places. Nothing that authorizes a call is in a finding, an error or `Debug`.

use crate::guard::check::{Prepared, RemoteCheck};
use crate::guard::checks::outgoing;
use crate::guard::finding::{Change, CheckError, Finding};
use crate::guard::outside::{Outside, OutsideCall, OutsideError};
use crate::guard::parameters::{Parameters, Unusable};
use crate::guard::subject::Subject;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Map, Value, json};
use std::fmt;
use std::time::Duration;
use words::config::hooks::HookPhase;

/// A longer response is an error.
pub const MAX_BYTES: usize = 1024 * 1024;
/// A request with more texts than these calls take is an error.
const MAX_CALLS: usize = 20;

/// What differs from partner to partner.
pub struct Partner {
    /// As errors name it.
    pub name: &'static str,
    /// Where its API is, unless `credentials.baseUrl` says otherwise: without a slash at the end.
    pub base_url: fn(&Options) -> Result<String, Unusable>,
    /// What follows the base.
    pub path: fn(&Input<'_>) -> String,
    /// Header, what stands before the credential, and the members of `credentials` that may hold it.
    pub auth: (&'static str, &'static str, &'static [&'static str]),
    /// More headers.
    pub headers: fn(&Options) -> Vec<(&'static str, String)>,
    /// Unless `timeout` says otherwise, in milliseconds.
    pub timeout: u64,
    pub body: fn(&Input<'_>) -> Value,
    /// Reads the response. `Err`: what it lacks.
    pub read: fn(&Input<'_>, &Value) -> Result<PartnerOutcome, String>,
    /// Whether it replaces texts with these parameters.
    pub redacts: fn(&Options) -> bool,
    /// How many texts one call takes where it redacts.
    pub per_call: usize,
}

/// The parameters of a check, kept.
pub struct Options(Map<String, Value>);

/// What one call is about.
pub struct Input<'a> {
    pub options: &'a Options,
    pub subject: &'a Subject,
    /// The text that is judged, or some of all texts.
    pub texts: &'a [&'a str],
}

/// What a partner decided on one call.
#[derive(Debug)]
pub(crate) struct PartnerOutcome {
    pub verdict: bool,
    pub data: Value,
    /// New texts in the order of those that were sent; empty: none changes.
    pub texts: Vec<Option<String>>,
}

impl PartnerOutcome {
    pub fn of(verdict: bool, data: Value) -> Self {
        Self { verdict, data, texts: Vec::new() }
    }
}

impl Options {
    pub fn new(parameters: &Parameters<'_>) -> Self {
        Self(parameters.members.clone())
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    pub fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    /// A list of texts, or one; empty where absent.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        match self.get(name) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            value => value.and_then(Value::as_str).into_iter().collect(),
        }
    }

    /// The first of these members of `credentials`, or of an object in it, that is a text.
    pub fn credential(&self, names: &[&str]) -> Option<&str> {
        let credentials = self.get("credentials")?.as_object()?;
        let inner = credentials.values().filter_map(Value::as_object);
        let mut places = std::iter::once(credentials).chain(inner);
        places.find_map(|place| {
            names.iter().find_map(|name| place.get(*name)?.as_str().filter(|text| !text.is_empty()))
        })
    }

    /// A member of `credentials` that must be there.
    pub(crate) fn required_credential(&self, names: &[&'static str]) -> Result<&str, Unusable> {
        let name = names.first().copied().unwrap_or_default();
        let missing = || Unusable::new("credentials", format!("'parameters.credentials.{name}' must be set"));
        self.credential(names).ok_or_else(missing)
    }
}

impl<'a> Input<'a> {
    pub fn text(&self) -> &'a str {
        self.texts.first().copied().unwrap_or_default()
    }

    pub(crate) fn is_request(&self) -> bool {
        self.subject.phase == HookPhase::Before
    }

    /// One of two, by what is judged.
    pub fn pick<T>(&self, request: T, response: T) -> T {
        if self.is_request() { request } else { response }
    }

    /// The messages of the request with their texts, and of a response its text as one of the assistant.
    pub fn messages(&self) -> Vec<Value> {
        let mut messages = request_messages(self.subject);
        if !self.is_request() {
            messages.push(json!({"role": "assistant", "content": self.text()}));
        } else if messages.is_empty() {
            messages.push(json!({"role": "user", "content": self.text()}));
        }
        messages
    }

    /// What the request asks of the model: the text of its last message.
    pub fn prompt(&self) -> String {
        if self.is_request() {
            self.text().to_owned()
        } else {
            request_messages(self.subject)
                .last()
                .and_then(|message| message.get("content")?.as_str().map(str::to_owned))
                .or_else(|| self.subject.request.get().get("prompt")?.as_str().map(str::to_owned))
                .unwrap_or_default()
        }
    }
}

/// Role and text of each message of a request.
fn request_messages(subject: &Subject) -> Vec<Value> {
    let messages = subject.request.get().get("messages").and_then(Value::as_array);
    let plain = |message: &Value| {
        let content = content_text(message.get("content")?);
        Some(json!({"role": message.get("role")?, "content": content}))
    };
    messages.into_iter().flatten().filter_map(plain).collect()
}

/// The text of a message's content, of its parts joined with newlines.
pub(crate) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// A partner's check with its parameters.
pub struct Call {
    partner: &'static Partner,
    options: Options,
    base_url: String,
    headers: HeaderMap,
    timeout: Duration,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("partner", &self.partner.name).finish_non_exhaustive()
    }
}

/// Prepares the check of a row.
pub fn prepare(partner: &'static Partner, parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let options = Options::new(parameters);
    let base_url = base_url(&options, partner.base_url)?;
    let (header, scheme, members) = partner.auth;
    let mut headers = outgoing::json_headers();
    let credential = options.required_credential(members)?;
    insert(&mut headers, header, &format!("{scheme}{credential}"))?;
    for (name, value) in (partner.headers)(&options) {
        insert(&mut headers, name, &value)?;
    }
    let timeout = outgoing::timeout(parameters, Duration::from_millis(partner.timeout));
    Ok(Prepared::Remote(Box::new(Call { partner, options, base_url, headers, timeout })))
}

/// `credentials.baseUrl`, or the partner's own.
pub fn base_url(
    options: &Options,
    default: impl Fn(&Options) -> Result<String, Unusable>,
) -> Result<String, Unusable> {
    let base = match options.credential(&["baseUrl", "baseURL", "customHost"]) {
        Some(base) => base.to_owned(),
        None => default(options)?,
    };
    Ok(base.trim_end_matches('/').to_owned())
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) -> Result<(), Unusable> {
    let invalid =
        || Unusable::new("credentials", format!("the value for the header {name} has invalid characters"));
    let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
    value.set_sensitive(true);
    headers.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// Why a check could not decide.
pub fn failure(name: &str, message: impl Into<String>) -> CheckError {
    CheckError { name: name.to_owned(), message: message.into() }
}

/// The finding, or one that says why there is none.
pub(crate) fn undecided(decided: Result<Finding, CheckError>) -> Finding {
    decided.unwrap_or_else(|error| Finding { error: Some(error), ..Finding::default() })
}

/// Sends JSON and reads the JSON that comes back.
///
/// # Errors
/// Why the check cannot decide.
pub async fn exchange(
    partner: &str,
    call: OutsideCall<'_>,
    outside: &dyn Outside,
) -> Result<Value, CheckError> {
    let response = outside.call(call).await.map_err(|error| match error {
        OutsideError::Refused(message) => failure("Error", format!("{partner} may not be called: {message}")),
        OutsideError::TimedOut => failure("TimeoutError", format!("{partner} did not respond in time")),
        OutsideError::Failed(message) => failure("Error", format!("{partner} cannot be reached: {message}")),
    })?;
    if !response.status.is_success() {
        let status = response.status.as_u16();
        return Err(failure("HttpError", format!("{partner} responded with status {status}")));
    }
    serde_json::from_slice(&response.body)
        .map_err(|_| failure("Error", format!("the response of {partner} is no JSON")))
}

impl Call {
    async fn decide(&self, subject: &Subject, outside: &dyn Outside) -> Result<Finding, CheckError> {
        let redacts = self.may_change();
        let all: Vec<&str> = if redacts {
            subject.texts.iter().map(|text| text.text.as_str()).collect()
        } else {
            subject.text().into_iter().collect()
        };
        // Partners refuse empty texts.
        let sent: Vec<(usize, &str)> =
            all.iter().copied().enumerate().filter(|(_, text)| !text.trim().is_empty()).collect();
        if sent.is_empty() {
            return Err(failure("Error", "request or response text is empty"));
        }
        let size = if redacts { self.partner.per_call } else { 1 };
        if sent.len().div_ceil(size) > MAX_CALLS {
            let most = MAX_CALLS * size;
            return Err(failure(
                "Error",
                format!("more than {most} texts, which is too much for {}", self.partner.name),
            ));
        }
        let mut verdict = true;
        let mut data = Vec::new();
        let mut texts = vec![None; all.len()];
        for chunk in sent.chunks(size) {
            let input_texts: Vec<&str> = chunk.iter().map(|(_, text)| *text).collect();
            let input = Input { options: &self.options, subject, texts: &input_texts };
            let outcome = self.call(&input, outside).await?;
            verdict &= outcome.verdict;
            data.push(outcome.data);
            for ((index, old), new) in chunk.iter().zip(outcome.texts) {
                if let Some(text) = texts.get_mut(*index) {
                    *text = new.filter(|new| new != old);
                }
            }
        }
        let data = if data.len() == 1 { data.remove(0) } else { Value::Array(data) };
        let finding = Finding::of(verdict, data);
        if texts.iter().any(Option::is_some) {
            Ok(finding.with_change(Change::Texts(texts)))
        } else {
            Ok(finding)
        }
    }

    async fn call(&self, input: &Input<'_>, outside: &dyn Outside) -> Result<PartnerOutcome, CheckError> {
        let partner = self.partner;
        let url = format!("{}{}", self.base_url, (partner.path)(input));
        let call = OutsideCall {
            method: Method::POST,
            url: &url,
            headers: self.headers.clone(),
            body: Bytes::from((partner.body)(input).to_string()),
            max_bytes: MAX_BYTES,
            timeout: self.timeout,
        };
        let response = exchange(partner.name, call, outside).await?;
        let unreadable =
            |lack: String| failure("Error", format!("the response of {} has no {lack}", partner.name));
        (partner.read)(input, &response).map_err(unreadable)
    }
}

impl RemoteCheck for Call {
    fn run<'a>(&'a self, subject: &'a Subject, outside: &'a dyn Outside) -> BoxFuture<'a, Finding> {
        async move { undecided(self.decide(subject, outside).await) }.boxed()
    }

    fn may_change(&self) -> bool {
        (self.partner.redacts)(&self.options)
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.timeout)
    }
}

/// The member of a response that decides, by the path of its names.
pub fn member<'a>(response: &'a Value, path: &[&str]) -> Result<&'a Value, String> {
    let found = path.iter().try_fold(response, |value, name| match name.parse::<usize>() {
        Ok(index) => value.get(index),
        Err(_) => value.get(name),
    });
    found.ok_or_else(|| format!("`{}`", path.join(".")))
}

pub fn flag(response: &Value, path: &[&str]) -> Result<bool, String> {
    member(response, path)?.as_bool().ok_or_else(|| format!("`{}`", path.join(".")))
}

pub fn text<'a>(response: &'a Value, path: &[&str]) -> Result<&'a str, String> {
    member(response, path)?.as_str().ok_or_else(|| format!("`{}`", path.join(".")))
}

/// The texts with ranges of characters replaced, from the last to the first.
pub fn replaced(text: &str, mut ranges: Vec<(usize, usize, String)>) -> String {
    ranges.sort_by_key(|range| range.0);
    let mut characters = text.chars();
    let mut replaced = String::with_capacity(text.len());
    let mut position = 0;
    for (start, end, replacement) in ranges {
        if start < position || end <= start {
            continue;
        }
        replaced.extend(characters.by_ref().take(start - position));
        replaced.push_str(&replacement);
        characters.by_ref().take(end - start).for_each(drop);
        position = end;
    }
    replaced.extend(characters);
    replaced
}

/// `redact` of parameters.
pub(crate) fn by_redact(options: &Options) -> bool {
    options.flag("redact")
}

/// Nothing is replaced.
pub fn never(_: &Options) -> bool {
    false
}

pub(crate) fn no_headers(_: &Options) -> Vec<(&'static str, String)> {
    Vec::new()
}
