//! Starts one attempt: makes it from the request, passes it through hooks and stages, and opens its exchange.
//!
//! Does not wait for the response (`attempt_run`) and does not decide what follows (`orchestrator`).

use super::attempt_run::{AttemptRun, FinalResponse, ResponseSource, RunSettings};
use super::attempt_state::AttemptState;
use super::caching::{CacheNote, CachedCall, LookUp, NotStored};
use super::downstream::Downstream;
use super::downstream_watch::DownstreamWatch;
use super::guarding::Guarded;
use super::opener::{Opener, RequestBody};
use super::orchestrator::{NextAttempt, Orchestrator, Started};
use super::peer_selection::PeerSelection;
use super::response_policy::ResponsePolicy;
use super::stages::{Flow, LocalResponse, StageCall};
use super::upstream_headers::UpstreamHeaders;
use super::upstream_stream::UpstreamStream;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::deadlines::Deadlines;
use judgment::route::outcome::Outcome;
use knowledge::provider::rewriter::TextFilters;
use knowledge::provider::token_exchange::Credentials;
use knowledge::provider::translation::LocalCount;
use memory::state::Shared;
use memory::state::large_work::{run_here, translation};
use memory::state::targets::Permit;
use std::sync::Arc;
use std::time::Instant;
use words::api::token_estimate::CountText;
use words::config::policies::{Replay, StreamRescue};
use words::error::{Error, Kind};

/// The result of passing an attempt through its stages.
struct StagesPassed {
    flow: Flow,
    credentials: Option<Credentials>,
    filters: Option<Box<TextFilters>>,
}

impl StagesPassed {
    fn new(flow: Flow) -> Self {
        Self { flow, credentials: None, filters: None }
    }
}

/// An exchange, and how it was opened.
struct Opened {
    stream: UpstreamStream,
    watch: DownstreamWatch,
    permit: Option<Permit>,
    source: ResponseSource,
    cached: Option<CachedCall>,
}

impl Opened {
    fn new(stream: UpstreamStream, source: ResponseSource) -> Self {
        Self { stream, watch: DownstreamWatch::default(), permit: None, source, cached: None }
    }
}

impl<D: Downstream> Orchestrator<'_, D> {
    /// Makes the attempt, passes it through its target's stages, and sends it.
    pub async fn start(&mut self, next: &NextAttempt) -> Started {
        let (started, mut state) = (Instant::now(), AttemptState::default());
        let mut guarded = match self.guard_request(&next.target).await {
            Ok(guarded) => guarded,
            Err(error) => return self.denied(next, error),
        };
        let mut attempt = match self.make_attempt(next, guarded.as_deref()).await {
            Ok(attempt) => attempt,
            Err(error) => {
                return Started::Failed(Outcome::Unsupported(error.status()), FinalResponse::Error(error));
            }
        };
        let mut cached = self.find_cached(&attempt, guarded.as_deref()).await;
        if cached.calls_target() && self.ctx.limits.judge_attempts() {
            let sent = attempt.body.clone();
            if let Err(error) = Box::pin(self.reserve(next, &mut attempt, guarded.as_deref())).await {
                return Started::Failed(Outcome::Limited(error.status()), FinalResponse::Error(error));
            }
            if attempt.body != sent {
                // It is not the response to this request any more.
                cached = LookUp::Disabled;
                self.ctx.cache.stored = self.ctx.cache.mode.map(|_| Err(NotStored::Changed));
            }
        }
        let passed = match &attempt.local_count {
            // The gateway makes this response itself, without calling the target.
            Some(count) => StagesPassed::new(Flow::Respond(self.count(count).await)),
            None if !cached.calls_target() || self.ctx.given.is_some() => {
                self.filtered(&mut attempt, guarded.as_deref_mut())
            }
            None if guarded.is_some() || self.engine.has_stages(&attempt) => {
                let filters = guarded.as_mut().and_then(|guarded| guarded.filters());
                Box::pin(self.pass_stages(&mut attempt, &mut state, started, filters)).await
            }
            None => StagesPassed::new(Flow::Continue),
        };
        let StagesPassed { flow, credentials, filters } = passed;
        attempt.fetched = credentials.clone().map(Box::new);
        attempt.trace_parent = self.ctx.new_span(&self.engine.shared);
        let attempt = Arc::new(attempt);
        self.ctx.attempt = Some(Arc::clone(&attempt));
        self.ctx.attempt_state = state;
        let opened = match flow {
            Flow::Continue => self.open(&attempt, credentials.as_ref(), state, cached),
            Flow::Respond(response) => {
                let stream = UpstreamStream::local(self.engine, &next.target, response, state);
                Opened::new(stream, ResponseSource::Gateway)
            }
            Flow::Refuse(outcome, error) => {
                self.ctx.record.attempt_finished(&attempt, state, next.reason, Some(&error));
                return Started::Failed(outcome, FinalResponse::Error(error));
            }
        };
        if let Some(guarded) = &mut guarded {
            guarded.begin(&attempt, &self.request);
        }
        let Opened { stream, watch, permit, source, cached } = opened;
        let settings =
            RunSettings { source, cached, filters, guarded, ..self.run_settings(next, permit, started) };
        Started::Running(AttemptRun::new(attempt, stream, settings), watch)
    }

    /// What the cache has for an attempt; nothing for one whose response is given.
    async fn find_cached(&mut self, attempt: &Attempt, guarded: Option<&Guarded>) -> LookUp {
        match attempt.target.policies.cache {
            Some(policy) if self.ctx.given.is_none() => {
                Box::pin(self.look_up(policy, attempt, guarded)).await
            }
            _ => LookUp::Disabled,
        }
    }

    /// The filters of a response that is not the target's answer to this request: no other stage has a part in it.
    fn filtered(&self, attempt: &mut Attempt, guarded: Option<&mut Guarded>) -> StagesPassed {
        let filters = guarded.and_then(Guarded::filters);
        if filters.is_some()
            && let Err(error) = attempt.decode_response(&self.request, false)
        {
            return StagesPassed::new(Flow::Refuse(Outcome::Unsupported(error.status()), error));
        }
        StagesPassed { filters, ..StagesPassed::new(Flow::Continue) }
    }

    /// Opens the exchange of an attempt: with what a batch job has given, with its target, with a call of another request, or with the cache.
    fn open(
        &mut self,
        attempt: &Arc<Attempt>,
        credentials: Option<&Credentials>,
        mut state: AttemptState,
        cached: LookUp,
    ) -> Opened {
        let target = &attempt.target;
        if let Some(given) = self.ctx.given.take() {
            let stream = UpstreamStream::given(self.engine, target, *given, state);
            return Opened::new(stream, ResponseSource::BatchJob);
        }
        let launch = match cached {
            LookUp::Hit(found) => {
                let is_paced = target.policies.cache.is_some_and(|cache| cache.replay == Replay::Paced);
                let stream = UpstreamStream::replayed(self.engine, target, &found, is_paced);
                return Opened::new(stream, ResponseSource::Cache);
            }
            LookUp::Shared(shared) => {
                let (call, reader) = *shared;
                state.sent_at.get_or_insert_with(Instant::now);
                let stream = UpstreamStream::shared(self.engine, target, reader, state);
                return Opened { cached: Some(call), ..Opened::new(stream, ResponseSource::Provider) };
            }
            LookUp::Miss(launch) => Some(*launch),
            LookUp::Disabled => None,
        };
        let breaker = target.policies.breaker.as_ref();
        let permit = breaker.map(|_| self.env.target_state(target).enter(Instant::now()));
        let (mut stream, watch) = self.open_stream(attempt, credentials, state);
        let mut cached = None;
        if let Some((call, launch, reader)) = launch {
            let held = self.engine.shared.held_bytes.holder();
            let state = stream.state();
            launch.start(stream, held);
            stream = UpstreamStream::shared(self.engine, target, reader, state);
            cached = Some(call);
        }
        Opened { stream, watch, permit, source: ResponseSource::Provider, cached }
    }

    /// Holds the attempt in the limits of its target. One that is fitted into what a limit has left is made again.
    async fn reserve(
        &mut self,
        next: &NextAttempt,
        attempt: &mut Attempt,
        guarded: Option<&Guarded>,
    ) -> Result<(), Error> {
        let may_fit = self.resume.is_none();
        let request = guarded.and_then(Guarded::changed_request).unwrap_or(&self.request);
        let reserved = self.engine.reserve_attempt(self.ctx, request, attempt, may_fit).await;
        reserved.inspect_err(|error| {
            self.ctx.record.attempt_unsupported(next, &self.request, error);
            self.ctx.attempt = None;
        })
    }

    /// A hook denies the request, or could not check its response: the target is not called.
    fn denied(&mut self, next: &NextAttempt, error: Error) -> Started {
        self.ctx.record.attempt_unsupported(next, &self.request, &error);
        self.ctx.attempt = None;
        match error.kind {
            Kind::HooksFailed => {
                Started::Failed(Outcome::from_status(error.status()), FinalResponse::Denied(error))
            }
            _ => Started::Failed(Outcome::Unsupported(error.status()), FinalResponse::Error(error)),
        }
    }

    /// Counts the tokens of a request for a provider that cannot.
    async fn count(&self, count: &LocalCount) -> LocalResponse {
        let Shared { tokenizer, large_work, .. } = &*self.engine.shared;
        let text = |text: &str| tokenizer.count(text);
        let body = match self.ctx.snapshot.settings.usage.tokenizer {
            true => tokenizer.run(large_work, count.bytes(), || count.response(&CountText::By(&text))).await,
            false => count.response(&CountText::ByRule),
        };
        LocalResponse { content_type: "application/json", body: body.into() }
    }

    /// Passes an attempt that was `started` at this time through its stages.
    async fn pass_stages(
        &mut self,
        attempt: &mut Attempt,
        state: &mut AttemptState,
        started: Instant,
        filters: Option<Box<TextFilters>>,
    ) -> StagesPassed {
        let total = Deadlines::total(&attempt.target, self.ctx.started);
        let limit = attempt.target.policies.request_timeout.map(|limit| started + limit);
        let streams_body = attempt.body.is_none() && !self.downstream.body_is_complete();
        let mut call = StageCall {
            shared: &self.engine.shared,
            ctx: self.ctx,
            request: &self.request,
            streams_body,
            attempt,
            state,
            deadline: limit.into_iter().chain(total).min(),
            credentials: None,
            filters,
        };
        let flow = self.engine.pass_stages(&mut call).await;
        StagesPassed { flow, credentials: call.credentials, filters: call.filters }
    }

    fn open_stream(
        &mut self,
        attempt: &Arc<Attempt>,
        credentials: Option<&Credentials>,
        mut state: AttemptState,
    ) -> (UpstreamStream, DownstreamWatch) {
        let (mut watch, mut upload) = (DownstreamWatch::default(), None);
        let streams_body = attempt.body.is_none() && !self.downstream.body_is_complete();
        let body = match attempt.body.clone() {
            Some(body) => RequestBody::Whole(body),
            None if streams_body => {
                // A streamed upload cannot be sent again.
                self.plan.set_last();
                let (watching, chunks) = DownstreamWatch::with_body(&self.ctx.snapshot.settings.limits);
                (watch, upload) = (watching, Some(chunks));
                RequestBody::Streamed
            }
            None => RequestBody::Empty,
        };
        let client = self.downstream.request();
        let headers = UpstreamHeaders::new(self.ctx, attempt, credentials, client, streams_body);
        let header = match headers.build(client) {
            Ok(header) => Box::new(header),
            Err(error) => {
                return (UpstreamStream::failed(self.engine, &attempt.target, error, state), watch);
            }
        };
        state.sent_at.get_or_insert_with(Instant::now);
        let opener = Opener {
            engine: Arc::clone(self.engine),
            snapshot: Arc::clone(&self.ctx.snapshot),
            target: Arc::clone(&attempt.target),
            header,
            body,
            peers: PeerSelection::new(self.stale_connection_met, attempt.other_origin.clone()),
            reader_is_timed: false,
            connections: 0,
        };
        (UpstreamStream::new(Box::new(opener), upload, state), watch)
    }

    /// Makes the attempt from the request, or takes the one made at admission.
    async fn make_attempt(
        &mut self,
        next: &NextAttempt,
        guarded: Option<&Guarded>,
    ) -> Result<Attempt, Error> {
        // What the cache did for another attempt is not this one's.
        self.ctx.cache = CacheNote::default();
        let changed = guarded.and_then(Guarded::changed_request);
        let request: &Request = changed.unwrap_or(&self.request);
        let prepared = self.prepared.take().filter(|_| changed.is_none());
        let made = match (&mut self.resume, prepared) {
            (Some(resume), _) => {
                let size = request.body.as_ref().map_or(0, |body| body.bytes().len());
                run_here(translation(size), || resume.attempt(&next.target, request))
            }
            (None, Some(prepared)) => Ok(*prepared),
            (None, None) => self.engine.prepare(&next.target, request, &mut self.ctx.held).await,
        };
        match (made, &self.resume) {
            (Ok(mut attempt), _) => {
                if self.plan.all_circuits_open() {
                    let warning = "cb_config: every circuit is open, the least bad target was tried";
                    attempt.warnings.push(warning.to_owned());
                }
                Ok(attempt)
            }
            // The client gets the error that broke its stream, not the reason why it could not be continued.
            (Err(_), Some(resume)) => Err(resume.error()),
            (Err(error), None) => {
                self.ctx.record.attempt_unsupported(next, &self.request, &error);
                self.ctx.attempt = None;
                Err(error)
            }
        }
    }

    fn run_settings(&mut self, next: &NextAttempt, permit: Option<Permit>, started: Instant) -> RunSettings {
        let has_other = self.plan.has_other(&self.env);
        let deadlines = Deadlines::new(&next.target, self.ctx.started, started, has_other, self.streamed);
        let may_resume = self.streamed && deadlines.rescue == StreamRescue::Resume;
        let policy = ResponsePolicy {
            operation: self.ctx.operation,
            mode: self.ctx.mode,
            validates: self.plan.may_repeat()
                || next.target.policies.time_limits.first_token.is_some()
                || deadlines.request_deadline.is_some(),
            replaceable: has_other,
            streamed: self.streamed,
            n: self.n,
            retains_sent: may_resume && self.plan.may_continue(&self.env),
        };
        RunSettings {
            cache: self.ctx.cache,
            reason: next.reason,
            permit,
            deadlines,
            policy,
            request_started: self.ctx.started,
            trace_id: Arc::clone(&self.ctx.trace_id),
            held: self.engine.shared.held_bytes.holder(),
            source: ResponseSource::Provider,
            cached: None,
            filters: None,
            guarded: None,
            original: self.ctx.record.new_original(),
            resumes: self.resume.as_mut().and_then(|resume| resume.take_rewriter()),
        }
    }
}
