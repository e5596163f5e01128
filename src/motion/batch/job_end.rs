//! How a provider's jobs end: their states, their results, and cancelling.
//!
//! How they begin is in `jobs`.

use super::blobs::BlobError;
use super::job_calls::CallFailure;
use super::job_state::{JobRecord, JobState};
use super::jobs::Jobs;
use super::line_result::LineOutcome;
use super::lines::LineReader;
use super::run::Halt;
use super::state::{Status, StoredError};
use super::validation::{BatchLine, read_line};
use crate::engine::offline::GivenResponse;
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use jiff::Timestamp;
use knowledge::provider::batch_jobs::{JobCall, JobOutcome, JobResult, JobResults, JobStatus};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long the jobs of a batch that was cancelled, or whose time is over, may take to end once a process has begun to end them.
const END_WAIT: Duration = Duration::from_secs(600);
/// Pieces of a response that wait to be read.
const PIECES: usize = 4;
/// The longest line of a provider's results, bytes.
const MAX_RESULT: usize = 64 << 20;
/// How often the jobs of a batch that is cancelled are looked at.
const END_LOOK: Duration = Duration::from_millis(500);
/// How often a job is cancelled that cannot be now, and the waits between.
const CANCELS: u32 = 5;
const CANCEL_WAIT: Duration = Duration::from_secs(1);
const LONGEST_CANCEL_WAIT: Duration = Duration::from_secs(30);

/// The lines of one job that have no result, by number.
type Lines = BTreeMap<u32, BatchLine>;

/// What a job is that has ended.
struct Ended {
    results: JobResults,
    /// Why lines without a result have none.
    rest: StoredError,
    /// Whether it ran to its end, so that results must be there.
    is_complete: bool,
}

impl Jobs<'_> {
    /// Looks at a job, and reads its results where it has ended.
    pub async fn look(&mut self, number: u32) -> Result<(), Halt> {
        let job = self.job(number)?;
        let id = job.id.clone().unwrap_or_default();
        let call = self.with_job(&job, |jobs, own| jobs.status(own, &id));
        let status = match self.calls.send(call).await {
            Ok(response) => self.with_job(&job, |jobs, own| jobs.read_status(own, &response)),
            Err(failure) if failure.is_status(404) => {
                let message = format!("The provider does not have its job any more: {}", failure.message());
                // A job that was cancelled may be gone.
                let error = self.ending().unwrap_or_else(|| StoredError::new("job_not_found", &message));
                return self.fail_job(number, error).await;
            }
            Err(failure) => {
                self.note_failure(&failure);
                self.look_later(number, failure.wait());
                return Ok(());
            }
        };
        let ended = match status {
            Ok(status) => ended(status),
            Err(error) => {
                self.note_failure(&CallFailure::Unclear(error.message));
                None
            }
        };
        let Some(ended) = ended else {
            self.look_later(number, None);
            return Ok(());
        };
        match self.end_job(&job, ended).await? {
            Ok(()) => self.note_success(),
            Err(failure) => {
                self.note_failure(&failure);
                self.look_later(number, failure.wait());
            }
        }
        Ok(())
    }

    /// Why lines have no result whose jobs are ended by the gateway; `None`: it ends none.
    fn ending(&self) -> Option<StoredError> {
        match self.batch.status {
            Status::Cancelling => Some(StoredError::cancelled()),
            _ if self.batch.is_over(Timestamp::now().as_second()) => Some(StoredError::expired()),
            _ => None,
        }
    }

    /// Gives the lines of a job without a result this error.
    pub(crate) async fn fail_job(&mut self, number: u32, rest: StoredError) -> Result<(), Halt> {
        let job = self.job(number)?;
        self.end_job(&job, Ended { results: JobResults::NONE, rest, is_complete: false }).await.map(drop)
    }

    /// Reads the results of a job, and writes that it has ended.
    async fn end_job(&mut self, job: &JobRecord, ended: Ended) -> Result<Result<(), CallFailure>, Halt> {
        let Ended { results, rest, is_complete } = ended;
        let mut lines = self.lines(job).await?;
        if let Err(failure) = self.read_results(job, results, &mut lines).await?
            && (is_complete || !failure.is_status(404))
        {
            self.results.write().await?;
            return Ok(Err(failure));
        }
        for (number, line) in &lines {
            self.results.add(*number, &line.custom_id, &rest.outcome()).await?;
        }
        self.results.write().await?;
        self.looks.remove(&job.number);
        let error = (!lines.is_empty()).then_some(rest);
        self.save_job(job.number, |job| {
            job.state = JobState::Ended;
            job.error.clone_from(&error);
        })
        .await
        .map(Ok)
    }

    /// The lines of a job that have no result.
    async fn lines(&self, job: &JobRecord) -> Result<Lines, Halt> {
        let mut reader = match self.run.lines_after(&self.batch, job.after).await {
            Err(Halt::NoInput) if self.batch.has_no_input() => return Ok(Lines::new()),
            reader => reader?,
        };
        let mut lines = Lines::new();
        while reader.number() < job.last
            && let Some(line) = reader.next().await?
        {
            if let Ok(line) = line
                && !self.results.has(line.number)
                && let Ok(read) = read_line(&line, &self.batch.request.endpoint)
            {
                lines.insert(line.number, read);
            }
        }
        Ok(lines)
    }

    async fn read_results(
        &mut self,
        job: &JobRecord,
        results: JobResults,
        lines: &mut Lines,
    ) -> Result<Result<(), CallFailure>, Halt> {
        let calls = match results {
            JobResults::Calls(calls) => calls,
            JobResults::Listed(call) => match self.calls.send(call).await {
                Ok(response) => match self.with_job(job, |jobs, own| jobs.listed(own, &response)) {
                    Ok(calls) => calls,
                    Err(error) => return Ok(Err(CallFailure::Unclear(error.message))),
                },
                Err(failure) => return Ok(Err(failure)),
            },
        };
        for call in calls {
            if let Err(failure) = self.read_lines(call, lines).await? {
                return Ok(Err(failure));
            }
        }
        Ok(Ok(()))
    }

    /// Reads one body of results as it arrives.
    async fn read_lines(
        &mut self,
        call: JobCall,
        lines: &mut Lines,
    ) -> Result<Result<(), CallFailure>, Halt> {
        let (sender, mut receiver) = mpsc::channel::<Bytes>(PIECES);
        let calls = self.calls.clone();
        let sent = calls.stream(call, sender);
        let read = async {
            let pieces = stream::poll_fn(move |cx| {
                receiver.poll_recv(cx).map(|piece| piece.map(Ok::<Bytes, BlobError>))
            });
            let mut reader = LineReader::new(pieces, MAX_RESULT);
            loop {
                let line = tokio::select! {
                    line = reader.next() => line?,
                    // What a provider has taken long to send is not to wait for the rest.
                    () = self.results.due() => {
                        self.results.write().await?;
                        continue;
                    }
                };
                let Some(line) = line else { break };
                let Ok(line) = line else { continue };
                match self.target.jobs.read_result(&line.bytes) {
                    Ok(Some(result)) => self.take(result, lines).await?,
                    Ok(None) => {}
                    // A body that breaks off ends in the middle of a line.
                    Err(error) => {
                        log::debug!(target: "turnpike", "batches: a result cannot be read: {}", error.message);
                    }
                }
            }
            Ok::<(), Halt>(())
        };
        let (sent, read) = tokio::join!(sent, read);
        read.map(|()| sent)
    }

    /// Keeps the result of a line, in the client's shape.
    async fn take(&mut self, result: JobResult, lines: &mut Lines) -> Result<(), Halt> {
        // Not of this job, or there twice.
        let Some(BatchLine { custom_id, body }) = lines.remove(&result.line) else { return Ok(()) };
        let error = match result.outcome {
            JobOutcome::Cancelled => StoredError::cancelled(),
            JobOutcome::Expired => StoredError::expired(),
            JobOutcome::Response { status, body: given } => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
                match self.calls.read(body, GivenResponse { status, body: given.into() }).await {
                    Ok(response) => {
                        let status = response.status.as_u16();
                        let request_id = self.results.request_id(result.line);
                        let body = response.body.concat();
                        let outcome = LineOutcome::Response { status, request_id: &request_id, body: &body };
                        return self.results.add(result.line, &custom_id, &outcome).await;
                    }
                    Err(why) => StoredError::new("incomplete_response", &why),
                }
            }
        };
        self.results.add(result.line, &custom_id, &error.outcome()).await
    }

    /// Ends the jobs of a batch that was cancelled, or whose time is over, and keeps the results that they have.
    pub async fn end(mut self) -> Result<(), Halt> {
        // Not by the clock: the gateway may have been away for long, and the jobs have ended meanwhile.
        let until = *self.run.end_began.get_or_init(Instant::now) + END_WAIT;
        self.find_unclear(until).await?;
        let mut cancelled: Vec<u32> = Vec::new();
        while !self.run.is_draining() && Instant::now() < until {
            let running = self.state().open().filter(|job| job.state == JobState::Running);
            let Some(job) = running.into_iter().find(|job| !cancelled.contains(&job.number)).cloned() else {
                if self.state().open().all(|job| job.state == JobState::Planned) {
                    break;
                }
                match self.due(Instant::now()) {
                    Some(number) => Box::pin(self.look(number)).await?,
                    None => tokio::time::sleep(END_LOOK).await,
                }
                continue;
            };
            cancelled.push(job.number);
            self.cancel(&job).await;
        }
        if self.run.is_draining() {
            return Ok(());
        }
        let error = self.ending().unwrap_or_else(StoredError::expired);
        self.results.fail_rest(&self.batch, &error).await?;
        self.save(super::job_state::ProviderJobs::end).await
    }

    /// Looks for jobs of which nobody knows whether they were created: they may run.
    async fn find_unclear(&mut self, until: Instant) -> Result<(), Halt> {
        while let Some(number) = self.unclear.first().copied() {
            let Err(failure) = self.find(number).await? else { continue };
            self.note_failure(&failure);
            if self.run.is_draining() || Instant::now() >= until || !failure.is_temporary() {
                self.unclear.retain(|unclear| *unclear != number);
                continue;
            }
            tokio::time::sleep(failure.wait().unwrap_or(CANCEL_WAIT).min(LONGEST_CANCEL_WAIT)).await;
        }
        Ok(())
    }

    /// Has the provider cancel a job. One that cannot be cancelled has ended, or ends in time.
    async fn cancel(&mut self, job: &JobRecord) {
        let id = job.id.clone().unwrap_or_default();
        for _ in 0..CANCELS {
            let call = self.with_job(job, |jobs, own| jobs.cancel(own, &id));
            let Err(failure) = self.calls.send(call).await else { break };
            log::debug!(target: "turnpike", "batches: {id} is not cancelled: {}", failure.message());
            if !failure.is_temporary() || self.run.is_draining() {
                break;
            }
            tokio::time::sleep(failure.wait().unwrap_or(CANCEL_WAIT).min(LONGEST_CANCEL_WAIT)).await;
        }
        self.looks.remove(&job.number);
    }
}

/// What a status means; `None`: it runs.
fn ended(status: JobStatus) -> Option<Ended> {
    Some(match status {
        JobStatus::Running => return None,
        JobStatus::Ended(results) => {
            let message = "The provider has ended the batch without a result for this line.";
            Ended { results, rest: StoredError::new("no_result", message), is_complete: true }
        }
        JobStatus::Cancelled(results) => {
            Ended { results, rest: StoredError::cancelled(), is_complete: false }
        }
        JobStatus::Expired(results) => Ended { results, rest: StoredError::expired(), is_complete: false },
        JobStatus::Failed { code, message, results } => {
            Ended { results, rest: StoredError::new(&code, &message), is_complete: false }
        }
    })
}
