//! A response in the cache: as its provider sent it, with what is needed to replay it and to decide whether that is allowed.
//!
//! Each client's own decoder and encoder read it again, so that one entry serves clients of every dialect, streamed or whole. Not here: where it is
//! kept (`store`), and what its key is made of (`key`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use jiff::Timestamp;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// A digest of everything that the response depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey(pub [u8; 32]);

/// The group that an entry belongs to; a group is purged as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// As [`Scope::workspace`] gives it. Nil: of clients without a workspace.
    pub workspace: Uuid,
    pub namespace: Option<Arc<str>>,
}

impl Scope {
    /// Stands for the default workspace in every scope, because its id differs between the stores of gateways.
    const DEFAULT_WORKSPACE: Uuid = Uuid::from_u128(1);

    /// The workspace of a scope. `default`: the id of the store's default workspace.
    pub fn workspace(workspace: Option<Uuid>, default: Option<Uuid>) -> Uuid {
        match workspace {
            Some(_) if workspace == default => Self::DEFAULT_WORKSPACE,
            workspace => workspace.unwrap_or_default(),
        }
    }
}

/// A response as its provider sent it.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedResponse {
    pub scope: Scope,
    /// The body is a stream of events, not one document.
    pub streamed: bool,
    /// The provider's `content-type`.
    pub content_type: Arc<str>,
    /// As the provider sent it, not compressed.
    pub body: Bytes,
    /// When parts of a streamed body arrived: the end of the part in bytes, and milliseconds since the first one.
    pub pace: Arc<[(u32, u32)]>,
    pub stored_at: Timestamp,
    pub expires_at: Timestamp,
    /// What a hit saves: tokens, and nanodollars where it has a price.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost: Option<u64>,
}

impl CacheKey {
    /// Reads what [`CacheKey`] prints.
    pub fn parse(text: &str) -> Option<Self> {
        let mut key = [0; 32];
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut key).ok()?;
        (length == key.len()).then_some(Self(key))
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl CachedResponse {
    /// For how long it has been stored, in whole seconds.
    pub fn age(&self, now: Timestamp) -> u64 {
        u64::try_from(now.duration_since(self.stored_at).as_secs()).unwrap_or_default()
    }
}
