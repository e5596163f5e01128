//! Vertex AI's tuning jobs: `projects/{project}/locations/{region}/tuningJobs`.

use super::{Stage, TuningJob, advance, page, put, read, time};
use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Gemini;

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    const MEMBERS: &[&str] = &[
        "baseModel",
        "tunedModelDisplayName",
        "description",
        "labels",
        "supervisedTuningSpec",
        "preferenceOptimizationSpec",
        "encryptionSpec",
        "serviceAccount",
    ];
    const SPEC: &[&str] =
        &["trainingDatasetUri", "validationDatasetUri", "hyperParameters", "exportLastCheckpointOnly"];
    let mut request = read(call, DIALECT, MEMBERS, "/supervisedTuningSpec", SPEC)?;
    let path = call.parts.uri.path();
    let parent = path.find("projects/").and_then(|at| path.get(at..)).unwrap_or(path).to_owned();
    if let Some(members) = request.as_object_mut() {
        members.insert("parent".to_owned(), parent.into());
    }
    let digits: String =
        call.state.id("", 30).chars().map(|each| char::from(b'0' + (each as u32 % 10) as u8)).collect();
    Ok(Reply::value(&view(&put(call, "vertex", digits.get(..18).unwrap_or(&digits), &request)))
        .in_dialect(DIALECT))
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (jobs, next) = page(call, "vertex", "pageSize", "pageToken");
    let jobs: Vec<Value> = jobs.iter().map(view).collect();
    let list = match next {
        Some(next) => json!({"tuningJobs": jobs, "nextPageToken": next}),
        None => json!({"tuningJobs": jobs}),
    };
    Ok(Reply::value(&list).in_dialect(DIALECT))
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = advance(call, call.id, "/supervisedTuningSpec/trainingDatasetUri", DIALECT)?;
    Ok(Reply::value(&view(&job)).in_dialect(DIALECT))
}

pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Some(id) = call.id.strip_suffix(":cancel") else {
        return Err(ApiError::not_found("Not Found").in_dialect(DIALECT));
    };
    super::cancel(call, id, DIALECT)?;
    Ok(Reply::value(&json!({})).in_dialect(DIALECT))
}

fn view(job: &TuningJob) -> Value {
    let state = match job.stage {
        Stage::Created => "JOB_STATE_PENDING",
        Stage::Validating | Stage::Running => "JOB_STATE_RUNNING",
        Stage::Succeeded => "JOB_STATE_SUCCEEDED",
        Stage::Failed => "JOB_STATE_FAILED",
        Stage::Cancelled => "JOB_STATE_CANCELLED",
    };
    let parent = job.text("/parent");
    let location = parent.strip_suffix("/tuningJobs").unwrap_or(parent);
    let mut more = json!({
        "name": format!("{parent}/{}", job.id), "state": state, "createTime": time(job.created),
        "updateTime": time(job.updated),
    });
    if job.stage != Stage::Created {
        set(&mut more, "startTime", time(job.created).into());
    }
    if job.stage.is_final() {
        set(&mut more, "endTime", time(job.updated).into());
    }
    match job.stage {
        Stage::Succeeded => {
            let endpoint = |n: u64| format!("{location}/endpoints/{}{n}", job.id);
            let checkpoint = |n: u64| json!({"checkpointId": n.to_string(), "epoch": n.to_string(), "step": (n * 50).to_string(), "endpoint": endpoint(n)});
            let model = format!("{location}/models/{}@1", job.id);
            set(
                &mut more,
                "tunedModel",
                json!({"model": model, "endpoint": endpoint(2), "checkpoints": [checkpoint(1), checkpoint(2)]}),
            );
            let stats = json!({"supervisedTuningDataStats": {"tuningDatasetExampleCount": "16", "totalBillableTokenCount": "4096"}});
            set(&mut more, "tuningDataStats", stats);
        }
        Stage::Failed => {
            set(&mut more, "error", json!({"code": 3, "message": "The dataset has no examples."}));
        }
        _ => {}
    }
    let request = job.request.as_object().into_iter().flatten();
    for (name, value) in request.filter(|(name, _)| *name != "parent") {
        set(&mut more, name, value.clone());
    }
    more
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}
