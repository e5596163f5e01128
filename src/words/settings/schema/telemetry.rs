//! The schema of `telemetry`.

use crate::json::schema::{flag, integer, non_empty, object, or, pattern};
use serde_json::{Value, json};

pub(super) fn section() -> Value {
    let url = pattern(
        "OTLP over HTTP; /v1/traces is added where the URL has no path.",
        "^https?://.+|^\\$\\{.+\\}$|^credential:.+",
        &["http://127.0.0.1:4318"],
    );
    let headers = json!({
        "type": "object",
        "description": "Sent with every request to the collector.",
        "additionalProperties": {"type": "string"},
    });
    let share = json!({
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "The share of traces that are sent, where traceparent does not decide.",
    });
    let otlp = object(
        "The collector that gets a span of each request and attempt.",
        &["endpoint"],
        vec![
            ("endpoint", url),
            ("headers", headers),
            ("sample", or(share, 1.0)),
            ("service_name", or(non_empty("service.name of the resource."), "turnpike")),
            (
                "payloads",
                or(flag("Whether spans of requests have the bodies of request and response."), false),
            ),
            (
                "max_payload_bytes",
                or(integer("How much of each body they have, bytes.", 1, Some(65_536)), 8_192),
            ),
        ],
    );
    object("Traces (docs/telemetry.md).", &[], vec![("otlp", otlp)])
}
