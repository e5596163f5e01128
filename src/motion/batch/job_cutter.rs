//! Cuts the lines of a batch into jobs within a provider's limits, each line in the provider's format.
//!
//! Lines that cannot be translated get their result here. What is made of a job is `jobs`.

use super::job_state::Position;
use super::job_target::JobTarget;
use super::kept_results::KeptResults;
use super::line_result::LineOutcome;
use super::lines::FileLines;
use super::run::Halt;
use super::validation::{BatchLine, read_line};
use crate::engine::planner::Planner;
use bytes::Bytes;
use knowledge::provider::batch_jobs::{BatchJobs, Job, JobLimits};
use words::api::error_body::ErrorView;
use words::error::Error;

/// Reads the lines of a batch from one place on.
pub(super) struct Cutter {
    reader: FileLines,
    endpoint: String,
    /// A line that did not fit into the job before, and what is written of it.
    ahead: Option<Written>,
    /// After the last line that is in a job or was refused.
    at: Position,
    /// How many requests stand before `at`.
    taken: u32,
}

/// What a cutter works with.
pub(super) struct Cutting<'a, 'b> {
    pub planner: &'a Planner,
    pub target: &'a JobTarget,
    pub job: &'a Job<'a>,
    /// Requests in the file.
    pub total: u32,
    pub results: &'a mut KeptResults<'b>,
}

struct Written {
    number: u32,
    custom_id: String,
    end: Position,
    model: String,
    bytes: Vec<u8>,
}

/// A job that was cut.
#[derive(Debug)]
pub(super) struct Cut {
    pub after: Position,
    pub end: Position,
    /// How many requests stand before `end`.
    pub taken: u32,
    /// Its last line.
    pub last: u32,
    pub lines: u32,
    pub model: String,
    pub input: Bytes,
}

impl Cutter {
    /// `reader`: from where the next job begins; so many requests stand before.
    pub fn new(reader: FileLines, endpoint: &str, taken: u32) -> Self {
        Self { at: reader.position(), reader, endpoint: endpoint.to_owned(), ahead: None, taken }
    }

    /// The next job; `None`: no line is left. `up_to`: the last line of one that was cut before.
    pub async fn next(
        &mut self,
        cutting: &mut Cutting<'_, '_>,
        up_to: Option<u32>,
    ) -> Result<Option<Cut>, Halt> {
        let limits = cutting.target.jobs.limits();
        let after = self.at;
        let mut cut = Cut {
            after,
            end: after,
            taken: self.taken,
            last: 0,
            lines: 0,
            model: String::new(),
            input: Bytes::new(),
        };
        let mut input = Vec::new();
        loop {
            let line = match self.ahead.take() {
                Some(ahead) => Some(ahead),
                None => self.read(cutting, up_to.unwrap_or(u32::MAX)).await?,
            };
            let Some(line) = line else { break };
            let size = line.bytes.len();
            let is_full = limits.is_full(cut.lines, input.len(), size)
                || (cut.lines > 0 && limits.one_model && cut.model != line.model);
            // A rest that is too small for a job of its own goes with this one.
            let is_rest = cutting.total.saturating_sub(self.taken) < limits.min_lines;
            if is_full && !is_rest && up_to.is_none() {
                self.ahead = Some(line);
                break;
            }
            self.taken += 1;
            self.at = line.end;
            if input.len().saturating_add(size) > limits.most_bytes && up_to.is_none() {
                let error = no_room(&limits, size, input.len());
                refuse(cutting.results, line.number, &line.custom_id, &error).await?;
                continue;
            }
            input.extend_from_slice(&line.bytes);
            cut.last = line.number;
            cut.end = line.end;
            cut.model = line.model;
            cut.lines += 1;
            cut.taken = self.taken;
        }
        cutting.results.write().await?;
        if cut.lines == 0 {
            return Ok(None);
        }
        cut.input = input.into();
        Ok(Some(cut))
    }

    /// The next line that has no result and can be sent.
    async fn read(&mut self, cutting: &mut Cutting<'_, '_>, up_to: u32) -> Result<Option<Written>, Halt> {
        while self.reader.number() < up_to {
            let Some(line) = self.reader.next().await? else { return Ok(None) };
            let end = self.reader.position();
            let Ok(line) = line else { continue };
            let Ok(read) = read_line(&line, &self.endpoint) else { continue };
            let number = line.number;
            if !cutting.results.has(number) {
                let custom_id = read.custom_id.clone();
                match write(cutting, number, &read).await {
                    Ok((model, bytes)) => return Ok(Some(Written { number, custom_id, end, model, bytes })),
                    Err(error) => refuse(cutting.results, number, &custom_id, &error).await?,
                }
            }
            self.at = end;
            self.taken += 1;
        }
        Ok(None)
    }
}

/// Why a line is not in the job that it had to be in.
fn no_room(limits: &JobLimits, size: usize, others: usize) -> Error {
    let message = format!(
        "This line has {size} bytes in the provider's format, and the lines before it {others}: more than {}, the most that {} lines of \
         its batches may have together.",
        limits.most_bytes, limits.min_lines
    );
    Error::invalid_request("body", message)
}

/// A line in the provider's format.
async fn write(cutting: &Cutting<'_, '_>, number: u32, line: &BatchLine) -> Result<(String, Vec<u8>), Error> {
    let Cutting { planner, target, job, .. } = cutting;
    let large_work = &planner.engine.shared.large_work;
    let translate = || target.translate(line.body.clone());
    let translated = large_work.run(line.body.len(), translate).await?;
    let mut bytes = Vec::with_capacity(translated.body.len() + 64);
    let jobs: &dyn BatchJobs = target.jobs;
    let own = Job { model: &translated.model, ..**job };
    jobs.write_line(number, &translated.body, &own, &mut bytes)?;
    let most = jobs.limits().max_bytes;
    if bytes.len() > most {
        let message = format!(
            "This line has {} bytes in the provider's format, more than {most}, the most that a line of its batches may have.",
            bytes.len()
        );
        return Err(Error::invalid_request("body", message));
    }
    Ok((translated.model, bytes))
}

/// Gives a line that cannot be sent its result, as a request would have it.
pub(super) async fn refuse(
    results: &mut KeptResults<'_>,
    number: u32,
    custom_id: &str,
    error: &Error,
) -> Result<(), Halt> {
    let request_id = results.request_id(number);
    let body = ErrorView::from(error).with_request_id(&request_id).body(words::api::Dialect::OpenAi);
    let outcome = LineOutcome::Response { status: error.status(), request_id: &request_id, body: &body };
    results.add(number, custom_id, &outcome).await
}
