//! Where texts are in bodies of every shape.

use super::*;
use Reading::{AnyRequest, Request, Response};

fn read(source: &str, reading: Reading) -> BodyTexts {
    BodyTexts::read(source, reading, Selection::default())
}

fn texts(source: &str, reading: Reading) -> Vec<(String, bool)> {
    let found = read(source, reading);
    found.texts.into_iter().map(|text| (text.text, text.is_new && text.choice == 0)).collect()
}

fn owned(texts: &[(&str, bool)]) -> Vec<(String, bool)> {
    texts.iter().map(|(text, is_judged)| ((*text).to_owned(), *is_judged)).collect()
}

#[test]
fn requests_of_every_shape_are_read() {
    for (source, wanted) in [
        (
            r#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b\n\"c"}]}"#,
            &[("a", true), ("b\n\"c", true)][..],
        ),
        (
            r#"{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{}},{"type":"tool_result","content":[{"type":"text","text":"r"}]}]}]}"#,
            &[("s", true), ("a", true), ("r", true)],
        ),
        (r#"{"prompt":["a","b"]}"#, &[("a", true), ("b", true)]),
        (r#"{"prompt":"a"}"#, &[("a", true)]),
        (r#"{"input":"a","instructions":"i"}"#, &[("i", true), ("a", true)]),
        (
            r#"{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call_output","call_id":"c","output":"o"}]}"#,
            &[("a", true), ("o", true)],
        ),
        (
            r#"{"contents":[{"role":"model","parts":[{"text":"t","thought":true},{"text":"a"}]},{"parts":[{"text":"b"}]}],"systemInstruction":{"parts":[{"text":"s"}]}}"#,
            &[("s", false), ("t", false), ("a", false), ("b", true)],
        ),
        (r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[]}]}"#, &[]),
        (
            r#"{"messages":[{"content":"first","content":"b"}],"messages":[{"content":"c"}],"system":"s","system":"t"}"#,
            &[("s", true), ("t", true), ("first", true), ("b", true), ("c", true)],
        ),
        (
            r#"{"input":[{"type":"compaction","encrypted_content":"gAAAA"},{"type":"compaction","encrypted_content":"turnpike:summary:a"}]}"#,
            &[("turnpike:summary:a", true)],
        ),
        // What a client says that a model has run, and what came of it.
        (
            r#"{"contents":[{"parts":[{"executableCode":{"language":"PYTHON","code":"a"}}]},{"role":"model","parts":[{"executable_code":{"code":"b"}}]}]}"#,
            &[("a", true), ("b", true)],
        ),
        (
            r#"{"input":[{"type":"file_search_call","queries":["q"],"results":[{"filename":"f","text":"a"}]},{"type":"code_interpreter_call","code":"c","outputs":[{"type":"logs","logs":"b"},{"type":"image","url":"u"}]}]}"#,
            &[("q", true), ("a", true), ("c", true), ("b", true)],
        ),
        (r#"[1,2]"#, &[]),
        ("no json", &[]),
    ] {
        assert_eq!(texts(source, Request), owned(wanted), "{source}");
    }
}

#[test]
fn responses_of_every_shape_are_read_and_changed_in_their_place() {
    let upper = |source: &str| {
        let found = read(source, Response);
        let new: Vec<_> = found.texts.iter().map(|text| Some(text.text.to_uppercase())).collect();
        found.replace(source, &new).unwrap_or_default()
    };
    for (source, judged, wanted) in [
        (
            r#"{"id":1.0, "choices":[{"index":0,"message":{"content":"a","annotations":[{"text":"a"}]},"logprobs":{"content":[]}},{"message":{"content":"b"},"logprobs":null}]}"#,
            "a",
            r#"{"id":1.0, "choices":[{"index":0,"message":{"content":"A","annotations":[]},"logprobs":null},{"message":{"content":"B"},"logprobs":null}]}"#,
        ),
        (r#"{"choices":[{"text":"a"}]}"#, "a", r#"{"choices":[{"text":"A"}]}"#),
        (
            r#"{"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
            "ab",
            r#"{"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"A"},{"type":"text","text":"B"}]}"#,
        ),
        (
            r#"{"output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"t"}]},{"type":"message","content":[{"type":"output_text","text":"a","annotations":[]}]}],"output_text":"a"}"#,
            "a",
            r#"{"output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"t"}]},{"type":"message","content":[{"type":"output_text","text":"A","annotations":[]}]}],"output_text":"A"}"#,
        ),
        (
            r#"{"output":[{"type":"message","content":"a","annotations":[{}]},{"content":"b"},{"type":"reasoning","content":"t"}]}"#,
            "ab",
            r#"{"output":[{"type":"message","content":"A","annotations":[]},{"content":"B"},{"type":"reasoning","content":"t"}]}"#,
        ),
        (
            r#"{"output":[{"type":"message","content":[{"type":"reasoning_text","text":"t"},{"type":"text","text":"a"},{"text":"b"}]},{"type":"other","content":[{"type":"text","text":"t"},{"type":"output_text","text":"c"}]}]}"#,
            "abc\nt",
            r#"{"output":[{"type":"message","content":[{"type":"reasoning_text","text":"t"},{"type":"text","text":"A"},{"text":"B"}]},{"type":"other","content":[{"type":"text","text":"T"},{"type":"output_text","text":"C"}]}]}"#,
        ),
        // A conversation that was compacted.
        (
            r#"{"output":[{"type":"message","role":"user","content":[{"type":"input_text","text":"t"}]},{"type":"compaction","encrypted_content":"turnpike:summary:a"},{"type":"compaction","encrypted_content":"gAAAA"}]}"#,
            "turnpike:summary:a",
            r#"{"output":[{"type":"message","role":"user","content":[{"type":"input_text","text":"t"}]},{"type":"compaction","encrypted_content":"TURNPIKE:SUMMARY:A"},{"type":"compaction","encrypted_content":"gAAAA"}]}"#,
        ),
        (r#"{"output":[],"output_text":"a"}"#, "a", r#"{"output":[],"output_text":"A"}"#),
        (
            r#"{"output":[{"content":[{"type":"output_text","text":""}]}],"output_text":"a"}"#,
            "a",
            r#"{"output":[{"content":[{"type":"output_text","text":""}]}],"output_text":"A"}"#,
        ),
        (
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#,
            "a",
            r#"{"candidates":[{"content":{"parts":[{"text":"A"}]}}]}"#,
        ),
    ] {
        assert_eq!(
            joined(read(source, Response).texts.iter().filter(|text| text.choice == 0)).as_deref(),
            Some(judged),
            "{source}"
        );
        assert_eq!(upper(source), wanted);
    }
    let unchanged = read(r#"{"choices":[{"text":"A"}]}"#, Response);
    assert_eq!(unchanged.replace(r#"{"choices":[{"text":"A"}]}"#, &[Some("A".to_owned())]), None);
}

#[test]
fn every_shape_that_a_model_reads_is_read() {
    for (source, wanted) in [
        // A lone surrogate, also in the name of another member.
        (r#"{"messages":[{"x\udc00":1,"content":"\ud800 a"}]}"#, &[("\u{fffd} a", true)][..]),
        (r#"{"messages":[{"content":["a",{"text":"b"}]}]}"#, &[("a", true), ("b", true)]),
        (r#"{"messages":{"content":{"text":"a"}}}"#, &[("a", true)]),
        (
            r#"{"messages":[{"content":[{"type":"document","title":"t","source":{"type":"text","data":"a"}},
                {"type":"document","source":{"type":"content","content":[{"type":"text","text":"b"}]}},
                {"type":"document","source":{"type":"content","content":"c"}},
                {"type":"search_result","source":"u","title":"v","content":[{"type":"text","text":"d"}]}]}]}"#,
            &[("t", true), ("a", true), ("b", true), ("c", true), ("v", true), ("d", true), ("u", true)],
        ),
        (
            r#"{"messages":[{"content":[{"type":"tool_result","type":"x","content":[{"type":"document","source":{"type":"text","data":"a"}}]}]}]}"#,
            &[("a", true)],
        ),
        (
            r#"{"messages":[{"content":"a"}],"prediction":{"type":"content","content":"p"}}"#,
            &[("p", true), ("a", true)],
        ),
        (r#"{"messages":[{"content":[{"type":"text","text":{"value":"a"}}]}]}"#, &[("a", true)]),
        (r#"{"prompt":"a","suffix":"b"}"#, &[("a", true), ("b", true)]),
        (r#"{"input":[{"text":"a"},{"text":"b"},"c"]}"#, &[("a", true), ("b", true), ("c", true)]),
        (
            r#"{"prompt":{"id":"p","variables":{"v":"a","w":{"type":"input_text","text":"b"}}},"input":[]}"#,
            &[("a", true), ("b", true)],
        ),
        (r#"{"contents":{"role":"user","parts":{"text":"a"}}}"#, &[("a", true)]),
        (
            r#"{"contents":[{"role":"model","parts":[{"text":"t","thought":true}]},{"role":"user","parts":[{"text":"a","thought":true},
                {"functionResponse":{"name":"f","response":{"x":["b",{"y":"c"}]}}},{"codeExecutionResult":{"output":"d"}}]}]}"#,
            &[("t", true), ("a", true), ("x", true), ("b", true), ("y", true), ("c", true), ("d", true)],
        ),
        (
            r#"{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]}}]}"#,
            &[("a", true), ("b", true)],
        ),
        (r#"{"generateContentRequest":{"contents":[{"parts":[{"text":"a"}]}]}}"#, &[("a", true)]),
    ] {
        assert_eq!(texts(source, Request), owned(wanted), "{source}");
        assert_eq!(read(source, Request).unread, None, "{source}");
    }
}

#[test]
fn of_a_body_of_unknown_shape_every_text_is_read_once() {
    for (source, wanted) in [
        (
            r#"{"model":"m","requests":[{"custom_id":"i","params":{"messages":[{"content":"a"}]}}]}"#,
            &[("i", true), ("a", true)][..],
        ),
        (
            r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"user":"u"}"#,
            &[("a", true), ("b", true), ("u", true)],
        ),
        (
            r#"{"input":{"texts":["a"]},"query":"b","documents":[{"x":"c"}]}"#,
            &[("a", true), ("b", true), ("c", true)],
        ),
        (r#"{"requests":[{"content":{"parts":[{"text":"a"}]},"title":"b"}]}"#, &[("a", true), ("b", true)]),
        // A text that has a shape, and next to it one that has none.
        (r#"{"input":{"text":"a","prompt":"b"}}"#, &[("a", true), ("b", true)]),
        (r#"{"prompt":{"variables":{"v":"a"},"text":"b"}}"#, &[("a", true), ("b", true)]),
        (r#"{"content":{"parts":[{"text":"a"}],"note":"b"}}"#, &[("a", true), ("b", true)]),
        (
            r#"{"system":[{"text":"s","note":"b"}],"messages":[{"content":"a"}]}"#,
            &[("s", true), ("b", true), ("a", true)],
        ),
        (
            r#"{"input":[{"role":"user","content":"a","note":"x"},{"role":"assistant","content":"z"},{"content":"b","note":"c"},"d"]}"#,
            &[("a", false), ("x", false), ("z", false), ("b", true), ("c", true), ("d", true)],
        ),
        (r#"{"input":"a","input":{"note":"b"}}"#, &[("a", true), ("b", true)]),
    ] {
        assert_eq!(texts(source, AnyRequest), owned(wanted), "{source}");
    }
}

#[test]
fn what_is_not_read_of_the_judged_message_is_noted() {
    let nested = format!(
        r#"{{"messages":[{{"content":{}{}}}]}}"#,
        r#"[{"content":"#.repeat(100),
        "1}]".to_owned() + &"}]".repeat(99)
    );
    for (source, wanted) in [
        (
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{}},{"type":"image","source":{"type":"base64","data":"a"}},{"type":"text","text":""}]}]}"#,
            None,
        ),
        (
            r#"{"messages":[{"content":[{"type":"input_file","file_id":"f"}]},{"role":"assistant","content":"a"},{"content":"a"}]}"#,
            None,
        ),
        (
            r#"{"messages":[{"content":[{"type":"input_file","file_id":"f"}]}]}"#,
            Some("a part of the type \"input_file\""),
        ),
        (
            r#"{"messages":[{"content":[{"type":"document","title":"t","source":{"type":"base64","data":"a"}}]}]}"#,
            Some("a part of the type \"document\""),
        ),
        (r#"{"messages":[{"content":[{"data":"a"}]}]}"#, Some("a part without a type")),
        (r#"{"input":[{"type":"item_reference","id":"i"}]}"#, Some("a part of the type \"item_reference\"")),
        (r#"{"input":[{"type":"function_call","arguments":"{}"}]}"#, None),
        (
            r#"{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"a"}},{"functionCall":{}}]}]}"#,
            None,
        ),
        (
            r#"{"contents":[{"parts":[{"fileData":{"mimeType":"application/pdf"}}]}]}"#,
            Some("a part with \"fileData\""),
        ),
        (r#"{"prompt":[1,2]}"#, Some("numbers of tokens")),
        (r#"{"input":[[1,2],"a"]}"#, Some("numbers of tokens")),
        (&nested, Some("deeply nested content")),
    ] {
        assert_eq!(read(source, Request).unread.as_deref(), wanted, "{source}");
    }
}

#[test]
fn stored_chats_items_and_responses_are_read_in_lists() {
    let source = r#"{"object":"list","data":[{"choices":[{"message":{"content":"a"}}]},{"role":"user","content":"b"},
        {"type":"message","content":[{"type":"output_text","text":"c"}]},{"output":[{"content":[{"type":"output_text","text":"d"}]}]}]}"#;
    assert_eq!(texts(source, Response), owned(&[("a", true), ("b", true), ("c", true), ("d", true)]));
}

/// What is stored has no list of its own. Nested ones were read by recursion, and a provider could end the process with them.
#[test]
fn what_is_stored_is_read_one_level_deep() {
    let open = r#"{"output":[{"content":[{"type":"output_text","text":"a"}]}],"data":["#;
    let nested = open.repeat(20_000) + &"]}".repeat(20_000);
    assert_eq!(
        texts(&nested, Response),
        owned(&[("a", true), ("a", true)]),
        "its own, and that of the first level"
    );
}
