//! Together's fine-tuning jobs: `fine-tunes`.

use super::{Stage, TuningJob, advance, all, find, put, read, time};
use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::OpenAi;

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    const MEMBERS: &[&str] = &[
        "model",
        "training_file",
        "validation_file",
        "packing",
        "max_seq_length",
        "n_epochs",
        "n_checkpoints",
        "n_evals",
        "batch_size",
        "learning_rate",
        "lr_scheduler",
        "warmup_ratio",
        "max_grad_norm",
        "weight_decay",
        "random_seed",
        "suffix",
        "wandb_api_key",
        "wandb_base_url",
        "wandb_project_name",
        "wandb_name",
        "wandb_entity",
        "train_on_inputs",
        "training_method",
        "training_type",
        "from_checkpoint",
    ];
    let request =
        read(call, DIALECT, MEMBERS, "/training_method", &["method", "dpo_beta", "train_on_inputs"])?;
    let id = call.state.id("ft-", 24);
    Ok(Reply::value(&view(&put(call, "together", &id, &request))))
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let data: Vec<Value> = all(call, "together").iter().map(view).collect();
    Ok(Reply::value(&json!({"data": data})))
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::value(&view(&advance(call, call.id, "/training_file", DIALECT)?)))
}

pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::value(&view(&super::cancel(call, call.id, DIALECT)?)))
}

pub(super) fn events(call: &Call<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::value(&json!({"data": events_of(&find(call, call.id, DIALECT)?)})))
}

pub(super) fn checkpoints(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = find(call, call.id, DIALECT)?;
    let at = |step: u64| {
        json!({
            "step": step, "created_at": time(job.updated), "checkpoint_type": "Intermediate",
            "path": format!("s3://together-dev/finetune/{}/step_{step}", job.id),
        })
    };
    let data = if job.stage == Stage::Succeeded { vec![at(50), at(100)] } else { Vec::new() };
    Ok(Reply::value(&json!({"data": data})))
}

fn events_of(job: &TuningJob) -> Vec<Value> {
    let event = |at: u64, kind: &str, level: &str, message: &str| {
        json!({
            "object": "fine-tune-event", "created_at": time(at), "level": level, "message": message,
            "type": kind, "hash": "",
        })
    };
    let mut events = vec![event(job.created, "job_pending", "info", "Fine tune request created")];
    match job.stage {
        Stage::Failed => {
            events.push(event(job.updated, "job_user_error", "error", "The training file is no JSONL."));
        }
        Stage::Succeeded => events.push(event(job.updated, "job_complete", "info", "Job finished")),
        _ => {}
    }
    events
}

const fn status(stage: Stage) -> &'static str {
    match stage {
        Stage::Created => "pending",
        Stage::Validating => "queued",
        Stage::Running => "running",
        Stage::Succeeded => "completed",
        Stage::Failed => "user_error",
        Stage::Cancelled => "cancelled",
    }
}

fn view(job: &TuningJob) -> Value {
    json!({
        "id": job.id, "status": status(job.stage), "training_file": job.member("/training_file"),
        "validation_file": job.text("/validation_file"), "model": job.member("/model"),
        "model_output_name": format!("emulator/{}-{}", job.text("/model"), job.text("/suffix")),
        "created_at": time(job.created), "updated_at": time(job.updated),
        "n_epochs": job.request.get("n_epochs").cloned().unwrap_or(json!(1)),
        "batch_size": job.request.get("batch_size").cloned().unwrap_or(json!("max")),
        "learning_rate": job.request.get("learning_rate").cloned().unwrap_or(json!(0.00001)),
        "suffix": job.member("/suffix"), "token_count": 4096, "total_price": 0,
        "random_seed": job.member("/random_seed"),
        "training_method": job.request.get("training_method").cloned().unwrap_or(json!({"method": "sft"})),
        "training_type": {"type": "Full"}, "wandb_project_name": job.text("/wandb_project_name"),
        "wandb_name": job.text("/wandb_name"), "events": events_of(job),
    })
}
