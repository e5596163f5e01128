//! Hooks on a request that switches protocols, which Pingora proxies natively.

use super::denial;
use super::env::GuardEnv;
use super::request_view::RequestView;
use crate::engine::Engine;
use crate::engine::hook_notes::HookSide;
use crate::engine::request_context::RequestContext;
use http::HeaderMap;
use judgment::route::attempt::Request;
use judgment::route::target::Target;
use std::sync::Arc;
use words::error::Error;

/// Has the hooks of a target judge a request that switches protocols. Its messages are not read, so only checks run that need no text.
///
/// # Errors
/// 446 where a hook denies it, 501 where it needs a model that the request does not name.
pub async fn guard_upgrade(
    engine: &Arc<Engine>,
    ctx: &mut RequestContext,
    headers: &HeaderMap,
    request: &Request,
    target: &Arc<Target>,
) -> Result<(), Error> {
    let hooks = target.hooks.request.as_ref().filter(|hooks| hooks.applies(request.operation));
    let Some(hooks) = hooks else { return Ok(()) };
    let env = GuardEnv::new(engine, ctx);
    let operation = request.operation;
    let metadata = ctx.record.named.metadata.as_deref();
    // Only HTTP/1.1 switches protocols: its header shows a body.
    let view = RequestView { operation, request, target, metadata, headers, has_unread_body: false };
    let subject = view.subject();
    view.check(&subject, hooks)?;
    let run = env.run(hooks.waiting(), &subject).await;
    env.note(HookSide::Request, &run.results);
    if run.denies() { Err(denial(&run, &run.results, &[])) } else { Ok(()) }
}
