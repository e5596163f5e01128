//! One round with the model: a request of the client's, run by the engine as any other.

use super::run::Run;
use crate::engine::downstream::Downstream;
use crate::engine::memory_downstream::ResponseHead;
use crate::engine::offline::{OfflineRequest, OfflineResponse};
use crate::engine::own_response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode};
use memory::state::held_bytes::Hold;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use words::api::sse::SseParser;
use words::api::tool_rounds::Rounds;
use words::error::Error;

/// The largest response of a round, bytes.
const MAX_RESPONSE: usize = 64 << 20;
/// How many chunks of a stream wait for the client.
const WAITING_CHUNKS: usize = 8;

/// How a round has ended.
pub(super) enum Ended {
    /// With a response of the model.
    Good(StatusCode, HeaderMap),
    /// With an error, which the client has.
    Refused,
}

/// Does `work` as long as the client waits for it; then it is told, and waited for once more, so that it ends as it should.
///
/// # Errors
/// The client has left.
pub(super) async fn watched<D: Downstream, T>(
    run: &Run<'_>,
    downstream: &mut D,
    work: impl Future<Output = T>,
) -> Result<T, Error> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return Ok(done),
        () = downstream.closed() => {}
    }
    run.leaves.send_replace(true);
    work.await;
    Err(Error::client_closed())
}

/// A round whose response is read whole.
///
/// # Errors
/// There is no complete response.
pub(super) async fn whole<D: Downstream>(
    run: &Run<'_>,
    downstream: &mut D,
    number: usize,
    body: Bytes,
    rounds: &mut dyn Rounds,
) -> Result<Ended, Error> {
    let trace_id = run.trace_of_round(number);
    let running = run.planner.run_offline(request(run, &trace_id, body), run.leaves.subscribe());
    let response = watched(run, downstream, running).await?.map_err(incomplete)?;
    let OfflineResponse { status, headers, body } = response;
    let body = body.concat();
    if !status.is_success() {
        own_response::send_whole(downstream, status, &run.client_headers(headers), body).await?;
        return Ok(Ended::Refused);
    }
    rounds.take_response(&body)?;
    Ok(Ended::Good(status, headers))
}

/// A round whose response reaches the client as it arrives. `held` counts what is kept of it for the next round.
///
/// # Errors
/// There is no complete response.
pub(super) async fn streamed<D: Downstream>(
    run: &Run<'_>,
    downstream: &mut D,
    number: usize,
    body: Bytes,
    rounds: &mut dyn Rounds,
    held: &mut Hold,
) -> Result<Ended, Error> {
    let trace_id = run.trace_of_round(number);
    let (chunks, mut received) = mpsc::channel(WAITING_CHUNKS);
    let (head, head_received) = oneshot::channel();
    let running =
        run.planner.stream_offline(request(run, &trace_id, body), run.leaves.subscribe(), Some(head), chunks);
    let mut running = std::pin::pin!(running);
    let head = Some(head_received);
    let before = rounds.size() * 2;
    let mut relay =
        Relay { run, parser: SseParser::default(), head, held, before, bytes: 0, out: Vec::new() };
    let mut ended = None;
    let relayed = loop {
        tokio::select! {
            biased;
            chunk = received.recv() => match chunk {
                Some(chunk) => if let Err(error) = relay.take(downstream, &chunk, rounds).await { break Err(error) },
                None if ended.is_some() => break Ok(()),
                // The request has ended, and says how.
                None => ended = Some((&mut running).await),
            },
            done = &mut running, if ended.is_none() => ended = Some(done),
            () = downstream.closed() => break Err(Error::client_closed()),
        }
    };
    if let Err(error) = relayed {
        // The round ends as one whose client leaves, and is recorded: nobody reads its chunks any more.
        run.leaves.send_replace(true);
        drop(received);
        if ended.is_none() {
            (&mut running).await.ok();
        }
        return Err(error);
    }
    let response = ended.unwrap_or_else(|| Err("it has not ended".to_owned())).map_err(incomplete)?;
    if !response.status.is_success() {
        refuse(run, downstream, response, rounds).await?;
        return Ok(Ended::Refused);
    }
    relay.finish(downstream, rounds).await?;
    rounds.end_stream();
    Ok(Ended::Good(response.status, response.headers))
}

/// Sends the error of a round: as the response, or as the end of the stream that has begun.
async fn refuse<D: Downstream>(
    run: &Run<'_>,
    downstream: &mut D,
    response: OfflineResponse,
    rounds: &mut dyn Rounds,
) -> Result<(), Error> {
    let body = response.body.concat();
    if downstream.sent_status().is_none() {
        let headers = run.client_headers(response.headers);
        return own_response::send_whole(downstream, response.status, &headers, body).await;
    }
    let mut out = Vec::new();
    rounds.fail_stream(&body, &mut out);
    own_response::end(downstream, out).await
}

/// Hands the events of a round on.
struct Relay<'r, 'a> {
    run: &'r Run<'a>,
    parser: SseParser,
    /// The head of the response, until it was taken.
    head: Option<oneshot::Receiver<ResponseHead>>,
    /// Counts the conversation, and what of the response is kept for the next round.
    held: &'r mut Hold,
    /// The bytes of the conversation before this round.
    before: usize,
    /// The bytes of the response so far.
    bytes: usize,
    out: Vec<u8>,
}

impl Relay<'_, '_> {
    async fn take<D: Downstream>(
        &mut self,
        downstream: &mut D,
        chunk: &Bytes,
        rounds: &mut dyn Rounds,
    ) -> Result<(), Error> {
        if let Some(mut head) = self.head.take() {
            // It is sent before the first chunk.
            let (status, headers) = head.try_recv().map_err(|why| Error::internal(why.to_string()))?;
            let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
            if !kind.starts_with(b"text/event-stream") {
                return Err(Error::invalid_response("The provider's response is no stream.", "content-type"));
            }
            if downstream.sent_status().is_none() {
                let headers = self.run.client_headers(headers);
                own_response::begin(downstream, status, &headers, self.run.is_http10).await?;
            }
        }
        if own_response::is_heartbeat(chunk) {
            self.out.extend_from_slice(chunk);
            return own_response::send_part(downstream, &mut self.out).await;
        }
        self.bytes += chunk.len();
        if self.bytes > MAX_RESPONSE {
            return Err(Error::invalid_response("The provider's stream is too long.", "over the limit"));
        }
        self.held.set(self.before + self.bytes)?;
        let run = self.parser.push(chunk);
        if run.is_oversized() {
            return Err(Error::invalid_response("An event of the provider's stream is too long.", "event"));
        }
        for event in run.events() {
            if let Some(data) = &event.data {
                rounds.take_event(event.name, data, &mut self.out);
            }
        }
        own_response::send_part(downstream, &mut self.out).await
    }

    async fn finish<D: Downstream>(
        &mut self,
        downstream: &mut D,
        rounds: &mut dyn Rounds,
    ) -> Result<(), Error> {
        for event in self.parser.finish().events() {
            if let Some(data) = &event.data {
                rounds.take_event(event.name, data, &mut self.out);
            }
        }
        own_response::send_part(downstream, &mut self.out).await
    }
}

fn request<'r>(run: &'r Run<'_>, trace_id: &'r Arc<str>, body: Bytes) -> OfflineRequest<'r> {
    OfflineRequest {
        method: Method::POST,
        uri: &run.uri,
        headers: &run.headers,
        body,
        is_limited: true,
        is_sent_once: false,
        advance: None,
        trace_id,
        client: Ok(Arc::clone(&run.client)),
        max_response: MAX_RESPONSE,
        given: None,
        address: run.address,
    }
}

fn incomplete(why: String) -> Error {
    Error::invalid_response("The provider gave no complete response.", why)
}
