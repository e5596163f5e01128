//! Writes a chat request as a create request of the Responses API.

use super::input;
use super::tools::{self, API};
use crate::provider::adapter::CallTarget;
use crate::provider::openai_chat::{cache_marks, effort};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::vendor_members::VendorMembers;
use std::borrow::Cow;
use words::api::chat::{ChatRequest, Params, Reasoning, ResponseFormat};
use words::error::Error;
use words::json::Json;
use words::json::splice::Object;
use words::json::write::{ObjectWriter, key};

/// Members of a chat that the API has under the same name.
/// <https://platform.openai.com/docs/api-reference/responses/create>
const SAME: [&str; 10] = [
    "temperature",
    "top_p",
    "top_logprobs",
    "user",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "max_tool_calls",
];

/// What is written from the request's own members. Another dialect's member of such a name is no second one.
const WRITTEN: [&str; 11] = [
    "model",
    "input",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "max_output_tokens",
    "reasoning",
    "store",
    "include",
    "stream",
];

/// What of a chat has another name or place there.
struct Moved<'a> {
    verbosity: Option<Json<'a>>,
    store: Option<Json<'a>>,
    logprobs: bool,
    search: Option<Json<'a>>,
}

impl<'a> Moved<'a> {
    fn take(params: &mut Params<'a>) -> Self {
        Self {
            verbosity: params.take("verbosity"),
            store: params.take("store"),
            logprobs: params.take("logprobs").is_some_and(|value| value.is_true()),
            search: params.take("web_search_options"),
        }
    }
}

/// Writes the body.
///
/// # Errors
/// 400 that names what the API cannot do.
pub(super) fn write(
    mut request: ChatRequest<'_>,
    target: &CallTarget<'_>,
    notes: &mut TranslationNotes,
) -> Result<Vec<u8>, Error> {
    let marks = cache_marks::takes_breakpoints(target.model);
    cache_marks::warn_of_lost(&request, marks, notes);
    if request.has_citations() {
        notes.drop_param("citations", API);
    }
    let moved = Moved::take(&mut request.params);
    let mut out = Vec::with_capacity(1024);
    let mut body = ObjectWriter::open(&mut out);
    body.text(key!("model"), target.model);
    input::write(&request.messages, marks, notes, body.name(key!("input")))?;
    let choice = request.tool_choice.as_ref();
    let has_tools = tools::write(&request.tools, choice, moved.search.as_ref(), notes, &mut body);
    if let Some(parallel) = request.parallel_tool_calls.filter(|_| has_tools) {
        body.flag(key!("parallel_tool_calls"), parallel);
    }
    text(request.response_format.as_ref(), moved.verbosity.as_ref(), &mut body);
    if let Some(limit) = &request.max_tokens {
        body.raw(key!("max_output_tokens"), limit.get());
    }
    if !request.stop.is_empty() {
        notes.drop_param("stop", API);
    }
    reasoning(&request.reasoning, notes, &mut body);
    // Nothing is kept there, so what the model has thought must come back with the next turn.
    body.raw(key!("store"), moved.store.as_ref().map_or("false", Json::get));
    let logprobs = if moved.logprobs { ",\"message.output_text.logprobs\"" } else { "" };
    body.raw(key!("include"), &format!("[\"reasoning.encrypted_content\"{logprobs}]"));
    if request.stream {
        body.flag(key!("stream"), true);
    }
    params(request.params, notes, &mut body)?;
    body.close();
    Ok(out)
}

/// `text`: the format of the answer, and how long it should be.
fn text(format: Option<&ResponseFormat<'_>>, verbosity: Option<&Json<'_>>, body: &mut ObjectWriter<'_>) {
    let format = format.filter(|format| !matches!(format, ResponseFormat::Text));
    if format.is_none() && verbosity.is_none() {
        return;
    }
    body.object(key!("text"), |text| {
        match format {
            Some(ResponseFormat::JsonObject) => {
                text.object(key!("format"), |format| format.text(key!("type"), "json_object"));
            }
            Some(ResponseFormat::JsonSchema { name, description, schema, strict }) => {
                text.object(key!("format"), |format| {
                    format.text(key!("type"), "json_schema");
                    format.text(key!("name"), name);
                    format.optional_text(key!("description"), description.as_deref());
                    format.raw(key!("schema"), schema.get());
                    // As of functions: strict there unless it is declared otherwise.
                    format.flag(key!("strict"), strict.unwrap_or(false));
                });
            }
            Some(ResponseFormat::Text) | None => {}
        }
        text.optional_raw(key!("verbosity"), verbosity.map(Json::get));
    });
}

/// `reasoning`. A summary is requested only where the client wants to see one: for it OpenAI may demand that an organization is verified.
fn reasoning(wanted: &Reasoning<'_>, notes: &mut TranslationNotes, body: &mut ObjectWriter<'_>) {
    notes.simplify_thinking(wanted, API);
    let effort = effort(wanted);
    if effort.is_none() && wanted.thinking.is_some() {
        notes.warn("thinking", "dropped, this provider is told how much to think by an effort");
    }
    let summary = wanted.summary.as_deref().or_else(|| wants_summary(wanted).then_some("auto"));
    if effort.is_none() && summary.is_none() {
        return;
    }
    body.object(key!("reasoning"), |reasoning| {
        reasoning.optional_text(key!("effort"), effort.as_deref());
        reasoning.optional_text(key!("summary"), summary);
    });
}

/// Anthropic's `thinking.display`.
fn wants_summary(reasoning: &Reasoning<'_>) -> bool {
    let thinking = reasoning.thinking.as_ref().and_then(|thinking| Object::read(thinking.get()));
    thinking.is_some_and(|thinking| thinking.string("display") == Some(Cow::Borrowed("summarized")))
}

/// The remaining members: those that the API has, then those that no vendor is known to have.
fn params(all: Params<'_>, notes: &mut TranslationNotes, body: &mut ObjectWriter<'_>) -> Result<(), Error> {
    let mut others = Params::default();
    for (name, value) in all.into_iter().filter(|(_, value)| !value.is_null()) {
        if SAME.contains(&name.as_ref()) {
            body.raw(name.as_ref(), value.get());
        } else {
            others.set(name, value);
        }
    }
    let others = notes.filter_params(others, API, &VendorMembers::OPENAI)?;
    for (name, value) in notes.leave_out_written(others, |name| WRITTEN.contains(&name)).into_iter() {
        body.raw(name.as_ref(), value.get());
    }
    Ok(())
}
