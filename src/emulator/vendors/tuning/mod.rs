//! Fine-tuning jobs as the vendors have them whose shape is not OpenAI's. Each `GET` of a job advances it a step.
//!
//! A file here is one vendor's shape; what a job is, and how it goes on, is the same for all. Nothing is trained: a job whose
//! training file has `broken` in its name fails, any other succeeds. Members that a vendor does not document are refused.

mod bedrock;
mod fireworks;
mod mistral;
mod together;
mod vertex;

use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use crate::state::now;
use bytes::Bytes;
use serde_json::{Value, json};

/// Responds to a request.
pub(super) type Handler = fn(&Call<'_>) -> Result<Reply, ApiError>;

/// Finds who responds, and the id in the path.
pub(super) fn route<'a>(method: &str, segments: &[&'a str]) -> Option<(Handler, &'a str)> {
    Some(match (method, segments) {
        ("POST", [.., "mistral", "v1", "fine_tuning", "jobs"]) => (mistral::create, ""),
        ("GET", [.., "mistral", "v1", "fine_tuning", "jobs"]) => (mistral::list, ""),
        ("GET", [.., "mistral", "v1", "fine_tuning", "jobs", id]) => (mistral::one, id),
        ("POST", [.., "mistral", "v1", "fine_tuning", "jobs", id, "cancel"]) => (mistral::cancel, id),
        ("POST", [.., "fine-tunes"]) => (together::create, ""),
        ("GET", [.., "fine-tunes"]) => (together::list, ""),
        ("GET", [.., "fine-tunes", id]) => (together::one, id),
        ("POST", [.., "fine-tunes", id, "cancel"]) => (together::cancel, id),
        ("GET", [.., "fine-tunes", id, "events"]) => (together::events, id),
        ("GET", [.., "fine-tunes", id, "checkpoints"]) => (together::checkpoints, id),
        ("POST", [.., "supervisedFineTuningJobs"]) => (fireworks::create, ""),
        ("GET", [.., "supervisedFineTuningJobs"]) => (fireworks::list, ""),
        ("GET", [.., "supervisedFineTuningJobs", id]) => (fireworks::one, id),
        ("POST", [.., "supervisedFineTuningJobs", id]) => (fireworks::cancel, id),
        ("POST", [.., "tuningJobs"]) => (vertex::create, ""),
        ("GET", [.., "tuningJobs"]) => (vertex::list, ""),
        ("GET", [.., "tuningJobs", id]) => (vertex::one, id),
        ("POST", [.., "tuningJobs", id]) => (vertex::cancel, id),
        ("POST", [.., "model-customization-jobs"]) => (bedrock::create, ""),
        ("GET", [.., "model-customization-jobs"]) => (bedrock::list, ""),
        ("GET", [.., "model-customization-jobs", id]) => (bedrock::one, id),
        ("POST", [.., "model-customization-jobs", id, "stop"]) => (bedrock::stop, id),
        _ => return None,
    })
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Created,
    Validating,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl Stage {
    const ALL: [Self; 6] =
        [Self::Created, Self::Validating, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled];

    fn next(self, is_broken: bool) -> Self {
        match self {
            Self::Created => Self::Validating,
            Self::Validating if is_broken => Self::Failed,
            Self::Validating => Self::Running,
            Self::Running => Self::Succeeded,
            last => last,
        }
    }

    const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// A job, whatever its vendor's shape is.
struct TuningJob {
    id: String,
    /// As the vendor received it.
    request: Value,
    stage: Stage,
    /// Unix seconds.
    created: u64,
    /// Unix seconds.
    updated: u64,
}

impl TuningJob {
    fn from_object(object: &Value) -> Self {
        let number = |name: &str| object.get(name).and_then(Value::as_u64).unwrap_or_default();
        let stage = usize::try_from(number("stage")).ok().and_then(|stage| Stage::ALL.get(stage).copied());
        Self {
            id: object.get("id").and_then(Value::as_str).unwrap_or_default().to_owned(),
            request: object.get("request").cloned().unwrap_or_default(),
            stage: stage.unwrap_or(Stage::Failed),
            created: number("created"),
            updated: number("updated"),
        }
    }

    /// A text of the request, by its JSON pointer.
    fn text(&self, pointer: &str) -> &str {
        self.request.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// A member of the request; `null` without it.
    fn member(&self, pointer: &str) -> Value {
        self.request.pointer(pointer).cloned().unwrap_or_default()
    }
}

/// RFC 3339.
fn time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or_default();
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// Stores a new job. `vendor` keeps the lists apart.
fn put(call: &Call<'_>, vendor: &'static str, id: &str, request: &Value) -> TuningJob {
    let at = now();
    let object =
        json!({"id": id, "vendor": vendor, "request": request, "stage": 0, "created": at, "updated": at});
    call.state.vendors.tuning_jobs.put(id, object.clone(), Bytes::new());
    TuningJob::from_object(&object)
}

/// Every job of a vendor, newest first.
fn all(call: &Call<'_>, vendor: &str) -> Vec<TuningJob> {
    let (jobs, _) = call.state.vendors.tuning_jobs.page(None, usize::MAX);
    let own = jobs.iter().filter(|job| job.get("vendor").and_then(Value::as_str) == Some(vendor));
    own.map(TuningJob::from_object).collect()
}

/// One page of a vendor that pages by a token, which is the number of jobs before it.
fn page(call: &Call<'_>, vendor: &str, size: &str, token: &str) -> (Vec<TuningJob>, Option<String>) {
    let number = |name: &str| call.query(name).and_then(|text| text.parse::<usize>().ok());
    let start = number(token).unwrap_or_default();
    let size = number(size).unwrap_or(50);
    let mut jobs: Vec<TuningJob> = all(call, vendor).into_iter().skip(start).collect();
    let next = (jobs.len() > size).then(|| (start + size).to_string());
    jobs.truncate(size);
    (jobs, next)
}

/// The job as it is.
fn find(call: &Call<'_>, id: &str, dialect: Dialect) -> Result<TuningJob, ApiError> {
    let found = call.state.vendors.tuning_jobs.find(id);
    let found = found.ok_or_else(|| ApiError::not_found(format!("No such job: {id}")).in_dialect(dialect))?;
    Ok(TuningJob::from_object(&found.object))
}

/// The job after its next step. `broken`: where the request names its training file.
fn advance(call: &Call<'_>, id: &str, broken: &str, dialect: Dialect) -> Result<TuningJob, ApiError> {
    let job = find(call, id, dialect)?;
    let next = job.stage.next(job.text(broken).contains("broken"));
    if next == job.stage { Ok(job) } else { set_stage(call, id, next, dialect) }
}

/// Cancels a job.
fn cancel(call: &Call<'_>, id: &str, dialect: Dialect) -> Result<TuningJob, ApiError> {
    let job = find(call, id, dialect)?;
    if job.stage.is_final() {
        return Err(ApiError::bad("The job has ended and cannot be cancelled.").in_dialect(dialect));
    }
    set_stage(call, id, Stage::Cancelled, dialect)
}

fn set_stage(call: &Call<'_>, id: &str, stage: Stage, dialect: Dialect) -> Result<TuningJob, ApiError> {
    let changed = call.state.vendors.tuning_jobs.change(id, |job| {
        if let Some(members) = job.as_object_mut() {
            members.insert("stage".to_owned(), (stage as u64).into());
            members.insert("updated".to_owned(), now().into());
        }
    });
    let changed = changed.ok_or_else(|| ApiError::not_found("The job is gone.").in_dialect(dialect))?;
    Ok(TuningJob::from_object(&changed))
}

/// Reads a request whose members must all be among `documented`, and those of the object at `pointer` among `settings`.
fn read(
    call: &Call<'_>,
    dialect: Dialect,
    documented: &[&str],
    pointer: &str,
    settings: &[&str],
) -> Result<Value, ApiError> {
    let request: Value = call.read(dialect)?;
    for (object, documented) in [(Some(&request), documented), (request.pointer(pointer), settings)] {
        let names = object.and_then(Value::as_object).into_iter().flat_map(|members| members.keys());
        if let Some(name) = names.into_iter().find(|name| !documented.contains(&name.as_str())) {
            return Err(ApiError::bad(format!("Unknown field: {name}")).in_dialect(dialect));
        }
    }
    Ok(request)
}
