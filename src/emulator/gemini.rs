//! Google's Gemini: `models/{model}:generateContent`, `:streamGenerateContent` and `:countTokens`.
//!
//! The whole answer and what decides it; the events of a stream are in `gemini_stream`.

use super::call::Call;
use super::gemini_stream;
use super::plain::{self, Plain};
use super::reply::{Dialect, Refusal, Reply};
use super::talk::Turn;
use super::words::{End, quote};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Gemini;

/// What a whole and a streamed answer have in common.
pub(super) struct Told {
    pub(super) turn: Turn,
    pub(super) finish: &'static str,
    /// `usageMetadata` and what follows it, as members of a JSON object.
    pub(super) tail: String,
}

pub(super) fn answer(call: &Call<'_>) -> Result<Reply, Refusal> {
    let Some((model, method)) = call.id.rsplit_once(':') else {
        return Err(unknown("a path that names no method"));
    };
    let request: Value = call.read(DIALECT)?;
    let (model, mut script) = call.model(Some(model), DIALECT)?;
    let asked = if method == "countTokens" && request.get("contents").is_none() {
        request.get("generateContentRequest").unwrap_or(&Value::Null)
    } else {
        &request
    };
    let (turn, prompt) = read(asked)?.turn(model, &mut script, DIALECT)?;
    if method == "countTokens" {
        let counted = json!({"totalTokens": prompt});
        return Ok(Reply::value(&counted).in_dialect(DIALECT).scripted(script));
    }
    let told = told(call, model, turn, prompt);
    let reply = match method {
        "generateContent" => Reply::json(whole(&told)),
        "streamGenerateContent" => gemini_stream::reply(told, call.query("alt").as_deref() == Some("sse")),
        _ => return Err(unknown(method)),
    };
    Ok(reply.in_dialect(DIALECT).scripted(script))
}

fn unknown(what: &str) -> Refusal {
    Refusal::not_found(format!("The emulator does not know {what}.")).in_dialect(DIALECT)
}

/// A member by its name in JSON, or as protobuf's JSON takes it too.
fn member<'a>(object: &'a Value, camel: &str, snake: &str) -> &'a Value {
    object.get(camel).or_else(|| object.get(snake)).unwrap_or(&Value::Null)
}

fn read(request: &Value) -> Result<Plain, Refusal> {
    let contents = request.get("contents").and_then(Value::as_array).filter(|list| !list.is_empty());
    let Some(contents) = contents else {
        let why = "* GenerateContentRequest.contents: contents is not specified\n";
        return Err(Refusal::bad(why).in_dialect(DIALECT));
    };
    let mut messages = Vec::new();
    let system = member(request, "systemInstruction", "system_instruction");
    if let Some(parts) = system.get("parts") {
        messages.push(plain::message("system", &plain::texts(parts, "text"), false));
    }
    for content in contents {
        let parts = content.get("parts").unwrap_or(&Value::Null);
        let result = parts.as_array().into_iter().flatten();
        let result =
            result.into_iter().any(|part| !member(part, "functionResponse", "function_response").is_null());
        let role = content.get("role").and_then(Value::as_str).unwrap_or("user");
        messages.push(plain::message(role, &plain::texts(parts, "text"), result));
    }
    let config = member(request, "generationConfig", "generation_config");
    let is_json = member(config, "responseMimeType", "response_mime_type") == "application/json";
    let schema = [("responseJsonSchema", "response_json_schema"), ("responseSchema", "response_schema")]
        .into_iter()
        .map(|(camel, snake)| member(config, camel, snake))
        .find(|schema| !schema.is_null())
        .map(lower_types);
    Ok(Plain {
        messages,
        tools: tools(request),
        choice: choice(request),
        format: is_json.then(|| plain::format(schema.as_ref())),
        limit: member(config, "maxOutputTokens", "max_output_tokens").as_u64(),
        stops: plain::strings(member(config, "stopSequences", "stop_sequences")),
    })
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

/// A schema with `"type": "OBJECT"` as JSON Schema writes it.
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

fn told(call: &Call<'_>, model: &str, turn: Turn, prompt: u64) -> Told {
    let finish = match &turn {
        Turn::Text(said) if said.end == End::Length => "MAX_TOKENS",
        _ => "STOP",
    };
    let output = turn.tokens();
    let (id, model, total) = (call.state.id("", 22), quote(model), prompt + output);
    let tail = format!(
        r#""usageMetadata":{{"promptTokenCount":{prompt},"candidatesTokenCount":{output},"totalTokenCount":{total},"promptTokensDetails":[{{"modality":"TEXT","tokenCount":{prompt}}}]}},"modelVersion":{model},"responseId":"{id}""#
    );
    Told { turn, finish, tail }
}

fn whole(told: &Told) -> String {
    let parts: Vec<String> = match &told.turn {
        Turn::Text(said) => vec![format!(r#"{{"text":{}}}"#, quote(&said.text))],
        Turn::Tools(calls) => calls
            .iter()
            .map(|tool| {
                let (name, arguments) = (quote(&tool.name), &tool.arguments);
                format!(r#"{{"functionCall":{{"name":{name},"args":{arguments}}}}}"#)
            })
            .collect(),
    };
    piece(&parts.join(","), Some(told.finish), &told.tail)
}

/// One `GenerateContentResponse`: all of an answer, or a piece of a stream.
pub(super) fn piece(parts: &str, finish: Option<&str>, tail: &str) -> String {
    let finish = finish.map(|finish| format!(r#""finishReason":"{finish}","#)).unwrap_or_default();
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}},{finish}"index":0}}],{tail}}}"#
    )
}
