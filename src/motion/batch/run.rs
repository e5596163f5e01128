//! Runs one batch from the state it is found in to its end: checks its file, sends its lines, writes its files.
//!
//! Every step can be repeated: what a process that was killed has left is found in the store and among the blobs. Only the owner of the
//! batch's lease runs it. How lines are sent is `dispatch`.

use super::batches::{Batches, new_file};
use super::blobs::BlobError;
use super::budget::Budget;
use super::dispatch::Dispatch;
use super::job_rules::JobRules;
use super::job_state::Position;
use super::jobs::{self, Jobs};
use super::kept_results::KeptResults;
use super::line::LineEnv;
use super::lines::{FileLines, LineReader};
use super::parts::{self, Assembled};
use super::record::{self, File, batch_path, file_path};
use super::state::{Batch, BatchFiles, Event, Lease, Status, StoredError};
use super::stop::Stop;
use super::validation::{BatchLine, validate};
use jiff::Timestamp;
use memory::store::{Change, Kind, Record, StoreError};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval, sleep};
use uuid::Uuid;
use words::api::own_ids::batch_id;

/// How long a process that ended keeps a batch from others.
const LEASE: Duration = Duration::from_secs(10);
/// How often its owner renews it.
const RENEWAL: Duration = Duration::from_secs(3);
/// How long to wait where store or blobs do not work.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

const NO_INPUT: &str = "The input file is gone.";

/// The run of one batch.
pub(super) struct Run {
    pub batches: Arc<Batches>,
    pub id: Uuid,
    pub budget: Budget,
    /// When this run began to end the jobs of a provider.
    pub end_began: OnceLock<Instant>,
}

/// Why a step has not come to its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// It is another process's now, or gone, or this process stops.
    Over,
    /// Store or blobs do not work now.
    Later(String),
    /// The input file is gone.
    NoInput,
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over => f.write_str("this process does not run it any more"),
            Self::Later(why) => f.write_str(why),
            Self::NoInput => f.write_str(NO_INPUT),
        }
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Later(error.to_string())
    }
}

impl From<BlobError> for Halt {
    fn from(error: BlobError) -> Self {
        Self::Later(error.to_string())
    }
}

impl Run {
    pub fn new(batches: Arc<Batches>, id: Uuid) -> Self {
        Self { batches, id, budget: Budget::default(), end_began: OnceLock::new() }
    }

    /// Runs it until it is finished, is another process's, or this process stops.
    pub(crate) async fn until_finished(self) {
        let mut failing = false;
        while !self.is_draining() {
            let stepped = match Box::pin(self.step()).await {
                Err(Halt::NoInput) => self.note_lost_input().await.map(|()| true),
                stepped => stepped,
            };
            match stepped {
                Ok(true) => {
                    if failing {
                        log::info!(target: "turnpike", "batches: {} goes on", self.name());
                    }
                    failing = false;
                }
                Ok(false) | Err(Halt::Over) => return,
                Err(why) => {
                    if !failing {
                        log::warn!(target: "turnpike", "batches: {} waits: {why}", self.name());
                    }
                    failing = true;
                    sleep(PAUSE).await;
                }
            }
        }
        self.give_up().await;
    }

    /// Does what the batch's status demands. `false`: it is finished.
    async fn step(&self) -> Result<bool, Halt> {
        let batch = self.lease().await?;
        let now = Timestamp::now().as_second();
        let has_jobs = batch.jobs.as_ref().is_some_and(|jobs| !jobs.is_done());
        match batch.status {
            Status::Validating if batch.is_over(now) => self.write_files(&batch).await?,
            Status::Validating => self.validate(&batch).await?,
            Status::InProgress if batch.has_no_input() && !has_jobs => self.write_files(&batch).await?,
            Status::InProgress if batch.has_no_input() => Box::pin(self.end_jobs(&batch)).await?,
            Status::InProgress if batch.jobs.is_some() => Box::pin(self.run_jobs(&batch)).await?,
            Status::InProgress => self.send_lines(&batch).await?,
            Status::Cancelling if has_jobs => Box::pin(self.end_jobs(&batch)).await?,
            Status::Finalizing | Status::Cancelling => self.write_files(&batch).await?,
            Status::Completed | Status::Failed | Status::Expired | Status::Cancelled => return Ok(false),
        }
        Ok(true)
    }

    /// Sends the lines that have no result yet.
    async fn send_lines(&self, batch: &Batch) -> Result<(), Halt> {
        // A batch that ran for long has many parts, and a bucket takes its time for each.
        let dispatch = tokio::select! {
            opened = Dispatch::open(self, batch) => opened?,
            halt = self.keep_while(Status::InProgress) => return halt,
        };
        // Beside it, since a bucket may take longer for a write than the lease lasts.
        let stop = tokio::select! {
            stop = dispatch.run() => stop?,
            halt = self.renew() => return Err(halt),
        };
        self.budget.release();
        match stop {
            Stop::Done => self.apply(Event::Done).await,
            Stop::Expired => self.write_files(batch).await,
            // The next step does what the new status demands.
            Stop::Changed => Ok(()),
        }
    }

    /// Has the provider run the lines in jobs of its own.
    async fn run_jobs(&self, batch: &Batch) -> Result<(), Halt> {
        let opened = tokio::select! {
            opened = Jobs::open(self, batch.clone()) => opened?,
            halt = self.keep_while(Status::InProgress) => return halt,
        };
        let jobs = match opened {
            Ok(jobs) => jobs,
            Err(_) if batch.is_over(Timestamp::now().as_second()) => {
                return Box::pin(self.end_jobs(batch)).await;
            }
            // What has not begun costs nothing.
            Err(error) if batch.jobs.as_ref().is_none_or(|jobs| jobs.jobs.is_empty()) => {
                return self.fail_lines(batch, error.into()).await;
            }
            Err(error) => return Err(Halt::Later(error.message)),
        };
        let stop = tokio::select! {
            stop = Box::pin(jobs.run()) => stop?,
            halt = self.renew() => return Err(halt),
        };
        self.budget.release();
        match stop {
            Stop::Done => self.apply(Event::Done).await,
            Stop::Expired => Box::pin(self.end_jobs(batch)).await,
            // The next step does what the new status demands.
            Stop::Changed => Ok(()),
        }
    }

    /// Ends the provider's jobs of a batch that was cancelled, or whose time is over.
    async fn end_jobs(&self, batch: &Batch) -> Result<(), Halt> {
        let ending = async {
            match Jobs::open(self, batch.clone()).await? {
                Ok(jobs) => Box::pin(jobs.end()).await,
                Err(error) => self.fail_lines(batch, error.into()).await,
            }
        };
        tokio::select! {
            ended = ending => ended?,
            halt = self.renew() => return Err(halt),
        }
        match batch.status {
            Status::InProgress if !self.is_draining() => self.write_files(batch).await,
            // The next step writes them.
            _ => Ok(()),
        }
    }

    /// Gives every line without a result this error, and has no more jobs.
    async fn fail_lines(&self, batch: &Batch, error: StoredError) -> Result<(), Halt> {
        let mut results = KeptResults::open(self, batch).await?;
        results.fail_rest(batch, &error).await?;
        let saved = self.save(|batch| {
            batch.lines.completed = results.completed;
            batch.lines.failed = results.failed;
            if let Some(jobs) = &mut batch.jobs {
                jobs.end();
            }
        });
        saved.await.map(drop)
    }

    /// Renews the lease until another process has it.
    async fn renew(&self) -> Halt {
        loop {
            sleep(RENEWAL).await;
            if let Err(Halt::Over) = self.lease().await {
                return Halt::Over;
            }
        }
    }

    /// Takes or renews the lease, and returns the batch.
    ///
    /// # Errors
    /// `Over` where another process has it.
    async fn lease(&self) -> Result<Batch, Halt> {
        self.save(|_| {}).await
    }

    /// Writes a change of the batch's own members with a renewed lease.
    ///
    /// # Errors
    /// `Over` where another process has the lease; then nothing is written.
    pub async fn save(&self, change: impl Fn(&mut Batch)) -> Result<Batch, Halt> {
        let owner = self.batches.owner;
        let changed = self.batches.change(
            self.id,
            |batch| {
                let now = Timestamp::now().as_millisecond();
                if !batch.is_free_for(owner, now) {
                    return false;
                }
                change(batch);
                if !batch.status.is_final() {
                    batch.lease = Some(Lease { owner, until: now + LEASE.as_millis() as i64 });
                }
                true
            },
            |_| Vec::new(),
            Vec::new(),
        );
        changed.await?.ok_or(Halt::Over)
    }

    /// Whether this process stops.
    pub fn is_draining(&self) -> bool {
        self.batches.shared.lifecycle.is_draining()
    }

    /// Its id, as clients write it.
    fn name(&self) -> String {
        let batch = self.record().and_then(|record| record::batch(&record));
        batch_id(self.id, batch.as_ref().and_then(Batch::provider))
    }

    /// The record as the store has it; `None`: it is gone.
    pub fn record(&self) -> Option<Arc<Record>> {
        self.batches.shared.store()?.catalog().get(Kind::Batch, self.id).cloned()
    }

    /// The batch of a record; `None`: it is another process's.
    pub fn own(&self, record: &Record) -> Option<Batch> {
        let batch = record::batch(record)?;
        let is_own = batch.lease.is_some_and(|lease| lease.owner == self.batches.owner);
        (is_own || batch.status.is_final()).then_some(batch)
    }

    async fn apply(&self, event: Event) -> Result<(), Halt> {
        let now = Timestamp::now().as_second();
        // Where the status is another one meanwhile, the next step does what that demands.
        let saved = self.save(|batch| {
            let _is_applied = batch.apply(event.clone(), now).is_ok();
        });
        saved.await.map(drop)
    }

    /// Checks every line of the input file, and holds what they are expected to use, before the first is sent.
    async fn validate(&self, batch: &Batch) -> Result<(), Halt> {
        let event = tokio::select! {
            event = self.validated(batch) => event?,
            halt = self.keep_while(Status::Validating) => return halt,
        };
        self.apply(event).await
    }

    async fn validated(&self, batch: &Batch) -> Result<Event, Halt> {
        let checked = match self.budget.lines_waiting() {
            Some(lines) => Ok(lines),
            None => self.check_lines(batch).await?,
        };
        let errors = match checked {
            Ok(lines) => match self.hold_budget(batch, lines).await? {
                None => return Ok(Event::Validated { lines }),
                Some(refusal) => vec![refusal],
            },
            Err(errors) => errors,
        };
        Ok(Event::Refused { errors })
    }

    /// How many lines there are. Inside: what is wrong with them.
    async fn check_lines(&self, batch: &Batch) -> Result<Result<u32, Vec<StoredError>>, Halt> {
        let lines = self.lines(batch).await?;
        let mut rules = JobRules::default();
        if batch.jobs.is_some() {
            match jobs::target(self, batch).await? {
                Ok((_, target)) => rules = JobRules::of(target),
                Err(error) => return Ok(Err(vec![error.into()])),
            }
        }
        let further = |line: u32, read: &BatchLine| rules.check(line, read);
        let max_lines = self.batches.bounds(|batches| batches.max_lines);
        let max_lines = u32::try_from(max_lines).unwrap_or(u32::MAX);
        let mut validated = validate(lines, &batch.request.endpoint, max_lines, further).await?;
        if validated.errors.is_empty() {
            validated.errors.extend(rules.check_whole(validated.lines));
        }
        if validated.errors.is_empty() {
            return Ok(Ok(validated.lines));
        }
        Ok(Err(validated.errors.into_iter().map(StoredError::from).collect()))
    }

    /// The lines of its input file.
    ///
    /// # Errors
    /// `NoInput` where the file is gone.
    pub async fn lines(&self, batch: &Batch) -> Result<FileLines, Halt> {
        self.lines_after(batch, Position::default()).await
    }

    /// As [`Run::lines`], from this place on.
    pub(crate) async fn lines_after(&self, batch: &Batch, after: Position) -> Result<FileLines, Halt> {
        let path = file_path(batch.request.input_file);
        match self.batches.blobs.read_from(&path, after.byte).await {
            Ok(file) => {
                let max_line_bytes = self.batches.bounds(|batches| batches.max_line_bytes);
                Ok(LineReader::at(file.stream, max_line_bytes, after))
            }
            Err(BlobError::NotFound) => Err(Halt::NoInput),
            Err(error) => Err(error.into()),
        }
    }

    /// What all its lines have in common.
    ///
    /// # Errors
    /// It is gone, or the headers that it was made with cannot be read.
    pub(crate) fn line_env(&self, batch: &Batch) -> Result<LineEnv, Halt> {
        let record = self.record().ok_or(Halt::Over)?;
        let headers = self.batches.headers(&record)?;
        let made_at = Timestamp::from_second(batch.times.created).unwrap_or_default();
        let trace_id = batch_id(self.id, batch.provider());
        LineEnv::new(&batch.request.endpoint, &headers, made_at, &trace_id).map_err(Halt::Later)
    }

    /// Writes that the input file is gone: no line can be sent any more, nor get its result.
    async fn note_lost_input(&self) -> Result<(), Halt> {
        let param = Some("input_file_id".to_owned());
        let errors = vec![StoredError { param, ..StoredError::new("invalid_file", NO_INPUT) }];
        let now = Timestamp::now().as_second();
        let saved = self.save(|batch| {
            if batch.apply(Event::Refused { errors: errors.clone() }, now).is_err() {
                batch.errors.clone_from(&errors);
            }
        });
        saved.await.map(drop)
    }

    /// Renews the lease until the batch has another status.
    async fn keep_while(&self, status: Status) -> Result<(), Halt> {
        let mut tick = interval(RENEWAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut updated = self.batches.shared.store().ok_or(Halt::Over)?.updated();
        loop {
            tokio::select! {
                _ = tick.tick() => drop(self.lease().await?),
                _ = updated.changed() => {}
            }
            let current = self.record().and_then(|record| self.own(&record));
            if current.ok_or(Halt::Over)?.status != status {
                return Ok(());
            }
        }
    }

    /// Writes output and error file of what was done, and ends the batch.
    async fn write_files(&self, batch: &Batch) -> Result<(), Halt> {
        let prefix = batch_path(self.id);
        let (output, output_path) = new_file();
        let (errors, error_path) = new_file();
        let assembled = tokio::select! {
            assembled = parts::assemble(&self.batches.blobs, &prefix, &output_path, &error_path) => assembled?,
            halt = self.keep_while(batch.status) => {
                self.delete_blobs([&output_path, &error_path]).await;
                return halt;
            }
        };
        let Assembled { completed, failed, output_bytes, error_bytes } = assembled;
        let now = Timestamp::now();
        let file = |kind: &str, bytes: u64| self.file_of(batch, kind, bytes, now);
        let made = [
            output_bytes.map(|bytes| (output, file("output", bytes))),
            error_bytes.map(|bytes| (errors, file("error", bytes))),
        ];
        let files: Vec<(Uuid, File)> = made.into_iter().flatten().collect();
        let written =
            BatchFiles { output: output_bytes.map(|_| output), errors: error_bytes.map(|_| errors) };
        let owner = self.batches.owner;
        let changed = self.batches.change(
            self.id,
            |batch| {
                batch.lines.completed = completed;
                batch.lines.failed = failed;
                batch.is_free_for(owner, now.as_millisecond())
                    && batch.apply(Event::Written(written), Timestamp::now().as_second()).is_ok()
            },
            |record| {
                let put = |(id, file): &(Uuid, File)| {
                    Change::Put(Arc::new(record::created(Kind::File, *id, record.workspace, file, now)))
                };
                files.iter().map(put).collect()
            },
            Vec::new(),
        );
        match changed.await {
            Ok(Some(batch)) => {
                log::info!(
                    target: "turnpike",
                    "batches: {} is {}: {completed} lines completed, {failed} failed, {} may have been sent twice",
                    self.name(), batch.status.as_str(), batch.lines.sent_again
                );
                self.batches.metrics.finish(&batch);
                // Left over where it fails: the sweep removes it.
                drop(self.batches.blobs.delete_all(&prefix).await);
                Ok(())
            }
            Ok(None) => {
                self.delete_blobs([&output_path, &error_path]).await;
                Ok(())
            }
            // It may be written all the same, so the files stay; the sweep deletes them where it is not.
            Err(error) => Err(error.into()),
        }
    }

    /// A file that the batch makes.
    fn file_of(&self, batch: &Batch, kind: &str, bytes: u64, now: Timestamp) -> File {
        let retention = self.batches.bounds(|batches| batches.retention).as_secs() as i64;
        let kept = batch.request.output_expiry.map_or(retention, i64::from);
        File {
            filename: format!("{}_{kind}.jsonl", batch_id(self.id, batch.provider())),
            purpose: "batch_output".to_owned(),
            bytes,
            created: now.as_second(),
            expires: Some(now.as_second() + kept),
            provider: batch.provider().map(str::to_owned),
            made_by: batch.made_by.clone(),
        }
    }

    /// Left over where it fails: the sweep removes them.
    async fn delete_blobs(&self, paths: [&str; 2]) {
        for path in paths {
            drop(self.batches.blobs.delete(path).await);
        }
    }

    /// Leaves the batch to others at once: this process stops.
    async fn give_up(&self) {
        let owner = self.batches.owner;
        let changed = self.batches.change(
            self.id,
            |batch| batch.lease.take().is_some_and(|lease| lease.owner == owner),
            |_| Vec::new(),
            Vec::new(),
        );
        if let Err(why) = changed.await {
            log::debug!(target: "turnpike", "batches: {} is left to others when its lease ends: {why}", self.name());
        }
    }
}
