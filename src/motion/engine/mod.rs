//! Runs a request from its plan to the last byte of its response.
//!
//! It knows no session: the client is a [`downstream::Downstream`], implemented by a Pingora session and in memory. It
//! does not admit requests (`proxy`), and does not pick targets (`route`).

mod api_response;
pub mod attempt;
mod attempt_end;
mod attempt_run;
mod attempt_start;
pub(crate) mod attempt_state;
mod attempt_usage;
mod body_error;
pub mod body_pace;
pub mod caching;
mod client;
mod connections;
mod content_kind;
pub mod cors;
mod cost;
pub mod credentials;
pub mod downstream;
mod downstream_watch;
pub mod error_response;
pub mod failure;
mod finished;
mod forward;
mod forwarded_headers;
pub mod guarding;
pub mod header_edit;
mod hedge;
pub(crate) mod hook_notes;
mod keep_alive;
pub(crate) mod limit_advance;
mod limit_headers;
pub mod limit_holds;
pub mod limit_preview;
mod limit_refusal;
pub mod mcp;
pub mod memory_downstream;
pub mod model_list;
mod model_result;
pub mod named;
pub(crate) mod observers;
pub mod offline;
mod opener;
pub mod orchestrator;
mod own_request;
pub mod own_response;
mod own_run;
pub(crate) mod payload_capture;
pub mod peer_selection;
mod places;
pub mod planner;
mod prepare;
mod prompt_misses;
mod ready_parts;
pub mod realtime;
pub mod record;
pub mod record_builder;
pub mod request_context;
pub mod request_env;
pub mod request_span;
mod response_body;
pub mod response_headers;
mod response_policy;
mod resume;
mod retained_events;
pub mod reusable_timer;
mod running;
pub(crate) mod sinks;
mod streamed_upload;
pub mod turn;
pub mod upstream_headers;
mod upstream_stream;
mod usage_ceiling;
mod usage_estimate;

use caching::Caching;
use connections::Connections;
use downstream::Downstream;
use futures_util::future::BoxFuture;
use judgment::route::target::Target;
use limit_holds::LimitHolds;
use memory::limits::Limits;
use memory::net::outbound::side_http::SideHttpClient;
use memory::state::Shared;
use own_request::{OwnError, OwnRequest};
use record::RequestRecord;
use record_builder::RecordSource;
use request_context::RequestContext;
use sinks::Sinks;
use std::any::Any;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Makes the layers around attempts at a target, for the target to keep (`attempt::layers`).
type CompileLayers = Box<dyn Fn(&Target) -> Box<dyn Any + Send + Sync> + Send + Sync>;
/// Sends a request of the gateway's own (`own_run`).
type SendOwn = for<'a> fn(
    &'a Arc<Engine>,
    &'a OwnRequest<'_>,
    Option<String>,
) -> BoxFuture<'a, Result<Vec<u8>, OwnError>>;

/// What every request needs: the process's state, its upstream connections, and the sinks of request records. How it runs one: `running`.
pub struct Engine {
    pub shared: Arc<Shared>,
    pub limits: Arc<Limits>,
    pub caching: Arc<Caching>,
    connections: Arc<Connections>,
    sinks: Sinks,
    /// Sends what checks send.
    outside: SideHttpClient,
    /// Hooks that nothing waits for: so many at a time.
    background_hooks: Arc<Semaphore>,
    compile_layers: CompileLayers,
    /// A pointer, because what a layer sends passes all layers again.
    send_own: SendOwn,
}

impl Engine {
    /// Hands the record of a finished request to all sinks. `client`: the downstream of its response. Where the tokens of
    /// long texts must be counted, a task does that first. Of a request that is cut at the end of the process they are counted by the
    /// rule if the tokenizer would have to be made: the process does not wait for that.
    pub fn record<D: Downstream>(self: &Arc<Self>, client: &D, ctx: &mut RequestContext) {
        if ctx.record.source == RecordSource::Rounds {
            return;
        }
        let mut finished = finished::finish(client, ctx);
        let in_flight = ctx.load.in_flight.take();
        let Shared { tokenizer, lifecycle, .. } = &*self.shared;
        let is_counted =
            ctx.snapshot.settings.usage.tokenizer && (tokenizer.is_made() || !lifecycle.is_aborting());
        let bytes = finished.uncounted.iter().map(|(_, uncounted)| uncounted.bytes()).sum();
        if finished.uncounted.is_empty() || !is_counted || tokenizer.is_quick(bytes) {
            finished.count(tokenizer, is_counted);
            return self.write(finished.priced(&ctx.prices), &mut ctx.limits);
        }
        let engine = Arc::clone(self);
        let mut limits = std::mem::take(&mut ctx.limits);
        let prices = ctx.prices.clone();
        tokio::spawn(async move {
            let Shared { tokenizer, large_work, .. } = &*engine.shared;
            let finished = tokenizer.run(large_work, bytes, move || {
                finished.count(tokenizer, true);
                finished
            });
            engine.write(finished.await.priced(&prices), &mut limits);
            drop(in_flight);
        });
    }

    /// Settles what the request held of its limits, and hands its record to the sinks.
    fn write(&self, record: Box<RequestRecord>, limits: &mut LimitHolds) {
        limits.settle(&record, &self.limits);
        self.sinks.record(record);
    }
}
