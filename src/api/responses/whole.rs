//! A whole answer: one Response object.

use super::course::Course;
use crate::api::Dialect;
use crate::api::chat::{Event, Fault, Setting, Writer};

#[derive(Debug)]
pub(super) struct Whole {
    course: Course,
    provider: &'static str,
}

impl Whole {
    pub fn new(setting: &Setting) -> Self {
        Self { course: Course::new(setting), provider: setting.provider }
    }
}

impl Writer for Whole {
    fn write(&mut self, event: &Event<'_>, _out: &mut Vec<u8>) {
        self.course.take(event, &mut |_, _, _| {});
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.course.finish(&mut |_, _, _| {});
        // Strings, numbers and JSON that was JSON before always serialize.
        let _ = serde_json::to_writer(out, &self.course.response());
    }

    fn fail(&mut self, fault: &Fault, out: &mut Vec<u8>) {
        out.extend_from_slice(&fault.body(Dialect::Responses, Some(self.provider), None));
    }
}
