//! `cache`: whether responses are cached, and for how long (spec "Cache").
//!
//! Checked and inherited; nothing is cached yet.

use super::{Policies, PolicyKey, inherit_value};
use crate::config::read::{Cursor, ObjectReader};

pub(super) const KEY: PolicyKey =
    PolicyKey { names: &["cache"], read, read_headers: None, inherit, describe: None };

/// Spec "Cache".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    pub mode: CacheMode,
    /// Seconds (reference section 17; the spec leaves the unit open).
    pub max_age: Option<u64>,
}

/// Whether the cache serves only identical requests (`Simple`) or also those of similar meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheMode {
    Simple,
    Semantic,
}

impl Cache {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let modes = [("simple", CacheMode::Simple), ("semantic", CacheMode::Semantic)];
        let mode = fields.required(&["mode"]).and_then(|at| at.one_of(&modes));
        let max_age = fields.get(&["max_age"]).and_then(|at| at.integer_within(0, i64::MAX));
        fields.reject_unknown(&["mode", "max_age"]);
        Some(Self { mode: mode?, max_age: max_age.and_then(|seconds| seconds.try_into().ok()) })
    }
}

fn read(policies: &mut Policies, fields: &mut ObjectReader<'_>) {
    policies.cache = fields.get(&["cache"]).and_then(|at| Cache::read(&at));
}

fn inherit(policies: &mut Policies, above: &Policies) {
    inherit_value(&mut policies.cache, &above.cache);
}
