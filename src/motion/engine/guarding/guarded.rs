//! The hooks of one attempt: what they found on its request, and what they have yet to judge of its response.
//!
//! How a response is judged: `judge`.

use super::background;
use super::env::GuardEnv;
use super::{during_call, is_holding, is_observing, is_windowed};
use crate::engine::hook_notes::HookSide;
use judgment::guard::{Hook, HookResult, HookResults, HookSet, PhaseRun, Subject, WindowFilter, WindowState};
use judgment::route::attempt::{Attempt, Request};
use judgment::route::target::Target;
use knowledge::provider::rewriter::TextFilters;
use knowledge::provider::translation::Translation;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinHandle;

/// The most that is kept of a stream for hooks that look at it when it has ended, bytes.
const MAX_COPY: usize = 1 << 20;

/// A request that the hooks of a target have looked at. Where they pass it, the next attempt at the same target uses it again; where they
/// deny it, it is kept for hooks that run when the request is done.
pub(in crate::engine) struct CheckedRequest {
    pub(super) target: Arc<Target>,
    /// As the hooks left it.
    pub(super) subject: Subject,
    /// The request to send in place of the client's, if they have changed it.
    pub(super) request: Option<Arc<Request>>,
    pub(super) run: PhaseRun,
    /// A hook that ran during the call has denied it.
    pub(super) is_denied_during_call: AtomicBool,
}

impl CheckedRequest {
    /// Whether a hook has denied the request, before the call or during it.
    pub(super) fn is_denied(&self) -> bool {
        self.run.denies() || self.is_denied_during_call.load(Ordering::Relaxed)
    }
}

/// The hooks of one attempt.
pub(in crate::engine) struct Guarded {
    pub(super) env: Arc<GuardEnv>,
    pub(super) checked: Arc<CheckedRequest>,
    /// The results of all hooks on the request, where some ran beside the call.
    pub(super) joined: Option<Vec<HookResult>>,
    /// Of those, the ones that ran beside the call.
    pub(super) parallel: Option<JoinHandle<PhaseRun>>,
    pub(super) after: Option<Arc<HookSet>>,
    pub(super) windows: Option<Arc<WindowState>>,
    /// The client gets a stream.
    pub(super) streamed: bool,
    /// How the client's stream is read again.
    pub(super) reader: Option<Translation>,
    /// What the client got of a stream that is looked at when it has ended.
    pub(super) copy: Vec<u8>,
    /// The response as it was judged.
    pub(super) judged: Option<Subject>,
    /// It was denied.
    pub(super) is_denied: bool,
}

impl Guarded {
    /// The hooks of an attempt at a target whose request they have passed.
    pub fn new(
        env: Arc<GuardEnv>,
        checked: Arc<CheckedRequest>,
        after: Option<Arc<HookSet>>,
        streamed: bool,
    ) -> Self {
        let windows = after.as_ref().filter(|_| streamed).map(|after| {
            let before = checked.run.results.clone().into();
            WindowState::new(Arc::clone(after), &checked.subject, before, env.fails_on_error())
        });
        Self {
            joined: None,
            parallel: None,
            env,
            checked,
            after,
            windows,
            streamed,
            reader: None,
            copy: Vec::new(),
            judged: None,
            is_denied: false,
        }
    }

    fn changed_request(&self) -> Option<&Request> {
        self.checked.request.as_deref()
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
            let env = Arc::clone(&self.env);
            let subject = self.checked.subject.clone();
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
        if streams { self.after.iter().flat_map(|after| after.waiting()).any(is_holding) } else { true }
    }

    /// Whether a part of the stream was seen through windows.
    pub(crate) fn has_windows(&self) -> bool {
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

    /// The results of all hooks on the request that have run.
    pub(super) fn before(&self) -> &[HookResult] {
        self.joined.as_deref().unwrap_or(&self.checked.run.results)
    }

    /// The same, for an error of the provider.
    pub fn for_error(&self) -> Option<HookResults<'_>> {
        HookResults::of(self.before(), &[])
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
            (Some(judged), _) => {
                let env = Arc::clone(&self.env);
                background::run(env, after, Hook::is_asynchronous, judged, self.is_denied);
            }
            (None, Some(reader)) => {
                let request = self.checked.subject.clone();
                let copy = std::mem::take(&mut self.copy);
                let env = Arc::clone(&self.env);
                background::run_on_stream(env, after, is_observing, request, &reader, &copy);
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
