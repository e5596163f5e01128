//! Starts one attempt: passes it through the layers of its target, and opens its exchange.
//!
//! Does not wait for the response (`attempt_run`) and does not decide what follows (`orchestrator`).

use super::attempt::answer::AnswerKind;
use super::attempt::call::{AttemptCall, Incoming, NextAttempt, NotPassed, NotStarted, Parts, Passed, Way};
use super::attempt::layers;
use super::attempt_run::{AttemptRun, Clock, LaidLayers, Making, Phase, ResponseSource};
use super::attempt_state::AttemptState;
use super::caching::{CachedCall, FlightReader, Launch};
use super::downstream::Downstream;
use super::downstream_watch::DownstreamWatch;
use super::limit_holds::SealedAttempt;
use super::opener::{Opener, RequestBody};
use super::orchestrator::Orchestrator;
use super::peer_selection::PeerSelection;
use super::places::{PlaceWait, Places};
use super::response_policy::{ResponsePolicy, WantedResponse};
use super::upstream_headers::UpstreamHeaders;
use super::upstream_stream::UpstreamStream;
use judgment::route::deadlines::Deadlines;
use judgment::route::target::Target;
use memory::state::targets::Permit;
use std::sync::Arc;
use std::time::Instant;
use words::config::policies::{Replay, StreamRescue};

/// The result of starting an attempt.
pub(super) enum Started {
    Running(Box<AttemptRun>, DownstreamWatch),
    Failed(Box<NotStarted>),
    /// It waits for a place, and is started again.
    Queued(Box<PlaceWait>),
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
    /// Passes the attempt through its target's layers, and sends it.
    pub async fn start(&mut self, next: &NextAttempt) -> Started {
        let is_read = self.client.downstream.body_is_complete();
        let incoming = Incoming {
            request: &self.request,
            header: self.client.downstream.request(),
            streamed: self.client.streamed,
            is_read,
            all_circuits_open: self.plan.all_circuits_open(),
        };
        let mut call = AttemptCall::new(self.client.engine, self.client.ctx, incoming, next, &mut self.kept);
        let started = call.started;
        let flow = layers::pass(self.client.engine, &mut call).await;
        let Passed { attempt, way, state, cache, parts } = match call.finish(flow).await {
            Ok(passed) => passed,
            Err(NotPassed::NotStarted(not_started)) => return Started::Failed(not_started),
            Err(NotPassed::Queued(waiting)) => return Started::Queued(waiting),
        };
        let Parts { mut guarded, filters, shared, places, ends } = parts;
        let opened = match way {
            Way::Target(sealed) => self.open(&sealed, state, shared, places),
            Way::Answer(answer) => self.answered(&next.target, answer, state),
        };
        if let Some(guarded) = &mut guarded {
            guarded.begin(&attempt, &self.request);
        }
        let Opened { stream, watch, permit, source, cached } = opened;
        let has_other = self.plan.has_other(&self.env);
        let deadlines = Deadlines::new(
            &next.target,
            self.client.ctx.span.started,
            started,
            has_other,
            self.client.streamed,
        );
        let run = AttemptRun {
            attempt,
            cache,
            reason: next.reason,
            permit,
            stream,
            phase: Phase::Header,
            clock: Clock::new(self.client.ctx.span.started),
            making: Making {
                policy: self.response_policy(&next.target, &deadlines, has_other),
                trace_id: Arc::clone(&self.client.ctx.span.trace_id),
                filters,
                resumes: self.kept.resume.as_mut().and_then(|resume| resume.take_rewriter()),
                original: self.client.ctx.record.new_original(),
            },
            deadlines,
            held: self.client.engine.shared.held_bytes.holder(),
            source,
            layers: LaidLayers { guarded, cached, ends },
        };
        Started::Running(Box::new(run), watch)
    }

    /// The exchange of an attempt that no call of its target is made for.
    fn answered(&self, target: &Arc<Target>, answer: AnswerKind, mut state: AttemptState) -> Opened {
        let connections = &self.client.engine.connections;
        match answer {
            AnswerKind::Own(response) => {
                let stream = UpstreamStream::local(connections, target, response, state);
                Opened::new(stream, ResponseSource::Gateway)
            }
            AnswerKind::Given(given) => {
                let stream = UpstreamStream::given(connections, target, *given, state);
                Opened::new(stream, ResponseSource::BatchJob)
            }
            AnswerKind::Stored(found) => {
                let is_paced = target.policies.cache.is_some_and(|cache| cache.replay == Replay::Paced);
                let stream = UpstreamStream::replayed(connections, target, &found, is_paced);
                Opened::new(stream, ResponseSource::Cache)
            }
            AnswerKind::Shared(shared) => {
                let (call, reader) = *shared;
                state.sent_at.get_or_insert_with(Instant::now);
                let stream = UpstreamStream::shared(connections, target, reader, state);
                Opened { cached: Some(call), ..Opened::new(stream, ResponseSource::Provider) }
            }
        }
    }

    /// Opens the exchange of an attempt with its target. `shared`: others may read along.
    fn open(
        &mut self,
        sealed: &SealedAttempt,
        state: AttemptState,
        shared: Option<Box<(CachedCall, Launch, FlightReader)>>,
        places: Option<Places>,
    ) -> Opened {
        let target = &sealed.attempt().target;
        let is_counted = target.policies.breaker.is_some() || self.plan.counts_load();
        let permit = is_counted.then(|| self.env.target_state(target).enter(Instant::now()));
        let (mut stream, watch) = self.open_stream(sealed, state);
        stream.hold(places);
        let mut cached = None;
        if let Some(shared) = shared {
            let (call, launch, reader) = *shared;
            let held = self.client.engine.shared.held_bytes.holder();
            let state = stream.state();
            launch.start(stream, held);
            stream = UpstreamStream::shared(&self.client.engine.connections, target, reader, state);
            cached = Some(call);
        }
        Opened { stream, watch, permit, source: ResponseSource::Provider, cached }
    }

    /// Sends an attempt that its limits hold: no other can be.
    fn open_stream(
        &mut self,
        sealed: &SealedAttempt,
        mut state: AttemptState,
    ) -> (UpstreamStream, DownstreamWatch) {
        let attempt = sealed.attempt();
        let mut watch = DownstreamWatch::default();
        let mut upload = None;
        let streams_body = attempt.body.is_none() && !self.client.downstream.body_is_complete();
        let body = match attempt.body.clone() {
            Some(body) => RequestBody::Whole(body),
            None if streams_body => {
                // A streamed upload cannot be sent again.
                self.plan.set_last();
                let (watching, chunks) =
                    DownstreamWatch::with_body(&self.client.ctx.snapshot.settings.limits);
                (watch, upload) = (watching, Some(chunks));
                RequestBody::Streamed
            }
            None => RequestBody::Empty,
        };
        let client = self.client.downstream.request();
        let headers = UpstreamHeaders::new(self.client.ctx, attempt, client, streams_body);
        let header = match headers.build(client) {
            Ok(header) => Box::new(header),
            Err(error) => {
                let connections = &self.client.engine.connections;
                return (UpstreamStream::failed(connections, &attempt.target, error, state), watch);
            }
        };
        state.sent_at.get_or_insert_with(Instant::now);
        let opener = Opener {
            connections: Arc::clone(&self.client.engine.connections),
            snapshot: Arc::clone(&self.client.ctx.snapshot),
            target: Arc::clone(&attempt.target),
            header,
            body,
            peers: PeerSelection::new(self.stale_connection_met, attempt.other_origin.clone()),
            reader_is_timed: false,
            opened: 0,
        };
        let mut stream = UpstreamStream::new(Box::new(opener), upload, state);
        stream.watch_with(self.client.ctx.offline.watch.clone());
        (stream, watch)
    }

    /// What is expected of a response, and may be made of it.
    fn response_policy(&self, target: &Target, deadlines: &Deadlines, has_other: bool) -> ResponsePolicy {
        let may_resume = self.client.streamed && deadlines.rescue == StreamRescue::Resume;
        let wanted = WantedResponse {
            operation: self.client.ctx.api.operation,
            mode: self.client.ctx.api.mode,
            streamed: self.client.streamed,
            n: self.n,
        };
        ResponsePolicy {
            wanted,
            validates: self.plan.may_repeat()
                || target.policies.time_limits.first_token.is_some()
                || deadlines.request_deadline.is_some(),
            replaceable: has_other,
            retains_sent: may_resume && self.plan.may_continue(&self.env),
        }
    }
}
