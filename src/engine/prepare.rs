//! Makes an attempt from a request: counts the memory it takes, and keeps large translations from blocking a worker.
//!
//! What the attempt sends is decided in `route::attempt`.

use super::Engine;
use crate::error::Error;
use crate::json::objects;
use crate::provider::translation::MAX_OBJECTS;
use crate::route::attempt::{Attempt, Request};
use crate::route::target::Target;
use crate::state::held_bytes::Hold;
use crate::state::large_work::{LargeWork, freed_elsewhere, translation};
use std::sync::Arc;

/// How much memory translating takes beside the body and the result, in sizes of the body.
const WORKING_MEMORY: usize = 3;
/// How much it takes at most for each JSON object, however short that is, bytes: 3 MB of `{"role":"user","content":"a"}` for Gemini
/// take 90 MiB.
const OBJECT_MEMORY: usize = 1_000;

impl Engine {
    /// Makes the attempt for one target. `held` counts the request's body and what is sent in its place.
    ///
    /// # Errors
    /// As [`Attempt::new`]; 503 if there is not enough memory for it.
    pub async fn prepare(
        &self,
        target: &Arc<Target>,
        request: &Request,
        held: &mut Hold,
    ) -> Result<Attempt, Error> {
        let size = request.size();
        let work = match LargeWork::is_large(translation(size)) && Attempt::is_translated(target, request) {
            true => translation(size),
            false => size,
        };
        if !LargeWork::is_large(work) {
            let attempt = Attempt::new(Arc::clone(target), request)?;
            return hold(attempt, size, held);
        }
        let mut working = self.shared.held_bytes.holder();
        let prepare = || {
            working.set(working_memory(request.body.as_ref().map_or(&[], |body| body.bytes())))?;
            Attempt::new(Arc::clone(target), request)
        };
        let mut attempt = self.shared.large_work.run(work, prepare).await?;
        drop(working);
        if attempt.body_changed {
            attempt.body = attempt.body.map(freed_elsewhere);
        }
        hold(attempt, size, held)
    }
}

/// What translating a body takes beside it.
fn working_memory(body: &[u8]) -> usize {
    // One with more objects is refused.
    (body.len() * WORKING_MEMORY).max(objects::count(body, MAX_OBJECTS) * OBJECT_MEMORY)
}

/// Counts the request's body of `size` bytes, and the one that is sent in its place.
fn hold(attempt: Attempt, size: usize, held: &mut Hold) -> Result<Attempt, Error> {
    // Also where the body is sent as it is: an earlier attempt may have counted another one.
    let sent = attempt.body.as_ref().filter(|_| attempt.body_changed).map_or(0, |body| body.len());
    held.set(size + sent)?;
    Ok(attempt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_take_more_than_their_bytes() {
        let text = |content: &str| format!(r#"{{"role":"user","content":"{content}"}}"#);
        let one = text(&"{".repeat(10_000));
        assert_eq!(working_memory(one.as_bytes()), 3 * one.len());
        let many = vec![text("a"); 20_000].join(",");
        assert_eq!(working_memory(many.as_bytes()), 20_000_000);
        let too_many = vec!["{}"; 2 * MAX_OBJECTS].join(",");
        assert_eq!(working_memory(too_many.as_bytes()), (MAX_OBJECTS + 1) * OBJECT_MEMORY);
    }
}
