//! Mistral's fine-tuning jobs.
//!
//! Files are Mistral's own, in OpenAI's shape; events and checkpoints are members of the job. Sources:
//! <https://docs.mistral.ai/api/endpoint/deprecated/fine-tuning>, and the models of Mistral's Python client
//! (`CompletionDetailedJobOut`, `JobIn`, `CheckpointOut`, `EventOut`).

use super::job::{Checkpoint, Hyperparameters, JobError, JobEvent, TuningJob, TuningStatus};
use super::job_call::TuningCall;
use super::job_list::Page;
use super::job_request::{JobRequest, Method};
use super::{JobApi, Jobs, read};
use crate::provider::adapter::CallTarget;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// For the spec of `mistral-ai`.
pub static JOBS: Jobs = Jobs(&Mistral);

/// The most jobs that are listed at once.
const PAGE: usize = 100;

const STATES: &[(&str, TuningStatus)] = &[
    ("QUEUED", TuningStatus::Queued),
    ("VALIDATING", TuningStatus::ValidatingFiles),
    ("VALIDATED", TuningStatus::Queued),
    ("STARTED", TuningStatus::Running),
    ("RUNNING", TuningStatus::Running),
    ("CANCELLATION_REQUESTED", TuningStatus::Running),
    ("SUCCESS", TuningStatus::Succeeded),
    ("FAILED_VALIDATION", TuningStatus::Failed),
    ("FAILED", TuningStatus::Failed),
    ("CANCELLED", TuningStatus::Cancelled),
];

#[derive(Debug)]
struct Mistral;

#[derive(Deserialize)]
struct JobIn {
    id: String,
    model: String,
    status: String,
    created_at: u64,
    modified_at: Option<u64>,
    #[serde(default)]
    training_files: Vec<String>,
    validation_files: Option<Vec<String>>,
    #[serde(default)]
    hyperparameters: Map<String, Value>,
    fine_tuned_model: Option<String>,
    suffix: Option<String>,
    integrations: Option<Vec<Value>>,
    trained_tokens: Option<u64>,
    metadata: Option<EstimateIn>,
    events: Option<Vec<EventIn>>,
    checkpoints: Option<Vec<CheckpointIn>>,
}

/// What Mistral expects of a job; not the customer's metadata.
#[derive(Deserialize)]
struct EstimateIn {
    estimated_start_time: Option<u64>,
    expected_duration_seconds: Option<u64>,
}

#[derive(Deserialize)]
struct EventIn {
    name: String,
    created_at: u64,
    data: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct CheckpointIn {
    step_number: u64,
    created_at: u64,
    #[serde(default)]
    metrics: MetricsIn,
}

#[derive(Default, Deserialize)]
struct MetricsIn {
    train_loss: Option<f64>,
    valid_loss: Option<f64>,
    valid_mean_token_accuracy: Option<f64>,
}

#[derive(Deserialize)]
struct ListIn {
    #[serde(default)]
    data: Vec<JobIn>,
    #[serde(default)]
    total: usize,
}

impl EventIn {
    fn text(&self, name: &str) -> Option<&str> {
        self.data.as_ref()?.get(name)?.as_str()
    }
}

impl JobIn {
    fn status(&self) -> TuningStatus {
        TuningStatus::find(STATES, &self.status)
    }

    fn into_job(self) -> TuningJob {
        let status = self.status();
        let error = self.events.iter().flatten().rev().find_map(|event| event.text("error"));
        let error = JobError::new(
            self.status.to_ascii_lowercase(),
            error.unwrap_or("Mistral's events do not say why the job failed."),
        );
        let estimate = self.metadata.as_ref().and_then(|estimate| {
            Some(estimate.estimated_start_time?.saturating_add(estimate.expected_duration_seconds?))
        });
        let setting = |name: &str| self.hyperparameters.get(name);
        let mut job = TuningJob::new(self.id, self.model, status);
        job.created_at = self.created_at;
        job.finished_at = self.modified_at;
        job.fine_tuned_model = self.fine_tuned_model;
        job.hyperparameters = Hyperparameters::new(setting("epochs"), None, None);
        job.training_file = self.training_files.into_iter().next().unwrap_or_default();
        job.validation_file = self.validation_files.unwrap_or_default().into_iter().next();
        job.trained_tokens = self.trained_tokens;
        job.error = Some(error);
        job.user_provided_suffix = self.suffix;
        job.estimated_finish = estimate;
        job.integrations = self.integrations.unwrap_or_default().iter().filter_map(integration).collect();
        job
    }
}

/// OpenAI's form of an integration with Weights & Biases.
fn integration(given: &Value) -> Option<Value> {
    let project = given.get("project")?;
    Some(
        json!({"type": "wandb", "wandb": {"project": project, "name": given.get("name"), "entity": null, "tags": []}}),
    )
}

fn job(response: &[u8]) -> Result<JobIn, ProviderError> {
    read(response, "fine-tuning job of Mistral's")
}

impl JobApi for Mistral {
    fn provider(&self) -> &'static str {
        "mistral-ai"
    }

    fn path(&self, call: &TuningCall<'_>, _: &Account) -> Result<String, Error> {
        let id = call.segment();
        Ok(match call.operation {
            Operation::FineTuningCreate => "/fine_tuning/jobs".to_owned(),
            Operation::FineTuningList => format!("/fine_tuning/jobs?page=0&page_size={PAGE}"),
            Operation::FineTuningCancel => format!("/fine_tuning/jobs/{id}/cancel"),
            _ => format!("/fine_tuning/jobs/{id}"),
        })
    }

    fn create(&self, request: &mut JobRequest, _: &CallTarget<'_>) -> Result<Value, Error> {
        request.method(&[Method::Supervised])?;
        let training_file = request.required("training_file")?;
        let mut body = json!({
            "model": request.required("model")?,
            "job_type": "completion",
            "training_files": [{"file_id": training_file, "weight": 1}],
            // Else a validated job waits for another request.
            "auto_start": true,
        });
        let mut hyperparameters = Map::new();
        for (name, own) in
            [("n_epochs", "epochs"), ("training_steps", "training_steps"), ("seq_len", "seq_len")]
        {
            if let Some(count) = request.count(name)? {
                hyperparameters.insert(own.to_owned(), count.into());
            }
        }
        for name in ["learning_rate", "weight_decay", "warmup_fraction", "fim_ratio"] {
            if let Some(number) = request.number(name)? {
                hyperparameters.insert(name.to_owned(), number);
            }
        }
        set(&mut body, "hyperparameters", hyperparameters.into());
        if let Some(file) = request.text("validation_file")? {
            set(&mut body, "validation_files", json!([file]));
        }
        if let Some(suffix) = request.text("suffix")? {
            set(&mut body, "suffix", suffix.into());
        }
        if let Some(wandb) = request.wandb()? {
            let param = "integrations[0].wandb";
            let Some(key) = wandb.api_key else {
                let message =
                    "mistral-ai needs your key of Weights & Biases: give integrations[0].wandb.api_key.";
                let param = format!("{param}.api_key");
                return Err(Error::invalid_request(param, message).with_provider(self.provider()));
            };
            if wandb.entity.is_some() {
                return Err(request.refused(&format!("{param}.entity"), "is not possible"));
            }
            if !wandb.tags.is_empty() {
                return Err(request.refused(&format!("{param}.tags"), "is not possible"));
            }
            let mut own = json!({"type": "wandb", "project": wandb.project, "api_key": key});
            if let Some(name) = wandb.name {
                set(&mut own, "name", name.into());
            }
            set(&mut body, "integrations", json!([own]));
        }
        Ok(body)
    }

    fn job(&self, response: &[u8]) -> Result<TuningJob, ProviderError> {
        Ok(job(response)?.into_job())
    }

    fn jobs(&self, response: &[u8]) -> Result<Page<TuningJob>, ProviderError> {
        let list: ListIn = read(response, "list of Mistral's fine-tuning jobs")?;
        let is_partial = list.total > list.data.len();
        Ok(Page { items: list.data.into_iter().map(JobIn::into_job).collect(), is_partial })
    }

    fn events(&self, response: &[u8], _: &TuningCall<'_>) -> Result<Vec<JobEvent>, ProviderError> {
        let events = job(response)?.events.unwrap_or_default();
        Ok(events.into_iter().map(event).collect())
    }

    fn checkpoints(&self, response: &[u8], call: &TuningCall<'_>) -> Result<Vec<Checkpoint>, ProviderError> {
        let job = job(response)?;
        // Mistral has no name for the model at a step.
        let checkpoints = job.checkpoints.unwrap_or_default().into_iter().map(|at| {
            let mut checkpoint = Checkpoint::new(&call.id, at.step_number, at.created_at, "");
            checkpoint.metrics.train_loss = at.metrics.train_loss;
            checkpoint.metrics.valid_loss = at.metrics.valid_loss;
            checkpoint.metrics.valid_mean_token_accuracy = at.metrics.valid_mean_token_accuracy;
            checkpoint
        });
        Ok(checkpoints.collect())
    }
}

fn event(event: EventIn) -> JobEvent {
    let error = event.text("error");
    let level = if error.is_some() { "error" } else { "info" };
    let mut message = event.name.clone();
    if let Some(detail) = error.or_else(|| event.text("status")) {
        message = format!("{message}: {detail}");
    }
    JobEvent::new(event.created_at, level, message, event.data.unwrap_or_default().into())
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}
