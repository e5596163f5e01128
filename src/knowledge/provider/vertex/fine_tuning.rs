//! Tuning jobs of Vertex AI: `projects/{project}/locations/{region}/tuningJobs`.
//!
//! A job's id is the last segment of its name: project and region are the account's. Training files are objects of Google's
//! storage (`gs://`), each line a `GenerateContentRequest` with the model's turn at its end. Sources:
//! <https://docs.cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.tuningJobs>.

use super::ID;
use crate::provider::adapter::CallTarget;
use crate::provider::fine_tuning::job::{
    Checkpoint, Hyperparameters, JobError, JobEvent, TuningJob, TuningStatus,
};
use crate::provider::fine_tuning::job_call::TuningCall;
use crate::provider::fine_tuning::job_list::Page;
use crate::provider::fine_tuning::job_request::{JobRequest, Method};
use crate::provider::fine_tuning::training::TrainingFormat;
use crate::provider::fine_tuning::{JobApi, Jobs, object_uri, read, seconds};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// Vertex AI's adapter of fine-tuning jobs.
pub(super) static JOBS: Jobs = Jobs(&Tuning);

/// The most jobs that are listed at once.
const PAGE: usize = 100;

const STATES: &[(&str, TuningStatus)] = &[
    ("JOB_STATE_UNSPECIFIED", TuningStatus::Queued),
    ("JOB_STATE_QUEUED", TuningStatus::Queued),
    ("JOB_STATE_PENDING", TuningStatus::Queued),
    ("JOB_STATE_PAUSED", TuningStatus::Queued),
    ("JOB_STATE_RUNNING", TuningStatus::Running),
    ("JOB_STATE_UPDATING", TuningStatus::Running),
    ("JOB_STATE_CANCELLING", TuningStatus::Running),
    ("JOB_STATE_SUCCEEDED", TuningStatus::Succeeded),
    ("JOB_STATE_PARTIALLY_SUCCEEDED", TuningStatus::Succeeded),
    ("JOB_STATE_FAILED", TuningStatus::Failed),
    ("JOB_STATE_CANCELLED", TuningStatus::Cancelled),
    ("JOB_STATE_EXPIRED", TuningStatus::Cancelled),
];

/// Google's numbers of errors: <https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto>.
const ERROR_CODES: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

#[derive(Debug)]
struct Tuning;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobIn {
    name: String,
    base_model: Option<String>,
    tuned_model_display_name: Option<String>,
    #[serde(default)]
    state: String,
    create_time: Option<String>,
    start_time: Option<String>,
    end_time: Option<String>,
    update_time: Option<String>,
    error: Option<StatusIn>,
    labels: Option<Map<String, Value>>,
    tuned_model: Option<TunedIn>,
    supervised_tuning_spec: Option<SpecIn>,
    preference_optimization_spec: Option<SpecIn>,
    tuning_data_stats: Option<StatsIn>,
}

#[derive(Deserialize)]
struct StatusIn {
    code: Option<usize>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct TunedIn {
    model: Option<String>,
    endpoint: Option<String>,
    checkpoints: Option<Vec<CheckpointIn>>,
}

/// Numbers of 64 bits are texts in Google's JSON.
#[derive(Deserialize)]
struct CheckpointIn {
    step: Option<Value>,
    endpoint: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecIn {
    training_dataset_uri: Option<String>,
    validation_dataset_uri: Option<String>,
    hyper_parameters: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatsIn {
    supervised_tuning_data_stats: Option<TokensIn>,
    preference_optimization_data_stats: Option<TokensIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokensIn {
    total_billable_token_count: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListIn {
    #[serde(default)]
    tuning_jobs: Vec<JobIn>,
    next_page_token: Option<String>,
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn time(text: &Option<String>) -> Option<u64> {
    text.as_deref().and_then(seconds)
}

impl JobIn {
    fn status(&self) -> TuningStatus {
        TuningStatus::find(STATES, &self.state)
    }

    fn into_job(self) -> TuningJob {
        let status = self.status();
        let created = time(&self.create_time);
        let finished = time(&self.end_time).or(time(&self.update_time));
        let id = self.name.rsplit('/').next().unwrap_or_default();
        let mut job = TuningJob::new(id, self.base_model.unwrap_or_default(), status);
        job.created_at = created.unwrap_or_default();
        job.finished_at = finished;
        // The endpoint serves the model; the model alone cannot be called.
        job.fine_tuned_model = self.tuned_model.and_then(|tuned| tuned.endpoint.or(tuned.model));
        job.organization_id = self.name.split('/').nth(1).unwrap_or_default().to_owned();
        if let Some(StatusIn { code, message }) = self.error {
            let code = code.and_then(|code| ERROR_CODES.get(code).copied()).unwrap_or("unknown");
            job.error = Some(JobError::new(code, message.unwrap_or_default()));
        }
        job.user_provided_suffix = self.tuned_model_display_name;
        job.metadata = self.labels;
        let stats = self.tuning_data_stats;
        let tokens = stats.and_then(|stats| {
            stats.supervised_tuning_data_stats.or(stats.preference_optimization_data_stats)
        });
        job.trained_tokens = tokens.and_then(|tokens| number(&tokens.total_billable_token_count?));
        let (method, spec) = match (self.supervised_tuning_spec, self.preference_optimization_spec) {
            (None, Some(spec)) => (Method::Dpo, Some(spec)),
            (spec, _) => (Method::Supervised, spec),
        };
        if let Some(spec) = spec {
            let settings = spec.hyper_parameters.unwrap_or_default();
            let setting = |name: &str| settings.get(name);
            job.hyperparameters = Hyperparameters::new(
                setting("epochCount"),
                setting("batchSize"),
                setting("learningRateMultiplier"),
            );
            job.training_file = spec.training_dataset_uri.unwrap_or_default();
            job.validation_file = spec.validation_dataset_uri.filter(|uri| !uri.is_empty());
        }
        job.set_method(method);
        job
    }
}

impl JobApi for Tuning {
    fn provider(&self) -> &'static str {
        ID
    }

    /// Below `projects/{project}/locations/{region}`.
    fn path(&self, call: &TuningCall<'_>, _: &Account) -> Result<String, Error> {
        let id = call.segment();
        Ok(match call.operation {
            Operation::FineTuningCreate => "/tuningJobs".to_owned(),
            Operation::FineTuningList => format!("/tuningJobs?pageSize={PAGE}"),
            Operation::FineTuningCancel => format!("/tuningJobs/{id}:cancel"),
            _ => format!("/tuningJobs/{id}"),
        })
    }

    fn training_format(&self) -> Option<TrainingFormat> {
        Some(TrainingFormat::Members { names: &["systemInstruction", "contents", "tools"], fixed: None })
    }

    fn create(&self, request: &mut JobRequest, _: &CallTarget<'_>) -> Result<Value, Error> {
        let method = request.method(&[Method::Supervised, Method::Dpo])?;
        let model = request.required("model")?;
        let model = model.strip_prefix("google.").unwrap_or(&model).to_owned();
        let mut spec = Map::new();
        let training = request.required("training_file")?;
        spec.insert(
            "trainingDatasetUri".to_owned(),
            object_uri("gs://", "training_file", &training, ID)?.into(),
        );
        if let Some(file) = request.text("validation_file")? {
            let uri = object_uri("gs://", "validation_file", &file, ID)?;
            spec.insert("validationDatasetUri".to_owned(), uri.into());
        }
        let mut settings = Map::new();
        if let Some(epochs) = request.count("n_epochs")? {
            settings.insert("epochCount".to_owned(), epochs.to_string().into());
        }
        if let Some(multiplier) = request.number("learning_rate_multiplier")? {
            settings.insert("learningRateMultiplier".to_owned(), multiplier);
        }
        if method == Method::Dpo
            && let Some(beta) = request.number("beta")?
        {
            settings.insert("beta".to_owned(), beta);
        }
        if let Some(rank) = request.count("adapter_size")? {
            settings.insert("adapterSize".to_owned(), adapter_size(rank)?.into());
        }
        if !settings.is_empty() {
            spec.insert("hyperParameters".to_owned(), settings.into());
        }
        let name = if method == Method::Dpo { "preferenceOptimizationSpec" } else { "supervisedTuningSpec" };
        let mut body = Map::new();
        body.insert("baseModel".to_owned(), model.into());
        body.insert(name.to_owned(), spec.into());
        if let Some(suffix) = request.text("suffix")? {
            body.insert("tunedModelDisplayName".to_owned(), suffix.into());
        }
        if let Some(labels) = request.take("metadata") {
            body.insert("labels".to_owned(), labels);
        }
        Ok(body.into())
    }

    fn job(&self, response: &[u8]) -> Result<TuningJob, ProviderError> {
        Ok(read::<JobIn>(response, "tuning job of Vertex AI")?.into_job())
    }

    /// Vertex AI sends an empty object.
    fn cancelled(&self, response: &[u8], call: &TuningCall<'_>) -> Result<TuningJob, ProviderError> {
        read::<Map<String, Value>>(response, "response to a cancel request of Vertex AI")?;
        Ok(TuningJob::new(call.id.as_ref(), "", TuningStatus::Running))
    }

    fn jobs(&self, response: &[u8]) -> Result<Page<TuningJob>, ProviderError> {
        let list: ListIn = read(response, "list of Vertex AI's tuning jobs")?;
        let is_partial = list.next_page_token.is_some_and(|token| !token.is_empty());
        Ok(Page { items: list.tuning_jobs.into_iter().map(JobIn::into_job).collect(), is_partial })
    }

    /// Vertex AI has no list of events: they are made of the times of the job.
    fn events(&self, response: &[u8], _: &TuningCall<'_>) -> Result<Vec<JobEvent>, ProviderError> {
        let job: JobIn = read(response, "tuning job of Vertex AI")?;
        let status = job.status();
        let mut events = Vec::new();
        let times =
            [(time(&job.create_time), "The job was created."), (time(&job.start_time), "The job started.")];
        for (at, message) in times {
            events.extend(at.map(|at| JobEvent::new(at, "info", message, json!({}))));
        }
        if let (Some(end), true) = (time(&job.end_time), status.is_final()) {
            let error = job.error.and_then(|error| error.message);
            let level = if error.is_some() { "error" } else { "info" };
            let message = error.unwrap_or_else(|| format!("The job ended as {}.", job.state));
            events.push(JobEvent::new(end, level, message, json!({"state": job.state})));
        }
        Ok(events)
    }

    fn checkpoints(&self, response: &[u8], call: &TuningCall<'_>) -> Result<Vec<Checkpoint>, ProviderError> {
        let job: JobIn = read(response, "tuning job of Vertex AI")?;
        let at = time(&job.end_time).or(time(&job.update_time)).unwrap_or_default();
        let checkpoints = job.tuned_model.and_then(|tuned| tuned.checkpoints).unwrap_or_default();
        let checkpoints = checkpoints.into_iter().map(|checkpoint| {
            let step = checkpoint.step.as_ref().and_then(number).unwrap_or_default();
            Checkpoint::new(&call.id, step, at, checkpoint.endpoint.unwrap_or_default())
        });
        Ok(checkpoints.collect())
    }
}

fn adapter_size(rank: u64) -> Result<&'static str, Error> {
    Ok(match rank {
        1 => "ADAPTER_SIZE_ONE",
        2 => "ADAPTER_SIZE_TWO",
        4 => "ADAPTER_SIZE_FOUR",
        8 => "ADAPTER_SIZE_EIGHT",
        16 => "ADAPTER_SIZE_SIXTEEN",
        32 => "ADAPTER_SIZE_THIRTY_TWO",
        _ => {
            let message = "adapter_size must be 1, 2, 4, 8, 16 or 32 at vertex-ai.";
            return Err(Error::invalid_request("hyperparameters.adapter_size", message).with_provider(ID));
        }
    })
}
