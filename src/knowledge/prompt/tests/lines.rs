//! Lines that hold nothing but tags: what a text and a partial lose, and what messages keep.
//!
//! Source: "standalone" lines of the Mustache specification (sections, inverted, comments, partials).

use super::{rendered, set};
use serde_json::json;

#[test]
fn a_tag_alone_on_its_line_takes_the_line_with_it() {
    let variables = json!({"x": true, "q": "Q", "p": "tag", "l": [1, 2]});
    let set = set(&[("tag", &["P\n"])]);
    for (template, wanted) in [
        ("{{#x}}\n- {{q}}\n{{/x}}\nend", "- Q\nend"),
        ("a\n  {{#x}}\nb\n{{/x}}  \nc", "a\nb\nc"),
        ("{{^none}}\r\nb\r\n{{/none}}\r\n", "b\r\n"),
        ("a\n{{! note }}\nb", "a\nb"),
        ("a\n{{!\n two\n lines }}\nb", "a\nb"),
        ("a\n{{! last }}", "a\n"),
        ("  {{! only }}  ", ""),
        ("a\n{{>tag}}\nb", "a\nP\nb"),
        ("a\n{{>>p}}\nb", "a\nP\nb"),
        ("{{#l}}\n{{.}}\n{{/l}}\n", "1\n2\n"),
        ("{{#none}}\na\n{{/none}}\n\nb", "\nb"),
        ("{{#x}}{{! two tags }}\na\n{{/x}}", "a\n"),
        // Not alone.
        ("a {{! note }}\nb", "a \nb"),
        ("{{#x}}a{{/x}}\nb", "a\nb"),
        ("{{q}}\nb", "Q\nb"),
        ("{{none}}\nb", "\nb"),
        ("\n\n", "\n\n"),
    ] {
        assert_eq!(rendered(template, variables.clone(), &set).unwrap(), wanted, "{template:?}");
    }
}

#[test]
fn lines_of_messages_stay() {
    let template = json!([{"role": "user", "content": "{{#x}}\n- {{q}}\n{{/x}}\nend"}]).to_string();
    let wanted = json!([{"role": "user", "content": "\n- Q\n\nend"}]);
    assert_eq!(rendered(&template, json!({"x": true, "q": "Q"}), &set(&[])).unwrap(), wanted);
}

#[test]
fn lines_of_a_partial_are_indented_as_its_tag() {
    let set = set(&[
        ("lines", &["|\n{{v}}\n\n{{#l}}\n{{.}}\n{{/l}}\n|\n"]),
        ("outer", &["<\n  {{>lines}}\n>\n"]),
        ("bare", &[">\n>"]),
    ]);
    let variables = json!({"v": "a\nb", "l": [1, 2]});
    for (template, wanted) in [
        ("\\\n {{>lines}}\n/", "\\\n |\n a\nb\n\n 1\n 2\n |\n/"),
        (" {{>outer}}\nend", " <\n   |\n   a\nb\n\n   1\n   2\n   |\n >\nend"),
        ("x  {{>bare}}\ny", "x  >\n>\ny"),
        ("  {{>bare}}", "  >\n  >"),
        ("  {{v}}  {{>bare}}", "  a\nb  >\n>"),
    ] {
        assert_eq!(rendered(template, variables.clone(), &set).unwrap(), wanted, "{template:?}");
    }
}

#[test]
fn an_indentation_is_bounded_as_all_else() {
    let lines = "a\n".repeat(10_000);
    let set = set(&[("lines", &[&lines])]);
    let template = format!("{}{{{{>lines}}}}", " ".repeat(100_000));
    let error = rendered(&template, json!({}), &set).unwrap_err();
    assert!(error.message.contains("1048576 bytes"), "{}", error.message);
}
