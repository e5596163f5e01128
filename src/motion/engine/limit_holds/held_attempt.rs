//! An attempt whose limits hold what it may use: the only kind that is sent to a provider.
//!
//! Only `limit_holds` makes one, and nothing gives its request out for a change: whoever changes a request has to make another attempt
//! of it, which is held anew. What may still be set decides how it is authorized and how its response is read, not what it uses.

use judgment::route::attempt::{Attempt, Request};
use judgment::route::vendor_headers::VendorHeaders;
use knowledge::provider::token_exchange::Credentials;
use std::sync::Arc;
use words::api::trace::TraceParent;
use words::error::Error;

/// An attempt that may be sent.
pub struct HeldAttempt(Box<Attempt>);

/// The same, complete: nothing of it changes any more.
pub(crate) struct SealedAttempt(Arc<Attempt>);

impl HeldAttempt {
    /// To be called when its limits hold it, or none is for it.
    pub(super) fn new(attempt: Box<Attempt>) -> Self {
        Self(attempt)
    }

    pub(crate) fn attempt(&self) -> &Attempt {
        &self.0
    }

    /// For Pingora, which proxies it natively.
    pub fn into_native(self) -> Box<Attempt> {
        self.0
    }

    pub(crate) fn vendor_headers(&mut self) -> &mut VendorHeaders {
        &mut self.0.vendor_headers
    }

    /// As [`Attempt::decode_response`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn decode_response(&mut self, request: &Request, is_local: bool) -> Result<(), Error> {
        self.0.decode_response(request, is_local)
    }

    /// Gives it what authorizes it, and its span.
    pub(crate) fn seal(
        mut self,
        credentials: Option<Credentials>,
        span: Option<TraceParent>,
    ) -> SealedAttempt {
        self.0.fetched = credentials.map(Box::new);
        self.0.trace_parent = span;
        SealedAttempt(Arc::from(self.0))
    }
}

impl SealedAttempt {
    pub fn attempt(&self) -> &Arc<Attempt> {
        &self.0
    }
}
