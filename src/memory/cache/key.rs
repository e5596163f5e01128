//! The key of a response: a digest of all that decides it.
//!
//! | Part | Why |
//! |---|---|
//! | workspace | no response crosses tenants |
//! | provider, origin, account | none crosses providers, or credentials. Of the account only the digest is kept |
//! | method, path, body | what is sent, in the provider's own form. Spellings of the same JSON are one, and whether a chat streams does not matter |
//! | headers | those that change what a model does (`anthropic-beta` and the like), and those that a config forwards |
//! | namespace, or metadata | a namespace takes the place of metadata and of the client's headers |
//!
//! Pure. Which responses may be cached is `engine::caching`'s.

use super::entry::{CacheKey, Scope};
use crate::net::outbound::origin::Origin;
use http::{HeaderName, HeaderValue};
use ring::digest::{Context, SHA256};
use std::hash::{Hash, Hasher};
use words::config::account::Account;
use words::json::canonical::{self, TooDeep};

/// Changes when keys are made otherwise: entries of an older gateway are not found.
const VERSION: &[u8] = b"turnpike cache 1";

/// Client headers that change what a model does.
const DECISIVE: [&str; 4] = ["anthropic-", "openai-", "x-goog-", "x-amz-"];

/// What decides a response.
pub struct KeyParts<'a> {
    pub scope: &'a Scope,
    pub provider: &'static str,
    pub origin: &'a Origin,
    pub account: &'a Account,
    pub method: &'a str,
    /// Path and query of the upstream request.
    pub path: &'a str,
    /// Those of the client that count (see [`is_decisive`]), and the vendor's that the request adds.
    pub headers: Vec<(&'a HeaderName, &'a HeaderValue)>,
    /// The client's metadata, a JSON object. Not with a namespace.
    pub metadata: Option<&'a [u8]>,
    /// The upstream request's, as JSON.
    pub body: &'a [u8],
    /// Whether a stream serves a client that wants no stream, and the other way round: each is made of the other.
    pub serves_both: bool,
}

/// Whether a client's header changes what a model does.
pub fn is_decisive(name: &HeaderName) -> bool {
    DECISIVE.iter().any(|prefix| name.as_str().starts_with(prefix))
}

impl KeyParts<'_> {
    /// The key. Where one response serves both, whether it is a stream or not.
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

    /// The key of all requests that differ in `members` of the body alone: texts that may mean the same. `equal`: what must be equal of these.
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
        let mut digest = Digest(Context::new(&SHA256));
        digest.part(VERSION);
        digest.part(self.scope.workspace.as_bytes());
        digest.option(self.scope.namespace.as_deref().map(str::as_bytes));
        digest.part(self.provider.as_bytes());
        self.origin.hash(&mut digest);
        self.account.hash(&mut digest);
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
        let mut key = CacheKey([0; 32]);
        key.0.copy_from_slice(digest.0.finish().as_ref());
        Ok(key)
    }
}

/// Members of bodies that say how the response is sent, and not what it is.
fn is_of_streaming(name: &str) -> bool {
    matches!(name, "stream" | "stream_options")
}

/// The path of a streamed call is another one at some providers: that of the whole response stands for both.
fn whole_path(path: &str) -> String {
    let path = path
        .replace(":streamGenerateContent", ":generateContent")
        .replace(":streamRawPredict", ":rawPredict");
    let path =
        path.replace("/converse-stream", "/converse").replace("/invoke-with-response-stream", "/invoke");
    let Some((path, query)) = path.split_once('?') else { return path };
    let query: Vec<&str> = query.split('&').filter(|pair| *pair != "alt=sse").collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

/// A digest of parts: each with its length, so that none can be taken for parts of another.
struct Digest(Context);

impl Digest {
    fn part(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.update(bytes);
    }

    fn option(&mut self, bytes: Option<&[u8]>) {
        self.number(usize::from(bytes.is_some()));
        self.part(bytes.unwrap_or_default());
    }

    fn number(&mut self, number: usize) {
        self.0.update(&(number as u64).to_le_bytes());
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
