//! Google's Gemini: `models/{model}:generateContent`, `:streamGenerateContent` and `:countTokens`; embeddings are in
//! `gemini_embeddings`.
//!
//! Builds the whole response and decides its content; the events of a stream are in `gemini_stream`.

use super::anthropic::{SIGNATURE, THOUGHT};
use super::bill::Bill;
use super::call::Call;
use super::conversation::Completion;
use super::normalize::{self, NormalizedRequest};
use super::reply::{ApiError, Dialect, Reply};
use super::sample_text::{self, End, quote};
use super::{gemini_embeddings, gemini_stream};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Gemini;

/// What whole and streamed responses share.
pub(super) struct Generated {
    pub(super) completion: Completion,
    /// Thoughts are shown before the content.
    pub(super) thinks: bool,
    pub(super) finish: &'static str,
    pub(super) tail: Tail,
}

/// What every chunk of a response ends with.
pub(super) struct Tail {
    prompt: u64,
    thoughts: Option<u64>,
    /// Tokens of the whole response.
    output: u64,
    /// A JSON string, with its quotes.
    model: String,
    id: String,
}

impl Tail {
    /// `usageMetadata` and the members after it, as JSON text without braces, when so many tokens of output were sent.
    pub(super) fn after(&self, sent: u64) -> String {
        let Self { prompt, thoughts, output, model, id } = self;
        let output = sent.min(*output);
        let total = prompt + output + thoughts.unwrap_or_default();
        let thoughts =
            thoughts.map(|tokens| format!(r#""thoughtsTokenCount":{tokens},"#)).unwrap_or_default();
        format!(
            r#""usageMetadata":{{"promptTokenCount":{prompt},"candidatesTokenCount":{output},{thoughts}"totalTokenCount":{total},"promptTokensDetails":[{{"modality":"TEXT","tokenCount":{prompt}}}]}},"modelVersion":{model},"responseId":"{id}""#
        )
    }

    pub(super) fn whole(&self) -> String {
        self.after(self.output)
    }
}

pub(super) fn respond(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Some((model, method)) = call.id.rsplit_once(':') else {
        return Err(unknown("a path that names no method"));
    };
    match method {
        "embedContent" => return gemini_embeddings::one(call, model),
        "batchEmbedContents" => return gemini_embeddings::batch(call, model),
        #[cfg(feature = "vendors")]
        "batchGenerateContent" | "asyncBatchEmbedContent" => {
            return super::vendors::gemini_batches::create(call, model, method);
        }
        _ => {}
    }
    let request: Value = call.read(DIALECT)?;
    let (model, mut script) = call.model(Some(model), DIALECT)?;
    let content_request = if method == "countTokens" && request.get("contents").is_none() {
        request.get("generateContentRequest").unwrap_or(&Value::Null)
    } else {
        &request
    };
    let (completion, prompt) = read(content_request)?.decide(model, &mut script, DIALECT)?;
    if method == "countTokens" {
        let counted = json!({"totalTokens": prompt});
        return Ok(Reply::value(&counted).in_dialect(DIALECT).scripted(script));
    }
    let thought = if thinks(&request) { sample_text::count(THOUGHT) } else { 0 };
    let bill = Bill { input: prompt, output: completion.tokens() + thought, opening: 0 };
    let generated = generate(call, model, completion, prompt, thinks(&request));
    let reply = match method {
        "generateContent" => Reply::json(whole(&generated)),
        "streamGenerateContent" => {
            gemini_stream::reply(generated, call.query("alt").as_deref() == Some("sse"))
        }
        _ => return Err(unknown(method)),
    };
    Ok(reply.billed(bill).in_dialect(DIALECT).scripted(script))
}

fn unknown(what: &str) -> ApiError {
    ApiError::not_found(format!("The emulator does not know {what}.")).in_dialect(DIALECT)
}

/// A member by its camelCase or its snake_case name: protobuf's JSON accepts both.
fn member<'a>(object: &'a Value, camel: &str, snake: &str) -> &'a Value {
    object.get(camel).or_else(|| object.get(snake)).unwrap_or(&Value::Null)
}

fn read(request: &Value) -> Result<NormalizedRequest, ApiError> {
    let contents = request.get("contents").and_then(Value::as_array).filter(|list| !list.is_empty());
    let Some(contents) = contents else {
        let why = "* GenerateContentRequest.contents: contents is not specified\n";
        return Err(ApiError::bad(why).in_dialect(DIALECT));
    };
    let mut messages = Vec::new();
    let system = member(request, "systemInstruction", "system_instruction");
    if let Some(parts) = system.get("parts") {
        messages.push(normalize::message("system", &normalize::texts(parts, "text"), false));
    }
    for content in contents {
        let parts = content.get("parts").unwrap_or(&Value::Null);
        let result = parts.as_array().into_iter().flatten();
        let result =
            result.into_iter().any(|part| !member(part, "functionResponse", "function_response").is_null());
        let role = content.get("role").and_then(Value::as_str).unwrap_or("user");
        messages.push(normalize::message(role, &normalize::texts(parts, "text"), result));
    }
    let config = member(request, "generationConfig", "generation_config");
    let is_json = member(config, "responseMimeType", "response_mime_type") == "application/json";
    let schema = [("responseJsonSchema", "response_json_schema"), ("responseSchema", "response_schema")]
        .into_iter()
        .map(|(camel, snake)| member(config, camel, snake))
        .find(|schema| !schema.is_null())
        .map(lower_types);
    Ok(NormalizedRequest {
        messages,
        tools: tools(request),
        choice: choice(request),
        format: is_json.then(|| normalize::format(schema.as_ref())),
        limit: member(config, "maxOutputTokens", "max_output_tokens").as_u64(),
        stops: normalize::strings(member(config, "stopSequences", "stop_sequences")),
    })
}

/// Whether the request asks for the model's thoughts.
fn thinks(request: &Value) -> bool {
    let config = member(request, "generationConfig", "generation_config");
    let thinking = member(config, "thinkingConfig", "thinking_config");
    member(thinking, "includeThoughts", "include_thoughts") == true
}

fn tools(request: &Value) -> Vec<Value> {
    let tools = request.get("tools").and_then(Value::as_array).into_iter().flatten();
    let functions = tools
        .flat_map(|tool| member(tool, "functionDeclarations", "function_declarations").as_array())
        .flatten();
    functions
        .map(|function| {
            let schema = member(function, "parametersJsonSchema", "parameters_json_schema");
            let schema = if schema.is_null() { function.get("parameters") } else { Some(schema) };
            let schema = schema.map_or_else(|| json!({"type": "object"}), lower_types);
            json!({"name": function.get("name"), "parameters": schema})
        })
        .collect()
}

fn choice(request: &Value) -> Value {
    let config = member(request, "toolConfig", "tool_config");
    let calling = member(config, "functionCallingConfig", "function_calling_config");
    let allowed = member(calling, "allowedFunctionNames", "allowed_function_names");
    match calling.get("mode").and_then(Value::as_str) {
        Some("ANY") => match allowed.get(0) {
            Some(name) => json!({"name": name}),
            None => json!("required"),
        },
        Some("NONE") => json!("none"),
        _ => Value::Null,
    }
}

/// Gemini's schema (`"type": "OBJECT"`) in JSON Schema's spelling (`"type": "object"`).
fn lower_types(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| match value {
                Value::String(kind) if key == "type" => (key.clone(), Value::String(kind.to_lowercase())),
                value => (key.clone(), lower_types(value)),
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => items.iter().map(lower_types).collect(),
        other => other.clone(),
    }
}

fn generate(call: &Call<'_>, model: &str, completion: Completion, prompt: u64, thinks: bool) -> Generated {
    let finish = match &completion {
        Completion::Text(sample) if sample.end == End::Length => "MAX_TOKENS",
        _ => "STOP",
    };
    let tail = Tail {
        prompt,
        thoughts: thinks.then(|| sample_text::count(THOUGHT)),
        output: completion.tokens(),
        model: quote(model),
        id: call.state.id("", 22),
    };
    Generated { completion, thinks, finish, tail }
}

fn whole(generated: &Generated) -> String {
    let mut parts: Vec<String> = generated.thinks.then(thought).into_iter().collect();
    match &generated.completion {
        Completion::Text(sample) => parts.push(format!(r#"{{"text":{}}}"#, quote(&sample.text))),
        Completion::Tools(calls) => {
            parts.extend(calls.iter().enumerate().map(|(index, tool)| {
                function_call(&tool.name, &tool.arguments, generated.thinks && index == 0)
            }));
        }
    }
    chunk(&parts.join(","), Some(generated.finish), &generated.tail.whole())
}

/// The part with the model's thoughts.
pub(super) fn thought() -> String {
    format!(r#"{{"text":{},"thought":true}}"#, quote(THOUGHT))
}

/// A call. `signed`: with the signature of the thoughts before it, which Gemini puts on the first call.
pub(super) fn function_call(name: &str, arguments: &str, signed: bool) -> String {
    let signature = if signed { format!(r#","thoughtSignature":"{SIGNATURE}""#) } else { String::new() };
    format!(r#"{{"functionCall":{{"name":{},"args":{arguments}}}{signature}}}"#, quote(name))
}

/// One `GenerateContentResponse`: a whole response, or one chunk of a stream.
pub(super) fn chunk(parts: &str, finish: Option<&str>, tail: &str) -> String {
    let finish = finish.map(|finish| format!(r#""finishReason":"{finish}","#)).unwrap_or_default();
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}},{finish}"index":0}}],{tail}}}"#
    )
}
