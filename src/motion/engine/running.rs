//! Puts an engine together, and runs requests with it.
//!
//! How one request runs: `orchestrator`.

use super::Engine;
use super::attempt::Compile;
use super::attempt::layers::{self, LAYERS};
use super::caching::Caching;
use super::connections::Connections;
use super::downstream::{Aborted, Downstream};
use super::limit_holds::{HeldAttempt, NotHeldAttempt, hold_attempt};
use super::orchestrator::{self, Admitted};
use super::own_run;
use super::request_context::RequestContext;
use super::sinks::Sinks;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::target::Target;
use memory::limits::Limits;
use memory::net::outbound::connector::Connector;
use memory::net::outbound::side_http::SideHttpClient;
use memory::state::Shared;
use std::sync::Arc;
use tokio::sync::Semaphore;
use words::error::Error;

/// How many requests may have hooks running that nothing waits for; those of more are left out and counted.
const MAX_BACKGROUND_HOOKS: usize = 512;

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
        own_layers: &'static [Compile],
    ) -> Self {
        Self {
            sinks: Sinks::new(&shared),
            outside: SideHttpClient::pooled(shared.settings().settings.tls.ca_file.clone()),
            background_hooks: Arc::new(Semaphore::new(MAX_BACKGROUND_HOOKS)),
            connections: Arc::new(Connections { shared: Arc::clone(&shared), connector }),
            compile_layers: Box::new(|target| layers::compile(own_layers, target)),
            send_own: own_run::send,
            shared,
            limits,
            caching,
        }
    }

    /// Makes attempts until one is committed or none is left, and sends the response to the client.
    ///
    /// # Errors
    /// The client's connection cannot be reused: it is closed, or it carries an incomplete response.
    pub fn run<D: Downstream>(
        self: &Arc<Self>,
        downstream: &mut D,
        ctx: &mut RequestContext,
        admitted: Box<Admitted>,
    ) -> impl Future<Output = Result<(), Aborted>> + Send {
        orchestrator::run(self, downstream, ctx, admitted)
    }

    /// The names of a target's layers, in their order.
    pub fn layer_names(&self, target: &Target) -> Vec<&'static str> {
        layers::names(self, target)
    }

    /// Whether Pingora may proxy an attempt natively: it must not pass any layer. Upgrades have no other way, so `proxy::native` has their
    /// hooks run and their credentials fetched.
    pub fn goes_native(&self, attempt: &Attempt, is_upgrade: bool) -> bool {
        layers::lets_go_native(self, attempt, is_upgrade)
    }

    /// Has the limits hold what an attempt that Pingora proxies natively may use: it passes no layer.
    ///
    /// # Errors
    /// Those of the limits that refuse it.
    pub async fn hold_native(
        &self,
        ctx: &mut RequestContext,
        request: &Request,
        attempt: Box<Attempt>,
    ) -> Result<HeldAttempt, Error> {
        hold_attempt(self, ctx, request, attempt, false).await.map_err(|not_held| match not_held {
            NotHeldAttempt::Refused(error) => error,
            // Only the output of what is read is fitted.
            NotHeldAttempt::TooLong => Error::internal("held for less"),
        })
    }
}
