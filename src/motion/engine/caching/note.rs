//! How the cache took part in a request, for its headers, its record and the metrics.
//!
//! Plain data.

use memory::cache::CacheKey;
use words::config::policies::CacheMode;

/// The value of `x-gateway-cache-status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheStatus {
    /// The config caches nothing, or the operation is never cached.
    #[default]
    Disabled,
    Hit,
    SemanticHit,
    Miss,
    SemanticMiss,
    /// The client wanted a new response.
    Refresh,
}

/// Why a response was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStored {
    /// It is no complete response with the status 200.
    Incomplete,
    /// It has an error in it.
    Error,
    /// A guardrail failed, and let it pass.
    Guardrail,
    /// A filter of the provider has withheld it, or a part of it.
    Filtered,
    /// It was made of several attempts.
    Rescued,
    /// It is larger than an entry may be.
    TooLarge,
    /// It is compressed, so its content is not known.
    Compressed,
    /// It is no result of the operation: a page, or an object without what the operation makes.
    NoResult,
    /// The config keeps nothing (`max_age: 0`).
    MaxAge,
    /// A limit changed the request.
    Changed,
    /// While it was under way, entries that it would be one of were purged, or a newer response was stored.
    Outdated,
}

/// How the cache took part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheNote {
    pub status: CacheStatus,
    pub mode: Option<CacheMode>,
    /// What the response is found by.
    pub key: Option<CacheKey>,
    /// The key under which a request of the same meaning stored it.
    pub origin: Option<CacheKey>,
    /// For how long the response had been stored, seconds.
    pub age: Option<u64>,
    /// The response was read from the upstream call of another request.
    pub is_shared: bool,
    /// What the provider was not paid for.
    pub saved: Saved,
    /// Whether the response was stored, and if not, why. `None`: it was not meant to be stored.
    pub stored: Option<Result<(), NotStored>>,
}

/// What a hit saves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saved {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Nanodollars, where there is a price.
    pub cost: Option<u64>,
}

impl CacheStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "DISABLED",
            Self::Hit => "HIT",
            Self::SemanticHit => "SEMANTIC HIT",
            Self::Miss => "MISS",
            Self::SemanticMiss => "SEMANTIC MISS",
            Self::Refresh => "REFRESH",
        }
    }

    /// Whether the response came from the cache, or from another request's call.
    pub(crate) const fn is_hit(self) -> bool {
        matches!(self, Self::Hit | Self::SemanticHit)
    }
}

impl NotStored {
    /// As the access line and the metrics name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Error => "error",
            Self::Guardrail => "guardrail",
            Self::Filtered => "filtered",
            Self::Rescued => "rescued",
            Self::TooLarge => "too_large",
            Self::Compressed => "compressed",
            Self::NoResult => "no_result",
            Self::MaxAge => "max_age",
            Self::Changed => "changed",
            Self::Outdated => "outdated",
        }
    }
}
