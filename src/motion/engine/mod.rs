//! Runs a request from its plan to the last byte of its response.
//!
//! It knows no session: the client is a [`downstream::Downstream`], implemented by a Pingora session and in memory. It
//! does not admit requests (`proxy`), and does not pick targets (`route`).

pub mod attempt;
mod attempt_run;
mod attempt_start;
pub mod attempt_state;
mod attempt_usage;
mod body_error;
pub mod body_pace;
pub mod caching;
mod content_kind;
pub mod cors;
mod cost;
mod credentials;
pub mod downstream;
mod downstream_watch;
pub mod error_response;
pub mod failure;
mod finished;
mod forward;
mod guarding;
pub mod header_edit;
mod hedge;
pub mod hook_notes;
mod keep_alive;
pub mod limit_advance;
mod limit_headers;
pub mod limit_holds;
pub mod limit_preview;
mod limit_refusal;
pub mod memory_downstream;
pub mod model_list;
mod model_result;
pub mod named;
pub mod observers;
pub mod offline;
mod opener;
pub mod orchestrator;
mod own_request;
pub mod payload_capture;
pub mod peer_selection;
pub mod planner;
mod prepare;
mod ready_parts;
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
pub mod sinks;
mod streamed_upload;
pub mod turn;
pub mod upstream_headers;
mod upstream_stream;
mod usage_estimate;

use attempt::layers::{Compile, LAYERS};
use caching::Caching;
use downstream::Downstream;
use futures_util::FutureExt;
use limit_holds::LimitHolds;
use memory::limits::Limits;
use memory::net::outbound::connection::UpstreamConnection;
use memory::net::outbound::connector::Connector;
use memory::net::outbound::side_http::SideHttpClient;
use memory::state::Shared;
use opener::OpenConnection;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error as PingoraError, ErrorType};
use record::RequestRecord;
use request_context::RequestContext;
use sinks::Sinks;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// How many requests may have hooks running that nothing waits for; those of more are left out and counted.
const MAX_BACKGROUND_HOOKS: usize = 512;

/// What every request needs: the process's state, its upstream connections, and the sinks of request records.
pub struct Engine {
    pub shared: Arc<Shared>,
    pub limits: Arc<Limits>,
    connector: Arc<Connector>,
    sinks: Sinks,
    /// Sends what checks send.
    outside: SideHttpClient,
    /// Hooks that nothing waits for: so many at a time.
    background_hooks: Arc<Semaphore>,
    layers: &'static [Compile],
    pub caching: Arc<Caching>,
}

impl Engine {
    pub fn new(
        shared: Arc<Shared>,
        limits: Arc<Limits>,
        caching: Arc<Caching>,
        connector: Connector,
    ) -> Self {
        Self::with_layers(shared, limits, caching, connector, LAYERS)
    }

    /// An engine with other layers than the product's, in the order an attempt passes them.
    pub fn with_layers(
        shared: Arc<Shared>,
        limits: Arc<Limits>,
        caching: Arc<Caching>,
        connector: Connector,
        layers: &'static [Compile],
    ) -> Self {
        let sinks = Sinks::new(&shared);
        let outside = SideHttpClient::pooled(shared.settings().settings.tls.ca_file.clone());
        let background_hooks = Arc::new(Semaphore::new(MAX_BACKGROUND_HOOKS));
        Self {
            shared,
            limits,
            connector: Arc::new(connector),
            sinks,
            outside,
            background_hooks,
            layers,
            caching,
        }
    }

    /// Hands the record of a finished request to all sinks. `client`: the downstream of its response. Where the tokens of
    /// long texts must be counted, a task does that first.
    pub fn record<D: Downstream>(self: &Arc<Self>, client: &D, ctx: &mut RequestContext) {
        let mut finished = finished::finish(client, ctx);
        let in_flight = ctx.load.in_flight.take();
        let is_counted = ctx.snapshot.settings.usage.tokenizer;
        let bytes = finished.uncounted.iter().map(|(_, uncounted)| uncounted.bytes()).sum();
        if finished.uncounted.is_empty() || !is_counted || self.shared.tokenizer.is_quick(bytes) {
            finished.count(&self.shared.tokenizer, is_counted);
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

    /// Releases the connection of a finished exchange. If that cannot be done without waiting, a task of its own does
    /// it, so that the request does not wait.
    fn release(&self, connection: UpstreamConnection, peer: Box<HttpPeer>) {
        let connector = Arc::clone(&self.connector);
        let mut work = Box::pin(async move { connector.release(connection, &peer).await });
        if work.as_mut().now_or_never().is_none() {
            tokio::spawn(work);
        }
    }

    /// Disposes of the connection of an exchange that broke.
    fn discard(&self, open: OpenConnection, error: &PingoraError) {
        let OpenConnection { connection, peer, .. } = open;
        if matches!(error.etype(), ErrorType::H2Downgrade | ErrorType::InvalidH2) {
            self.connector.prefer_h1(&peer);
        }
        if matches!(connection, UpstreamConnection::H2(_)) {
            // An HTTP/2 connection carries other requests too, so it is not closed.
            self.release(connection, peer);
        }
    }
}
