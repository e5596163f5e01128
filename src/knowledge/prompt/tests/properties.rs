//! Properties of any value: it is never a template, and JSON stays JSON.

use super::{rendered, set};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Texts with what matters to templates and JSON.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("{{x}}"),
        Just("{{>p}}"),
        Just("{{/s}}"),
        Just("{{#s}}"),
        Just("\""),
        Just("\\"),
        Just("\n"),
        Just(","),
        Just("]"),
        Just("[{"),
        Just("}}"),
        Just("{{"),
        Just("\u{0}"),
        Just("ü"),
        Just("a"),
        Just("{{! "),
    ];
    vec(part, 0..8).prop_map(|parts| parts.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(prop_oneof![Just("x".to_owned()), Just("y".to_owned()), text()], inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn variables() -> impl Strategy<Value = Value> {
    [value(), value(), value(), value()].prop_map(|[x, y, s, l]| json!({"x": x, "y": y, "s": s, "l": l}))
}

fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_value_is_a_template(variables in variables()) {
        let set = set(&[("p", &["<{{x}}>"])]);
        let x = as_text(&variables["x"]);
        let y = as_text(&variables["y"]);
        let wanted = format!("a{x}|{y}|<{x}>");
        let template = "a{{x}}|{{{y}}}|{{>p}}";
        prop_assert_eq!(rendered(template, variables.clone(), &set).unwrap(), json!(wanted.clone()));
        let tree = json!([{"role": "user", "content": template}]).to_string();
        let messages = json!([{"role": "user", "content": wanted}]);
        prop_assert_eq!(rendered(&tree, variables.clone(), &set).unwrap(), messages.clone());
        let raw = format!(r#"[{{"role":"user","content":"{template}"}} {{{{missing}}}}]"#);
        prop_assert_eq!(rendered(&raw, variables, &set).unwrap(), messages);
    }

    #[test]
    fn json_stays_json(variables in variables()) {
        let set = set(&[("p", &["\"{{x}}{{#l}}{{x}}{{/l}}"]), ("m", &[r#"{"role":"system","content":"{{y}}"}"#])]);
        let template = r#"[{{l}},{"role":"user","content":"{{x}}{{#s}}{{.}}{{x}}{{/s}}{{>p}}","v":{{y}}},{{s}},{{>m}}]"#;
        let messages = rendered(template, variables.clone(), &set).unwrap();
        let messages = messages.as_array().unwrap();
        let items = |value: &Value| value.as_array().map_or(usize::from(!value.is_null()), Vec::len);
        prop_assert_eq!(messages.len(), items(&variables["l"]) + items(&variables["s"]) + 2);
        let user = &messages[items(&variables["l"])];
        prop_assert_eq!(user.as_object().unwrap().len(), 3);
        prop_assert_eq!(&user["v"], &variables["y"]);
        let wanted = json!({"role": "system", "content": as_text(&variables["y"])});
        prop_assert_eq!(&messages[messages.len() - 1], &wanted);
    }

    #[test]
    fn any_text_is_compiled_or_refused_and_renders_json(template in text(), variables in variables()) {
        let _ = rendered(&template, variables.clone(), &set(&[]));
        let raw = format!("[{{\"content\":\"{template}\"}},{template}]");
        let _ = rendered(&raw, variables.clone(), &set(&[]));
        let tree = json!([{"role": "user", "content": template}]).to_string();
        if let Ok(messages) = rendered(&tree, variables, &set(&[])) {
            prop_assert_eq!(&messages[0]["role"], "user");
        }
    }
}
