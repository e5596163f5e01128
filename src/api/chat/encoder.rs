//! The answer side of a caller's dialect: events in, bytes out.

use super::event::Event;
use super::provider_error::ProviderError;
use crate::api::body::Body;
use std::fmt::Debug;

/// What a writer knows of the call beside the events.
#[derive(Debug, Clone)]
pub struct EncodeContext {
    /// Unique, without a prefix: for ids the provider does not tell.
    pub id: String,
    /// Unix seconds, for providers that do not tell when.
    pub created: u64,
    /// The model asked for, for providers that do not tell who answered.
    pub model: String,
    /// Plain provider id.
    pub provider: &'static str,
    /// `strict_std_compliance`: nothing but what the standard has.
    pub strict: bool,
    /// The caller asked for a usage chunk of its own.
    pub include_usage: bool,
    /// The caller's request, for dialects whose answers repeat parts of it.
    pub request: Option<Body>,
}

/// Writes one answer.
pub trait Encoder: Send + Sync + Debug {
    /// Takes the next event. `Error` never comes this way (see [`Writer::fail`]); nor does anything
    /// after [`Writer::close`] or `fail`.
    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>);

    /// The answer is complete: the last chunk, usage and `[DONE]`; of a whole answer, all of it.
    fn close(&mut self, out: &mut Vec<u8>);

    /// The answer broke. A stream's last event: an error in the dialect's words, and nothing that looks
    /// like an end behind it. Of a whole answer: the error body.
    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>);
}
