//! The key of a response: a digest of everything that the response depends on.
//!
//! | Part | Why |
//! |---|---|
//! | workspace | no response crosses tenants |
//! | provider, origin, account | no response is used for another provider or other credentials. Only their [digest](TargetDigest) is kept |
//! | method, path, body | what is sent, in the provider's own form. Two spellings of the same JSON have one key, and so have a streamed chat and a whole one |
//! | headers | all that the provider gets of the client's, but for those that change no response (`user-agent`, traces and the like) |
//! | namespace, or metadata | a namespace takes the place of metadata and of the client's headers |
//!
//! Pure. Which responses may be cached is `engine::caching`'s.

use super::entry::{CacheKey, Scope};
use crate::net::outbound::origin::Origin;
use http::{HeaderName, HeaderValue};
use ring::digest::{Context, SHA256};
use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use words::config::account::Account;
use words::json::canonical::{self, TooDeep};

/// Changed when keys are computed in another way, so that entries of an older gateway are not found.
const VERSION: &[u8] = b"turnpike cache 3";

/// The longest part that is copied before it is digested, bytes.
const MAX_SHORT: usize = 256;

/// Client headers that are sent to providers and change no response: they are about the connection and the form of the body, which the
/// gateway reads itself, the client's program, retries, traces, and an agent's session. Any other header may be what a provider responds by: `x-user-id`.
///
/// The SDKs of OpenAI and Anthropic send `x-stainless-*` with each call, those of Amazon `amz-sdk-*`, Google's `x-goog-api-client`.
pub(super) const NEUTRAL: [&str; 53] = [
    "accept",
    "accept-encoding",
    "amz-sdk-invocation-id",
    "amz-sdk-request",
    "b3",
    "baggage",
    "cdn-loop",
    "cf-ray",
    "content-encoding",
    "content-length",
    "content-type",
    "conversation_id",
    "date",
    "dnt",
    "elastic-apm-traceparent",
    "expect",
    "fly-request-id",
    "grpc-trace-bin",
    "host",
    "idempotency-key",
    "newrelic",
    "priority",
    "request-id",
    "sentry-trace",
    "session-id",
    "session_id",
    "sw8",
    "traceparent",
    "tracestate",
    "uber-trace-id",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
    "x-amzn-trace-id",
    "x-appgw-trace-id",
    "x-azure-ref",
    "x-claude-code-session-id",
    "x-client-request-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-dynatrace",
    "x-goog-api-client",
    "x-idempotency-key",
    "x-kong-request-id",
    "x-ms-client-request-id",
    "x-ms-useragent",
    "x-request-id",
    "x-request-start",
    "x-span-id",
    "x-timer",
    "x-trace-id",
    "x-varnish",
    "x-vercel-id",
];

/// What the names of such headers begin with.
pub(super) const NEUTRAL_PREFIXES: [&str; 6] =
    ["sec-", "x-b3-", "x-datadog-", "x-envoy-", "x-instana-", "x-stainless-"];

/// What a key has of a target: a digest of its provider, its address and its credentials. It is the same for all requests to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetDigest([u8; 32]);

impl TargetDigest {
    pub fn new(provider: &str, origin: &Origin, account: &Account) -> Self {
        let mut digest = Digest::new();
        digest.part(VERSION);
        digest.part(provider.as_bytes());
        origin.hash(&mut digest);
        account.hash(&mut digest);
        Self(digest.end())
    }
}

/// Everything that a response depends on.
pub struct KeyParts<'a> {
    pub scope: &'a Scope,
    pub target: TargetDigest,
    pub method: &'a str,
    /// Path and query of the upstream request.
    pub path: &'a str,
    /// The client's headers that are sent, but for [neutral](is_neutral) ones, and those that the request to the vendor adds.
    pub headers: Vec<(&'a HeaderName, &'a HeaderValue)>,
    /// The client's metadata, a JSON object. Not with a namespace.
    pub metadata: Option<&'a [u8]>,
    /// The upstream request's, as JSON.
    pub body: &'a [u8],
    /// Whether streamed and whole responses have the same key, because each can be converted to the other.
    pub serves_both: bool,
}

/// Whether a client's header changes no response.
pub fn is_neutral(name: &HeaderName) -> bool {
    let name = name.as_str();
    NEUTRAL.contains(&name) || NEUTRAL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl KeyParts<'_> {
    /// The key. Where streamed and whole responses can be converted, it is the same for both.
    ///
    /// # Errors
    /// A part is nested too deeply to be compared.
    pub fn key(&self) -> Result<CacheKey, TooDeep> {
        let mut digest = self.context();
        let mut text = Vec::with_capacity(self.body.len() + 64);
        let leaves_out = |name: &str| self.serves_both && is_of_streaming(name);
        canonical::write_without(self.body, leaves_out, &mut text)?;
        digest.part(&text);
        self.rest(digest, text)
    }

    /// The key of all requests that differ only in `members` of the body, which are texts that may mean the same. `equal`: what must be
    /// equal of these members.
    ///
    /// # Errors
    /// As [`KeyParts::key`].
    pub fn without(&self, members: &[&str], equal: &[&[u8]]) -> Result<CacheKey, TooDeep> {
        let mut digest = self.context();
        let mut text = Vec::new();
        let leaves_out = |name: &str| members.contains(&name) || is_of_streaming(name);
        canonical::write_without(self.body, leaves_out, &mut text)?;
        digest.part(b"similar");
        digest.part(&text);
        digest.number(equal.len());
        equal.iter().for_each(|part| digest.part(part));
        self.rest(digest, text)
    }

    fn context(&self) -> Digest {
        let mut digest = Digest::new();
        digest.part(&self.target.0);
        digest.part(self.scope.workspace.as_bytes());
        digest.option(self.scope.namespace.as_deref().map(str::as_bytes));
        digest.part(self.method.as_bytes());
        digest.part(whole_path(self.path).as_bytes());
        digest
    }

    fn rest(&self, mut digest: Digest, mut text: Vec<u8>) -> Result<CacheKey, TooDeep> {
        let mut headers = self.headers.clone();
        headers.sort_by(|one, other| {
            (one.0.as_str(), one.1.as_bytes()).cmp(&(other.0.as_str(), other.1.as_bytes()))
        });
        headers.dedup();
        digest.number(headers.len());
        for (name, value) in headers {
            digest.part(name.as_str().as_bytes());
            digest.part(value.as_bytes());
        }
        text.clear();
        match self.metadata {
            Some(metadata) => {
                canonical::write(metadata, &mut text)?;
                digest.option(Some(&text));
            }
            None => digest.option(None),
        }
        Ok(CacheKey(digest.end()))
    }
}

/// Members of bodies that change how the response is sent, but not its content.
fn is_of_streaming(name: &str) -> bool {
    matches!(name, "stream" | "stream_options")
}

/// Some providers have another path for streamed calls. The path for whole responses is used for both.
fn whole_path(path: &str) -> Cow<'_, str> {
    // All of the names below have it.
    if !path.contains("stream") && !path.contains('?') {
        return Cow::Borrowed(path);
    }
    let path = path
        .replace(":streamGenerateContent", ":generateContent")
        .replace(":streamRawPredict", ":rawPredict");
    let path =
        path.replace("/converse-stream", "/converse").replace("/invoke-with-response-stream", "/invoke");
    let Some((path, query)) = path.split_once('?') else { return Cow::Owned(path) };
    let query: Vec<&str> = query.split('&').filter(|pair| *pair != "alt=sse").collect();
    Cow::Owned(if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) })
}

/// A digest of parts. Each is preceded by its length, so that different parts cannot give the same bytes.
struct Digest {
    context: Context,
    /// The parts that are not in it yet: there are dozens of short ones.
    short: Vec<u8>,
}

impl Digest {
    fn new() -> Self {
        Self { context: Context::new(&SHA256), short: Vec::with_capacity(1024) }
    }

    fn part(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        if bytes.len() <= MAX_SHORT {
            return self.short.extend_from_slice(bytes);
        }
        self.context.update(&self.short);
        self.short.clear();
        self.context.update(bytes);
    }

    fn end(mut self) -> [u8; 32] {
        self.context.update(&self.short);
        let mut digest = [0; 32];
        digest.copy_from_slice(self.context.finish().as_ref());
        digest
    }

    fn option(&mut self, bytes: Option<&[u8]>) {
        self.number(usize::from(bytes.is_some()));
        self.part(bytes.unwrap_or_default());
    }

    fn number(&mut self, number: usize) {
        self.short.extend_from_slice(&(number as u64).to_le_bytes());
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.part(bytes);
    }

    /// Not asked for: the digest is longer.
    fn finish(&self) -> u64 {
        0
    }
}
