//! What a server requests while it carries out a call: passed on to the call's client where that can be asked, refused where it cannot.
//!
//! A server up to 2025-11-25 requests it in the stream of the call, one of 2026-07-28 in a result, after which the call is sent again.

use super::relay::MAX_PENDING;
use super::{McpCall, McpPeer, McpRelay};
use crate::engine::Engine;
use crate::engine::request_context::RequestContext;
use futures_util::future::try_join_all;
use futures_util::stream::{StreamExt as _, unfold};
use judgment::route::compiled::CompiledConfig;
use judgment::route::mcp_target::CALL_TIMEOUT;
use memory::state::mcp_pending::CallOwner;
use memory::state::mcp_sessions::McpSession;
use memory::state::snapshot::SettingsSnapshot;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::mpsc;
use words::api::mcp::era::McpEra;
use words::api::mcp::features::ClientFeatures;
use words::api::mcp::input::{GivenInput, NeededInput};
use words::api::mcp::reply::McpReply;
use words::api::mcp::stream::ServerRequest;
use words::error::Error;

/// How often a call is sent again with the input that its server needs.
pub(super) const MAX_ROUNDS: usize = 8;

/// The client of a call, as far as servers may request something of it.
#[derive(Debug, Clone)]
pub(super) struct CallClient {
    relay: McpRelay,
    features: ClientFeatures,
    owner: CallOwner,
}

/// What servers may request of the client of a call: nothing where checks decide about the call, because they see neither what a server
/// requests nor what the client responds.
pub(super) fn features(call: &McpCall<'_>, config: &CompiledConfig) -> ClientFeatures {
    let mut hooks =
        config.targets().iter().flat_map(|target| [&target.hooks.request, &target.hooks.response]);
    let is_judged = hooks.any(|hooks| hooks.as_ref().is_some_and(|hooks| hooks.decides()));
    let relay = call.relay.as_ref().filter(|_| !is_judged && call.peer.server.api.is_none());
    relay.map_or_else(ClientFeatures::default, McpRelay::features)
}

impl CallClient {
    /// `None`: nothing can be requested of it.
    pub fn of(call: &McpCall<'_>, features: ClientFeatures, ctx: &RequestContext) -> Option<Self> {
        let relay = call.relay.clone().filter(|_| !features.is_empty())?;
        Some(Self { relay, features, owner: CallOwner::of(ctx.record.client.as_deref()) })
    }

    /// The client's response to what `write` makes of the id that it gets. `None`: it cannot be asked for this, or not now.
    async fn response(
        &self,
        engine: &Engine,
        write: impl FnOnce(ClientFeatures, &str) -> Option<Vec<u8>>,
    ) -> Option<McpReply> {
        let pending = engine.shared.mcp_pending.begin(self.owner.clone())?;
        let request = write(self.features, &pending.id())?;
        self.relay.offer_request(request).then_some(())?;
        pending.response().await
    }
}

/// What the client gives of the input that a server needs before it can carry out the call. `None`: nothing is needed, or not given.
///
/// # Errors
/// The client has left.
pub(super) async fn input(
    engine: &Engine,
    call: &McpCall<'_>,
    config: &CompiledConfig,
    client: Option<&CallClient>,
    reply: &McpReply,
) -> Result<Option<GivenInput>, Error> {
    let needed = client.and_then(|client| Some((client, NeededInput::of(reply)?)));
    let Some((client, needed)) = needed.filter(|(client, needed)| needed.is_allowed(client.features)) else {
        return Ok(None);
    };
    // As long as the server may take for the call.
    let limit = config.targets().first().and_then(|target| target.policies.request_timeout);
    let requests = needed.requests().iter();
    let responses = try_join_all(requests.map(|request| async {
        match client.response(engine, |_, id| Some(request.for_client(id))).await {
            Some(McpReply::Result(result)) => Ok(result),
            _ => Err(()),
        }
    }));
    let mut leaves = call.leaves.clone();
    let results = tokio::select! {
        biased;
        _ = leaves.wait_for(|leaves| *leaves) => return Err(Error::client_closed()),
        results = tokio::time::timeout(limit.unwrap_or(CALL_TIMEOUT), responses) => results,
    };
    Ok(results.ok().and_then(Result::ok).map(|results| needed.given(&results)))
}

impl McpPeer {
    /// Responds to what the server requests while it carries out a call, for as long as it is awaited: a server that learns at once that its
    /// client cannot be asked can end its call.
    pub(super) async fn respond_to_requests(
        &self,
        engine: &Engine,
        snapshot: &Arc<SettingsSnapshot>,
        session: &McpSession,
        requests: mpsc::Receiver<ServerRequest>,
        client: Option<&CallClient>,
    ) -> Infallible {
        let requests = unfold(requests, |mut requests| async move {
            let request = requests.recv().await?;
            Some((request, requests))
        });
        // Those of the stateless era request nothing so: their results say what they need.
        let is_of_era = session.era == McpEra::Sessions;
        let respond = |request: ServerRequest| async move {
            let reply = match client {
                Some(client) => {
                    client.response(engine, |features, id| request.for_client(features, id)).await
                }
                None => None,
            };
            let response = reply.map_or_else(|| request.refusal(), |reply| request.response(&reply));
            // A server that does not take it waits on, and its call ends with the timeout.
            let _ = self.post(engine, snapshot, session, "", response).await;
        };
        requests.filter(|_| std::future::ready(is_of_era)).for_each_concurrent(MAX_PENDING, respond).await;
        std::future::pending().await
    }
}
