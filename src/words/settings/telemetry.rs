//! `telemetry`: where traces are sent.
//!
//! Not here: what a span has (`engine/sinks/spans`), and sending them (`main`). Metrics and logs have no settings here: they are served
//! and written.

use super::values::{base_url, count, non_empty};
use crate::config::read::{Cursor, ObjectReader};
use crate::config::secret::Secret;

const KEYS: [&str; 6] = ["endpoint", "headers", "sample", "service_name", "payloads", "max_payload_bytes"];

/// `telemetry`; all of it may be absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Telemetry {
    pub otlp: Option<Otlp>,
}

/// A collector that takes OTLP over HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct Otlp {
    /// With its path.
    pub endpoint: String,
    /// Sent with every request: keys of the collector.
    pub headers: Vec<(String, Secret)>,
    /// The share of traces that are sent, of those whose client has not decided; from 0 to 1.
    pub sample: f64,
    pub service_name: String,
    /// The most bytes of a request's and of a response's body that a span has; `None`: spans have no bodies.
    pub max_payload_bytes: Option<usize>,
}

/// How much of a body spans have where the settings do not say.
const PAYLOAD_BYTES: usize = 8 << 10;

/// The most that they may have.
const MAX_PAYLOAD_BYTES: i64 = 64 << 10;

impl Telemetry {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let otlp = fields.get(&["otlp"]).and_then(|at| at.fields()).and_then(otlp);
        fields.reject_unknown(&["otlp"]);
        Self { otlp }
    }
}

fn otlp(mut fields: ObjectReader<'_>) -> Option<Otlp> {
    let endpoint = fields.required(&["endpoint"]).and_then(|at| endpoint(&at));
    let headers = fields.get(&["headers"]).map(|at| headers(&at)).unwrap_or_default();
    let sample = fields.get(&["sample"]).and_then(|at| {
        let share = at.number()?;
        if !(0.0..=1.0).contains(&share) {
            at.problem("must be a number from 0 to 1");
            return None;
        }
        Some(share)
    });
    let service_name = fields.get(&["service_name"]).and_then(|at| non_empty(&at).map(str::to_owned));
    let payloads = fields.flag(&["payloads"]).unwrap_or(false);
    let max_payload_bytes = count(&mut fields, "max_payload_bytes", 1, MAX_PAYLOAD_BYTES);
    fields.reject_unknown(&KEYS);
    Some(Otlp {
        endpoint: endpoint?,
        headers,
        sample: sample.unwrap_or(1.0),
        service_name: service_name.unwrap_or_else(|| "turnpike".to_owned()),
        max_payload_bytes: payloads.then(|| max_payload_bytes.unwrap_or(PAYLOAD_BYTES)),
    })
}

/// The address for traces: `/v1/traces` where the URL has no path, as OTLP says.
fn endpoint(at: &Cursor<'_>) -> Option<String> {
    let text = at.text()?;
    if let Err(why) = base_url(text) {
        at.problem(why);
        return None;
    }
    let mut url = url::Url::parse(text).ok()?;
    if url.path() == "/" {
        url.set_path("/v1/traces");
    }
    Some(url.into())
}

fn headers(at: &Cursor<'_>) -> Vec<(String, Secret)> {
    let entries = at.entries().unwrap_or_default();
    let read = entries.into_iter().filter_map(|(entry, at)| {
        let value = at.text()?;
        let is_valid = http::HeaderName::try_from(entry.name.as_str()).is_ok()
            && http::HeaderValue::try_from(value).is_ok();
        if !is_valid {
            at.problem("must be the name of a header with a text of visible characters");
        }
        is_valid.then(|| (entry.name.clone(), Secret::new(value)))
    });
    read.collect()
}
