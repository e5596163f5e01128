//! Gives the client the kind of response it requested, whole or as events, where its provider sent the other one.

use super::{OwnShape, Refusal};
use crate::provider::bounded_body::BoundedBody;
use crate::provider::success_error;
use words::api::Dialect;
use words::api::completions::{self, WholeCompletion};
use words::api::responses::{self, Ending};
use words::api::sse::SseParser;
use words::json::splice::Object;

/// The most that is kept of a stream, bytes.
const MAX_KEPT: usize = 64 << 20;

/// The conversion of one response.
#[derive(Debug)]
pub(super) enum Conversion {
    ToEvents(OwnShape, BoundedBody),
    ToWhole(Box<ToWhole>),
    /// The client has the whole response.
    Complete,
}

#[derive(Debug)]
pub(super) struct ToWhole {
    shape: OwnShape,
    parser: SseParser,
    completion: WholeCompletion,
    kept: usize,
}

impl Conversion {
    /// `streamed`: the client wants events.
    pub fn new(shape: OwnShape, streamed: bool) -> Self {
        if streamed {
            Self::ToEvents(shape, BoundedBody::default())
        } else {
            Self::ToWhole(Box::new(ToWhole {
                shape,
                parser: SseParser::default(),
                completion: WholeCompletion::default(),
                kept: 0,
            }))
        }
    }

    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        match self {
            Self::ToEvents(_, held) => held.push(bytes).map_err(Refusal::Unreadable),
            Self::ToWhole(whole) => {
                if let Some(body) = whole.push(bytes)? {
                    out.extend_from_slice(&body);
                    *self = Self::Complete;
                }
                Ok(())
            }
            Self::Complete => Ok(()),
        }
    }

    /// The response has ended. Writes nothing where that is not complete.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Refusal> {
        match std::mem::replace(self, Self::Complete) {
            Self::ToEvents(shape, mut held) => {
                let body = held.take().unwrap_or_default();
                let text = super::text_of(&body)?.trim_start_matches('\u{feff}').trim();
                let is_written = match shape {
                    OwnShape::Completions => completions::write_events(text, out),
                    OwnShape::Responses => responses::write_events(text, out),
                };
                if is_written { Ok(()) } else { Err(not_complete(shape, text)) }
            }
            Self::ToWhole(mut whole) => {
                let tail = whole.parser.finish();
                for data in tail.data() {
                    if let Some(body) = whole.take(&data)? {
                        out.extend_from_slice(&body);
                        return Ok(());
                    }
                }
                out.extend_from_slice(&whole.completion.into_body().unwrap_or_default());
                Ok(())
            }
            Self::Complete => Ok(()),
        }
    }

    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }
}

impl ToWhole {
    /// Takes the next bytes; the body, once it is complete.
    fn push(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        self.kept += bytes.len();
        if self.kept > MAX_KEPT {
            return Err(Refusal::unreadable("it is over 64 MiB"));
        }
        let mut parser = std::mem::take(&mut self.parser);
        let run = parser.push(bytes);
        let mut body = Ok(None);
        for data in run.data() {
            body = self.take(&data);
            if !matches!(body, Ok(None)) {
                break;
            }
        }
        drop(run);
        self.parser = parser;
        body
    }

    /// Takes the data of one event; the body, if it was the last one.
    fn take(&mut self, data: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        let data = data.trim_ascii();
        if data == b"[DONE]" && self.shape == OwnShape::Completions {
            return Ok(std::mem::take(&mut self.completion).into_body());
        }
        let text = super::text_of(data)?;
        match self.shape {
            OwnShape::Completions if holds_error(text) => return Err(failed(Dialect::OpenAi, text)),
            OwnShape::Completions => self.completion.take(text),
            OwnShape::Responses => match responses::ending(text) {
                Ending::Open => {}
                Ending::Complete(body) => return Ok(Some(body.as_bytes().to_vec())),
                Ending::Failed(text) => return Err(failed(Dialect::Responses, text)),
            },
        }
        Ok(None)
    }
}

/// Why a document is no response that could be sent as events.
fn not_complete(shape: OwnShape, text: &str) -> Refusal {
    match shape {
        _ if !holds_error(text) => Refusal::unreadable("it is no complete response"),
        OwnShape::Completions => failed(Dialect::OpenAi, text),
        OwnShape::Responses => failed(Dialect::Responses, text),
    }
}

fn holds_error(text: &str) -> bool {
    Object::read(text).is_some_and(|object| object.get("error").is_some_and(|error| !error.is_null()))
}

fn failed(dialect: Dialect, text: &str) -> Refusal {
    Refusal::Unreadable(success_error::read(dialect, text.as_bytes()))
}
