//! One answer on its way to a response: what is known of it so far.

use super::output::{Output, Tell};
use super::request::wants_logprobs;
use super::response::{Frame, Response};
use crate::api::chat::{Event, Finish, Setting};
use crate::api::usage::Usage;

#[derive(Debug)]
pub(super) struct Course {
    frame: Frame,
    output: Output,
    finish: Option<Finish>,
    usage: Option<Usage>,
    /// What the provider tells beside: name and JSON text.
    members: Vec<(String, String)>,
    /// `strict_std_compliance`: members the API does not have are left out.
    strict: bool,
}

impl Course {
    pub fn new(setting: &Setting) -> Self {
        let include = setting.request.as_ref().and_then(|body| body.raw("include"));
        Self {
            frame: Frame::new(setting),
            output: Output::new(setting.id.clone(), include.is_some_and(wants_logprobs)),
            finish: None,
            usage: None,
            members: Vec::new(),
            strict: setting.strict,
        }
    }

    /// Takes one event in.
    pub fn take(&mut self, event: &Event<'_>, tell: Tell<'_>) {
        match *event {
            Event::Start(start) => self.frame.begin(start),
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Member { name, json } => {
                if !self.strict || name == "service_tier" {
                    self.members.retain(|(known, _)| known != name);
                    self.members.push((name.to_owned(), json.to_owned()));
                }
            }
            Event::Finish { choice: 0, reason, .. } => {
                self.finish = Some(reason);
                self.output.take(event, tell);
            }
            _ => self.output.take(event, tell),
        }
    }

    /// The answer is over.
    pub fn finish(&mut self, tell: Tell<'_>) {
        self.output.finish(self.cut().is_some(), tell);
    }

    /// Why the answer is not whole.
    pub fn cut(&self) -> Option<&'static str> {
        match self.finish? {
            Finish::Length => Some("max_output_tokens"),
            Finish::ContentFilter => Some("content_filter"),
            Finish::Stop | Finish::ToolCalls => None,
        }
    }

    /// The response before anything of it was told.
    pub fn begun(&self) -> Response<'_> {
        Response {
            frame: &self.frame,
            status: "in_progress",
            incomplete: None,
            output: &[],
            usage: None,
            members: &[],
        }
    }

    /// The finished response.
    pub fn response(&self) -> Response<'_> {
        let incomplete = self.cut();
        Response {
            frame: &self.frame,
            status: if incomplete.is_some() { "incomplete" } else { "completed" },
            incomplete,
            output: self.output.items(),
            usage: self.usage.as_ref(),
            members: &self.members,
        }
    }
}
