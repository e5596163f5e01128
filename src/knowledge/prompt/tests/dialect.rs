//! The dialect of templates, row by row, in each of the places where a tag may stand.

use super::{rendered, set};
use crate::prompt::{Template, TemplateKind};
use serde_json::{Value, json};

/// Template, variables, and the text that is wanted.
fn texts() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("Hi {{name}}", json!({"name": "Bob"}), "Hi Bob"),
        ("{{x}}", json!({"x": "a\"b\nc"}), "a\"b\nc"),
        ("{{{x}}}", json!({"x": "a\"b\nc"}), "a\"b\nc"),
        ("{{&x}}", json!({"x": "a\"b\nc"}), "a\"b\nc"),
        ("a{{! note }}b", json!({}), "ab"),
        ("[{{x}}]", json!({}), "[]"),
        ("[{{x}}]", json!({"x": null}), "[]"),
        ("{{n}}", json!({"n": 3.5}), "3.5"),
        ("{{b}}", json!({"b": true}), "true"),
        ("{{x}}", json!({"x": [1, {"a": "\""}]}), r#"[1,{"a":"\""}]"#),
        ("{{x}}", json!({"x": {"a": null}}), r#"{"a":null}"#),
        ("{{#f}}yes{{/f}}", json!({"f": "false"}), "yes"),
        ("{{#f}}yes{{/f}}", json!({"f": {}}), "yes"),
        ("{{#l}}-{{s}} {{/l}}", json!({"l": [{"s": "a\nb"}, {"s": "c"}]}), "-a\nb -c "),
        ("{{#l}}{{.}},{{/l}}", json!({"l": ["a\"", 2]}), "a\",2,"),
        ("{{#l}}{{s}}{{o}}{{/l}}", json!({"l": [{"s": 1}], "o": 2}), "12"),
        ("{{#p}}{{name}}{{/p}}", json!({"p": {"name": "x"}, "name": "y"}), "x"),
        ("{{#p}}{{.}}{{/p}}", json!({"p": "x"}), "x"),
        ("{{a.b}}", json!({"a": {"b": "x"}}), "x"),
        ("{{#a.b}}{{c}}{{/a.b}}", json!({"a": {"b": {"c": 1}}}), "1"),
        ("{{a.1}}", json!({"a": ["x", "y"]}), "y"),
        ("{{phone number}}{{a-b}}{{ x }}", json!({"phone number": 1, "a-b": 2, "x": 3}), "123"),
        ("{{x", json!({"x": 1}), "{{x"),
        (r#"{"a":{"b":1}}"#, json!({}), r#"{"a":{"b":1}}"#),
        (r#"{"a":{{"b":{{x}}}}"#, json!({"x": 1}), r#"{"a":{{"b":1}}"#),
        ("{{{x}}", json!({"x": 1}), "{1"),
        ("{{}}{{ }}{{#}}", json!({}), "{{}}{{ }}{{#}}"),
        ("{{x}}", json!({"x": "{{y}}", "y": "no"}), "{{y}}"),
        ("{{constructor}}{{__proto__}}{{toString}}{{a.length}}", json!({"a": "x"}), ""),
        ("{{x}}", json!({"x": "<b>&'"}), "<b>&'"),
    ]
}

const FALSE: [&str; 6] = ["false", "null", "\"\"", "0", "[]", "0.0"];

#[test]
fn texts_are_rendered() {
    for (template, variables, wanted) in texts() {
        let text = format!("Say {template}");
        assert_eq!(
            rendered(&text, variables, &set(&[])).unwrap(),
            json!(format!("Say {wanted}")),
            "{template}"
        );
    }
}

#[test]
fn strings_of_json_are_rendered_with_values_as_they_are() {
    for (template, variables, wanted) in texts() {
        let text =
            json!([{"role": "user", "content": template, "x": [1.50, {"{{name}}": null}]}]).to_string();
        let wanted = json!([{"role": "user", "content": wanted, "x": [1.50, {"{{name}}": null}]}]);
        assert_eq!(rendered(&text, variables, &set(&[])).unwrap(), wanted, "{template}");
    }
}

#[test]
fn values_in_strings_of_raw_templates_are_escaped_once() {
    for (template, variables, wanted) in texts() {
        let content = json!(template).to_string();
        let text = format!(r#"[{{"role":"user","content":{content}}} {{{{more}}}}]"#);
        let wanted = json!([{"role": "user", "content": wanted}]);
        // A quote in the tag's own text would end the string of a raw template's tag.
        assert_eq!(rendered(&text, variables, &set(&[])).unwrap(), wanted, "{text}");
    }
}

#[test]
fn false_values_hide_sections_and_show_inverted_ones() {
    let shown = |variables: Value| rendered("x{{#f}}yes{{/f}}{{^f}}no{{/f}}", variables, &set(&[])).unwrap();
    for value in FALSE {
        let value: Value = serde_json::from_str(value).unwrap();
        assert_eq!(shown(json!({ "f": value })), "xno", "{value}");
    }
    assert_eq!(shown(json!({})), "xno");
    assert_eq!(shown(json!({"f": [0]})), "xyes");
    assert_eq!(shown(json!({"f": "0"})), "xyes");
}

#[test]
fn raw_places_take_json() {
    let history = json!([{"role": "user", "content": "a \"b\""}, {"role": "assistant", "content": "{{y}}"}]);
    let s = r#"{"role":"system","content":"s"}"#;
    let system: Value = serde_json::from_str(s).unwrap();
    let both = json!([system, history[0], history[1]]);
    let list = |text: String, variables: Value| rendered(&text, variables, &set(&[])).unwrap();
    assert_eq!(list(format!("[{s},{{{{history}}}}]"), json!({ "history": history })), both);
    assert_eq!(list(format!("[{s},{{{{{{history}}}}}}]"), json!({ "history": history })), both);
    let swapped = json!([history[0], history[1], system]);
    assert_eq!(list(format!("[ {{{{history}}}} , {s}]"), json!({ "history": history })), swapped);
    for empty in [json!({"history": []}), json!({}), json!({"history": null})] {
        for text in [
            format!("[{s},{{{{history}}}}]"),
            format!("[{{{{history}}}},{s}]"),
            format!("[{{{{history}}}} , {s} , {{{{history}}}}\n]"),
            format!("[{{{{history}}}},{{{{history}}}},{s}]"),
            format!("[{s},{{{{history}}}},{{{{history}}}}]"),
        ] {
            assert_eq!(list(text.clone(), empty.clone()), json!([system]), "{text}");
        }
    }
    let parts = r#"[{"role":"user","content":{{parts}},"n":{{n}},"s":{{s}}}]"#;
    let wanted = json!([{"role": "user", "content": [{"type": "text"}], "n": 0.5, "s": "a\"\n"}]);
    assert_eq!(list(parts.into(), json!({"parts": [{"type": "text"}], "n": 0.5, "s": "a\"\n"})), wanted);
    let wanted = json!([{"role": "user", "content": [], "n": null, "s": null}]);
    assert_eq!(list(parts.into(), json!({"parts": []})), wanted);
}

#[test]
fn sections_add_parts_of_messages() {
    let text = r#"[{"role":"user","content":[{"type":"text","text":"{{q}}"}{{#has}},{"type":"image_url","image_url":{"url":"{{url}}"}}{{/has}}]}]"#;
    let part = json!({"type": "text", "text": "a\"b"});
    let image = json!({"type": "image_url", "image_url": {"url": "u"}});
    let shown = |has: bool| rendered(text, json!({"q": "a\"b", "url": "u", "has": has}), &set(&[])).unwrap();
    assert_eq!(shown(true), json!([{"role": "user", "content": [part, image]}]));
    assert_eq!(shown(false), json!([{"role": "user", "content": [part]}]));
    // A section that begins and ends a string.
    let text = r#"[{"role":"user","content":{{#t}}"{{t}}"{{/t}}{{^t}}[]{{/t}}}]"#;
    assert_eq!(
        rendered(text, json!({"t": "\""}), &set(&[])).unwrap(),
        json!([{"role": "user", "content": "\""}])
    );
    assert_eq!(rendered(text, json!({}), &set(&[])).unwrap(), json!([{"role": "user", "content": []}]));
}

#[test]
fn whole_lists_may_be_variables() {
    let raw = Template::compile("{{history}}", true).unwrap();
    let empty = set(&[]);
    assert_eq!(
        raw.render(&json!({"history": [{"role": "user"}]}), &empty, false).unwrap(),
        r#"[{"role":"user"}]"#
    );
    assert!(
        raw.render(&json!({}), &empty, false)
            .unwrap_err()
            .message
            .starts_with("Error in parsing prompt template: ")
    );
}

#[test]
fn texts_are_not_taken_for_chats() {
    for (text, wanted) in [
        ("[INST] {{q}} [/INST]", TemplateKind::Text),
        ("[{{^x}}none{{/x}}]", TemplateKind::Text),
        ("[\n{{#x}}\n- {{q}}\n{{/x}}\n]", TemplateKind::Text),
        ("[{{q}}] is the question", TemplateKind::Text),
        ("[{{q}}, please]", TemplateKind::Text),
        ("[] {{q}}", TemplateKind::Text),
        ("[{{a}} , {{#b}}{\"role\":\"user\"}{{/b}}]", TemplateKind::Chat),
        ("[\n{{! history }}{{a}},\n{{b}}\n]\n", TemplateKind::Chat),
        ("{{q}}", TemplateKind::Text),
        ("[\"a\"]", TemplateKind::Text),
        ("{\"a\":\"{{b}}\"}", TemplateKind::Text),
        ("", TemplateKind::Text),
        (" [ {\"role\":\"user\"}]", TemplateKind::Chat),
        ("[]", TemplateKind::Chat),
        ("[{{x}}]", TemplateKind::Chat),
    ] {
        assert_eq!(Template::compile(text, false).unwrap().kind(), wanted, "{text}");
    }
}

#[test]
fn broken_templates_are_refused_when_they_are_saved() {
    for (text, wanted) in [
        ("{{/f}}", "{{/f}} ends a section that was not begun"),
        ("{{#f}}", "{{#f}} is never closed"),
        ("{{^f}}{{#g}}{{/g}}", "{{^f}} is never closed"),
        ("{{#f}}{{#g}}{{/f}}{{/g}}", "{{/f}} stands where {{#g}} must end first"),
        ("{{=<% %>=}}", "other delimiters"),
        ("{{>p@staging}}", "names no version of a partial"),
        ("{{>p@0}}", "names no version of a partial"),
        ("{{>a.b}}", "is no name of a partial"),
        (r#"[{"role":"user","content":"{{#f}}"}]"#, "{{#f}} is never closed"),
        (r#"[{"role":"user","content":"{{#f}}"},{"content":"{{/f}}"}]"#, "{{/f}} ends a section"),
        (r#"[{"role":"user","content":"a"]"#, "no JSON array"),
        (r#"[{"role":"user","content":"{{x}}",}]"#, "no JSON array"),
        (r#"[{"role":"user","content":"\{{x}}"}]"#, "a backslash stands before a tag"),
        ("[{\"content\":\"a\nb\"}]", "no JSON array"),
    ] {
        let problems = Template::compile(text, false).unwrap_err();
        let found =
            problems.iter().any(|problem| problem.path == "string" && problem.message.contains(wanted));
        assert!(found, "{text}: {problems:?}");
    }
    let long = format!("{{{{>{}}}}}", "x".repeat(51));
    assert!(Template::compile(&long, false).is_err());
    assert!(Template::compile(&"{{#f}}".repeat(21), false).is_err());
    let nested = |depth: usize| format!("{}{}", "{{#f}}".repeat(depth), "{{/f}}".repeat(depth));
    assert!(Template::compile(&nested(20), false).is_ok());
    assert!(Template::compile(&nested(21), false).unwrap_err()[0].message.contains("20"));
    // All problems at once.
    assert_eq!(Template::compile("{{=a b=}}{{/x}}{{#y}}", false).unwrap_err().len(), 3);
}

#[test]
fn a_raw_template_that_its_values_break_is_refused_when_it_is_rendered() {
    let text = r#"[{"role":"user","content":"a"}{{#x}} ] {{/x}}]"#;
    let error = rendered(text, json!({"x": true}), &set(&[])).unwrap_err();
    assert!(error.message.starts_with("Error in parsing prompt template: "), "{}", error.message);
    assert_eq!(error.status(), 400);
}

#[test]
fn what_is_rendered_is_bounded() {
    let long = "x".repeat(1 << 20);
    for text in ["a{{x}}", r#"[{"c":"{{x}}"},{"c":"y"}]"#, r#"[{"c":"{{x}}"}{{more}}]"#] {
        let error = rendered(text, json!({ "x": format!("{long}x") }), &set(&[])).unwrap_err();
        assert_eq!((error.status(), error.param.as_deref()), (400, Some("variables")), "{text}");
    }
    let half = "x".repeat((1 << 20) - 100);
    assert!(rendered(r#"[{"c":"{{x}}"},{"c":"y"}]"#, json!({ "x": half }), &set(&[])).is_ok());
    let error = rendered(r#"[{"c":"{{x}}"},{"c":"{{x}}"}]"#, json!({ "x": half }), &set(&[])).unwrap_err();
    assert!(error.message.contains("1048576 bytes"), "{}", error.message);
    let list = json!({"l": vec![1; 101], "m": vec![1; 100]});
    assert!(rendered("x{{#m}}{{#m}}{{/m}}{{/m}}", json!({"m": vec![1; 99]}), &set(&[])).is_ok());
    let error = rendered("x{{#l}}{{#m}}{{/m}}{{/l}}", list, &set(&[])).unwrap_err();
    assert!(error.message.contains("10000 items"), "{}", error.message);
    let text = format!("x{{{{#l}}}}{}{{{{/l}}}}", "{{y}}".repeat(200));
    let error = rendered(&text, json!({"l": vec![1; 10_000]}), &set(&[])).unwrap_err();
    assert!(error.message.contains("1000000 parts"), "{}", error.message);
}

#[test]
fn components_are_what_a_template_needs() {
    let text = json!([{"role": "user", "content": "{{a.b}} {{a}} {{! no }}{{#s}}{{.}}{{i.j}}{{^t}}{{a}}{{/t}}{{/s}}"},
        {"role": "user", "content": "{{>p@3}}{{>q}}{{>>v}}{{z}}"}]);
    let template = Template::compile(&text.to_string(), false).unwrap();
    let wanted = json!({
        "variables": ["a", "z"], "sections": ["s", "t"], "sectionVariables": ["i", "a"],
        "partials": ["p@3", "q"], "variablePartials": ["v"]
    });
    assert_eq!(serde_json::to_value(template.components()).unwrap(), wanted);
}
