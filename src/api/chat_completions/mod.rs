//! OpenAI's chat completions: the dialect most callers speak, read into [`super::chat`] and written from it.

mod request;

pub use request::read;
