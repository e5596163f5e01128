//! The listener of HTTP-01 (RFC 8555, section 8.3): responds to `/.well-known/acme-challenge/TOKEN` while an order waits for it, and to
//! nothing else but, where the settings want it, with a redirect to `https://` for the names of the certificates.
//!
//! Open to anyone, and so bounded: in connections, time, and what is read. A connection has one request, of HTTP/1.

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, HOST, LOCATION};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use memory::net::inbound::axum_bridge::{AxumApp, ConnectionLimits};
use parking_lot::Mutex;
use pingora_core::apps::{HttpServerApp, ReusedHttpStream, ServerApp};
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::server::ShutdownWatch;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// The most tokens at a time.
const MAX_TOKENS: usize = 1_000;
/// The most connections at a time; others are closed. An authority has a handful.
const MAX_CONNECTIONS: usize = 64;
/// For a connection, from its begin to its end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is responded, by token.
#[derive(Debug, Default)]
pub struct HttpProofs {
    by_token: Mutex<HashMap<String, String>>,
}

impl HttpProofs {
    /// `false`: there are too many.
    pub fn insert(&self, token: &str, text: &str) -> bool {
        let mut by_token = self.by_token.lock();
        let has_room = by_token.len() < MAX_TOKENS;
        if has_room {
            by_token.insert(token.to_owned(), text.to_owned());
        }
        has_room
    }

    pub fn remove(&self, token: &str) {
        self.by_token.lock().remove(token);
    }

    fn find(&self, token: &str) -> Option<String> {
        self.by_token.lock().get(token).cloned()
    }
}

/// What requests are responded by.
struct Site {
    proofs: Arc<HttpProofs>,
    /// The names that are redirected to `https://`.
    redirected: Vec<String>,
}

/// The app of the listener. `redirected`: the names that are redirected to `https://`.
pub fn proof_app(proofs: Arc<HttpProofs>, redirected: Vec<String>) -> ProofApp {
    let limits = ConnectionLimits {
        max_body: 0,
        header_timeout: TIMEOUT,
        body_timeout: TIMEOUT,
        write_timeout: TIMEOUT,
        keepalive_timeout: TIMEOUT,
    };
    let app = AxumApp::new(router(Site { proofs, redirected }), limits, Bytes::new());
    let ends = watch::channel(true).1;
    let app = OneRequest { app: Arc::new(app), ends };
    ProofApp { app: Arc::new(app), places: Semaphore::new(MAX_CONNECTIONS) }
}

fn router(site: Site) -> Router {
    Router::new()
        .route("/.well-known/acme-challenge/{token}", get(prove))
        .fallback(redirect)
        .with_state(Arc::new(site))
}

async fn prove(State(site): State<Arc<Site>>, Path(token): Path<String>) -> Response {
    match site.proofs.find(&token) {
        Some(text) => ([(CONTENT_TYPE, "application/octet-stream")], text).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn redirect(State(site): State<Arc<Site>>, uri: Uri, headers: HeaderMap) -> Response {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).or_else(|| uri.host());
    let name = host.and_then(|host| host.split(':').next()).unwrap_or_default();
    // The name as the settings have it: nothing of the request but its path is in the response.
    let Some(name) = site.redirected.iter().find(|own| own.eq_ignore_ascii_case(name)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let path = uri.path_and_query().map(|path| path.as_str());
    // `OPTIONS *` has none.
    let path = path.filter(|path| path.starts_with('/')).unwrap_or("/");
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, format!("https://{name}{path}"))]).into_response()
}

/// The app of the listener, with so many connections at a time, each for so long.
#[derive(Debug)]
pub struct ProofApp {
    app: Arc<OneRequest>,
    places: Semaphore,
}

#[async_trait]
impl ServerApp for ProofApp {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let _place = self.places.try_acquire().ok()?;
        timeout(TIMEOUT, self.app.process_new(stream, shutdown)).await.ok().flatten()
    }
}

/// The router without HTTP/2 and with one request for a connection: idle ones would keep an authority out.
#[derive(Debug)]
struct OneRequest {
    app: Arc<AxumApp>,
    /// As of a process that ends: the response says that the connection is closed.
    ends: ShutdownWatch,
}

#[async_trait]
impl HttpServerApp for OneRequest {
    async fn process_new_http(
        self: &Arc<Self>,
        session: ServerSession,
        _shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        // The stream is dropped, and so closed.
        self.app.process_new_http(session, &self.ends).await;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tower::ServiceExt as _;

    async fn got(router: &Router, path: &str, host: &str) -> (u16, String, String) {
        let request = Request::get(path).header(HOST, host).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let location = response.headers().get(LOCATION).map_or("", |to| to.to_str().unwrap()).to_owned();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 10).await.unwrap();
        (status, location, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn only_tokens_are_responded_to_and_names_of_certificates_redirected() {
        let proofs = Arc::new(HttpProofs::default());
        assert!(proofs.insert("abc", "abc.thumb"));
        let plain = router(Site { proofs: Arc::clone(&proofs), redirected: Vec::new() });
        let token = "/.well-known/acme-challenge/abc";
        assert_eq!(got(&plain, token, "any").await, (200, String::new(), "abc.thumb".to_owned()));
        assert_eq!(got(&plain, "/", "a.example").await.0, 404);
        assert_eq!(got(&plain, "/v1/models", "a.example").await.0, 404);
        proofs.remove("abc");
        assert_eq!(got(&plain, token, "any").await.0, 404);

        let redirects = router(Site { proofs, redirected: vec!["a.example".to_owned()] });
        let to = got(&redirects, "/v1/x?y=%20z", "A.example:80").await;
        assert_eq!(to, (308, "https://a.example/v1/x?y=%20z".to_owned(), String::new()));
        for host in ["b.example", "a.example.evil", "", "a.example@evil", "[::1]:80"] {
            assert_eq!(got(&redirects, "/", host).await.0, 404, "{host}");
        }
        assert_eq!(got(&redirects, token, "a.example").await.0, 404, "no token is redirected");
    }
}
