//! Waits for something while the client may leave, the process may stop and a deadline may pass: the one place where an attempt
//! waits for several things at once.
//!
//! Sends nothing, and does not decide what follows.

use crate::engine::Engine;
use crate::engine::downstream::Downstream;
use crate::engine::downstream_watch::DownstreamWatch;
use crate::engine::request_context::RequestContext;
use std::future::pending;
use std::time::Instant;
use tokio::time::sleep_until;
use words::error::Error;

/// The client of a request, while something else is awaited.
pub(in crate::engine) struct Client<'a, D> {
    pub engine: &'a Engine,
    pub downstream: &'a mut D,
    pub watch: &'a mut DownstreamWatch,
    pub ctx: &'a mut RequestContext,
}

/// Why a wait ended before what it was for.
pub(in crate::engine) enum Interruption {
    /// The client has left: nothing can be sent to it.
    ClientClosed,
    /// The client sends its body too slowly, or the process stops: what the client is told.
    Stopped(Error),
    Deadline,
}

/// Waits for `work`. If it is ready together with something else, it counts. Dropping the result's future drops `work`: pass a pinned
/// reference to go on waiting for it.
///
/// # Errors
/// What came first.
pub(in crate::engine) async fn unless_interrupted<D: Downstream, T>(
    client: Client<'_, D>,
    deadline: Option<Instant>,
    work: impl Future<Output = T>,
) -> Result<T, Interruption> {
    let Client { engine, downstream, watch, ctx } = client;
    tokio::select! {
        biased;
        done = work => Ok(done),
        slow = watch.client_closed(downstream, ctx) => {
            Err(slow.map_or(Interruption::ClientClosed, Interruption::Stopped))
        }
        () = engine.shared.lifecycle.aborted() => Err(Interruption::Stopped(Error::draining())),
        () = passed(deadline) => Err(Interruption::Deadline),
    }
}

/// Returns when a deadline has passed; never where there is none.
async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(at) => sleep_until(at.into()).await,
        None => pending().await,
    }
}
