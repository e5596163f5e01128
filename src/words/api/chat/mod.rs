//! The neutral model of a chat: the request ([`ChatRequest`]) and the events of a response ([`Event`]).
//!
//! Every translation goes through it. A client dialect parses its request into a `ChatRequest` and encodes
//! events; a provider writes that request upstream and decodes its response into events. So dialects and
//! providers do not depend on each other. Names follow OpenAI's chat completions, the most widely used
//! dialect.
//!
//! Values the gateway does not interpret keep their text ([`crate::json::Json`]): digits, key order and unknown members
//! survive. No wire format is defined here.
//!
//! N dialects and M providers are so N + M translators: a dialect reads a request and has the `Encoder`, a provider's
//! `ChatAdapter` writes the request and has the `Decoder`.

pub mod decoder;
pub mod encoder;
pub mod event;
pub mod logprobs;
pub mod message;
pub mod params;
pub mod provider_error;
pub(in crate::api) mod read;
pub mod request;
pub mod response;
pub(crate) mod searches;
pub(crate) mod text_filter;
pub mod tool;
mod url_citation;

pub use decoder::{Decoder, EventSink};
pub use encoder::{EncodeContext, Encoder};
pub use event::{Event, Finish, Start};
pub(crate) use message::cache_mark;
pub use message::{File, Image, Message, Part, Place, Role, Source, ToolCall};
pub use params::Params;
pub use provider_error::ProviderError;
pub use request::{ChatRequest, MarkName, Reasoning, ResponseFormat, described};
pub use response::ChatResponse;
pub use text_filter::{FilterFlow, REFUSALS, TextFilter};
pub use tool::{AllowedTools, Tool, ToolChoice};
pub use url_citation::UrlCitation;
