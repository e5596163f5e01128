//! What the file of a batch must be that a provider runs in its own jobs, beyond what every batch's must be.
//!
//! Judged with the file, before anything is sent. Whether a body can be translated is its line's result.

use super::job_target::JobTarget;
use super::line_error::LineError;
use super::validation::BatchLine;
use knowledge::provider::batch_jobs::JobLimits;
use serde::Deserialize;
use std::borrow::Cow;

/// What a line has in the provider's format beyond its body, about.
const LINE_HEAD: usize = 64;

/// The rules of one file.
#[derive(Default)]
pub(super) struct JobRules {
    /// `None`: the gateway runs the batch.
    target: Option<JobTarget>,
    /// The model of the first line, where all must have the same.
    model: Option<String>,
    sizes: Sizes,
}

#[derive(Deserialize)]
struct Model<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
}

impl JobRules {
    pub fn of(target: JobTarget) -> Self {
        Self { target: Some(target), ..Self::default() }
    }

    /// # Errors
    /// Another model than that of the first line, where the provider's jobs have one.
    pub fn check(&mut self, number: u32, line: &BatchLine) -> Result<(), LineError> {
        let Some(target) = &self.target else { return Ok(()) };
        let limits = target.jobs.limits();
        self.sizes.add(&limits, line.body.len() + LINE_HEAD);
        if !limits.one_model {
            return Ok(());
        }
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

    /// What is wrong with the whole file, which has so many requests.
    pub(crate) fn check_whole(&self, lines: u32) -> Option<LineError> {
        let limits = self.target.as_ref()?.jobs.limits();
        let least = limits.min_lines;
        if lines >= least {
            return self.sizes.check(&limits);
        }
        let message = format!(
            "The file has {lines} requests, and a batch of this provider has {least} at the least. Upload the file without a provider: the \
             gateway runs such a batch itself."
        );
        Some(LineError { code: "too_few_tasks", message, param: None, line: None })
    }
}

/// The jobs that a file comes to, as far as it is seen without a translation.
#[derive(Default)]
struct Sizes {
    /// Lines and bytes of the last job.
    lines: u32,
    bytes: usize,
    /// Bytes of the job before it.
    before: usize,
    /// Bytes of the largest one before it.
    largest: usize,
}

impl Sizes {
    fn add(&mut self, limits: &JobLimits, size: usize) {
        if size > limits.max_bytes {
            // Refused alone.
            return;
        }
        if limits.is_full(self.lines, self.bytes, size) {
            self.largest = self.largest.max(self.bytes);
            self.before = self.bytes;
            self.lines = 0;
            self.bytes = 0;
        }
        self.lines += 1;
        self.bytes = self.bytes.saturating_add(size);
    }

    fn check(&self, limits: &JobLimits) -> Option<LineError> {
        let least = limits.min_lines;
        let most = limits.most_bytes;
        // A rest that is too small for a job of its own goes with the one before.
        let rest = if self.lines < least { self.before } else { 0 };
        let largest = self.largest.max(self.bytes.saturating_add(rest));
        let message = format!(
            "The lines of this file are too long. A job of this provider has {least} lines at the least, and {most} bytes at the most; one of \
             this file would have {largest} bytes. Make the requests shorter, or upload the file without a provider: the gateway runs such a \
             batch itself."
        );
        (largest > most).then_some(LineError { code: "too_large", message, param: None, line: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: impl IntoIterator<Item = usize>) -> Option<String> {
        let limits =
            JobLimits { max_lines: 50, min_lines: 10, max_bytes: 100, most_bytes: 300, one_model: true };
        let mut all = Sizes::default();
        sizes.into_iter().for_each(|size| all.add(&limits, size));
        all.check(&limits).map(|error| error.message)
    }

    #[test]
    fn a_file_that_cannot_be_cut_into_jobs_is_too_large() {
        let same = |count, size| check(std::iter::repeat_n(size, count));
        assert_eq!((same(10, 1), same(500, 1), same(30, 30)), (None, None, None));
        // Ten lines of a job have more than 300 bytes.
        assert!(same(30, 31).unwrap().contains("310 bytes"));
        // Nineteen lines are one job.
        assert_eq!((same(19, 15), same(20, 30)), (None, None));
        assert!(same(19, 16).unwrap().contains("304 bytes"));
        assert!(same(29, 16).unwrap().contains("304 bytes"));
        // A line that is too long for any job is refused alone.
        assert_eq!(check([101, 1000].into_iter().chain(std::iter::repeat_n(30, 10))), None);
    }
}
