//! What observes the response on its way to the client, for the record.
//!
//! A response of which the client gets something else is observed by its rewriter.

use judgment::route::attempt::Attempt;
use knowledge::provider::rewriter::Rewriter;
use words::api::tap::{ResponseSummary, Tap};

/// The observers of one response.
#[derive(Default)]
pub struct Observers {
    /// Observes a response that passes unchanged.
    pub tap: Option<Tap>,
    /// Patches a response, or has translated it.
    pub rewriter: Option<Rewriter>,
}

impl Observers {
    /// What was observed of the response of this attempt, without the gateway's credentials.
    pub(super) fn into_summary(self, attempt: Option<&Attempt>) -> ResponseSummary {
        let Self { tap, rewriter } = self;
        let rewritten = rewriter.and_then(Rewriter::into_summary);
        let response = rewritten.or_else(|| {
            let mut tap = tap?;
            tap.finish();
            Some(tap.into_summary())
        });
        let mut response = response.unwrap_or_default();
        if let (Some(provider_error), Some(attempt)) = (&mut response.error, attempt) {
            attempt.credential_mask().text(provider_error);
        }
        response
    }
}
