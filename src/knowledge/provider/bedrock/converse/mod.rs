//! Converse: one shape of chat for every model on Bedrock. Requests are written here from the neutral model;
//! responses are decoded in [`super::response`].
//!
//! Source: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>.

mod betas;
mod documents;
mod fields;
mod messages;
mod shape;
mod structured;
mod thinking;
mod tools;

use super::model::{Family, Model};
use super::response::ConverseDecoder;
use crate::provider::adapter::{CallTarget, ChatAdapter};
use crate::provider::anthropic::request::stop_sequences;
use crate::provider::call_ids::IdRule;
use crate::provider::translation_notes::TranslationNotes;
use fields::Fields;
use serde::Serialize;
use shape::{Block, Inference, Request};
use words::api::chat::{ChatRequest, Decoder, ResponseFormat};
use words::error::Error;
use words::json::Json;

/// Bedrock's chat adapter.
#[derive(Debug)]
pub struct Converse;

/// Bedrock's name in warnings and errors.
const NAME: &str = "bedrock";

impl ChatAdapter for Converse {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error> {
        write(request, target, RequestPurpose::Chat, notes)
    }

    fn call_ids(&self) -> IdRule {
        IdRule::BEDROCK
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        Box::new(ConverseDecoder::new(streamed))
    }
}

/// What the request is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPurpose {
    Chat,
    /// Token counting: a subset of Converse's members, wrapped.
    TokenCount,
}

#[derive(Serialize)]
struct CountTokens<'a> {
    input: CountTokensInput<'a>,
}

#[derive(Serialize)]
struct CountTokensInput<'a> {
    converse: Request<'a>,
}

/// Writes the request body.
///
/// # Errors
/// 400 that names the `param`.
pub fn write(
    mut request: ChatRequest<'_>,
    target: &CallTarget<'_>,
    purpose: RequestPurpose,
    notes: &mut TranslationNotes,
) -> Result<Vec<u8>, Error> {
    let model = Model::resolve(target.model, target.account);
    if let Some(wanted) = request.parallel_tool_calls.take()
        && !wanted
        && !request.tools.is_empty()
    {
        notes.warn("parallel_tool_calls", "dropped, bedrock cannot keep a model from calling several tools");
    }
    if model.family == Family::Anthropic {
        request.stop = stop_sequences(std::mem::take(&mut request.stop), notes);
    }
    let mut fields = Fields::from_client(&mut request)?;
    let requested_betas = betas::requested(&mut request.params, model.family)?;
    thinking::write(&mut request, &model, &mut fields, notes)?;
    fields.take(&mut request, &model, notes);
    let search = match model.family {
        Family::Amazon => request.params.take("web_search_options"),
        _ => None,
    };
    let temperature = at_most_one(request.params.take("temperature"), "temperature", notes);
    let top_p = at_most_one(request.params.take("top_p"), "top_p", notes);
    fields.settle(&mut request, model.family, notes)?;
    notes.drop_tool_members(&request.tools, NAME);
    let tool_config = tools::write(&request, &model, &mut fields, search.as_ref(), notes)?;
    betas::join(requested_betas, &request.tools, target, model.family, &mut fields, notes);
    let (text_format, instruction) = structured::write(request.response_format.as_ref(), &model, notes);
    let (mut system, turns) = messages::write(&request.messages, &model, notes)?;
    if let Some(instruction) = &instruction {
        system.push(Block::Text(instruction));
    }
    let mut body = Request { system, messages: turns, tool_config, ..Request::default() };
    body.additional_model_request_fields = fields.take_additional();
    if purpose == RequestPurpose::TokenCount {
        let counted = CountTokens { input: CountTokensInput { converse: body } };
        return Ok(bytes(&counted));
    }
    let mut inference = Inference {
        max_tokens: request.max_tokens.clone(),
        temperature,
        top_p,
        stop_sequences: request.stop.iter().map(AsRef::as_ref).filter(|stop| !stop.is_empty()).collect(),
    };
    body.inference_config = inference.take_if_any();
    body.guardrail_config = fields.guardrail_config;
    body.performance_config = fields.performance_config;
    body.service_tier = fields.service_tier;
    body.request_metadata = fields.request_metadata;
    body.prompt_variables = fields.prompt_variables;
    body.additional_model_response_field_paths = fields.response_field_paths;
    body.output_config = text_format.or(fields.output_config);
    Ok(bytes(&body))
}

/// A number within Converse's bounds. Source: `InferenceConfiguration` in botocore 1.44.5, at most 1 for every model;
/// OpenAI's temperatures go up to 2.
fn at_most_one<'a>(value: Option<Json<'a>>, name: &str, notes: &mut TranslationNotes) -> Option<Json<'a>> {
    let is_over = value.as_ref()?.get().parse::<f64>().is_ok_and(|number| number > 1.0);
    if !is_over {
        return value;
    }
    notes.warn(name, "1 was sent, the highest bedrock takes");
    Some(Json::from_value(&1))
}

fn bytes<T: Serialize>(body: &T) -> Vec<u8> {
    // Strings, numbers and already parsed JSON always serialize.
    serde_json::to_vec(body).unwrap_or_default()
}

/// Whether the response's text must be JSON.
fn is_shaped(format: Option<&ResponseFormat<'_>>) -> bool {
    matches!(format, Some(ResponseFormat::JsonObject | ResponseFormat::JsonSchema { .. }))
}

#[cfg(test)]
mod tests;
