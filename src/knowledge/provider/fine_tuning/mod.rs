//! Fine-tuning jobs in OpenAI's shape at providers that have them in another.
//!
//! One vendor's API is a [`JobApi`]; [`Jobs`] makes an adapter of it: the request, the query and the path one way, jobs,
//! events, checkpoints and their lists the other. Pure, and without memory: an id that a client gets is all that later calls
//! need. Not here: vendors with a folder of their own (`bedrock`, `vertex`), and training files.

pub mod files;
pub mod fireworks;
pub mod job;
pub(crate) mod job_call;
pub(crate) mod job_list;
pub(crate) mod job_request;
mod jobs;
pub mod mistral;
pub mod together;
pub mod training;

pub use jobs::Jobs;

use super::adapter::{CallTarget, ResponseContext};
use job::{Checkpoint, JobEvent, TuningJob};
use job_call::TuningCall;
use job_list::Page;
use job_request::JobRequest;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use training::TrainingFormat;
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// The fine-tuning API of one vendor.
pub trait JobApi: Sync + Debug {
    fn provider(&self) -> &'static str;

    /// The path between the vendor's host and its fine-tuning API, where that is not the one of its chat. Behind a custom host
    /// it takes the place of the chat's.
    fn prefix(&self) -> Option<&'static str> {
        None
    }

    /// Path and query of a call, below the prefix and with a leading slash.
    ///
    /// # Errors
    /// 400 when the account lacks what the path is made of.
    fn path(&self, call: &TuningCall<'_>, account: &Account) -> Result<String, Error>;

    /// The format of training data that the gateway uploads for a job; `None`: the vendor has files of its own, to which clients upload.
    fn training_format(&self) -> Option<TrainingFormat> {
        None
    }

    /// Why an operation is not possible, as the end of a sentence; `None` for one that is.
    fn refusal(&self, _operation: Operation) -> Option<&'static str> {
        None
    }

    /// The body of a request for a new job. What is not taken of the request is refused by name.
    ///
    /// # Errors
    /// 400 that names the `param`.
    fn create(&self, request: &mut JobRequest, target: &CallTarget<'_>) -> Result<Value, Error>;

    /// Reads the response to that request. `now`: Unix seconds.
    ///
    /// # Errors
    /// The response cannot be read.
    fn created(&self, response: &[u8], _context: &ResponseContext<'_>) -> Result<TuningJob, ProviderError> {
        self.job(response)
    }

    /// Reads one job.
    ///
    /// # Errors
    /// As [`created`](JobApi::created).
    fn job(&self, response: &[u8]) -> Result<TuningJob, ProviderError>;

    /// Whether the response to a cancel request is the job.
    fn sends_cancelled_job(&self) -> bool {
        true
    }

    /// Reads the response to a cancel request. Where that is not the job, the client gets what is read of another request.
    ///
    /// # Errors
    /// As [`created`](JobApi::created).
    fn cancelled(&self, response: &[u8], _call: &TuningCall<'_>) -> Result<TuningJob, ProviderError> {
        self.job(response)
    }

    /// # Errors
    /// As [`created`](JobApi::created).
    fn jobs(&self, response: &[u8]) -> Result<Page<TuningJob>, ProviderError>;

    /// Reads the events of a job, in any order.
    ///
    /// # Errors
    /// As [`created`](JobApi::created).
    fn events(&self, response: &[u8], call: &TuningCall<'_>) -> Result<Vec<JobEvent>, ProviderError>;

    /// Reads the checkpoints of a job, in any order.
    ///
    /// # Errors
    /// As [`created`](JobApi::created).
    fn checkpoints(&self, response: &[u8], call: &TuningCall<'_>) -> Result<Vec<Checkpoint>, ProviderError>;
}

fn write<T: Serialize>(value: &T) -> Result<Vec<u8>, ProviderError> {
    serde_json::to_vec(value).map_err(|_| ProviderError::unreadable("it cannot be written in OpenAI's shape"))
}

/// Reads a vendor's response.
///
/// # Errors
/// The response is not what the vendor documents.
pub fn read<T: DeserializeOwned>(response: &[u8], what: &str) -> Result<T, ProviderError> {
    let unreadable = || ProviderError::unreadable(&format!("it is no {what}"));
    // serde would read the items of a list as the members of an object.
    if !response.trim_ascii_start().starts_with(b"{") {
        return Err(unreadable());
    }
    serde_json::from_slice(response).map_err(|_| unreadable())
}

/// The URI of a training file in a cloud's storage, written as it is or percent-encoded. `scheme`: `gs://` or `s3://`.
///
/// # Errors
/// 400 for anything else.
pub(crate) fn object_uri(
    scheme: &str,
    param: &str,
    given: &str,
    provider: &'static str,
) -> Result<String, Error> {
    let uri = percent_decode_str(given).decode_utf8_lossy();
    let is_object =
        |rest: &str| rest.split_once('/').is_some_and(|(bucket, key)| !bucket.is_empty() && !key.is_empty());
    if uri.strip_prefix(scheme).is_some_and(is_object) {
        return Ok(uri.into_owned());
    }
    let message = format!(
        "{provider} reads training data from its own storage: {param} must be {scheme}bucket/object, as it is or percent-encoded."
    );
    Err(Error::invalid_request(param, message).with_provider(provider))
}

/// Reads a vendor's time stamp, as RFC 3339 has it, in Unix seconds.
pub fn seconds(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_second()).ok()
}

#[cfg(test)]
mod tests;
