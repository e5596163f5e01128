//! Hooks that nothing waits for: they run when the request is done, for feedback, metrics and the log of a webhook.

use super::env::GuardEnv;
use super::stream_texts;
use judgment::guard::{Hook, HookSet, Subject};
use knowledge::provider::translation::Translation;
use std::sync::Arc;

/// Runs the hooks for which `which` holds.
pub fn run(env: Arc<GuardEnv>, hooks: Arc<HookSet>, which: fn(&Hook) -> bool, subject: Subject) {
    let Some(place) = env.background_place() else { return };
    tokio::spawn(async move {
        let run = env.run(hooks.hooks.iter().filter(|hook| which(hook)), &subject).await;
        env.report(&run.results);
        drop(place);
    });
}

/// As [`run`], on the response that the client got as a stream: its request, how it is read, and its bytes.
pub(crate) fn run_on_stream(
    env: Arc<GuardEnv>,
    hooks: Arc<HookSet>,
    which: fn(&Hook) -> bool,
    request: Subject,
    reader: &Translation,
    bytes: &[u8],
) {
    let read = stream_texts::read(reader, bytes, env.trace_id());
    run(env, hooks, which, request.with_stream(read.texts));
}
