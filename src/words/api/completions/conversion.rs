//! A legacy completion in the other kind than the one it came in: chunks as a whole response, a whole one as a chunk.
//!
//! For providers that send the kind that was not requested. Nothing is made anew, so members that this gateway does not know are kept.

use crate::api::sse::write_event;
use crate::json::Json;
use crate::json::splice::{Object, Splice};
use std::borrow::Cow;

/// More choices than any real response has.
const MAX_CHOICES: usize = 1024;

/// Appends the events of a whole response; false, with nothing written, if it is none. A chunk has the shape of a whole response.
pub fn write_events(text: &str, out: &mut Vec<u8>) -> bool {
    let is_completion = Object::read(text).is_some_and(|response| !response.list("choices").is_empty());
    if is_completion {
        write_event(out, None, text.as_bytes());
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
    is_completion
}

/// Puts a whole response together from its chunks.
#[derive(Debug, Default)]
pub struct WholeCompletion {
    /// The first chunk.
    first: Option<String>,
    choices: Vec<Choice>,
    /// JSON text.
    usage: Option<String>,
}

#[derive(Debug)]
struct Choice {
    index: u32,
    text: String,
    /// The lists of all chunks' `logprobs`, by their names, JSON texts.
    logprobs: Vec<(String, Vec<String>)>,
    /// The choice in its last chunk.
    last: String,
    finished: bool,
}

impl WholeCompletion {
    /// Takes the data of a chunk.
    pub fn take(&mut self, text: &str) {
        let Some(chunk) = Object::read(text) else { return };
        if let Some(usage) = chunk.json_of("usage").filter(|usage| *usage != "null") {
            self.usage = Some(usage.to_owned());
        }
        let list = chunk.json_of("choices").and_then(|list| serde_json::from_str::<Vec<Json<'_>>>(list).ok());
        for (place, json) in (0..).zip(&list.unwrap_or_default()) {
            if let Some(choice) = Object::read(json.get()) {
                self.choice(&choice, json.get(), place);
            }
        }
        self.first.get_or_insert_with(|| text.to_owned());
    }

    fn choice(&mut self, choice: &Object<'_>, text: &str, place: u32) {
        let index = choice.get("index").and_then(|index| index.read()).unwrap_or(place);
        let at = match self.choices.iter().position(|choice| choice.index == index) {
            Some(at) => at,
            None if self.choices.len() == MAX_CHOICES => return,
            None => {
                let text = String::new();
                let last = String::new();
                self.choices.push(Choice { index, text, logprobs: Vec::new(), last, finished: false });
                self.choices.len() - 1
            }
        };
        let Some(whole) = self.choices.get_mut(at) else { return };
        whole.text.push_str(&choice.string("text").unwrap_or_default());
        if let Some(logprobs) = choice.json_of("logprobs") {
            whole.append_logprobs(logprobs);
        }
        let finishes = choice.get("finish_reason").is_some_and(|reason| !reason.is_null());
        if finishes || !whole.finished {
            text.clone_into(&mut whole.last);
        }
        whole.finished |= finishes;
    }

    /// Whether every choice has finished.
    pub fn is_complete(&self) -> bool {
        !self.choices.is_empty() && self.choices.iter().all(|choice| choice.finished)
    }

    /// The whole response; `None` if it is not complete.
    pub fn into_body(mut self) -> Option<Vec<u8>> {
        let first = self.first.take().filter(|_| self.is_complete())?;
        let response = Object::read(&first)?;
        self.choices.sort_by_key(|choice| choice.index);
        let choices: Vec<String> = self.choices.iter().filter_map(Choice::to_json).collect();
        let choices = format!("[{}]", choices.join(","));
        let mut splice = Splice::new(&first);
        for (name, json) in [("choices", Some(&choices)), ("usage", self.usage.as_ref())] {
            match json {
                Some(json) if response.has(name) => splice.replace(&response, name, json.as_str()),
                Some(json) => splice.append(&response, name, json),
                None => {}
            }
        }
        splice.finish()
    }
}

impl Choice {
    fn append_logprobs(&mut self, text: &str) {
        for (name, value) in Json::members(text).unwrap_or_default() {
            let Some(list) = value.read::<Vec<Json<'_>>>() else { continue };
            let at = self.logprobs.iter().position(|(listed, _)| *listed == name);
            let at = at.unwrap_or_else(|| {
                self.logprobs.push((Cow::into_owned(name), Vec::new()));
                self.logprobs.len() - 1
            });
            if let Some((_, all)) = self.logprobs.get_mut(at) {
                all.extend(list.iter().map(|item| item.get().to_owned()));
            }
        }
    }

    fn to_json(&self) -> Option<String> {
        let last = Object::read(&self.last)?;
        let mut splice = Splice::new(&self.last);
        let mut set = |name: &str, json: &str| {
            if last.has(name) { splice.replace(&last, name, json) } else { splice.append(&last, name, json) }
        };
        set("text", Json::from_value(&self.text).get());
        if !self.logprobs.is_empty() {
            let lists =
                self.logprobs.iter().map(|(name, list)| (name.as_str(), format!("[{}]", list.join(","))));
            let lists: Vec<_> = lists.collect();
            set("logprobs", Json::object_of(lists.iter().map(|(name, list)| (*name, list.as_str()))).get());
        }
        String::from_utf8(splice.finish()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn chunks_become_a_whole_response_and_that_becomes_a_chunk() {
        let chunk = |text: &str, index: u32, finish: Value| {
            let logprobs = json!({"tokens": [text], "token_logprobs": [-0.5]});
            let choice = json!({"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish});
            json!({"id": "c", "object": "text_completion", "model": "m", "unknown": 1.5, "choices": [choice]})
        };
        let mut whole = WholeCompletion::default();
        for chunk in [
            chunk("b", 1, Value::Null),
            chunk("a", 0, Value::Null),
            chunk("c", 1, "stop".into()),
            chunk("\"", 0, "length".into()),
        ] {
            assert!(!whole.is_complete());
            whole.take(&chunk.to_string());
        }
        whole.take(&json!({"choices": [], "usage": {"total_tokens": 3}}).to_string());
        let body = String::from_utf8(whole.into_body().unwrap()).unwrap();
        let read: Value = serde_json::from_str(&body).unwrap();
        let choice = |text: &str, index: u32, tokens: Value, finish: &str| {
            let logprobs = json!({"tokens": tokens, "token_logprobs": [-0.5, -0.5]});
            json!({"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish})
        };
        let choices =
            [choice("a\"", 0, json!(["a", "\""]), "length"), choice("bc", 1, json!(["b", "c"]), "stop")];
        let expected = json!({
            "id": "c", "object": "text_completion", "model": "m", "unknown": 1.5, "choices": choices,
            "usage": {"total_tokens": 3},
        });
        assert_eq!(read, expected);
        let mut events = Vec::new();
        assert!(write_events(&body, &mut events));
        assert_eq!(events, format!("data: {body}\n\ndata: [DONE]\n\n").into_bytes());
        assert!(!write_events("{\"choices\":[]}", &mut events));
        assert!(WholeCompletion::default().into_body().is_none());
    }
}
