//! What follows a layer, and the response of an attempt that no call of its target is made for.
//!
//! How such a response is read: `upstream_stream`.

use crate::engine::caching::{CachedCall, FlightReader};
use crate::engine::places::PlaceWait;
use bytes::Bytes;
use http::StatusCode;
use judgment::route::outcome::Outcome;
use memory::cache::CachedResponse;
use std::sync::Arc;
use words::error::Error;

/// What follows a layer.
pub enum Flow {
    Continue,
    /// No place is free at the target: it waits for one, and passes the layers again.
    Queue(Box<PlaceWait>),
    /// The target is not called: this is its response. It takes the same way to the client as a provider's.
    Respond(Answer),
    /// The request may not be sent. No response of an earlier attempt takes the place of this error.
    Deny(Error),
    /// The target cannot be called; the plan gets the outcome.
    Refuse(Outcome, Error),
    /// No attempt could be made that goes on with a broken stream: as [`Flow::Refuse`], and the record has no such attempt.
    NotResumed(Error),
}

/// A response that no call of the target is made for.
pub struct Answer(pub(in crate::engine) AnswerKind);

pub(in crate::engine) enum AnswerKind {
    /// Of the gateway's own, in the client's dialect.
    Own(LocalResponse),
    /// The provider's, to a request that stood in one of its batch jobs.
    Given(Box<GivenResponse>),
    /// As the provider once sent it.
    Stored(Arc<CachedResponse>),
    /// The provider's, to another request that calls it just now.
    Shared(Box<(CachedCall, FlightReader)>),
}

/// A response of the gateway's own, in the client's dialect.
pub struct LocalResponse {
    /// `application/json`, or `text/event-stream` for events.
    pub content_type: &'static str,
    pub body: Bytes,
}

/// A provider's response to a request that stood in one of its batch jobs.
#[derive(Debug)]
pub struct GivenResponse {
    pub status: StatusCode,
    /// In the provider's own format.
    pub body: Bytes,
}

impl From<LocalResponse> for Answer {
    fn from(response: LocalResponse) -> Self {
        Self(AnswerKind::Own(response))
    }
}
