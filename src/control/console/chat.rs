//! The chat of the playground: a client's request that comes over the control port, admitted, run and recorded as at the data port.
//!
//! The response is sent as it arrives, so that a stream is seen as one, with the status and the headers that the data port gives it. Its
//! trace id, by which the log has its cost, is the client's choice.

use super::super::call::{Call, left};
use super::super::field::{Field, Type, optional, required};
use super::super::reply::Reply;
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALT_SVC, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, SET_COOKIE,
    STRICT_TRANSPORT_SECURITY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use motion::engine::offline::{OfflineRequest, OfflineResponse, ResponseHead};
use std::io;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;
use words::error::Error;

/// The largest response that is no stream, bytes.
const MAX_RESPONSE: usize = 8 << 20;
/// Chunks that wait for a client that reads slowly.
const MAX_CHUNKS: usize = 16;

/// Headers that are not passed on: what a provider may not do to the console's own origin, and the length, which is that of what is sent.
static LEFT_OUT: [HeaderName; 7] = [
    CONTENT_LENGTH,
    SET_COOKIE,
    STRICT_TRANSPORT_SECURITY,
    ALT_SVC,
    LOCATION,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    HeaderName::from_static("clear-site-data"),
];

pub(super) const QUERY: &[Field] = &[
    optional("config", Type::Text(16 << 10), "As `x-gateway-config`: a config's slug, or one as JSON."),
    optional(
        "provider",
        Type::Text(128),
        "As `x-gateway-provider`: a provider, or the `@slug` of an account.",
    ),
    optional("trace_id", Type::Uuid, "As `x-gateway-trace-id`."),
];

pub(super) const BODY: &[Field] = &[
    required("model", Type::Text(512), "As at the data port; all members of its chat completions are taken."),
    required("messages", Type::List(&Type::AnyObject, 1, 10_000), "The conversation."),
    optional("stream", Type::Flag, "Whether the response is a stream of events."),
];

/// Leaves when it is dropped: the client of the control port has left, or has everything.
struct Leaving(watch::Sender<bool>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Where the response of a running request goes.
struct Sinks {
    head: oneshot::Sender<ResponseHead>,
    chunks: mpsc::Sender<Bytes>,
}

type Running = JoinHandle<Result<OfflineResponse, String>>;

pub(super) async fn send(mut call: Call) -> Result<Reply, Error> {
    let headers = headers(&call)?;
    let trace_id = call.query_text("trace_id").map_or_else(|| Uuid::now_v7().to_string(), str::to_owned);
    let departure = call.departure.take();
    let (leaving, leaves) = watch::channel(false);
    // Dropped on every way out.
    let leaving = Leaving(leaving);
    let (head_sender, head) = oneshot::channel();
    let (sender, chunks) = mpsc::channel(MAX_CHUNKS);
    let sinks = Sinks { head: head_sender, chunks: sender };
    let running = tokio::spawn(run(call, headers, trace_id.into(), leaves, sinks));
    let head = tokio::select! {
        biased;
        head = head => head,
        () = left(departure) => return Err(Error::client_closed()),
    };
    Ok(match head {
        Ok((status, headers)) => {
            let body = body(chunks, running, leaving);
            respond(Reply::streamed("application/json", body), status, headers)
        }
        // No success: an error, as the data port writes it.
        Err(_) => {
            let OfflineResponse { status, headers, body } = ended(running).await?;
            respond(Reply::text("application/json", body.concat()), status, headers)
        }
    })
}

/// The headers of the client's request, as the query has them.
fn headers(call: &Call) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for name in ["config", "provider"] {
        let header = call.snapshot.settings.prefixed_headers(name).into_iter().next();
        if let (Some(header), Some(text)) = (header, call.query_text(name).filter(|text| !text.is_empty())) {
            let value = HeaderValue::try_from(text);
            headers.insert(
                header,
                value.map_err(|_| Error::invalid_request(name, "has characters that no header may have"))?,
            );
        }
    }
    Ok(headers)
}

/// Runs the request to its end. The call, and with it what is held of its body, is kept so long.
async fn run(
    call: Call,
    headers: HeaderMap,
    trace_id: Arc<str>,
    leaves: watch::Receiver<bool>,
    sinks: Sinks,
) -> Result<OfflineResponse, String> {
    let uri = Uri::from_static("/v1/chat/completions");
    let request = OfflineRequest {
        method: Method::POST,
        uri: &uri,
        headers: &headers,
        body: call.bytes.clone(),
        is_limited: true,
        is_sent_once: false,
        advance: None,
        trace_id: &trace_id,
        client: Ok(Arc::clone(&call.identity)),
        max_response: MAX_RESPONSE,
        given: None,
        address: None,
    };
    let response = call.planner.stream_offline(request, leaves, Some(sinks.head), sinks.chunks).await;
    drop(call.held);
    response
}

/// The body of a success, as it arrives. Where it is not whole, it ends with an error, which cuts the connection.
fn body(
    chunks: mpsc::Receiver<Bytes>,
    running: Running,
    leaving: Leaving,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::unfold(Some((chunks, running, leaving)), |open| async {
        let (mut chunks, running, leaving) = open?;
        match chunks.recv().await {
            Some(chunk) => Some((Ok(chunk), Some((chunks, running, leaving)))),
            None => Some((Err(io::Error::other(ended(running).await.err()?.message)), None)),
        }
    })
}

async fn ended(running: Running) -> Result<OfflineResponse, Error> {
    let response = running.await.map_err(|why| Error::internal(why.to_string()))?;
    response.map_err(|why| Error::invalid_response(why, "incomplete"))
}

fn respond(reply: Reply, status: StatusCode, mut headers: HeaderMap) -> Reply {
    for name in &LEFT_OUT {
        headers.remove(name);
    }
    reply.with_status(status).with_headers(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse as _;
    use futures_util::StreamExt as _;

    #[test]
    fn a_provider_sets_nothing_at_the_consoles_origin() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("content-length", "7"),
            ("set-cookie", "__Host-turnpike-console=x"),
            ("set-cookie", "a=b"),
            ("clear-site-data", "\"*\""),
            ("x-gateway-provider", "openai"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let status = StatusCode::from_u16(246).unwrap();
        let response = respond(Reply::text("application/json", "{}"), status, headers).into_response();
        assert_eq!(response.status(), 246);
        let mut names: Vec<_> = response.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "x-gateway-provider"]);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error_and_not_a_whole_one() {
        for (end, wanted) in [(Err("broken off".to_owned()), Some("broken off")), (Ok(()), None)] {
            let (sender, chunks) = mpsc::channel(1);
            let (leaving, leaves) = watch::channel(false);
            let running = tokio::spawn(async move {
                sender.send(Bytes::from_static(b"a")).await.unwrap();
                drop(sender);
                end.map(|()| OfflineResponse {
                    status: StatusCode::OK,
                    headers: HeaderMap::new(),
                    body: Vec::new(),
                })
            });
            let pieces: Vec<_> = body(chunks, running, Leaving(leaving)).collect().await;
            assert_eq!(pieces[0].as_ref().unwrap(), "a");
            let last = pieces.get(1).map(|piece| piece.as_ref().unwrap_err().to_string());
            assert_eq!((last.as_deref(), pieces.len()), (wanted, 1 + usize::from(wanted.is_some())));
            assert!(*leaves.borrow());
        }
    }
}
