//! A chat in nobody's dialect: what a caller asks ([`ChatRequest`]) and what an answer tells ([`Event`]).
//!
//! The hub of every translation. A caller's dialect reads a request into these words and writes events out
//! of them; a provider writes the request and reads its answer into events. So a dialect and a provider
//! never know each other. The names are those of OpenAI's chat completions, the most spoken of them all.
//!
//! Values stay as written wherever nobody judges them ([`Json`]): digits, key order and unknown members
//! survive. Not here: any wire shape.

pub mod decoder;
pub mod encoder;
pub mod event;
pub mod json;
pub mod message;
pub mod params;
pub mod provider_error;
pub mod request;
pub mod response;
pub mod text;
pub mod tool;

pub use decoder::{Decoder, EventSink};
pub use encoder::{EncodeContext, Encoder};
pub use event::{Event, Finish, Start};
pub use json::Json;
pub use message::{File, Image, Message, Part, Role, Source, ToolCall};
pub use params::Params;
pub use provider_error::ProviderError;
pub use request::{ChatRequest, Reasoning, ResponseFormat};
pub use response::ChatResponse;
pub use text::Text;
pub use tool::{Tool, ToolChoice};
