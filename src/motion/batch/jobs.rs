//! Runs a batch in a provider's own batch jobs: cuts its lines into jobs, creates them, looks after them and keeps their results.
//!
//! Every step is in the store before it is taken, so that another process can go on: a job has its name before it is created, and is looked
//! for by that name where nobody knows whether it was. What a provider demands is `provider::batch_jobs`; the ends of jobs are in `job_end`.

use super::job_calls::{CallFailure, JobCalls};
use super::job_cutter::{Cut, Cutter, Cutting};
use super::job_state::{JobRecord, JobState, Position, ProviderJobs};
use super::job_target::JobTarget;
use super::kept_results::KeptResults;
use super::line::LineEnv;
use super::run::{Halt, Run};
use super::state::{Batch, StoredError};
use super::stop::{Stop, StoredBatch};
use bytes::Bytes;
use knowledge::provider::batch_jobs::{BatchJobs, Job, JobInput};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::own_ids::batch_id;
use words::error::Error;

/// Jobs of one batch at a provider at a time.
const MAX_OPEN: usize = 16;
/// How long after it is created a job is looked at; doubled each time, up to the second.
const FIRST_LOOK: Duration = Duration::from_millis(500);
const LAST_LOOK: Duration = Duration::from_secs(60);
/// The wait before a call is sent again that may succeed later; doubled each time, up to the second.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long nothing may happen before the batch is looked at again.
const IDLE: Duration = Duration::from_secs(1);

/// When something is done again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub at: Instant,
    wait: Duration,
}

impl Due {
    fn first(now: Instant, wait: Duration) -> Self {
        Self { at: now + wait, wait }
    }

    /// Twice as late, or as late as the provider wants.
    fn later(self, now: Instant, most: Duration, wanted: Option<Duration>) -> Self {
        let wait = (self.wait * 2).min(most);
        Self { at: now + wanted.unwrap_or_default().max(wait), wait }
    }
}

/// The jobs of a batch.
pub(super) struct Jobs<'a> {
    pub run: &'a Run,
    pub batch: Batch,
    pub target: JobTarget,
    pub calls: JobCalls,
    pub results: KeptResults<'a>,
    /// The input of the job that is about to be created.
    input: Option<(u32, Bytes)>,
    /// Jobs of which nobody knows whether they are created.
    pub unclear: Vec<u32>,
    /// When jobs are looked at.
    pub looks: HashMap<u32, Due>,
    /// When the next job may be created.
    create: Option<Due>,
    /// The last failure was logged.
    is_failing: bool,
}

impl<'a> Jobs<'a> {
    /// # Errors
    /// Store or blobs do not work. Inside: the client's key or config is not good any more.
    pub async fn open(run: &'a Run, batch: Batch) -> Result<Result<Self, Error>, Halt> {
        let (env, target) = match target(run, &batch).await? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let results = KeptResults::open(run, &batch).await?;
        run.hold_rest(&batch, results.done()).await?;
        let env = env.with_advance(run.budget.held());
        let planned = batch.jobs.iter().flat_map(ProviderJobs::open);
        let unclear = planned.filter(|job| job.state == JobState::Planned).map(|job| job.number).collect();
        Ok(Ok(Self {
            run,
            target,
            calls: JobCalls::new(run.batches.planner.clone(), Arc::new(env)),
            results,
            input: None,
            unclear,
            looks: HashMap::new(),
            create: None,
            is_failing: false,
            batch,
        }))
    }

    /// Runs until every line has its result, or lines must not be sent any more.
    pub async fn run(mut self) -> Result<Stop, Halt> {
        // Not a member, since a reader cannot be shared between threads.
        let mut cutter = None;
        let mut updated = self.run.batches.shared.store().ok_or(Halt::Over)?.updated();
        let mut stored = StoredBatch::open(self.run)?;
        loop {
            if let Some(stop) = stored.stop(self.run)? {
                return Ok(stop);
            }
            if self.state().is_done() {
                self.save(|_| {}).await?;
                return Ok(Stop::Done);
            }
            let now = Instant::now();
            if let Some(number) = self.due(now) {
                Box::pin(self.look(number)).await?;
            } else if self.may_create(now) {
                Box::pin(self.create_next(&mut cutter)).await?;
            } else {
                tokio::select! {
                    () = tokio::time::sleep_until(self.wake_at(now).into()) => {}
                    _ = updated.changed() => {}
                }
            }
        }
    }

    pub fn state(&self) -> &ProviderJobs {
        static NONE: std::sync::LazyLock<ProviderJobs> = std::sync::LazyLock::new(ProviderJobs::default);
        self.batch.jobs.as_ref().unwrap_or(&NONE)
    }

    pub fn job(&self, number: u32) -> Result<JobRecord, Halt> {
        let found = self.state().jobs.iter().find(|job| job.number == number);
        found.cloned().ok_or_else(|| Halt::Later("a job of the batch is gone".to_owned()))
    }

    /// Calls `with` with the provider's knowledge, and what it gets to see of a job.
    pub fn with_job<T>(&self, job: &JobRecord, with: impl FnOnce(&dyn BatchJobs, &Job<'_>) -> T) -> T {
        self.target.with_job(self.run.id, self.state(), job, with)
    }

    /// A running job whose time to be looked at has come.
    pub fn due(&self, now: Instant) -> Option<u32> {
        let running = self.state().open().filter(|job| job.state == JobState::Running);
        let is_due = |job: &&JobRecord| self.looks.get(&job.number).is_none_or(|due| due.at <= now);
        running.into_iter().find(is_due).map(|job| job.number)
    }

    fn may_create(&self, now: Instant) -> bool {
        let may_cut = !self.state().is_cut && self.state().open().count() < MAX_OPEN;
        (may_cut || self.planned().is_some()) && self.create.is_none_or(|due| due.at <= now)
    }

    /// The first job that is not created.
    fn planned(&self) -> Option<u32> {
        self.state().open().find(|job| job.state == JobState::Planned).map(|job| job.number)
    }

    fn wake_at(&self, now: Instant) -> Instant {
        let looks = self.looks.values().map(|due| due.at);
        let next = looks.chain(self.create.map(|due| due.at)).filter(|at| *at > now).min();
        next.unwrap_or(now + IDLE).min(now + IDLE)
    }

    /// Creates the job that is planned, or cuts the next one.
    async fn create_next(&mut self, cutter: &mut Option<Cutter>) -> Result<(), Halt> {
        let number = match self.planned() {
            Some(number) => number,
            None => match self.cut(cutter).await? {
                Some(number) => number,
                None => return Ok(()),
            },
        };
        match self.create(number).await? {
            Ok(()) => {
                self.create = None;
                self.note_success();
            }
            Err(failure) if failure.is_temporary() => self.wait_to_create(&failure),
            Err(CallFailure::Status { status, code, message, .. }) => {
                let message = format!("The provider has refused the batch ({status}): {message}");
                self.fail_job(number, StoredError::new(&code, &message)).await?;
            }
            Err(CallFailure::Unclear(_)) => {}
        }
        Ok(())
    }

    fn wait_to_create(&mut self, failure: &CallFailure) {
        let now = Instant::now();
        let due = self.create.map_or_else(
            || Due::first(now, FIRST_WAIT.max(failure.wait().unwrap_or_default())),
            |due| due.later(now, LONGEST_WAIT, failure.wait()),
        );
        self.create = Some(due);
        self.note_failure(failure);
    }

    /// Cuts the next job, and writes that it is about to be created. `None`: no line is left.
    async fn cut(&mut self, kept: &mut Option<Cutter>) -> Result<Option<u32>, Halt> {
        let mut cutter = match kept.take() {
            Some(cutter) => cutter,
            None => self.cutter(self.state().cut, self.state().taken).await?,
        };
        let cut = self.next_cut(&mut cutter, None).await?;
        let number = self.state().jobs.len() as u32 + 1;
        let Some(Cut { after, end, taken, last, lines, model, input }) = cut else {
            self.save(|jobs| jobs.is_cut = true).await?;
            return Ok(None);
        };
        *kept = Some(cutter);
        let job = JobRecord {
            number,
            after,
            last,
            lines,
            model,
            input: None,
            id: None,
            state: JobState::Planned,
            is_created_again: false,
            error: None,
        };
        self.input = Some((number, input));
        self.save(|jobs| {
            jobs.jobs.push(job.clone());
            jobs.cut = end;
            jobs.taken = taken;
        })
        .await?;
        Ok(Some(number))
    }

    /// Cuts the lines after this one; so many requests stand before.
    async fn cutter(&self, after: Position, taken: u32) -> Result<Cutter, Halt> {
        let lines = self.run.lines_after(&self.batch, after).await?;
        Ok(Cutter::new(lines, &self.batch.request.endpoint, taken))
    }

    async fn next_cut(&mut self, cutter: &mut Cutter, up_to: Option<u32>) -> Result<Option<Cut>, Halt> {
        let jobs = self.state().clone();
        let mut cutting = Cutting {
            planner: &self.run.batches.planner,
            target: &self.target,
            job: &self.target.job("", &jobs),
            total: self.batch.lines.total,
            results: &mut self.results,
        };
        cutter.next(&mut cutting, up_to).await
    }

    /// The input of a job that was cut by another process, or before a call failed.
    async fn input(&mut self, job: &JobRecord) -> Result<Option<Bytes>, Halt> {
        if let Some((_, input)) = self.input.as_ref().filter(|(number, _)| *number == job.number) {
            return Ok(Some(input.clone()));
        }
        let mut cutter = self.cutter(job.after, 0).await?;
        let cut = self.next_cut(&mut cutter, Some(job.last)).await?;
        self.input = cut.map(|cut| (job.number, cut.input));
        Ok(self.input.as_ref().map(|(_, input)| input.clone()))
    }

    /// Uploads the input of a job and creates it, unless it is there already.
    async fn create(&mut self, number: u32) -> Result<Result<(), CallFailure>, Halt> {
        let mut job = self.job(number)?;
        let was_uploaded = job.input.is_some();
        let mut is_again = false;
        if self.unclear.contains(&number) {
            is_again = self.with_job(&job, |jobs, own| jobs.find(own)).is_none();
            match self.find(number).await? {
                Ok(true) => return Ok(Ok(())),
                Ok(false) => {}
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let Some(input) = self.input(&job).await? else {
            // All its lines were refused.
            self.save_job(number, |job| job.state = JobState::Ended).await?;
            return Ok(Ok(()));
        };
        if job.input.is_none() {
            match self.upload(&job, &input).await {
                Ok(None) => {}
                Ok(uploaded) => {
                    self.save_job(number, |job| job.input.clone_from(&uploaded)).await?;
                    job.input = uploaded;
                }
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let call = self.with_job(&job, |jobs, own| {
            let input = own.input.map_or(JobInput::Lines(&input), JobInput::Uploaded);
            jobs.create(own, input)
        });
        let call = match call {
            Ok(call) => call,
            Err(error) => return Ok(Err(refused(&error))),
        };
        // A job that is made of an uploaded file cannot be there while no file is.
        if is_again && was_uploaded == job.input.is_some() {
            self.count_again(number).await?;
        }
        let sent = self.calls.send_once(call).await;
        let id = sent.and_then(|response| {
            let id = self.with_job(&job, |jobs, _| jobs.created(&response));
            id.map_err(|error| CallFailure::Unclear(error.message))
        });
        match id {
            Ok(id) => self.created(number, id).await.map(Ok),
            Err(failure) => {
                if failure.is_unclear() {
                    self.unclear.push(number);
                }
                Ok(Err(failure))
            }
        }
    }

    /// Counts the lines of a job that is created again among those that may have been sent twice, each once.
    async fn count_again(&mut self, number: u32) -> Result<(), Halt> {
        let saved = self.run.save(|batch| {
            let job = batch.jobs.as_mut().and_then(|jobs| jobs.job_mut(number));
            if let Some(job) = job.filter(|job| !job.is_created_again) {
                job.is_created_again = true;
                batch.lines.sent_again += job.lines;
            }
        });
        self.batch = saved.await?;
        Ok(())
    }

    async fn upload(&self, job: &JobRecord, input: &Bytes) -> Result<Option<String>, CallFailure> {
        let uploads = self.with_job(job, |jobs, own| jobs.uploads(own, input));
        let mut uploads = uploads.map_err(|error| refused(&error))?;
        let Some(last) = uploads.pop() else { return Ok(None) };
        for upload in uploads {
            match self.calls.send(upload).await {
                Err(failure) if !failure.is_status(409) => return Err(failure),
                _ => {}
            }
        }
        let response = self.calls.send(last).await?;
        let uploaded = self.with_job(job, |jobs, own| jobs.uploaded(own, &response));
        uploaded.map(Some).map_err(|error| CallFailure::Unclear(error.message))
    }

    async fn created(&mut self, number: u32, id: String) -> Result<(), Halt> {
        self.input = None;
        self.unclear.retain(|unclear| *unclear != number);
        self.looks.insert(number, Due::first(Instant::now(), FIRST_LOOK));
        self.save_job(number, |job| {
            job.id = Some(id.clone());
            job.state = JobState::Running;
        })
        .await
    }

    /// Looks for a job of which nobody knows whether it was created. `true`: it is there. Where a provider has no names for jobs, it is not
    /// found, and its lines may run twice if it is created again.
    pub async fn find(&mut self, number: u32) -> Result<Result<bool, CallFailure>, Halt> {
        let job = self.job(number)?;
        let Some(call) = self.with_job(&job, |jobs, own| jobs.find(own)) else {
            self.unclear.retain(|unclear| *unclear != number);
            return Ok(Ok(false));
        };
        let found = match self.calls.send(call).await {
            Ok(response) => self.with_job(&job, |jobs, own| jobs.found(own, &response)),
            Err(failure) if failure.is_status(404) => Ok(None),
            Err(failure) => return Ok(Err(failure)),
        };
        match found {
            Ok(Some(id)) => self.created(number, id).await.map(|()| Ok(true)),
            Ok(None) => {
                self.unclear.retain(|unclear| *unclear != number);
                Ok(Ok(false))
            }
            Err(error) => Ok(Err(CallFailure::Unclear(error.message))),
        }
    }

    /// Notes that a job is looked at later.
    pub(crate) fn look_later(&mut self, number: u32, wanted: Option<Duration>) {
        let now = Instant::now();
        let due = self.looks.get(&number).copied().unwrap_or_else(|| Due::first(now, FIRST_LOOK));
        self.looks.insert(number, due.later(now, LAST_LOOK, wanted));
    }

    pub(crate) fn note_failure(&mut self, failure: &CallFailure) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let id = batch_id(self.run.id, self.batch.provider());
            log::warn!(target: "turnpike", "batches: {id} waits: {}", failure.message());
        }
    }

    pub(crate) fn note_success(&mut self) {
        if std::mem::replace(&mut self.is_failing, false) {
            let id = batch_id(self.run.id, self.batch.provider());
            log::info!(target: "turnpike", "batches: {id} goes on");
        }
    }

    /// Writes a change of the jobs, and the counts of lines.
    pub async fn save(&mut self, change: impl Fn(&mut ProviderJobs)) -> Result<(), Halt> {
        let saved = self.run.save(|batch| {
            batch.lines.completed = self.results.completed;
            batch.lines.failed = self.results.failed;
            if let Some(jobs) = &mut batch.jobs {
                change(jobs);
            }
        });
        self.batch = saved.await?;
        Ok(())
    }

    pub(crate) async fn save_job(
        &mut self,
        number: u32,
        change: impl Fn(&mut JobRecord),
    ) -> Result<(), Halt> {
        self.save(|jobs| {
            if let Some(job) = jobs.job_mut(number) {
                change(job);
            }
        })
        .await
    }
}

/// The target of a batch's lines, and what all of them have in common.
///
/// # Errors
/// The store does not work. Inside: the client's key or config is not good any more.
pub(super) async fn target(run: &Run, batch: &Batch) -> Result<Result<(LineEnv, JobTarget), Error>, Halt> {
    let env = run.line_env(batch)?;
    let provider = batch.provider().unwrap_or_default();
    let planner = &run.batches.planner;
    let client = match env.client(planner).await {
        Ok(client) => client,
        Err(error) => return Ok(Err(error)),
    };
    let config = planner.offline_config(&env.uri, &env.headers, Arc::clone(&client)).await;
    let target = config.and_then(|config| JobTarget::new(config, provider, env.uri.clone(), &client));
    Ok(target.map(|target| (env, target)))
}

/// What the gateway itself refuses.
fn refused(error: &Error) -> CallFailure {
    let code = error.kind.row().code.to_owned();
    CallFailure::Status { status: error.status(), code, message: error.message.clone(), wait: None }
}
