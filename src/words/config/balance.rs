//! The load-balancing part of a strategy as written: by weight, measured latency, price, the beginning of the prompt or the load,
//! and stickiness.
//!
//! Not here: the choice itself (`route::pick`).

use super::headers::observable;
use super::members::{AtLeast, FLAG, Form, MemberTable, form, whole};
use super::read::Cursor;
use crate::json::schema::pattern;
use serde_json::json;

/// `strategy.by`, a key of our own: the criterion in `loadbalance` mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BalanceBy {
    /// The targets' weights.
    #[default]
    Weight,
    /// Draws two targets by weight and takes the one with the lower recent time to first token.
    LeastLatency,
    /// The lowest price per token.
    Price,
    /// Where the beginning of the request was last sent, so that the cache of its prompt is used.
    Prefix,
    /// The fewest attempts under way for its weight.
    LeastBusy,
}

impl BalanceBy {
    pub const VARIANTS: [(&'static str, Self); 5] = [
        ("weight", Self::Weight),
        ("least_latency", Self::LeastLatency),
        ("price", Self::Price),
        ("prefix", Self::Prefix),
        ("least_busy", Self::LeastBusy),
    ];
}

/// `strategy.sticky`: the same client is sent to the same target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sticky {
    /// What identifies a client in addition to its service key: `metadata.x.y`, `params.x.y`, `headers.x`.
    pub hash_fields: Vec<String>,
    /// Seconds, at least 1.
    pub ttl: u64,
}

/// `price` of a target, US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
}

/// Seconds a choice is kept when the config gives no `ttl`.
const DEFAULT_STICKY_TTL: u64 = 300;

/// Maximum number of `hash_fields`: each may be a walk through the whole body.
const MAX_HASH_FIELDS: usize = 16;

impl Sticky {
    /// `Some(None)`: present but not enabled.
    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Option<Self>> {
        let fields = "What identifies a client besides its service key.";
        let enabled = table.needed("enabled", FLAG, "Whether it is on.");
        let hash_fields = table.get("hash_fields", HASH_FIELDS, fields).unwrap_or_default();
        let ttl = table.or("ttl", whole(1, 31_536_000), DEFAULT_STICKY_TTL, "Seconds.");
        Some(enabled?.then_some(Self { hash_fields, ttl }))
    }
}

const HASH_FIELDS: Form<Vec<String>> = form(hash_fields, |doc| {
    let field = pattern("A value of the request.", r"^(metadata|params|headers)\..", &["metadata.user"]);
    json!({"type": "array", "maxItems": MAX_HASH_FIELDS, "items": field, "description": doc})
});

fn hash_fields(at: &Cursor<'_>) -> Option<Vec<String>> {
    let names_a_field = |name: &str| {
        ["metadata.", "params.", "headers."]
            .iter()
            .any(|from| name.len() > from.len() && name.starts_with(from))
    };
    let field = |item: &Cursor<'_>| {
        let name = item.text()?;
        if !names_a_field(name) {
            item.problem("must begin with metadata., params. or headers. and name a field");
            return None;
        }
        if let Some(Err(message)) = name.strip_prefix("headers.").map(observable) {
            item.problem(message);
            return None;
        }
        Some(name.to_owned())
    };
    let items = at.list()?;
    if items.len() > MAX_HASH_FIELDS {
        at.problem(format!("must hold at most {MAX_HASH_FIELDS} fields"));
        return None;
    }
    Some(items.iter().filter_map(field).collect())
}

impl Price {
    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let input = table.needed("input", AtLeast(0.0), "Of the request.");
        let output = table.needed("output", AtLeast(0.0), "Of the response.");
        Some(Self { input: input?, output: output? })
    }
}
