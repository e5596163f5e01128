//! The message without its content: id, model, stop reason, usage and further members.
//!
//! Collected from events for both encoders; the content is written from `blocks`.

use super::vocabulary::{self, UsageOut};
use crate::api::chat::{EncodeContext, Event, Finish};
use crate::api::operation::Operation;
use crate::api::token_estimate::{self, CountText};
use crate::api::usage::Usage;
use crate::json::Json;
use std::borrow::Cow;

/// Members of a response that a stream has in the `delta` of `message_delta`.
const IN_DELTA: [&str; 2] = ["container", "stop_details"];
/// Members that the encoders write themselves.
const TAKEN: [&str; 8] = ["id", "type", "role", "model", "content", "stop_reason", "usage", "delta"];

/// The envelope as far as the events have set it.
#[derive(Debug)]
pub(super) struct Envelope {
    context: EncodeContext,
    id: Option<String>,
    model: Option<String>,
    usage: Usage,
    /// Tokens; 0 for none.
    input_estimate: u64,
    finish: Option<&'static str>,
    has_refusal: bool,
    has_tool_call: bool,
    stop_sequence: Option<String>,
    service_tier: Option<&'static str>,
    /// Name and JSON value.
    members: Vec<(String, String)>,
}

impl Envelope {
    pub(super) fn new(context: EncodeContext) -> Self {
        Self {
            context,
            id: None,
            model: None,
            usage: Usage::default(),
            input_estimate: 0,
            finish: None,
            has_refusal: false,
            has_tool_call: false,
            stop_sequence: None,
            service_tier: None,
            members: Vec::new(),
        }
    }

    /// Takes one event.
    pub(super) fn take(&mut self, event: &Event<'_>) {
        match *event {
            Event::Start(start) => {
                let own = start.id.filter(|id| id.starts_with("msg_"));
                self.id = self.id.take().or_else(|| own.map(str::to_owned));
                let model = start.model.filter(|model| !model.is_empty());
                self.model = self.model.take().or_else(|| model.map(str::to_owned));
            }
            Event::Usage(usage) => self.usage = usage,
            Event::Finish { choice: 0, reason, native } => {
                self.finish = Some(vocabulary::stop_reason(reason, native, self.has_refusal));
            }
            Event::Refusal { choice: 0, text } => self.has_refusal |= !text.is_empty(),
            Event::ToolCall { choice: 0, .. } => self.has_tool_call = true,
            Event::Member { name, json } => self.member(name, json),
            _ => {}
        }
    }

    fn member(&mut self, name: &str, json: &str) {
        let Some(value) = Json::parse(json).filter(|value| !value.is_null()) else { return };
        match name {
            "stop_sequence" => self.stop_sequence = value.text().map(Cow::into_owned),
            "service_tier" => {
                self.service_tier = value.text().and_then(|tier| vocabulary::service_tier(&tier));
            }
            _ if TAKEN.contains(&name) => {}
            _ if self.context.strict && !is_own(name) => {}
            _ => match self.members.iter_mut().find(|(existing, _)| existing == name) {
                Some((_, old)) => json.clone_into(old),
                None => self.members.push((name.to_owned(), json.to_owned())),
            },
        }
    }

    /// Whether only standard members are written.
    pub(super) fn is_strict(&self) -> bool {
        self.context.strict
    }

    pub(super) fn id(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("msg_{}", self.context.id))
    }

    pub(super) fn model(&self) -> &str {
        self.model.as_deref().unwrap_or(&self.context.model)
    }

    /// Estimates the input, for a stream that begins before the provider has sent its count.
    pub(super) fn estimate_input(&mut self) {
        if let (0, Some(request)) = (self.usage.input, &self.context.request) {
            self.input_estimate = token_estimate::input(Operation::Messages, request, &CountText::ByRule);
        }
    }

    /// The provider's usage. Its input is the estimate, if there is one, as long as the provider has sent none.
    pub(super) fn usage(&self) -> UsageOut {
        let input = if self.usage.input == 0 { self.input_estimate } else { self.usage.input };
        UsageOut::new(&Usage { input, ..self.usage }, self.service_tier)
    }

    /// The stop reason; `tool_use` or `end_turn` when the provider sent none.
    pub(super) fn stop_reason(&self) -> &'static str {
        let default_reason = || {
            vocabulary::stop_reason(
                if self.has_tool_call { Finish::ToolCalls } else { Finish::Stop },
                "",
                false,
            )
        };
        self.finish.unwrap_or_else(default_reason)
    }

    pub(super) fn stop_sequence(&self) -> Option<&str> {
        self.stop_sequence.as_deref()
    }

    /// Appends the further members to an object that already has members: all of them, or only those that belong
    /// (`Some(true)`) or do not belong (`Some(false)`) into a stream's last `delta`.
    pub(super) fn write_members(&self, in_delta: Option<bool>, out: &mut Vec<u8>) {
        for (name, json) in &self.members {
            if in_delta.is_none_or(|wanted| wanted == IN_DELTA.contains(&name.as_str())) {
                out.push(b',');
                // Writing a string into a Vec cannot fail.
                let _ = serde_json::to_writer(&mut *out, name);
                out.push(b':');
                out.extend_from_slice(json.as_bytes());
            }
        }
    }
}

fn is_own(name: &str) -> bool {
    IN_DELTA.contains(&name) || matches!(name, "context_management" | "diagnostics")
}
