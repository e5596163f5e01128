//! The tables of rules as cases: what passes, and what is refused with which `param` and which message.

use super::*;
use bytes::Bytes;
use serde_json::{Value, json};

fn first_error(operation: Operation, body: &Value, given: &[&str]) -> Option<(String, String)> {
    let body = Body::parse(Bytes::from(body.to_string())).unwrap();
    let error = check(operation, &body, &|name| given.contains(&name)).err()?;
    assert_eq!(error.status(), 400);
    Some((error.param.unwrap(), error.message))
}

fn minimal_body(operation: Operation) -> Value {
    match operation {
        Operation::ChatCompletions => json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
        Operation::Completions => json!({"model": "m", "prompt": "hi"}),
        Operation::BatchesCreate => {
            json!({"input_file_id": "f", "completion_window": "24h", "endpoint": "/v1/embeddings"})
        }
        Operation::FineTuningCreate => {
            json!({"model": "m", "training_file": "f", "suffix": "s", "method": {}})
        }
        Operation::Embeddings => json!({"model": "m", "input": ["a"]}),
        Operation::Responses | Operation::ResponsesCompact => json!({"model": "m"}),
        Operation::ResponsesInputTokens => json!({}),
        Operation::Messages => json!({"model": "m", "messages": [{"role": "user"}], "max_tokens": 5}),
        Operation::CountTokens => json!({"model": "m", "messages": [{"role": "user"}]}),
        Operation::Images => json!({"prompt": "a cat"}),
        Operation::Speech => json!({"model": "m", "input": "hi", "voice": {"id": "v"}}),
        Operation::Moderations => json!({"input": "hi"}),
        Operation::Rerank => json!({"model": "m", "query": "q", "documents": []}),
        other => panic!("{other:?} has no table"),
    }
}

const ALL: &[Operation] = &[
    Operation::ChatCompletions,
    Operation::Completions,
    Operation::BatchesCreate,
    Operation::FineTuningCreate,
    Operation::Embeddings,
    Operation::Responses,
    Operation::Messages,
    Operation::CountTokens,
    Operation::ResponsesInputTokens,
    Operation::ResponsesCompact,
    Operation::Images,
    Operation::Speech,
    Operation::Moderations,
    Operation::Rerank,
];

/// The minimal body of the operation with `fields` added or replaced.
fn with(operation: Operation, fields: Value) -> Value {
    let mut body = minimal_body(operation);
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

#[test]
fn the_minimal_body_passes_and_every_field_of_it_is_required() {
    for &operation in ALL {
        let body = minimal_body(operation);
        assert_eq!(first_error(operation, &body, &[]), None, "{operation:?}");
        for name in body.as_object().unwrap().keys() {
            let mut without = body.clone();
            without.as_object_mut().unwrap().remove(name);
            let wanted = (name.clone(), format!("Missing required parameter: '{name}'."));
            assert_eq!(first_error(operation, &without, &[]), Some(wanted.clone()), "{operation:?}");
            assert_eq!(first_error(operation, &without, &[name]), None, "{operation:?} given {name}");
            let null = with(operation, json!({ name: null }));
            assert_eq!(first_error(operation, &null, &[]), Some(wanted), "{operation:?}");
        }
    }
}

#[test]
fn every_row_takes_null_or_is_required_and_is_unique() {
    for &operation in ALL {
        let rows = operation.rules().unwrap().rows;
        for row in rows {
            assert_eq!(rows.iter().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
            if !row.required && row.name != "model" {
                assert_eq!(first_error(operation, &with(operation, json!({ row.name: null })), &[]), None);
            }
        }
    }
}

#[test]
fn allowed_and_unknown_fields_pass() {
    let chat = [
        json!({"temperature": 0, "top_p": 1.0, "frequency_penalty": -2, "presence_penalty": 2.0}),
        json!({"n": 128, "seed": i64::MIN, "max_tokens": 0, "max_completion_tokens": 7.0}),
        json!({"logprobs": true, "top_logprobs": 20, "stop": ["a", "b", "c", "d"]}),
        json!({"stop": "a", "stream": true, "stream_options": {"include_usage": true}}),
        json!({"logit_bias": {"50256": -100, "1": 100.0}, "tool_choice": "any", "function_call": {"name": "f"}}),
        json!({"tools": vec![json!({"type": "web_search_20991231"}); 128], "functions": [{"name": "f"}], "user": "u"}),
        json!({"tools": [
            {"type": "function", "function": {"description": "d", "name": "f", "parameters": {"name": 1}}},
            {"function": {"name": "f"}}, {"codeExecution": {}}, {"type": "custom", "custom": {"name": "c"}},
            {"type": "openrouter:web_search"}, {"type": "retrieval", "retrieval": {}}, {"type": "mcp"},
        ]}),
        json!({"tool_choice": {"type": "function", "function": {"name": "f"}}, "function_call": "auto"}),
        json!({"tool_choice": {"type": "function", "name": "f"}, "stop": []}),
        json!({"parallel_tool_calls": false}),
        json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}),
        json!({"tool_choice": {"type": "custom", "custom": {"name": "c"}}}),
        json!({"tool_choice": {"type": "custom", "name": "c"}}),
        json!({"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}}),
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}),
        json!({"response_format": {"type": "grammar", "grammar": "g"}}),
        json!({"metadata": {"nested": {"is": "theirs"}}, "unheard_of": [1], "reasoning_effort": "max"}),
        json!({"messages": [
            {"role": "system"}, {"role": "developer"}, {"role": "user", "content": [{"type": "hologram"}]},
            {"content": null, "role": "assistant"}, {"role": "tool"}, {"role": "function"},
        ]}),
    ];
    for fields in chat {
        let body = with(Operation::ChatCompletions, fields);
        assert_eq!(first_error(Operation::ChatCompletions, &body, &[]), None, "{body}");
    }
    let others = [
        (Operation::Completions, json!({"prompt": [[1, 2], [3]], "best_of": 3, "n": 2, "logprobs": 5})),
        (Operation::Completions, json!({"prompt": [1, 2, 3], "best_of": 0, "max_tokens": 0, "suffix": null})),
        (Operation::Completions, json!({"best_of": 1, "stream": true, "stop": null})),
        (Operation::Completions, json!({"prompt": ["a", "b"], "stop": ["x"]})),
        (Operation::Completions, json!({"prompt": [], "stop": []})),
        (Operation::BatchesCreate, json!({"metadata": {"k": "ü".repeat(512)}})),
        (Operation::Messages, json!({"temperature": 5, "messages": [{"role": "robot"}]})),
        (Operation::Responses, json!({"text": {"verbosity": "low"}})),
        (Operation::Responses, json!({"text": {"format": {"type": "text"}}})),
        (Operation::Responses, json!({"tools": [{"type": "computer_use"}], "input": "hi", "temperature": 2})),
        (
            Operation::Responses,
            json!({"tools": [{"type": "function", "name": "f"}], "truncation": "disabled"}),
        ),
        (
            Operation::Responses,
            json!({"tool_choice": {"type": "mcp", "server_label": "s"}, "truncation": "auto"}),
        ),
        (Operation::Responses, json!({"tool_choice": {"type": "file_search"}, "parallel_tool_calls": true})),
    ];
    for (operation, fields) in others {
        let body = with(operation, fields);
        assert_eq!(first_error(operation, &body, &[]), None, "{body}");
    }
    assert_eq!(first_error(Operation::Passthrough, &json!({"temperature": "hot"}), &[]), None);
}

#[test]
fn a_stored_conversation_brings_its_model() {
    for source in [json!({"prompt": {"id": "p"}}), json!({"conversation": "conv_1"})] {
        assert_eq!(first_error(Operation::Responses, &source, &[]), None);
    }
    let unnamed = first_error(Operation::Responses, &json!({"conversation": null}), &[]);
    assert_eq!(unnamed.unwrap().0, "model");
}

/// Fields added to the minimal body, the `param` of the error, and a part of its message.
type Refused = (&'static str, &'static str, &'static str);

fn refuses(operation: Operation, cases: &[Refused]) {
    for (fields, param, fragment) in cases {
        let body = with(operation, serde_json::from_str(fields).unwrap());
        let (got, message) = first_error(operation, &body, &[]).expect(param);
        assert_eq!(got, *param, "{message}");
        assert!(message.contains(fragment), "{param}: {message}");
    }
}

const ABOVE: &str =
    "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.5 instead.";
const ROLES: &str = "Invalid value: 'robot'. Supported values are: 'system', 'developer', 'user', 'assistant', 'tool', and 'function'.";

const CHAT: &[Refused] = &[
    (r#"{"temperature": 2.5}"#, "temperature", ABOVE),
    (
        r#"{"temperature": -1}"#,
        "temperature",
        "decimal below minimum value. Expected a value >= 0, but got -1",
    ),
    (
        r#"{"temperature": "1"}"#,
        "temperature",
        "Invalid type for 'temperature': expected a decimal, but got a string",
    ),
    (r#"{"top_p": 1.01}"#, "top_p", "above maximum"),
    (r#"{"frequency_penalty": 2.1}"#, "frequency_penalty", "above maximum"),
    (r#"{"presence_penalty": -2.1}"#, "presence_penalty", "below minimum"),
    (
        r#"{"n": 0}"#,
        "n",
        "Invalid 'n': integer below minimum value. Expected a value >= 1, but got 0 instead.",
    ),
    (r#"{"n": 129}"#, "n", "Expected a value <= 128, but got 129 instead."),
    (r#"{"n": 1.5}"#, "n", "expected an integer, but got a decimal number instead."),
    (r#"{"seed": 9223372036854775808}"#, "seed", "above maximum"),
    (r#"{"seed": 1e300}"#, "seed", "above maximum"),
    (r#"{"max_tokens": "5"}"#, "max_tokens", "expected an integer, but got a string"),
    (r#"{"logprobs": true, "top_logprobs": 21}"#, "top_logprobs", "<= 20"),
    (r#"{"top_logprobs": 3}"#, "top_logprobs", "only allowed when 'logprobs' is true"),
    (r#"{"logprobs": false, "top_logprobs": 3}"#, "top_logprobs", "only allowed when"),
    (r#"{"logprobs": 3}"#, "logprobs", "expected a boolean, but got an integer"),
    (
        r#"{"logit_bias": {"50256": 101}}"#,
        "logit_bias.50256",
        "Expected a value <= 100, but got 101 instead.",
    ),
    (r#"{"logit_bias": {"7": "x"}}"#, "logit_bias.7", "expected a decimal, but got a string"),
    (r#"{"logit_bias": [1]}"#, "logit_bias", "expected an object, but got an array"),
    (
        r#"{"stop": ["a", "b", "c", "d", "e"]}"#,
        "stop",
        "maximum length 4, but got an array with length 5 instead.",
    ),
    (r#"{"stop": 5}"#, "stop", "expected a string or an array, but got an integer"),
    (r#"{"stream": "yes"}"#, "stream", "expected a boolean"),
    (r#"{"stream_options": {}}"#, "stream_options", "only allowed when 'stream' is true"),
    (r#"{"stream": false, "stream_options": {}}"#, "stream_options", "only allowed when"),
    (r#"{"tools": {}}"#, "tools", "expected an array, but got an object"),
    (r#"{"tools": [{}, "x"]}"#, "tools[1]", "expected an object"),
    (r#"{"tools": [{}]}"#, "tools[0].type", "Missing required parameter: 'tools[0].type'."),
    (r#"{"tools": [{"type": 1}]}"#, "tools[0].type", "expected a string, but got an integer"),
    (r#"{"tools": [{"type": "function"}]}"#, "tools[0].function", "Missing required"),
    (r#"{"tools": [{"type": "function", "function": "f"}]}"#, "tools[0].function", "expected an object"),
    (r#"{"tools": [{"type": "function", "function": {}}]}"#, "tools[0].function.name", "Missing required"),
    (r#"{"tools": [{"function": {"name": 1}}]}"#, "tools[0].function.name", "expected a string"),
    (
        r#"{"tools": [{"codeExecution": {}}, {"type": "who_knows"}]}"#,
        "tools[1].type",
        "Invalid value: 'who_knows'.",
    ),
    (r#"{"tool_choice": 1}"#, "tool_choice", "expected a string or an object"),
    (
        r#"{"tool_choice": "sometimes"}"#,
        "tool_choice",
        "Invalid value: 'sometimes'. Supported values are: 'none', 'auto', 'required', and 'any'.",
    ),
    (r#"{"tool_choice": {}}"#, "tool_choice.type", "Missing required"),
    (r#"{"tool_choice": {"function": {"name": "f"}}}"#, "tool_choice.type", "Missing required"),
    (
        r#"{"tool_choice": {"type": "function", "function": {"name": ""}}}"#,
        "tool_choice.function.name",
        "must not be empty",
    ),
    (
        r#"{"tools": [{"type": "function", "function": {"name": ""}}]}"#,
        "tools[0].function.name",
        "must not be empty",
    ),
    (r#"{"functions": [{"name": ""}]}"#, "functions[0].name", "must not be empty"),
    (r#"{"tool_choice": {"type": "who_knows"}}"#, "tool_choice.type", "Invalid value: 'who_knows'."),
    (r#"{"tool_choice": {"type": "function"}}"#, "tool_choice.function", "Missing required"),
    (
        r#"{"tool_choice": {"type": "function", "function": {}}}"#,
        "tool_choice.function.name",
        "Missing required",
    ),
    (r#"{"tool_choice": {"type": "function", "name": 1}}"#, "tool_choice.name", "expected a string"),
    (r#"{"tool_choice": {"type": "custom"}}"#, "tool_choice.custom", "Missing required"),
    (r#"{"tool_choice": {"type": "custom", "custom": {}}}"#, "tool_choice.custom.name", "Missing required"),
    (r#"{"tool_choice": {"type": "custom", "custom": "c"}}"#, "tool_choice.custom", "expected an object"),
    (r#"{"tool_choice": {"type": "allowed_tools"}}"#, "tool_choice.allowed_tools", "Missing required"),
    (
        r#"{"tool_choice": {"type": "allowed_tools", "allowed_tools": "x"}}"#,
        "tool_choice.allowed_tools",
        "expected an object",
    ),
    (
        r#"{"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "bad", "tools": []}}}"#,
        "tool_choice.allowed_tools.mode",
        "'auto' and 'required'",
    ),
    (
        r#"{"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}}"#,
        "tool_choice.allowed_tools.tools",
        "Missing required",
    ),
    (
        r#"{"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [1]}}}"#,
        "tool_choice.allowed_tools.tools[0]",
        "expected an object",
    ),
    (r#"{"tool_choice": {"type": "allowed_tools", "mode": "any", "tools": []}}"#, "tool_choice.mode", "any"),
    (r#"{"parallel_tool_calls": "no"}"#, "parallel_tool_calls", "expected a boolean"),
    (r#"{"function_call": "required"}"#, "function_call", "Supported values are: 'none' and 'auto'."),
    (r#"{"function_call": {}}"#, "function_call.name", "Missing required"),
    (r#"{"function_call": ["f"]}"#, "function_call", "expected a string or an object, but got an array"),
    (r#"{"functions": [{"name": "f"}, {}]}"#, "functions[1].name", "Missing required"),
    (r#"{"stop": ["a", 5]}"#, "stop[1]", "Invalid type for 'stop[1]': expected a string, but got an integer"),
    (r#"{"stop": [null]}"#, "stop[0]", "expected a string, but got null"),
    (r#"{"functions": []}"#, "functions", "empty array. Expected an array with minimum length 1"),
    (r#"{"response_format": {}}"#, "response_format.type", "Missing required"),
    (r#"{"response_format": {"type": 1}}"#, "response_format.type", "expected a string"),
    (r#"{"response_format": {"type": "xml"}}"#, "response_format.type", "Invalid value: 'xml'."),
    (r#"{"response_format": "json"}"#, "response_format", "expected an object, but got a string"),
    (r#"{"model": 4}"#, "model", "expected a string, but got an integer"),
    (r#"{"user": 4}"#, "user", "expected a string"),
    (r#"{"messages": []}"#, "messages", "Invalid 'messages': empty array."),
    (r#"{"messages": "hi"}"#, "messages", "expected an array, but got a string"),
    (r#"{"messages": [{"role": "user"}, 7]}"#, "messages[1]", "expected an object"),
    (
        r#"{"messages": [{"role": "user"}, {"content": "x"}]}"#,
        "messages[1].role",
        "Missing required parameter: 'messages[1].role'.",
    ),
    (r#"{"messages": [{"role": "robot"}]}"#, "messages[0].role", ROLES),
    (r#"{"messages": [{"role": 1}]}"#, "messages[0].role", "expected a string"),
];

const COMPLETIONS: &[Refused] = &[
    (r#"{"best_of": 21}"#, "best_of", "<= 20"),
    (r#"{"best_of": 2, "n": 2}"#, "best_of", "Expected a value > 2, but got 2 instead."),
    (r#"{"best_of": 2, "stream": true}"#, "best_of", "not allowed when 'stream' is true"),
    (r#"{"logprobs": 6}"#, "logprobs", "<= 5"),
    (r#"{"max_tokens": -1}"#, "max_tokens", ">= 0"),
    (r#"{"prompt": {}}"#, "prompt", "expected a string or an array"),
    (r#"{"prompt": ["a", 1]}"#, "prompt[1]", "expected a string, but got an integer"),
    (r#"{"prompt": [1, "a"]}"#, "prompt[1]", "expected an integer, but got a string"),
    (r#"{"prompt": [1.5]}"#, "prompt[0]", "expected an integer, but got a decimal number"),
    (r#"{"prompt": [{"text": "a"}]}"#, "prompt[0]", "expected an integer, but got an object"),
    (r#"{"prompt": [[1], 2]}"#, "prompt[1]", "expected an array, but got an integer"),
    (r#"{"prompt": [[1], [2, "a"]]}"#, "prompt[1][1]", "expected an integer, but got a string"),
    (r#"{"stop": {"a": 1}}"#, "stop", "expected a string or an array"),
    (r#"{"stop": ["a", true]}"#, "stop[1]", "expected a string, but got a boolean"),
    (r#"{"stream_options": {}}"#, "stream_options", "only allowed when"),
];

const BATCHES: &[Refused] = &[
    (
        r#"{"endpoint": "/v1/x"}"#,
        "endpoint",
        "'/v1/images/generations', '/v1/images/edits', and '/v1/videos'.",
    ),
    (r#"{"completion_window": "1h"}"#, "completion_window", "Supported values are: 'immediate' and '24h'."),
    (r#"{"completion_window": 24}"#, "completion_window", "expected a string, but got an integer"),
    (r#"{"metadata": {"k": 1}}"#, "metadata.k", "expected a string, but got an integer"),
    (r#"{"metadata": "x"}"#, "metadata", "expected an object, but got a string"),
];

const RESPONSES_CASES: &[Refused] = &[
    (r#"{"temperature": 3}"#, "temperature", "<= 2"),
    (r#"{"truncation": "always"}"#, "truncation", "Supported values are: 'auto' and 'disabled'."),
    (r#"{"parallel_tool_calls": 1}"#, "parallel_tool_calls", "expected a boolean"),
    (r#"{"tool_choice": "any"}"#, "tool_choice", "Supported values are: 'none', 'auto', and 'required'."),
    (r#"{"tool_choice": {"type": "who_knows"}}"#, "tool_choice.type", "Invalid value"),
    (r#"{"tools": [{"type": "who_knows"}]}"#, "tools[0].type", "Invalid value"),
    (r#"{"tools": [{"type": "function"}]}"#, "tools[0].name", "Missing required"),
    (r#"{"tools": "web_search"}"#, "tools", "expected an array, but got a string"),
    (r#"{"max_output_tokens": "5"}"#, "max_output_tokens", "expected an integer"),
    (r#"{"text": {"format": {"type": "xml"}}}"#, "text.format.type", "Invalid value: 'xml'."),
    (r#"{"text": {"format": "json"}}"#, "text.format", "expected an object"),
    (r#"{"text": []}"#, "text", "expected an object"),
    (r#"{"instructions": 5}"#, "instructions", "expected a string"),
    (r#"{"previous_response_id": 5}"#, "previous_response_id", "expected a string"),
];

#[test]
fn forbidden_values_are_rejected_by_name() {
    refuses(Operation::ChatCompletions, CHAT);
    refuses(Operation::Completions, COMPLETIONS);
    refuses(Operation::BatchesCreate, BATCHES);
    refuses(
        Operation::FineTuningCreate,
        &[
            (r#"{"method": "dpo"}"#, "method", "expected an object"),
            (r#"{"integrations": [{"type": "wandb"}, {}]}"#, "integrations[1].type", "Missing required"),
            (r#"{"integrations": [{"type": 1}]}"#, "integrations[0].type", "expected a string"),
            (
                r#"{"integrations": [{"type": "wandb", "wandb": "p"}]}"#,
                "integrations[0].wandb",
                "expected an object",
            ),
        ],
    );
    refuses(
        Operation::Messages,
        &[
            (r#"{"messages": []}"#, "messages", "empty array"),
            (r#"{"max_tokens": "x"}"#, "max_tokens", "expected an integer"),
        ],
    );
    refuses(Operation::Responses, RESPONSES_CASES);
}

#[test]
fn excessive_counts_are_rejected_by_name() {
    let many =
        |count: usize| vec![json!({"type": "function", "function": {"name": "f"}, "name": "f"}); count];
    let pairs: serde_json::Map<_, _> = (0..17).map(|n| (n.to_string(), json!("x"))).collect();
    let chat = Operation::ChatCompletions;
    let batches = Operation::BatchesCreate;
    let cases = [
        (chat, json!({"tools": many(129)}), "tools", "maximum length 128, but got an array with length 129"),
        (chat, json!({"functions": many(129)}), "functions", "maximum length 128"),
        (Operation::FineTuningCreate, json!({"integrations": many(6)}), "integrations", "maximum length 5"),
        (batches, json!({"metadata": pairs}), "metadata", "at most 16 properties, but got 17"),
        (batches, json!({"metadata": {"k": "x".repeat(513)}}), "metadata.k", "a string with length 513"),
        (batches, json!({"metadata": {"k".repeat(65): "x"}}), "metadata", "maximum length 64"),
    ];
    for (operation, fields, param, fragment) in cases {
        let (got, message) = first_error(operation, &with(operation, fields), &[]).expect(param);
        assert_eq!(got, param, "{message}");
        assert!(message.contains(fragment), "{param}: {message}");
    }
}

#[test]
fn a_batch_that_passes_on_may_be_for_more_endpoints() {
    for (endpoint, passes, is_run_here) in [
        ("/v1/embeddings", true, true),
        ("/v1/responses", true, false),
        ("/v1/videos", true, false),
        ("/v1/files", false, false),
    ] {
        let body = with(Operation::BatchesCreate, json!({"endpoint": endpoint}));
        assert_eq!(first_error(Operation::BatchesCreate, &body, &[]).is_none(), passes, "{endpoint}");
        let body = Body::parse(body.to_string().into()).unwrap();
        assert_eq!(check_endpoint(&body).is_ok(), is_run_here, "{endpoint}");
    }
}

#[test]
fn a_providers_batch_is_not_immediate() {
    let body = |window: &str| {
        Body::parse(with(Operation::BatchesCreate, json!({"completion_window": window})).to_string().into())
            .unwrap()
    };
    let refused = check_window(&body("immediate"), false).unwrap_err();
    assert_eq!(refused.param.as_deref(), Some("completion_window"));
    assert!(refused.message.contains("for batches that the gateway runs itself"), "{}", refused.message);
    assert!(check_window(&body("immediate"), true).is_ok() && check_window(&body("24h"), false).is_ok());
}

#[test]
fn fields_set_by_the_config_are_not_checked() {
    let cases = [
        (Operation::ChatCompletions, json!({"temperature": 9}), "temperature"),
        (Operation::ChatCompletions, json!({"messages": []}), "messages"),
        (Operation::ChatCompletions, json!({"top_logprobs": 3}), "logprobs"),
        (Operation::ChatCompletions, json!({"stream_options": {}}), "stream"),
        (Operation::Completions, json!({"best_of": 1, "n": 1}), "n"),
    ];
    for (operation, fields, name) in cases {
        let body = with(operation, fields);
        assert!(first_error(operation, &body, &[]).is_some(), "{body}");
        assert_eq!(first_error(operation, &body, &[name]), None, "{body}");
    }
}

#[test]
fn a_long_value_is_quoted_only_in_part() {
    let body = with(Operation::ChatCompletions, json!({"messages": [{"role": "ü".repeat(5000)}]}));
    let (_, message) = first_error(Operation::ChatCompletions, &body, &[]).unwrap();
    assert!(message.len() < 300, "{message}");
}

#[test]
fn queries_are_checked_against_the_spec() {
    let cases = [
        (Operation::BatchesList, "limit=100&after=x", None),
        (Operation::BatchesList, "limit=0", Some("Expected a value >= 1, but got 0 instead.")),
        (Operation::BatchesList, "after=x&limit=101", Some("<= 100")),
        (Operation::BatchesList, "limit=ten", Some("expected an integer, but got 'ten'")),
        (Operation::BatchesList, "limit=", Some("expected an integer")),
        (Operation::FineTuningCheckpoints, "limit=1000", None),
        (Operation::FineTuningCheckpoints, "limit=x", Some("expected an integer")),
        (Operation::ResponsesGet, "include=file_search_call.results&stream=true", None),
        (Operation::ResponsesGet, "include%5B%5D=message.input_image.image_url", None),
        (
            Operation::ResponsesGet,
            "include[0]=file_search_call.results,computer_call_output.output.image_url",
            None,
        ),
        (Operation::ResponsesGet, "include[]=secrets", Some("Invalid value: 'secrets'.")),
        (Operation::ResponsesGet, "included=secrets", None),
        (Operation::FilesList, "limit=x", None),
    ];
    for (operation, query, wanted) in cases {
        let error = check_query(operation, Some(query)).err();
        match wanted {
            None => assert!(error.is_none(), "{query}"),
            Some(fragment) => {
                assert!(error.as_ref().unwrap().message.contains(fragment), "{query}: {error:?}");
            }
        }
    }
    assert!(check_query(Operation::BatchesList, None).is_ok());
}
