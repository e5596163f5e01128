//! Decodes Converse's responses, a JSON body or a binary event stream, into chat events.

mod citations;
mod shapes;
mod stream;
mod whole;

use super::frames::Frames;
use crate::provider::bounded_body::BoundedBody;
use words::api::chat::{Decoder, Event, EventSink, Finish, ProviderError};

/// Decodes one response. The first byte decides between JSON and event stream, not the content type: a frame
/// begins with its length, which is at most 25 MiB, so its first byte is 0 or 1.
#[derive(Debug)]
pub(crate) struct ConverseDecoder {
    streamed: bool,
    form: Form,
    /// An error was emitted: nothing follows it.
    failed: bool,
}

#[derive(Debug)]
enum Form {
    Unknown,
    Whole(BoundedBody),
    Stream { frames: Frames, stream: stream::Stream },
}

impl ConverseDecoder {
    pub fn new(streamed: bool) -> Self {
        Self { streamed, form: Form::Unknown, failed: false }
    }
}

impl Decoder for ConverseDecoder {
    fn push(&mut self, bytes: &[u8], sink: EventSink<'_>) {
        let Some(first) = bytes.first().filter(|_| !self.failed) else { return };
        if matches!(self.form, Form::Unknown) {
            let is_text = *first == b'{' || *first == b'<' || first.is_ascii_whitespace();
            self.form = if *first < 2 || (self.streamed && !is_text) {
                Form::Stream { frames: Frames::default(), stream: stream::Stream::default() }
            } else {
                Form::Whole(BoundedBody::default())
            };
        }
        let outcome = match &mut self.form {
            Form::Unknown => Ok(()),
            Form::Whole(body) => body.push(bytes),
            Form::Stream { frames, stream } => {
                let mut error = None;
                let framing = frames.push(bytes, &mut |frame| {
                    if error.is_none() {
                        error = stream.take(frame, sink).err();
                    }
                });
                // The provider's own error says more than a framing error behind it.
                error.map_or_else(|| framing.map_err(ProviderError::unreadable), Err)
            }
        };
        self.settle(outcome, sink);
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        if self.failed {
            return;
        }
        let outcome = match &mut self.form {
            Form::Unknown if self.streamed => Ok(()),
            Form::Unknown => Err(ProviderError::unreadable("it is empty")),
            Form::Whole(body) => whole::emit(&body.take().unwrap_or_default(), sink),
            Form::Stream { frames, .. } => frames.finish().map_err(ProviderError::unreadable),
        };
        self.settle(outcome, sink);
    }
}

impl ConverseDecoder {
    fn settle(&mut self, outcome: Result<(), ProviderError>, sink: EventSink<'_>) {
        if let Err(error) = outcome {
            self.failed = true;
            self.form = Form::Unknown;
            sink(Event::Error(&error));
        }
    }
}

/// The finish reason for Converse's `stopReason`.
///
/// # Errors
/// The model's output was malformed, so that Bedrock itself could not parse it: there is no usable response.
fn finish_reason(stop_reason: &str) -> Result<Finish, ProviderError> {
    match stop_reason {
        "max_tokens" | "model_context_window_exceeded" => Ok(Finish::Length),
        "tool_use" => Ok(Finish::ToolCalls),
        "guardrail_intervened" | "content_filtered" => Ok(Finish::ContentFilter),
        "malformed_model_output" | "malformed_tool_use" => {
            let message =
                format!("The model's answer was malformed ({stop_reason}). Send the request again.");
            Err(ProviderError { code: Some(stop_reason.to_owned()), ..ProviderError::new(502, message) })
        }
        // `end_turn`, `stop_sequence`, and values Bedrock may add.
        _ => Ok(Finish::Stop),
    }
}
