//! A streamed response: typed events, numbered from 0, without `[DONE]`.

use super::builder::ResponseBuilder;
use super::item::{Content, Item, SummaryOut};
use super::output::{PartStep, Step};
use super::response::{FailureOut, Response};
use crate::api::chat::{EncodeContext, Encoder, Event, ProviderError};
use crate::api::sse::write_event;
use crate::json::Json;
use serde::Serialize;

/// Capacity of the event buffer kept between events, in bytes; more is freed.
const KEPT_CAPACITY: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Stream {
    builder: ResponseBuilder,
    started: bool,
    events: EventWriter,
}

/// Writes numbered events.
#[derive(Debug, Default)]
struct EventWriter {
    /// The number of the next event.
    number: u64,
    /// The event being written; kept to reuse its allocation.
    buffer: Vec<u8>,
}

impl Stream {
    pub fn new(context: &EncodeContext) -> Self {
        Self { builder: ResponseBuilder::new(context), started: false, events: EventWriter::default() }
    }

    fn start(&mut self, out: &mut Vec<u8>) {
        if !self.started {
            self.started = true;
            let response = self.builder.initial_response();
            self.events.lifecycle("response.created", &response, out);
            self.events.lifecycle("response.in_progress", &response, out);
        }
    }
}

impl Encoder for Stream {
    fn has_refusals(&self) -> bool {
        true
    }

    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match event {
            // These may arrive before the provider's `Start`, which names the model.
            Event::Usage(_) | Event::Member { .. } => {}
            Event::Start(_) if self.started => return,
            Event::Start(_) => {
                self.builder.apply(event, &mut |_, _, _| {});
                return self.start(out);
            }
            _ => self.start(out),
        }
        let events = &mut self.events;
        self.builder.apply(event, &mut |at, id, step| events.step(at, id, &step, out));
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.start(out);
        let events = &mut self.events;
        self.builder.finish(&mut |at, id, step| events.step(at, id, &step, out));
        let name = match self.builder.incomplete_reason() {
            Some(_) => "response.incomplete",
            None => "response.completed",
        };
        events.lifecycle(name, &self.builder.response(), out);
    }

    fn items(&self) -> Vec<(String, String)> {
        self.builder.items()
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        // OpenAI's SDKs raise the one, agents such as Codex read the other alone.
        self.start(out);
        error.responses_error(self.events.number, out);
        self.events.number += 1;
        let code = error.responses_code();
        let failure = FailureOut { code, message: &error.message };
        self.events.lifecycle("response.failed", &self.builder.failed_response(failure), out);
    }
}

/// One event; its type determines which members are set.
#[derive(Serialize)]
struct EventOut<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    item_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotation_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<&'a Item>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<PartOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [Json<'static>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotation: Option<&'a Json<'static>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a Response<'a>>,
    sequence_number: u64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum PartOut<'a> {
    Content(&'a Content),
    Summary(SummaryOut<'a>),
}

impl<'a> EventOut<'a> {
    const fn new(kind: &'static str) -> Self {
        Self {
            r#type: kind,
            item_id: None,
            output_index: None,
            content_index: None,
            summary_index: None,
            annotation_index: None,
            item: None,
            part: None,
            delta: None,
            text: None,
            refusal: None,
            logprobs: None,
            annotation: None,
            name: None,
            arguments: None,
            input: None,
            response: None,
            sequence_number: 0,
        }
    }

    fn from_step(step: &Step<'a>, id: &'a str) -> Self {
        let summary = |kind| Self { summary_index: Some(0), ..Self::new(kind) };
        let event = match *step {
            Step::ItemAdded(item) => {
                return Self { item: Some(item), ..Self::new("response.output_item.added") };
            }
            Step::ItemDone(item) => {
                return Self { item: Some(item), ..Self::new("response.output_item.done") };
            }
            Step::SummaryAdded => Self {
                part: Some(PartOut::Summary(SummaryOut::new(""))),
                ..summary("response.reasoning_summary_part.added")
            },
            Step::Summary(delta) => {
                Self { delta: Some(delta), ..summary("response.reasoning_summary_text.delta") }
            }
            Step::SummaryTextDone(text) => {
                Self { text: Some(text), ..summary("response.reasoning_summary_text.done") }
            }
            Step::SummaryDone(text) => Self {
                part: Some(PartOut::Summary(SummaryOut::new(text))),
                ..summary("response.reasoning_summary_part.done")
            },
            Step::Arguments(delta) => {
                Self { delta: Some(delta), ..Self::new("response.function_call_arguments.delta") }
            }
            Step::ArgumentsDone { name, arguments } => Self {
                name: Some(name),
                arguments: Some(arguments),
                ..Self::new("response.function_call_arguments.done")
            },
            Step::Input(delta) => {
                Self { delta: Some(delta), ..Self::new("response.custom_tool_call_input.delta") }
            }
            Step::InputDone(input) => {
                Self { input: Some(input), ..Self::new("response.custom_tool_call_input.done") }
            }
            Step::Progress(kind) => Self::new(kind),
            Step::Part(part, ref step) => Self { content_index: Some(part), ..Self::from_part_step(step) },
        };
        Self { item_id: Some(id), ..event }
    }

    fn from_part_step(step: &PartStep<'a>) -> Self {
        match *step {
            PartStep::Added(content) => {
                Self { part: Some(PartOut::Content(content)), ..Self::new("response.content_part.added") }
            }
            PartStep::Done(content) => {
                Self { part: Some(PartOut::Content(content)), ..Self::new("response.content_part.done") }
            }
            PartStep::Text { delta, logprobs } => Self {
                delta: Some(delta),
                logprobs: Some(logprobs),
                ..Self::new("response.output_text.delta")
            },
            PartStep::TextDone { text, logprobs } => {
                Self { text: Some(text), logprobs: Some(logprobs), ..Self::new("response.output_text.done") }
            }
            PartStep::Annotation { number, json } => Self {
                annotation: Some(json),
                annotation_index: Some(number),
                ..Self::new("response.output_text.annotation.added")
            },
            PartStep::Refusal(delta) => Self { delta: Some(delta), ..Self::new("response.refusal.delta") },
            PartStep::RefusalDone(refusal) => {
                Self { refusal: Some(refusal), ..Self::new("response.refusal.done") }
            }
        }
    }
}

impl EventWriter {
    fn step(&mut self, at: usize, id: &str, step: &Step<'_>, out: &mut Vec<u8>) {
        self.emit(EventOut { output_index: Some(at), ..EventOut::from_step(step, id) }, out);
    }

    fn lifecycle(&mut self, kind: &'static str, response: &Response<'_>, out: &mut Vec<u8>) {
        self.emit(EventOut { response: Some(response), ..EventOut::new(kind) }, out);
    }

    fn emit(&mut self, mut event: EventOut<'_>, out: &mut Vec<u8>) {
        event.sequence_number = self.number;
        self.number += 1;
        self.buffer.clear();
        // Strings, numbers and JSON that was valid before always serialize.
        let _ = serde_json::to_writer(&mut self.buffer, &event);
        write_event(out, Some(event.r#type), &self.buffer);
        // An event with an image must not hold memory for the rest of the stream.
        self.buffer.shrink_to(KEPT_CAPACITY);
    }
}
