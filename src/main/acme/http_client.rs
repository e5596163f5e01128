//! The requests to an authority, by the house's own client: through its proxies, from its addresses, by its resolver.
//!
//! Remembers of the last response what the library does not pass on: whether there was one, and for how long the authority wants to be
//! left alone. Not here: what is sent (`order`, by `instant-acme`).

use super::schedule::OrderFailure;
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::header::{RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use memory::net::outbound::side_http::{SideHttpClient, SideRequest, SideResponse};
use memory::state::Shared;
use parking_lot::Mutex;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// For one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest pause between two questions about an order that is passed on, seconds: longer than an order may take.
const MAX_POLL_PAUSE: u64 = 3_600;
/// The largest response, bytes. Chains and orders of a hundred names have a few dozen KiB.
const MAX_BODY: usize = 1 << 20;

/// A client for one order. Clones share what they remember.
#[derive(Clone)]
pub struct AcmeClient {
    shared: Arc<Shared>,
    http: Arc<SideHttpClient>,
    last: Arc<Mutex<LastExchange>>,
}

/// What became of the last request.
#[derive(Debug, Clone, Copy, Default)]
struct LastExchange {
    /// There was no response, or one of a gateway before the authority that does not reach it.
    has_failed: bool,
    /// Seconds.
    retry_after: Option<i64>,
}

impl AcmeClient {
    pub fn new(shared: &Arc<Shared>, ca_file: Option<PathBuf>) -> Self {
        let http = Arc::new(SideHttpClient::new(ca_file));
        Self { shared: Arc::clone(shared), http, last: Arc::default() }
    }

    /// Why an order failed after the last request.
    pub fn failure(&self) -> OrderFailure {
        if self.last.lock().has_failed { OrderFailure::Unreachable } else { OrderFailure::Refused }
    }

    /// The seconds for which the authority wants to be left alone.
    pub fn retry_after(&self) -> Option<i64> {
        self.last.lock().retry_after
    }

    async fn send(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let (mut head, body) = request.into_parts();
        let own = format!("turnpike/{} instant-acme", env!("CARGO_PKG_VERSION"));
        head.headers.insert(USER_AGENT, HeaderValue::try_from(own).map_err(http::Error::from)?);
        let body = to_bytes(Body::new(body), MAX_BODY).await.map_err(|why| Error::Other(why.into()))?;
        let url = head.uri.to_string();
        let request = SideRequest {
            method: head.method,
            url: &url,
            headers: head.headers,
            body: body.to_vec(),
            timeout: TIMEOUT,
            max_body: MAX_BODY,
            trusted: true,
        };
        let hosts = Arc::clone(&self.shared.settings().hosts);
        let sent = self.http.send(request, &self.shared.dns, &hosts).await;
        let response = match sent {
            Ok(response) => response,
            Err(why) => {
                *self.last.lock() = LastExchange { has_failed: true, retry_after: None };
                return Err(Error::Other(why.to_string().into()));
            }
        };
        *self.last.lock() = LastExchange::of(&response);
        whole(response)
    }
}

impl LastExchange {
    fn of(response: &SideResponse) -> Self {
        Self {
            has_failed: response.status >= 500 && !is_json(response),
            retry_after: Some(response).filter(|response| response.status >= 400).and_then(retry_after),
        }
    }
}

/// The errors of an authority are JSON ("problem documents", RFC 7807).
fn is_json(response: &SideResponse) -> bool {
    serde_json::from_slice::<serde_json::Value>(&response.body).is_ok()
}

impl HttpClient for AcmeClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().send(request))
    }
}

/// The response in the library's form. One that is no JSON where it should be an error's is told by its status: a gateway before the
/// authority has sent it.
fn whole(response: SideResponse) -> Result<BytesResponse, Error> {
    if response.status >= 400 && !is_json(&response) {
        return Err(Error::Other(format!("the authority responds with status {}", response.status).into()));
    }
    let mut out = Response::builder().status(response.status).body(())?;
    *out.headers_mut() = response.headers;
    // The library adds it to the time, which ends somewhere.
    if let Some(seconds) =
        out.headers().get(RETRY_AFTER).and_then(|text| text.to_str().ok()?.trim().parse::<u64>().ok())
        && seconds > MAX_POLL_PAUSE
    {
        out.headers_mut().insert(RETRY_AFTER, HeaderValue::from(MAX_POLL_PAUSE));
    }
    let (parts, ()) = out.into_parts();
    Ok(BytesResponse { parts, body: Box::new(Bytes::from(response.body)) })
}

/// `Retry-After`: a number of seconds, or a time.
fn retry_after(response: &SideResponse) -> Option<i64> {
    seconds(&response.headers, jiff::Timestamp::now().as_second())
}

fn seconds(headers: &HeaderMap, now: i64) -> Option<i64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(seconds.into());
    }
    let time = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(time.as_second().saturating_sub(now).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_response_ends_the_process() {
        let of = |status, body: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from(u64::MAX));
            whole(SideResponse { status, headers, body: body.as_bytes().to_vec() })
        };
        assert_eq!(of(200, "").unwrap().parts.headers.get(RETRY_AFTER).unwrap(), "3600");
        assert_eq!(of(429, "{}").unwrap().parts.status, 429);
        let error = of(502, "<html>").err().unwrap().to_string();
        assert_eq!(error, "the authority responds with status 502");
        assert!(of(99, "").is_err());
    }

    #[test]
    fn a_gateway_that_does_not_reach_the_authority_is_no_refusal() {
        let of = |status, body: &str| {
            let response = SideResponse { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() };
            LastExchange::of(&response).has_failed
        };
        assert!(of(502, "<html>") && of(503, ""));
        assert!(!of(500, "{\"type\":\"urn:ietf:params:acme:error:serverInternal\"}"));
        assert!(!of(403, "<html>") && !of(200, ""));
    }

    #[test]
    fn retry_after_is_a_number_or_a_time() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::try_from(text).unwrap());
            seconds(&headers, 1_000_000_000)
        };
        assert_eq!(of("120"), Some(120));
        assert_eq!(of("Sun, 09 Sep 2001 01:46:50 GMT"), Some(10));
        assert_eq!(of("Sat, 08 Sep 2001 01:46:50 GMT"), Some(0));
        assert_eq!(of("soon"), None);
        assert_eq!(seconds(&HeaderMap::new(), 0), None);
    }
}
