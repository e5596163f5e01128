//! Parsing requests: each construct and what it becomes.

use super::super::read;
use crate::api::body::Body;
use crate::api::chat::{ChatRequest, Message, Part, ResponseFormat, Source, Tool, ToolChoice};
use serde_json::json;
use std::fmt::Write;

fn body(text: &str) -> Body {
    Body::parse(text.to_owned().into()).unwrap()
}

/// A short description of a message.
fn describe(message: &Message<'_>) -> String {
    let mut out = format!("{:?}", message.role).to_lowercase();
    if let Some(id) = &message.tool_call_id {
        write!(out, "({id})").unwrap();
    }
    for part in &message.content {
        let part = match part {
            Part::Text { text, .. } => format!("{text:?}"),
            Part::Image(image) => format!("image {} {:?}", describe_source(&image.source), image.detail),
            Part::File(file) => format!("file {} {:?}", describe_source(&file.source), file.name),
            Part::Audio { data, format } => format!("audio {format} {data}"),
            Part::Reasoning { text, signature } => format!("thinks {text:?} {signature:?}"),
            Part::Redacted { data } => format!("redacted {data}"),
            Part::Refusal(text) => format!("refuses {text:?}"),
            Part::ToolCall(call) => {
                format!("calls {} {}({}) {:?}", call.id, call.name, call.arguments, call.signature)
            }
            Part::Other { kind, .. } => format!("other {kind}"),
        };
        write!(out, " | {part}").unwrap();
    }
    out
}

fn describe_source(source: &Source<'_>) -> String {
    match source {
        Source::Url { url, .. } => format!("url {url}"),
        Source::Data { media_type, data } => format!("data {media_type} {data}"),
        Source::Text(text) => format!("text {text}"),
        Source::Id(id) => format!("id {id}"),
    }
}

fn messages(request: &str) -> Vec<String> {
    let body = body(request);
    read(&body).unwrap().messages.iter().map(describe).collect()
}

/// The messages parsed from a list of input items.
fn input(items: &str) -> Vec<String> {
    messages(&format!(r#"{{"model":"m","input":{items}}}"#))
}

#[test]
fn instructions_precede_the_input() {
    let request = r#"{"input":"Hi","model":"m","instructions":"Be brief."}"#;
    assert_eq!(messages(request), [r#"system | "Be brief.""#, r#"user | "Hi""#]);
}

#[test]
fn messages_with_and_without_a_type() {
    let items = r#"[
        {"role":"developer","content":"d"},
        {"type":"message","role":"system","content":[{"type":"input_text","text":"s"}]},
        {"role":"user","content":[
            {"type":"input_text","text":"u"},
            {"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"low"},
            {"type":"input_image","image_url":"https://a.example/b.png","detail":"auto"},
            {"type":"input_image","file_id":"file-1","image_url":null},
            {"type":"input_file","file_data":"data:text/plain;base64,QQ==","filename":"a.txt"},
            {"type":"input_file","file_data":"JVBER"},
            {"type":"input_file","file_url":"https://a.example/b.pdf"},
            {"type":"input_file","file_id":"file-2"},
            {"type":"input_audio","input_audio":{"data":"UklG","format":"mp3"}},
            {"type":"input_video","video":1}]},
        {"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":"final_answer","content":[
            {"type":"output_text","text":"a","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"no"}]}
    ]"#;
    let user = concat!(
        r#"user | "u" | image data image/png AAAA Some("low") | image url https://a.example/b.png Some("auto")"#,
        r#" | image id file-1 None | file data text/plain QQ== Some("a.txt") | file data application/pdf JVBER None"#,
        " | file url https://a.example/b.pdf None | file id file-2 None | audio mp3 UklG | other input_video",
    );
    let wanted = [r#"developer | "d""#, r#"system | "s""#, user, r#"assistant | "a" | refuses "no""#];
    assert_eq!(input(items), wanted);
}

#[test]
fn the_assistants_items_become_one_message_with_its_thinking_before_its_calls() {
    let items = r#"[
        {"role":"user","content":"q"},
        {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"EqQB"},
        {"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"redacted:XYZ"},
        {"type":"message","role":"assistant","content":"Let me see."},
        {"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"call:SEAL"},
        {"type":"function_call","call_id":"c1","id":"fc_1","name":"f","arguments":"{\"a\":1}","status":"completed"},
        {"type":"function_call","call_id":"c2","name":"g","arguments":""},
        {"type":"function_call_output","call_id":"c1","output":"one"},
        {"type":"function_call_output","call_id":"c2","output":[
            {"type":"input_text","text":"two"},{"type":"input_image","image_url":"data:image/png;base64,AA"}]},
        {"type":"custom_tool_call","call_id":"c3","name":"shell","input":"ls \"x\""},
        {"type":"custom_tool_call_output","call_id":"c3","output":"x"},
        {"role":"assistant","content":"Done."}
    ]"#;
    let assistant = concat!(
        r#"assistant | thinks "hm" Some("EqQB") | redacted XYZ | "Let me see." | calls c1 f({"a":1}) Some("SEAL")"#,
        " | calls c2 g() None",
    );
    let wanted = [
        r#"user | "q""#,
        assistant,
        r#"tool(c1) | "one""#,
        r#"tool(c2) | "two" | image data image/png AA None"#,
        r#"assistant | calls c3 shell({"input":"ls \"x\""}) None"#,
        r#"tool(c3) | "x""#,
        r#"assistant | "Done.""#,
    ];
    assert_eq!(input(items), wanted);
}

#[test]
fn openai_sealed_thinking_keeps_its_summary_and_thinking_alone_is_dropped() {
    let items = r#"[
        {"role":"user","content":"q"},
        {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"gAAAAABq"},
        {"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"raw"}]},
        {"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"gAAAAABq"},
        {"role":"assistant","content":"x"},
        {"role":"user","content":"q"},
        {"type":"reasoning","id":"rs_4","summary":[],"encrypted_content":"EqQB"}
    ]"#;
    let wanted =
        [r#"user | "q""#, r#"assistant | thinks "a\n\nb" None | thinks "raw" None | "x""#, r#"user | "q""#];
    assert_eq!(input(items), wanted);
}

#[test]
fn built_in_tool_items_are_dropped_and_discovered_tools_are_kept() {
    let text = r#"{"input":[
        {"role":"user","content":"q"},
        {"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}},
        {"type":"code_interpreter_call","id":"ci_1","code":"1","container_id":"c","outputs":null,"status":"completed"},
        {"type":"mcp_call","id":"mcp_1","name":"n","arguments":"{}","server_label":"s","output":null,"error":null},
        {"type":"tool_search_call","call_id":null,"execution":"server","status":"completed","arguments":{"queries":["x"]}},
        {"type":"tool_search_output","call_id":null,"execution":"server","status":"completed","tools":[
            {"type":"function","name":"f","defer_loading":true,"parameters":{"type":"object"},"strict":true}]},
        {"type":"additional_tools","role":"developer","tools":[
            {"type":"function","name":"f","parameters":{}},{"type":"function","name":"g","parameters":{}}]},
        {"type":"image_generation_call","id":"ig_1","status":"completed","result":"/9j/AA"}],
        "model":"m"}"#;
    let body = body(text);
    let request = read(&body).unwrap();
    let all: Vec<String> = request.messages.iter().map(describe).collect();
    assert_eq!(all, [r#"user | "q""#, "assistant | image data image/jpeg /9j/AA None"]);
    let names: Vec<&str> = request.tools.iter().map(name).collect();
    assert_eq!(names, ["f", "g"]);
    let Some(Tool::Function { strict, rest, .. }) = request.tools.first() else { panic!("a function") };
    assert!(*strict == Some(true) && rest.is_empty());
}

fn name<'t>(tool: &'t Tool<'_>) -> &'t str {
    match tool {
        Tool::Function { name, .. } => name,
        Tool::Other { kind, .. } => kind,
    }
}

/// As Codex searches for tools: the tool, its call and the tools that it found.
#[test]
fn a_search_for_tools_that_the_client_runs_is_a_function() {
    let text = json!({
        "model": "m",
        "tools": [
            {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": {"type": "object"}},
            {"type": "function", "name": "late", "defer_loading": true, "parameters": {}},
        ],
        "tool_choice": {"type": "tool_search"},
        "input": [
            {"type": "tool_search_call", "call_id": "s", "execution": "client", "status": "completed", "arguments": {"query": "x"}},
            {"type": "tool_search_output", "call_id": "s", "execution": "client", "status": "completed", "tools": [
                {"type": "namespace", "name": "mcp__x", "description": "", "tools": [
                    {"type": "function", "name": "f", "defer_loading": true, "parameters": {"type": "object"}}]}]},
            {"type": "tool_search_call", "call_id": "t", "execution": "client", "arguments": {"query": "y"}},
            {"type": "tool_search_output", "call_id": "t", "execution": "client", "tools": []},
        ],
    });
    let body = body(&text.to_string());
    let request = read(&body).unwrap();
    let names: Vec<&str> = request.tools.iter().map(name).collect();
    assert_eq!(names, ["tool_search", "late", "mcp__x__f"]);
    let Some(Tool::Function { description, parameters, .. }) = request.tools.first() else {
        panic!("a function")
    };
    assert_eq!(
        (description.as_deref(), parameters.as_ref().map(|json| json.get())),
        (Some("Finds tools."), Some(r#"{"type":"object"}"#))
    );
    assert!(matches!(&request.tool_choice, Some(ToolChoice::Function(name)) if name == "tool_search"));
    let all: Vec<String> = request.messages.iter().map(describe).collect();
    assert_eq!(
        all,
        [
            r#"assistant | calls s tool_search({"query":"x"}) None"#,
            r#"tool(s) | "Found, and can be called now: mcp__x__f.""#,
            r#"assistant | calls t tool_search({"query":"y"}) None"#,
            r#"tool(t) | "No tools were found.""#,
        ]
    );
    assert_eq!(request.warnings, [""; 0]);
}

#[test]
fn a_limit_of_tokens_by_another_name_is_read_and_not_passed_on() {
    for (members, expected) in [
        (r#""max_tokens":7"#, "7"),
        (r#""max_tokens":7,"max_output_tokens":8"#, "8"),
        (r#""max_output_tokens":8,"max_tokens":7"#, "8"),
    ] {
        let body = body(&format!(r#"{{"model":"m","input":"i",{members}}}"#));
        let request = read(&body).unwrap();
        assert_eq!(request.max_tokens.as_ref().map(|json| json.get()), Some(expected), "{members}");
        assert!(request.params.get("max_tokens").is_none(), "{members}");
    }
}

#[test]
fn settings_are_mapped() {
    let text = r#"{"model":"m","input":"i","stream":true,"max_output_tokens":9007199254740993,"temperature":0.70,
        "tools":[{"type":"function","name":"f","description":"d","parameters":{"b":1,"a":2},"strict":null,"x":1},
                 {"type":"web_search"}],
        "tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false,
        "text":{"format":{"type":"json_schema","name":"n","schema":{"z":1.0},"strict":true},"verbosity":"low"},
        "reasoning":{"effort":"high","generate_summary":"concise","summary":"detailed"},
        "include":["message.output_text.logprobs","reasoning.encrypted_content"],"top_logprobs":2,
        "user":"u","store":false,"truncation":"disabled","previous_response_id":null,"background":false,"own":{"k":1.0}}"#;
    let body = body(text);
    let request = read(&body).unwrap();
    assert!(request.stream && request.include_usage);
    assert_eq!(request.max_tokens.as_ref().map(|json| json.get()), Some("9007199254740993"));
    assert!(matches!(&request.tool_choice, Some(ToolChoice::Function(name)) if name == "f"));
    assert_eq!(request.parallel_tool_calls, Some(false));
    let Some(ResponseFormat::JsonSchema { name: schema_name, schema, strict: Some(true), .. }) =
        &request.response_format
    else {
        panic!("{:?}", request.response_format)
    };
    assert_eq!((schema_name.as_ref(), schema.get()), ("n", r#"{"z":1.0}"#));
    assert_eq!(request.reasoning.effort.as_deref(), Some("high"));
    assert_eq!(request.reasoning.summary.as_deref(), Some("detailed"));
    assert_eq!(request.tools.iter().map(name).collect::<Vec<_>>(), ["f", "web_search"]);
    let mut params: Vec<String> =
        request.params.iter().map(|(name, value)| format!("{name}={}", value.get())).collect();
    params.sort();
    let wanted = [
        "logprobs=true",
        r#"own={"k":1.0}"#,
        "temperature=0.70",
        "top_logprobs=2",
        r#"user="u""#,
        r#"verbosity="low""#,
    ];
    assert_eq!(params, wanted);
    assert!(request.warnings.is_empty());
}

#[test]
fn every_form_of_tool_choice_is_read() {
    let choice = |json: &str| {
        let body = body(&format!(r#"{{"model":"m","input":"i","tool_choice":{json}}}"#));
        format!("{:?}", read(&body).map(|request: ChatRequest<'_>| request.tool_choice.unwrap()))
    };
    assert_eq!(choice(r#""auto""#), "Ok(Auto)");
    assert_eq!(choice(r#""none""#), "Ok(None)");
    assert_eq!(choice(r#""required""#), "Ok(Required)");
    let allowed = r#"{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"web_search"}]}"#;
    assert_eq!(choice(allowed), r#"Ok(Allowed { names: ["f"], required: true })"#);
    assert!(choice(r#"{"type":"web_search"}"#).starts_with("Ok(Other("));
    assert!(choice(r#""sometimes""#).starts_with("Err("));
}

#[test]
fn optional_params_are_dropped_with_a_warning() {
    let text = r#"{"model":"m","input":"i","store":true,"truncation":"auto","max_tool_calls":3,"reasoning":{"mode":"pro"},
        "context_management":[{"type":"compaction"}],"stream_options":{"include_obfuscation":false},"top_logprobs":3}"#;
    let body = body(text);
    let request = read(&body).unwrap();
    let params: Vec<&str> =
        request.warnings.iter().filter_map(|warning| Some(warning.split_once(": dropped, ")?.0)).collect();
    assert_eq!(params, ["store", "truncation", "reasoning.mode", "context_management", "max_tool_calls"]);
    assert!(request.params.is_empty());
    let limited = crate::api::body::Body::parse(
        r#"{"model":"m","input":"i","max_tool_calls":3,"tools":[{"type":"web_search"}]}"#.into(),
    );
    let limited = limited.unwrap();
    let request = read(&limited).unwrap();
    assert_eq!(
        request.params.get("max_tool_calls").map(|limit| limit.get().to_owned()).as_deref(),
        Some("3")
    );
    assert!(request.warnings.is_empty());
}

#[test]
fn unsupported_or_invalid_requests_name_the_param() {
    let cases = [
        (r#"{"model":"m"}"#, "input"),
        (r#"{"model":"m","input":7}"#, "input"),
        (r#"{"model":"m","input":"i","previous_response_id":"resp_1"}"#, "previous_response_id"),
        (r#"{"model":"m","input":"i","conversation":"conv_1"}"#, "conversation"),
        (r#"{"model":"m","input":"i","prompt":{"id":"p"}}"#, "prompt"),
        (r#"{"model":"m","input":"i","background":true}"#, "background"),
        (r#"{"model":"m","input":[{"type":"item_reference","id":"msg_1"}]}"#, "input[0]"),
        (r#"{"model":"m","input":[{"id":"msg_1"}]}"#, "input[0]"),
        (r#"{"model":"m","input":[{"type":"mcp_approval_request","id":"x"}]}"#, "input[0].type"),
        (r#"{"model":"m","input":["x"]}"#, "input[0]"),
        (r#"{"model":"m","input":[{"role":"tool","content":"x"}]}"#, "input[0].role"),
        (r#"{"model":"m","input":[{"role":"user"}]}"#, "input[0].content"),
        (
            r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_image"}]}]}"#,
            "input[0].content[0].image_url",
        ),
        (r#"{"model":"m","input":[{"type":"function_call_output","output":"x"}]}"#, "input[0].call_id"),
        (
            r#"{"model":"m","input":"i","tools":[{"type":"function","function":{"name":"f"}}]}"#,
            "tools[0].name",
        ),
        (r#"{"model":"m","input":"i","text":{"format":{"type":"xml"}}}"#, "text.format.type"),
        (
            r#"{"model":"m","input":"i","text":{"format":{"type":"json_schema","name":"n"}}}"#,
            "text.format.schema",
        ),
    ];
    for (text, param) in cases {
        let body = body(text);
        let error = read(&body).expect_err(text);
        assert_eq!((error.status(), error.param.as_deref()), (400, Some(param)), "{text}: {error}");
    }
}

/// What was made by this gateway and is not kept any more.
#[test]
fn references_are_left_out_where_the_conversation_goes_on_without_them() {
    let reference = |id: &str| json!({"type": "item_reference", "id": id});
    let user = json!({"role": "user", "content": "a"});
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
    let result = json!({"type": "function_call_output", "call_id": "c", "output": "1"});
    let thought = reference("rs_t-1_0");
    let spoken = reference("msg_t-1_1");
    let search = reference("ws_t-1_2");
    for (items, param, warnings) in [
        (vec![&user, &thought, &call, &result], None, 1),
        (vec![&user, &thought, &spoken, &call, &result, &thought, &spoken, &call, &result], None, 4),
        (vec![&user, &search, &spoken, &thought, &call, &result], None, 3),
        // A turn of the assistant.
        (vec![&user, &thought, &spoken, &user], Some("input[2]"), 0),
        (vec![&user, &spoken], Some("input[1]"), 0),
        (vec![&user, &spoken, &spoken, &call, &result], Some("input[1]"), 0),
        (vec![&user, &reference("fc_t-1_0"), &result], Some("input[1]"), 0),
        // OpenAI's own, whose content only OpenAI has.
        (vec![&user, &reference("rs_68c42de022c881948db7ed1cc2529f2e"), &call, &result], Some("input[1]"), 0),
    ] {
        let text = json!({"model": "m", "input": items}).to_string();
        let body = body(&text);
        match (read(&body), param) {
            (Ok(request), None) => {
                assert_eq!(request.warnings.len(), warnings, "{text}: {:?}", request.warnings);
                assert!(request.warnings.iter().all(|warning| warning.contains("left out")));
            }
            (read, _) => assert_eq!(read.err().and_then(|error| error.param).as_deref(), param, "{text}"),
        }
    }
}

#[test]
fn tools_of_namespaces_and_freeform_tools_become_functions() {
    let body = body(
        &json!({
            "model": "m",
            "tools": [
                {"type": "namespace", "name": "mcp__files", "tools": [{"type": "function", "name": "read", "defer_loading": true}]},
                {"type": "custom", "name": "apply_patch", "description": "Edits.",
                 "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}},
                {"type": "local_shell"},
            ],
            "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [
                {"type": "function", "name": "read", "namespace": "mcp__files"}, {"type": "custom", "name": "apply_patch"}]},
            "input": [
                {"type": "function_call", "call_id": "c1", "name": "read", "namespace": "mcp__files", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "x"},
                {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "a\nb"},
                {"type": "custom_tool_call_output", "call_id": "c2", "output": "y"},
            ],
        })
        .to_string(),
    );
    let request = read(&body).unwrap();
    let tools: Vec<String> = request
        .tools
        .iter()
        .map(|tool| match tool {
            Tool::Function { name, description, .. } => format!("{name} {description:?}"),
            Tool::Other { kind, .. } => format!("other {kind}"),
        })
        .collect();
    let described = "Edits.\n\nThe input is a text of this lark grammar:\nstart: /x/";
    assert_eq!(
        tools,
        [
            "mcp__files__read None".to_owned(),
            format!("apply_patch {:?}", Some(described)),
            "other local_shell".to_owned()
        ]
    );
    let Some(ToolChoice::Allowed { names, required: true }) = request.tool_choice else { panic!() };
    assert_eq!(names.iter().collect::<Vec<_>>(), ["mcp__files__read", "apply_patch"]);
    let calls: Vec<String> = request.messages.iter().map(describe).collect();
    assert_eq!(
        calls,
        [
            "assistant | calls c1 mcp__files__read({}) None",
            "tool(c1) | \"x\"",
            "assistant | calls c2 apply_patch({\"input\":\"a\\nb\"}) None",
            "tool(c2) | \"y\"",
        ]
    );
    assert_eq!(request.warnings.len(), 1, "{:?}", request.warnings);
}
