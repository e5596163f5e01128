//! Batch jobs of providers whose batches are not OpenAI's: what a vendor's API demands, as requests and readers of responses.
//!
//! Pure: nothing is sent here, and nothing is stored. `batch/jobs.rs` cuts a batch into jobs, sends the calls and keeps the results.
//!
//! A line goes out as `Attempt::new` makes it. Its result comes back through the engine as the response of an attempt that calls
//! no one (`GivenResponse`), so translation, errors, logs and costs are those of any request. A new vendor is one description of its
//! API (`api`), one implementation with what is like no other's, and one line at its provider.

mod api;
pub(super) mod fireworks;
pub mod jsonl;
pub(super) mod mistral;
pub(super) mod together;

pub use api::{BatchApi, CancelCall, FormUpload, JobEnd, JobFailure, JobKey, JobSearch, LineForm};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use serde_json::{Map, Value};
use std::fmt::Debug;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// How large a job may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    /// The most lines of a job.
    pub max_lines: u32,
    /// The fewest lines of a batch that this provider takes.
    pub min_lines: u32,
    /// The most bytes of a job's input, as [`BatchJobs::write_line`] writes it. A longer line is refused.
    pub max_bytes: usize,
    /// The most of a job that has more, since it would not have `min_lines` otherwise.
    pub most_bytes: usize,
    /// All lines of a job have one model.
    pub one_model: bool,
}

impl JobLimits {
    /// Jobs of one model each, with so many lines at the most, and no less than any client's batch has.
    pub const fn of_one_model(max_lines: u32) -> Self {
        Self { max_lines, min_lines: 1, max_bytes: 8 << 20, most_bytes: 8 << 20, one_model: true }
    }

    /// Whether a job with so many lines and bytes has no room for the next line, of so many bytes.
    pub const fn is_full(&self, lines: u32, bytes: usize, next: usize) -> bool {
        lines >= self.min_lines && (lines >= self.max_lines || bytes.saturating_add(next) > self.max_bytes)
    }
}

/// What calls of a job are made of.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Unique: up to 63 of `a-z`, `0-9` and `-`, the first a letter.
    pub name: &'a str,
    pub account: &'a Account,
    /// The model as the provider names it; with [`JobLimits::one_model`] that of all lines.
    pub model: &'a str,
    /// Of its lines: chat completions, completions or embeddings.
    pub operation: Operation,
    /// The body of the request that made the batch: members that only one provider has (`role_arn`).
    pub options: &'a Map<String, Value>,
    /// What [`BatchJobs::uploaded`] has returned, where its input is uploaded.
    pub input: Option<&'a str>,
    /// What [`BatchJobs::created`] has returned, once it is created.
    pub id: Option<&'a str>,
}

/// A request to the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobCall {
    pub method: Method,
    /// The provider's own path with its query, below the version segment and without a leading slash: it is sent as
    /// `/v1/proxy/<path>`.
    pub path: String,
    /// Content type and what else this call needs. Credentials are written when it is sent.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
}

impl JobCall {
    /// A request without a body.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), headers: Vec::new(), body: Bytes::new() }
    }

    /// A request with a JSON body.
    pub fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        let json = (http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self { method: Method::POST, path: path.into(), headers: vec![json], body: body.into() }
    }
}

/// The input of a job that is created.
#[derive(Debug, Clone, Copy)]
pub enum JobInput<'a> {
    /// Its lines, for providers that take them in the request itself.
    Lines(&'a Bytes),
    /// The name that the upload has.
    Uploaded(&'a str),
}

impl<'a> JobInput<'a> {
    /// # Errors
    /// It was not uploaded, which this provider's jobs need.
    pub fn uploaded(self) -> Result<&'a str, Error> {
        match self {
            Self::Uploaded(name) => Ok(name),
            Self::Lines(_) => Err(Error::internal("a batch without an upload")),
        }
    }
}

/// Where the results of a job are.
#[derive(Debug, PartialEq, Eq)]
pub enum JobResults {
    /// Bodies of lines, each for [`BatchJobs::read_result`]. One that is not there (404) has no results, where the job did not complete.
    Calls(Vec<JobCall>),
    /// A response that [`BatchJobs::listed`] reads.
    Listed(JobCall),
}

impl JobResults {
    pub const NONE: Self = Self::Calls(Vec::new());
}

/// What a job has come to.
#[derive(Debug, PartialEq, Eq)]
pub enum JobStatus {
    Running,
    /// It has ended, whether all lines succeeded or not.
    Ended(JobResults),
    /// It was cancelled, with the results of lines that were done.
    Cancelled(JobResults),
    /// Its time is over, with the results of lines that were done.
    Expired(JobResults),
    /// The provider has refused it as a whole, or it failed: every line without a result fails with this.
    Failed {
        code: String,
        message: String,
        results: JobResults,
    },
}

/// The result of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult {
    /// The number of the line, as it was written.
    pub line: u32,
    pub outcome: JobOutcome,
}

/// What a line came to at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// The provider's own response body, or error body.
    Response { status: u16, body: Vec<u8> },
    /// The line was not run, since its job was cancelled.
    Cancelled,
    /// The line was not run in time.
    Expired,
}

/// A vendor's batch jobs: the description of its API, and in place of what that gives, what is like no other vendor's.
pub trait BatchJobs: Sync + Debug {
    fn api(&self) -> &'static BatchApi;

    fn limits(&self) -> JobLimits {
        self.api().limits
    }

    /// See [`BatchApi::keeps_all_files`].
    fn keeps_all_files(&self) -> bool {
        self.api().keeps_all_files
    }

    /// Whether a batch like this is possible. Called before a batch is created, with an empty model, and again with the model of
    /// each job.
    ///
    /// # Errors
    /// 400 that names what is not possible: the operation, or what the account or the options lack.
    fn check(&self, _job: &Job<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Writes one line of the input. Its id at the provider is its number. `body` is the request in the provider's own format.
    ///
    /// # Errors
    /// 400: this body cannot stand in a batch.
    fn write_line(&self, line: u32, body: &[u8], _job: &Job<'_>, input: &mut Vec<u8>) -> Result<(), Error> {
        self.api().line.write(line, body, input)
    }

    /// The calls that upload the input, one after the other; empty where lines are in the request itself. A 409 of one before the
    /// last means that an earlier process has made it.
    ///
    /// # Errors
    /// 400 for an account that lacks what is needed.
    fn uploads(&self, job: &Job<'_>, input: &Bytes) -> Result<Vec<JobCall>, Error> {
        self.api().upload.iter().map(|upload| upload.call(job, input)).collect()
    }

    /// The name of what was uploaded, from the response to the last of [`BatchJobs::uploads`].
    ///
    /// # Errors
    /// 502 for a response that has none.
    fn uploaded(&self, _job: &Job<'_>, response: &[u8]) -> Result<String, Error> {
        self.api().uploaded(response)
    }

    /// # Errors
    /// 400 for an account or options that lack what is needed.
    fn create(&self, job: &Job<'_>, input: JobInput<'_>) -> Result<JobCall, Error>;

    /// The id of the job, from the response to [`BatchJobs::create`].
    ///
    /// # Errors
    /// 502 for a response that has none.
    fn created(&self, response: &[u8]) -> Result<String, Error> {
        self.job_id(self.api().created(response)?)
    }

    /// A job's id, as it stands in paths, from what a response has.
    ///
    /// # Errors
    /// 502 for what cannot be one.
    fn job_id(&self, given: String) -> Result<String, Error> {
        Ok(given)
    }

    /// How a job is looked for by its name, or by its input, where nobody knows whether it was created, or its creation gave a 409; `None`:
    /// it cannot be.
    fn find(&self, job: &Job<'_>) -> Option<JobCall> {
        self.api().find.as_ref()?.call(job)
    }

    /// The id of the job that was looked for, from the response to [`BatchJobs::find`].
    ///
    /// # Errors
    /// 502 for a response that cannot be read.
    fn found(&self, job: &Job<'_>, response: &[u8]) -> Result<Option<String>, Error> {
        self.api().found(job, response)?.map(|id| self.job_id(id)).transpose()
    }

    /// A job that was cancelled may be gone: its status is a 404 then.
    fn status(&self, _job: &Job<'_>, id: &str) -> JobCall {
        JobCall::get(api::path(self.api().job, id))
    }

    /// What a job has come to, from the response to [`BatchJobs::status`].
    ///
    /// # Errors
    /// 502 for a response that cannot be read.
    fn read_status(&self, job: &Job<'_>, response: &[u8]) -> Result<JobStatus, Error> {
        let api = self.api();
        let view: Value = jsonl::parse(response)?;
        let Some(end) = api.end(&view)? else { return Ok(JobStatus::Running) };
        let results = if end.has_results() { self.results(job, &view)? } else { JobResults::NONE };
        Ok(match end {
            JobEnd::Complete => JobStatus::Ended(results),
            JobEnd::Cancelled | JobEnd::Deleted => JobStatus::Cancelled(results),
            JobEnd::Expired => JobStatus::Expired(results),
            JobEnd::Failed | JobEnd::Refused => {
                let code = api.failure.code.to_owned();
                JobStatus::Failed { code, message: api.failure.message(&view), results }
            }
        })
    }

    /// Where the results of a job are that has ended, from the response to [`BatchJobs::status`].
    ///
    /// # Errors
    /// 502 for a response that cannot be read.
    fn results(&self, _job: &Job<'_>, view: &Value) -> Result<JobResults, Error> {
        let files = self.api().result_files.iter().filter_map(|pointer| jsonl::text(view, pointer));
        Ok(JobResults::Calls(files.map(|id| JobCall::get(format!("files/{id}/content"))).collect()))
    }

    /// Where results are, from the response to [`JobResults::Listed`].
    ///
    /// # Errors
    /// 502 for a response that cannot be read.
    fn listed(&self, _job: &Job<'_>, _response: &[u8]) -> Result<Vec<JobCall>, Error> {
        Ok(Vec::new())
    }

    fn cancel(&self, _job: &Job<'_>, id: &str) -> JobCall {
        self.api().cancel.call(id)
    }

    /// One line of a body of results; `None`: it is no result. The default reads OpenAI's shape.
    ///
    /// # Errors
    /// 502 for a line that cannot be read.
    fn read_result(&self, line: &[u8]) -> Result<Option<JobResult>, Error> {
        jsonl::read_result(line)
    }
}

#[cfg(test)]
pub(in crate::provider) mod tests {
    use super::*;

    /// Calls `with` with a job of an account without anything.
    pub fn with_job(model: &str, operation: Operation, with: impl FnOnce(&Job<'_>)) {
        let account = Account::default();
        let options = Map::new();
        let name = "turnpike-0-1";
        with(&Job { name, account: &account, model, operation, options: &options, input: None, id: None });
    }
}
