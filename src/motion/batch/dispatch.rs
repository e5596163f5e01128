//! Sends the lines of one batch: so many at a time as its providers bear and its turns allow, and keeps their results.
//!
//! Results are written as parts before they are counted. A line without one is sent, or sent again: at most those of one block
//! and the latest moments, after a process was killed. Not the other steps of a batch (`run`).

use super::line::{LineEnv, LineResponse, SentLine};
use super::line_result::{LineOutcome, LineResult};
use super::lines::LineReader;
use super::pace::Pace;
use super::parts::{self, KEPT_FOR, LineSet};
use super::record::batch_path;
use super::run::{Halt, PAUSE, Run};
use super::state::{Batch, Status};
use super::turns::{Place, Turn};
use super::validation::{BatchLine, read_line};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use jiff::Timestamp;
use memory::store::Record;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use words::api::own_ids::batch_id;

/// Before a line is sent, the store has that lines up to its block's end may have been.
const BLOCK: u32 = 256;
/// How many results wait, and how many bytes of them.
const KEPT: usize = 500;
const KEPT_BYTES: usize = 1 << 20;
/// With more, no line is sent before they are written.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// How often the store gets the counts of lines.
const PROGRESS: Duration = Duration::from_secs(1);
/// Bytes of requests and responses in flight, by the largest of the latest lines. Results are copied twice before they are written.
const IN_FLIGHT_BYTES: usize = 16 << 20;
/// Lines that wait to be sent again; with more, no new ones are sent.
const MAX_AGAIN: usize = 64;
/// How often a line is sent where its provider is down or names no time, and where it fails.
const MAX_TRIES: u32 = 12;
const MAX_FAILURES: u32 = 3;
/// The wait before a line is sent again: doubled each time, up to the second.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long lines in flight may take to stop.
const STOP_WAIT: Duration = Duration::from_millis(500);

/// Why no more lines are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Every line has its result.
    Done,
    /// The batch's time is over.
    Expired,
    /// The batch has another status.
    Changed,
}

/// A line to send.
#[derive(Debug)]
struct Job {
    number: u32,
    line: BatchLine,
    tries: u32,
}

/// A line to send again.
#[derive(Debug)]
struct Again {
    at: Instant,
    job: Job,
}

type Reader = LineReader<BoxStream<'static, Result<Bytes, super::blobs::BlobError>>>;

/// The lines of a batch on their way.
pub(super) struct Dispatch<'a> {
    run: &'a Run,
    batch: Batch,
    /// What the status was read from.
    record: Arc<Record>,
    status: Status,
    env: Arc<LineEnv>,
    place: Place,
    reader: Option<Reader>,
    done: LineSet,
    next: Option<Job>,
    again: VecDeque<Again>,
    in_flight: JoinSet<(Job, SentLine)>,
    pace: Pace,
    /// Bytes of the largest of the latest lines, with its response.
    largest: usize,
    stops: watch::Sender<bool>,
    /// Not written yet.
    results: Vec<LineResult>,
    result_bytes: usize,
    oldest: Option<Instant>,
    /// The number of the next part.
    sequence: u64,
    completed: u32,
    failed: u32,
    /// Lines up to this number may have been sent before this run.
    sent_before: u32,
    sent_again: u32,
    /// The last line that this run has sent.
    sent_to: u32,
    saved_at: Instant,
    /// Store or blobs do not work: results are kept in memory, no line is sent, and both are tried again at this time.
    waits_until: Option<Instant>,
}

impl<'a> Dispatch<'a> {
    /// # Errors
    /// Store or blobs do not work.
    pub async fn open(run: &'a Run, batch: &Batch) -> Result<Self, Halt> {
        let batches = &run.batches;
        let record = run.record().ok_or(Halt::Over)?;
        let headers = batches.headers(&record)?;
        let made_at = Timestamp::from_second(batch.times.created).unwrap_or_default();
        let env =
            LineEnv::new(&batch.endpoint, &headers, made_at, &batch_id(run.id, None)).map_err(Halt::Later)?;
        let progress = parts::done_lines(&batches.blobs, &batch_path(run.id)).await?;
        run.hold_rest(batch, &progress.done).await?;
        let env = env.with_advance(run.budget.held());
        let file = run.input(batch, 0).await?;
        Ok(Self {
            run,
            env: Arc::new(env),
            place: batches.turns.place(record.workspace),
            reader: Some(LineReader::new(file.stream, batches.options.max_line_bytes)),
            done: progress.done,
            next: None,
            again: VecDeque::new(),
            in_flight: JoinSet::new(),
            pace: Pace::new(batches.options.concurrency),
            largest: 0,
            stops: watch::Sender::new(false),
            results: Vec::new(),
            result_bytes: 0,
            oldest: None,
            sequence: progress.next_sequence,
            completed: progress.completed,
            failed: progress.failed,
            sent_before: batch.sent_up_to,
            sent_again: batch.sent_again,
            sent_to: 0,
            saved_at: Instant::now(),
            waits_until: None,
            batch: batch.clone(),
            status: run.own(&record).ok_or(Halt::Over)?.status,
            record,
        })
    }

    /// Sends lines until all have their results, or the batch is to stop.
    ///
    /// # Errors
    /// Another process has the batch, its file cannot be read, or the process stops while store or blobs do not work.
    pub async fn run(mut self) -> Result<Stop, Halt> {
        let ran = self.send_lines().await;
        if ran.is_err() || ran.as_ref().is_ok_and(|stop| *stop != Stop::Done) {
            self.stop_lines().await;
        }
        let written = self.write_rest().await;
        let stop = ran?;
        written?;
        if stop == Stop::Expired {
            self.expire_lines().await?;
        }
        self.save().await?;
        if stop == Stop::Changed {
            // Lines of the last block that were not sent are not sent again by the process that goes on.
            let sent = self.sent_to.max(self.sent_before);
            self.run.save(|batch| batch.sent_up_to = sent).await?;
        }
        Ok(stop)
    }

    async fn send_lines(&mut self) -> Result<Stop, Halt> {
        let mut updated = self.run.batches.shared.store().ok_or(Halt::Over)?.updated();
        let mut turn: Option<BoxFuture<'static, Option<Turn>>> = None;
        loop {
            if let Some(stop) = self.stop()? {
                return Ok(stop);
            }
            self.find_next().await?;
            self.write_due().await?;
            if self.has_no_more() && self.results.is_empty() {
                return Ok(Stop::Done);
            }
            let now = Instant::now();
            let may_send = self.may_send(now);
            if !may_send {
                // A turn that nobody waits for would keep others from theirs.
                turn = None;
            }
            let wake_at = self.wake_at(now);
            let place = self.place.clone();
            let next_turn =
                may_send.then(|| turn.get_or_insert_with(|| Box::pin(async move { place.turn().await })));
            tokio::select! {
                sent = self.in_flight.join_next(), if !self.in_flight.is_empty() => {
                    if let Some(Ok((job, sent))) = sent {
                        self.finish(job, sent);
                    }
                }
                granted = async { match next_turn { Some(turn) => turn.await, None => std::future::pending().await } } => {
                    turn = None;
                    if let (Some(granted), Some(job)) = (granted, self.next.take()) {
                        self.send(job, granted).await?;
                    }
                }
                () = tokio::time::sleep_until(wake_at.into()) => {}
                _ = updated.changed() => {}
            }
        }
    }

    /// Nothing is left to send or to wait for.
    fn has_no_more(&self) -> bool {
        self.next.is_none() && self.in_flight.is_empty() && self.again.is_empty()
    }

    /// Writes results and counts whose time has come. What providers have answered is paid for, so it is kept where it cannot
    /// be written now: lines in flight go on, no other one is sent.
    async fn write_due(&mut self) -> Result<(), Halt> {
        let now = Instant::now();
        if self.waits_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        let written = if self.is_due(now) { self.write_results().await } else { Ok(()) };
        let is_time =
            self.waits_until.is_some() || (self.has_progress() && self.saved_at.elapsed() >= PROGRESS);
        let saved = if is_time { self.save().await } else { Ok(()) };
        match written.and(saved) {
            Ok(()) => {
                if self.waits_until.take().is_some() {
                    log::info!(target: "turnpike", "batches: {} goes on", batch_id(self.run.id, None));
                }
                Ok(())
            }
            Err(halt) => self.wait(halt),
        }
    }

    /// # Errors
    /// The batch is another process's or gone.
    fn wait(&mut self, halt: Halt) -> Result<(), Halt> {
        let Halt::Later(why) = halt else { return Err(halt) };
        if self.waits_until.is_none() {
            log::warn!(target: "turnpike", "batches: {} waits: {why}", batch_id(self.run.id, None));
        }
        self.waits_until = Some(Instant::now() + PAUSE);
        Ok(())
    }

    /// Writes the results that are left, at the end, and waits for that unless the process stops.
    async fn write_rest(&mut self) -> Result<(), Halt> {
        while let Err(halt) = self.write_results().await {
            if self.run.batches.shared.lifecycle.is_draining() {
                return Err(halt);
            }
            self.wait(halt)?;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Whether lines must not be sent any more.
    fn stop(&mut self) -> Result<Option<Stop>, Halt> {
        let record = self.run.record().ok_or(Halt::Over)?;
        if !Arc::ptr_eq(&record, &self.record) {
            self.status = self.run.own(&record).ok_or(Halt::Over)?.status;
            self.record = record;
        }
        Ok(match self.status {
            Status::InProgress if self.batch.is_over(Timestamp::now().as_second()) => Some(Stop::Expired),
            Status::InProgress if self.run.batches.shared.lifecycle.is_draining() => Some(Stop::Changed),
            Status::InProgress => None,
            _ => Some(Stop::Changed),
        })
    }

    /// Finds the next line, if there is none: one whose time to be sent again has come, or a new one.
    async fn find_next(&mut self) -> Result<(), Halt> {
        let now = Instant::now();
        if self.next.is_none()
            && let Some(due) = self.again.iter().position(|again| again.at <= now)
        {
            self.next = self.again.remove(due).map(|again| again.job);
        }
        while self.next.is_none() && self.again.len() < MAX_AGAIN.min(self.places()) {
            let Some(reader) = &mut self.reader else { return Ok(()) };
            match reader.next().await? {
                None => self.reader = None,
                Some(Ok(line)) if self.done.contains(line.number) => {}
                Some(Ok(line)) => match read_line(&line, &self.batch.endpoint) {
                    Ok(read) => {
                        self.largest = self.largest.max(read.body.len());
                        self.next = Some(Job { number: line.number, line: read, tries: 0 });
                    }
                    Err(error) => self.fail(line.number, "", error.code, &error.message),
                },
                Some(Err(error)) => self.fail(error.line.unwrap_or_default(), "", error.code, &error.message),
            }
        }
        Ok(())
    }

    fn may_send(&self, now: Instant) -> bool {
        self.next.is_some()
            && self.waits_until.is_none()
            && self.in_flight.len() < self.pace.limit().min(self.places())
            && self.pace.paused_until(now).is_none()
            && self.result_bytes < MAX_KEPT_BYTES
    }

    /// How many lines may be held in memory, however many the provider bears; at least 1.
    fn places(&self) -> usize {
        (IN_FLIGHT_BYTES / self.largest.max(1)).max(1)
    }

    /// When something is to be done though nothing happens.
    fn wake_at(&self, now: Instant) -> Instant {
        if let Some(until) = self.waits_until {
            return until.clamp(now, now + KEPT_FOR);
        }
        let due = [
            self.oldest.map(|oldest| oldest + self.kept_for()),
            self.pace.paused_until(now),
            self.again.iter().map(|again| again.at).min().filter(|_| self.next.is_none()),
        ];
        due.into_iter().flatten().min().unwrap_or(now + KEPT_FOR).clamp(now, now + KEPT_FOR)
    }

    async fn send(&mut self, mut job: Job, turn: Turn) -> Result<(), Halt> {
        if job.number > self.batch.sent_up_to {
            let up_to = job.number.saturating_add(BLOCK - 1);
            let saved = self.run.save(|batch| batch.sent_up_to = up_to).await;
            match saved {
                Ok(batch) => self.batch = batch,
                Err(halt) => {
                    self.next = Some(job);
                    return self.wait(halt);
                }
            }
        }
        if job.tries == 0 && job.number <= self.sent_before {
            self.sent_again += 1;
        }
        job.tries += 1;
        self.sent_to = self.sent_to.max(job.number);
        let (env, planner) = (Arc::clone(&self.env), self.run.batches.planner.clone());
        let stops = self.stops.subscribe();
        let in_flight = self.run.batches.metrics.send_line();
        self.in_flight.spawn(async move {
            // A line that breaks the gateway must not be lost, and is not sent for ever.
            let sending = AssertUnwindSafe(env.send(&planner, job.line.body.clone(), stops)).catch_unwind();
            let broken =
                |_| SentLine::Broken("The gateway failed while it ran this line. See its log.".to_owned());
            let sent = sending.await.unwrap_or_else(broken);
            drop((turn, in_flight));
            (job, sent)
        });
        Ok(())
    }

    fn finish(&mut self, job: Job, sent: SentLine) {
        let (tries, now) = (job.tries, Instant::now());
        if let SentLine::Response(response) = &sent {
            let size = job.line.body.len().saturating_add(response.body.len());
            self.largest = size.max(self.largest - self.largest / 16);
        }
        match sent {
            SentLine::Response(response) if response.is_temporary && may_repeat(&response, tries) => {
                self.pace.refuse(response.wait, now);
                let wait = response
                    .wait
                    .unwrap_or_else(|| backoff(tries))
                    .min(LONGEST_WAIT.max(response.wait.unwrap_or_default()));
                self.run.batches.metrics.repeat_line();
                self.again.push_back(Again { at: now + wait, job });
            }
            SentLine::Response(response) => {
                self.pace.succeed();
                let request_id = format!("{}-{}", batch_id(self.run.id, None), job.number);
                let (status, body) = (response.status.as_u16(), &response.body);
                let outcome = LineOutcome::Response { status, request_id: &request_id, body };
                self.keep(job.number, &job.line.custom_id, &outcome);
            }
            SentLine::Broken(_) if tries < MAX_FAILURES => {
                self.run.batches.metrics.repeat_line();
                self.again.push_back(Again { at: now + backoff(tries), job });
            }
            SentLine::Broken(why) => self.fail(job.number, &job.line.custom_id, "incomplete_response", &why),
            SentLine::Stopped => {}
        }
    }

    fn fail(&mut self, number: u32, custom_id: &str, code: &str, message: &str) {
        self.keep(number, custom_id, &LineOutcome::Failed { code, message });
    }

    fn keep(&mut self, number: u32, custom_id: &str, outcome: &LineOutcome<'_>) {
        let id = format!("batch_req_{}_{number}", self.run.id.simple());
        let result = LineResult::new(number, &id, custom_id, outcome);
        self.run.batches.metrics.end_line(result.is_error);
        self.result_bytes += result.json.len();
        self.oldest.get_or_insert_with(Instant::now);
        self.results.push(result);
    }

    fn kept_for(&self) -> Duration {
        parts::kept_for(self.sequence)
    }

    fn is_due(&self, now: Instant) -> bool {
        let is_time = self.oldest.is_some_and(|oldest| now >= oldest + self.kept_for());
        let is_full = self.results.len() >= KEPT || self.result_bytes >= KEPT_BYTES;
        !self.results.is_empty() && (is_time || is_full || self.has_no_more())
    }

    /// Writes the results that wait.
    async fn write_results(&mut self) -> Result<(), Halt> {
        if self.results.is_empty() {
            return Ok(());
        }
        let prefix = batch_path(self.run.id);
        self.sequence = parts::append(&self.run.batches.blobs, &prefix, self.sequence, &self.results).await?;
        for result in self.results.drain(..) {
            if self.done.insert(result.line) {
                if result.is_error { self.failed += 1 } else { self.completed += 1 }
            }
        }
        (self.result_bytes, self.oldest) = (0, None);
        Ok(())
    }

    fn has_progress(&self) -> bool {
        (self.completed, self.failed, self.sent_again)
            != (self.batch.completed_lines, self.batch.failed_lines, self.batch.sent_again)
    }

    /// Writes the counts to the store.
    async fn save(&mut self) -> Result<(), Halt> {
        let (completed, failed, again) = (self.completed, self.failed, self.sent_again);
        let saved = self.run.save(|batch| {
            (batch.completed_lines, batch.failed_lines, batch.sent_again) = (completed, failed, again);
        });
        self.batch = saved.await?;
        self.saved_at = Instant::now();
        Ok(())
    }

    /// Has lines in flight stop: those that respond at once keep their responses.
    async fn stop_lines(&mut self) {
        let is_draining = self.run.batches.shared.lifecycle.is_draining();
        if !is_draining {
            self.stops.send_replace(true);
        }
        // A process that stops lets lines finish, as it does with clients' requests; the engine ends them with the grace period.
        let wait = if is_draining { Duration::MAX } else { STOP_WAIT };
        let all = async {
            while let Some(sent) = self.in_flight.join_next().await {
                if let Ok((job, sent)) = sent
                    && !matches!(&sent, SentLine::Response(response) if response.is_temporary)
                    && !matches!(sent, SentLine::Broken(_))
                {
                    self.finish(job, sent);
                }
            }
        };
        if tokio::time::timeout(wait, Box::pin(all)).await.is_err() {
            self.in_flight.abort_all();
        }
    }

    /// Gives every line without a result one that says so.
    async fn expire_lines(&mut self) -> Result<(), Halt> {
        let file = self.run.input(&self.batch, 0).await?;
        let mut reader = LineReader::new(file.stream, self.run.batches.options.max_line_bytes);
        while let Some(line) = reader.next().await? {
            let Ok(line) = line else { continue };
            if !self.done.contains(line.number)
                && let Ok(read) = read_line(&line, &self.batch.endpoint)
            {
                let message = "This request could not be executed before the completion window expired.";
                self.fail(line.number, &read.custom_id, "batch_expired", message);
            }
            if self.results.len() >= KEPT {
                self.write_results().await?;
            }
        }
        self.write_results().await
    }
}

/// Whether a line is sent again after a response that may be another one the next time.
fn may_repeat(response: &LineResponse, tries: u32) -> bool {
    match response.status.as_u16() {
        _ if response.wait.is_some() => true,
        500 => tries < MAX_FAILURES,
        _ => tries < MAX_TRIES,
    }
}

/// The wait before a line is sent again, with up to a fifth less, so that lines do not come together.
fn backoff(tries: u32) -> Duration {
    let full = FIRST_WAIT.saturating_mul(1 << tries.saturating_sub(1).min(10)).min(LONGEST_WAIT);
    full.mul_f64(0.8 + fastrand::f64() * 0.2)
}
