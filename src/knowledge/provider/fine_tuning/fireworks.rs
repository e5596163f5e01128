//! Fireworks' supervised fine-tuning jobs: `/v1/accounts/{account}/supervisedFineTuningJobs`.
//!
//! A training file is a dataset of the account: its id, or its whole name. A job's id is the last segment of its name. Sources:
//! <https://docs.fireworks.ai/api-reference/create-supervised-fine-tuning-job>,
//! <https://docs.fireworks.ai/api-reference/get-supervised-fine-tuning-job>.

use super::job::{Checkpoint, Hyperparameters, JobError, JobEvent, TuningJob, TuningStatus};
use super::job_call::TuningCall;
use super::job_list::Page;
use super::job_request::{JobRequest, Method};
use super::training::TrainingFormat;
use super::{JobApi, Jobs, read, seconds};
use crate::provider::adapter::CallTarget;
use crate::provider::spec::{encode_segment, has_dot_segment};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// For the spec of `fireworks-ai`.
pub static JOBS: Jobs = Jobs(&Fireworks);

/// The most jobs that Fireworks lists at once.
const PAGE: usize = 200;

const STATES: &[(&str, TuningStatus)] = &[
    ("JOB_STATE_UNSPECIFIED", TuningStatus::Queued),
    ("JOB_STATE_CREATING", TuningStatus::ValidatingFiles),
    ("JOB_STATE_CREATING_INPUT_DATASET", TuningStatus::ValidatingFiles),
    ("JOB_STATE_VALIDATING", TuningStatus::ValidatingFiles),
    ("JOB_STATE_PENDING", TuningStatus::Queued),
    ("JOB_STATE_RE_QUEUEING", TuningStatus::Queued),
    ("JOB_STATE_IDLE", TuningStatus::Queued),
    ("JOB_STATE_PAUSED", TuningStatus::Queued),
    ("JOB_STATE_RUNNING", TuningStatus::Running),
    ("JOB_STATE_WRITING_RESULTS", TuningStatus::Running),
    ("JOB_STATE_CANCELLING", TuningStatus::Running),
    ("JOB_STATE_COMPLETED", TuningStatus::Succeeded),
    ("JOB_STATE_EARLY_STOPPED", TuningStatus::Succeeded),
    ("JOB_STATE_FAILED", TuningStatus::Failed),
    ("JOB_STATE_EXPIRED", TuningStatus::Failed),
    ("JOB_STATE_CANCELLED", TuningStatus::Cancelled),
    ("JOB_STATE_DELETING", TuningStatus::Cancelled),
    ("JOB_STATE_DELETING_CLEANING_UP", TuningStatus::Cancelled),
    ("JOB_STATE_DELETED", TuningStatus::Cancelled),
    ("JOB_STATE_ARCHIVED", TuningStatus::Succeeded),
];

#[derive(Debug)]
struct Fireworks;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobIn {
    #[serde(default)]
    name: String,
    display_name: Option<String>,
    create_time: Option<String>,
    completed_time: Option<String>,
    update_time: Option<String>,
    #[serde(default)]
    state: String,
    status: Option<StatusIn>,
    #[serde(default)]
    dataset: String,
    evaluation_dataset: Option<String>,
    base_model: Option<String>,
    warm_start_from: Option<String>,
    output_model: Option<String>,
    epochs: Option<Value>,
    batch_size_samples: Option<Value>,
    wandb_config: Option<WandbIn>,
    job_progress: Option<ProgressIn>,
}

#[derive(Deserialize)]
struct StatusIn {
    code: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WandbIn {
    #[serde(default)]
    enabled: bool,
    project: Option<String>,
    entity: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressIn {
    input_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListIn {
    #[serde(default)]
    supervised_fine_tuning_jobs: Vec<JobIn>,
    next_page_token: Option<String>,
}

fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A text that is not empty.
fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn time(text: &Option<String>) -> Option<u64> {
    text.as_deref().and_then(seconds)
}

impl JobIn {
    fn status(&self) -> TuningStatus {
        TuningStatus::find(STATES, &self.state)
    }

    fn message(&self) -> Option<&str> {
        self.status.as_ref()?.message.as_deref().filter(|message| !message.is_empty())
    }

    fn into_job(self) -> TuningJob {
        let status = self.status();
        let code = self.status.as_ref().and_then(|status| status.code.clone());
        let message = self.message().unwrap_or("Fireworks does not say why the job failed.");
        let error = JobError::new(code.unwrap_or_default().to_ascii_lowercase(), message);
        let model = filled(self.base_model).or(self.warm_start_from).unwrap_or_default();
        let mut job = TuningJob::new(last(&self.name), model, status);
        job.created_at = time(&self.create_time).unwrap_or_default();
        job.finished_at = time(&self.completed_time).or(time(&self.update_time));
        job.fine_tuned_model = filled(self.output_model);
        job.organization_id = self.name.split('/').nth(1).unwrap_or_default().to_owned();
        job.hyperparameters =
            Hyperparameters::new(self.epochs.as_ref(), self.batch_size_samples.as_ref(), None);
        job.training_file = last(&self.dataset).to_owned();
        job.validation_file = filled(self.evaluation_dataset).map(|name| last(&name).to_owned());
        job.trained_tokens = self.job_progress.and_then(|progress| progress.input_tokens);
        job.error = Some(error);
        job.user_provided_suffix = filled(self.display_name);
        if let Some(wandb) = self.wandb_config.filter(|wandb| wandb.enabled) {
            let wandb = json!({"project": wandb.project, "name": null, "entity": wandb.entity, "tags": []});
            job.integrations = vec![json!({"type": "wandb", "wandb": wandb})];
        }
        job
    }
}

/// The account id, which is in the path.
fn account_id(account: &Account) -> Result<&str, Error> {
    let id = account.resource_name.as_deref().unwrap_or_default();
    let id = id.strip_prefix("accounts/").unwrap_or(id);
    if !id.is_empty() && !has_dot_segment(id) {
        return Ok(id);
    }
    let message = "fireworks-ai needs the account's id for fine-tuning: give fireworks_account_id (resource_name) in \
                   the config, in the stored provider, or as a header.";
    Err(Error::invalid_request("fireworks_account_id", message).with_provider("fireworks-ai"))
}

/// The whole name of an object of the account.
fn resource(account: &str, kind: &str, name: &str) -> String {
    if name.starts_with("accounts/") { name.to_owned() } else { format!("accounts/{account}/{kind}/{name}") }
}

impl JobApi for Fireworks {
    fn provider(&self) -> &'static str {
        "fireworks-ai"
    }

    fn prefix(&self) -> Option<&'static str> {
        Some("/v1")
    }

    fn path(&self, call: &TuningCall<'_>, account: &Account) -> Result<String, Error> {
        let base = format!("/accounts/{}/supervisedFineTuningJobs", encode_segment(account_id(account)?));
        let id = call.segment();
        Ok(match call.operation {
            Operation::FineTuningCreate => base,
            Operation::FineTuningList => format!("{base}?pageSize={PAGE}"),
            Operation::FineTuningCancel => format!("{base}/{id}:cancel"),
            _ => format!("{base}/{id}"),
        })
    }

    fn training_format(&self) -> Option<TrainingFormat> {
        Some(TrainingFormat::Chat)
    }

    fn refusal(&self, operation: Operation) -> Option<&'static str> {
        (operation == Operation::FineTuningCheckpoints).then_some(
            "Fireworks keeps the checkpoints of a job to itself; the job names the model at its end",
        )
    }

    fn sends_cancelled_job(&self) -> bool {
        false
    }

    fn create(&self, request: &mut JobRequest, target: &CallTarget<'_>) -> Result<Value, Error> {
        request.method(&[Method::Supervised])?;
        let account = account_id(target.account)?;
        let mut body = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        set("baseModel", Some(request.required("model")?.into()));
        set("dataset", Some(resource(account, "datasets", &request.required("training_file")?).into()));
        let validation = request.text("validation_file")?;
        set("evaluationDataset", validation.map(|name| resource(account, "datasets", &name).into()));
        set("displayName", request.text("suffix")?.map(Value::from));
        // Not OpenAI's: the name of the new model, which Fireworks otherwise makes up.
        let output = request.text("output_model")?;
        set("outputModel", output.map(|name| resource(account, "models", &name).into()));
        for (name, own) in [
            ("n_epochs", "epochs"),
            ("batch_size", "batchSizeSamples"),
            ("max_context_length", "maxContextLength"),
            ("lora_rank", "loraRank"),
            ("gradient_accumulation_steps", "gradientAccumulationSteps"),
            ("learning_rate_warmup_steps", "learningRateWarmupSteps"),
        ] {
            set(own, request.count(name)?.map(Value::from));
        }
        set("learningRate", request.number("learning_rate")?);
        if let Some(wandb) = request.wandb()? {
            for (name, is_given) in [("name", wandb.name.is_some()), ("tags", !wandb.tags.is_empty())] {
                if is_given {
                    return Err(request.refused(&format!("integrations[0].wandb.{name}"), "is not possible"));
                }
            }
            let Some(key) = wandb.api_key else {
                let message =
                    "fireworks-ai needs your key of Weights & Biases: give integrations[0].wandb.api_key.";
                return Err(Error::invalid_request("integrations[0].wandb.api_key", message)
                    .with_provider(self.provider()));
            };
            let project = wandb.project;
            let entity = wandb.entity.unwrap_or_default();
            let config = json!({"enabled": true, "apiKey": key, "project": project, "entity": entity});
            set("wandbConfig", Some(config));
        }
        Ok(body.into())
    }

    fn job(&self, response: &[u8]) -> Result<TuningJob, ProviderError> {
        let job: JobIn = read(response, "fine-tuning job of Fireworks'")?;
        if job.name.is_empty() {
            return Err(ProviderError::unreadable("it is no fine-tuning job of Fireworks'"));
        }
        Ok(job.into_job())
    }

    /// Fireworks sends an empty object.
    fn cancelled(&self, response: &[u8], call: &TuningCall<'_>) -> Result<TuningJob, ProviderError> {
        read::<Map<String, Value>>(response, "response to a cancel request of Fireworks'")?;
        Ok(TuningJob::new(call.id.as_ref(), "", TuningStatus::Running))
    }

    fn jobs(&self, response: &[u8]) -> Result<Page<TuningJob>, ProviderError> {
        let list: ListIn = read(response, "list of Fireworks' fine-tuning jobs")?;
        let is_partial = filled(list.next_page_token).is_some();
        let items = list.supervised_fine_tuning_jobs.into_iter().map(JobIn::into_job).collect();
        Ok(Page { items, is_partial })
    }

    /// Fireworks has no list of events: they are made of the times of the job.
    fn events(&self, response: &[u8], _: &TuningCall<'_>) -> Result<Vec<JobEvent>, ProviderError> {
        let job: JobIn = read(response, "fine-tuning job of Fireworks'")?;
        let status = job.status();
        let level = if status == TuningStatus::Failed { "error" } else { "info" };
        let data = json!({"state": job.state});
        let mut events = Vec::new();
        if let Some(created) = time(&job.create_time) {
            events.push(JobEvent::new(created, "info", "The job was created.", json!({})));
        }
        let latest = if status.is_final() { time(&job.completed_time) } else { None };
        if let Some(updated) = latest.or(time(&job.update_time)) {
            let message = format!("{} {}", job.state, job.message().unwrap_or_default());
            events.push(JobEvent::new(updated, level, message.trim(), data));
        }
        Ok(events)
    }

    fn checkpoints(&self, _: &[u8], _: &TuningCall<'_>) -> Result<Vec<Checkpoint>, ProviderError> {
        Err(ProviderError::unreadable("Fireworks has no list of checkpoints"))
    }
}
