//! Fine-tuning jobs: each `GET` of a job advances it one step (validating files, running, succeeded).
//!
//! Nothing is trained. Below a path with `openai` in it the states are Azure's.

use super::batches::merge;
use super::call::Call;
use super::files::listed;
use super::reply::{ApiError, Dialect, Reply};
use super::routes;
use super::state::now;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Request {
    model: Option<String>,
    training_file: Option<String>,
    validation_file: Option<String>,
    suffix: Option<String>,
    seed: Option<u64>,
    method: Option<Value>,
    metadata: Option<Value>,
}

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request = call.read(Dialect::OpenAi)?;
    let (model, script) = call.model(request.model.as_deref(), Dialect::OpenAi)?;
    let file = request.training_file.ok_or_else(|| ApiError::missing("training_file"))?;
    let id = call.state.id("ftjob-", 24);
    let job = json!({
        "id": id, "object": "fine_tuning.job", "created_at": now(), "error": null, "fine_tuned_model": null,
        "finished_at": null,
        "hyperparameters": {"n_epochs": 3, "batch_size": 1, "learning_rate_multiplier": "auto"},
        "model": model, "organization_id": "org-emulator", "result_files": [], "status": "validating_files",
        "trained_tokens": null, "training_file": file, "validation_file": request.validation_file,
        "seed": request.seed.unwrap_or(42), "integrations": [], "estimated_finish": null,
        "method": request.method.unwrap_or_else(|| json!({"type": "supervised"})),
        "metadata": request.metadata, "user_provided_suffix": request.suffix,
    });
    call.state.jobs.put(&id, job.clone(), Bytes::new());
    Ok(reply(call, job).scripted(script))
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (after, limit) = routes::page(call.parts);
    let (mut data, has_more) = call.state.jobs.page(after.as_deref(), limit);
    data.iter_mut().for_each(|job| give_azures_states(call, job));
    Ok(Reply::value(&listed(data, has_more)))
}

fn reply(call: &Call<'_>, mut job: Value) -> Reply {
    give_azures_states(call, &mut job);
    Reply::value(&job)
}

/// Where the request was made for Azure.
fn give_azures_states(call: &Call<'_>, job: &mut Value) {
    if !call.parts.uri.path().contains("/openai/") {
        return;
    }
    if text(job, "status") == "validating_files" {
        merge(job, &json!({"status": "pending", "hyperparameters": {"n_epochs": -1}}));
    }
}

fn job(call: &Call<'_>) -> Result<Value, ApiError> {
    let job = call.state.jobs.find(call.id);
    Ok(job.ok_or_else(|| unknown(call.id))?.object)
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("Could not find fine tune: {id}"))
}

fn text<'v>(job: &'v Value, key: &str) -> &'v str {
    job.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = job(call)?;
    let change = match text(&job, "status") {
        "validating_files" => json!({"status": "running", "estimated_finish": now() + 60}),
        "running" => json!({
            "status": "succeeded", "finished_at": now(), "trained_tokens": 4096, "estimated_finish": null,
            "fine_tuned_model":
                format!("ft:{}:emulator:{}:fox", text(&job, "model"), text(&job, "user_provided_suffix")),
        }),
        _ => json!({}),
    };
    changed(call, &change)
}

pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = job(call)?;
    match text(&job, "status") {
        "validating_files" | "running" => {
            changed(call, &json!({"status": "cancelled", "finished_at": now(), "estimated_finish": null}))
        }
        status => Err(ApiError::bad(format!("Cannot cancel a job with status '{status}'."))),
    }
}

fn changed(call: &Call<'_>, change: &Value) -> Result<Reply, ApiError> {
    let job = call.state.jobs.change(call.id, |job| merge(job, change));
    Ok(reply(call, job.ok_or_else(|| unknown(call.id))?))
}

pub(super) fn events(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = job(call)?;
    let event = json!({
        "id": format!("ftevent-{}", call.id), "object": "fine_tuning.job.event", "type": "message", "data": {},
        "created_at": job.get("created_at"), "level": "info",
        "message": format!("The job is {}.", text(&job, "status")),
    });
    Ok(Reply::value(&listed(vec![event], false)))
}

pub(super) fn checkpoints(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = job(call)?;
    let mut data = Vec::new();
    if text(&job, "status") == "succeeded" {
        data.push(json!({
            "id": format!("ftckpt-{}", call.id), "object": "fine_tuning.job.checkpoint",
            "created_at": job.get("finished_at"), "fine_tuning_job_id": call.id, "step_number": 100,
            "fine_tuned_model_checkpoint": format!("{}:ckpt-step-100", text(&job, "fine_tuned_model")),
            "metrics": {
                "step": 100, "train_loss": 0.5, "train_mean_token_accuracy": 0.9, "valid_loss": 0.6,
                "valid_mean_token_accuracy": 0.8, "full_valid_loss": 0.6,
                "full_valid_mean_token_accuracy": 0.8,
            },
        }));
    }
    Ok(Reply::value(&listed(data, false)))
}
