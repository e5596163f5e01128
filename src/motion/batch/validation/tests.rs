//! Tests of the validation of input files: each code, hostile lines, duplicates, limits.

use super::*;
use futures_util::stream;
use proptest::prelude::*;

const CHAT: &str = "/v1/chat/completions";
const GOOD: &str =
    r#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[]}}"#;

fn line(bytes: impl Into<Vec<u8>>) -> Line {
    Line { number: 3, bytes: Bytes::from(bytes.into()) }
}

fn file(text: impl Into<Vec<u8>>, max_lines: u32) -> Validated {
    let reader = LineReader::new(stream::iter([Ok(Bytes::from(text.into()))]), 1024 * 1024);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(validate(reader, CHAT, max_lines, |_, _| Ok(()))).unwrap()
}

fn with_id(id: &str) -> String {
    GOOD.replace(r#""a""#, &serde_json::Value::from(id).to_string())
}

#[test]
fn a_good_line_gives_its_id_and_its_body() {
    let read = read_line(&line(GOOD), CHAT).unwrap();
    assert_eq!(read.custom_id, "a");
    assert_eq!(&read.body[..], br#"{"model":"m","messages":[]}"#);
    for body in [
        r#"{"stream":false}"#,
        r#"{"stream":null,"model":null}"#,
        r#"{"model":"ä\n"}"#,
        r#"{ "x" : {"stream":true,"model":1} }"#,
    ] {
        let text = format!(
            r#" {{"body": {body} ,"url":"{CHAT}","method":"POST","custom_id":"\u00e4","more":[1]}} "#
        );
        let read = read_line(&line(text), CHAT).unwrap();
        assert_eq!(&read.body[..], body.as_bytes());
        assert_eq!(read.custom_id, "ä");
    }
}

#[test]
fn each_mistake_has_its_code_and_its_member() {
    let json = "invalid_json_line";
    let missing = "missing_required_parameter";
    let request = "invalid_request";
    for (text, code, param) in [
        ("", json, None),
        ("nonsense", json, None),
        ("[\"a\",\"POST\",\"/v1/chat/completions\",{}]", json, None),
        ("null", json, None),
        (GOOD.get(..40).unwrap(), json, None),
        (&format!("{GOOD}}}"), json, None),
        (&format!("{GOOD}{GOOD}"), json, None),
        (&GOOD.replace("\"body\"", "\"custom_id\":\"b\",\"body\""), json, None),
        (&GOOD.replace("custom_id", "customId"), missing, Some("custom_id")),
        (&GOOD.replace(r#""a""#, "null"), missing, Some("custom_id")),
        (&GOOD.replace("method", "m"), missing, Some("method")),
        (&GOOD.replace("url", "u"), missing, Some("url")),
        (&GOOD.replace("body", "b"), missing, Some("body")),
        (&GOOD.replace(r#""a""#, "7"), request, Some("custom_id")),
        (&GOOD.replace(r#""a""#, r#""""#), request, Some("custom_id")),
        (&GOOD.replace("POST", "GET"), request, Some("method")),
        (&GOOD.replace("POST", "post"), request, Some("method")),
        (&GOOD.replace("chat/", ""), "invalid_url", Some("url")),
        (&GOOD.replace("/v1/", "https://api.openai.com/v1/"), "invalid_url", Some("url")),
        (&GOOD.replace("{\"model\":\"m\",\"messages\":[]}", "[]"), request, Some("body")),
        (&GOOD.replace("{\"model\":\"m\",\"messages\":[]}", "\"{}\""), request, Some("body")),
        (&GOOD.replace("\"messages\":[]", "\"model\":\"n\""), request, Some("body")),
        (&GOOD.replace("\"messages\":[]", "\"stream\":true"), request, Some("body.stream")),
        (&GOOD.replace("\"messages\":[]", "\"stream\":\"false\""), request, Some("body.stream")),
        (&GOOD.replace("\"m\"", "{}"), request, Some("body.model")),
    ] {
        let error = read_line(&line(text), CHAT).expect_err(text);
        assert_eq!(
            (error.code, error.param, error.line),
            (code, param, Some(3)),
            "{text}: {}",
            error.message
        );
        assert!(!error.message.is_empty() && error.message.len() < 300, "{}", error.message);
    }
}

#[test]
fn a_line_of_broken_text_gives_the_byte() {
    let mut bytes = GOOD.as_bytes().to_vec();
    bytes[15] = 0xff;
    let error = read_line(&line(bytes), CHAT).unwrap_err();
    assert_eq!(error.code, "invalid_json_line");
    assert_eq!(error.message, "This line is not valid UTF-8, from its byte 16 on.");
    let error = read_line(&line(GOOD.get(..40).unwrap()), CHAT).unwrap_err();
    assert!(
        error.message.contains("at its byte 40") && !error.message.contains("line 1"),
        "{}",
        error.message
    );
}

#[test]
fn deep_nesting_is_refused_and_does_not_end_the_process() {
    let nested = |depth: usize| {
        let value = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        GOOD.replace("[]", &value)
    };
    // The line and the body are two levels.
    assert!(read_line(&line(nested(126)), CHAT).is_ok());
    for depth in [127, 200_000] {
        let error = read_line(&line(nested(depth)), CHAT).unwrap_err();
        assert_eq!(error.code, "invalid_request");
        assert!(error.message.contains("more than 128 deep"), "{}", error.message);
    }
    assert_eq!(read_line(&line("[".repeat(500_000)), CHAT).unwrap_err().code, "invalid_json_line");
    let brackets_in_a_string = GOOD.replace("[]", &format!("\"\\\"{}\"", "[".repeat(1000)));
    assert!(read_line(&line(brackets_in_a_string), CHAT).is_ok());
}

#[test]
fn duplicates_of_an_id_are_found_however_it_is_written() {
    let text = [with_id("a"), with_id("b"), GOOD.replace(r#""a""#, r#""\u0061""#), with_id("a ")].join("\n");
    let validated = file(text, 10);
    assert_eq!(validated.lines, 3);
    let [error] = validated.errors.as_slice() else { panic!("{:?}", validated.errors) };
    assert_eq!((error.code, error.param, error.line), ("duplicate_custom_id", Some("custom_id"), Some(3)));
    assert!(error.message.contains("\"a\""), "{}", error.message);
}

#[test]
fn the_text_of_a_client_is_short_in_a_message() {
    let text = format!("{}\n{}", with_id(&"ä".repeat(100_000)), with_id(&"ä".repeat(100_000)));
    let validated = file(text, 10);
    assert!(validated.errors[0].message.len() < 300, "{}", validated.errors[0].message);
    let url = GOOD.replace("/v1/chat", &"x".repeat(100_000));
    assert!(read_line(&line(url), CHAT).unwrap_err().message.len() < 300);
}

#[test]
fn a_file_has_at_least_one_line_and_at_most_as_many_as_allowed() {
    for text in ["", "\n\n", "\u{feff}\r\n"] {
        let validated = file(text, 10);
        let [error] = validated.errors.as_slice() else { panic!("{:?}", validated.errors) };
        assert_eq!((error.code, error.line), ("empty_file", None));
    }
    let lines = |count: usize| (0..count).map(|id| with_id(&id.to_string()) + "\n").collect::<String>();
    assert_eq!(file(lines(10), 10), Validated { lines: 10, errors: Vec::new() });
    let validated = file(lines(50), 10);
    let [error] = validated.errors.as_slice() else { panic!("{:?}", validated.errors) };
    assert_eq!((error.code, error.line), ("too_many_tasks", Some(11)));
}

#[test]
fn a_line_after_ten_million_others_is_refused() {
    let mut validator = Validator::new(CHAT, 10);
    let numbered = |number| Line { number, ..line(with_id(&number.to_string())) };
    assert!(validator.check(&numbered(10_000_000)).is_ok());
    let error = validator.check(&numbered(10_000_001)).unwrap_err();
    assert_eq!((error.code, error.line), ("too_many_tasks", Some(10_000_001)));
    assert!(error.message.contains("blank lines"), "{}", error.message);
}

#[test]
fn a_file_of_mistakes_has_a_hundred_errors_and_not_one_more_for_being_empty() {
    let validated = file("x\n".repeat(5000), 10);
    assert_eq!((validated.lines, validated.errors.len()), (0, 101));
    assert!(validated.errors.iter().all(|error| error.code != "empty_file"));
    let long = format!("{}\n{GOOD}\n", "y".repeat(2 * 1024 * 1024));
    let validated = file(long, 10);
    assert_eq!(
        (validated.lines, validated.errors[0].code, validated.errors[0].line),
        (1, "line_too_long", Some(1))
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let error = read_line(&line(bytes), CHAT).unwrap_err();
        prop_assert_eq!(error.line, Some(3));
    }

    #[test]
    fn the_depth_is_that_of_the_tree(value in tree()) {
        fn depth(value: &serde_json::Value) -> usize {
            match value {
                serde_json::Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
                serde_json::Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
                _ => 0,
            }
        }
        let own = depth(&value);
        let wrapped = |more: usize| format!("{}{value}{}", "[".repeat(more), "]".repeat(more));
        prop_assert!(!is_too_deep(wrapped(MAX_DEPTH - own).as_bytes()));
        prop_assert!(is_too_deep(wrapped(MAX_DEPTH - own + 1).as_bytes()));
    }
}

fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf =
        prop_oneof![Just(serde_json::Value::Null), r#"[\[\]{}"\\a]{0,8}"#.prop_map(serde_json::Value::from)];
    leaf.prop_recursive(5, 30, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            proptest::collection::vec((r#"[a"\[]{1,3}"#, inner), 0..4)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}
