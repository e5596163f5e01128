//! Reads requests: each construct of the dialect, and what is rejected.

use crate::api::body::Body;
use crate::api::chat::{ChatRequest, Part, ResponseFormat, Role, Source, Tool, ToolChoice};
use crate::api::messages::read;
use crate::error::Error;
use serde_json::{Value, json};

fn body(json: &Value) -> Body {
    Body::parse(json.to_string().into()).unwrap()
}

fn with<T>(json: Value, look: impl FnOnce(ChatRequest<'_>) -> T) -> T {
    look(read(&body(&json)).unwrap())
}

/// A short description of each part of a message.
fn short(parts: &[Part<'_>]) -> Vec<String> {
    let source = |source: &Source<'_>| match source {
        Source::Url { url, media_type } => format!("url {url} {}", media_type.as_deref().unwrap_or("-")),
        Source::Data { media_type, data } => format!("data {media_type} {data}"),
        Source::Text(text) => format!("text {text}"),
        Source::Id(id) => format!("id {id}"),
    };
    let cached = |json: &Option<crate::json::Json<'_>>| if json.is_some() { " cached" } else { "" };
    let each = parts.iter().map(|part| match part {
        Part::Text { text, cache_control } => format!("{text}{}", cached(cache_control)),
        Part::Image(image) => format!("image {}{}", source(&image.source), cached(&image.cache_control)),
        Part::File(file) => {
            let name = file.name.as_deref().unwrap_or("-");
            format!("file {name} {}{}", source(&file.source), cached(&file.cache_control))
        }
        Part::Reasoning { text, signature } => {
            format!("thinks {text} {}", signature.as_deref().unwrap_or("-"))
        }
        Part::Redacted { data } => format!("redacted {data}"),
        Part::ToolCall(call) => format!("calls {} {} {}", call.id, call.name, call.arguments),
        Part::Other { kind, .. } => format!("other {kind}"),
        part => format!("{part:?}"),
    });
    each.collect()
}

fn messages(json: Value) -> Vec<(Role, Vec<String>)> {
    with(json!({"model": "m", "messages": json}), |request| {
        request.messages.iter().map(|message| (message.role, short(&message.content))).collect()
    })
}

#[test]
fn system_is_the_first_message_and_keeps_its_cache_marks() {
    let blocks = json!([{"type": "text", "text": "A"},
        {"type": "text", "text": "B", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": ""}]);
    for (system, wanted) in [(json!("A"), vec!["A"]), (blocks, vec!["A", "B cached"])] {
        let request_json = json!({"messages": [{"role": "user", "content": "Hi"}], "system": system});
        with(request_json, |request| {
            assert_eq!(request.messages.len(), 2);
            assert_eq!(request.messages[0].role, Role::System);
            assert_eq!(short(&request.messages[0].content), wanted);
        });
    }
    with(json!({"messages": [], "system": ""}), |request| assert!(request.messages.is_empty()));
}

#[test]
fn every_block_of_a_user() {
    let parsed = messages(json!([
        {"role": "user", "content": [
            {"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
            {"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}, "cache_control": {}},
            {"type": "image", "source": {"type": "url", "url": "data:image/gif;base64,R0"}},
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
                "title": "T", "context": "About"},
            {"type": "document", "source": {"type": "url", "url": "https://a.b/c"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
            {"type": "document", "source": {"type": "file", "file_id": "file_2"}},
            {"type": "document", "source": {"type": "content",
                "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}},
            {"type": "document", "source": {"type": "content",
                "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]}},
            {"type": "search_result", "source": "https://s", "title": "S",
                "content": [{"type": "text", "text": "found"}]},
            {"type": "container_upload", "file_id": "file_3"},
        ]},
    ]));
    let wanted = [
        "see cached",
        "image data image/png AA==",
        "image url https://a.b/c.png - cached",
        "image data image/gif R0",
        "image id file_1",
        "About",
        "file T data application/pdf JVBE",
        "file - url https://a.b/c application/pdf",
        "file - text words",
        "file - id file_2",
        "file - text x\n\ny",
        "image url u -",
        "file S text Source: https://s\n\nfound",
        "other container_upload",
    ];
    assert_eq!(parsed, [(Role::User, wanted.map(str::to_owned).to_vec())]);
}

#[test]
fn documents_of_texts_and_images_are_cited_text_by_text() {
    let of = |content: Value| {
        let document = json!({"type": "document", "citations": {"enabled": true}, "source": {"type": "content", "content": content}});
        json!({"model": "m", "messages": [{"role": "user", "content": [document]}]})
    };
    let image = json!({"type": "image", "source": {"type": "url", "url": "u"}});
    with(of(json!([{"type": "text", "text": "a"}, image])), |request| {
        assert!(request.has_citations());
        assert_eq!(short(&request.messages[0].content), ["file - text a", "image url u -"]);
    });
    // No document has others; one in another could be without an end.
    let open = r#"{"type":"document","source":{"type":"content","content":["#;
    let close = "]}}";
    let text = open.repeat(50_000) + &image.to_string() + &close.repeat(50_000);
    let body =
        Body::parse(format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{text}]}}]}}"#).into());
    let body = body.unwrap();
    assert_eq!(short(&read(&body).unwrap().messages[0].content), ["other document"]);
}

#[test]
fn every_block_of_an_assistant() {
    let parsed = messages(json!([{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Hm", "signature": "s"},
        {"type": "thinking", "thinking": "Ho", "signature": ""},
        {"type": "thinking", "thinking": "", "signature": "t"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "I look.", "citations": [{"type": "char_location"}]},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1.0}},
        {"type": "tool_use", "id": "t2", "name": "g"},
    ]}, {"role": "system", "content": "Now in French."}]));
    let wanted = [
        "thinks Hm s",
        "thinks Ho -",
        "thinks  t",
        "redacted x",
        "I look.",
        "other server_tool_use",
        "other web_search_tool_result",
        r#"calls t1 f {"a":1.0}"#,
        "calls t2 g {}",
    ];
    assert_eq!(parsed[0], (Role::Assistant, wanted.map(str::to_owned).to_vec()));
    assert_eq!(parsed[1], (Role::System, vec!["Now in French.".to_owned()]));
}

#[test]
fn results_become_messages_of_their_own() {
    let request_json = json!({"messages": [{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "sunny", "cache_control": {"type": "ephemeral"}},
        {"type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": [
            {"type": "text", "text": "broken"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
            {"type": "tool_reference", "tool_name": "f"}]},
        {"type": "tool_result", "tool_use_id": "t3"},
        {"type": "text", "text": "Go on."},
    ]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t4", "content": []}]}]});
    with(request_json, |request| {
        let parsed: Vec<_> = request
            .messages
            .iter()
            .map(|one| (one.role, one.tool_call_id.as_deref(), one.is_error, short(&one.content)))
            .collect();
        let text = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let wanted = [
            (Role::Tool, Some("t1"), false, text(&["sunny"])),
            (
                Role::Tool,
                Some("t2"),
                true,
                text(&["broken", "image data image/png AA", "other tool_reference"]),
            ),
            (Role::Tool, Some("t3"), false, text(&[])),
            (Role::User, None, false, text(&["Go on."])),
            (Role::Tool, Some("t4"), false, text(&[])),
        ];
        assert_eq!(parsed, wanted);
        assert!(request.messages[0].cache_control.is_some());
    });
}

#[test]
fn tools_and_their_choice() {
    let request_json = json!({"messages": [], "tools": [
        {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true,
            "cache_control": {"type": "ephemeral"}, "defer_loading": true},
        {"type": "custom", "name": "g", "input_schema": {}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
    ], "tool_choice": {"type": "any", "disable_parallel_tool_use": true}});
    with(request_json, |request| {
        let Tool::Function { name, description, parameters, strict, cache_control, rest } = &request.tools[0]
        else {
            panic!("{:?}", request.tools)
        };
        assert_eq!((name.as_ref(), description.as_deref(), *strict), ("f", Some("d"), Some(true)));
        assert_eq!(parameters.as_ref().unwrap().get(), r#"{"type":"object"}"#);
        assert!(cache_control.is_some() && rest.get("defer_loading").is_some());
        assert!(matches!(&request.tools[1], Tool::Function { name, .. } if name == "g"));
        assert!(matches!(&request.tools[2], Tool::Other { kind, .. } if kind == "web_search_20250305"));
        assert!(matches!(request.tool_choice, Some(ToolChoice::Required)));
        assert_eq!(request.parallel_tool_calls, Some(false));
    });
    let choice =
        |json: Value| with(json!({"messages": [], "tool_choice": json}), |r| format!("{:?}", r.tool_choice));
    assert_eq!(choice(json!({"type": "auto"})), "Some(Auto)");
    assert_eq!(choice(json!({"type": "none"})), "Some(None)");
    assert_eq!(choice(json!({"type": "tool", "name": "f"})), r#"Some(Function("f"))"#);
}

#[test]
fn members_get_their_common_names() {
    let request_json = json!({"model": "m", "messages": [], "max_tokens": 9, "stop_sequences": ["a", "b"], "stream": true,
        "temperature": 0.5, "top_p": 1, "top_k": 3, "metadata": {"user_id": "u", "team": "x"},
        "thinking": {"type": "enabled", "budget_tokens": 1024}, "service_tier": "standard_only",
        "output_config": {"effort": "high", "task_budget": {"total": 5}}, "betas": ["x"], "container": null});
    with(request_json, |request| {
        assert!(request.stream && request.include_usage);
        assert_eq!(request.max_tokens.unwrap().get(), "9");
        assert_eq!(request.stop, ["a", "b"]);
        assert_eq!(request.reasoning.effort.as_deref(), Some("high"));
        assert_eq!(request.reasoning.thinking.unwrap().get(), r#"{"budget_tokens":1024,"type":"enabled"}"#);
        let mut params: Vec<_> =
            request.params.iter().map(|(name, json)| format!("{name}={}", json.get())).collect();
        params.sort();
        let wanted = [
            r#"betas=["x"]"#,
            r#"metadata={"team":"x"}"#,
            r#"output_config={"task_budget":{"total":5}}"#,
            r#"service_tier="default""#,
            "temperature=0.5",
            "top_k=3",
            "top_p=1",
            r#"user="u""#,
        ];
        assert_eq!(params, wanted);
    });
}

#[test]
fn response_format_strictness() {
    let strict = |schema: Value| {
        let format = json!({"type": "json_schema", "schema": schema});
        let config = json!({"messages": [], "output_config": {"format": format}});
        let old = json!({"messages": [], "output_format": format});
        let [new, old] = [config, old].map(|request_json| {
            with(request_json, |request| match request.response_format {
                Some(ResponseFormat::JsonSchema { strict, .. }) => strict,
                other => panic!("{other:?}"),
            })
        });
        assert_eq!(new, old);
        new
    };
    let closed =
        json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": false});
    assert_eq!(strict(closed.clone()), Some(true));
    let optional =
        json!({"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": false});
    assert_eq!(strict(optional.clone()), Some(false));
    assert_eq!(strict(json!({"type": "array", "items": optional})), Some(false));
    assert_eq!(strict(json!({"type": "array", "items": closed})), Some(true));
}

#[test]
fn errors_name_the_parameter() {
    let message = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let cases = [
        (json!({"messages": 7}), "messages"),
        (json!({"messages": [{"role": "robot", "content": "x"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
        (message(json!(7)), "messages[0].content"),
        (message(json!([{"type": "text", "text": "x"}, {"text": "y"}])), "messages[0].content[1].type"),
        (message(json!([{"type": "text"}])), "messages[0].content[0].text"),
        (message(json!([["x"]])), "messages[0].content[0]"),
        (message(json!([{"type": "image"}])), "messages[0].content[0].source"),
        (message(json!([{"type": "image", "source": {"type": "x"}}])), "messages[0].content[0].source.type"),
        (
            message(json!([{"type": "image", "source": {"type": "base64", "data": "x"}}])),
            "messages[0].content[0].source.media_type",
        ),
        (message(json!([{"type": "tool_result"}])), "messages[0].content[0].tool_use_id"),
        (
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "x"}]}]}),
            "messages[0].content[0].name",
        ),
        (json!({"system": 7}), "system"),
        (json!({"system": [{"type": "text"}]}), "system[0].text"),
        (json!({"tools": [{"input_schema": {}}]}), "tools[0].name"),
        (json!({"tools": {}}), "tools"),
        (json!({"tool_choice": "auto"}), "tool_choice"),
        (json!({"tool_choice": {"type": "tool"}}), "tool_choice.name"),
        (json!({"stop_sequences": "x"}), "stop_sequences"),
        (json!({"metadata": 7}), "metadata"),
        (json!({"output_config": {"effort": 7}}), "output_config.effort"),
        (json!({"output_config": {"format": {"type": "json_schema"}}}), "output_config.format.schema"),
    ];
    for (json, wanted) in cases {
        let body = body(&json);
        let error: Error = read(&body).expect_err(&json.to_string());
        assert_eq!((error.param.as_deref(), error.status()), (Some(wanted), 400), "{json}");
        assert!(error.message.contains(wanted), "{}", error.message);
    }
}
