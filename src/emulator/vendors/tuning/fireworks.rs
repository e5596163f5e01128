//! Fireworks' supervised fine-tuning jobs: `accounts/{account}/supervisedFineTuningJobs`.

use super::{Stage, TuningJob, advance, page, put, read, time};
use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::OpenAi;

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    const MEMBERS: &[&str] = &[
        "displayName",
        "dataset",
        "outputModel",
        "baseModel",
        "warmStartFrom",
        "jinjaTemplate",
        "earlyStop",
        "epochs",
        "learningRate",
        "maxContextLength",
        "loraRank",
        "wandbConfig",
        "evaluationDataset",
        "isTurbo",
        "evalAutoCarveout",
        "region",
        "nodes",
        "batchSize",
        "batchSizeSamples",
        "gradientAccumulationSteps",
        "learningRateWarmupSteps",
    ];
    const WANDB: &[&str] = &["enabled", "apiKey", "project", "entity", "runId"];
    let mut request = read(call, DIALECT, MEMBERS, "/wandbConfig", WANDB)?;
    let account = call.parts.uri.path().split('/').rev().nth(1).unwrap_or_default().to_owned();
    let dataset = request.get("dataset").and_then(Value::as_str).unwrap_or_default();
    if !dataset.starts_with(&format!("accounts/{account}/datasets/")) {
        return Err(ApiError::bad(format!("{dataset} is no dataset of the account {account}")));
    }
    if let Some(members) = request.as_object_mut() {
        members.insert("account".to_owned(), account.into());
    }
    let id = call.state.id("ftj", 8).to_ascii_lowercase();
    Ok(Reply::value(&view(&put(call, "fireworks", &id, &request))))
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (jobs, next) = page(call, "fireworks", "pageSize", "pageToken");
    let total = jobs.len();
    let jobs = jobs.iter().map(view).collect::<Vec<_>>();
    let next = next.unwrap_or_default();
    Ok(Reply::value(&json!({"supervisedFineTuningJobs": jobs, "nextPageToken": next, "totalSize": total})))
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::value(&view(&advance(call, call.id, "/dataset", DIALECT)?)))
}

pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Some(id) = call.id.strip_suffix(":cancel") else { return Err(ApiError::not_found("Not Found")) };
    super::cancel(call, id, DIALECT)?;
    Ok(Reply::value(&json!({})))
}

fn view(job: &TuningJob) -> Value {
    let (state, code, message) = match job.stage {
        Stage::Created => ("JOB_STATE_CREATING", "OK", ""),
        Stage::Validating => ("JOB_STATE_VALIDATING", "OK", ""),
        Stage::Running => ("JOB_STATE_RUNNING", "OK", ""),
        Stage::Succeeded => ("JOB_STATE_COMPLETED", "OK", ""),
        Stage::Failed => ("JOB_STATE_FAILED", "INVALID_ARGUMENT", "The dataset has no examples."),
        Stage::Cancelled => ("JOB_STATE_CANCELLED", "OK", ""),
    };
    let account = job.text("/account");
    let mut view = json!({
        "name": format!("accounts/{account}/supervisedFineTuningJobs/{}", job.id), "state": state,
        "status": {"code": code, "message": message}, "createTime": time(job.created),
        "updateTime": time(job.updated), "createdBy": "emulator",
        "outputModel": format!("accounts/{account}/models/ft-{}", job.id),
    });
    if let Some(members) = view.as_object_mut() {
        let request = job.request.as_object().into_iter().flatten();
        members.extend(
            request.filter(|(name, _)| *name != "account").map(|(name, value)| (name.clone(), value.clone())),
        );
        if job.stage.is_final() {
            members.insert("completedTime".to_owned(), time(job.updated).into());
        }
    }
    view
}
