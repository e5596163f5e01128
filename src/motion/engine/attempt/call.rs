//! One attempt on its way through the layers: what they see of it, and what they have made of it.
//!
//! Sends nothing: what has passed is opened by `attempt_start`.

use super::answer::{Answer, AnswerKind, Flow, LocalResponse};
use super::ends::{Ending, Ends};
use crate::engine::Engine;
use crate::engine::attempt_run::FinalResponse;
use crate::engine::attempt_state::{AttemptFacts, AttemptState};
use crate::engine::caching::{CacheNote, CachedCall, FlightReader, FlightShare, Launch, NotStored, Similar};
use crate::engine::guarding::{CheckedRequest, Guarded};
use crate::engine::limit_holds::{HeldAttempt, NotHeldAttempt, SealedAttempt, hold_attempt};
use crate::engine::places::{PlaceWait, Places};
use crate::engine::prepare::prepare;
use crate::engine::request_context::RequestContext;
use crate::engine::resume::Resume;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::deadlines::Deadlines;
use judgment::route::outcome::Outcome;
use judgment::route::plan::Reason;
use judgment::route::target::Target;
use judgment::route::vendor_headers::VendorHeaders;
use knowledge::provider::rewriter::TextFilters;
use knowledge::provider::token_exchange::Credentials;
use knowledge::provider::translation::LocalCount;
use memory::state::Shared;
use memory::state::large_work::{run_here, translation};
use pingora::http::RequestHeader;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::chat::TextFilter;
use words::api::token_estimate::CountText;
use words::error::Error;

/// An attempt that is being made.
pub struct AttemptCall<'a> {
    pub engine: &'a Arc<Engine>,
    pub ctx: &'a mut RequestContext,
    pub incoming: Incoming<'a>,
    pub(in crate::engine) next: &'a NextAttempt,
    pub(in crate::engine) kept: &'a mut Kept,
    pub(in crate::engine) started: Instant,
    pub(in crate::engine) state: AttemptState,
    /// How the cache takes part.
    pub(in crate::engine) cache: CacheNote,
    /// The request to send in place of the client's.
    changed: Option<Arc<Request>>,
    made: Made,
    /// What authorizes it.
    pub(in crate::engine) credentials: Option<Credentials>,
    pub(in crate::engine) parts: Parts,
}

/// What the client asked for.
pub struct Incoming<'a> {
    pub request: &'a Request,
    pub header: &'a RequestHeader,
    /// The client requested a stream.
    pub streamed: bool,
    /// All of the client's body was read from its connection.
    pub is_read: bool,
    pub(in crate::engine) all_circuits_open: bool,
}

/// What one attempt of a request leaves to the next.
#[derive(Default)]
pub(in crate::engine) struct Kept {
    /// The first attempt, if it was already made at admission.
    pub prepared: Option<Box<Attempt>>,
    /// The broken stream that the next attempt must continue.
    pub resume: Option<Box<Resume>>,
    /// The request as the hooks of the latest target left it.
    pub checked: Option<Arc<CheckedRequest>>,
    /// What the cache had for the attempt could not be decoded: it is made without.
    pub ignores_stored: bool,
    /// The call of the attempt that a hedge races.
    pub raced: Option<FlightShare>,
    /// The places that it has waited for.
    pub places: Option<Places>,
    /// The vector of its text for this target, made before it waited.
    pub probed: Option<(Arc<Target>, Arc<Similar>)>,
    /// The targets, by their paths, that have refused the form of the request once.
    pub reformed: Vec<String>,
}

/// What layers have laid around the response.
#[derive(Default)]
pub(in crate::engine) struct Parts {
    /// What hooks have found, and have yet to judge.
    pub guarded: Option<Box<Guarded>>,
    /// Filters over the text of the response, boxed because few responses have any.
    pub filters: Option<Box<TextFilters>>,
    /// The call that others may read along with.
    pub shared: Option<Box<(CachedCall, Launch, FlightReader)>>,
    /// Its places at the target, if that has so many.
    pub places: Option<Places>,
    pub ends: Ends,
}

/// How far an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There is a request.
    Request,
    /// The attempt is made from it.
    Made,
    /// Its limits hold what it may use.
    Held,
}

/// Boxed, because it is moved often and large.
enum Made {
    Nothing,
    /// With the request that it was made from, where that is one that continues a broken stream.
    Attempt(Box<Attempt>, Option<Box<Request>>),
    Held(HeldAttempt),
}

/// The next attempt.
#[derive(Debug, Clone)]
pub(in crate::engine) struct NextAttempt {
    pub target: Arc<Target>,
    pub wait: Duration,
    pub reason: Reason,
}

/// An attempt that was not sent.
pub(in crate::engine) struct NotStarted {
    pub outcome: Outcome,
    pub response: FinalResponse,
    pub facts: AttemptFacts,
}

/// What is not passed on.
pub(in crate::engine) enum NotPassed {
    NotStarted(Box<NotStarted>),
    /// It waits for a place, and passes the layers again.
    Queued(Box<PlaceWait>),
}

impl From<NotStarted> for NotPassed {
    fn from(not_started: NotStarted) -> Self {
        Self::NotStarted(Box::new(not_started))
    }
}

/// An attempt that has passed its layers.
pub(in crate::engine) struct Passed {
    pub attempt: Arc<Attempt>,
    pub way: Way,
    pub state: AttemptState,
    pub cache: CacheNote,
    pub parts: Parts,
}

/// Where its response comes from.
pub(in crate::engine) enum Way {
    Target(SealedAttempt),
    Answer(AnswerKind),
}

impl<'a> AttemptCall<'a> {
    pub(in crate::engine) fn new(
        engine: &'a Arc<Engine>,
        ctx: &'a mut RequestContext,
        incoming: Incoming<'a>,
        next: &'a NextAttempt,
        kept: &'a mut Kept,
    ) -> Self {
        Self {
            engine,
            ctx,
            incoming,
            next,
            kept,
            started: Instant::now(),
            state: AttemptState::default(),
            cache: CacheNote::default(),
            changed: None,
            made: Made::Nothing,
            credentials: None,
            parts: Parts::default(),
        }
    }

    /// The request to send.
    pub fn request(&self) -> &Request {
        self.changed.as_deref().unwrap_or(self.incoming.request)
    }

    /// The attempt, once it is made.
    pub fn attempt(&self) -> Option<&Attempt> {
        match &self.made {
            Made::Nothing => None,
            Made::Attempt(attempt, _) => Some(attempt),
            Made::Held(held) => Some(held.attempt()),
        }
    }

    /// The headers that are sent in addition to the client's, once the attempt is made.
    pub fn vendor_headers(&mut self) -> Option<&mut VendorHeaders> {
        match &mut self.made {
            Made::Nothing => None,
            Made::Attempt(attempt, _) => Some(&mut attempt.vendor_headers),
            Made::Held(held) => Some(held.vendor_headers()),
        }
    }

    /// Sends another request. An attempt that was made of the one before is dropped with what it holds: it is made and held anew.
    pub fn change_request(&mut self, request: Arc<Request>) {
        if let Made::Held(_) = std::mem::replace(&mut self.made, Made::Nothing) {
            self.ctx.limits.release_attempt(&self.next.target);
        }
        self.changed = Some(request);
    }

    /// Adds a filter over the text of the response. A response that would pass unchanged is then decoded and encoded again; where that is
    /// not possible, the attempt is refused before it is sent.
    pub fn add_filter(&mut self, filter: Box<dyn TextFilter>) {
        self.parts.filters.get_or_insert_default().add(filter);
    }

    /// Has something done when the attempt ended, or is dropped.
    pub fn on_end(&mut self, end: Box<dyn FnOnce(Ending) + Send + Sync>) {
        self.parts.ends.add(end);
    }

    /// When its response must have begun.
    pub fn deadline(&self) -> Option<Instant> {
        let target = &self.next.target;
        let total = Deadlines::total(target, self.ctx.span.started);
        let limit = target.policies.request_timeout.map(|limit| self.started + limit);
        limit.into_iter().chain(total).min()
    }

    /// Whether its target is called for it: it is none that the gateway, or a batch job, has responded to.
    pub(crate) fn calls_target(&self) -> bool {
        let is_counted = self.attempt().is_some_and(|attempt| attempt.local_count.is_some());
        self.ctx.offline.given.is_none() && !is_counted
    }

    /// Whether limits have to hold what it may use.
    pub fn is_judged(&self) -> bool {
        let continuing = match &self.made {
            Made::Attempt(_, continuing) => continuing.as_deref(),
            Made::Nothing | Made::Held(_) => None,
        };
        let request = continuing.unwrap_or(self.request());
        self.ctx.limits.judge(&self.next.target, request, self.ctx.is_charged())
    }

    /// Makes and holds the attempt as far as a layer needs it. `Err`: what follows instead.
    pub(in crate::engine) async fn bring_to(&mut self, step: Step) -> Result<(), Flow> {
        if step == Step::Request {
            return Ok(());
        }
        if let Made::Nothing = self.made {
            self.make().await?;
        }
        match step {
            Step::Held => self.hold().await,
            Step::Request | Step::Made => Ok(()),
        }
    }

    /// Makes the attempt from the request, or takes the one made at admission.
    async fn make(&mut self) -> Result<(), Flow> {
        let target = &self.next.target;
        let request = self.changed.as_deref().unwrap_or(self.incoming.request);
        // The one made at admission is for the first target, whose layers may have refused it before it was taken.
        let prepared = self.kept.prepared.take();
        let prepared = prepared.filter(|made| self.changed.is_none() && Arc::ptr_eq(&made.target, target));
        let made = match (&mut self.kept.resume, prepared) {
            (Some(resume), _) => {
                let size = request.body.as_ref().map_or(0, |body| body.bytes().len());
                // The client gets the error that broke its stream, not the reason why it could not be continued.
                run_here(translation(size), || resume.attempt(target, request))
                    .map(|(attempt, continuing)| (Box::new(attempt), continuing))
                    .map_err(|_| Flow::NotResumed(resume.error()))
            }
            (None, Some(prepared)) => Ok((prepared, None)),
            (None, None) => {
                let made = prepare(&self.engine.shared, target, request, &mut self.ctx.load.held).await;
                made.map(|attempt| (attempt, None))
                    .map_err(|error| Flow::Refuse(Outcome::Unsupported(error.status()), error))
            }
        };
        let (mut attempt, continuing) = made?;
        if self.incoming.all_circuits_open {
            let warning = "every circuit is open or every provider drained or warming up, the least bad target was tried";
            attempt.warnings.push(warning.to_owned());
        }
        self.made = Made::Attempt(attempt, continuing.map(Box::new));
        Ok(())
    }

    /// Has the limits hold what the attempt may use. One that is fitted into what a limit has left is made again.
    async fn hold(&mut self) -> Result<(), Flow> {
        let (attempt, continuing) = match std::mem::replace(&mut self.made, Made::Nothing) {
            Made::Attempt(attempt, continuing) => (attempt, continuing),
            made => {
                self.made = made;
                return Ok(());
            }
        };
        let request = self.changed.as_deref().unwrap_or(self.incoming.request);
        let request = continuing.as_deref().unwrap_or(request);
        let may_fit = self.kept.resume.is_none();
        match hold_attempt(self.engine, self.ctx, request, attempt, may_fit).await {
            Ok(held) => {
                self.made = Made::Held(held);
                Ok(())
            }
            Err(NotHeldAttempt::Refused(error)) => Err(Flow::Refuse(Outcome::Limited(error.status()), error)),
            Err(NotHeldAttempt::TooLong) => {
                let error = self.kept.resume.as_ref().map(|resume| resume.error());
                let error = error.unwrap_or_else(|| Error::internal("held for less"));
                Err(Flow::Refuse(Outcome::Limited(error.status()), error))
            }
        }
    }

    /// The attempt with all that its layers have made of it.
    ///
    /// # Errors
    /// It is not sent: what the plan sees, and what the client gets if nothing follows.
    pub(in crate::engine) async fn finish(mut self, flow: Flow) -> Result<Passed, NotPassed> {
        let answer = match flow {
            Flow::Continue => self.own_answer().await,
            Flow::Respond(Answer(answer)) => Some(answer),
            Flow::Queue(wait) => return Err(NotPassed::Queued(wait)),
            Flow::Deny(error) => {
                let outcome = Outcome::from_status(error.status());
                return Err(self.not_sent(outcome, error, FinalResponse::Denied).into());
            }
            Flow::Refuse(outcome, error) => {
                return Err(self.not_sent(outcome, error, FinalResponse::Error).into());
            }
            Flow::NotResumed(error) => {
                let outcome = Outcome::Unsupported(error.status());
                let response = FinalResponse::Error(error);
                return Err(NotStarted { outcome, response, facts: self.ctx.facts.clone() }.into());
            }
        };
        if self.parts.filters.is_some() {
            let request = self.incoming.request;
            let is_local = matches!(answer, Some(AnswerKind::Own(_)));
            let decoded = match &mut self.made {
                Made::Nothing => Ok(()),
                Made::Attempt(attempt, _) => attempt.decode_response(request, is_local),
                Made::Held(held) => held.decode_response(request, is_local),
            };
            if let Err(error) = decoded {
                let outcome = Outcome::Unsupported(error.status());
                return Err(self.not_sent(outcome, error, FinalResponse::Error).into());
            }
        }
        // Not before the attempt is certain: its target would be called without it.
        let answer = answer.or_else(|| self.ctx.offline.given.take().map(AnswerKind::Given));
        let span = self.ctx.span.of_attempt(&self.engine.shared);
        let Self { made, mut parts, state, mut cache, credentials, .. } = self;
        let (attempt, way) = match (made, answer) {
            (Made::Held(held), None) => {
                let sealed = held.seal(credentials, span);
                (Arc::clone(sealed.attempt()), Way::Target(sealed))
            }
            (Made::Held(held), Some(answer)) => {
                (Arc::clone(held.seal(credentials, span).attempt()), Way::Answer(answer))
            }
            (Made::Attempt(mut attempt, _), Some(answer)) => {
                attempt.trace_parent = span;
                (Arc::from(attempt), Way::Answer(answer))
            }
            (Made::Attempt(..) | Made::Nothing, _) => {
                let error = Error::internal("an attempt that was not held");
                let response = FinalResponse::Error(error);
                let facts = AttemptFacts::default();
                return Err(NotStarted { outcome: Outcome::Failed, response, facts }.into());
            }
        };
        if parts.shared.as_ref().is_some_and(|shared| !shared.1.is_of(attempt.body.as_ref())) {
            // It is not the response to the request that was looked up.
            parts.shared = None;
            cache.stored = Some(Err(NotStored::Changed));
        }
        Ok(Passed { attempt, way, state, cache, parts })
    }

    /// It is not sent, for this reason. `response`: what the client gets if nothing follows.
    fn not_sent(self, outcome: Outcome, error: Error, response: fn(Error) -> FinalResponse) -> NotStarted {
        let Self { ctx, incoming, next, made, state, cache, .. } = self;
        let attempt = match made {
            Made::Nothing => None,
            Made::Attempt(attempt, _) => Some(Arc::from(attempt)),
            Made::Held(held) => {
                ctx.limits.release_attempt(&next.target);
                Some(Arc::clone(held.seal(None, None).attempt()))
            }
        };
        match &attempt {
            Some(attempt) => ctx.record.attempt_finished(attempt, state, next.reason, Some(&error)),
            None => ctx.record.attempt_unsupported(&next.target, next.reason, incoming.request, &error),
        }
        let facts = AttemptFacts { attempt, state, cache, ..AttemptFacts::default() };
        NotStarted { outcome, response: response(error), facts }
    }

    /// The gateway's own response, where the target cannot make it.
    async fn own_answer(&self) -> Option<AnswerKind> {
        let count = self.attempt().and_then(|attempt| attempt.local_count.as_ref())?;
        Some(AnswerKind::Own(self.count(count).await))
    }

    /// Counts the tokens of a request for a provider that cannot.
    async fn count(&self, count: &LocalCount) -> LocalResponse {
        let Shared { tokenizer, large_work, .. } = &*self.engine.shared;
        let text = |text: &str| tokenizer.count(text);
        let body = if self.ctx.snapshot.settings.usage.tokenizer {
            tokenizer.run(large_work, count.bytes(), || count.response(&CountText::By(&text))).await
        } else {
            count.response(&CountText::ByRule)
        };
        LocalResponse { content_type: "application/json", body: body.into() }
    }
}
