//! `cache`: whether responses are cached, and for how long.
//!
//! Not here: where they are kept (`settings::cache`), and what is never cached (`engine::caching`).

use super::{DescribeContext, Policies, PolicyKey, inherit_value};
use crate::config::read::Cursor;
use crate::json::schema::{integer, object, one_of, or};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const KEY: PolicyKey = PolicyKey {
    names: &["cache"],
    is_enough: true,
    read: |policies, fields| policies.cache = fields.get(&["cache"]).and_then(|at| Cache::read(&at)),
    schema: |_| schema(),
    inherit: |policies, above| inherit_value(&mut policies.cache, &above.cache),
    describe: Some(describe),
    ..PolicyKey::NONE
};

const MODES: [(&str, CacheMode); 2] = [("simple", CacheMode::Simple), ("semantic", CacheMode::Semantic)];
const REPLAYS: [(&str, Replay); 2] = [("at_once", Replay::AtOnce), ("paced", Replay::Paced)];

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

    fn read(at: &Cursor<'_>) -> Option<Self> {
        // The short form: `"cache": "simple"`.
        if at.node.as_text().is_some() {
            return at.one_of(&MODES).map(Self::new);
        }
        let mut fields = at.fields()?;
        let mode = fields.required(&["mode"]).and_then(|at| at.one_of(&MODES));
        let max_age = fields.get(&["max_age"]).and_then(|at| at.integer_within(0, i64::MAX));
        let replay = fields.get(&["replay"]).and_then(|at| at.one_of(&REPLAYS)).unwrap_or_default();
        let threshold = fields.get(&["threshold"]).and_then(|at| {
            let number = at.number()?;
            if !(0.0..=1.0).contains(&number) {
                at.problem("must be a number from 0 to 1");
                return None;
            }
            Some(number)
        });
        fields.reject_unknown(&["mode", "max_age", "replay", "threshold"]);
        let max_age = max_age.and_then(|seconds| seconds.try_into().ok());
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

fn schema() -> Value {
    let modes = one_of("Identical requests, or similar ones too.", MODES.map(|(name, _)| name));
    let max_age = "How long a response is kept, seconds. Default: the settings' cache.max_age.";
    let replay = "How a stream comes out of the cache: at once, or as fast as it came in.";
    let threshold = json!({
        "type": "number", "minimum": 0, "maximum": 1,
        "description": "For semantic: the least cosine similarity. Default: the settings' semantic_cache.threshold.",
    });
    let whole = object(
        "Whether responses are cached (docs/cache.md).",
        &["mode"],
        vec![
            ("mode", modes.clone()),
            ("max_age", integer(max_age, 0, None)),
            ("replay", or(one_of(replay, REPLAYS.map(|(name, _)| name)), "at_once")),
            ("threshold", threshold),
        ],
    );
    json!({"anyOf": [modes, whole], "description": "Whether responses are cached; the mode alone is short for an object with it."})
}

fn describe(policies: &Policies, _: &DescribeContext) -> (&'static str, Value) {
    let value = policies.cache.map(|cache| {
        let replay = if cache.replay == Replay::Paced { "paced" } else { "at_once" };
        json!({"mode": cache.mode.as_str(), "max_age": cache.max_age, "replay": replay, "threshold": cache.threshold})
    });
    ("cache", value.unwrap_or_default())
}
