//! Writes the body of a chat request in Anthropic's format, using the other files of this folder.
//!
//! Parameters that Anthropic does not have are handled by [`TranslationNotes::filter_params`]; those that are
//! not OpenAI's pass (`mcp_servers`, `container`, `context_management`, `cache_control`, `speed`).

use super::blocks::Blocks;
use super::chat::AnthropicChat;
use super::format::{self, Format};
use super::generation::Generation;
use super::thinking::{self, Thinking};
use super::tools::{Offer, Place as ToolPlace, choose, is_forced};
use super::turns::Turns;
use super::{betas, blocks, sampling};
use crate::provider::adapter::CallTarget;
use crate::provider::translation_notes::TranslationNotes;
use http::HeaderValue;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::borrow::Cow;
use words::api::chat::{ChatRequest, Params};
use words::config::account::Account;
use words::error::Error;
use words::json::{Json, JsonStr};

/// The body, in the order in which it is written.
struct Body<'a> {
    model: Option<&'a str>,
    version: Option<Cow<'a, str>>,
    max_tokens: Json<'a>,
    stream: bool,
    turns: Turns<'a>,
    tools: Vec<Offer<'a>>,
    tool_choice: Option<Json<'a>>,
    stop: Vec<Cow<'a, str>>,
    thinking: Option<Json<'a>>,
    output_config: Params<'a>,
    metadata: Option<Json<'a>>,
    service_tier: Option<Json<'a>>,
    rest: Params<'a>,
}

/// Writes the body.
///
/// # Errors
/// 400 for what Anthropic cannot do.
pub(super) fn write(
    place: &AnthropicChat,
    request: ChatRequest<'_>,
    target: &CallTarget<'_>,
    notes: &mut TranslationNotes,
) -> Result<Vec<u8>, Error> {
    let model = target.model;
    let generation = Generation::from_model(model);
    let provider = place.name;
    let mut params = request.params;

    let is_forced = is_forced(request.tool_choice.as_ref());
    let is_thoughtless = thinking::answers_calls_without_thinking(&request.messages);
    let mut blocks = Blocks { provider, notes: &mut *notes, uses_files: false, warned_reasoning: false };
    let mut turns = Turns::from_messages(request.messages, &mut blocks)?;
    let uses_files = blocks.uses_files;

    let search = params.take("web_search_options");
    let max_calls = params.take("max_tool_calls");
    let mut place_of_tools =
        ToolPlace { model: generation, provider, betas: place.betas, notes: &mut *notes, max_calls };
    let mut tools = place_of_tools.offers(request.tools, search)?;
    let tool_choice =
        choose(request.tool_choice, request.parallel_tool_calls, &mut tools, &mut place_of_tools);

    let case = thinking::Case {
        model: generation,
        max_tokens: request.max_tokens.as_ref(),
        is_forced: is_forced && tool_choice.is_some(),
        is_thoughtless,
        provider,
    };
    let Thinking { thinking, effort, is_ours } = thinking::decide(request.reasoning, &case, notes)?;
    let max_tokens = request
        .max_tokens
        .unwrap_or_else(|| Json::from_value(&thinking::max_tokens(generation, thinking.as_ref())));
    let version = version(place, &mut params, notes)?;
    if has_no_sampling(version.as_deref(), target.account, notes) {
        sampling::remove(&mut params, notes);
    }
    sampling::adjust(&mut params, generation, is_ours && thinking.is_some(), notes);

    let mut output_config = output_config(&mut params);
    if let Some(effort) = effort.filter(|_| output_config.get("effort").is_none()) {
        output_config.set("effort", Json::from_value(&effort));
    }
    let format = format::decide(request.response_format, generation, provider, notes);
    apply_format(format, &mut output_config, &mut turns);

    let mut betas = place.betas.kept(requested_betas(&mut params)?, provider, notes);
    demanded_betas(uses_files, params.iter().chain(output_config.iter()), &tools, &mut betas);
    // Members that demand others are left out below.
    betas.retain(|beta| place.betas.taken(beta).is_some());
    send_betas(&betas, notes)?;
    let metadata = metadata(&mut params, notes, provider);
    let service_tier = service_tier(&mut params, notes, provider);
    let body = Body {
        model: place.model_in_body.then_some(model),
        version,
        max_tokens,
        stream: request.stream,
        turns,
        tools,
        tool_choice,
        stop: stop_sequences(request.stop, notes),
        thinking,
        output_config,
        metadata,
        service_tier,
        rest: params,
    };
    body.without_foreign_members(place, notes)?.written()
}

fn send_betas(betas: &[String], notes: &mut TranslationNotes) -> Result<(), Error> {
    if !betas.is_empty() {
        notes.headers.insert("anthropic-beta", header("betas", &betas.join(","))?);
    }
    Ok(())
}

/// Puts the format of the response where this model takes it: into `output_config`, or as an instruction.
fn apply_format(format: Format, output_config: &mut Params<'_>, turns: &mut Turns<'_>) {
    match format {
        Format::Any => {}
        Format::Schema(format) => output_config.set("format", format),
        Format::Instruction(text) => {
            turns.system.push(blocks::Block::Text { text: Cow::Owned(text), cache_control: None });
        }
    }
}

impl Body<'_> {
    /// Without what of the rest Anthropic does not have, or has already.
    fn without_foreign_members(
        mut self,
        place: &AnthropicChat,
        notes: &mut TranslationNotes,
    ) -> Result<Self, Error> {
        let rest = notes.filter_params(std::mem::take(&mut self.rest), place.name, &place.members)?;
        self.rest = notes.leave_out_written(rest, |name| self.writes(name));
        Ok(self)
    }

    fn written(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self)
            .map_err(|error| Error::internal(format!("a body cannot be written: {error}")))
    }

    /// Whether it has a member of this name before the rest.
    fn writes(&self, name: &str) -> bool {
        match name {
            "model" | "messages" | "stream" | "max_tokens" => true,
            "anthropic_version" => self.version.is_some(),
            "system" => !self.turns.system.is_empty(),
            "tools" => !self.tools.is_empty(),
            "tool_choice" => self.tool_choice.is_some(),
            "stop_sequences" => !self.stop.is_empty(),
            "thinking" => self.thinking.is_some(),
            "output_config" => !self.output_config.is_empty(),
            "metadata" => self.metadata.is_some(),
            "service_tier" => self.service_tier.is_some(),
            _ => false,
        }
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(model) = self.model {
            map.serialize_entry("model", model)?;
        }
        if let Some(version) = &self.version {
            map.serialize_entry("anthropic_version", version)?;
        }
        map.serialize_entry("max_tokens", &self.max_tokens)?;
        if self.stream {
            map.serialize_entry("stream", &true)?;
        }
        if !self.turns.system.is_empty() {
            map.serialize_entry("system", &self.turns.system)?;
        }
        map.serialize_entry("messages", &self.turns.turns)?;
        if !self.tools.is_empty() {
            map.serialize_entry("tools", &self.tools)?;
        }
        if let Some(choice) = &self.tool_choice {
            map.serialize_entry("tool_choice", choice)?;
        }
        if !self.stop.is_empty() {
            map.serialize_entry("stop_sequences", &self.stop)?;
        }
        if let Some(thinking) = &self.thinking {
            map.serialize_entry("thinking", thinking)?;
        }
        if !self.output_config.is_empty() {
            map.serialize_entry("output_config", &Members(&self.output_config))?;
        }
        for (name, value) in [("metadata", &self.metadata), ("service_tier", &self.service_tier)] {
            if let Some(value) = value {
                map.serialize_entry(name, value)?;
            }
        }
        for (name, value) in self.rest.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

struct Members<'p>(&'p Params<'p>);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter())
    }
}

/// The members that the client wrote into `output_config` itself.
pub(in crate::provider) fn output_config<'a>(params: &mut Params<'a>) -> Params<'a> {
    let mut config = Params::default();
    let Some(json) = params.take("output_config") else { return config };
    match json.own_members() {
        Some(members) => members.into_iter().for_each(|(name, value)| config.set(name, value)),
        None => params.set("output_config", json),
    }
    config
}

/// `anthropic_version`, where it belongs into the body. The client's value takes precedence.
fn version<'a>(
    place: &AnthropicChat,
    params: &mut Params<'a>,
    notes: &mut TranslationNotes,
) -> Result<Option<Cow<'a, str>>, Error> {
    let requested =
        params.take("anthropic_version").and_then(|json| Some(Cow::Owned(json.text()?.into_owned())));
    match (place.version, requested) {
        (Some(version), requested) => Ok(Some(requested.unwrap_or(Cow::Borrowed(version)))),
        (None, Some(requested)) => {
            notes.headers.insert("anthropic-version", header("anthropic_version", &requested)?);
            Ok(None)
        }
        (None, None) => Ok(None),
    }
}

/// The first version of the API without `temperature`, `top_p` and `top_k`. Source: Anthropic's Python SDK 2.12.0,
/// which sends it; version 0.125.0 sends 2023-06-01 and has the three.
const NO_SAMPLING_SINCE: &str = "2026-10-21";

/// Whether the version that is sent, in the body or in a header, takes no sampling parameters.
fn has_no_sampling(in_body: Option<&str>, account: &Account, notes: &TranslationNotes) -> bool {
    let requested = notes.headers.get("anthropic-version").and_then(|value| value.to_str().ok());
    let version = in_body.or(requested).or(account.anthropic_version.as_deref());
    // Older versions of the clouds begin with their names.
    version.is_some_and(|version| {
        version.starts_with(|first: char| first.is_ascii_digit()) && version >= NO_SAMPLING_SINCE
    })
}

/// Anthropic refuses stop sequences of white space alone: "each stop sequence must contain non-whitespace".
pub(in crate::provider) fn stop_sequences<'a>(
    mut stop: Vec<Cow<'a, str>>,
    notes: &mut TranslationNotes,
) -> Vec<Cow<'a, str>> {
    let before = stop.len();
    stop.retain(|sequence| !sequence.trim().is_empty());
    if stop.len() < before {
        notes.warn("stop", "sequences of white space alone dropped, they are refused");
    }
    stop
}

/// The most betas of a request. There are not half as many.
pub(in crate::provider) const MAX_BETAS: usize = 100;

/// The betas that the client requests: `betas`, as Anthropic's SDKs call them.
///
/// # Errors
/// 400 for what is no list of strings, or has too many.
pub(in crate::provider) fn requested_betas(params: &mut Params<'_>) -> Result<Vec<String>, Error> {
    let mut betas: Vec<String> = Vec::new();
    for name in ["betas", "anthropic_beta"] {
        let Some(json) = params.take(name) else { continue };
        match (json.text(), json.read::<Vec<JsonStr<'_>>>()) {
            (Some(text), _) => {
                let list = text.split(',').map(|beta| beta.trim().to_owned());
                betas.extend(list.take(MAX_BETAS + 1));
            }
            (None, Some(list)) => betas.extend(list.iter().take(MAX_BETAS + 1).map(|beta| beta.to_string())),
            (None, None) => {
                return Err(Error::invalid_request(name, format!("{name} must be a list of strings.")));
            }
        }
        if betas.len() > MAX_BETAS {
            let message = format!("{name} names more than {MAX_BETAS} betas.");
            return Err(Error::invalid_request(name, message));
        }
    }
    Ok(betas)
}

/// Adds the betas that the content of the request requires.
fn demanded_betas<'p>(
    uses_files: bool,
    members: impl Iterator<Item = (&'p str, &'p Json<'p>)>,
    tools: &[Offer<'_>],
    betas: &mut Vec<String>,
) {
    if uses_files {
        betas::add(betas::FILES, betas);
    }
    members.for_each(|(name, value)| betas::for_member(name, value, betas));
    tools.iter().filter_map(Offer::native_kind).for_each(|kind| betas::for_tool(&kind, betas));
}

fn header(param: &str, value: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(value)
        .map_err(|_| Error::invalid_request(param, format!("{param} has characters no header may have.")))
}

/// The end user's id. It is the only member of OpenAI's `metadata` that Anthropic has.
fn metadata(params: &mut Params<'_>, notes: &mut TranslationNotes, provider: &str) -> Option<Json<'static>> {
    #[derive(Serialize)]
    struct Metadata<'a> {
        user_id: &'a str,
    }
    let mut user_id = None;
    if let Some(metadata) = params.take("metadata") {
        for (name, value) in Json::members(metadata.get()).unwrap_or_default() {
            match (name.as_ref(), value.text()) {
                ("user_id", Some(text)) => user_id = Some(text.into_owned()),
                _ => notes.drop_param(&format!("metadata.{name}"), provider),
            }
        }
    }
    for name in ["user", "safety_identifier"] {
        let Some(value) = params.take(name).filter(|value| !value.is_null()) else { continue };
        match &user_id {
            None => user_id = value.text().map(Cow::into_owned),
            Some(sent) if value.text().is_some_and(|value| *value == **sent) => {}
            Some(_) => notes.warn(name, "dropped, a request has one user id here, and another member has it"),
        }
    }
    let user_id = user_id.filter(|user_id| !user_id.is_empty())?;
    Some(Json::from_value(&Metadata { user_id: &user_id }))
}

/// Translates OpenAI's service tiers into Anthropic's.
fn service_tier<'a>(
    params: &mut Params<'a>,
    notes: &mut TranslationNotes,
    provider: &str,
) -> Option<Json<'a>> {
    let tier = params.take("service_tier")?;
    match tier.text().as_deref() {
        Some("auto" | "priority") => Some(Json::from_value("auto")),
        Some("default") => Some(Json::from_value("standard_only")),
        Some("standard_only") | None => Some(tier),
        Some(_) => {
            notes.warn("service_tier", format!("dropped, {provider} has no such tier"));
            None
        }
    }
}
