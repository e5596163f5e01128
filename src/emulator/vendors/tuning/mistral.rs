//! Mistral's fine-tuning jobs, below a path that ends in `mistral/v1`: their paths are OpenAI's.

use super::{Stage, TuningJob, advance, all, put, read};
use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::OpenAi;

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    const MEMBERS: &[&str] = &[
        "model",
        "job_type",
        "training_files",
        "validation_files",
        "hyperparameters",
        "suffix",
        "integrations",
        "auto_start",
        "repositories",
        "invalid_sample_skip_percentage",
    ];
    const SETTINGS: &[&str] = &[
        "training_steps",
        "learning_rate",
        "weight_decay",
        "warmup_fraction",
        "epochs",
        "seq_len",
        "fim_ratio",
    ];
    let request = read(call, DIALECT, MEMBERS, "/hyperparameters", SETTINGS)?;
    if !request.get("hyperparameters").is_some_and(Value::is_object) {
        return Err(ApiError::missing("hyperparameters"));
    }
    let id = call.state.id("", 32);
    Ok(Reply::value(&view(&put(call, "mistral", &id, &request), false)))
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let number = |name: &str| call.query(name).and_then(|text| text.parse::<usize>().ok());
    let page = number("page").unwrap_or(0);
    let size = number("page_size").unwrap_or(100);
    let jobs = all(call, "mistral");
    let total = jobs.len();
    let data: Vec<Value> =
        jobs.iter().skip(page.saturating_mul(size)).take(size).map(|job| view(job, false)).collect();
    Ok(Reply::value(&json!({"object": "list", "data": data, "total": total})))
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = advance(call, call.id, "/training_files/0/file_id", DIALECT)?;
    Ok(Reply::value(&view(&job, true)))
}

pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::value(&view(&super::cancel(call, call.id, DIALECT)?, true)))
}

const fn status(stage: Stage) -> &'static str {
    match stage {
        Stage::Created => "QUEUED",
        Stage::Validating => "VALIDATING",
        Stage::Running => "RUNNING",
        Stage::Succeeded => "SUCCESS",
        Stage::Failed => "FAILED_VALIDATION",
        Stage::Cancelled => "CANCELLED",
    }
}

fn view(job: &TuningJob, is_detailed: bool) -> Value {
    let done = job.stage == Stage::Succeeded;
    let files = job.member("/training_files");
    let files: Vec<Value> =
        files.as_array().into_iter().flatten().filter_map(|file| file.get("file_id").cloned()).collect();
    let model = format!("ft:{}:emulator:{}", job.text("/model"), job.text("/suffix"));
    let mut view = json!({
        "id": job.id, "object": "job", "job_type": "completion", "auto_start": job.member("/auto_start"),
        "model": job.member("/model"), "status": status(job.stage), "created_at": job.created,
        "modified_at": job.updated, "training_files": files, "validation_files": job.member("/validation_files"),
        "hyperparameters": job.member("/hyperparameters"), "suffix": job.member("/suffix"),
        "integrations": job.member("/integrations"), "repositories": [],
        "fine_tuned_model": if done { json!(model) } else { Value::Null },
        "trained_tokens": if done { json!(4096) } else { Value::Null },
        "metadata": {"expected_duration_seconds": 60, "estimated_start_time": job.created},
    });
    if let (true, Some(members)) = (is_detailed, view.as_object_mut()) {
        let mut event = json!({"name": "status-updated", "created_at": job.updated, "data": {"status": status(job.stage)}});
        if job.stage == Stage::Failed
            && let Some(data) = event.pointer_mut("/data").and_then(Value::as_object_mut)
        {
            data.insert("error".to_owned(), json!("Line 1 of the training file has no messages."));
        }
        let first =
            json!({"name": "status-updated", "created_at": job.created, "data": {"status": "QUEUED"}});
        members.insert("events".to_owned(), json!([first, event]));
        let metrics = json!({"train_loss": 0.5, "valid_loss": 0.6, "valid_mean_token_accuracy": 0.8});
        let at = |step: u64| json!({"step_number": step, "created_at": job.updated, "metrics": metrics});
        members.insert("checkpoints".to_owned(), if done { json!([at(100), at(50)]) } else { json!([]) });
    }
    view
}
