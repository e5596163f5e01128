//! Guardrails and hooks around one attempt: on the request before the attempt is made of it, on the response before it is committed
//! or while it streams.
//!
//! What a check is and what a hook decides is `guard`'s. Hooks stand around the stages of an attempt and are no stage: they see the client's
//! request and the client's response, not what is sent to the provider. A target without hooks pays one comparison.
//!
//! ```text
//! hooks on the request ──> attempt made, stages, sent ──> decoder ──> windows ──> encoder ──> hooks on the response ──> committed
//!    └─ parallel ones ─────────────────────────────────────────────────────────────────────────────┘      └─ streams: observed, at the end
//! ```

mod background;
mod env;
mod judge;
mod request_view;
mod stream_texts;

pub(super) use env::GuardEnv;

use super::Engine;
use super::downstream::Downstream;
use super::hook_notes::HookSide;
use super::orchestrator::Orchestrator;
use super::request_context::RequestContext;
use bytes::Bytes;
use http::HeaderMap;
use judgment::guard::{
    Hook, HookResult, HookSet, Needs, PhaseRun, StreamUse, Subject, WindowFilter, WindowState, hook_results,
};
use judgment::route::attempt::{Attempt, Request};
use judgment::route::target::Target;
use knowledge::provider::rewriter::TextFilters;
use knowledge::provider::translation::Translation;
use memory::state::large_work::translation;
use request_view::RequestView;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::task::JoinHandle;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::error::Error;

/// The most that is kept of a stream for hooks that look at it when it has ended, bytes.
const MAX_COPY: usize = 1 << 20;

/// A request that the hooks of a target have looked at. Where they pass it, the next attempt at the same target uses it again; where they
/// deny it, it is kept for hooks that run when the request is done.
pub(super) struct CheckedRequest {
    target: Arc<Target>,
    /// As the hooks left it.
    subject: Subject,
    /// The request to send in place of the client's, if they have changed it.
    request: Option<Request>,
    run: PhaseRun,
}

/// The hooks of one attempt.
pub(super) struct Guarded {
    env: Arc<GuardEnv>,
    checked: Arc<CheckedRequest>,
    /// The results of all hooks on the request that have run.
    before: Vec<HookResult>,
    /// Of those, the ones that ran beside the call.
    parallel: Option<JoinHandle<PhaseRun>>,
    after: Option<Arc<HookSet>>,
    windows: Option<Arc<WindowState>>,
    /// The client gets a stream.
    streamed: bool,
    /// How the client's stream is read again.
    reader: Option<Translation>,
    /// What the client got of a stream that is looked at when it has ended.
    copy: Vec<u8>,
    /// The response as it was judged.
    judged: Option<Subject>,
}

impl<D: Downstream> Orchestrator<'_, D> {
    /// Passes the request through the hooks of a target. `None`: it has none for this request.
    ///
    /// # Errors
    /// 446 where a hook denies it.
    pub(super) async fn guard_request(
        &mut self,
        target: &Arc<Target>,
    ) -> Result<Option<Box<Guarded>>, Error> {
        match target.hooks.is_empty() {
            true => Ok(None),
            false => Box::pin(self.pass_hooks(target)).await,
        }
    }

    async fn pass_hooks(&mut self, target: &Arc<Target>) -> Result<Option<Box<Guarded>>, Error> {
        let operation = self.ctx.operation;
        let of_operation = |set: &Option<Arc<HookSet>>| set.clone().filter(|set| set.applies(operation));
        let (before, after) = (of_operation(&target.hooks.request), of_operation(&target.hooks.response));
        if before.is_none() && after.is_none() {
            return Ok(None);
        }
        if before.iter().chain(&after).any(|set| set.decides()) {
            request_view::check_path(&self.request)?;
        }
        if let Some(after) = after.as_ref().filter(|after| after.decides()) {
            self.check_readable(after)?;
        }
        let env = Arc::new(GuardEnv::new(self.engine, self.ctx));
        let kept =
            self.checked.clone().filter(|kept| Arc::ptr_eq(&kept.target, target) && !kept.run.denies());
        let checked = match kept {
            Some(kept) => kept,
            None => {
                let checked = self.check_request(target, before.as_deref(), &env).await?;
                self.checked.insert(Arc::new(checked)).clone()
            }
        };
        if checked.run.denies() {
            return Err(denial(&checked.run, &checked.run.results, &[]));
        }
        let is_parallel = before.iter().flat_map(|before| before.waiting()).any(|hook| hook.parallel);
        let shows_results = has_text(operation) && (checked.subject.is_object || is_parallel);
        if after.is_none() && !shows_results {
            // Nothing looks at the response, and nothing is added to it: it need not be held back.
            return Ok(None);
        }
        let windows = after.as_ref().filter(|_| self.streamed);
        let windows = windows.map(|after| {
            let before = checked.run.results.clone().into();
            WindowState::new(Arc::clone(after), &checked.subject, before, env.fails_on_error())
        });
        Ok(Some(Box::new(Guarded {
            before: checked.run.results.clone(),
            parallel: None,
            env,
            checked,
            after,
            windows,
            streamed: self.streamed,
            reader: None,
            copy: Vec::new(),
            judged: None,
        })))
    }

    /// # Errors
    /// 501 where hooks decide over a response that they could not read.
    fn check_readable(&self, after: &HookSet) -> Result<(), Error> {
        let operation = self.ctx.operation;
        let in_background = || {
            let body = self.request.body.as_ref();
            operation == Operation::Responses && body.is_some_and(|body| body.is_true("background"))
        };
        let what = if self.streamed && !HookSet::reads_streams(operation) {
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
    /// 446 where they deny it; 501 and 400 where they decide over what they could not read.
    async fn check_request(
        &mut self,
        target: &Arc<Target>,
        hooks: Option<&HookSet>,
        env: &Arc<GuardEnv>,
    ) -> Result<CheckedRequest, Error> {
        let has_unread_body = !self.downstream.body_is_complete();
        let request = self.request.as_edited_for(target)?;
        let view = RequestView {
            operation: self.ctx.operation,
            request: &request,
            target,
            metadata: self.ctx.record.metadata.as_deref(),
            headers: &self.downstream.request().headers,
            has_unread_body,
        };
        let read = || view.subject();
        let subject = self.engine.shared.large_work.run(translation(view.bytes()), read).await;
        let subject = Subject { streamed: self.streamed, ..subject };
        if let Some(hooks) = hooks {
            view.check(&subject, hooks)?;
        }
        let Some(hooks) = hooks else {
            let target = Arc::clone(target);
            return Ok(CheckedRequest { target, subject, request: None, run: PhaseRun::default() });
        };
        let operation = self.ctx.operation;
        let waits = |hook: &&Hook| !during_call(hook, operation);
        let mut run = env.run(hooks.waiting().filter(waits), &subject).await;
        env.note(HookSide::Request, &run.results);
        let changed = run.changed.take();
        let request = changed.as_ref().and_then(|changed| changed_request(&request, &changed.source));
        let subject = changed.unwrap_or(subject);
        Ok(CheckedRequest { target: Arc::clone(target), subject, request, run })
    }

    /// Runs the hooks that nothing waits for, when the request is done.
    pub(super) fn finish_hooks(&mut self) {
        let Some(checked) = self.checked.take() else { return };
        let Some(hooks) = checked.target.hooks.request.clone() else { return };
        if hooks.hooks.iter().any(|hook| hook.asynchronous) {
            let env = Arc::new(GuardEnv::new(self.engine, self.ctx));
            background::run(env, hooks, Hook::is_asynchronous, checked.subject.clone());
        }
    }
}

impl Engine {
    /// Has the hooks of a target judge a request that switches protocols. Its messages are not read, so only checks run that need no text.
    ///
    /// # Errors
    /// 446 where a hook denies it, 501 where it needs a model that the request does not name.
    pub async fn guard_upgrade(
        self: &Arc<Self>,
        ctx: &mut RequestContext,
        headers: &HeaderMap,
        request: &Request,
        target: &Arc<Target>,
    ) -> Result<(), Error> {
        let hooks = target.hooks.request.as_ref().filter(|hooks| hooks.applies(request.operation));
        let Some(hooks) = hooks else { return Ok(()) };
        let env = GuardEnv::new(self, ctx);
        let (operation, metadata) = (request.operation, ctx.record.metadata.as_deref());
        // Only HTTP/1.1 switches protocols: its header shows a body.
        let view = RequestView { operation, request, target, metadata, headers, has_unread_body: false };
        let subject = view.subject();
        view.check(&subject, hooks)?;
        let run = env.run(hooks.waiting(), &subject).await;
        env.note(HookSide::Request, &run.results);
        match run.denies() {
            true => Err(denial(&run, &run.results, &[])),
            false => Ok(()),
        }
    }
}

/// Whether a request of an operation has a text to be judged, and its response results to be shown in; on the generic endpoint where its body
/// is a JSON object.
fn has_text(operation: Operation) -> bool {
    Needs::met_by(operation) == Needs::Text
}

/// Whether a hook that the request waits for runs while the target is called, and not before: the response then waits for it. Of an operation
/// without a text no response is held back, so that it runs before.
fn during_call(hook: &Hook, operation: Operation) -> bool {
    hook.parallel && has_text(operation)
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
    let body = Body::parse(before.edit(&edits)).ok()?.with_kept_items_of(before);
    // A prompt would be rendered anew for its target.
    Some(Request { body: Some(body), prompt: None, ..request.clone() })
}

/// The error of hooks that deny. `before` and `after`: the results of both phases.
fn denial(run: &PhaseRun, before: &[HookResult], after: &[HookResult]) -> Error {
    let results = hook_results(before, after).map(|results| results.to_string());
    Error::hooks_failed(run.message.as_deref(), results)
}

impl Guarded {
    /// The request to send in place of the client's.
    pub fn changed_request(&self) -> Option<&Request> {
        self.checked.request.as_ref()
    }

    /// What looks at a stream through windows, and gives redacted text back.
    pub fn filters(&mut self) -> Option<Box<TextFilters>> {
        if !self.streamed {
            return None;
        }
        let mut filters = TextFilters::default();
        // Restoring comes first, as for a document: what is checked is what the client gets.
        if !self.checked.run.placeholders.is_empty() {
            filters.add(Box::new(WindowFilter::restoring(&self.checked.run.placeholders)));
        }
        for filter in self.windows.iter().flat_map(|windows| windows.filters(is_windowed)) {
            filters.add(Box::new(filter));
        }
        (!filters.is_empty()).then(|| Box::new(filters))
    }

    /// The attempt is about to be sent: starts the hooks that run beside it.
    pub fn begin(&mut self, attempt: &Attempt, client: &Request) {
        if self.streamed && self.after.is_some() {
            self.reader = attempt.client_reader(self.changed_request().unwrap_or(client));
        }
        let Some(hooks) = self.checked.target.hooks.request.clone() else { return };
        let operation = self.checked.subject.operation;
        if hooks.waiting().any(|hook| during_call(hook, operation)) {
            let (env, subject) = (Arc::clone(&self.env), self.checked.subject.clone());
            self.parallel = Some(tokio::spawn(async move {
                let run =
                    env.run(hooks.waiting().filter(|hook| during_call(hook, operation)), &subject).await;
                env.note(HookSide::Request, &run.results);
                run
            }));
        }
    }

    /// Whether a response must be complete before any of it is sent.
    pub fn holds(&self, streams: bool) -> bool {
        match streams {
            true => self.after.iter().flat_map(|after| after.waiting()).any(is_holding),
            false => true,
        }
    }

    /// Whether a part of the stream was seen through windows.
    pub fn has_windows(&self) -> bool {
        self.streamed && self.after.iter().flat_map(|after| &after.hooks).any(is_windowed)
    }

    /// Takes what the client got, for hooks that look at it when the stream has ended.
    pub fn copy(&mut self, sent: &[u8]) {
        if self.needs_copy() {
            let room = MAX_COPY.saturating_sub(self.copy.len());
            self.copy.extend_from_slice(sent.get(..room.min(sent.len())).unwrap_or_default());
        }
    }

    fn needs_copy(&self) -> bool {
        self.streamed
            && self.judged.is_none()
            && self.after.iter().flat_map(|after| &after.hooks).any(is_observing)
    }

    /// The results of the hooks on the request, for an error of the provider.
    pub fn before(&self) -> Option<Value> {
        hook_results(&self.before, &[])
    }

    /// Counts and notes what was found through windows.
    fn note_windows(&self) {
        if let Some(windows) = &self.windows {
            self.env.note(HookSide::Response, &windows.results(is_windowed));
        }
    }

    /// The response has ended, however it did: runs the hooks that only observe it.
    pub fn finish(mut self: Box<Self>) {
        let Some(after) = self.after.clone() else { return };
        self.note_windows();
        if !after.hooks.iter().any(is_observing) {
            return;
        }
        match (self.judged.take(), self.reader.take()) {
            // Those that the request waits for have run on it.
            (Some(judged), _) => background::run(Arc::clone(&self.env), after, Hook::is_asynchronous, judged),
            (None, Some(reader)) => {
                let (request, copy) = (self.checked.subject.clone(), std::mem::take(&mut self.copy));
                background::run_on_stream(
                    Arc::clone(&self.env),
                    after,
                    is_observing,
                    (request, reader, copy),
                );
            }
            (None, None) => {}
        }
    }
}

impl Drop for Guarded {
    /// The attempt is over: nobody waits for the hooks beside it.
    fn drop(&mut self) {
        if let Some(parallel) = &self.parallel {
            parallel.abort();
        }
    }
}

/// Whether a hook looks at a stream through a window.
fn is_windowed(hook: &Hook) -> bool {
    hook.stream_use() == StreamUse::Window
}

/// Whether a hook must see the whole stream before the client gets any of it.
fn is_holding(hook: &Hook) -> bool {
    hook.stream_use() == StreamUse::Whole
}

/// Whether a hook looks at a stream when the client has it.
fn is_observing(hook: &Hook) -> bool {
    hook.stream_use() == StreamUse::AfterEnd
}
