//! A batch's state, and every change that it can go through. Pure.
//!
//! Who makes the changes, and when, is `run` and `batches`; how a batch is stored is `record`.

use super::job_state::ProviderJobs;
use super::line_error::LineError;
use super::line_result::LineOutcome;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use words::error::Error;

/// How long a batch may take, seconds.
pub(crate) const WINDOW_SECONDS: i64 = 86_400;

/// OpenAI's statuses of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Validating,
    Failed,
    InProgress,
    Finalizing,
    Completed,
    Expired,
    Cancelling,
    Cancelled,
}

impl Status {
    /// Nothing changes any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Failed | Self::Completed | Self::Expired | Self::Cancelled)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validating => "validating",
            Self::Failed => "failed",
            Self::InProgress => "in_progress",
            Self::Finalizing => "finalizing",
            Self::Completed => "completed",
            Self::Expired => "expired",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What happens to a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Its file has this many lines, all of them good.
    Validated {
        lines: u32,
    },
    /// Its file has lines that are wrong, or cannot be read.
    Refused {
        errors: Vec<StoredError>,
    },
    /// Every line has its result.
    Done,
    /// Its files are written: of a batch that is done, or cancelled, or whose time is over.
    Written(BatchFiles),
    Cancel,
}

/// An entry of `errors.data`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredError {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// From 1; `None`: it is about the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl StoredError {
    /// About the whole file, or about a line that has no response.
    pub fn new(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.to_owned(), param: None, line: None }
    }

    /// Of a line that was not run, since its batch was cancelled.
    pub fn cancelled() -> Self {
        Self::new("batch_cancelled", "This request was not executed, since its batch was cancelled.")
    }

    /// Of a line that was not run in time.
    pub fn expired() -> Self {
        let message = "This request could not be executed before the completion window expired.";
        Self::new("batch_expired", message)
    }

    /// As the result of a line.
    pub fn outcome(&self) -> LineOutcome<'_> {
        LineOutcome::Failed { code: &self.code, message: &self.message }
    }
}

impl From<Error> for StoredError {
    fn from(error: Error) -> Self {
        Self { param: error.param, ..Self::new(error.kind.row().code, &error.message) }
    }
}

impl From<LineError> for StoredError {
    fn from(error: LineError) -> Self {
        let param = error.param.map(str::to_owned);
        Self { code: error.code.to_owned(), message: error.message, param, line: error.line }
    }
}

/// Who runs a batch, and until when nobody else may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// One process; each start has another.
    pub owner: Uuid,
    /// Unix milliseconds.
    pub until: i64,
}

/// When a batch reached its states, Unix seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Times {
    pub created: i64,
    pub in_progress: Option<i64>,
    pub expires: i64,
    pub finalizing: Option<i64>,
    pub completed: Option<i64>,
    pub failed: Option<i64>,
    pub expired: Option<i64>,
    pub cancelling: Option<i64>,
    pub cancelled: Option<i64>,
}

/// What the client has requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BatchRequest {
    /// The path of its lines: `/v1/chat/completions` …
    pub endpoint: String,
    pub window: String,
    pub input_file: Uuid,
    /// A JSON object.
    #[serde(default)]
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// How long its output and error file are kept, seconds; `None`: as the settings have it.
    #[serde(default)]
    pub output_expiry: Option<u32>,
}

/// The files that a batch has made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BatchFiles {
    #[serde(rename = "output_file")]
    pub output: Option<Uuid>,
    #[serde(rename = "error_file")]
    pub errors: Option<Uuid>,
}

/// How many lines a batch has, and what has become of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LineCounts {
    /// Lines with requests.
    pub total: u32,
    #[serde(rename = "completed_lines")]
    pub completed: u32,
    #[serde(rename = "failed_lines")]
    pub failed: u32,
    /// Lines up to this number may have been sent.
    pub sent_up_to: u32,
    /// Lines that may have been sent twice, since a process ended before it had their results.
    pub sent_again: u32,
}

/// A batch that the gateway runs. Its groups are one flat object in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    pub status: Status,
    #[serde(flatten)]
    pub request: BatchRequest,
    #[serde(default)]
    pub errors: Vec<StoredError>,
    #[serde(flatten)]
    pub files: BatchFiles,
    #[serde(flatten)]
    pub times: Times,
    #[serde(flatten)]
    pub lines: LineCounts,
    #[serde(default)]
    pub lease: Option<Lease>,
    /// Where a provider runs it; `None`: the gateway does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<ProviderJobs>,
    /// The id of the client that has made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
}

impl Batch {
    pub fn new(request: BatchRequest, now: i64) -> Self {
        Self {
            status: Status::Validating,
            request,
            errors: Vec::new(),
            files: BatchFiles::default(),
            times: Times { created: now, expires: now + WINDOW_SECONDS, ..Times::default() },
            lines: LineCounts::default(),
            lease: None,
            jobs: None,
            made_by: None,
        }
    }

    /// The provider that runs it; `None`: the gateway does.
    pub fn provider(&self) -> Option<&str> {
        self.jobs.as_ref().map(|jobs| jobs.provider.as_str())
    }

    /// Whether its input file is gone: the only error that a batch has before its end.
    pub(crate) fn has_no_input(&self) -> bool {
        !self.status.is_final() && !self.errors.is_empty()
    }

    /// Whether its time is over and lines of it must not be sent any more.
    pub fn is_over(&self, now: i64) -> bool {
        !self.status.is_final() && now >= self.times.expires
    }

    /// Goes through an event at `now`, Unix seconds.
    ///
    /// # Errors
    /// The status in which this cannot happen; nothing is changed.
    pub fn apply(&mut self, event: Event, now: i64) -> Result<(), Status> {
        match (self.status, event) {
            (Status::Validating, Event::Validated { lines }) => {
                self.status = Status::InProgress;
                self.lines.total = lines;
                self.times.in_progress = Some(now);
            }
            (Status::Validating, Event::Refused { errors }) => {
                self.status = Status::Failed;
                self.errors = errors;
                self.times.failed = Some(now);
            }
            (Status::InProgress, Event::Done) => {
                self.status = Status::Finalizing;
                self.times.finalizing = Some(now);
            }
            (Status::Finalizing, Event::Written(files)) => {
                self.status = Status::Completed;
                self.files = files;
                self.times.completed = Some(now);
            }
            (Status::Cancelling, Event::Written(files)) => {
                self.status = Status::Cancelled;
                self.files = files;
                self.times.cancelled = Some(now);
            }
            (Status::Validating | Status::InProgress, Event::Written(files)) if self.is_over(now) => {
                self.status = Status::Expired;
                self.files = files;
                self.times.expired = Some(now);
            }
            (Status::InProgress, Event::Written(files)) if self.has_no_input() => {
                self.status = Status::Failed;
                self.files = files;
                self.times.failed = Some(now);
            }
            (Status::Validating | Status::InProgress | Status::Finalizing, Event::Cancel) => {
                self.status = Status::Cancelling;
                self.times.cancelling = Some(now);
            }
            // Asked once more.
            (Status::Cancelling | Status::Cancelled, Event::Cancel) => {}
            (status, _) => return Err(status),
        }
        if self.status.is_final() {
            self.lease = None;
        }
        Ok(())
    }

    /// Whether `owner` may run it at `now`, Unix milliseconds.
    pub(crate) fn is_free_for(&self, owner: Uuid, now: i64) -> bool {
        self.lease.is_none_or(|lease| lease.owner == owner || lease.until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(window: &str, input_file: Uuid) -> Batch {
        let endpoint = "/v1/embeddings".to_owned();
        let window = window.to_owned();
        Batch::new(BatchRequest { endpoint, window, input_file, metadata: None, output_expiry: None }, 100)
    }

    fn written() -> Event {
        Event::Written(BatchFiles { output: Some(Uuid::max()), errors: None })
    }

    /// Every status with every event: the next status, or `None` where it cannot happen.
    #[test]
    fn every_transition() {
        use Status::{Cancelled, Cancelling, Completed, Expired, Failed, Finalizing, InProgress, Validating};
        let events = || {
            [
                Event::Validated { lines: 3 },
                Event::Refused { errors: Vec::new() },
                Event::Done,
                written(),
                Event::Cancel,
            ]
        };
        let table = [
            (Validating, [Some(InProgress), Some(Failed), None, None, Some(Cancelling)]),
            (InProgress, [None, None, Some(Finalizing), None, Some(Cancelling)]),
            (Finalizing, [None, None, None, Some(Completed), Some(Cancelling)]),
            (Cancelling, [None, None, None, Some(Cancelled), Some(Cancelling)]),
            (Cancelled, [None, None, None, None, Some(Cancelled)]),
            (Completed, [None; 5]),
            (Failed, [None; 5]),
            (Expired, [None; 5]),
        ];
        for (status, wanted) in table {
            for (event, wanted) in events().into_iter().zip(wanted) {
                let mut batch = new("24h", Uuid::nil());
                batch.status = status;
                let before = batch.clone();
                let result = batch.apply(event.clone(), 200);
                match wanted {
                    Some(next) => assert_eq!((result, batch.status), (Ok(()), next), "{status:?} {event:?}"),
                    None => assert_eq!((result, batch), (Err(status), before), "{status:?} {event:?}"),
                }
            }
        }
    }

    #[test]
    fn a_batch_whose_time_is_over_expires_with_what_was_done() {
        let mut batch = new("immediate", Uuid::nil());
        batch.apply(Event::Validated { lines: 3 }, 101).unwrap();
        assert_eq!(batch.apply(written(), 100 + WINDOW_SECONDS - 1), Err(Status::InProgress));
        batch.lease = Some(Lease { owner: Uuid::nil(), until: 5 });
        batch.apply(written(), 100 + WINDOW_SECONDS).unwrap();
        assert_eq!((batch.status, batch.times.expired), (Status::Expired, Some(100 + WINDOW_SECONDS)));
        assert_eq!((batch.files.output, batch.lease), (Some(Uuid::max()), None));
    }

    #[test]
    fn a_batch_without_its_input_fails_with_what_was_done() {
        let mut batch = new("24h", Uuid::nil());
        batch.apply(Event::Validated { lines: 3 }, 101).unwrap();
        batch.errors.push(StoredError::new("c", "m"));
        let before = batch.clone();
        batch.apply(written(), 200).unwrap();
        assert_eq!((batch.status, batch.times.failed), (Status::Failed, Some(200)));
        assert_eq!(batch.files.output, Some(Uuid::max()));
        let mut late = before;
        late.apply(written(), 100 + WINDOW_SECONDS).unwrap();
        assert_eq!(late.status, Status::Expired);
    }

    #[test]
    fn a_lease_keeps_others_away_until_its_end() {
        let mut batch = new("24h", Uuid::nil());
        let mine = Uuid::from_u128(1);
        let other = Uuid::from_u128(2);
        assert!(batch.is_free_for(mine, 0));
        batch.lease = Some(Lease { owner: mine, until: 1000 });
        assert!(
            batch.is_free_for(mine, 999) && !batch.is_free_for(other, 999) && batch.is_free_for(other, 1000)
        );
    }

    #[test]
    fn a_stored_batch_is_read_as_it_was() {
        let mut batch = new("24h", Uuid::max());
        let error = StoredError { line: Some(7), ..StoredError::new("c", "m") };
        batch.apply(Event::Refused { errors: vec![error] }, 101).unwrap();
        let text = serde_json::to_string(&batch).unwrap();
        assert_eq!(serde_json::from_str::<Batch>(&text).unwrap(), batch);
    }

    /// As version 0.2.0 wrote it: the groups of a batch must stay one flat object.
    #[test]
    fn the_members_of_a_stored_batch_stay_as_they_are() {
        let stored = r#"{"status":"in_progress","endpoint":"/v1/embeddings","window":"24h","input_file":"ffffffff-ffff-ffff-ffff-ffffffffffff","metadata":{"a":"b"},"output_expiry":3600,"errors":[],"output_file":null,"error_file":"00000000-0000-0000-0000-000000000001","created":100,"in_progress":101,"expires":86500,"finalizing":null,"completed":null,"failed":null,"expired":null,"cancelling":null,"cancelled":null,"total":7,"completed_lines":3,"failed_lines":2,"sent_up_to":6,"sent_again":1,"lease":{"owner":"00000000-0000-0000-0000-000000000002","until":5}}"#;
        let read: Batch = serde_json::from_str(stored).unwrap();
        let lines = LineCounts { total: 7, completed: 3, failed: 2, sent_up_to: 6, sent_again: 1 };
        assert_eq!((read.lines, read.files.errors), (lines, Some(Uuid::from_u128(1))));
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
        let least = r#"{"status":"validating","endpoint":"/v1/embeddings","window":"24h","input_file":"ffffffff-ffff-ffff-ffff-ffffffffffff"}"#;
        let read: Batch = serde_json::from_str(least).unwrap();
        assert_eq!((read.lines, read.files), (LineCounts::default(), BatchFiles::default()));
    }
}
