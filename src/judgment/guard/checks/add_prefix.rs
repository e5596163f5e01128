//! `default.addPrefix`: puts a text in front of the first message of a role.
//!
//! In a chat, a message request, a response's input or Gemini's contents; of a completion it is put in front of the prompt. Other requests
//! stay as they are.

use super::BEFORE;
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::{Change, Finding};
use crate::guard::parameters::{Parameters, Type, Unusable, optional, required};
use crate::guard::subject::Subject;
use serde_json::{Map, Value, json};
use words::api::operation::Operation;

pub(crate) const ADD_PREFIX: CheckKind = CheckKind {
    id: "default.addPrefix",
    aliases: &[],
    phases: BEFORE,
    about: "Puts a text in front of the first message of a role, or of a completion's prompt. Without such a message one is made: \
            of the system in front of all others, of any other role behind them. The system's text of a response is its `instructions`, \
            of Gemini its `systemInstruction`; an `input` that is a text is the user's. Always passes.",
    source: "",
    parameters: &[
        required("prefix", Type::Text, "The text."),
        optional("applyToRole", Type::Text, r#""user""#, "The role of the message."),
        optional(
            "addToExisting",
            Type::Flag,
            "true",
            "Whether it becomes part of the message; otherwise it is a message of its own in front of it.",
        ),
        optional(
            "onlyIfEmpty",
            Type::Flag,
            "false",
            "Whether a request that has such a message stays as it is.",
        ),
    ],
    prepare,
};

#[derive(Debug)]
struct AddPrefix {
    prefix: String,
    role: String,
    adds_to_existing: bool,
    only_if_empty: bool,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let prefix = parameters.text("prefix").filter(|prefix| !prefix.is_empty());
    let message = "Prefix parameter is required and must be a string";
    let prefix = prefix.ok_or_else(|| Unusable { verdict: true, ..Unusable::new("prefix", message) })?;
    Ok(Prepared::Local(Box::new(AddPrefix {
        prefix: prefix.to_owned(),
        role: parameters.text("applyToRole").filter(|role| !role.is_empty()).unwrap_or("user").to_owned(),
        adds_to_existing: parameters.flag_or("addToExisting", true),
        only_if_empty: parameters.flag("onlyIfEmpty"),
    })))
}

impl AddPrefix {
    /// The body with the prefix; `None`: it stays as it is.
    fn changed(&self, operation: Operation, body: &Value) -> Option<Value> {
        let mut body = body.as_object()?.clone();
        let is_changed = match operation {
            Operation::Completions => self.add_to_prompt(body.get_mut("prompt")?),
            Operation::ChatCompletions => self.add_to_messages(body.get_mut("messages")?),
            // The system's text is no message there.
            Operation::Messages if self.role == "system" => self.add_to_system(&mut body, "system"),
            Operation::Messages => self.add_to_messages(body.get_mut("messages")?),
            Operation::Responses | Operation::ResponsesCompact if self.is_of_system() => {
                self.add_to_system(&mut body, "instructions")
            }
            Operation::Responses | Operation::ResponsesCompact => self.add_to_input(body.get_mut("input")?),
            operation if operation.is_gemini_chat() => self.add_to_google(&mut body),
            _ => false,
        };
        is_changed.then_some(Value::Object(body))
    }

    fn add_to_prompt(&self, prompt: &mut Value) -> bool {
        match prompt {
            Value::String(text) => text.insert_str(0, &self.prefix),
            Value::Array(prompts) => {
                prompts.iter_mut().for_each(|prompt| {
                    self.add_to_prompt(prompt);
                });
            }
            _ => return false,
        }
        true
    }

    fn is_of_system(&self) -> bool {
        matches!(self.role.as_str(), "system" | "developer")
    }

    fn add_to_system(&self, body: &mut Map<String, Value>, name: &str) -> bool {
        match body.get_mut(name).filter(|system| !system.is_null()) {
            Some(_) if self.only_if_empty => false,
            Some(system) => self.add_to_content(system),
            None => {
                body.insert(name.to_owned(), self.prefix.as_str().into());
                true
            }
        }
    }

    /// The input of a response: items, or a text of the user.
    fn add_to_input(&self, input: &mut Value) -> bool {
        if let Value::String(text) = input {
            if self.role == "user" && self.adds_to_existing && !self.only_if_empty {
                text.insert_str(0, &self.prefix);
                return true;
            }
            *input = json!([{"role": "user", "content": text}]);
        }
        self.add_to_messages(input)
    }

    /// Gemini's contents, where the assistant is the model and the system's text is a member of its own.
    fn add_to_google(&self, body: &mut Map<String, Value>) -> bool {
        let own = || json!({"parts": [{"text": self.prefix}]});
        if self.is_of_system() {
            let name = if body.contains_key("system_instruction") {
                "system_instruction"
            } else {
                "systemInstruction"
            };
            return match body.get_mut(name).filter(|system| !system.is_null()) {
                Some(_) if self.only_if_empty => false,
                Some(system) => self.add_to_parts(system),
                None => {
                    body.insert(name.to_owned(), own());
                    true
                }
            };
        }
        let Some(Value::Array(contents)) = body.get_mut("contents") else { return false };
        let role = if self.role == "assistant" { "model" } else { self.role.as_str() };
        // A content without a role is the user's.
        let is_of_role =
            |content: &Value| content.get("role").and_then(Value::as_str).unwrap_or("user") == role;
        let own = || json!({"role": role, "parts": [{"text": self.prefix}]});
        match contents.iter().position(is_of_role) {
            Some(_) if self.only_if_empty => false,
            Some(place) if self.adds_to_existing => {
                contents.get_mut(place).is_some_and(|content| self.add_to_parts(content))
            }
            Some(place) => {
                contents.insert(place, own());
                true
            }
            None => {
                contents.push(own());
                true
            }
        }
    }

    fn add_to_parts(&self, content: &mut Value) -> bool {
        let Some(Value::Array(parts)) = content.get_mut("parts") else { return false };
        match first_text(parts) {
            Some(text) => text.insert_str(0, &self.prefix),
            None => parts.insert(0, json!({"text": self.prefix})),
        }
        true
    }

    fn add_to_messages(&self, messages: &mut Value) -> bool {
        let Value::Array(messages) = messages else { return false };
        let is_of_role = |message: &Value| message.get("role").and_then(Value::as_str) == Some(&self.role);
        let own = || json!({"role": self.role, "content": self.prefix});
        match messages.iter().position(is_of_role) {
            Some(_) if self.only_if_empty => false,
            Some(place) if self.adds_to_existing => {
                let message = messages.get_mut(place).and_then(Value::as_object_mut);
                message.is_some_and(|message| {
                    self.add_to_content(message.entry("content").or_insert(Value::Null))
                })
            }
            Some(place) => {
                messages.insert(place, own());
                true
            }
            None => {
                let place = if self.role == "system" { 0 } else { messages.len() };
                messages.insert(place, own());
                true
            }
        }
    }

    /// Content is a text or a list of parts.
    fn add_to_content(&self, content: &mut Value) -> bool {
        match content {
            Value::String(text) => text.insert_str(0, &self.prefix),
            Value::Array(parts) => {
                let is_input = parts.iter().any(|part| {
                    part.get("type").and_then(Value::as_str).is_some_and(|kind| kind.starts_with("input_"))
                });
                let kind = if is_input { "input_text" } else { "text" };
                match first_text(parts) {
                    Some(text) => text.insert_str(0, &self.prefix),
                    None => parts.insert(0, json!({"type": kind, "text": self.prefix})),
                }
            }
            Value::Null => *content = self.prefix.as_str().into(),
            _ => return false,
        }
        true
    }
}

fn first_text(parts: &mut [Value]) -> Option<&mut String> {
    parts.iter_mut().find_map(|part| match part.get_mut("text") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    })
}

impl LocalCheck for AddPrefix {
    fn run(&self, subject: &Subject) -> Finding {
        let changed = self.changed(subject.operation, subject.request.get());
        let explanation = match &changed {
            Some(_) => "The prefix was added.",
            None => "The request stays as it is.",
        };
        let data = json!({
            "explanation": explanation,
            "prefix": self.prefix,
            "requestType": subject.operation.reference_name(),
            "applyToRole": self.role,
            "addToExisting": self.adds_to_existing,
            "onlyIfEmpty": self.only_if_empty,
        });
        Finding::of(true, data).with_change(changed.map_or(Change::None, Change::Body))
    }

    fn may_change(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{error, of_operation, request, run};

    #[track_caller]
    fn changed(operation: Operation, parameters: Value, body: Value) -> Option<Value> {
        let finding = run(&ADD_PREFIX, parameters, &of_operation(operation, &body));
        assert!(finding.verdict && finding.error.is_none());
        match finding.change {
            Change::None => None,
            Change::Body(body) => Some(body),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_message_of_the_role_is_changed() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let system = |text: &str| json!({"role": "system", "content": text});
        let hi = user("hi");
        let parts =
            json!({"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "hi"}]});
        for (parameters, before, after) in [
            (json!({"prefix": "P: "}), json!([hi, user("b")]), Some(json!([user("P: hi"), user("b")]))),
            (
                json!({"prefix": "P: "}),
                json!([parts]),
                Some(
                    json!([{"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "P: hi"}]}]),
                ),
            ),
            (json!({"prefix": "P", "applyToRole": "system"}), json!([hi]), Some(json!([system("P"), hi]))),
            (
                json!({"prefix": "P", "applyToRole": "assistant"}),
                json!([hi]),
                Some(json!([hi, {"role": "assistant", "content": "P"}])),
            ),
            (
                json!({"prefix": "P", "addToExisting": false}),
                json!([system("s"), hi]),
                Some(json!([system("s"), user("P"), hi])),
            ),
            (json!({"prefix": "P", "onlyIfEmpty": true}), json!([hi]), None),
            (
                json!({"prefix": "P", "onlyIfEmpty": true, "applyToRole": "system"}),
                json!([hi]),
                Some(json!([system("P"), hi])),
            ),
        ] {
            let body = |messages: Value| json!({"model": "m", "messages": messages});
            assert_eq!(
                changed(Operation::ChatCompletions, parameters.clone(), body(before)),
                after.map(body),
                "{parameters}"
            );
        }
    }

    #[test]
    fn responses_and_contents_have_their_own_members() {
        let user = json!({"prefix": "P"});
        let system = json!({"prefix": "P", "applyToRole": "system"});
        let part = |kind: &str| json!([{"type": kind, "image_url": "u"}]);
        for (parameters, before, after) in [
            (&user, json!({"input": "a"}), json!({"input": "Pa"})),
            (
                &user,
                json!({"input": [{"role": "user", "content": "a"}]}),
                json!({"input": [{"role": "user", "content": "Pa"}]}),
            ),
            (
                &user,
                json!({"input": [{"role": "user", "content": part("input_image")}]}),
                json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": "P"}, {"type": "input_image", "image_url": "u"}]}]}),
            ),
            (&system, json!({"input": "a"}), json!({"input": "a", "instructions": "P"})),
            (
                &system,
                json!({"input": "a", "instructions": "i"}),
                json!({"input": "a", "instructions": "Pi"}),
            ),
            (
                &json!({"prefix": "P", "addToExisting": false}),
                json!({"input": "a"}),
                json!({"input": [{"role": "user", "content": "P"}, {"role": "user", "content": "a"}]}),
            ),
        ] {
            assert_eq!(
                changed(Operation::Responses, parameters.clone(), before),
                Some(after),
                "{parameters}"
            );
        }
        let contents = json!({"contents": [{"parts": [{"text": "a"}]}]});
        for (parameters, after) in [
            (&user, json!({"contents": [{"parts": [{"text": "Pa"}]}]})),
            (
                &system,
                json!({"contents": [{"parts": [{"text": "a"}]}], "systemInstruction": {"parts": [{"text": "P"}]}}),
            ),
            (
                &json!({"prefix": "P", "applyToRole": "assistant"}),
                json!({"contents": [{"parts": [{"text": "a"}]}, {"role": "model", "parts": [{"text": "P"}]}]}),
            ),
        ] {
            for operation in [Operation::GenerateContent, Operation::StreamGenerateContent] {
                assert_eq!(
                    changed(operation, parameters.clone(), contents.clone()),
                    Some(after.clone()),
                    "{parameters}"
                );
            }
        }
        let only = json!({"prefix": "P", "onlyIfEmpty": true});
        assert_eq!(changed(Operation::Responses, only.clone(), json!({"input": "a"})), None);
        assert_eq!(changed(Operation::GenerateContent, only, contents), None);
    }

    #[test]
    fn other_requests_have_places_of_their_own() {
        let prefix = json!({"prefix": "P: "});
        assert_eq!(
            changed(Operation::Completions, prefix.clone(), json!({"prompt": "a"})),
            Some(json!({"prompt": "P: a"}))
        );
        assert_eq!(changed(Operation::Embeddings, prefix, json!({"input": "a"})), None);
        let system = json!({"prefix": "P", "applyToRole": "system"});
        let body = json!({"messages": [{"role": "user", "content": "a"}]});
        let mut wanted = body.clone();
        wanted["system"] = json!("P");
        assert_eq!(changed(Operation::Messages, system.clone(), body.clone()), Some(wanted.clone()));
        wanted["system"] = json!([{"type": "text", "text": "be kind"}]);
        let after = changed(Operation::Messages, system, wanted).unwrap();
        assert_eq!(after["system"], json!([{"type": "text", "text": "Pbe kind"}]));
        let finding = run(&ADD_PREFIX, json!({}), &request("a"));
        assert_eq!(
            (error(&finding), finding.verdict),
            ("Prefix parameter is required and must be a string", true)
        );
    }
}
