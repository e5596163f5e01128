//! Together's fine-tuning jobs: `/v1/fine-tunes`.
//!
//! Sources: <https://docs.together.ai/reference/post-fine-tunes>, <https://docs.together.ai/reference/get-fine-tunes-id>,
//! <https://docs.together.ai/reference/get-fine-tunes-id-checkpoint> and the types of Together's Python client.

use super::job::{Checkpoint, Hyperparameters, JobError, JobEvent, TuningJob, TuningStatus};
use super::job_call::TuningCall;
use super::job_list::Page;
use super::job_request::{JobRequest, Method};
use super::{JobApi, Jobs, read, seconds};
use crate::provider::adapter::CallTarget;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// For the spec of `together-ai`.
pub static JOBS: Jobs = Jobs(&Together);

const STATES: &[(&str, TuningStatus)] = &[
    ("pending", TuningStatus::ValidatingFiles),
    ("queued", TuningStatus::Queued),
    ("running", TuningStatus::Running),
    ("compressing", TuningStatus::Running),
    ("uploading", TuningStatus::Running),
    ("cancel_requested", TuningStatus::Running),
    ("completed", TuningStatus::Succeeded),
    ("error", TuningStatus::Failed),
    ("user_error", TuningStatus::Failed),
    ("cancelled", TuningStatus::Cancelled),
];

#[derive(Debug)]
struct Together;

#[derive(Deserialize)]
struct JobIn {
    id: String,
    #[serde(default)]
    status: String,
    model: Option<String>,
    #[serde(alias = "output_name")]
    model_output_name: Option<String>,
    training_file: Option<String>,
    validation_file: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
    n_epochs: Option<Value>,
    batch_size: Option<Value>,
    suffix: Option<String>,
    token_count: Option<u64>,
    random_seed: Option<i64>,
    training_method: Option<MethodIn>,
    wandb_project_name: Option<String>,
    wandb_name: Option<String>,
    wandb_entity: Option<String>,
    #[serde(default)]
    events: Option<Vec<EventIn>>,
    progress: Option<ProgressIn>,
}

#[derive(Deserialize)]
struct MethodIn {
    method: String,
}

#[derive(Deserialize)]
struct ProgressIn {
    #[serde(default)]
    estimate_available: bool,
    #[serde(default)]
    seconds_remaining: f64,
}

#[derive(Deserialize)]
struct EventIn {
    created_at: Option<String>,
    level: Option<String>,
    message: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct CheckpointIn {
    step: Option<u64>,
    created_at: Option<String>,
    path: Option<String>,
}

#[derive(Deserialize)]
struct ListIn<T> {
    data: Vec<T>,
}

impl JobIn {
    fn into_job(self) -> TuningJob {
        let time = |text: &Option<String>| text.as_deref().and_then(seconds);
        let status = TuningStatus::find(STATES, &self.status);
        let why = self.events.iter().flatten().rev().find(|event| event.level() == "error");
        let why = why.and_then(|event| event.message.clone());
        let mut job = TuningJob::new(self.id, self.model.unwrap_or_default(), status);
        job.created_at = time(&self.created_at).unwrap_or_default();
        job.finished_at = time(&self.updated_at);
        job.fine_tuned_model = self.model_output_name;
        job.hyperparameters = Hyperparameters::new(self.n_epochs.as_ref(), self.batch_size.as_ref(), None);
        job.training_file = self.training_file.unwrap_or_default();
        job.validation_file = self.validation_file.filter(|file| !file.is_empty());
        job.trained_tokens = self.token_count.filter(|_| status == TuningStatus::Succeeded);
        job.error = Some(JobError::new(
            self.status,
            why.unwrap_or_else(|| "Together's events do not say why the job failed.".to_owned()),
        ));
        job.user_provided_suffix = self.suffix.filter(|suffix| !suffix.is_empty());
        job.seed = self.random_seed.unwrap_or_default();
        let remaining = self.progress.filter(|progress| progress.estimate_available);
        if let (Some(remaining), Some(updated)) = (remaining, job.finished_at) {
            // Saturates, and is never negative.
            job.estimated_finish = Some(updated.saturating_add(remaining.seconds_remaining as u64));
        }
        if let Some(project) = self.wandb_project_name.filter(|project| !project.is_empty()) {
            let name = self.wandb_name;
            let entity = self.wandb_entity;
            let wandb = json!({"project": project, "name": name, "entity": entity, "tags": []});
            job.integrations = vec![json!({"type": "wandb", "wandb": wandb})];
        }
        if self.training_method.is_some_and(|method| method.method == "dpo") {
            job.set_method(Method::Dpo);
        }
        job
    }
}

impl EventIn {
    /// OpenAI's levels are the same in small letters.
    fn level(&self) -> &'static str {
        let kind = self.kind.as_deref().unwrap_or_default();
        match self.level.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("error") => "error",
            Some("warning" | "warn") => "warn",
            _ if kind.to_ascii_lowercase().ends_with("error") => "error",
            _ => "info",
        }
    }
}

impl JobApi for Together {
    fn provider(&self) -> &'static str {
        "together-ai"
    }

    fn path(&self, call: &TuningCall<'_>, _: &Account) -> Result<String, Error> {
        let id = call.segment();
        Ok(match call.operation {
            Operation::FineTuningCreate | Operation::FineTuningList => "/fine-tunes".to_owned(),
            Operation::FineTuningCancel => format!("/fine-tunes/{id}/cancel"),
            Operation::FineTuningEvents => format!("/fine-tunes/{id}/events"),
            Operation::FineTuningCheckpoints => format!("/fine-tunes/{id}/checkpoints"),
            _ => format!("/fine-tunes/{id}"),
        })
    }

    fn create(&self, request: &mut JobRequest, _: &CallTarget<'_>) -> Result<Value, Error> {
        let method = request.method(&[Method::Supervised, Method::Dpo])?;
        let mut body = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        set("model", Some(request.required("model")?.into()));
        set("training_file", Some(request.required("training_file")?.into()));
        for name in ["validation_file", "suffix"] {
            set(name, request.text(name)?.map(Value::from));
        }
        set("random_seed", request.take("seed"));
        for name in ["n_epochs", "batch_size", "n_checkpoints", "max_seq_length"] {
            set(name, request.count(name)?.map(Value::from));
        }
        for name in ["learning_rate", "warmup_ratio", "weight_decay", "max_grad_norm", "n_evals"] {
            set(name, request.number(name)?);
        }
        set(
            "training_method",
            match method {
                Method::Dpo => {
                    let beta = request.number("beta")?.map_or(Value::Null, |beta| beta);
                    Some(json!({"method": "dpo", "dpo_beta": beta}))
                }
                _ => None,
            },
        );
        // Not OpenAI's: {"type": "Full"}, or the rank of the adapter.
        set("training_type", request.take("training_type"));
        if let Some(wandb) = request.wandb()? {
            if !wandb.tags.is_empty() {
                return Err(request.refused("integrations[0].wandb.tags", "is not possible"));
            }
            set("wandb_project_name", Some(wandb.project.into()));
            set("wandb_name", wandb.name.map(Value::from));
            set("wandb_entity", wandb.entity.map(Value::from));
            set("wandb_api_key", wandb.api_key.map(Value::from));
        }
        Ok(body.into())
    }

    fn job(&self, response: &[u8]) -> Result<TuningJob, ProviderError> {
        Ok(read::<JobIn>(response, "fine-tuning job of Together's")?.into_job())
    }

    fn jobs(&self, response: &[u8]) -> Result<Page<TuningJob>, ProviderError> {
        let list: ListIn<JobIn> = read(response, "list of Together's fine-tuning jobs")?;
        Ok(Page { items: list.data.into_iter().map(JobIn::into_job).collect(), is_partial: false })
    }

    fn events(&self, response: &[u8], _: &TuningCall<'_>) -> Result<Vec<JobEvent>, ProviderError> {
        let list: ListIn<EventIn> = read(response, "list of events of Together's")?;
        let events = list.data.into_iter().map(|event| {
            let created = event.created_at.as_deref().and_then(seconds).unwrap_or_default();
            let level = event.level();
            let data = json!({"type": event.kind});
            JobEvent::new(created, level, event.message.unwrap_or_default(), data)
        });
        Ok(events.collect())
    }

    fn checkpoints(&self, response: &[u8], call: &TuningCall<'_>) -> Result<Vec<Checkpoint>, ProviderError> {
        let list: ListIn<CheckpointIn> = read(response, "list of checkpoints of Together's")?;
        let checkpoints = list.data.into_iter().map(|at| {
            let created = at.created_at.as_deref().and_then(seconds).unwrap_or_default();
            Checkpoint::new(&call.id, at.step.unwrap_or_default(), created, at.path.unwrap_or_default())
        });
        Ok(checkpoints.collect())
    }
}
