//! What a server requests while it carries out a call: passed on to the call's client where that can be asked, refused where it cannot.
//!
//! Its requests are answered within the session that its client's capabilities have.

use super::{McpCall, McpPeer, McpRelay};
use crate::engine::Engine;
use crate::engine::request_context::RequestContext;
use futures_util::stream::{StreamExt as _, unfold};
use judgment::route::compiled::CompiledConfig;
use memory::state::mcp_pending::CallOwner;
use memory::state::mcp_sessions::McpSession;
use memory::state::snapshot::SettingsSnapshot;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::mpsc;
use words::api::mcp::era::McpEra;
use words::api::mcp::features::ClientFeatures;
use words::api::mcp::reply::McpReply;
use words::api::mcp::stream::ServerRequest;

/// The most requests of one call that wait for their response at a time.
const MAX_PENDING: usize = 16;

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
        self.relay.offer(request).then_some(())?;
        pending.response().await
    }
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
