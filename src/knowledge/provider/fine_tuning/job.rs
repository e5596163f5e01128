//! OpenAI's fine-tuning job, its events and its checkpoints.
//!
//! Source: <https://platform.openai.com/docs/api-reference/fine-tuning/object>.

use super::job_request::Method;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TuningStatus {
    ValidatingFiles,
    Queued,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl TuningStatus {
    /// The state that a vendor's name stands for. One that is in no row is a state in which the job is not over, so that
    /// clients go on waiting.
    pub fn find(states: &[(&str, TuningStatus)], name: &str) -> Self {
        states.iter().find(|(listed, _)| *listed == name).map_or(Self::Running, |(_, status)| *status)
    }

    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// One job. Times are in Unix seconds.
#[derive(Debug, Serialize)]
pub struct TuningJob {
    pub id: String,
    object: &'static str,
    pub created_at: u64,
    pub finished_at: Option<u64>,
    pub model: String,
    pub fine_tuned_model: Option<String>,
    pub organization_id: String,
    pub status: TuningStatus,
    pub hyperparameters: Hyperparameters,
    pub training_file: String,
    pub validation_file: Option<String>,
    pub result_files: Vec<String>,
    pub trained_tokens: Option<u64>,
    pub error: Option<JobError>,
    pub user_provided_suffix: Option<String>,
    /// 0 where the vendor has none.
    pub seed: i64,
    pub estimated_finish: Option<u64>,
    pub integrations: Vec<Value>,
    pub method: Value,
    pub metadata: Option<Map<String, Value>>,
}

/// Why a job failed.
#[derive(Debug, Serialize)]
pub struct JobError {
    pub code: String,
    pub message: String,
    pub param: Option<String>,
}

impl JobError {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), param: None }
    }
}

/// The settings that OpenAI names. `auto`: the vendor chose, or does not report it.
#[derive(Debug, Clone, Serialize)]
pub struct Hyperparameters {
    pub n_epochs: Value,
    pub batch_size: Value,
    pub learning_rate_multiplier: Value,
}

impl Default for Hyperparameters {
    fn default() -> Self {
        let auto = || Value::from("auto");
        Self { n_epochs: auto(), batch_size: auto(), learning_rate_multiplier: auto() }
    }
}

impl Hyperparameters {
    /// With these numbers; what is no positive number, or no whole one where OpenAI has whole ones, is `auto`. Numbers in
    /// texts count.
    pub fn new(n_epochs: Option<&Value>, batch_size: Option<&Value>, multiplier: Option<&Value>) -> Self {
        let number = |value: Option<&Value>| {
            let value = value?;
            let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
            (number.is_finite() && number > 0.0).then_some(number)
        };
        let whole = |value| {
            let number = number(value).filter(|number| number.fract() == 0.0 && *number < 1e15);
            // Without a fraction and below 2^53.
            number.map_or_else(|| Value::from("auto"), |number| Value::from(number as u64))
        };
        Self {
            n_epochs: whole(n_epochs),
            batch_size: whole(batch_size),
            learning_rate_multiplier: number(multiplier).map_or_else(|| Value::from("auto"), Value::from),
        }
    }
}

impl TuningJob {
    pub fn new(id: impl Into<String>, model: impl Into<String>, status: TuningStatus) -> Self {
        Self {
            id: id.into(),
            object: "fine_tuning.job",
            created_at: 0,
            finished_at: None,
            model: model.into(),
            fine_tuned_model: None,
            organization_id: String::new(),
            status,
            hyperparameters: Hyperparameters::default(),
            training_file: String::new(),
            validation_file: None,
            result_files: Vec::new(),
            trained_tokens: None,
            error: None,
            user_provided_suffix: None,
            seed: 0,
            estimated_finish: None,
            integrations: Vec::new(),
            method: Value::Null,
            metadata: None,
        }
    }

    /// What only holds in some states is left out in the others: a model before there is one, an error of a job that has not
    /// failed, an end before the end.
    pub fn settled(mut self) -> Self {
        if self.status != TuningStatus::Succeeded {
            self.fine_tuned_model = None;
        }
        match self.status {
            TuningStatus::Failed if self.error.is_none() => {
                self.error = Some(JobError::new("failed", "The provider does not say why."));
            }
            TuningStatus::Failed => {}
            _ => self.error = None,
        }
        if self.status.is_final() {
            self.estimated_finish = None;
        } else {
            self.finished_at = None;
        }
        if self.method.is_null() {
            self.set_method(Method::Supervised);
        }
        self
    }

    /// Sets the method; its hyperparameters are those of the job.
    pub fn set_method(&mut self, method: Method) {
        let name = method.as_str();
        self.method = json!({"type": name, name: {"hyperparameters": self.hyperparameters}});
    }
}

/// One event.
#[derive(Debug, Serialize)]
pub struct JobEvent {
    pub id: String,
    object: &'static str,
    pub created_at: u64,
    pub level: &'static str,
    pub message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    pub data: Value,
}

impl JobEvent {
    /// An event without an id.
    pub fn new(created_at: u64, level: &'static str, message: impl Into<String>, data: Value) -> Self {
        let object = "fine_tuning.job.event";
        Self { id: String::new(), object, created_at, level, message: message.into(), kind: "message", data }
    }

    /// The events, newest first. Each gets its number from the oldest on as its id, which stays the same when more follow.
    pub fn numbered(mut events: Vec<Self>, job: &str) -> Vec<Self> {
        events.sort_by_key(|event| event.created_at);
        for (index, event) in events.iter_mut().enumerate() {
            event.id = format!("ftevent-{job}-{}", index + 1);
        }
        events.reverse();
        events
    }
}

/// One checkpoint.
#[derive(Debug, Serialize)]
pub struct Checkpoint {
    pub id: String,
    object: &'static str,
    pub created_at: u64,
    /// The model's name at this step; empty where it cannot be used apart from the job's model.
    pub fine_tuned_model_checkpoint: String,
    pub fine_tuning_job_id: String,
    pub step_number: u64,
    pub metrics: CheckpointMetrics,
}

/// Measured at a checkpoint. What the vendor does not report is left out.
#[derive(Debug, Default, Serialize)]
pub struct CheckpointMetrics {
    pub step: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_mean_token_accuracy: Option<f64>,
}

impl Checkpoint {
    pub fn new(job: &str, step: u64, created_at: u64, model: impl Into<String>) -> Self {
        Self {
            id: format!("ftckpt-{job}-{step}"),
            object: "fine_tuning.job.checkpoint",
            created_at,
            fine_tuned_model_checkpoint: model.into(),
            fine_tuning_job_id: job.to_owned(),
            step_number: step,
            metrics: CheckpointMetrics { step, ..CheckpointMetrics::default() },
        }
    }
}
