//! What the file of a batch must be that a provider runs in its own jobs, beyond what every batch's must be.
//!
//! Judged with the file, before anything is sent. Whether a body can be translated is its line's result.

use super::job_target::JobTarget;
use super::line_error::LineError;
use super::validation::BatchLine;
use serde::Deserialize;
use std::borrow::Cow;

/// The rules of one file.
#[derive(Default)]
pub(super) struct JobRules {
    /// `None`: the gateway runs the batch.
    target: Option<JobTarget>,
    /// The model of the first line, where all must have the same.
    model: Option<String>,
}

#[derive(Deserialize)]
struct Model<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
}

impl JobRules {
    pub fn of(target: JobTarget) -> Self {
        Self { target: Some(target), model: None }
    }

    /// # Errors
    /// Another model than that of the first line, where the provider's jobs have one.
    pub fn check(&mut self, number: u32, line: &BatchLine) -> Result<(), LineError> {
        let Some(target) = self.target.as_ref().filter(|target| target.jobs.limits().one_model) else {
            return Ok(());
        };
        let read = serde_json::from_slice::<Model<'_>>(&line.body).ok();
        let model = target.model(read.as_ref().and_then(|read| read.model.as_deref())).unwrap_or_default();
        let first = self.model.get_or_insert_with(|| model.to_owned());
        if model == first {
            return Ok(());
        }
        let message = format!(
            "The model of this line is {model:?}, and that of the first line is {first:?}. A batch of this provider has one model: make a \
             batch for each, or upload the file without a provider."
        );
        Err(LineError { code: "mismatched_model", message, param: Some("body.model"), line: Some(number) })
    }

    /// What is wrong with the number of requests.
    pub fn check_count(&self, lines: u32) -> Option<LineError> {
        let least = self.target.as_ref()?.jobs.limits().min_lines;
        let message = format!(
            "The file has {lines} requests, and a batch of this provider has {least} at the least. Upload the file without a provider: the \
             gateway runs such a batch itself."
        );
        (lines < least).then_some(LineError { code: "too_few_tasks", message, param: None, line: None })
    }
}
