//! Google's Gemini dialect as clients speak it (`models/{model}:generateContent` and its relatives), for any provider:
//! requests read into [`super::chat`], responses written from it.
//!
//! Not here: Gemini as a provider (`provider::gemini`), whose responses pass unchanged to clients of this dialect. The
//! model and whether the response is a stream are in the path, which `route::admission` reads.
//! Sources: <https://ai.google.dev/api/generate-content>, `types.py` of Google's Python SDK google-genai 3.4.

pub mod blocks;
mod body;
mod content;
mod embeddings;
mod encoder;
mod generation;
mod grounding;
mod list_framing;
mod logprobs;
mod models;
mod names;
mod request;
mod response;
mod schema;
mod signature;
mod tools;
pub mod wire;

#[cfg(test)]
mod tests;

pub(super) use body::most_output;
pub use body::{candidates, foreign_signatures, has_param, override_edits, paths_of};
pub use embeddings::{Embedding, embeddings_request, embeddings_response};
pub use encoder::encoder;
pub use list_framing::ListFraming;
pub use models::{GeminiModel, GeminiModels, model_response, models_response};
pub use names::camel;
pub use request::{counted, read};
pub use response::count_response;
