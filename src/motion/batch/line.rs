//! One line of a batch as a request: admitted, run by the engine and recorded as any client's, under the headers of the batch.
//!
//! Decides nothing about when lines are sent, nor whether one is sent again (`run`).

use crate::engine::offline::{OfflineRequest, OfflineResponse};
use crate::engine::planner::Planner;
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use jiff::Timestamp;
use memory::auth::{self, ClientIdentity, IdentityKind};
use memory::limits::{Advance, AdvanceEstimate};
use memory::state::authentication;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use words::api::own_ids::OWN_PROVIDER;
use words::api::retry_after::retry_delay;
use words::error::Error;

/// The largest response of a line, bytes.
const MAX_RESPONSE: usize = 64 << 20;

/// Headers of the request that made a batch that are not for its lines.
const NOT_FOR_LINES: [&str; 16] = [
    "accept",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "range",
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "accept-encoding",
    "transfer-encoding",
    "connection",
    "expect",
    "traceparent",
];

/// What all lines of a batch have in common.
#[derive(Debug, Clone)]
pub(crate) struct LineEnv {
    /// Of the request that made the batch: who pays, which config and provider.
    pub(super) headers: HeaderMap,
    pub(super) uri: Uri,
    /// When the batch was made: a token that was good then is good for its lines.
    made_at: Timestamp,
    /// The id of the batch.
    pub(super) trace_id: Arc<str>,
    pub(super) advance: Option<Arc<Advance>>,
}

/// What a line came to.
#[derive(Debug)]
pub(crate) enum SentLine {
    Response(LineResponse),
    /// The response is not complete, or too long.
    Broken(String),
    /// The batch has it stopped.
    Stopped,
}

/// The response of a line.
#[derive(Debug)]
pub(crate) struct LineResponse {
    pub status: StatusCode,
    pub body: Bytes,
    /// Whether it may succeed when it is sent again.
    pub is_temporary: bool,
    /// How long to wait before that.
    pub wait: Option<Duration>,
}

/// The headers of a batch's lines: those of the request that made it, without what is about that one's connection and body, and
/// without the gateway as its provider, which no line can have.
pub(crate) fn line_headers(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    let is_own = |name: &HeaderName, value: &HeaderValue| {
        name.as_str().ends_with("-provider") && value == OWN_PROVIDER
    };
    headers
        .iter()
        .filter(move |(name, value)| !NOT_FOR_LINES.contains(&name.as_str()) && !is_own(name, value))
}

impl LineEnv {
    /// # Errors
    /// The endpoint is no path.
    pub fn new(
        endpoint: &str,
        headers: &[(String, String)],
        made_at: Timestamp,
        trace_id: &str,
    ) -> Result<Self, String> {
        let uri = endpoint.parse().map_err(|why| format!("{endpoint}: {why}"))?;
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().map_err(|why| format!("a header: {why}"))?;
            let value: HeaderValue = value.parse().map_err(|why| format!("{name}: {why}"))?;
            all.append(name, value);
        }
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Self { headers: all, uri, made_at, trace_id: trace_id.into(), advance: None })
    }

    /// Its lines take what they hold of budgets out of this.
    #[must_use]
    pub(crate) fn with_advance(mut self, advance: Option<Arc<Advance>>) -> Self {
        self.advance = advance;
        self
    }

    async fn request(&self, planner: &Planner, body: Bytes) -> OfflineRequest<'_> {
        OfflineRequest {
            method: Method::POST,
            is_limited: true,
            is_sent_once: false,
            advance: self.advance.clone(),
            uri: &self.uri,
            headers: &self.headers,
            body,
            trace_id: &self.trace_id,
            client: self.client(planner).await,
            max_response: MAX_RESPONSE,
            given: None,
            address: None,
        }
    }

    /// Adds what a line is expected to use of budgets. A line that would be refused uses nothing.
    pub async fn estimate(&self, planner: &Planner, body: Bytes, sum: &mut AdvanceEstimate) {
        let request = self.request(planner, body).await;
        drop(planner.estimate_offline(request, sum).await);
    }

    /// Sends a line and waits for its response.
    pub async fn send(&self, planner: &Planner, body: Bytes, stops: watch::Receiver<bool>) -> SentLine {
        let request = self.request(planner, body).await;
        match planner.run_offline(request, stops.clone()).await {
            Ok(response) => SentLine::Response(LineResponse::new(&response)),
            Err(_) if *stops.borrow() => SentLine::Stopped,
            Err(why) => SentLine::Broken(why),
        }
    }

    /// The client of the batch. Its key must still be good; its token must have been when the batch was made.
    pub(super) async fn client(&self, planner: &Planner) -> Result<Arc<ClientIdentity>, Error> {
        let snapshot = planner.engine.shared.settings_arc();
        let keys = &snapshot.service_keys;
        let identify = |at| auth::authenticate(&self.headers, &self.uri, keys, at);
        match identify(Timestamp::now()) {
            Ok(client) => Ok(client),
            Err(error) => {
                if auth::needs_new_keys(&error) {
                    authentication::fetch_keys(&planner.engine.shared).await;
                }
                let then = identify(self.made_at).ok().filter(|client| client.kind == IdentityKind::Jwt);
                then.ok_or(error)
            }
        }
    }
}

impl LineResponse {
    fn new(response: &OfflineResponse) -> Self {
        let OfflineResponse { status, headers, body } = response;
        let status = *status;
        let is_final = headers.get("x-should-retry").is_some_and(|value| value == "false");
        let is_temporary =
            !is_final && matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504 | 520..=529);
        let wait = retry_delay(headers, status == StatusCode::TOO_MANY_REQUESTS, SystemTime::now());
        let body = match body.as_slice() {
            [one] => one.clone(),
            chunks => chunks
                .iter()
                .fold(BytesMut::new(), |mut whole, chunk| {
                    whole.extend_from_slice(chunk);
                    whole
                })
                .freeze(),
        };
        Self { status, body, is_temporary, wait: wait.filter(|_| is_temporary) }
    }
}
