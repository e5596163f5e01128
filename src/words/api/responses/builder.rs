//! The state of one response while its events arrive.

use super::client_tools::ClientTools;
use super::compaction::has_trigger;
use super::item::Item;
use super::output::{Output, StepSink};
use super::request::wants_logprobs;
use super::response::{Envelope, FailureOut, Response};
use crate::api::chat::searches::{self, Searches};
use crate::api::chat::{EncodeContext, Event, Finish};
use crate::api::usage::Usage;

#[derive(Debug)]
pub(super) struct ResponseBuilder {
    envelope: Envelope,
    output: Output,
    finish: Option<Finish>,
    /// Searches that the provider reports beside its text.
    searches: Option<Searches>,
    usage: Option<Usage>,
    /// Further members of the provider's response: name and JSON text.
    members: Vec<(String, String)>,
    /// `strict_std_compliance`: members the API does not have are dropped.
    strict: bool,
    /// The client may refer to its items later.
    stores: bool,
}

impl ResponseBuilder {
    pub fn new(context: &EncodeContext) -> Self {
        let client_tools = context.request.as_ref().map(ClientTools::of).unwrap_or_default();
        let include = context.request.as_ref().and_then(|body| body.raw("include"));
        let output = Output::new(context.id.clone(), include.is_some_and(wants_logprobs), client_tools);
        let compacts = context.request.as_ref().is_some_and(has_trigger);
        Self {
            envelope: Envelope::new(context),
            output: if compacts { output.with_summary() } else { output },
            finish: None,
            searches: None,
            usage: None,
            members: Vec::new(),
            strict: context.strict,
            stores: context.request.as_ref().is_none_or(|body| body.raw("store") != Some("false")),
        }
    }

    /// The output is a summary of the conversation, whatever the request's input says.
    #[must_use]
    pub fn with_summary(mut self) -> Self {
        self.output = self.output.with_summary();
        self
    }

    /// Adds one event.
    pub fn apply(&mut self, event: &Event<'_>, sink: StepSink<'_>) {
        match *event {
            Event::Start(start) => self.envelope.apply_start(start),
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Member { name, json } => {
                if name == searches::MEMBER {
                    self.searches = Searches::read(json);
                }
                if !self.strict || name == "service_tier" {
                    self.members.retain(|(key, _)| key != name);
                    self.members.push((name.to_owned(), json.to_owned()));
                }
            }
            Event::Finish { choice: 0, reason, .. } => {
                self.finish = Some(reason);
                self.output.apply(event, sink);
            }
            _ => self.output.apply(event, sink),
        }
    }

    /// The response has ended.
    pub fn finish(&mut self, sink: StepSink<'_>) {
        if let Some(searches) = self.searches.take() {
            self.output.add_searches(searches.queries, sink);
        }
        self.output.finish(self.incomplete_reason().is_some(), sink);
    }

    /// The `incomplete_details.reason`, if the response was cut off.
    pub(crate) fn incomplete_reason(&self) -> Option<&'static str> {
        match self.finish? {
            Finish::Length => Some("max_output_tokens"),
            Finish::ContentFilter => Some("content_filter"),
            Finish::Stop | Finish::ToolCalls => None,
        }
    }

    /// The items that the client may refer to later: id and JSON.
    pub fn items(&self) -> Vec<(String, String)> {
        let json = |item: &Item| Some((item.id.clone(), serde_json::to_string(item).ok()?));
        self.output.items().iter().filter(|_| self.stores).filter_map(json).collect()
    }

    /// The response as it is before its first content.
    pub(crate) fn initial_response(&self) -> Response<'_> {
        Response {
            envelope: &self.envelope,
            status: "in_progress",
            incomplete: None,
            error: None,
            output: &[],
            usage: None,
            members: &[],
        }
    }

    /// The response that failed, with what there is of it.
    pub(crate) fn failed_response<'a>(&'a self, error: FailureOut<'a>) -> Response<'a> {
        Response { status: "failed", incomplete: None, error: Some(error), ..self.response() }
    }

    /// The finished response.
    pub fn response(&self) -> Response<'_> {
        let incomplete = self.incomplete_reason();
        Response {
            envelope: &self.envelope,
            status: if incomplete.is_some() { "incomplete" } else { "completed" },
            incomplete,
            error: None,
            output: self.output.items(),
            usage: self.usage.as_ref(),
            members: &self.members,
        }
    }
}
