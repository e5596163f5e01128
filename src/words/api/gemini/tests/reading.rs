//! Requests of the dialect, read into the neutral chat.

use crate::api::body::Body;
use crate::api::chat::{ChatRequest, Part, ResponseFormat, Role, Source, Tool, ToolChoice};
use crate::api::gemini::{counted, read};
use serde_json::{Value, json};

fn body(value: &Value) -> Body {
    Body::parse(value.to_string().into()).unwrap()
}

fn with<T>(value: &Value, check: impl FnOnce(&ChatRequest<'_>) -> T) -> T {
    let body = body(value);
    check(&read(&body).unwrap())
}

fn refused(value: &Value) -> String {
    let error = read(&body(value)).unwrap_err();
    assert_eq!(error.status(), 400);
    error.param.unwrap_or_default()
}

/// Role and parts of every message, short.
fn shape(request: &ChatRequest<'_>) -> Vec<String> {
    let part = |part: &Part<'_>| match part {
        Part::Text { text, .. } => format!("text {text}"),
        Part::Image(image) => format!("image {}", source(&image.source)),
        Part::Audio { data, format } => format!("audio {format} {data}"),
        Part::File(file) => format!("file {}", source(&file.source)),
        Part::Reasoning { text, signature } => {
            format!("reasoning {text} {}", signature.as_deref().unwrap_or("-"))
        }
        Part::Redacted { data } => format!("redacted {data}"),
        Part::ToolCall(call) => format!("call {} {} {}", call.id, call.name, call.arguments),
        Part::Other { kind, .. } => format!("other {kind}"),
        Part::Refusal(text) => format!("refusal {text}"),
    };
    let messages = request.messages.iter().map(|message| {
        let id = message.tool_call_id.as_deref().map(|id| format!(" ({id})")).unwrap_or_default();
        let failed = if message.is_error { " failed" } else { "" };
        let parts: Vec<String> = message.content.iter().map(part).collect();
        format!("{:?}{id}{failed}: {}", message.role, parts.join(", "))
    });
    messages.collect()
}

fn source(source: &Source<'_>) -> String {
    match source {
        Source::Url { url, media_type } => format!("{url} {}", media_type.as_deref().unwrap_or("-")),
        Source::Data { media_type, data } => format!("{media_type} {data}"),
        Source::Text(text) => text.to_string(),
        Source::Id(id) => id.to_string(),
    }
}

#[test]
fn both_spellings_are_read() {
    let camel = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk-_w=="}}]}],
        "generationConfig": {"maxOutputTokens": 9, "topK": 3, "stopSequences": ["x"], "thinkingConfig": {"thinkingLevel": "LOW"}},
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}],
    });
    let snake = json!({
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": "aGk-_w=="}}]}],
        "generation_config": {"max_output_tokens": 9, "top_k": 3, "stop_sequences": ["x"], "thinking_config": {"thinking_level": "LOW"}},
        "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
        "tools": [{"function_declarations": [{"name": "f", "parameters_json_schema": {"type": "object"}}]}],
    });
    for request in [camel, snake] {
        with(&request, |request| {
            assert_eq!(
                shape(request),
                ["System: text Be brief.", "User: image image/png aGk+/w=="],
                "the alphabet of URLs is Google's"
            );
            assert_eq!(request.max_tokens.as_ref().unwrap().get(), "9");
            assert_eq!(request.params.get("top_k").unwrap().get(), "3");
            assert_eq!(request.stop, ["x"]);
            assert_eq!(request.reasoning.effort.as_deref(), Some("low"));
            assert!(matches!(&request.tool_choice, Some(ToolChoice::Function(name)) if name == "f"));
            assert!(matches!(&request.tools[..], [Tool::Function { name, .. }] if name == "f"));
            assert!(request.include_usage && !request.stream);
        });
    }
}

#[test]
fn results_find_their_calls_by_id_or_by_name_and_order() {
    let request = json!({"contents": [
        {"role": "user", "parts": [{"text": "Go."}]},
        {"role": "model", "parts": [
            {"text": "hm", "thought": true},
            {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "R29vZ2xl"},
            {"functionCall": {"name": "g"}},
            {"functionCall": {"name": "f", "id": "own", "args": {"a": 2}}},
            {"functionCall": {"name": "f", "args": {"a": 3}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "f", "id": "own", "response": {"output": "two"}}},
            {"functionResponse": {"name": "f", "response": {"result": {"n": 1}}}},
            {"functionResponse": {"name": "g", "response": {"error": "no"}}},
            {"functionResponse": {"name": "f", "response": {"a": 1, "b": 2}, "parts": [
                {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]}},
            {"text": "And?"},
        ]},
    ]});
    with(&request, |request| {
        assert_eq!(
            shape(request),
            [
                "User: text Go.",
                r#"Assistant: reasoning hm -, call call_1 f {"a":1}, call call_2 g {}, call own f {"a":2}, call call_4 f {"a":3}"#,
                "Tool (own): text two",
                r#"Tool (call_1): text {"result":{"n":1}}"#,
                "Tool (call_2) failed: text no",
                r#"Tool (call_4): text {"a":1,"b":2}, image image/png aGk="#,
                "User: text And?",
            ]
        );
    });
}

#[test]
fn parts_of_every_kind_are_read() {
    let request = json!({"contents": [
        {"parts": [
            {"inlineData": {"mimeType": "audio/mpeg", "data": "aGk="}},
            {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
            {"inlineData": {"mimeType": "video/mp4", "data": "aGk="}},
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://a/b.jpg"}},
            {"fileData": {"fileUri": "gs://a/b"}},
        ]},
        {"role": "model", "parts": [
            {"text": "let me", "thought": true},
            {"text": " see", "thought": true},
            {"text": "", "thought": true, "thoughtSignature": "dHVybnBpa2U6c2lnbmF0dXJlOnNpZy0x"},
            {"text": "", "thought": true, "thoughtSignature": "dHVybnBpa2U6cmVkYWN0ZWQ6WFla"},
            {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"toolCall": {"toolType": "GOOGLE_SEARCH"}},
            {"text": "One.", "thoughtSignature": "R29vZ2xl"},
        ]},
    ]});
    with(&request, |request| {
        assert_eq!(
            shape(request),
            [
                "User: audio mp3 aGk=, file application/pdf aGk=, other video_url, image https://a/b.jpg image/jpeg, file gs://a/b -",
                "Assistant: reasoning let me see sig-1, redacted XYZ, text ```python\nprint(1)\n```, text ```\n1\n```, text One.",
            ]
        );
        assert_eq!(request.messages[0].role, Role::User);
        assert_eq!(request.warnings.len(), 1, "{:?}", request.warnings);
    });
}

#[test]
fn parameters_get_openais_names_and_googles_own_stay() {
    let request = json!({"contents": [{"parts": [{"text": "x"}]}],
        "safetySettings": [], "cachedContent": "cachedContents/x", "labels": {"a": "b"}, "serviceTier": "STANDARD",
        "generationConfig": {"temperature": 0.50, "candidateCount": 2, "responseLogprobs": true, "logprobs": 3,
            "responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}, "routingConfig": {},
            "responseModalities": ["TEXT", "IMAGE"], "thinkingConfig": {"thinkingBudget": 0, "includeThoughts": true}}});
    let text = request.to_string().replace("0.5", "0.50");
    let body = Body::parse(text.into()).unwrap();
    let request = read(&body).unwrap();
    let params: Vec<String> =
        request.params.iter().map(|(name, json)| format!("{name}={}", json.get())).collect();
    for wanted in [
        "temperature=0.50",
        "n=2",
        "logprobs=true",
        "top_logprobs=3",
        r#"modalities=["text","image"]"#,
        r#"service_tier="default""#,
        "safetySettings=[]",
        r#"cachedContent="cachedContents/x""#,
        r#"labels={"a":"b"}"#,
        r#"generationConfig={"routingConfig":{}}"#,
    ] {
        assert!(params.iter().any(|param| param == wanted), "{wanted}: {params:?}");
    }
    assert_eq!(request.reasoning.effort.as_deref(), Some("none"));
    assert_eq!(request.reasoning.summary.as_deref(), Some("auto"));
    let schema = request.response_format.as_ref();
    assert!(
        matches!(schema, Some(ResponseFormat::JsonSchema { schema, .. }) if schema.get() == r#"{"type":"object"}"#)
    );
}

#[test]
fn calling_modes_and_googles_tools() {
    let choice = |config: Value| {
        let request = json!({"contents": [{"parts": [{"text": "x"}]}], "toolConfig": {"functionCallingConfig": config}});
        with(&request, |request| format!("{:?}", request.tool_choice))
    };
    for (config, wanted) in [
        (json!({"mode": "AUTO"}), "Some(Auto)"),
        (json!({}), "Some(Auto)"),
        (json!({"mode": "VALIDATED"}), "Some(Auto)"),
        (json!({"mode": "NONE"}), "Some(None)"),
        (json!({"mode": "ANY"}), "Some(Required)"),
        (json!({"mode": "any", "allowedFunctionNames": ["f"]}), r#"Some(Function("f"))"#),
        (
            json!({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}),
            r#"Some(Allowed { names: ["f", "g"], required: true })"#,
        ),
        (
            json!({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}),
            r#"Some(Allowed { names: ["f"], required: false })"#,
        ),
    ] {
        assert_eq!(choice(config.clone()), wanted, "{config}");
    }
    let tools = json!({"contents": [{"parts": [{"text": "x"}]}], "tools": [
        {"googleSearch": {}}, {"codeExecution": {}, "functionDeclarations": []}, {"urlContext": {}}, {"googleMaps": {}}]});
    with(&tools, |request| {
        let kinds: Vec<&str> = request
            .tools
            .iter()
            .map(|tool| match tool {
                Tool::Other { kind, .. } => kind.as_ref(),
                Tool::Function { name, .. } => name.as_ref(),
            })
            .collect();
        assert_eq!(kinds, ["web_search", "code_execution_20250825", "web_fetch_20250910", "googleMaps"]);
    });
}

#[test]
fn refusals_name_the_member() {
    let content = |part: Value| json!({"contents": [{"role": "user", "parts": [part]}]});
    for (request, param) in [
        (json!({}), "contents"),
        (json!({"contents": []}), "contents"),
        (json!({"contents": "x"}), "contents"),
        (json!({"contents": ["x"]}), "contents[0]"),
        (json!({"contents": [{"role": "boss", "parts": []}]}), "contents[0].role"),
        (content(json!("x")), "contents[0].parts[0]"),
        (content(json!({"text": 3})), "contents[0].parts[0]"),
        (content(json!({"unheardOf": {}})), "contents[0].parts[0]"),
        (content(json!({"functionCall": {}})), "contents[0].parts[0].functionCall.name"),
        (content(json!({"inlineData": {}})), "contents[0].parts[0].inlineData.data"),
        (content(json!({"fileData": {}})), "contents[0].parts[0].fileData.fileUri"),
        (json!({"contents": [], "tools": 3}), "tools"),
        (json!({"contents": [], "tools": [3]}), "tools[0]"),
        (
            json!({"contents": [], "tools": [{"functionDeclarations": [{}]}]}),
            "tools[0].functionDeclarations[0].name",
        ),
        (
            json!({"contents": [], "toolConfig": {"functionCallingConfig": {"mode": "MUST"}}}),
            "toolConfig.functionCallingConfig.mode",
        ),
        (json!({"contents": [], "generationConfig": 3}), "generationConfig"),
        (
            json!({"contents": [], "generationConfig": {"thinkingConfig": []}}),
            "generationConfig.thinkingConfig",
        ),
        (
            json!({"systemInstruction": {"parts": [{"inlineData": {}}]}, "contents": []}),
            "systemInstruction.parts[0]",
        ),
    ] {
        assert_eq!(refused(&request), param, "{request}");
    }
}

#[test]
fn a_count_counts_the_request_inside() {
    let plain = body(&json!({"contents": [{"parts": [{"text": "a"}]}]}));
    assert_eq!(counted(&plain).unwrap().messages.len(), 1);
    let whole = body(
        &json!({"generateContentRequest": {"model": "models/m", "contents": [{"parts": [{"text": "a"}]}],
        "systemInstruction": {"parts": [{"text": "b"}]}}}),
    );
    assert_eq!(counted(&whole).unwrap().messages.len(), 2);
    let wrong = body(&json!({"generateContentRequest": 3}));
    assert_eq!(counted(&wrong).unwrap_err().param.as_deref(), Some("generateContentRequest"));
}

proptest::proptest! {
    #[test]
    fn any_json_is_survived(text in r#"\{("contents":|"tools":|"parts":|"functionCall":|"functionResponse":|"name":|"text":|"f"|"generationConfig":|"toolConfig":|\{|\}|\[|\]|,|1|null|true)*\}"#) {
        if let Ok(body) = Body::parse(text.into()) {
            let _ = read(&body);
            let _ = counted(&body);
        }
    }
}
