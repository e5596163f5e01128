//! `telemetry`: where traces are sent.
//!
//! Not here: what a span has (`engine/sinks/spans`), and sending them (`main`). Metrics and logs have no settings here: they are served
//! and written.

use super::values::base_url;
use crate::config::members::{FLAG, Form, MemberTable, NON_EMPTY, SHARE, form, object, whole};
use crate::config::read::Cursor;
use crate::config::secret::Secret;
use crate::json::schema::pattern;
use serde_json::json;

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

const ENDPOINT: Form<String> = form(endpoint, |doc| {
    pattern(doc, "^https?://.+|^\\$\\{.+\\}$|^credential:.+", &["http://127.0.0.1:4318"])
});

const HEADERS: Form<Vec<(String, Secret)>> = form(
    |at| Some(headers(at)),
    |doc| json!({"type": "object", "description": doc, "additionalProperties": {"type": "string"}}),
);

impl Telemetry {
    pub(super) const DOC: &str = "Traces (docs/telemetry.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let otlp = object(Otlp::members);
        Some(Self {
            otlp: table.get("otlp", otlp, "The collector that gets a span of each request and attempt."),
        })
    }
}

impl Otlp {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let endpoint = table.needed(
            "endpoint",
            ENDPOINT,
            "OTLP over HTTP; /v1/traces is added where the URL has no path.",
        );
        let headers = table.get("headers", HEADERS, "Sent with every request to the collector.");
        let sample = table.or(
            "sample",
            SHARE,
            1.0,
            "The share of traces that are sent, where traceparent does not decide.",
        );
        let name = "turnpike".to_owned();
        let service_name = table.or("service_name", NON_EMPTY, name, "service.name of the resource.");
        let payloads = table.or(
            "payloads",
            FLAG,
            false,
            "Whether spans of requests have the bodies of request and response.",
        );
        let max_payload_bytes = table.or(
            "max_payload_bytes",
            whole(1, 64 << 10),
            8 << 10,
            "How much of each body they have, bytes.",
        );
        Some(Self {
            endpoint: endpoint?,
            headers: headers.unwrap_or_default(),
            sample,
            service_name,
            max_payload_bytes: payloads.then_some(max_payload_bytes),
        })
    }
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
