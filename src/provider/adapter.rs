//! How a call is had at a provider that has words of its own for it.
//!
//! Three seams, one for each kind of translation; a provider's own file says which of its calls goes which
//! way. Pure: bodies in, bodies out.

use super::Call;
use super::translation_notes::TranslationNotes;
use crate::api::body::Body;
use crate::api::chat::{ChatRequest, Decoder, ProviderError};
use crate::config::account::Account;
use crate::error::Error;
use std::fmt::Debug;

/// How a provider is asked for what the caller wants.
#[derive(Debug, Clone, Copy)]
pub enum Adapter {
    /// In the caller's own shape. The provider's small differences are edits ([`super::Provider::edits`])
    /// and mendings.
    Passthrough(Option<&'static dyn ResponsePatch>),
    /// As a chat in the provider's words: chat completions, completions, messages and responses.
    Chat(&'static dyn ChatAdapter),
    /// One JSON body for another, whole: embeddings, rerank, images, models.
    Json(&'static dyn JsonAdapter),
}

/// What a translation may know beside the request.
#[derive(Debug, Clone, Copy)]
pub struct CallTarget<'a> {
    pub call: &'a Call<'a>,
    pub account: &'a Account,
    /// The model asked for; empty when the call names none.
    pub model: &'a str,
}

/// A provider whose chat is not the caller's.
pub trait ChatAdapter: Sync + Debug {
    /// The request's body in the provider's words. What the provider cannot do is refused, or dropped and
    /// noted in `outgoing` where dropping is harmless.
    ///
    /// # Errors
    /// 400 that names the `param`.
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error>;

    /// A reader for one answer. `streamed`: by what came (its content type), not by what was asked for.
    fn decoder(&self, streamed: bool) -> Box<dyn Decoder>;
}

/// A provider that has the operation, in another shape than the caller's.
pub trait JsonAdapter: Sync + Debug {
    /// The request's body in the provider's words; `None` to send none (a GET).
    ///
    /// # Errors
    /// 400 that names the `param`.
    fn write(
        &self,
        body: Option<&Body>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error>;

    /// The provider's answer in OpenAI's (or the caller's) words. `request`: what the caller sent.
    ///
    /// # Errors
    /// The fault the answer tells of, or that it cannot be read.
    fn read(&self, response: &[u8], request: Option<&Body>, model: &str) -> Result<Vec<u8>, ProviderError>;

    /// [`read`](Self::read), for answers that must tell when they were made where the provider does not.
    /// `now`: Unix seconds.
    ///
    /// # Errors
    /// As `read`.
    fn read_at(
        &self,
        response: &[u8],
        request: Option<&Body>,
        model: &str,
        _now: u64,
    ) -> Result<Vec<u8>, ProviderError> {
        self.read(response, request, model)
    }
}

/// A provider that speaks the caller's dialect with an accent: its answers are put right in place.
pub trait ResponsePatch: Sync + Debug {
    /// Puts right one whole answer, or the `data` of one stream event. `None` leaves it as it came, byte for
    /// byte: the common case.
    fn patch(&self, data: &[u8], streamed: bool) -> Option<Vec<u8>>;
}
