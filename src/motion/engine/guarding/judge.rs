//! The hooks on a response that may be committed, and what becomes of it.
//!
//! Nothing was sent to the client yet: a denial is an outcome that the plan sees (446), and so is a failed hook where the config lists 246.

use super::{Guarded, denial, is_windowed, stream_texts};
use crate::engine::attempt_run::AttemptRun;
use crate::engine::content_kind::ContentKind;
use crate::engine::hook_notes::HookSide;
use crate::engine::response_body::ResponseBody;
use futures_util::future::join_all;
use judgment::guard::{Hook, HookResult, HookResults, HookSet, PhaseRun, Placeholders, Subject, restored};
use memory::state::large_work::translation;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use words::api::Dialect;
use words::api::sse::write_event;
use words::error::Error;
use words::json::splice::append_member;

/// The status of a response whose hooks failed and do not deny.
pub(in crate::engine) const HOOKS_FAILED: u16 = 246;

/// What the hooks decide.
pub(in crate::engine) enum Judged {
    Passes { has_failed: bool },
    Denied(Error),
}

impl Guarded {
    /// Has the hooks judge a response that may be committed.
    pub(in crate::engine) async fn judge_response(
        &mut self,
        run: &mut AttemptRun,
        dialect: Dialect,
        shows_results: bool,
    ) -> Judged {
        if let Some(parallel) = &mut self.parallel {
            let passed = parallel.await.unwrap_or_default();
            self.parallel = None;
            self.joined = Some(self.before().iter().chain(&passed.results).cloned().collect());
            if passed.denies() {
                self.checked.is_denied_during_call.store(true, Ordering::Relaxed);
                // No hook looks at a stream of which the client gets nothing.
                self.reader = None;
                return Judged::Denied(denial(&passed, self.before(), &[]));
            }
        }
        let Some((_, body)) = run.response() else {
            return Judged::Passes { has_failed: self.has_failed(&[]) };
        };
        let decides = self.after.as_ref().is_some_and(|after| after.decides());
        match (body.shape.streams, body.shape.kind) {
            (true, _) if decides && self.reader.is_none() => unreadable("is a stream"),
            (_, ContentKind::Compressed) if self.after.is_some() => unreadable("is compressed"),
            (true, _) => self.judge_stream(body, dialect, shows_results).await,
            // Whatever its header says: providers send JSON as plain text, and what the client gets may have been made of something else.
            (false, _) => self.judge_document(body, decides).await,
        }
    }

    /// Whether a hook on the request or on the response has failed.
    fn has_failed(&self, after: &[HookResult]) -> bool {
        self.before().iter().chain(after).any(|result| !result.verdict)
    }

    /// `decides`: a hook does, so that a response which cannot be read is denied.
    async fn judge_document(&mut self, body: &mut ResponseBody, decides: bool) -> Judged {
        let mut bytes = body.take_ready();
        if self.after.is_none() && self.checked.run.placeholders.is_empty() {
            let added = || self.with_results(&bytes, &[]);
            let added = self.env.large_work().run(translation(bytes.len()), added).await;
            body.put_ready(added.unwrap_or(bytes));
            return Judged::Passes { has_failed: self.has_failed(&[]) };
        }
        let request = self.checked.subject.clone();
        let read = || Some(request.with_response(document(&bytes)?)).filter(|subject| subject.is_object);
        let subject = self.env.large_work().run(translation(bytes.len()), read).await;
        let Some(mut subject) = subject else {
            if decides && !bytes.trim_ascii().is_empty() {
                return unreadable("is no JSON object");
            }
            body.put_ready(bytes);
            return Judged::Passes { has_failed: self.has_failed(&[]) };
        };
        let source = Arc::clone(&subject.source);
        self.restore(&mut subject);
        let mut passed = PhaseRun::default();
        if let Some(after) = self.after.clone() {
            passed = self.run_on_choices(&after, |_| true, &subject).await;
            self.env.note(HookSide::Response, &passed.results);
        }
        if passed.denies() {
            self.judged = Some(passed.changed.take().unwrap_or(subject));
            self.is_denied = true;
            return Judged::Denied(denial(&passed, self.before(), &passed.results));
        }
        let subject = passed.changed.take().unwrap_or(subject);
        if subject.source != source {
            bytes = subject.source.as_bytes().to_vec();
        }
        bytes = self.with_results(&bytes, &passed.results).unwrap_or(bytes);
        body.put_ready(bytes);
        self.judged = Some(subject);
        Judged::Passes { has_failed: self.has_failed(&passed.results) }
    }

    /// A response with what hooks found on both sides. `None`: nothing was found, or it is no JSON object.
    fn with_results(&self, response: &[u8], after: &[HookResult]) -> Option<Vec<u8>> {
        let results = HookResults::of(self.before(), after)?.to_json()?;
        append_member(response, "hook_results", &results)
    }

    /// Runs hooks that the response waits for. Each choice is judged by itself, and one that fails is enough: the result is that of the
    /// first choice for which a hook fails, else that of the first choice.
    async fn run_on_choices(
        &self,
        after: &HookSet,
        which: impl Fn(&&Hook) -> bool,
        subject: &Subject,
    ) -> PhaseRun {
        let others = subject.other_choices();
        let choices: Vec<&Subject> = std::iter::once(subject).chain(&others).collect();
        // One choice is kept from there by the order of the hooks themselves.
        if !others.is_empty()
            && let Some(denied) = self.denied_by_workspace(after, &which, &choices).await
        {
            return denied;
        }
        // At the same time, so that many choices take no longer than a check may.
        let runs =
            join_all(choices.into_iter().map(|choice| self.env.run(after.waiting().filter(&which), choice)))
                .await;
        let mut runs = runs.into_iter();
        let mut passed = runs.next().unwrap_or_default();
        runs.for_each(|run| passed.take_failures(run));
        passed
    }

    /// What the workspace's hooks deny in any of several choices, where a hook of the config would send the whole response to another server:
    /// it is not sent there.
    async fn denied_by_workspace(
        &self,
        after: &HookSet,
        which: &impl Fn(&&Hook) -> bool,
        choices: &[&Subject],
    ) -> Option<PhaseRun> {
        if !after.waiting().filter(which).any(Hook::sends_outside_for_config) {
            return None;
        }
        let own = |hook: &&Hook| which(hook) && hook.is_of_workspace;
        let runs = join_all(choices.iter().map(|choice| self.env.run(after.waiting().filter(own), choice)));
        runs.await.into_iter().find(PhaseRun::denies)
    }

    /// Gives redacted texts of the request back where the response has their placeholders.
    fn restore(&self, subject: &mut Subject) {
        let placeholders = &self.checked.run.placeholders;
        if !placeholders.is_empty() {
            let placeholders = Placeholders::new(placeholders);
            let texts = subject.texts.iter().map(|text| restored(&text.text, &placeholders)).collect();
            subject.apply(&judgment::guard::Change::Texts(texts));
        }
    }

    async fn judge_stream(
        &mut self,
        body: &mut ResponseBody,
        dialect: Dialect,
        shows_results: bool,
    ) -> Judged {
        let mut passed = PhaseRun::default();
        if let Some(after) = self.after.clone().filter(|_| self.holds(true)) {
            passed = match self.judge_held(body, &after).await {
                Ok(passed) => passed,
                Err(denied) => return denied,
            };
        }
        let results = HookResults::of(self.before(), &passed.results).filter(|_| shows_results);
        if let Some(results) = results.and_then(HookResults::to_json) {
            let name = matches!(dialect, Dialect::Anthropic | Dialect::Responses);
            let mut event = Vec::new();
            let name = name.then_some("hook_results");
            write_event(&mut event, name, format!("{{\"hook_results\":{results}}}").as_bytes());
            event.extend_from_slice(&body.take_ready());
            body.put_ready(event);
        }
        Judged::Passes { has_failed: self.has_failed(&passed.results) }
    }

    /// Judges a stream that was held back. What is left of it is what was read: the provider's own bytes may have more than that.
    async fn judge_held(&mut self, body: &mut ResponseBody, after: &HookSet) -> Result<PhaseRun, Judged> {
        let bytes = body.take_ready();
        let id = self.env.trace_id();
        let Some(reader) = &self.reader else { return Err(unreadable("is a stream")) };
        let read = stream_texts::read(reader, &bytes, id);
        // A stream that broke off ends with its error, behind what was read of it.
        if !read.is_complete && body.error().is_none() {
            return Err(unreadable("is no complete stream of its dialect"));
        }
        let subject = self.checked.subject.clone().with_stream(read.texts);
        let which = |hook: &&Hook| !is_windowed(hook);
        let mut passed = self.run_on_choices(after, which, &subject).await;
        self.env.note(HookSide::Response, &passed.results);
        if passed.denies() {
            self.judged = Some(passed.changed.take().unwrap_or(subject));
            self.is_denied = true;
            return Err(Judged::Denied(denial(&passed, self.before(), &passed.results)));
        }
        let mut changed = passed.changed.take();
        if let Some(subject) = &changed {
            // The workspace's hooks that saw the stream through windows judge the finished text again.
            let which = |hook: &&Hook| is_windowed(hook) && hook.is_of_workspace;
            let again = self.env.run(after.waiting().filter(which), subject).await;
            if again.denies() {
                let error = denial(&again, self.before(), &again.results);
                self.judged = changed;
                self.is_denied = true;
                return Err(Judged::Denied(error));
            }
            changed = again.changed.or(changed);
        }
        let written = match &changed {
            Some(changed) => stream_texts::replace(reader, &bytes, id, changed.stream_texts()),
            None => Some(read.written),
        };
        let Some(written) = written else {
            let error = "The response could not be written again after a guardrail has changed it.";
            return Err(Judged::Denied(Error::hooks_failed(Some(error), None)));
        };
        body.put_ready(written);
        self.judged = Some(changed.unwrap_or(subject));
        Ok(passed)
    }
}

/// The denial of a response that hooks decide over and cannot read. `what`: why not.
fn unreadable(what: &str) -> Judged {
    let message = format!("The response {what}, and the guardrails of the config cannot read it.");
    Judged::Denied(Error::hooks_failed(Some(&message), None))
}

/// The text of a document; `None`: it is none.
fn document(bytes: &[u8]) -> Option<&str> {
    Some(std::str::from_utf8(bytes).ok()?.trim_start_matches('\u{feff}').trim())
}
