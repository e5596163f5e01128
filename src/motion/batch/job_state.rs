//! How far a batch is that a provider runs: into which of its jobs the lines were cut, and what has become of each. Part of a batch's record.
//!
//! Pure. What is sent is `jobs`; what a provider demands is `provider::batch_jobs`.

use super::state::StoredError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The jobs of one batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProviderJobs {
    pub provider: String,
    /// Members of the request that made the batch which only this provider has.
    #[serde(default)]
    pub options: Map<String, Value>,
    #[serde(default)]
    pub jobs: Vec<JobRecord>,
    /// Lines up to here are in jobs, or were refused.
    #[serde(default)]
    pub cut: Position,
    /// How many requests stand up to there.
    #[serde(default)]
    pub taken: u32,
    /// No line is left to cut.
    #[serde(default)]
    pub is_cut: bool,
}

/// A place in the input file: after this line, and this byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub line: u32,
    pub byte: u64,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    /// Its name at the provider is made of it and of the batch's id.
    pub number: u32,
    /// Its lines begin after this one.
    pub after: Position,
    /// Its last line.
    pub last: u32,
    /// How many of these lines it has.
    pub lines: u32,
    /// As the provider names it.
    #[serde(default)]
    pub model: String,
    /// What was uploaded for it.
    #[serde(default)]
    pub input: Option<String>,
    /// As the provider names it; `None`: it may not be created yet.
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub state: JobState,
    /// It was created again where nobody knew whether it was: its lines are counted among those that may have been sent twice.
    #[serde(default)]
    pub is_created_again: bool,
    /// Why lines without a result have none.
    #[serde(default)]
    pub error: Option<StoredError>,
}

/// What has become of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobState {
    /// It is about to be created.
    #[default]
    Planned,
    Running,
    /// Every line of it has a result.
    Ended,
}

impl ProviderJobs {
    pub fn new(provider: &str, options: Map<String, Value>) -> Self {
        Self { provider: provider.to_owned(), options, ..Self::default() }
    }

    /// Whether no job is at the provider, and none is to come.
    pub fn is_done(&self) -> bool {
        self.is_cut && self.open().next().is_none()
    }

    /// No job is at the provider any more, and none is to come.
    pub fn end(&mut self) {
        self.is_cut = true;
        self.jobs.iter_mut().for_each(|job| job.state = JobState::Ended);
    }

    /// Jobs that have not ended, in their order.
    pub fn open(&self) -> impl Iterator<Item = &JobRecord> {
        self.jobs.iter().filter(|job| job.state != JobState::Ended)
    }

    pub(crate) fn job_mut(&mut self, number: u32) -> Option<&mut JobRecord> {
        self.jobs.iter_mut().find(|job| job.number == number)
    }
}

impl JobRecord {
    /// Its name at the provider: unique, and the same after a restart.
    pub fn name(&self, batch: Uuid) -> String {
        format!("turnpike-{}-{}", batch.simple(), self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_when_all_lines_are_in_jobs_that_have_ended() {
        let mut jobs = ProviderJobs::new("anthropic", Map::new());
        assert!(!jobs.is_done());
        let job = JobRecord {
            number: 7,
            after: Position::default(),
            last: 3,
            lines: 3,
            model: String::new(),
            input: None,
            id: None,
            state: JobState::Planned,
            is_created_again: false,
            error: None,
        };
        assert_eq!(job.name(Uuid::nil()), format!("turnpike-{}-7", "0".repeat(32)));
        jobs.jobs.push(job);
        jobs.is_cut = true;
        assert!(!jobs.is_done());
        jobs.job_mut(7).unwrap().state = JobState::Ended;
        assert!(jobs.is_done() && jobs.job_mut(8).is_none());
        let text = serde_json::to_string(&jobs).unwrap();
        assert_eq!(serde_json::from_str::<ProviderJobs>(&text).unwrap(), jobs);
    }
}
