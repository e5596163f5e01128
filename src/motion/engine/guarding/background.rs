//! Hooks that nothing waits for: they run when the request is done, for feedback, metrics and the log of a webhook.

use super::env::GuardEnv;
use super::stream_texts;
use judgment::guard::{Hook, HookSet, Subject};
use knowledge::provider::translation::Translation;
use std::sync::Arc;

/// Runs the hooks for which `which` holds. `is_denied`: another hook has denied the subject, so that it is sent to no server unless the
/// settings want it.
pub fn run(
    env: Arc<GuardEnv>,
    hooks: Arc<HookSet>,
    which: fn(&Hook) -> bool,
    subject: Subject,
    is_denied: bool,
) {
    let Some(place) = env.background_place() else { return };
    tokio::spawn(async move {
        let is_withheld = is_denied && !env.keeps_denied();
        let withheld = |hook: &Hook| is_withheld && hook.calls_outside();
        let run = env.run(hooks.hooks.iter().filter(|hook| which(hook) && !withheld(hook)), &subject).await;
        env.report(&run.results);
        if hooks.hooks.iter().any(|hook| which(hook) && withheld(hook)) {
            let hooks = hooks.hooks.iter().filter(|hook| which(hook) && withheld(hook));
            let run = env.run(hooks, &subject.without_texts()).await;
            env.report(&run.results);
        }
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
    run(env, hooks, which, request.with_stream(read.texts), false);
}
