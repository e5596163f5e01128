//! A vendor's API of batch jobs as data: paths, places in responses, and the names of states.
//!
//! What is made of it is in `BatchJobs`, whose functions a vendor replaces where its API is like no other. Paths may have `{id}`, the
//! job's id, and `{name}`, its name; places are JSON pointers.

use super::jsonl::{self, first_text, parse, text};
use super::{Job, JobCall, JobLimits};
use bytes::Bytes;
use http::Method;
use serde_json::Value;
use words::api::body::{Body, Edit};
use words::error::Error;

/// An API of batch jobs.
#[derive(Debug)]
pub struct BatchApi {
    pub limits: JobLimits,
    /// The gateway keeps files for other purposes than batches as well, since the vendor has no API for files. Otherwise they are passed on.
    pub keeps_all_files: bool,
    pub line: LineForm,
    /// How the input is uploaded, where that is one form.
    pub upload: Option<FormUpload>,
    /// Where the response to the creation of a job has its id: the first that is there.
    pub created: &'static [&'static str],
    /// How a job is looked for, where that is possible.
    pub find: Option<JobSearch>,
    /// The path of a job.
    pub job: &'static str,
    pub cancel: CancelCall,
    /// Where a job has its state.
    pub state: &'static str,
    /// The states of jobs that have ended; in any other state a job runs. Upper and lower case are one, and a prefix up to `STATE_` is
    /// left out.
    pub states: &'static [(&'static str, JobEnd)],
    pub failure: JobFailure,
    /// Where a job has the ids of files with results, whose contents are at OpenAI's paths.
    pub result_files: &'static [&'static str],
}

/// How a line of the input is written: `{"<id>":"<prefix><number>","<body>":...}`.
#[derive(Debug)]
pub struct LineForm {
    pub id: &'static str,
    /// Before the number of the line.
    pub prefix: &'static str,
    pub body: &'static str,
    /// The model is the job's, and not in the body.
    pub without_model: bool,
}

/// An upload as a form with the field `file`.
#[derive(Debug)]
pub struct FormUpload {
    pub path: &'static str,
    /// Further fields.
    pub fields: &'static [(&'static str, &'static str)],
    /// Where the response has the id of the file.
    pub id: &'static str,
}

/// A list in which a job is looked for.
#[derive(Debug)]
pub struct JobSearch {
    pub path: &'static str,
    /// Where the response has the list: the first that is there.
    pub lists: &'static [&'static str],
    /// Where a job of the list has what it is known by.
    pub key: JobKey,
    /// Where it has its id.
    pub id: &'static str,
}

/// What a job is known by, and where a job of a list has it.
#[derive(Debug)]
pub enum JobKey {
    Name(&'static str),
    /// What was uploaded for it: without that it was not created.
    Input(&'static str),
}

/// How a job is cancelled.
#[derive(Debug)]
pub enum CancelCall {
    Post(&'static str),
    /// With an empty object as the body.
    PostObject(&'static str),
    Delete(&'static str),
}

/// How a job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    Complete,
    Cancelled,
    /// It was cancelled, and its results are gone.
    Deleted,
    Expired,
    Failed,
    /// It failed before any line was run.
    Refused,
}

/// What a line without a result has of a job that failed.
#[derive(Debug)]
pub struct JobFailure {
    pub code: &'static str,
    /// Where the job has a message.
    pub message: &'static str,
    /// The message of a job without one.
    pub default: &'static str,
}

impl LineForm {
    /// OpenAI's.
    pub const STANDARD: Self = Self { id: "custom_id", prefix: "", body: "body", without_model: false };

    /// # Errors
    /// 400 for a body that is no object.
    pub fn write(&self, line: u32, body: &[u8], input: &mut Vec<u8>) -> Result<(), Error> {
        let id = format_args!("{}{line}", self.prefix);
        if self.without_model {
            let body = Body::parse(Bytes::copy_from_slice(body))
                .map_err(|why| Error::bad_request(format!("The request is not a JSON object: {why}")))?;
            jsonl::write_line(self.id, id, self.body, &body.edit(&[Edit::Remove("model")]), input);
        } else {
            jsonl::write_line(self.id, id, self.body, body, input);
        }
        Ok(())
    }
}

impl FormUpload {
    /// # Errors
    /// The job's name is no boundary.
    pub fn call(&self, job: &Job<'_>, input: &Bytes) -> Result<JobCall, Error> {
        let fields: Vec<(&str, String)> =
            self.fields.iter().map(|(field, value)| (*field, value.replace("{name}", job.name))).collect();
        jsonl::form(self.path, job, &fields, input)
    }
}

impl JobSearch {
    /// `None`: the job cannot have been created.
    pub fn call(&self, job: &Job<'_>) -> Option<JobCall> {
        if let JobKey::Input(_) = self.key {
            job.input?;
        }
        Some(JobCall::get(self.path.replace("{name}", job.name)))
    }

    fn found(&self, job: &Job<'_>, response: &Value) -> Option<String> {
        let (place, key) = match self.key {
            JobKey::Name(place) => (place, Some(job.name)),
            JobKey::Input(place) => (place, job.input),
        };
        let key = key?;
        let all = self.lists.iter().find_map(|list| response.pointer(list)?.as_array())?;
        let found = all.iter().find(|listed| text(listed, place).as_deref() == Some(key))?;
        text(found, self.id)
    }
}

impl CancelCall {
    pub fn call(&self, id: &str) -> JobCall {
        match self {
            Self::Post(at) => JobCall::post(path(at, id), ""),
            Self::PostObject(at) => JobCall::post(path(at, id), "{}"),
            Self::Delete(at) => JobCall { method: Method::DELETE, ..JobCall::get(path(at, id)) },
        }
    }
}

impl JobEnd {
    pub fn has_results(self) -> bool {
        !matches!(self, Self::Deleted | Self::Refused)
    }
}

impl JobFailure {
    pub fn message(&self, view: &Value) -> String {
        text(view, self.message).unwrap_or_else(|| self.default.to_owned())
    }
}

impl BatchApi {
    /// # Errors
    /// 502 for a response without an id.
    pub fn uploaded(&self, response: &[u8]) -> Result<String, Error> {
        let upload = self.upload.as_ref().ok_or_else(|| Error::internal("this provider has no uploads"))?;
        first_text(&parse(response)?, &[upload.id])
    }

    /// # Errors
    /// 502 for a response without an id.
    pub fn created(&self, response: &[u8]) -> Result<String, Error> {
        first_text(&parse(response)?, self.created)
    }

    /// # Errors
    /// 502 for a response that is no JSON.
    pub fn found(&self, job: &Job<'_>, response: &[u8]) -> Result<Option<String>, Error> {
        let view: Value = parse(response)?;
        Ok(self.find.as_ref().and_then(|find| find.found(job, &view)))
    }

    /// `None`: the job runs.
    ///
    /// # Errors
    /// 502 for a job without a state.
    pub fn end(&self, view: &Value) -> Result<Option<JobEnd>, Error> {
        let state = first_text(view, &[self.state])?;
        let name = state.rsplit("STATE_").next().unwrap_or_default();
        let found = self.states.iter().find(|(of, _)| of.eq_ignore_ascii_case(name));
        Ok(found.map(|(_, end)| *end))
    }
}

/// A path of a job.
pub fn path(template: &str, id: &str) -> String {
    template.replace("{id}", id)
}
