//! Gives a stream that passes on what clients put it together by: the role of its message first, an index for each tool call, each
//! id and name once.
//!
//! openai-python joins an `id` or a `name` that is repeated to one text, inserts a call at an index that is not the next one
//! twice, and takes two calls with index 0 for one (`accumulate_delta`); openai-node throws where no delta has the role
//! (`ChatCompletionStream`). What is as OpenAI sends it keeps every byte. For example, for a second call:
//!
//! ```text
//! {"index":0,"id":"b","function":{"name":"g","arguments":"{"}}   becomes   {"index":1,"id":"b", ...}
//! {"index":0,"id":"b","function":{"name":"g","arguments":"}"}}   becomes   {"index":1,"function":{"arguments":"}"}}
//! ```

use super::call_identity::{CallIdentity, Fragment, key};
use std::collections::BTreeMap;
use std::fmt::Arguments;
use words::json::Json;
use words::json::splice::{Object, Splice};

/// More choices than any client requests.
const MAX_CHOICES: usize = 128;

/// One stream: the calls of each choice.
#[derive(Debug, Default)]
pub(in crate::provider) struct StreamAssembly(BTreeMap<u64, CallIdentity>);

impl StreamAssembly {
    /// The data of one event, corrected; `None` if it stays as it is.
    pub fn correct(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        let has = |name: &str| memchr::memmem::find(data, name.as_bytes()).is_some();
        let concerns_role = self.0.is_empty() && has("\"delta\"");
        let concerns_finish = || self.0.values().any(|calls| !calls.is_empty()) && has("\"stop\"");
        if !concerns_role && !has("\"tool_calls\"") && !concerns_finish() {
            return None;
        }
        let text = std::str::from_utf8(data).ok()?.trim_start();
        let event = Object::read(text)?;
        let response_id = event.string("id").unwrap_or_default();
        let mut splice = Splice::new(text);
        for (position, choice) in (0..).zip(event.list("choices")) {
            let number = key(choice.get("index")).unwrap_or(position);
            if self.0.len() >= MAX_CHOICES && !self.0.contains_key(&number) {
                break;
            }
            if let Some(delta) = choice.inner("delta") {
                if !self.0.contains_key(&number) && !delta.has("role") {
                    splice.append(&delta, "role", "\"assistant\"");
                }
                let identity = self.0.entry(number).or_default();
                let calls = delta.list("tool_calls");
                for (place, call) in calls.iter().enumerate() {
                    let place = (calls.len() > 1).then_some(place);
                    let id_base = format_args!("call_{response_id}_{number}");
                    correct_call(call, place, id_base, identity, &mut splice);
                }
            }
            let has_calls = self.0.get(&number).is_some_and(|calls| !calls.is_empty());
            if has_calls && choice.string("finish_reason").as_deref() == Some("stop") {
                splice.replace(&choice, "finish_reason", "\"tool_calls\"");
                set(&mut splice, &choice, "native_finish_reason", "\"stop\"");
            }
        }
        splice.finish()
    }
}

/// `id_base`: what the id of a call without one begins with.
fn correct_call<'t>(
    call: &Object<'t>,
    place: Option<usize>,
    id_base: Arguments<'_>,
    identity: &mut CallIdentity,
    splice: &mut Splice<'t>,
) {
    let function = call.inner("function").or_else(|| call.inner("custom"));
    let named = function.as_ref();
    let id = call.string("id").unwrap_or_default();
    let name = named.and_then(|function| function.string("name")).unwrap_or_default();
    let arguments = named.and_then(|function| function.string("arguments")).unwrap_or_default();
    let index = key(call.get("index"));
    let fragment = Fragment { key: index, id: &id, name: &name, arguments: &arguments, place };
    let Some(found) = identity.take(fragment, true) else { return };
    let is_number =
        call.get("index").is_some_and(|index| index.get().starts_with(|c: char| c.is_ascii_digit()));
    if index != u64::try_from(found.at).ok() || !is_number {
        set(splice, call, "index", &found.at.to_string());
    }
    if !found.is_new {
        splice.remove(call, |member, _| member == "id");
    } else if id.is_empty() || found.is_repeated_id {
        let id = format!("{id_base}_{}", found.at);
        set(splice, call, "id", Json::from_value(&id).get());
    }
    if let (true, Some(function)) = (found.is_named, function) {
        splice.remove(&function, |member, _| member == "name");
    }
}

/// Replaces a member's value, or adds the member.
fn set<'t>(splice: &mut Splice<'t>, object: &Object<'t>, name: &str, json: &str) {
    if object.has(name) { splice.replace(object, name, json) } else { splice.append(object, name, json) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::adapter::ResponsePatch;
    use crate::provider::openai_chat::CHAT_PATCH;

    fn corrected(calls: &[&str]) -> Vec<String> {
        let mut stream = StreamAssembly::default();
        let begin = br#"{"choices":[{"index":0,"delta":{"role":"assistant"}}]}"#;
        assert_eq!(stream.correct(begin), None);
        let chunk = |calls: &str| {
            format!(r#"{{"id":"r","choices":[{{"index":0,"delta":{{"tool_calls":[{calls}]}}}}]}}"#)
        };
        let correct = |calls: &&str| {
            let sent = chunk(calls);
            let out = stream.correct(sent.as_bytes()).map_or(sent, |out| String::from_utf8(out).unwrap());
            let list = out.split_once("tool_calls\":[").unwrap().1;
            list.strip_suffix("]}}]}").unwrap().to_owned()
        };
        calls.iter().map(correct).collect()
    }

    #[test]
    fn what_openai_sends_keeps_every_byte() {
        let calls = [
            r#"{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}"#,
            r#"{"index":0,"function":{"arguments":"{ }"}}"#,
            r#"{"index":1,"id":"b","type":"function","function":{"name":"f","arguments":""}}"#,
            r#"{"index":1,"function":{"arguments":"{}"}}, {"index":0,"function":{"arguments":" "}}"#,
        ];
        assert_eq!(corrected(&calls), calls);
        assert_eq!(StreamAssembly::default().correct(b"[DONE]"), None);
        assert_eq!(
            StreamAssembly::default()
                .correct(br#"{"choices":[{"delta":{"role":"assistant","tool_calls":null}}]}"#),
            None
        );
    }

    #[test]
    fn the_first_delta_has_the_role() {
        let mut stream = StreamAssembly::default();
        let mut correct = |delta: &str| {
            let data = format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
            stream.correct(data.as_bytes()).map(|out| String::from_utf8(out).unwrap())
        };
        let wanted = r#"{"choices":[{"index":0,"delta":{"content":"a","role":"assistant"}}]}"#;
        assert_eq!(correct(r#"{"content":"a"}"#).as_deref(), Some(wanted));
        assert_eq!(correct(r#"{"content":"b"}"#), None);
        // OpenRouter and Z.ai repeat it, which clients take.
        assert_eq!(correct(r#"{"role":"assistant","content":"c"}"#), None);
    }

    #[test]
    fn a_stream_with_calls_ends_with_their_finish_reason() {
        let mut stream = StreamAssembly::default();
        let mut correct = |choice: &str| {
            let data = format!(r#"{{"choices":[{{"index":0,{choice}}}]}}"#);
            let out = stream.correct(data.as_bytes());
            out.map(|out| String::from_utf8(out).unwrap())
        };
        assert_eq!(correct(r#""delta":{"role":"assistant"},"finish_reason":"stop""#), None);
        let call = r#"{"index":0,"id":"a","function":{"name":"f"}}"#;
        assert_eq!(correct(&format!(r#""delta":{{"tool_calls":[{call}]}}"#)), None);
        let wanted = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls","native_finish_reason":"stop"}]}"#;
        assert_eq!(correct(r#""delta":{},"finish_reason":"stop""#).as_deref(), Some(wanted));
    }

    #[test]
    fn other_ways_of_numbering_become_openais() {
        for (sent, wanted) in [
            (
                vec![
                    r#"{"id":"a","function":{"name":"f","arguments":"{}"}}"#,
                    r#"{"id":"b","function":{"name":"f","arguments":"{}"}}"#,
                ],
                vec![
                    r#"{"id":"a","function":{"name":"f","arguments":"{}"},"index":0}"#,
                    r#"{"id":"b","function":{"name":"f","arguments":"{}"},"index":1}"#,
                ],
            ),
            (
                vec![
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}"#,
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}"#,
                    r#"{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}"#,
                ],
                vec![
                    r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}"#,
                    r#"{"index":0,"function":{"arguments":"}"}}"#,
                    r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}"#,
                ],
            ),
            (
                vec![
                    r#"{"index":"1","id":"a","function":{"name":"f"}}"#,
                    r#"{"index":"2","id":"a","function":{"name":"f"}}"#,
                ],
                vec![
                    r#"{"index":0,"id":"a","function":{"name":"f"}}"#,
                    r#"{"index":1,"id":"call_r_0_1","function":{"name":"f"}}"#,
                ],
            ),
            (
                vec![
                    r#"{"index":0,"id":null,"function":{"name":"f","arguments":"{}"}},{"index":0,"function":{"name":"g"}}"#,
                ],
                vec![
                    r#"{"index":0,"id":"call_r_0_0","function":{"name":"f","arguments":"{}"}},{"index":1,"function":{"name":"g"},"id":"call_r_0_1"}"#,
                ],
            ),
        ] {
            assert_eq!(corrected(&sent), wanted);
        }
    }

    #[test]
    fn objects_that_are_empty_or_become_so_are_completed() {
        for (streamed, choice) in [
            (true, "{}"),
            (true, r#"{"delta":{"tool_calls":null}}"#),
            (false, "{}"),
            (false, r#"{"message":{}}"#),
            (false, r#"{"message":{"tool_calls":null}}"#),
            (false, r#"{"message":{"tool_calls":[{"type":null},{}]}}"#),
        ] {
            let sent = format!(r#"{{"id":"r","choices":[{choice}]}}"#);
            let mut patched = CHAT_PATCH.patch(sent.as_bytes(), streamed).unwrap();
            if streamed {
                patched = StreamAssembly::default().correct(&patched).unwrap_or(patched);
            }
            let read = serde_json::from_slice::<serde_json::Value>(&patched);
            assert!(read.is_ok(), "{sent} became {}", String::from_utf8_lossy(&patched));
        }
    }

    #[test]
    fn every_correction_is_json() {
        assert_eq!(
            corrected(&["{}", r#"{"id":"a"}"#]),
            [r#"{"index":0,"id":"call_r_0_0"}"#, r#"{"index":0}"#]
        );
        let mut fragments = vec![String::new()];
        for values in [
            ["", r#""index":null"#, r#""index":0"#],
            ["", r#""id":"""#, r#""id":"a""#],
            ["", r#""function":{"name":"f"}"#, r#""function":{"name":"f","arguments":"{}"}"#],
        ] {
            let joined = |before: &String, value: &str| {
                let comma = if before.is_empty() || value.is_empty() { "" } else { "," };
                format!("{before}{comma}{value}")
            };
            let longer = |before: &String| values.map(|value| joined(before, value));
            fragments = fragments.iter().flat_map(longer).collect();
        }
        let fragments: Vec<String> = fragments.iter().map(|members| format!("{{{members}}}")).collect();
        for first in &fragments {
            for second in &fragments {
                for calls in corrected(&[first, second]) {
                    let read = serde_json::from_str::<serde_json::Value>(&calls);
                    assert!(read.is_ok(), "{first} {second} became {calls}");
                }
            }
        }
    }
}
