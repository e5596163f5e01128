//! `engine`: a model server of one's own that says how much it has to do. Stored providers have it; no config or header does.
//!
//! Not reading it (`memory::state::engine_loads`), nor the choice by it (`route`).

use super::{Policies, PolicyKey, inherit_value};
use crate::config::members::{Form, MemberTable, Time, default_shown, form, object};
use crate::config::read::Cursor;
use crate::json::schema;
use serde_json::json;
use std::time::Duration;

/// Where and how often it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnginePolicy {
    /// The path of its metrics at the host, from `/` on.
    pub metrics_path: String,
    /// From one time that they are read to the next.
    pub interval: Duration,
}

pub(super) const KEY: PolicyKey = PolicyKey {
    in_provider: Some(members),
    inherit: |policies, above| inherit_value(&mut policies.engine, &above.engine),
    describe: Some(|policies, _| {
        let view = |engine: &EnginePolicy| json!({"metrics_path": engine.metrics_path, "interval_ms": super::millis(engine.interval)});
        ("engine", policies.engine.as_ref().map(view).into())
    }),
    ..PolicyKey::NONE
};

const DEFAULT_PATH: &str = "/metrics";
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL: Time = Time::new(1, 200, 60_000);

fn members(policies: &mut Policies, table: &mut MemberTable<'_>) {
    let doc = "The provider is a model server with metrics of vLLM, SGLang, llama.cpp or TGI: what it has to do is read, and counts where targets are chosen by load. Needs custom_host.";
    policies.engine = table.get("engine", object(EnginePolicy::members), doc);
}

impl EnginePolicy {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let path = "The path of its metrics at the host of custom_host, from / on.";
        let path = table.or("metrics_path", PATH, DEFAULT_PATH.to_owned(), path);
        let interval = "Milliseconds from one time that they are read to the next.";
        let interval = table.get("interval_ms", default_shown(INTERVAL, DEFAULT_INTERVAL), interval);
        Some(Self { metrics_path: path, interval: interval.unwrap_or(DEFAULT_INTERVAL) })
    }
}

const PATH: Form<String> =
    form(path, |doc| schema::pattern(doc, "^/[A-Za-z0-9._~/?&=%-]*$", &[DEFAULT_PATH]))
        .written(|path| Some(path.as_str().into()));

fn path(at: &Cursor<'_>) -> Option<String> {
    let text = at.text()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~/?&=%-".contains(&byte);
    if !text.starts_with('/') || !text.bytes().all(is_plain) {
        at.problem("must be a path from / on, of letters, digits and . _ ~ / ? & = % -");
        return None;
    }
    Some(text.to_owned())
}
