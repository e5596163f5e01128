//! The chat of the playground: a client's request that comes over the control port, admitted, run and recorded as at the data port.
//!
//! The response is sent as it arrives, so that a stream is seen as one. Its trace id, by which the log has its cost, is the client's choice.

use super::super::call::Call;
use super::super::field::{Field, Type, optional, required};
use super::super::reply::Reply;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Uri};
use motion::engine::offline::{OfflineRequest, OfflineResponse};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use uuid::Uuid;
use words::error::Error;

/// The largest response that is no stream, bytes.
const MAX_RESPONSE: usize = 8 << 20;
/// Chunks that wait for a client that reads slowly.
const MAX_CHUNKS: usize = 16;

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

pub(super) async fn send(call: Call) -> Result<Reply, Error> {
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
    let trace_id = call.query_text("trace_id").map_or_else(|| Uuid::now_v7().to_string(), str::to_owned);
    let (leaving, leaves) = watch::channel(false);
    let leaving = Leaving(leaving);
    let (sender, mut chunks) = mpsc::channel(MAX_CHUNKS);
    let run = run(call, headers, trace_id.into(), leaves, sender);
    let mut running = tokio::spawn(run);
    let first = tokio::select! {
        biased;
        first = chunks.recv() => first,
        ended = &mut running => return whole(ended.map_err(|why| Error::internal(why.to_string()))?),
    };
    let Some(first) = first else {
        return whole(running.await.map_err(|why| Error::internal(why.to_string()))?);
    };
    let content_type =
        if first.starts_with(b"{") { "application/json" } else { "text/event-stream; charset=utf-8" };
    let rest = stream::unfold((chunks, leaving), |(mut chunks, leaving)| async {
        Some((chunks.recv().await?, (chunks, leaving)))
    });
    Ok(Reply::streamed(content_type, stream::iter([first]).chain(rest).map(Ok)))
}

async fn run(
    call: Call,
    headers: HeaderMap,
    trace_id: Arc<str>,
    leaves: watch::Receiver<bool>,
    chunks: mpsc::Sender<Bytes>,
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
    };
    call.planner.stream_offline(request, leaves, chunks).await
}

/// A response that ended before anything of its body was sent: an error, as the data port writes it.
fn whole(response: Result<OfflineResponse, String>) -> Result<Reply, Error> {
    let response = response.map_err(|why| Error::invalid_response(why, "incomplete"))?;
    Ok(Reply::text("application/json", response.body.concat()).with_status(response.status))
}
