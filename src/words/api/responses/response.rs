//! The Response object around the output: its ids, and the request's settings repeated as OpenAI does.

use super::item::Item;
use crate::api::body::Body;
use crate::api::chat::{EncodeContext, Start};
use crate::api::usage::Usage;
use crate::json::Json;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// What stays the same from a response's first event to its last.
#[derive(Debug)]
pub(super) struct Envelope {
    pub id: String,
    pub created: u64,
    model: String,
    /// The request's settings, each as the client wrote it or with OpenAI's default.
    settings: Vec<(&'static str, Json<'static>)>,
}

/// Settings of the response: name, default, and whether the request's value is repeated. `store`,
/// `background`, `previous_response_id` and `truncation` always have the value that is true for this
/// gateway, whatever the request says.
const SETTINGS: [(&str, &str, bool); 23] = [
    ("background", "false", false),
    ("completed_at", "null", false),
    ("error", "null", false),
    ("frequency_penalty", "0.0", true),
    ("instructions", "null", true),
    ("max_output_tokens", "null", true),
    ("max_tool_calls", "null", true),
    ("metadata", "{}", true),
    ("parallel_tool_calls", "true", true),
    ("presence_penalty", "0.0", true),
    ("previous_response_id", "null", false),
    ("prompt_cache_key", "null", true),
    ("prompt_cache_retention", "null", true),
    ("reasoning", r#"{"effort":null,"summary":null}"#, true),
    ("safety_identifier", "null", true),
    ("store", "false", false),
    ("temperature", "1.0", true),
    ("text", r#"{"format":{"type":"text"},"verbosity":"medium"}"#, true),
    ("tool_choice", r#""auto""#, true),
    ("tools", "[]", true),
    ("top_logprobs", "0", true),
    ("top_p", "1.0", true),
    ("truncation", r#""disabled""#, false),
];

/// The service tiers the API has; another provider's name for one would break clients.
const TIERS: [&str; 7] = ["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"];

impl Envelope {
    pub fn new(context: &EncodeContext) -> Self {
        let request = context.request.as_ref();
        let mut settings: Vec<_> = SETTINGS
            .iter()
            .filter_map(|&(name, default, repeated)| {
                let requested = request.filter(|_| repeated).and_then(|body| requested_setting(body, name));
                Some((name, requested.or_else(|| Json::owned(default.to_owned()))?))
            })
            .collect();
        // OpenAI sends null, which its own specification forbids.
        if let Some(user) = request.and_then(|body| requested_setting(body, "user")) {
            settings.push(("user", user));
        }
        let tier = request.and_then(|body| requested_setting(body, "service_tier")).filter(is_tier);
        settings.push(("service_tier", tier.unwrap_or_else(|| Json::from_value("default"))));
        Self {
            id: format!("resp_{}", context.id),
            created: context.created,
            model: context.model.clone(),
            settings,
        }
    }

    /// Applies what the provider sends about the response. Our id is kept, because item ids are made from
    /// it.
    pub(crate) fn apply_start(&mut self, start: Start<'_>) {
        if let Some(model) = start.model {
            model.clone_into(&mut self.model);
        }
        self.created = start.created.unwrap_or(self.created);
    }
}

fn is_tier(json: &Json<'_>) -> bool {
    json.text().is_some_and(|tier| TIERS.contains(&tier.as_ref()))
}

/// A setting of the request, completed as OpenAI repeats it.
fn requested_setting(request: &Body, name: &str) -> Option<Json<'static>> {
    let text = request.raw(name).filter(|text| *text != "null")?;
    match name {
        "text" => with_defaults(text, &[("format", r#"{"type":"text"}"#), ("verbosity", r#""medium""#)]),
        "reasoning" => with_defaults(text, &[("effort", "null"), ("summary", "null")]),
        "tools" => tools(text),
        _ => Json::owned(text.to_owned()),
    }
}

/// A JSON object with its missing members added.
fn with_defaults(text: &str, defaults: &[(&str, &str)]) -> Option<Json<'static>> {
    let members = Json::members(text)?;
    let is_missing = |name: &str| !members.iter().any(|(key, value)| key == name && !value.is_null());
    let missing = defaults.iter().filter(|(name, _)| is_missing(name)).copied();
    let present = members.iter().filter(|(_, value)| !value.is_null());
    let present = present.map(|(name, value)| (name.as_ref(), value.get()));
    Some(Json::object_of(present.chain(missing)))
}

/// The tools unchanged, except that functions get all their members.
fn tools(text: &str) -> Option<Json<'static>> {
    let list: Vec<Json<'_>> = serde_json::from_str(text).ok()?;
    let mut out = String::with_capacity(text.len() + 32 * list.len());
    out.push('[');
    for (index, tool) in list.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let members = tool.source().and_then(Json::members).unwrap_or_default();
        let kind = members.iter().find(|(name, _)| name == "type").and_then(|(_, value)| value.text());
        let full = (kind.as_deref() == Some("function")).then(|| {
            with_defaults(tool.get(), &[("description", "null"), ("parameters", "null"), ("strict", "false")])
        });
        out.push_str(full.flatten().as_ref().unwrap_or(tool).get());
    }
    out.push(']');
    Json::owned(out)
}

/// The Response object at one moment.
#[derive(Debug)]
pub(super) struct Response<'a> {
    pub envelope: &'a Envelope,
    pub status: &'static str,
    /// Why it was cut off.
    pub incomplete: Option<&'static str>,
    /// Why it failed.
    pub error: Option<FailureOut<'a>>,
    pub output: &'a [Item],
    pub usage: Option<&'a Usage>,
    /// Members of the provider's response that this API does not have.
    pub members: &'a [(String, String)],
}

/// The `error` of a response that failed.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(super) struct FailureOut<'a> {
    pub code: &'a str,
    pub message: &'a str,
}

#[derive(serde::Serialize)]
struct Incomplete {
    reason: &'static str,
}

#[derive(serde::Serialize)]
struct UsageOut {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(serde::Serialize)]
struct InputDetails {
    cache_write_tokens: u64,
    cached_tokens: u64,
}

#[derive(serde::Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl Serialize for Response<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const OWN: [&str; 8] =
            ["id", "object", "created_at", "status", "incomplete_details", "model", "output", "usage"];
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.envelope.id)?;
        map.serialize_entry("object", "response")?;
        map.serialize_entry("created_at", &self.envelope.created)?;
        map.serialize_entry("status", self.status)?;
        map.serialize_entry("incomplete_details", &self.incomplete.map(|reason| Incomplete { reason }))?;
        map.serialize_entry("model", &self.envelope.model)?;
        map.serialize_entry("output", self.output)?;
        let provider_tier = self.members.iter().find(|(name, _)| name == "service_tier");
        let provider_tier = provider_tier.and_then(|(_, json)| Json::parse(json)).filter(is_tier);
        for (name, value) in &self.envelope.settings {
            if let ("error", Some(error)) = (*name, &self.error) {
                map.serialize_entry(name, error)?;
                continue;
            }
            let tier = provider_tier.as_ref().filter(|_| *name == "service_tier");
            map.serialize_entry(name, tier.unwrap_or(value))?;
        }
        if let Some(usage) = self.usage {
            map.serialize_entry("usage", &usage_out(usage))?;
        }
        for (name, json) in self.members {
            let is_written =
                OWN.contains(&name.as_str()) || self.envelope.settings.iter().any(|(key, _)| key == name);
            if let (false, Some(value)) = (is_written, Json::parse(json)) {
                map.serialize_entry(name, &value)?;
            }
        }
        map.end()
    }
}

impl Response<'_> {
    /// The usage as the API writes it, JSON text; `None` where the provider reported none.
    pub(super) fn usage_json(&self) -> Option<Json<'static>> {
        self.usage.map(|usage| Json::from_value(&usage_out(usage)))
    }
}

const fn usage_out(usage: &Usage) -> UsageOut {
    UsageOut {
        input_tokens: usage.input,
        input_tokens_details: InputDetails {
            cache_write_tokens: usage.cache_write,
            cached_tokens: usage.cached,
        },
        output_tokens: usage.output,
        output_tokens_details: OutputDetails { reasoning_tokens: usage.reasoning },
        total_tokens: usage.total,
    }
}
