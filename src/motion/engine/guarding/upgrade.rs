//! Hooks on a request that switches protocols, which Pingora proxies natively.

use super::denial;
use super::env::GuardEnv;
use super::request_view::RequestView;
use crate::engine::Engine;
use crate::engine::hook_notes::HookSide;
use crate::engine::request_context::RequestContext;
use http::HeaderMap;
use judgment::guard::Hook;
use judgment::route::attempt::Request;
use judgment::route::target::Target;
use std::sync::Arc;
use words::error::Error;

/// What is said in a websocket is not read, so that no check of texts can judge it.
///
/// # Errors
/// 501 where a hook would have to, unless the settings let it pass.
fn check_unjudged(ctx: &RequestContext, target: &Target) -> Result<(), Error> {
    if ctx.snapshot.settings.realtime.unjudged {
        return Ok(());
    }
    let decides = |hook: &&Hook| hook.may_deny() || hook.may_change();
    let of_request =
        target.hooks.request.iter().flat_map(|hooks| hooks.waiting()).filter(|hook| hook.reads_texts());
    let of_response = target.hooks.response.iter().flat_map(|hooks| hooks.waiting());
    match of_request.chain(of_response).find(decides) {
        None => Ok(()),
        Some(hook) => Err(Error::not_implemented(format!(
            "The guardrail {} cannot judge what is said in a websocket, so that none is opened where it is in force. Use another API, or \
             have the operator set realtime.unjudged (docs/guardrails.md).",
            hook.id
        ))),
    }
}

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
    check_unjudged(ctx, target)?;
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
