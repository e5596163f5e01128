//! Bedrock's model customization jobs, on its control plane.
//!
//! A job's id is its ARN with `~` in place of the slashes, which no ARN of a job has: `GET` finds the job by it. Training
//! files are objects of S3 (`s3://`). Sources: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_CreateModelCustomizationJob.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_GetModelCustomizationJob.html>.

use super::SPEC;
use crate::provider::adapter::{CallTarget, ResponseContext};
use crate::provider::fine_tuning::job::{
    Checkpoint, Hyperparameters, JobError, JobEvent, TuningJob, TuningStatus,
};
use crate::provider::fine_tuning::job_call::TuningCall;
use crate::provider::fine_tuning::job_list::Page;
use crate::provider::fine_tuning::job_request::{JobRequest, Method};
use crate::provider::fine_tuning::training::TrainingFormat;
use crate::provider::fine_tuning::{JobApi, Jobs, object_uri, read, seconds};
use crate::provider::spec::{encode_segment, has_dot_segment};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// Bedrock's adapter of fine-tuning jobs.
pub(super) static JOBS: Jobs = Jobs(&Customization);

/// The most jobs that Bedrock lists at once.
const PAGE: usize = 1000;
/// The longest name of a job, and of a model.
const MAX_NAME: usize = 63;

const STATES: &[(&str, TuningStatus)] = &[
    ("InProgress", TuningStatus::Running),
    ("Stopping", TuningStatus::Running),
    ("Completed", TuningStatus::Succeeded),
    ("Failed", TuningStatus::Failed),
    ("Stopped", TuningStatus::Cancelled),
];

/// OpenAI's names of hyperparameters that are whole numbers, and Bedrock's.
const COUNTS: [(&str, &str); 2] = [("n_epochs", "epochCount"), ("batch_size", "batchSize")];
/// The others.
const NUMBERS: [(&str, &str); 3] = [
    ("learning_rate", "learningRate"),
    ("learning_rate_multiplier", "learningRateMultiplier"),
    ("learning_rate_warmup_steps", "learningRateWarmupSteps"),
];

#[derive(Debug)]
struct Customization;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobIn {
    job_arn: String,
    #[serde(alias = "customModelName")]
    output_model_name: Option<String>,
    #[serde(alias = "customModelArn")]
    output_model_arn: Option<String>,
    status: String,
    failure_message: Option<String>,
    creation_time: Option<String>,
    last_modified_time: Option<String>,
    end_time: Option<String>,
    base_model_arn: Option<String>,
    hyper_parameters: Option<Map<String, Value>>,
    training_data_config: Option<DataIn>,
    validation_data_config: Option<ValidatorsIn>,
    output_data_config: Option<DataIn>,
    status_details: Option<DetailsIn>,
    customization_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataIn {
    s3_uri: Option<String>,
}

#[derive(Deserialize)]
struct ValidatorsIn {
    #[serde(default)]
    validators: Vec<DataIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DetailsIn {
    validation_details: Option<StepIn>,
    data_processing_details: Option<StepIn>,
    training_details: Option<StepIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StepIn {
    status: Option<String>,
    creation_time: Option<String>,
    last_modified_time: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedIn {
    job_arn: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListIn {
    #[serde(default)]
    model_customization_job_summaries: Vec<JobIn>,
    next_token: Option<String>,
}

fn time(text: &Option<String>) -> Option<u64> {
    text.as_deref().and_then(seconds)
}

/// A job's id for the client.
fn id_of_arn(arn: &str) -> String {
    arn.replace('/', "~")
}

/// The model in the ARN of a base model: `arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-lite-v1:0:300k`.
fn model_of_arn(arn: &str) -> &str {
    arn.split_once("foundation-model/").map_or(arn, |(_, model)| model)
}

impl JobIn {
    /// While the data are validated the job is `InProgress`, too.
    fn status(&self) -> TuningStatus {
        let validation = self.status_details.as_ref().and_then(|details| details.validation_details.as_ref());
        let training = self.status_details.as_ref().and_then(|details| details.training_details.as_ref());
        let has_started = |step: Option<&StepIn>| {
            step.and_then(|step| step.status.as_deref()).is_some_and(|status| status != "NotStarted")
        };
        match TuningStatus::find(STATES, &self.status) {
            TuningStatus::Running
                if self.status == "InProgress" && !has_started(training) && has_started(validation) =>
            {
                TuningStatus::ValidatingFiles
            }
            status => status,
        }
    }

    fn into_job(self) -> TuningJob {
        let status = self.status();
        let model = self.base_model_arn.as_deref().map(model_of_arn).unwrap_or_default();
        let mut job = TuningJob::new(id_of_arn(&self.job_arn), model, status);
        job.created_at = time(&self.creation_time).unwrap_or_default();
        job.finished_at = time(&self.end_time).or(time(&self.last_modified_time));
        job.fine_tuned_model = self.output_model_arn;
        job.organization_id = self.job_arn.split(':').nth(4).unwrap_or_default().to_owned();
        job.error = self.failure_message.map(|message| JobError::new("failed", message));
        job.user_provided_suffix = self.output_model_name;
        let settings = self.hyper_parameters.unwrap_or_default();
        let setting = |name: &str| settings.get(name);
        job.hyperparameters = Hyperparameters::new(
            setting("epochCount"),
            setting("batchSize"),
            setting("learningRateMultiplier"),
        );
        job.training_file = self.training_data_config.and_then(|data| data.s3_uri).unwrap_or_default();
        let validators = self.validation_data_config.map(|data| data.validators).unwrap_or_default();
        job.validation_file = validators.into_iter().find_map(|data| data.s3_uri);
        if status == TuningStatus::Succeeded {
            job.result_files = self.output_data_config.and_then(|data| data.s3_uri).into_iter().collect();
        }
        if self.customization_type.as_deref() == Some("REINFORCEMENT_FINE_TUNING") {
            job.set_method(Method::Reinforcement);
        }
        job
    }
}

/// The folder of an object, where the job writes its results unless the request names another.
fn folder(uri: &str) -> &str {
    uri.rsplit_once('/').map_or(uri, |(folder, _)| folder)
}

/// A name as Bedrock takes it for jobs and models.
fn name(param: &str, name: String) -> Result<String, Error> {
    let allowed = |each: char| each.is_ascii_alphanumeric() || matches!(each, '-' | '_');
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(name);
    }
    let message = format!(
        "{param} becomes the name of the model at bedrock: it must have 1 to {MAX_NAME} letters, digits, '-' and '_'."
    );
    Err(Error::invalid_request(param, message).with_provider(SPEC.id))
}

impl JobApi for Customization {
    fn provider(&self) -> &'static str {
        SPEC.id
    }

    fn path(&self, call: &TuningCall<'_>, _: &Account) -> Result<String, Error> {
        let arn = call.id.replace('~', "/");
        if has_dot_segment(&arn) {
            return Err(Error::bad_request("The id of a job must not contain '.' or '..' as a segment."));
        }
        let id = encode_segment(&arn);
        Ok(match call.operation {
            Operation::FineTuningCreate => "/model-customization-jobs".to_owned(),
            Operation::FineTuningList => {
                format!(
                    "/model-customization-jobs?maxResults={PAGE}&sortBy=CreationTime&sortOrder=Descending"
                )
            }
            Operation::FineTuningCancel => format!("/model-customization-jobs/{id}/stop"),
            _ => format!("/model-customization-jobs/{id}"),
        })
    }

    fn training_format(&self) -> Option<TrainingFormat> {
        let fixed = Some(("schemaVersion", "\"bedrock-conversation-2024\""));
        Some(TrainingFormat::Members { names: &["system", "messages"], fixed })
    }

    fn refusal(&self, operation: Operation) -> Option<&'static str> {
        (operation == Operation::FineTuningCheckpoints)
            .then_some("Bedrock's jobs have no checkpoints; the job names the model at its end")
    }

    fn create(&self, request: &mut JobRequest, target: &CallTarget<'_>) -> Result<Value, Error> {
        request.method(&[Method::Supervised])?;
        let training = object_uri("s3://", "training_file", &request.required("training_file")?, SPEC.id)?;
        // The job has the name of its model, which must be a new one for each job.
        let suffix = name("suffix", request.required("suffix")?)?;
        let job_name = request.text("job_name")?.unwrap_or_else(|| suffix.replace('_', "-"));
        let account = &target.account.cloud_a;
        let role = request.text("role_arn")?.or_else(|| account.role_arn.clone()).ok_or_else(|| {
            let message = "bedrock needs a role that may read the training data and write the results: give role_arn in \
                           the body, or cloud_a_role_arn (aws_role_arn) in the config or as a header.";
            Error::invalid_request("role_arn", message).with_provider(SPEC.id)
        })?;
        let output = match (request.text("output_s3_uri")?, &account.bucket) {
            (Some(uri), _) => object_uri("s3://", "output_s3_uri", &uri, SPEC.id)?,
            (None, Some(bucket)) => {
                format!("s3://{}/", bucket.trim_start_matches("s3://").trim_end_matches('/'))
            }
            (None, None) => format!("{}/", folder(&training)),
        };
        let mut settings = Map::new();
        // Bedrock's are texts.
        for (name, own) in COUNTS {
            if let Some(count) = request.count(name)? {
                settings.insert(own.to_owned(), count.to_string().into());
            }
        }
        for (name, own) in NUMBERS {
            if let Some(value) = request.number(name)? {
                settings.insert(own.to_owned(), value.to_string().into());
            }
        }
        let mut body = json!({
            "jobName": job_name,
            "customModelName": suffix,
            "roleArn": role,
            "baseModelIdentifier": request.required("model")?,
            "customizationType": "FINE_TUNING",
            "trainingDataConfig": {"s3Uri": training},
            "outputDataConfig": {"s3Uri": output},
            "hyperParameters": settings,
        });
        let validation = request.text("validation_file")?;
        let validation =
            validation.map(|file| object_uri("s3://", "validation_file", &file, SPEC.id)).transpose()?;
        let tags = tags(request.take("metadata"));
        let optional = [
            ("validationDataConfig", validation.map(|uri| json!({"validators": [{"s3Uri": uri}]}))),
            ("jobTags", tags),
        ];
        if let Value::Object(members) = &mut body {
            members.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        Ok(body)
    }

    /// Bedrock sends the new job's ARN and nothing else: the rest is what was requested.
    fn created(&self, response: &[u8], context: &ResponseContext<'_>) -> Result<TuningJob, ProviderError> {
        let created: CreatedIn = read(response, "new customization job of Bedrock's")?;
        let text = |name: &str| context.request.and_then(|body| body.text(name)).map(Cow::into_owned);
        let mut job = TuningJob::new(
            id_of_arn(&created.job_arn),
            text("model").unwrap_or_default(),
            TuningStatus::ValidatingFiles,
        );
        job.created_at = context.now;
        job.organization_id = created.job_arn.split(':').nth(4).unwrap_or_default().to_owned();
        job.training_file = text("training_file").unwrap_or_default();
        job.validation_file = text("validation_file");
        job.user_provided_suffix = text("suffix");
        job.hyperparameters = context.request.map(requested_settings).unwrap_or_default();
        Ok(job)
    }

    fn job(&self, response: &[u8]) -> Result<TuningJob, ProviderError> {
        Ok(read::<JobIn>(response, "customization job of Bedrock's")?.into_job())
    }

    /// Bedrock sends an empty object.
    fn cancelled(&self, response: &[u8], call: &TuningCall<'_>) -> Result<TuningJob, ProviderError> {
        if !response.trim_ascii().is_empty() {
            read::<Map<String, Value>>(response, "response to a stop request of Bedrock's")?;
        }
        Ok(TuningJob::new(call.id.replace('/', "~"), "", TuningStatus::Running))
    }

    fn jobs(&self, response: &[u8]) -> Result<Page<TuningJob>, ProviderError> {
        let list: ListIn = read(response, "list of Bedrock's customization jobs")?;
        let items = list.model_customization_job_summaries.into_iter().map(JobIn::into_job).collect();
        Ok(Page { items, is_partial: list.next_token.is_some_and(|token| !token.is_empty()) })
    }

    /// Bedrock has no list of events: they are made of the times of the job and its steps.
    fn events(&self, response: &[u8], _: &TuningCall<'_>) -> Result<Vec<JobEvent>, ProviderError> {
        let job: JobIn = read(response, "customization job of Bedrock's")?;
        let status = job.status();
        let mut events = Vec::new();
        if let Some(created) = time(&job.creation_time) {
            events.push(JobEvent::new(created, "info", "The job was created.", json!({})));
        }
        if let Some(details) = &job.status_details {
            for (step, details) in [
                ("Validation", &details.validation_details),
                ("Data processing", &details.data_processing_details),
                ("Training", &details.training_details),
            ] {
                let Some(StepIn { status: Some(status), creation_time, last_modified_time }) = details else {
                    continue;
                };
                if let Some(at) = time(last_modified_time).or(time(creation_time)) {
                    events.push(JobEvent::new(at, "info", format!("{step}: {status}."), json!({})));
                }
            }
        }
        if let (Some(end), true) = (time(&job.end_time).or(time(&job.last_modified_time)), status.is_final())
        {
            let level = if status == TuningStatus::Failed { "error" } else { "info" };
            let message = job.failure_message.unwrap_or_else(|| format!("The job ended as {}.", job.status));
            events.push(JobEvent::new(end, level, message, json!({"status": job.status})));
        }
        Ok(events)
    }

    fn checkpoints(&self, _: &[u8], _: &TuningCall<'_>) -> Result<Vec<Checkpoint>, ProviderError> {
        Err(ProviderError::unreadable("Bedrock has no list of checkpoints"))
    }
}

/// A customer's metadata as tags of a job.
fn tags(metadata: Option<Value>) -> Option<Value> {
    let Value::Object(metadata) = metadata? else { return None };
    let tags = metadata.into_iter().map(|(key, value)| json!({"key": key, "value": value}));
    Some(tags.collect())
}

/// The hyperparameters that a client requested.
fn requested_settings(body: &Body) -> Hyperparameters {
    let older: Option<Value> = body.read("hyperparameters");
    let method: Option<Value> = body.read("method");
    let settings = method.as_ref().and_then(|method| method.pointer("/supervised/hyperparameters"));
    let setting = |name: &str| {
        let own = settings.and_then(|settings| settings.get(name));
        own.or_else(|| older.as_ref()?.get(name))
    };
    Hyperparameters::new(setting("n_epochs"), setting("batch_size"), setting("learning_rate_multiplier"))
}
