//! The rounds of one request, up to the response.

use super::call;
use super::listing::Listed;
use super::round::{self, Ended};
use crate::engine::downstream::Downstream;
use crate::engine::own_response;
use crate::engine::planner::Planner;
use crate::engine::record_builder::RecordSource;
use crate::engine::request_context::RequestContext;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use memory::auth::ClientIdentity;
use memory::state::snapshot::SettingsSnapshot;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use words::api::body::Body;
use words::api::error_body::ErrorView;
use words::api::operation::Operation;
use words::api::tool_rounds::{
    ChatConversation, McpEntry, ResponsesConversation, RoundCall, RoundResult, Rounds,
};
use words::api::trace::TraceParent;
use words::error::{Error, Kind};

/// How many calls of a round run at a time.
const CALLS_AT_A_TIME: usize = 8;
/// The most calls of a request.
const MAX_CALLS: usize = 128;
/// A provider would take two rounds with one key for the same request.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What all rounds and calls of a request have.
pub(super) struct Run<'a> {
    pub planner: &'a Planner,
    pub snapshot: Arc<SettingsSnapshot>,
    pub client: Arc<ClientIdentity>,
    pub trace_id: Arc<str>,
    pub parent: Option<TraceParent>,
    pub address: Option<IpAddr>,
    pub uri: Uri,
    /// The client's.
    pub headers: HeaderMap,
    /// Whether the client cannot read chunks.
    pub is_http10: bool,
    /// Becomes true when the client leaves.
    pub leaves: watch::Sender<bool>,
}

/// A request with MCP tools.
pub struct ToolsCall<'a> {
    pub entries: &'a [McpEntry],
    /// Without credentials.
    pub uri: Uri,
    pub body: Body,
}

/// Runs a request with entries of MCP servers, and sends its response.
///
/// # Errors
/// Why there is no response, or why it is not complete.
pub async fn run<D: Downstream>(
    planner: &Planner,
    downstream: &mut D,
    ctx: &mut RequestContext,
    call: ToolsCall<'_>,
) -> Result<(), Error> {
    let ToolsCall { entries, uri, body } = call;
    ctx.record.named.model = body.text("model").map(String::from);
    let listed = watched_listing(planner, downstream, ctx, entries, &body).await?;
    let is_streamed = body.is_true("stream");
    let max_calls = body.read::<usize>("max_tool_calls").unwrap_or(MAX_CALLS).min(MAX_CALLS);
    let rounds: Box<dyn Rounds> = match ctx.api.operation {
        Operation::Responses => {
            Box::new(ResponsesConversation::new(body, listed.tools.clone(), &ctx.span.trace_id)?)
        }
        _ => Box::new(ChatConversation::new(body, listed.tools.clone())?),
    };
    let request = downstream.request();
    let mut headers = request.headers.clone();
    for name in [CONTENT_LENGTH, ACCEPT_ENCODING] {
        headers.remove(name);
    }
    let run = Run {
        planner,
        snapshot: Arc::clone(&ctx.snapshot),
        client: ctx.record.client.clone().unwrap_or_else(|| ctx.snapshot.service_keys.anonymous()),
        trace_id: Arc::clone(&ctx.span.trace_id),
        parent: ctx.span.parent,
        address: downstream.peer_address(),
        uri,
        headers,
        is_http10: ctx.reply.is_http10,
        leaves: watch::Sender::new(false),
    };
    let max_rounds = ctx.snapshot.settings.mcp.max_rounds;
    let heartbeat = ctx.snapshot.settings.time_limits.heartbeat_interval();
    let bounds = Bounds { max_rounds, max_calls, is_streamed, heartbeat };
    let mut rounds = rounds;
    let ran = run_rounds(run, downstream, ctx, &listed, &mut *rounds, bounds).await;
    let Err(error) = ran else { return Ok(()) };
    if error.kind != Kind::ClientClosed {
        // A refusal of the gateway's own, which no round has in its record.
        ctx.record.source = RecordSource::Engine;
        if downstream.sent_status().is_some() {
            let mut out = Vec::new();
            let view = ErrorView::from(&error).with_request_id(&ctx.span.trace_id);
            rounds.fail_stream(&view.body(ctx.api.dialect), &mut out);
            own_response::end(downstream, out).await?;
            ctx.failure = Some(error);
            return Ok(());
        }
    }
    Err(error)
}

/// Lists the servers as long as the client waits.
async fn watched_listing<D: Downstream>(
    planner: &Planner,
    downstream: &mut D,
    ctx: &RequestContext,
    entries: &[McpEntry],
    body: &Body,
) -> Result<Listed, Error> {
    tokio::select! {
        biased;
        listed = Listed::find(planner, ctx, entries, body) => listed,
        () = downstream.closed() => Err(Error::client_closed()),
    }
}

/// How far a request may go.
struct Bounds {
    max_rounds: usize,
    max_calls: usize,
    is_streamed: bool,
    /// After how much silence a stream gets a comment.
    heartbeat: Option<Duration>,
}

async fn run_rounds<D: Downstream>(
    mut run: Run<'_>,
    downstream: &mut D,
    ctx: &mut RequestContext,
    listed: &Listed,
    rounds: &mut dyn Rounds,
    bounds: Bounds,
) -> Result<(), Error> {
    // From here on each round and each call has its own record.
    ctx.record.source = RecordSource::Rounds;
    let mut out = Vec::new();
    let mut called = 0;
    let mut number = 0;
    let mut last = (StatusCode::OK, HeaderMap::new());
    loop {
        let allowed = if number < bounds.max_rounds { bounds.max_calls.saturating_sub(called) } else { 0 };
        let calls = Calls { run: &run, listed, allowed, heartbeat: bounds.heartbeat };
        called += calls.make(downstream, ctx, rounds, &mut out).await?;
        if rounds.is_over() {
            break;
        }
        if number > 0 {
            run.headers.remove(&IDEMPOTENCY_KEY);
        }
        number += 1;
        let is_last = number >= bounds.max_rounds || called >= bounds.max_calls;
        // The conversation, and the body made of it.
        ctx.load.held.set(rounds.size() * 2)?;
        let body = rounds.request(is_last);
        let ended = if bounds.is_streamed {
            round::streamed(&run, downstream, number, body, rounds, &mut ctx.load.held).await?
        } else {
            round::whole(&run, downstream, number, body, rounds).await?
        };
        match ended {
            Ended::Good(status, headers) => last = (status, headers),
            Ended::Refused => return Ok(()),
        }
    }
    if let Some(ids) = rounds.response_ids() {
        // What goes on from the response goes on from its last round.
        let kept = &run.planner.engine.shared.kept_items;
        kept.insert(run.client.id.as_deref(), &ids.shown, ids.kept());
    }
    if bounds.is_streamed {
        rounds.close_stream(&mut out);
        return own_response::end(downstream, out).await;
    }
    let (status, headers) = last;
    own_response::send_whole(downstream, status, &run.client_headers(headers), rounds.take_whole()).await
}

/// The calls of a round.
struct Calls<'r, 'a> {
    run: &'r Run<'a>,
    listed: &'r Listed,
    /// How many may be made.
    allowed: usize,
    heartbeat: Option<Duration>,
}

impl Calls<'_, '_> {
    /// Makes the calls, some at a time, and takes their results in their order. Returns how many were made.
    async fn make<D: Downstream>(
        &self,
        downstream: &mut D,
        ctx: &mut RequestContext,
        rounds: &mut dyn Rounds,
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let calls = rounds.take_calls();
        let refused = calls.get(self.allowed..).unwrap_or_default().to_vec();
        let made: Vec<RoundCall> = calls.into_iter().take(self.allowed).collect();
        let work: Vec<BoxFuture<'_, RoundResult>> =
            made.iter().map(|call| call::call(self.run, self.listed, call).boxed()).collect();
        let mut results = stream::iter(work).buffered(CALLS_AT_A_TIME);
        let mut taken = Ok(());
        for call in &made {
            taken = match self.wait(downstream, ctx.api.operation, results.next()).await {
                Ok(result) => {
                    let result = result.unwrap_or_else(|| RoundResult::error("It was not called."));
                    rounds.take_result(call, &result, out);
                    // The conversation, and the body that will be made of it.
                    match ctx.load.held.set(rounds.size() * 2) {
                        Ok(()) => send_results(downstream, out).await,
                        Err(error) => Err(error),
                    }
                }
                Err(error) => Err(error),
            };
            if taken.is_err() {
                // The calls under way end as those of a client that leaves, and are recorded.
                self.run.leaves.send_replace(true);
                while results.next().await.is_some() {}
                break;
            }
        }
        taken?;
        for call in &refused {
            let result = RoundResult::error("The request has made all the calls that it may make.");
            rounds.take_result(call, &result, out);
        }
        send_results(downstream, out).await?;
        Ok(made.len())
    }

    /// Waits for a result. The client of a stream that has begun gets heartbeats.
    async fn wait<D: Downstream, T>(
        &self,
        downstream: &mut D,
        operation: Operation,
        result: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let mut result = std::pin::pin!(result);
        let every = self.heartbeat.filter(|_| downstream.sent_status().is_some());
        while let Some(every) = every {
            let waited = tokio::time::timeout(every, round::watched(self.run, downstream, &mut result)).await;
            match waited {
                Ok(done) => return done,
                Err(_) => own_response::send_heartbeat(downstream, operation).await?,
            }
        }
        round::watched(self.run, downstream, &mut result).await
    }
}

/// Before the first round there is no stream yet: what was approved is a part of its beginning.
async fn send_results<D: Downstream>(downstream: &mut D, out: &mut Vec<u8>) -> Result<(), Error> {
    match downstream.sent_status() {
        Some(_) => own_response::send_part(downstream, out).await,
        None => {
            out.clear();
            Ok(())
        }
    }
}

impl Run<'_> {
    /// The trace id of a round, from 1. Ids of items are made from it, so that no two rounds have the same.
    pub fn trace_of_round(&self, number: usize) -> Arc<str> {
        match number {
            1 => Arc::clone(&self.trace_id),
            _ => format!("{}-{number}", self.trace_id).into(),
        }
    }

    /// The headers of a round as those of the client's response: the trace id is the request's.
    pub fn client_headers(&self, mut headers: HeaderMap) -> HeaderMap {
        for value in headers.values_mut() {
            if self.is_trace_of_round(value.as_bytes())
                && let Ok(own) = HeaderValue::from_str(&self.trace_id)
            {
                *value = own;
            }
        }
        headers
    }

    fn is_trace_of_round(&self, text: &[u8]) -> bool {
        let number = text.strip_prefix(self.trace_id.as_bytes()).and_then(|rest| rest.strip_prefix(b"-"));
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    }
}
