//! The layer of hooks: passes the request of an attempt through those of its target, which may change or deny it.
//!
//! Not here: what hooks do with the response (`guarded`, `judge`).

use super::env::GuardEnv;
use super::guarded::{CheckedRequest, Guarded};
use super::request_view::{self, RequestView};
use super::{background, denial, during_call, has_text};
use crate::engine::Engine;
use crate::engine::attempt::call::{AttemptCall, Incoming, Step};
use crate::engine::attempt::{Flow, Layer};
use crate::engine::hook_notes::HookSide;
use crate::engine::request_context::RequestContext;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use judgment::guard::{Hook, HookSet, PhaseRun, StreamUse, Subject};
use judgment::route::attempt::Request;
use judgment::route::outcome::Outcome;
use judgment::route::provider_ref::split_slug;
use judgment::route::target::Target;
use memory::state::large_work::translation;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::error::{Error, Kind};

struct HooksLayer;

pub(in crate::engine) fn compile(target: &Target) -> Option<Box<dyn Layer>> {
    (!target.hooks.is_empty()).then(|| Box::new(HooksLayer) as Box<dyn Layer>)
}

impl Layer for HooksLayer {
    fn name(&self) -> &'static str {
        "hooks"
    }

    fn needs(&self) -> Step {
        Step::Request
    }

    fn open<'a>(&'a self, call: &'a mut AttemptCall<'_>) -> BoxFuture<'a, Flow> {
        Box::pin(async move {
            match pass(call).await {
                Ok(()) => Flow::Continue,
                Err(error) if error.kind == Kind::HooksFailed => Flow::Deny(error),
                Err(error) => Flow::Refuse(Outcome::Unsupported(error.status()), error),
            }
        })
    }
}

/// Passes the request through the hooks of the target.
///
/// # Errors
/// 446 where a hook denies it; 400 and 501 where one decides over what it could not read.
async fn pass(call: &mut AttemptCall<'_>) -> Result<(), Error> {
    let operation = call.ctx.api.operation;
    let target = &call.next.target;
    let of_operation = |set: &Option<Arc<HookSet>>| set.clone().filter(|set| set.applies(operation));
    let before = of_operation(&target.hooks.request);
    let after = of_operation(&target.hooks.response);
    if before.is_none() && after.is_none() {
        return Ok(());
    }
    if before.iter().chain(&after).any(|set| set.decides()) {
        request_view::check_path(call.incoming.request)?;
    }
    if let Some(after) = after.as_ref().filter(|after| after.decides()) {
        check_readable(operation, &call.incoming, after)?;
    }
    let env = Arc::new(GuardEnv::new(call.engine, call.ctx));
    let of_target = |kept: &Arc<CheckedRequest>| Arc::ptr_eq(&kept.target, target) && !kept.run.denies();
    let checked = match call.kept.checked.clone().filter(of_target) {
        Some(checked) => checked,
        None => {
            let checked =
                check_request(call.engine, call.ctx, &call.incoming, target, before.as_deref(), &env);
            let checked = Arc::new(checked.await?);
            call.kept.checked.insert(checked).clone()
        }
    };
    if checked.run.denies() {
        return Err(denial(&checked.run, &checked.run.results, &[]));
    }
    if let Some(request) = &checked.request {
        call.change_request(Arc::clone(request));
    }
    let is_parallel = before.iter().flat_map(|before| before.waiting()).any(|hook| hook.parallel);
    let shows_results = has_text(operation) && (checked.subject.is_object || is_parallel);
    if after.is_none() && !shows_results {
        // Nothing looks at the response, and nothing is added to it: it need not be held back.
        return Ok(());
    }
    let mut guarded = Box::new(Guarded::new(env, checked, after, call.incoming.streamed));
    call.parts.filters = guarded.filters();
    call.parts.guarded = Some(guarded);
    Ok(())
}

/// # Errors
/// 501 where hooks decide over a response that they could not read.
fn check_readable(operation: Operation, incoming: &Incoming<'_>, after: &HookSet) -> Result<(), Error> {
    let in_background = || {
        let body = incoming.request.body.as_ref();
        operation == Operation::Responses && body.is_some_and(|body| body.is_true("background"))
    };
    let what = if incoming.streamed && !HookSet::reads_streams(operation) {
        "a stream of this operation. Request a whole response, or call the path of a chat"
    } else if in_background() {
        "a response that is made in the background. Leave `background` out"
    } else {
        return Ok(());
    };
    let first = after.hooks.iter().find(|hook| hook.stream_use() != StreamUse::AfterEnd);
    let id = first.map_or("", |hook| &hook.id);
    Err(Error::not_implemented(format!("The guardrail {id} cannot check {what}.")))
}

/// Runs the hooks on the request that it waits for.
///
/// # Errors
/// 501 and 400 where they decide over what they could not read.
async fn check_request(
    engine: &Engine,
    ctx: &RequestContext,
    incoming: &Incoming<'_>,
    target: &Arc<Target>,
    hooks: Option<&HookSet>,
    env: &Arc<GuardEnv>,
) -> Result<CheckedRequest, Error> {
    let operation = ctx.api.operation;
    let request = incoming.request.as_edited_for(target)?;
    let view = RequestView {
        operation,
        request: &request,
        target,
        metadata: ctx.record.named.metadata.as_deref(),
        headers: &incoming.header.headers,
        has_unread_body: !incoming.is_read,
    };
    let read = || view.subject();
    let subject = engine.shared.large_work.run(translation(view.bytes()), read).await;
    let subject = Subject { streamed: incoming.streamed, ..subject };
    let target = Arc::clone(target);
    let is_denied_during_call = AtomicBool::new(false);
    let Some(hooks) = hooks else {
        let run = PhaseRun::default();
        return Ok(CheckedRequest { target, subject, request: None, run, is_denied_during_call });
    };
    view.check(&subject, hooks)?;
    let waits = |hook: &&Hook| !during_call(hook, operation);
    let mut run = env.run(hooks.waiting().filter(waits), &subject).await;
    env.note(HookSide::Request, &run.results);
    let changed = run.changed.take();
    let request = changed.as_ref().and_then(|changed| changed_request(&request, &changed.source));
    let request = request.map(Arc::new);
    let subject = changed.unwrap_or(subject);
    Ok(CheckedRequest { target, subject, request, run, is_denied_during_call })
}

/// Runs the hooks that nothing waits for, when the request is done. `checked`: as the hooks of its last target left it.
pub(in crate::engine) fn finish(
    engine: &Arc<Engine>,
    ctx: &mut RequestContext,
    checked: Option<Arc<CheckedRequest>>,
) {
    let Some(checked) = checked else { return };
    let Some(hooks) = checked.target.hooks.request.clone() else { return };
    if hooks.hooks.iter().any(|hook| hook.asynchronous) {
        let env = Arc::new(GuardEnv::new(engine, ctx));
        let is_denied = checked.is_denied();
        background::run(env, hooks, Hook::is_asynchronous, checked.subject.clone(), is_denied);
    }
}

/// The request with another body: only the members that differ are replaced.
fn changed_request(request: &Request, source: &str) -> Option<Request> {
    let before = request.body.as_ref()?;
    let after = Body::parse(Bytes::from(source.to_owned())).ok()?;
    let removed = before.members().filter(|(name, _)| after.raw(name).is_none());
    let set = after.members().filter(|(name, json)| before.raw(name) != Some(json));
    let edits: Vec<Edit<'_>> = removed
        .map(|(name, _)| Edit::Remove(name))
        .chain(set.map(|(name, json)| Edit::Set(name, Cow::Borrowed(json))))
        .collect();
    let body = Body::parse(before.edit(&edits)).ok()?;
    // A prompt would be rendered anew for its target, and paths to items would name others.
    let mut changed = Request { body: None, prompt: None, is_edited: true, ..request.clone() };
    // Limits, prices and the models of an integration are for the model that is sent, also where the body had none. Where the path
    // names it, a body cannot.
    let named = body.text("model");
    let was = before.text("model");
    let is_new = |named: &str| was.as_deref().map_or(request.model.is_none(), |was| was != named);
    if let Some(named) = named.filter(|named| is_new(named)) {
        (changed.slug, changed.model) = match split_slug(&named) {
            Some((slug, model)) => (Some(slug.to_owned()), Some(model.to_owned())),
            None => (None, Some(named.into_owned())),
        };
    }
    changed.body = Some(body);
    Some(changed)
}
