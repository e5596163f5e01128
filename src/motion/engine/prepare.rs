//! Makes an attempt from a request: counts the memory it takes, and keeps large translations from blocking a worker.
//!
//! What the attempt sends is decided in `route::attempt`.

use judgment::route::attempt::{Attempt, Request};
use judgment::route::target::Target;
use knowledge::provider::translation::working_memory;
use memory::state::Shared;
use memory::state::held_bytes::Hold;
use memory::state::large_work::{LargeWork, freed_elsewhere, translation};
use std::sync::Arc;
use words::error::Error;

/// Makes the attempt for one target. `held` counts the request's body and what is sent in its place.
///
/// # Errors
/// As [`Attempt::new`]; 503 if there is not enough memory for it.
pub(super) async fn prepare(
    shared: &Shared,
    target: &Arc<Target>,
    request: &Request,
    held: &mut Hold,
) -> Result<Box<Attempt>, Error> {
    let size = request.size();
    let work = if LargeWork::is_large(translation(size)) && Attempt::is_translated(target, request) {
        translation(size)
    } else {
        size
    };
    let work = work.max(request.target_work(target));
    if !LargeWork::is_large(work) {
        let attempt = Box::new(Attempt::new(Arc::clone(target), request)?);
        return hold(attempt, size, held);
    }
    let mut working = shared.held_bytes.holder();
    let prepare = || {
        working.set(working_memory(request.body.as_ref().map_or(&[], |body| body.bytes())))?;
        Attempt::new(Arc::clone(target), request).map(Box::new)
    };
    let mut attempt = shared.large_work.run(work, prepare).await?;
    drop(working);
    if attempt.body_changed {
        attempt.body = attempt.body.map(freed_elsewhere);
    }
    hold(attempt, size, held)
}

/// Counts the request's body of `size` bytes, and the one that is sent in its place.
fn hold(attempt: Box<Attempt>, size: usize, held: &mut Hold) -> Result<Box<Attempt>, Error> {
    // Also where the body is sent as it is: an earlier attempt may have counted another one.
    let sent = attempt.body.as_ref().filter(|_| attempt.body_changed).map_or(0, |body| body.len());
    held.set(size + sent)?;
    Ok(attempt)
}
