//! Requests from clients of other dialects: one conversation with every construct, written for vendors with
//! different quirks. Requests of chat completion clients are tested by the golden files.

use super::super::{OpenAiChat, quirks};
use super::OPENAI_CHAT;
use crate::provider::Call;
use crate::provider::adapter::{CallTarget, ChatAdapter};
use crate::provider::openai_chat::OPENAI_OR_ENGINE;
use crate::provider::translation_notes::TranslationNotes;
use http::Method;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::chat::{
    ChatRequest, File, Image, Message, Part, Reasoning, ResponseFormat, Role, Source, Tool, ToolCall,
    ToolChoice,
};
use words::api::chat_completions;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;
use words::json::Json;

fn write(chat: &OpenAiChat, mut request: ChatRequest<'_>) -> Result<(Value, Vec<String>), Error> {
    let account = Account::default();
    let call = Call {
        operation: Operation::ChatCompletions,
        method: &Method::POST,
        path: "chat/completions",
        query: None,
        model: Some("m"),
        streamed: request.stream,
    };
    let mut notes = TranslationNotes::default();
    let target = CallTarget { call: &call, account: &account, model: "m", client_betas: None };
    chat.call_ids().apply(&mut request.messages);
    let body = chat.write(request, &target, &mut notes)?;
    Ok((serde_json::from_slice(&body).unwrap(), notes.warnings))
}

fn part(text: &'static str) -> Part<'static> {
    Part::text(text)
}

fn picture() -> Part<'static> {
    let source = Source::Data { media_type: "image/png".into(), data: "AAAA".into() };
    Part::Image(Box::new(Image { source, detail: Some("low".into()), cache_control: None }))
}

fn document(source: Source<'static>) -> Part<'static> {
    let name = Some("a.pdf".into());
    Part::File(Box::new(File { source, name, cache_control: None, has_citations: false }))
}

fn thought(signature: Option<&'static str>) -> Part<'static> {
    Part::Reasoning { text: "hm".into(), signature: signature.map(Into::into) }
}

fn call() -> Part<'static> {
    Part::ToolCall(Box::new(ToolCall {
        id: "toolu_1".into(),
        name: "look".into(),
        arguments: "".into(),
        signature: None,
        cache_control: None,
    }))
}

/// A turn with a tool whose result contains an image.
fn conversation() -> Vec<Message<'static>> {
    let mut result = Message::new(Role::Tool, vec![part("it is"), part("red"), picture()]);
    result.tool_call_id = Some("toolu_1".into());
    let mut failed = Message::new(Role::Tool, vec![part("no")]);
    failed.tool_call_id = Some("toolu_2".into());
    failed.is_error = true;
    vec![
        Message::new(Role::Developer, vec![part("be"), part("brief")]),
        Message::new(Role::User, vec![part("look")]),
        Message::new(Role::Assistant, vec![thought(Some("seal")), part("I"), part(" look"), call()]),
        result,
        failed,
        Message::new(Role::User, vec![part("and?"), picture()]),
    ]
}

fn sample_request() -> ChatRequest<'static> {
    ChatRequest {
        messages: conversation(),
        max_tokens: Json::parse("100"),
        stream: true,
        ..Default::default()
    }
}

#[test]
fn openai_gets_the_conversation_in_its_format() {
    let (body, warnings) = write(&OPENAI_CHAT, sample_request()).unwrap();
    let picture =
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}});
    let wanted = json!({
        "model": "m",
        "messages": [
            {"role": "developer", "content": "be\n\nbrief"},
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": "I\n look", "tool_calls": [
                {"id": "toolu_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ]},
            {"role": "tool", "content": "it is\nred", "tool_call_id": "toolu_1"},
            {"role": "tool", "content": "Error: no", "tool_call_id": "toolu_2"},
            {"role": "user", "content": [
                {"type": "text", "text": "Part of the result of tool call toolu_1:"}, picture,
                {"type": "text", "text": "and?"}, picture
            ]}
        ],
        "max_completion_tokens": 100,
        "stream": true,
        "stream_options": {"include_usage": true}
    });
    assert_eq!(body, wanted);
    assert_eq!(warnings, ["messages: earlier thinking left out, this provider takes none back"]);
}

#[test]
fn each_quirk_set_writes_its_own_fields() {
    let assistant = |chat: &OpenAiChat| write(chat, sample_request()).unwrap().0["messages"][2].clone();
    assert_eq!(assistant(&quirks::DEEPSEEK)["reasoning_content"], "hm");
    assert_eq!(assistant(&quirks::GROQ)["reasoning"], "hm");
    assert_eq!(
        assistant(&quirks::OPENROUTER)["reasoning_details"],
        json!([{"type": "reasoning.text", "text": "hm", "signature": "seal"}])
    );
    let mistral = write(&quirks::MISTRAL, sample_request()).unwrap().0;
    assert_eq!(
        mistral["messages"][2]["content"],
        json!([
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "I"},
            {"type": "text", "text": " look"}
        ])
    );
    let id = mistral["messages"][3]["tool_call_id"].as_str().unwrap();
    assert!(id.len() == 9 && mistral["messages"][2]["tool_calls"][0]["id"] == id);
    assert_eq!(mistral["messages"][0]["role"], "system");
    assert_eq!((&mistral["max_tokens"], mistral.get("stream_options")), (&json!(100), None));
}

#[test]
fn thinking_is_requested_in_each_vendors_format() {
    let body_for = |chat: &OpenAiChat, effort: Option<&'static str>, thinking: Option<&'static str>| {
        let reasoning = Reasoning {
            effort: effort.map(Into::into),
            thinking: thinking.and_then(Json::parse),
            ..Reasoning::default()
        };
        let (mut body, _) = write(chat, ChatRequest { reasoning, ..Default::default() }).unwrap();
        let members = body.as_object_mut().unwrap();
        members.remove("model");
        members.remove("messages");
        body
    };
    let budget = Some(r#"{"type":"enabled","budget_tokens":5000}"#);
    let off = Some(r#"{"type":"disabled"}"#);
    assert_eq!(body_for(&OPENAI_CHAT, Some("low"), None), json!({"reasoning_effort": "low"}));
    assert_eq!(body_for(&OPENAI_CHAT, None, budget), json!({"reasoning_effort": "medium"}));
    assert_eq!(body_for(&OPENAI_CHAT, None, off), json!({}));
    assert_eq!(
        body_for(&quirks::DEEPSEEK, Some("high"), None),
        json!({"thinking": {"type": "enabled"}, "reasoning_effort": "high"})
    );
    assert_eq!(body_for(&quirks::DEEPSEEK, Some("none"), None), json!({"thinking": {"type": "disabled"}}));
    assert_eq!(body_for(&quirks::ZAI, None, budget), json!({"thinking": {"type": "enabled"}}));
    assert_eq!(body_for(&quirks::OPENROUTER, Some("high"), None), json!({"reasoning": {"effort": "high"}}));
    assert_eq!(body_for(&quirks::OPENROUTER, None, budget), json!({"reasoning": {"max_tokens": 5000}}));
    assert_eq!(body_for(&quirks::OPENROUTER, None, off), json!({"reasoning": {"enabled": false}}));
    assert_eq!(
        body_for(&quirks::DASHSCOPE, None, budget),
        json!({"enable_thinking": true, "thinking_budget": 5000})
    );
    assert_eq!(body_for(&quirks::OLLAMA, None, None), json!({}));
}

#[test]
fn tools_formats_and_parameters_are_written() {
    let body = json!({
        "model": "m", "messages": [],
        "tools": [
            {"type": "function", "function": {"name": "a", "strict": true, "parameters": {"type": "object"}}},
            {"type": "function", "function": {"name": "b", "description": "d", "strict": false}}
        ],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
            {"type": "function", "function": {"name": "b"}}
        ]}},
        "parallel_tool_calls": false, "stop": "x", "seed": 1, "top_p": 1,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true}},
        "store": true, "user": "u"
    });
    let text = body
        .to_string()
        .replace("\"top_p\":1", "\"top_p\":1.0")
        .replace("\"seed\":1", "\"seed\":18446744073709551616");
    let body = Body::parse(text.into()).unwrap();
    let account = Account::default();
    let call = Call {
        operation: Operation::ChatCompletions,
        method: &Method::POST,
        path: "chat/completions",
        query: None,
        model: None,
        streamed: false,
    };
    let mut notes = TranslationNotes::default();
    let target = CallTarget { call: &call, account: &account, model: "m", client_betas: None };
    let sent = quirks::MISTRAL.write(chat_completions::read(&body).unwrap(), &target, &mut notes).unwrap();
    let sent = String::from_utf8(sent).unwrap();
    let wanted = concat!(
        r#"{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"b","description":"d","#,
        r#""parameters":{"type":"object","properties":{}}}}],"tool_choice":"any","parallel_tool_calls":false,"#,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}},"#,
        r#""stop":"x","random_seed":18446744073709551616,"top_p":1.0}"#
    );
    assert_eq!(sent, wanted);
    let warned: Vec<&str> = notes.warnings.iter().filter_map(|each| each.split(':').next()).collect();
    assert_eq!(warned, ["store", "user"]);

    let schema = || ResponseFormat::JsonSchema {
        name: "n".into(),
        description: None,
        schema: Json::parse(r#"{"type":"object"}"#).unwrap(),
        strict: None,
    };
    let request = ChatRequest { response_format: Some(schema()), ..Default::default() };
    let (body, _) = write(&quirks::DEEPSEEK, request).unwrap();
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    assert!(body["messages"][0]["content"].as_str().unwrap().contains(r#"{"type":"object"}"#));
}

#[test]
fn documents_and_sound_go_as_the_vendor_takes_them() {
    let send = |chat: &OpenAiChat, part: Part<'static>| {
        let messages = vec![Message::new(Role::User, vec![part])];
        let sent = write(chat, ChatRequest { messages, ..Default::default() });
        sent.map(|(body, _)| body["messages"][0]["content"].clone())
    };
    let data = || document(Source::Data { media_type: "application/pdf".into(), data: "JVBE".into() });
    let url = || document(Source::Url { url: "https://h/a.pdf".into(), media_type: None });
    let file = |data: &str| json!([{"type": "file", "file": {"filename": "a.pdf", "file_data": data}}]);
    let mistral =
        |url: &str| json!([{"type": "document_url", "document_url": url, "document_name": "a.pdf"}]);
    assert_eq!(send(&OPENAI_CHAT, data()).unwrap(), file("data:application/pdf;base64,JVBE"));
    assert_eq!(send(&OPENAI_CHAT, url()).unwrap_err().param.as_deref(), Some("messages[0].content[0]"));
    assert_eq!(send(&quirks::OPENROUTER, url()).unwrap(), file("https://h/a.pdf"));
    assert_eq!(send(&quirks::MISTRAL, url()).unwrap(), mistral("https://h/a.pdf"));
    assert_eq!(send(&quirks::MISTRAL, data()).unwrap(), mistral("data:application/pdf;base64,JVBE"));
    let id = document(Source::Id("file-1".into()));
    assert_eq!(send(&OPENAI_CHAT, id.clone()).unwrap()[0]["file"]["file_id"], "file-1");
    assert_eq!(send(&quirks::MISTRAL, id).unwrap_err().status(), 400);
    let text = document(Source::Text("words".into()));
    assert_eq!(send(&OPENAI_CHAT, text).unwrap()[0]["text"], "a.pdf:\nwords");
    let sound = || Part::Audio { data: "AAAA".into(), format: "mp3".into() };
    assert_eq!(
        send(&OPENAI_CHAT, sound()).unwrap()[0]["input_audio"],
        json!({"data": "AAAA", "format": "mp3"})
    );
    assert_eq!(send(&quirks::MISTRAL, sound()).unwrap()[0]["input_audio"], "AAAA");
}

#[test]
fn unsupported_features_are_refused_by_name() {
    let refused = |request: ChatRequest<'static>| write(&quirks::PLAIN, request).unwrap_err().param.unwrap();
    let json = || Json::parse(r#"{"type":"web_search_20250305","name":"web_search"}"#).unwrap();
    let tool = Tool::Other { kind: "web_search_20250305".into(), json: json() };
    let (body, warnings) =
        write(&quirks::PLAIN, ChatRequest { tools: vec![tool], ..Default::default() }).unwrap();
    assert!(body.get("tools").is_none() && warnings[0].starts_with("tools[0]: left out"), "{warnings:?}");
    let mut request = ChatRequest::default();
    request.params.set("previous_response_id", Json::parse("\"r\"").unwrap());
    assert_eq!(refused(request), "previous_response_id");
    // Without tools the tool choice is left out: vendors refuse it.
    let request = ChatRequest { tool_choice: Some(ToolChoice::Auto), ..Default::default() };
    assert!(write(&quirks::PLAIN, request).unwrap().0.get("tool_choice").is_none());
}

#[test]
fn a_plain_request_is_untouched_by_every_quirk_set() {
    let body = r#"{ "model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"developer, name, seed"}]},{"role":"assistant","content":"a"},{"role":"user","content":"b"}],"max_tokens":1.0,"tools":[],"tool_choice":"auto","response_format":{"type":"json_object"},"made_up":[1.0] }"#;
    let body = Body::parse(body.into()).unwrap();
    for chat in [
        &OPENAI_CHAT,
        &quirks::PLAIN,
        &quirks::MISTRAL,
        &quirks::GROQ,
        &quirks::CEREBRAS,
        &quirks::DEEPSEEK,
        &quirks::ZAI,
        &quirks::OPENROUTER,
        &quirks::OLLAMA,
    ] {
        let mut notes = TranslationNotes::default();
        assert!(chat.edits(&body, &Account::default(), &mut notes).unwrap().is_empty(), "{chat:?}");
        assert!(notes.warnings.is_empty());
    }
}

#[test]
fn members_of_other_vendors_are_dropped_with_a_warning() {
    let body = json!({
        "model": "m", "messages": [], "top_k": 5, "container": "c", "cache_control": {"type": "ephemeral"},
        "safety_settings": [], "moderation": {}, "prompt_cache_options": {}, "min_p": 0.1, "verbosity": "low"
    });
    let body = Body::parse(body.to_string().into()).unwrap();
    let sent = |chat: &OpenAiChat, account: &Account| {
        let mut notes = TranslationNotes::default();
        let edits = chat.edits(&body, account, &mut notes).unwrap();
        let edited: Value = serde_json::from_slice(&body.edit(&edits)).unwrap();
        let mut names: Vec<String> = edited.as_object().unwrap().keys().cloned().collect();
        names.retain(|name| name != "model" && name != "messages");
        assert_eq!(notes.warnings.len() + names.len(), 8, "{:?} {names:?}", notes.warnings);
        names
    };
    let account = Account::default();
    let hosted = Account { custom_host: Some("https://a.example/v1".to_owned()), ..Account::default() };
    assert_eq!(sent(&OPENAI_CHAT, &account), ["min_p", "moderation", "prompt_cache_options", "verbosity"]);
    assert_eq!(
        sent(&OPENAI_OR_ENGINE, &hosted),
        ["min_p", "moderation", "prompt_cache_options", "top_k", "verbosity"]
    );
    // In a cloud a custom host is a way to OpenAI's models, and no engine.
    for (chat, account) in [(&OPENAI_CHAT, &hosted), (&OPENAI_OR_ENGINE, &account)] {
        assert_eq!(sent(chat, account), ["min_p", "moderation", "prompt_cache_options", "verbosity"]);
    }
    assert_eq!(sent(&quirks::MISTRAL, &account), ["min_p", "top_k"]);
    assert_eq!(sent(&quirks::CEREBRAS, &account), ["min_p"]);
    assert_eq!(sent(&quirks::PLAIN, &account), ["min_p", "top_k", "verbosity"]);
    assert_eq!(sent(&quirks::OPENROUTER, &account).len(), 8);
}

#[test]
fn a_refusal_with_thinking_stays_in_the_history() {
    for chat in [&OPENAI_CHAT, &quirks::PLAIN, &quirks::MISTRAL, &quirks::GROQ, &quirks::OPENROUTER] {
        let refusal = Part::Refusal("I cannot.".into());
        let messages = vec![
            Message::new(Role::User, vec![part("x")]),
            Message::new(Role::Assistant, vec![thought(None), part("Well. "), refusal]),
            Message::new(Role::User, vec![part("y")]),
        ];
        let (body, _) = write(chat, ChatRequest { messages, ..ChatRequest::default() }).unwrap();
        assert!(body["messages"][1].to_string().contains("I cannot."), "{chat:?}: {body}");
    }
    let messages = vec![Message::new(Role::Assistant, vec![thought(None), Part::Refusal("No.".into())])];
    let (body, _) = write(&quirks::MISTRAL, ChatRequest { messages, ..ChatRequest::default() }).unwrap();
    assert_eq!(body["messages"][0]["content"][1], json!({"type": "text", "text": "No."}));
}

#[test]
fn nothing_of_a_messages_request_is_lost_without_a_warning() {
    let body = json!({"model": "m", "max_tokens": 9, "thinking": {"type": "adaptive", "display": "omitted"}, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "AAAA"},
            {"type": "text", "text": "y"}
        ]}
    ]});
    let body = Body::parse(body.to_string().into()).unwrap();
    let sent = |chat: &OpenAiChat| {
        let mut notes = TranslationNotes::default();
        let request = words::api::messages::read(&body).unwrap();
        let call = Call {
            operation: Operation::ChatCompletions,
            method: &Method::POST,
            path: "chat/completions",
            query: None,
            model: Some("m"),
            streamed: false,
        };
        let target = CallTarget { call: &call, account: &Account::default(), model: "m", client_betas: None };
        let bytes = chat.write(request, &target, &mut notes).unwrap();
        let written: Value = serde_json::from_slice(&bytes).unwrap();
        (written["messages"][1].clone(), notes.warnings)
    };
    let (message, warnings) = sent(&OPENAI_CHAT);
    assert_eq!(message, json!({"role": "assistant", "content": "y"}));
    let about = |param: &str| warnings.iter().filter(|warning| warning.starts_with(param)).count();
    assert_eq!(
        (about("thinking: "), about("messages: "), about("cache_control: ")),
        (1, 2, 1),
        "{warnings:?}"
    );
    let (message, warnings) = sent(&quirks::MISTRAL);
    assert_eq!(message["prefix"], true);
    assert_eq!(message["content"][0]["type"], "thinking");
    let shown = "thinking.display: dropped, this provider sends what it thinks".to_owned();
    assert_eq!((warnings.len(), warnings.contains(&shown)), (4, true), "{warnings:?}");
    let (_, warnings) = sent(&quirks::CEREBRAS);
    assert_eq!((warnings.len(), warnings.contains(&shown)), (4, true), "{warnings:?}");
}

#[test]
fn cache_marks_of_messages_become_openais_for_models_that_take_them() {
    let mark = json!({"type": "ephemeral"});
    let body = json!({"model": "m", "max_tokens": 9,
        "system": [{"type": "text", "text": "s"}, {"type": "text", "text": "t", "cache_control": mark}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": mark}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "u", "cache_control": mark},
                {"type": "image", "source": {"type": "base64", "media_type": "image/jpg", "data": "AAAA"}, "cache_control": mark}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok", "cache_control": mark}]}]});
    let body = Body::parse(body.to_string().into()).unwrap();
    let sent = |model: &str| {
        let request = words::api::messages::read(&body).unwrap();
        let account = Account::default();
        let call = Call {
            operation: Operation::Messages,
            method: &Method::POST,
            path: "messages",
            query: None,
            model: Some(model),
            streamed: false,
        };
        let target = CallTarget { call: &call, account: &account, model, client_betas: None };
        let mut notes = TranslationNotes::default();
        let bytes = OPENAI_CHAT.write(request, &target, &mut notes).unwrap();
        (serde_json::from_slice::<Value>(&bytes).unwrap(), notes.warnings)
    };
    let explicit = json!({"mode": "explicit"});
    let (newer, warnings) = sent("gpt-5.6");
    assert_eq!(newer["messages"][0]["content"][1]["prompt_cache_breakpoint"], explicit, "{newer}");
    assert_eq!(
        newer["messages"][1]["content"],
        json!([
            {"type": "text", "text": "u", "prompt_cache_breakpoint": explicit},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}, "prompt_cache_breakpoint": explicit}])
    );
    let result = json!([{"type": "text", "text": "ok", "prompt_cache_breakpoint": explicit}]);
    assert_eq!(newer["messages"][3]["content"], result, "{newer}");
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("cache_control: dropped from tools"),
        "{warnings:?}"
    );
    let (older, warnings) = sent("gpt-4o");
    assert!(!older.to_string().contains("prompt_cache_breakpoint"), "{older}");
    assert_eq!(older["messages"][3]["content"], "ok");
    assert!(warnings.len() == 1 && warnings[0].starts_with("cache_control: dropped, this"), "{warnings:?}");
}

/// As Google's clients search, at the router that has a search of its own.
#[test]
fn a_search_is_openrouters_own() {
    let searched = |chat: &OpenAiChat, members: &str| {
        let json = Json::owned(format!(r#"{{"type":"web_search_2025_08_26"{members}}}"#)).unwrap();
        let tools = vec![Tool::Other { kind: "web_search_2025_08_26".into(), json }];
        let (body, warnings) = write(chat, ChatRequest { tools, ..ChatRequest::default() }).unwrap();
        (body.get("tools").cloned(), warnings)
    };
    let tool = |parameters: Value| Some(json!([{"type": "openrouter:web_search", "parameters": parameters}]));
    let (tools, warnings) = searched(&quirks::OPENROUTER, "");
    assert_eq!((tools, warnings.len()), (Some(json!([{"type": "openrouter:web_search"}])), 0));
    let place =
        r#","user_location":{"type":"approximate","city":"Bonn"},"search_context_size":"low","max_uses":3"#;
    let (tools, warnings) = searched(&quirks::OPENROUTER, place);
    let location = json!({"type": "approximate", "city": "Bonn"});
    assert_eq!(tools, tool(json!({"user_location": location, "search_context_size": "low"})));
    assert_eq!(warnings, ["tools[0].max_uses: dropped, this provider has no such parameter"]);
    let (tools, _) = searched(&quirks::OPENROUTER, r#","filters":{"allowed_domains":["a.example"]}"#);
    assert_eq!(tools, tool(json!({"allowed_domains": ["a.example"]})));
    let (tools, _) = searched(&quirks::OPENROUTER, r#","blocked_domains":["b.example"]"#);
    assert_eq!(tools, tool(json!({"excluded_domains": ["b.example"], "engine": "exa"})));
    let (tools, warnings) = searched(&quirks::XAI, "");
    assert_eq!((tools, warnings.len()), (None, 1));
}
