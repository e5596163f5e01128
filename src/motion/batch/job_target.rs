//! The provider that runs a batch in jobs of its own: the only target of the batch's config, and lines in that provider's format.
//!
//! Sends nothing (`job_calls`).

use super::job_state::{JobRecord, ProviderJobs};
use bytes::Bytes;
use http::{Method, Uri};
use judgment::route::admission::Endpoint;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::compiled::CompiledConfig;
use judgment::route::target::Target;
use knowledge::provider::batch_jobs::{BatchJobs, Job};
use memory::auth::ClientIdentity;
use std::sync::Arc;
use uuid::Uuid;
use words::api::body::Body;
use words::api::operation::Operation;
use words::error::Error;
use words::settings::AllowedNames;

/// The members of a request for a batch that are OpenAI's; others are the provider's.
const STANDARD: [&str; 5] =
    ["input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"];
/// The most that the others may have, bytes.
const MAX_OPTIONS: usize = 16 << 10;

/// A target with batch jobs.
#[derive(Clone)]
pub(super) struct JobTarget {
    pub jobs: &'static dyn BatchJobs,
    target: Arc<Target>,
    config: Arc<CompiledConfig>,
    endpoint: Endpoint,
    uri: Uri,
    /// The models that the client's key may use.
    allowed_models: Option<AllowedNames>,
}

/// A line in the provider's format.
#[derive(Debug)]
pub(super) struct TranslatedLine {
    pub body: Bytes,
    pub model: String,
}

impl JobTarget {
    /// The target of a batch whose lines have this endpoint and config.
    ///
    /// # Errors
    /// 400 for a config with several targets, another provider than the file's, or hooks, which are judged before a request is sent.
    pub fn new(
        config: Arc<CompiledConfig>,
        provider: &str,
        uri: Uri,
        client: &ClientIdentity,
    ) -> Result<Self, Error> {
        let [target] = config.targets() else {
            return Err(Error::bad_request(
                "Maximum one target is allowed for batch/file/fine_tuning requests. Name one provider, or upload the file without a \
                 provider: the gateway runs such a batch itself, under any config.",
            )
            .with_param("config"));
        };
        let target = Arc::clone(target);
        let named = target.provider.id();
        let Some(jobs) = target.provider.batch_jobs().filter(|_| named == provider) else {
            let message = format!(
                "The file was uploaded for batches at {provider}, and this request names {named}. Name {provider}, or upload the file \
                 again for {named}."
            );
            return Err(Error::invalid_request("input_file_id", message));
        };
        if !target.hooks.is_empty() {
            let message = format!(
                "The config has hooks or guardrails, which a batch that {provider} runs cannot have. Upload the file without a provider: \
                 the gateway runs such a batch itself."
            );
            return Err(Error::bad_request(message).with_param("config"));
        }
        let endpoint = Endpoint::find(&Method::POST, uri.path());
        let allowed_models = client.defaults.allowed_models.clone();
        Ok(Self { jobs, target, config, endpoint, uri, allowed_models })
    }

    /// Whether the provider can run such a batch.
    ///
    /// # Errors
    /// As [`BatchJobs::check`].
    pub fn check(&self, options: &ProviderJobs) -> Result<(), Error> {
        self.jobs.check(&Job { model: self.target.model().unwrap_or_default(), ..self.job("", options) })
    }

    /// What a provider gets to see of a job without a record.
    pub fn job<'a>(&'a self, name: &'a str, jobs: &'a ProviderJobs) -> Job<'a> {
        Job {
            name,
            account: &self.target.account,
            model: "",
            operation: self.operation(),
            options: &jobs.options,
            input: None,
            id: None,
        }
    }

    pub fn operation(&self) -> Operation {
        self.endpoint.operation
    }

    /// Calls `with` with what a provider gets to see of a job.
    pub fn with_job<T>(
        &self,
        batch: Uuid,
        jobs: &ProviderJobs,
        record: &JobRecord,
        with: impl FnOnce(&dyn BatchJobs, &Job<'_>) -> T,
    ) -> T {
        let name = record.name(batch);
        let input = record.input.as_deref();
        let id = record.id.as_deref();
        with(self.jobs, &Job { model: &record.model, input, id, ..self.job(&name, jobs) })
    }

    /// The model of a line, as far as it is seen without a translation.
    pub fn model<'a>(&'a self, line_model: Option<&'a str>) -> Option<&'a str> {
        self.target.model().or(line_model)
    }

    /// A line in the provider's format.
    ///
    /// # Errors
    /// What the gateway or the provider's format does not allow.
    pub fn translate(&self, body: Bytes) -> Result<TranslatedLine, Error> {
        let body = Body::parse(body).map_err(|why| Error::bad_request(why.to_string()).with_param("body"))?;
        let mut request = Request::new(self.endpoint, Method::POST, self.uri.clone(), Some(body));
        request.allowed_models.clone_from(&self.allowed_models);
        request.check(&self.config)?;
        let attempt = Attempt::new(Arc::clone(&self.target), &request)?;
        let model = attempt.model.as_deref().unwrap_or_default().to_owned();
        Ok(TranslatedLine { body: attempt.body.unwrap_or_default(), model })
    }
}

/// The members of a request for a batch that only its provider has.
///
/// # Errors
/// 400 where there are too many of them.
pub(super) fn options(body: &Body) -> Result<serde_json::Map<String, serde_json::Value>, Error> {
    let all: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(body.bytes()).map_err(|why| Error::bad_request(why.to_string()))?;
    let own: serde_json::Map<_, _> =
        all.into_iter().filter(|(name, _)| !STANDARD.contains(&name.as_str())).collect();
    let size = serde_json::Value::from(own.clone()).to_string().len();
    if size > MAX_OPTIONS {
        let message = format!(
            "The request has {size} bytes of members beyond those of a batch, more than {MAX_OPTIONS}. Leave them out."
        );
        return Err(Error::bad_request(message));
    }
    Ok(own)
}
