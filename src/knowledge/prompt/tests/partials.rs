//! Tests of partials: versions, places, limits, and what is missing.

use super::{rendered, set};
use serde_json::json;

#[test]
fn partials_are_rendered_where_they_stand() {
    let set = set(&[
        ("tone", &["Be {{how}}.", "Be very {{how}}.", "Be \"loud\"."]),
        ("twice", &["{{>tone}} {{>tone@2}}"]),
        (
            "msgs",
            &[r#"[{"role":"system","content":"{{how}}"}]"#, r#"{"role":"system","content":"{{how}}"}"#, ""],
        ),
    ]);
    let variables = json!({"how": "a\"b\n", "p": "tone@latest", "inject": "{{how}}"});
    let text = |template: &str| rendered(template, variables.clone(), &set).unwrap();
    assert_eq!(text("x{{>tone}}"), "xBe a\"b\n.");
    assert_eq!(text("x{{>tone@2}}{{> tone@latest }}"), "xBe very a\"b\n.Be \"loud\".");
    assert_eq!(text("x{{>>p}}"), "xBe \"loud\".");
    assert_eq!(text("x{{>twice}}"), "xBe a\"b\n. Be very a\"b\n.");
    let chat = |content: &str| json!([{"role": "user", "content": content}]);
    assert_eq!(text(r#"[{"role":"user","content":"{{>twice}}"}]"#), chat("Be a\"b\n. Be very a\"b\n."));
    assert_eq!(text(r#"[{"role":"user","content":"{{>tone@3}}"} {{none}}]"#), chat("Be \"loud\"."));
    let system = json!({"role": "system", "content": "a\"b\n"});
    assert_eq!(text("[{{>msgs}},{{>msgs@2}}]"), json!([system, system]));
    assert_eq!(text("[{{>msgs@3}},{{>msgs@2}}]"), json!([system]));
    assert_eq!(text(r#"[{"a":{{>msgs}}},{{>msgs@2}}]"#), json!([{"a": [system]}, system]));
}

#[test]
fn values_in_partials_are_never_templates() {
    let set = set(&[("p", &["{{x}}"]), ("q", &["secret"])]);
    let variables = json!({"x": "{{y}}{{>q}}{{{y}}}", "y": "no"});
    for template in ["a{{>p}}", "a{{x}}", "a{{#x}}{{.}}{{/x}}"] {
        assert_eq!(rendered(template, variables.clone(), &set).unwrap(), "a{{y}}{{>q}}{{{y}}}", "{template}");
    }
}

#[test]
fn what_is_missing_is_listed() {
    let set = set(&[("p", &["{{>deep}}"])]);
    for (template, variables, wanted) in [
        ("x{{>>p}}{{>>q.r}}", json!({}), "Missing variable partials: p, q.r"),
        ("x{{>>p}}", json!({"p": 5}), "Missing variable partials: p"),
        ("x{{>>p}}", json!({"p": "gone"}), "Missing prompt partials: gone"),
        ("x{{>>p}}", json!({"p": "a b"}), "Missing prompt partials: a b"),
        ("x{{>a}}{{#no}}{{>b@2}}{{/no}}{{>a}}", json!({}), "Missing prompt partials: a, b@2"),
        ("x{{>p}}", json!({}), "Missing prompt partials: deep"),
        ("x{{>p@2}}", json!({}), "Missing prompt partials: p@2"),
        ("x{{#l}}{{>>q}}{{/l}}", json!({"l": [1]}), "Missing variable partials: q"),
    ] {
        for template in [template.to_owned(), json!([{"role": "user", "content": template}]).to_string()] {
            let error = rendered(&template, variables.clone(), &set).unwrap_err();
            assert_eq!((error.status(), error.message.as_str()), (400, wanted), "{template}");
        }
    }
    assert_eq!(rendered("x{{#no}}{{>>q}}{{/no}}", json!({}), &set).unwrap(), "x");
}

#[test]
fn partials_nest_to_a_depth_and_never_in_circles() {
    let chain = set(&[
        ("a", &["{{>b}}"]),
        ("b", &["{{>c}}"]),
        ("c", &["{{>d}}"]),
        ("d", &["{{>e}}"]),
        ("e", &["{{x}}"]),
    ]);
    assert_eq!(rendered("{{>a}}", json!({"x": 1}), &chain).unwrap(), "1");
    let deeper = set(&[
        ("a", &["{{>b}}"]),
        ("b", &["{{>c}}"]),
        ("c", &["{{>d}}"]),
        ("d", &["{{>e}}"]),
        ("e", &["{{>f}}"]),
        ("f", &["x"]),
    ]);
    let error = rendered("{{>a}}", json!({}), &deeper).unwrap_err();
    assert!(
        error.message.contains("more than 5 partials inside each other (a > b > c > d > e > f)"),
        "{}",
        error.message
    );
    let circle = set(&[("a", &["{{>b}}"]), ("b", &["{{#go}}{{>a}}{{/go}}"])]);
    assert!(rendered("{{>a}}", json!({}), &circle).is_ok());
    let error = rendered("{{>a}}", json!({"go": true}), &circle).unwrap_err();
    assert_eq!((error.status(), error.message.contains("(a > b > a)")), (400, true), "{}", error.message);
}

#[test]
fn the_bounds_hold_in_partials() {
    let thousand = "{{>b}}".repeat(1000);
    let set = set(&[("a", &[&thousand]), ("b", &[&thousand.replace('b', "c")]), ("c", &[""])]);
    let error = rendered("x{{>a}}", json!({}), &set).unwrap_err();
    assert!(error.message.contains("1000000 parts"), "{}", error.message);
}
