//! A chat request as the body of `generateContent`.

use super::content::{Content, PartOut, turns};
use super::model::Model;
use super::{Gemini, config, tools};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::vendor_members::VendorMembers;
use crate::provider::web_tools::drop_settings;
use http::{HeaderName, HeaderValue};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use words::api::chat::{ChatRequest, Params};
use words::error::Error;
use words::json::Json;

/// The body of `generateContent`.
struct BodyOut<'a> {
    system: Vec<PartOut<'a>>,
    contents: Vec<Content<'a>>,
    tools: Vec<Json<'a>>,
    tool_config: Option<Json<'a>>,
    config: Params<'a>,
    /// Members that pass unchanged.
    rest: Params<'a>,
}

/// Writes the body.
///
/// # Errors
/// 400 that names the `param`.
pub(super) fn write(
    request: ChatRequest<'_>,
    gemini: Gemini,
    model: Model,
    notes: &mut TranslationNotes,
) -> Result<Vec<u8>, Error> {
    let body = body(request, gemini, model, notes)?;
    written(&body)
}

/// Writes the body of `countTokens`: on Vertex AI only what is counted, at Google the whole request in a
/// member.
///
/// # Errors
/// As [`write`].
pub(super) fn write_count(
    request: ChatRequest<'_>,
    gemini: Gemini,
    name: &str,
    notes: &mut TranslationNotes,
) -> Result<Vec<u8>, Error> {
    let mut body = body(request, gemini, Model::from_name(name), notes)?;
    if gemini.is_vertex() {
        (body.config, body.tool_config, body.rest) = (Params::default(), None, Params::default());
        return written(&body);
    }
    let name = format!("models/{}", name.rsplit('/').next().unwrap_or(name));
    body.rest.set("model", Json::from_value(&name));
    written(&CountOut { generate_content_request: body })
}

fn written<T: Serialize>(body: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(|_| Error::internal("a Gemini request could not be written"))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CountOut<'a> {
    generate_content_request: BodyOut<'a>,
}

fn body<'a>(
    mut request: ChatRequest<'a>,
    gemini: Gemini,
    model: Model,
    notes: &mut TranslationNotes,
) -> Result<BodyOut<'a>, Error> {
    if request.has_cache_marks() {
        notes.warn(request.mark_name.as_str(), "dropped, Gemini caches by itself; see cached_content");
    }
    if request.has_citations() {
        notes.drop_param("citations", gemini.provider());
    }
    let config = config::config(&mut request, gemini, model, notes)?;
    if request.parallel_tool_calls == Some(false) {
        notes.drop_param("parallel_tool_calls", gemini.provider());
    }
    service_tier(&mut request.params, gemini, notes);
    let search = request.params.take("web_search_options");
    let own = request.params.take("tool_config").or_else(|| request.params.take("toolConfig"));
    let mut offer = tools::offer(request.tools, request.tool_choice, own.as_ref(), gemini, notes);
    if let Some(options) = search {
        drop_settings(&options, "web_search_options", &[], gemini.provider(), notes)?;
        offer.tools.push(Json::object(&[("googleSearch", Json::empty_object())]));
    }
    let turns = turns(request.messages, gemini, model, notes)?;
    if turns.has_server_tools {
        offer.config = Some(with_server_tools(offer.config));
    }
    let rest = notes.filter_params(request.params, gemini.provider(), &VendorMembers::GEMINI)?;
    let mut body = BodyOut {
        system: turns.system,
        contents: turns.contents,
        tools: offer.tools,
        tool_config: offer.config,
        config,
        rest: Params::default(),
    };
    body.rest = notes.leave_out_written(rest, |name| body.writes(name));
    Ok(body)
}

/// The tiers that OpenAI and Google have in common: a member at Google, a header on Vertex.
/// Sources: <https://ai.google.dev/gemini-api/docs/priority-inference>,
/// <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/priority-paygo>.
fn service_tier(params: &mut Params<'_>, gemini: Gemini, notes: &mut TranslationNotes) {
    let Some(tier) = params.get("service_tier").and_then(Json::text).map(|tier| tier.into_owned()) else {
        return;
    };
    match (tier.as_str(), gemini) {
        ("auto" | "default" | "standard", _) => {}
        ("flex" | "priority", Gemini::Studio) => params.set("serviceTier", Json::from_value(&tier)),
        ("flex" | "priority", Gemini::Vertex) => {
            let value = if tier == "flex" { "flex" } else { "priority" };
            let name = HeaderName::from_static("x-vertex-ai-llm-shared-request-type");
            notes.headers.insert(name, HeaderValue::from_static(value));
        }
        // Another provider's tier: dropped with a warning, as at every provider.
        _ => return,
    }
    params.take("service_tier");
}

/// Google accepts calls of its own tools in the history only with this member.
fn with_server_tools<'a>(config: Option<Json<'a>>) -> Json<'a> {
    let name = "includeServerSideToolInvocations";
    let members = config.as_ref().and_then(|config| Json::members(config.get())).unwrap_or_default();
    let mut members: Vec<(&str, Json<'_>)> =
        members.iter().map(|(name, json)| (name.as_ref(), json.clone())).collect();
    if !members.iter().any(|(member, _)| *member == name) {
        members.push((name, Json::from_value(&true)));
    }
    Json::object(&members)
}

#[derive(Serialize)]
struct System<'a, 'b> {
    parts: &'b [PartOut<'a>],
}

impl BodyOut<'_> {
    /// Whether it has a member of this name, in either spelling, before the rest.
    fn writes(&self, name: &str) -> bool {
        match config::camel(name).as_str() {
            "contents" => true,
            "systemInstruction" => !self.system.is_empty(),
            "tools" => !self.tools.is_empty(),
            "toolConfig" => self.tool_config.is_some(),
            "generationConfig" => !self.config.is_empty(),
            _ => false,
        }
    }
}

impl Serialize for BodyOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("contents", &self.contents)?;
        if !self.system.is_empty() {
            map.serialize_entry("systemInstruction", &System { parts: &self.system })?;
        }
        if !self.tools.is_empty() {
            map.serialize_entry("tools", &self.tools)?;
        }
        if let Some(config) = &self.tool_config {
            map.serialize_entry("toolConfig", config)?;
        }
        if !self.config.is_empty() {
            map.serialize_entry("generationConfig", &Members(&self.config))?;
        }
        for (name, json) in self.rest.iter() {
            map.serialize_entry(name, json)?;
        }
        map.end()
    }
}

struct Members<'a, 'b>(&'b Params<'a>);

impl Serialize for Members<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter())
    }
}
