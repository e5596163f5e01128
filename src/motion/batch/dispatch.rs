//! Sends the lines of one batch, sends those again that may succeed later, and has the results of the others written.
//!
//! Results are written as parts before they are counted. A line without one is sent, or sent again: at most those of one block
//! and the latest moments, after a process was killed. Not the other steps of a batch (`run`).

use super::kept_results::KeptResults;
use super::line::{LineResponse, SentLine};
use super::line_queue::{LineQueue, QueuedLine};
use super::line_result::LineOutcome;
use super::lines_in_flight::LinesInFlight;
use super::parts::KEPT_FOR;
use super::run::{Halt, PAUSE, Run};
use super::state::{Batch, StoredError};
use super::stop::{Stop, StoredBatch};
use super::turns::{LineTurn, Place};
use futures_util::future::BoxFuture;
use std::time::{Duration, Instant};
use words::api::own_ids::batch_id;

/// Before a line is sent, the store has that lines up to its block's end may have been.
const BLOCK: u32 = 256;
/// How often the store gets the counts of lines.
const PROGRESS: Duration = Duration::from_secs(1);
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

/// The lines of a batch on their way.
pub(super) struct Dispatch<'a> {
    run: &'a Run,
    batch: Batch,
    place: Place,
    queue: LineQueue,
    in_flight: LinesInFlight,
    results: KeptResults<'a>,
    sent: SentLines,
    saved_at: Instant,
    /// Store or blobs do not work: results are kept in memory, no line is sent, and both are tried again at this time.
    waits_until: Option<Instant>,
}

/// Which lines were sent.
struct SentLines {
    /// Lines up to this number may have been sent before this run.
    before: u32,
    /// How many of them were sent again, by this run or one before it.
    again: u32,
    /// The last line that this run has sent.
    last: u32,
}

impl SentLines {
    fn add(&mut self, line: &QueuedLine) {
        if line.tries == 0 && line.number <= self.before {
            self.again += 1;
        }
        self.last = self.last.max(line.number);
    }
}

impl<'a> Dispatch<'a> {
    /// # Errors
    /// Store or blobs do not work.
    pub async fn open(run: &'a Run, batch: &Batch) -> Result<Self, Halt> {
        let record = run.record().ok_or(Halt::Over)?;
        let env = run.line_env(batch)?;
        let results = KeptResults::open(run, batch).await?;
        run.hold_rest(batch, results.done()).await?;
        let env = env.with_advance(run.budget.held());
        Ok(Self {
            run,
            place: run.batches.turns.place(record.workspace),
            queue: LineQueue::new(run.lines(batch).await?, &batch.request.endpoint),
            in_flight: LinesInFlight::new(&run.batches, env),
            results,
            sent: SentLines { before: batch.lines.sent_up_to, again: batch.lines.sent_again, last: 0 },
            saved_at: Instant::now(),
            waits_until: None,
            batch: batch.clone(),
        })
    }

    /// Sends lines until all have their results, or the batch is to stop.
    ///
    /// # Errors
    /// Another process has the batch, its file cannot be read, or the process stops while store or blobs do not work.
    pub async fn run(mut self) -> Result<Stop, Halt> {
        let ran = self.send_lines().await;
        if !matches!(ran, Ok(Stop::Done)) {
            self.stop_lines().await;
        }
        let written = self.results.write().await;
        let stop = ran?;
        written?;
        if stop == Stop::Expired {
            self.results.fail_rest(&self.batch, &StoredError::expired()).await?;
        }
        self.save().await?;
        if stop == Stop::Changed {
            // Lines of the last block that were not sent are not sent again by the process that goes on.
            let sent = self.sent.last.max(self.sent.before);
            self.run.save(|batch| batch.lines.sent_up_to = sent).await?;
        }
        Ok(stop)
    }

    async fn send_lines(&mut self) -> Result<Stop, Halt> {
        let mut updated = self.run.batches.shared.store().ok_or(Halt::Over)?.updated();
        let mut stored = StoredBatch::open(self.run)?;
        let mut turn: Option<BoxFuture<'static, Option<LineTurn>>> = None;
        loop {
            if let Some(stop) = stored.stop(self.run)? {
                return Ok(stop);
            }
            let max_again = MAX_AGAIN.min(self.in_flight.places());
            self.queue.find_next(&mut self.results, max_again).await?;
            self.write_due().await?;
            if self.has_no_more() && self.results.is_written() {
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
                Some((line, sent)) = self.in_flight.next() => self.finish(line, sent),
                granted = async { match next_turn { Some(turn) => turn.await, None => std::future::pending().await } } => {
                    turn = None;
                    if let (Some(granted), Some(line)) = (granted, self.queue.take_next()) {
                        self.send(line, granted).await?;
                    }
                }
                () = tokio::time::sleep_until(wake_at.into()) => {}
                _ = updated.changed() => {}
            }
        }
    }

    /// Nothing is left to send or to wait for.
    fn has_no_more(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// Writes results and counts whose time has come. What providers have answered is paid for, so it is kept where it cannot
    /// be written now: lines in flight go on, no other one is sent.
    async fn write_due(&mut self) -> Result<(), Halt> {
        let now = Instant::now();
        if self.waits_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        let is_due = self.results.is_due(now) || self.has_no_more();
        let written = if is_due { self.results.try_write().await.map_err(Halt::from) } else { Ok(()) };
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

    fn may_send(&mut self, now: Instant) -> bool {
        let Some(next) = self.queue.next() else { return false };
        self.in_flight.has_place(next.line.body.len(), now)
            && self.waits_until.is_none()
            && self.results.has_room()
    }

    /// When something is to be done though nothing happens.
    fn wake_at(&self, now: Instant) -> Instant {
        let due = [self.results.due_at(), self.in_flight.paused_until(now), self.queue.wake_at()];
        let due = self.waits_until.or_else(|| due.into_iter().flatten().min());
        due.unwrap_or(now + KEPT_FOR).clamp(now, now + KEPT_FOR)
    }

    async fn send(&mut self, mut line: QueuedLine, turn: LineTurn) -> Result<(), Halt> {
        if line.number > self.batch.lines.sent_up_to {
            let up_to = line.number.saturating_add(BLOCK - 1);
            match self.run.save(|batch| batch.lines.sent_up_to = up_to).await {
                Ok(batch) => self.batch = batch,
                Err(halt) => {
                    self.queue.put_back(line);
                    return self.wait(halt);
                }
            }
        }
        self.sent.add(&line);
        line.tries += 1;
        self.in_flight.send(line, turn);
        Ok(())
    }

    fn finish(&mut self, line: QueuedLine, sent: SentLine) {
        let number = line.number;
        match sent {
            SentLine::Response(response) if may_repeat(&response, line.tries) => {
                self.in_flight.refuse(response.wait);
                let most = LONGEST_WAIT.max(response.wait.unwrap_or_default());
                let wait = response.wait.unwrap_or_else(|| backoff(line.tries)).min(most);
                self.send_again(line, wait);
            }
            SentLine::Response(response) => {
                self.in_flight.succeed();
                let status = response.status.as_u16();
                let request_id = self.results.request_id(number);
                let outcome = LineOutcome::Response { status, request_id: &request_id, body: &response.body };
                self.results.keep(number, &line.line.custom_id, &outcome);
            }
            SentLine::Broken(_) if line.tries < MAX_FAILURES => {
                let wait = backoff(line.tries);
                self.send_again(line, wait);
            }
            SentLine::Broken(why) => {
                let error = StoredError::new("incomplete_response", &why);
                self.results.keep(number, &line.line.custom_id, &error.outcome());
            }
            SentLine::Stopped => {}
        }
    }

    fn send_again(&mut self, line: QueuedLine, wait: Duration) {
        self.run.batches.metrics.repeat_line();
        self.queue.send_again(line, Instant::now() + wait);
    }

    fn has_progress(&self) -> bool {
        (self.results.completed, self.results.failed, self.sent.again)
            != (self.batch.lines.completed, self.batch.lines.failed, self.batch.lines.sent_again)
    }

    /// Writes the counts to the store.
    async fn save(&mut self) -> Result<(), Halt> {
        let saved = self.run.save(|batch| {
            batch.lines.completed = self.results.completed;
            batch.lines.failed = self.results.failed;
            batch.lines.sent_again = self.sent.again;
        });
        self.batch = saved.await?;
        self.saved_at = Instant::now();
        Ok(())
    }

    /// Has lines in flight stop: those that respond at once keep their responses.
    async fn stop_lines(&mut self) {
        // A process that stops lets lines finish, as it does with clients' requests; the engine ends them with the grace period.
        let mut wait = Duration::MAX;
        if !self.run.is_draining() {
            self.in_flight.stop();
            wait = STOP_WAIT;
        }
        let all = async {
            while let Some((line, sent)) = self.in_flight.next().await {
                match sent {
                    // Sent by whoever goes on with the batch, if anybody does.
                    SentLine::Broken(_) => {}
                    SentLine::Response(response) if response.is_temporary => {}
                    sent => self.finish(line, sent),
                }
            }
        };
        if tokio::time::timeout(wait, Box::pin(all)).await.is_err() {
            self.in_flight.abort();
        }
    }
}

/// Whether a line is sent again after this response, since the next one may be another.
fn may_repeat(response: &LineResponse, tries: u32) -> bool {
    response.is_temporary
        && match response.status.as_u16() {
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
