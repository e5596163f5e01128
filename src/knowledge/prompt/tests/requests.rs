//! Tests of how a version and a request become a body, and of how versions are named.

use super::{prompt, render, set};
use crate::prompt::{PromptSet, PromptVersion, TemplateKind, VersionBody};
use serde_json::{Value, json};
use uuid::Uuid;

fn body(value: Value) -> VersionBody {
    serde_json::from_value(value).unwrap()
}

fn rendered(stored: Value, request: Value) -> Value {
    let stored: VersionBody = serde_json::from_str(&stored.to_string()).unwrap();
    let version = PromptVersion::new(Uuid::now_v7(), 1, &stored);
    serde_json::from_str(&render(&version, &request, &set(&[])).unwrap().body).unwrap()
}

const CHAT: &str = r#"[{"role":"user","content":"{{q}}"}]"#;

#[test]
fn the_request_is_laid_over_the_stored_parameters() {
    let stored = json!({
        "string": CHAT, "model": "gpt-4o", "tools": [{"type": "function"}], "tool_choice": "auto",
        "parameters": {
            "temperature": 0.2, "stream": true, "stop": null, "top_p": 1.0, "q": "sample", "user": "u",
            "response_format": {"type": "json_object"}, "messages": [], "variables": {}, "custom": 1
        }
    });
    let messages = json!([{"role": "user", "content": "x"}]);
    let request = json!({"variables": {"q": "x"}});
    let wanted = json!({
        "temperature": 0.2, "top_p": 1.0, "user": "u", "response_format": {"type": "json_object"}, "custom": 1,
        "model": "gpt-4o", "tools": [{"type": "function"}], "tool_choice": "auto", "messages": messages
    });
    assert_eq!(rendered(stored.clone(), request), wanted);
    let request = json!({
        "variables": {"q": "x"}, "temperature": 1, "user": null, "response_format": {"a": 1}, "stream": false,
        "messages": [], "tools": null, "tool_choice": null, "custom": null, "model": "m", "top_p": null, "n": 2
    });
    let wanted = json!({
        "temperature": 1, "response_format": {"a": 1}, "stream": false, "model": "m", "n": 2, "messages": messages
    });
    assert_eq!(rendered(stored, request), wanted);
}

#[test]
fn samples_of_variables_of_partials_are_no_parameters() {
    let parameters = json!({"q": "sample", "sec": "y", "in": "x", "dyn": "other", "custom": 1});
    let stored = body(json!({"string": "x {{>first}} {{>>dyn}}", "parameters": parameters}));
    let version = PromptVersion::new(Uuid::now_v7(), 1, &stored);
    let partials =
        set(&[("first", &["{{q}} {{>second}}"]), ("second", &["{{#sec}}s{{/sec}}"]), ("other", &["{{in}}"])]);
    let rendered = render(&version, &json!({"variables": {"dyn": "other"}}), &partials).unwrap();
    let rendered: Value = serde_json::from_str(&rendered.body).unwrap();
    assert_eq!(rendered, json!({"custom": 1, "prompt": "x   "}));
}

#[test]
fn options_of_a_stream_are_for_streams() {
    let stored =
        json!({"string": "x", "parameters": {"stream": true, "stream_options": {"include_usage": true}}});
    assert_eq!(rendered(stored.clone(), json!({"variables": {}})), json!({"prompt": "x"}));
    let streamed = rendered(stored, json!({"variables": {}, "stream": true}));
    assert_eq!(streamed["stream_options"], json!({"include_usage": true}));
}

#[test]
fn the_template_wins_with_a_warning() {
    let chat = PromptVersion::new(Uuid::now_v7(), 1, &body(json!({ "string": CHAT })));
    let request = json!({"variables": {"q": "x"}, "messages": [], "prompt": "y"});
    let rendered = render(&chat, &request, &set(&[])).unwrap();
    assert_eq!(rendered.kind, TemplateKind::Chat);
    assert_eq!(rendered.body, r#"{"messages":[{"role":"user","content":"x"}]}"#);
    assert_eq!(rendered.warnings.len(), 2);
    assert!(
        rendered.warnings[0].starts_with("messages of the request was not used"),
        "{:?}",
        rendered.warnings
    );
    let text = PromptVersion::new(Uuid::now_v7(), 1, &body(json!({"string": "Say {{q}}"})));
    let rendered = render(&text, &json!({"variables": {"q": "a\"b"}, "prompt": "y"}), &set(&[])).unwrap();
    assert_eq!((rendered.kind, rendered.body.as_str()), (TemplateKind::Text, r#"{"prompt":"Say a\"b"}"#));
}

#[test]
fn one_limit_on_tokens_replaces_the_other() {
    let stored = |name: &str| json!({"string": "x", "parameters": {name: 256}});
    for (first, second) in [("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")]
    {
        let body = rendered(stored(first), json!({"variables": {}, second: 9}));
        assert_eq!(body, json!({second: 9, "prompt": "x"}));
        let body = rendered(stored(first), json!({"variables": {}, second: null}));
        assert_eq!(body, json!({first: 256, "prompt": "x"}));
    }
    assert_eq!(rendered(stored("max_tokens"), json!({"variables": {}}))["max_tokens"], 256);
}

#[test]
fn aliases_of_deployments_replace_the_model() {
    let stored = json!({"string": "x", "model": "gpt-4o", "template_metadata": {"azure_alias": "mine"}});
    assert_eq!(rendered(stored.clone(), json!({"variables": {}}))["model"], "mine");
    assert_eq!(rendered(stored, json!({"variables": {}, "model": "m"}))["model"], "m");
}

#[test]
fn the_odd_request_of_the_acceptance_examples() {
    let stored = json!({"string": r#"[{"role":"user","content":"Say {{q}}{{! x }}"}]"#, "parameters": {"max_tokens": 256}});
    let request = json!({"variables": {"q": "a \"b\"\nc"}, "temperature": 1, "max_completion_tokens": 9});
    let messages = json!([{"role": "user", "content": "Say a \"b\"\nc"}]);
    let wanted = json!({"messages": messages, "temperature": 1, "max_completion_tokens": 9});
    assert_eq!(rendered(stored, request), wanted);
}

#[test]
fn requests_without_variables_are_refused() {
    let version = PromptVersion::new(Uuid::now_v7(), 1, &body(json!({"string": "x"})));
    for (request, param) in [
        (json!({}), "variables"),
        (json!({"variables": null}), "variables"),
        (json!({"variables": [1]}), "variables"),
        (json!({"variables": "x"}), "variables"),
        (json!({"variables": {}, "hyperparameters": {"n": 1}}), "hyperparameters"),
    ] {
        let error = render(&version, &request, &set(&[])).unwrap_err();
        assert_eq!((error.status(), error.param.as_deref()), (400, Some(param)), "{request}");
    }
}

#[test]
fn a_slug_that_is_the_id_of_another_prompt_takes_none_of_its_calls() {
    let mut set = PromptSet::default();
    let stored = |slug: &str| prompt(slug, vec![body(json!({"string": "one"}))], 1, &[]);
    let first = stored("pp-x");
    let other = stored(&first.id.to_string());
    set.put(first.clone());
    set.put(other.clone());
    for (named, id) in [(first.id.to_string(), first.id), (other.id.to_string(), other.id)] {
        assert_eq!(set.prompt(&named).map(|found| found.id), Some(id), "{named}");
    }
    let alone = Uuid::now_v7().to_string();
    set.put(stored(&alone));
    assert!(set.prompt(&alone).is_some_and(|found| found.slug == alone), "of an earlier version");
}

#[test]
fn versions_are_found_by_number_label_and_place() {
    let mut set = PromptSet::default();
    let versions = ["one", "two", "three"].map(|text| body(json!({ "string": text })));
    let stored = prompt("pp-x", versions.into(), 2, &[("staging", 1), ("gone", 9)]);
    let id = stored.id;
    set.put(stored);
    for (reference, number) in [
        ("pp-x".to_owned(), 2),
        ("pp-x@1".to_owned(), 1),
        ("pp-x@latest".to_owned(), 3),
        ("pp-x@staging".to_owned(), 1),
        (id.to_string(), 2),
        (format!("{id}@3"), 3),
    ] {
        let found = set.find(&reference).unwrap();
        assert_eq!((found.version.number, found.prompt.slug.as_str()), (number, "pp-x"), "{reference}");
    }
    for (reference, wanted) in [
        ("pp-y", "there is no prompt \"pp-y\""),
        ("pp-y@1", "there is no prompt \"pp-y\""),
        ("pp-x@4", "has no version 4"),
        ("pp-x@99999999999", "has the label"),
        ("pp-x@nolabel", "the label \"nolabel\""),
        ("pp-x@gone", "the label \"gone\""),
        ("pp-x@", "the label \"\""),
        ("", "there is no prompt"),
    ] {
        let error = set.find(reference).unwrap_err();
        assert!(error.message.starts_with("Invalid prompt id: "), "{}", error.message);
        assert_eq!((error.status(), error.message.contains(wanted)), (404, true), "{}", error.message);
    }
}

#[test]
fn a_stored_template_that_is_not_valid_is_an_error_of_its_own() {
    let version = PromptVersion::new(Uuid::now_v7(), 1, &body(json!({"string": "{{#f}}"})));
    let error = render(&version, &json!({"variables": {}}), &set(&[])).unwrap_err();
    assert_eq!(error.message, "Error in parsing prompt template: {{#f}} is never closed");
}

#[test]
fn a_strict_version_refuses_a_request_without_a_variable() {
    let none = set(&[("p", &["{{inside}}"])]);
    let strict = |text: &str, is_strict: bool, request: Value| {
        let stored = body(json!({"string": text, "strict_variables": is_strict}));
        let version = PromptVersion::new(Uuid::now_v7(), 1, &stored);
        render(&version, &request, &none).map(|rendered| rendered.body).map_err(|error| error.message)
    };
    let missing = |names: &str| {
        Err(format!("Missing variables: {names}. The prompt is rendered with strict_variables."))
    };
    let text = "{{a}} {{b.c}} {{a}} {{>p}}{{#x}}{{y}}{{/x}}";
    let empty = json!({"variables": {}});
    assert_eq!(strict(text, true, empty.clone()), missing("a, b.c, inside"));
    assert_eq!(strict(text, false, empty.clone()), Ok(r#"{"prompt":"   "}"#.to_owned()));
    // The request decides, and what it says is not passed on.
    let choosing = |is_strict: Value| json!({"variables": {"b": {}}, "strict_variables": is_strict});
    assert_eq!(strict(text, false, choosing(json!(true))), missing("a, b.c, inside"));
    assert_eq!(strict(text, true, choosing(json!(false))), Ok(r#"{"prompt":"   "}"#.to_owned()));
    assert_eq!(strict(text, true, choosing(Value::Null)), missing("a, b.c, inside"));
    let wrong = strict(text, false, choosing(json!("yes")));
    assert_eq!(wrong, Err("strict_variables must be true or false.".to_owned()));
    // A null is there. A section asks, and shows only what is rendered of it; items have names of their own.
    let given = json!({"variables": {"a": null, "b": {"c": ""}, "inside": 0}});
    assert_eq!(strict(text, true, given), Ok(r#"{"prompt":"   0"}"#.to_owned()));
    let items = json!({"variables": {"x": [{"y": 1}, {}]}});
    assert_eq!(strict("{{#x}}{{y}}{{.}}{{/x}}{{^z}}none{{/z}}", true, items), missing("y"));
    // Rather than what comes of it: the messages would be no JSON.
    let raw = r#"[{"role":"user","content":"x","n":{{n}}}]"#;
    assert_eq!(strict(raw, true, empty), missing("n"));
}
