//! Sends the calls that a provider's batch jobs need, under the headers of their batch.
//!
//! Through the engine, with credentials, custom hosts and records as for any request; under no limits, since they only manage what results
//! are charged for. What is called, and when, is `jobs`.

use super::line::LineEnv;
use crate::engine::offline::{GivenResponse, OfflineRequest, OfflineResponse};
use crate::engine::planner::Planner;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode, Uri};
use knowledge::provider::batch_jobs::JobCall;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, watch};
use words::api::chat::ProviderError;
use words::api::retry_after::retry_delay;

/// The largest response that is read whole, bytes.
const MAX_RESPONSE: usize = 64 << 20;

/// Why a call has no good response.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// Nobody knows whether the provider has done what was requested.
    Unclear(String),
    /// The provider, or the gateway before it, responded with an error.
    Status { status: u16, code: String, message: String, wait: Option<Duration> },
}

impl CallFailure {
    /// Whether the same call may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Unclear(_) => true,
            Self::Status { status, .. } => matches!(status, 408 | 409 | 425 | 429 | 500..=599),
        }
    }

    /// Whether the provider may have done what was requested, now or before. One that is overloaded says that it has not.
    pub(crate) fn is_unclear(&self) -> bool {
        match self {
            Self::Unclear(_) => true,
            Self::Status { status, .. } => *status == 409 || (*status >= 500 && !matches!(status, 503 | 529)),
        }
    }

    pub(crate) fn is_status(&self, of: u16) -> bool {
        matches!(self, Self::Status { status, .. } if *status == of)
    }

    pub fn wait(&self) -> Option<Duration> {
        match self {
            Self::Unclear(_) => None,
            Self::Status { wait, .. } => *wait,
        }
    }

    /// For the log, and for lines that fail with it.
    pub fn message(&self) -> &str {
        match self {
            Self::Unclear(message) | Self::Status { message, .. } => message,
        }
    }
}

/// Sends calls for one batch.
#[derive(Clone)]
pub(super) struct JobCalls {
    planner: Planner,
    env: Arc<LineEnv>,
    /// Becomes true where calls are to stop: never, since what they return is paid for.
    leaves: watch::Receiver<bool>,
}

impl JobCalls {
    pub fn new(planner: Planner, env: Arc<LineEnv>) -> Self {
        let (_, leaves) = watch::channel(false);
        Self { planner, env, leaves }
    }

    /// Sends a call, and returns the body of its response.
    pub async fn send(&self, call: JobCall) -> Result<Vec<u8>, CallFailure> {
        self.send_as(call, false).await
    }

    /// As [`JobCalls::send`], without the config's retries: doing it twice is not as doing it once.
    pub(crate) async fn send_once(&self, call: JobCall) -> Result<Vec<u8>, CallFailure> {
        self.send_as(call, true).await
    }

    async fn send_as(&self, call: JobCall, is_sent_once: bool) -> Result<Vec<u8>, CallFailure> {
        let (uri, headers) = self.head(&call)?;
        let request = self.request(call.method, &uri, &headers, call.body).await;
        let request = OfflineRequest { is_sent_once, ..request };
        let response = self.planner.run_offline(request, self.leaves.clone()).await;
        good(response).map(|response| response.body.concat())
    }

    /// Sends a call whose response goes to `chunks`.
    pub async fn stream(&self, call: JobCall, chunks: mpsc::Sender<Bytes>) -> Result<(), CallFailure> {
        let (uri, headers) = self.head(&call)?;
        let request = self.request(call.method, &uri, &headers, call.body).await;
        let response = self.planner.stream_offline(request, self.leaves.clone(), None, chunks).await;
        good(response).map(drop)
    }

    /// A line's response in the client's shape, made of the provider's.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn read(&self, body: Bytes, given: GivenResponse) -> Result<OfflineResponse, String> {
        // Budgets count what it has cost.
        let advance = self.env.advance.clone();
        let request =
            OfflineRequest { given: Some(given), is_limited: true, advance, ..self.line(body).await };
        self.planner.run_offline(request, self.leaves.clone()).await
    }

    async fn line(&self, body: Bytes) -> OfflineRequest<'_> {
        self.request(Method::POST, &self.env.uri, &self.env.headers, body).await
    }

    fn head(&self, call: &JobCall) -> Result<(Uri, HeaderMap), CallFailure> {
        let uri = format!("/v1/proxy/{}", call.path);
        let uri = uri.parse().map_err(|why| CallFailure::Unclear(format!("{uri}: {why}")))?;
        let mut headers = self.env.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.extend(call.headers.iter().cloned());
        Ok((uri, headers))
    }

    async fn request<'a>(
        &'a self,
        method: Method,
        uri: &'a Uri,
        headers: &'a HeaderMap,
        body: Bytes,
    ) -> OfflineRequest<'a> {
        OfflineRequest {
            method,
            is_limited: false,
            is_sent_once: false,
            advance: None,
            uri,
            headers,
            body,
            trace_id: &self.env.trace_id,
            client: self.env.client(&self.planner).await,
            max_response: MAX_RESPONSE,
            given: None,
            address: None,
        }
    }
}

fn good(response: Result<OfflineResponse, String>) -> Result<OfflineResponse, CallFailure> {
    let response = response.map_err(CallFailure::Unclear)?;
    if response.status.is_success() {
        return Ok(response);
    }
    let status = response.status.as_u16();
    let error = ProviderError::read(status, &response.body.concat());
    let is_limited = response.status == StatusCode::TOO_MANY_REQUESTS;
    let wait = retry_delay(&response.headers, is_limited, SystemTime::now());
    let code = error.code.or(error.kind).unwrap_or_else(|| "job_refused".to_owned());
    Err(CallFailure::Status { status, code, message: error.message, wait })
}
