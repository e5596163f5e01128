//! A whole response: one Response object.

use super::builder::ResponseBuilder;
use crate::api::Dialect;
use crate::api::chat::{EncodeContext, Encoder, Event, ProviderError};

#[derive(Debug)]
pub(super) struct Whole {
    builder: ResponseBuilder,
    provider: &'static str,
}

impl Whole {
    pub fn new(context: &EncodeContext) -> Self {
        Self { builder: ResponseBuilder::new(context), provider: context.provider }
    }
}

impl Encoder for Whole {
    fn has_refusals(&self) -> bool {
        true
    }

    fn write(&mut self, event: &Event<'_>, _out: &mut Vec<u8>) {
        self.builder.apply(event, &mut |_, _, _| {});
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.builder.finish(&mut |_, _, _| {});
        // Strings, numbers and JSON that was valid before always serialize.
        let _ = serde_json::to_writer(out, &self.builder.response());
    }

    fn items(&self) -> Vec<(String, String)> {
        self.builder.items()
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        out.extend_from_slice(&error.body(Dialect::Responses, Some(self.provider), None));
    }
}
