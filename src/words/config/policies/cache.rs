//! `cache`: whether responses are cached, and for how long.
//!
//! Not here: where they are kept (`settings::cache`), and what is never cached (`engine::caching`).

use super::{DescribeContext, Policies, PolicyKey, inherit_value};
use crate::config::members::{self, Choice, Form, MemberTable, MemberType as _, SHARE, form, whole};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const KEY: PolicyKey = PolicyKey {
    enough: &["cache"],
    members: |policies, table| {
        let doc = "Whether responses are cached; the mode alone is short for an object with it.";
        policies.cache = table.get("cache", CACHE, doc);
    },
    inherit: |policies, above| inherit_value(&mut policies.cache, &above.cache),
    describe: Some(describe),
    ..PolicyKey::NONE
};

const MODES: Choice<CacheMode> = Choice(&[("simple", CacheMode::Simple), ("semantic", CacheMode::Semantic)]);
const MODES_DOC: &str = "Identical requests, or similar ones too.";
const REPLAYS: Choice<Replay> = Choice(&[("at_once", Replay::AtOnce), ("paced", Replay::Paced)]);

/// A mode, or an object.
const CACHE: Form<Cache> = form(
    |at| match at.node.as_text() {
        Some(_) => MODES.read(at).map(Cache::new),
        None => members::read(at, Cache::members),
    },
    |doc| {
        let whole = members::schema("Whether responses are cached (docs/cache.md).", Cache::members);
        json!({"anyOf": [MODES.schema(MODES_DOC), whole], "description": doc})
    },
);

/// `cache` of a config.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cache {
    pub mode: CacheMode,
    /// Seconds. `None`: as the settings say.
    pub max_age: Option<u64>,
    /// How streams come out of the cache.
    pub replay: Replay,
    /// The least similarity for `semantic`, from 0 to 1. `None`: as the settings say.
    pub threshold: Option<f64>,
}

/// Whether the cache serves only identical requests (`Simple`) or also those of similar meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheMode {
    Simple,
    Semantic,
}

/// How a stream from the cache is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replay {
    #[default]
    AtOnce,
    /// As fast as the provider sent it.
    Paced,
}

impl Cache {
    /// The mode alone, everything else as the settings say.
    pub const fn new(mode: CacheMode) -> Self {
        Self { mode, max_age: None, replay: Replay::AtOnce, threshold: None }
    }

    /// For how long a response is kept; `default` where the config does not say.
    pub fn max_age(&self, default: Duration) -> Duration {
        self.max_age.map_or(default, Duration::from_secs)
    }

    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let max_age = "How long a response is kept, seconds. Default: the settings' cache.max_age.";
        let replay = "How a stream comes out of the cache: at once, or as fast as it came in.";
        let threshold =
            "For semantic: the least cosine similarity. Default: the settings' semantic_cache.threshold.";
        let mode = table.needed("mode", MODES, MODES_DOC);
        let max_age = table.get("max_age", whole(0, i64::MAX), max_age);
        let replay = table.or("replay", REPLAYS, Replay::AtOnce, replay);
        let threshold = table.get("threshold", SHARE, threshold);
        Some(Self { mode: mode?, max_age, replay, threshold })
    }
}

impl CacheMode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Semantic => "semantic",
        }
    }
}

fn describe(policies: &Policies, _: &DescribeContext) -> (&'static str, Value) {
    let value = policies.cache.map(|cache| {
        let replay = if cache.replay == Replay::Paced { "paced" } else { "at_once" };
        json!({"mode": cache.mode.as_str(), "max_age": cache.max_age, "replay": replay, "threshold": cache.threshold})
    });
    ("cache", value.unwrap_or_default())
}
