//! Finds the members of parts that a dialect's reader does not read, so that none of them goes silently.
//!
//! For requests that are translated: one that passes keeps its bytes. Only names are looked at, in the text as the client wrote
//! it; what a known member holds is the reader's business.

use crate::json::walk;
use std::fmt;

/// OpenAI's mark of where the prompt's cache may end. Source: `PromptCacheBreakpointParam` of OpenAI's published schema.
pub const BREAKPOINT: &str = "prompt_cache_breakpoint";

/// The most members that warnings name.
const MAX_NAMED: usize = 16;

/// How deep lists of parts are looked at: those of a message, of the result of a tool, and of a document in it. No dialect nests
/// them deeper, and a client may nest what it likes.
const MAX_DEPTH: usize = 4;

/// What is read of one kind of part.
#[derive(Debug)]
pub(super) struct PartKind {
    /// Its `type`; empty in a dialect whose parts have none.
    pub kind: &'static str,
    /// Its members, `type` left out.
    pub members: &'static [&'static str],
    /// The members of objects in it.
    pub inner: &'static [Inner],
}

/// What is read of an object that a part has.
#[derive(Debug)]
pub(super) struct Inner {
    pub name: &'static str,
    pub members: &'static [&'static str],
}

/// The parts of a dialect. Kinds that are not listed are not looked at: a reader passes them on whole, or refuses them.
#[derive(Debug)]
pub(super) struct PartShapes {
    /// The members of messages and parts that are lists of parts.
    pub lists: &'static [&'static str],
    pub kinds: &'static [PartKind],
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct UnknownMembers {
    warnings: Vec<String>,
    names: Vec<(&'static str, String)>,
    /// Whether a part has OpenAI's mark of where the cache may end.
    pub has_breakpoints: bool,
}

impl UnknownMembers {
    /// Looks at the parts of a list of messages. `at`: its name.
    pub fn messages(&mut self, shapes: &'static PartShapes, list: &str, at: &str) {
        let list = list.trim_start().as_bytes();
        // Most chats have no parts, but texts: one search in place of a walk.
        if list.get(1..).is_none_or(|inside| memchr::memchr(b'[', inside).is_none()) {
            return;
        }
        let Some(items) = walk::items(list) else { return };
        for (index, item) in items.enumerate() {
            self.lists(shapes, item, format_args!("{at}[{index}]"), MAX_DEPTH);
        }
    }

    /// Looks at a list of parts.
    pub fn parts(&mut self, shapes: &'static PartShapes, list: &[u8], at: fmt::Arguments<'_>) {
        self.parts_to(shapes, list, at, MAX_DEPTH);
    }

    pub fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    /// `depth`: how many lists of parts may be looked at from here on, one in the other.
    fn parts_to(&mut self, shapes: &'static PartShapes, list: &[u8], at: fmt::Arguments<'_>, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        for (index, part) in walk::items(list).into_iter().flatten().enumerate() {
            self.part(shapes, part, format_args!("{at}[{index}]"), depth);
        }
    }

    fn lists(&mut self, shapes: &'static PartShapes, object: &[u8], at: fmt::Arguments<'_>, depth: usize) {
        if depth == 0 {
            return;
        }
        for (name, value) in walk::members(object).into_iter().flatten() {
            let listed = shapes.lists.iter().find(|list| list.as_bytes() == name);
            if let Some(list) = listed.filter(|_| value.starts_with(b"[")) {
                self.parts_to(shapes, value, format_args!("{at}.{list}"), depth);
            }
        }
    }

    fn part(&mut self, shapes: &'static PartShapes, part: &[u8], at: fmt::Arguments<'_>, depth: usize) {
        let mut members = walk::members(part).into_iter().flatten();
        let kind = members.find(|(name, _)| *name == b"type").map_or(&b"\"\""[..], |(_, value)| value);
        let Some(kind) = kind.strip_prefix(b"\"").and_then(|kind| kind.strip_suffix(b"\"")) else { return };
        let Some(listed) = shapes.kinds.iter().find(|listed| listed.kind.as_bytes() == kind) else { return };
        for (name, value) in walk::members(part).into_iter().flatten() {
            self.has_breakpoints |= name == BREAKPOINT.as_bytes() && value != b"null";
            if let Some(inner) = listed.inner.iter().find(|inner| inner.name.as_bytes() == name) {
                for (name, value) in walk::members(value).into_iter().flatten() {
                    let is_read = inner.members.iter().any(|member| member.as_bytes() == name);
                    self.note(
                        listed.kind,
                        name,
                        is_read || value == b"null",
                        format_args!("{at}.{}", inner.name),
                    );
                }
            }
            let is_read = name == b"type" || listed.members.iter().any(|member| member.as_bytes() == name);
            self.note(listed.kind, name, is_read || value == b"null", at);
        }
        // The result of a tool has parts itself.
        self.lists(shapes, part, at, depth);
    }

    fn note(&mut self, kind: &'static str, name: &[u8], is_read: bool, at: fmt::Arguments<'_>) {
        if is_read || self.names.len() == MAX_NAMED {
            return;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        if !self.names.iter().any(|(of, noted)| *of == kind && *noted == name) {
            self.warnings.push(format!("{at}.{name}: dropped, the gateway knows no such member of a part"));
            self.names.push((kind, name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::body::Body;
    use crate::api::chat::Part;
    use crate::api::{chat_completions, gemini, messages, responses};
    use serde_json::json;

    const SHAPES: PartShapes = PartShapes {
        lists: &["content"],
        kinds: &[
            PartKind { kind: "text", members: &["text", BREAKPOINT], inner: &[] },
            PartKind {
                kind: "image_url",
                members: &["image_url"],
                inner: &[Inner { name: "image_url", members: &["url"] }],
            },
            PartKind { kind: "tool_result", members: &["content"], inner: &[] },
        ],
    };

    #[test]
    fn members_that_are_not_read_are_named_once() {
        let messages = json!([
            {"role": "user", "foo": 1, "content": "text"},
            {"role": "user", "content": [
                {"text": "a\"{", "foo": {"type": "image_url"}, "type": "text"},
                {"type": "text", "text": "b", "foo": 2, "bar": null},
                {"type": "image_url", "image_url": {"url": "u", "size": 1}},
                {"type": "image_url", "image_url": "u", "foo": []},
                {"type": "their_own", "foo": 1},
                {"type": "tool_result", "content": [{"type": "text", "text": "c", "baz": 1, "prompt_cache_breakpoint": {}}]},
                "text", 5]},
        ]);
        let mut found = UnknownMembers::default();
        found.messages(&SHAPES, &messages.to_string(), "messages");
        assert!(found.has_breakpoints);
        let why = "dropped, the gateway knows no such member of a part";
        assert_eq!(
            found.into_warnings(),
            [
                format!("messages[1].content[0].foo: {why}"),
                format!("messages[1].content[2].image_url.size: {why}"),
                format!("messages[1].content[3].foo: {why}"),
                format!("messages[1].content[5].content[0].baz: {why}"),
            ]
        );
    }

    #[test]
    fn a_thousand_names_are_no_thousand_warnings() {
        let part: serde_json::Map<_, _> = (0..1000).map(|n| (format!("m{n}"), json!(1))).collect();
        let mut part = serde_json::Value::Object(part);
        part["type"] = "text".into();
        let mut found = UnknownMembers::default();
        found.messages(&SHAPES, &json!([{"content": [part]}]).to_string(), "messages");
        assert!(!found.has_breakpoints);
        assert_eq!(found.into_warnings().len(), MAX_NAMED);
    }

    /// What a dialect's reader makes of a body.
    fn read(dialect: &str, body: &serde_json::Value) -> (Vec<String>, usize) {
        let body = Body::parse(body.to_string().into()).unwrap();
        let request = match dialect {
            "chat" => chat_completions::read(&body),
            "responses" => responses::read(&body),
            "messages" => messages::read(&body),
            _ => gemini::read(&body),
        };
        let request = request.unwrap();
        let parts = request.messages.iter().flat_map(|message| &message.content);
        let is_marked = |part: &&Part<'_>| match part {
            Part::Text { cache_control, .. } => cache_control.is_some(),
            Part::Image(image) => image.cache_control.is_some(),
            _ => false,
        };
        let marks = parts.filter(is_marked).count();
        (request.warnings, marks)
    }

    #[test]
    fn every_dialect_names_what_it_does_not_read() {
        let image = "data:image/png;base64,AAAA";
        for (dialect, body, wanted) in [
            (
                "chat",
                json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "foo": 1}]}]}),
                "messages[0].content[0].foo",
            ),
            (
                "responses",
                json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": image, "foo": 1}]}]}),
                "input[0].content[0].foo",
            ),
            (
                "messages",
                json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "foo": 1}]}]}),
                "messages[0].content[0].foo",
            ),
            (
                "messages",
                json!({"system": [{"type": "text", "text": "a", "foo": 1}], "messages": [{"role": "user", "content": "a"}]}),
                "system[0].foo",
            ),
            (
                "gemini",
                json!({"contents": [{"parts": [{"text": "a", "foo": 1}]}]}),
                "contents[0].parts[0].foo",
            ),
        ] {
            let (warnings, _) = read(dialect, &body);
            assert!(
                warnings.len() == 1 && warnings[0].starts_with(&format!("{wanted}: ")),
                "{dialect}: {warnings:?}"
            );
        }
    }

    #[test]
    fn parts_nested_without_end_are_no_recursion_without_end() {
        let nested = |list: &str, kind: &str| {
            let levels = 29_000;
            let open = format!(r#"{{{kind}"text":"a","{list}":["#).repeat(levels);
            format!("[{open}{}]", "]}".repeat(levels))
        };
        let text = |kind: &str| format!(r#""type":"{kind}","#);
        for (dialect, list, content) in [
            ("chat", "messages", nested("content", &text("text"))),
            ("chat", "messages", nested("content", &text("tool_result"))),
            ("messages", "messages", nested("content", &text("text"))),
            ("messages", "messages", nested("content", &text("tool_result"))),
            ("responses", "input", nested("content", &text("input_text"))),
            ("responses", "input", nested("output", &text("input_text"))),
            ("gemini", "contents", nested("parts", "")),
        ] {
            let member = if dialect == "gemini" { "parts" } else { "content" };
            let body = format!(r#"{{"{list}":[{{"role":"user","{member}":{content}}}]}}"#);
            let body = Body::parse(body.into()).unwrap();
            // Whether the reader takes it is its business; it must come back.
            let _ = match dialect {
                "chat" => chat_completions::read(&body).is_ok(),
                "responses" => responses::read(&body).is_ok(),
                "messages" => messages::read(&body).is_ok(),
                _ => gemini::read(&body).is_ok(),
            };
        }
        let mut found = UnknownMembers::default();
        let deep = format!(r#"[{{"content":{}}}]"#, nested("content", &text("tool_result")));
        found.messages(&SHAPES, &deep, "messages");
        assert_eq!(found.into_warnings().len(), 1);
    }

    #[test]
    fn openais_marks_are_read_as_anthropics_and_the_last_four_stay() {
        let mark = json!({"mode": "explicit"});
        let text = |kind: &str| json!({"type": kind, "text": "a", "prompt_cache_breakpoint": mark});
        let chat = json!({"messages": [{"role": "user", "content": [text("text"), {"type": "text", "text": "b"},
            {"type": "image_url", "image_url": {"url": "https://a.example"}, "prompt_cache_breakpoint": mark}]}]});
        assert_eq!(read("chat", &chat), (Vec::new(), 2));
        let input = json!({"input": [{"role": "user", "content": [text("input_text")]}]});
        assert_eq!(read("responses", &input), (Vec::new(), 1));
        let six = json!({"messages": [{"role": "user", "content": vec![text("text"); 6]}]});
        let (warnings, marks) = read("chat", &six);
        assert!(marks == 4 && warnings[0].contains("the first 2 left out"), "{warnings:?}");
        let audio = json!({"messages": [{"role": "user", "content": [
            {"type": "input_audio", "input_audio": {"data": "AAAA"}, "prompt_cache_breakpoint": mark}]}]});
        let (warnings, marks) = read("chat", &audio);
        assert!(marks == 0 && warnings[0].contains("prompt_cache_breakpoint: dropped"), "{warnings:?}");
    }
}
