//! `POST /v1/batches` for a file of the gateway's: a batch that the gateway runs, or that the file's provider runs.
//!
//! What becomes of it is `run`.

use super::batches::{Batches, HEADERS, audit_entry};
use super::job_state::ProviderJobs;
use super::job_target::{self, JobTarget};
use super::line::line_headers;
use super::record::{self, batch_view};
use super::state::{Batch, BatchRequest};
use super::upload::EXPIRY_SECONDS;
use http::{HeaderMap, Uri};
use jiff::Timestamp;
use memory::auth::ClientIdentity;
use memory::store::{Change, Kind};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::own_ids::file_id;
use words::api::rules;
use words::error::Error;

impl Batches {
    /// Creates a batch. Its lines are sent under `headers`, those of this request.
    ///
    /// # Errors
    /// 400 for a body against the rules, 404 for a file that is not there.
    pub async fn create(
        &self,
        client: &Arc<ClientIdentity>,
        headers: &HeaderMap,
        body: &Body,
    ) -> Result<Value, Error> {
        rules::check(Operation::BatchesCreate, body, &|_| false)?;
        rules::check_endpoint(body)?;
        let text = |name: &str| body.text(name).unwrap_or_default();
        let (input, file) = self
            .find_file(client, &text("input_file_id"))
            .await
            .map_err(|error| error.with_param("input_file_id"))?;
        let provider = file.provider.as_deref();
        if file.purpose != "batch" {
            let message = format!(
                "The file {} was uploaded for '{}'. The input of a batch is uploaded with the purpose 'batch'.",
                file_id(input, provider),
                file.purpose
            );
            return Err(Error::invalid_request("input_file_id", message));
        }
        let now = Timestamp::now();
        let request = BatchRequest {
            endpoint: text("endpoint").into_owned(),
            window: text("completion_window").into_owned(),
            input_file: input,
            metadata: body.read("metadata"),
            output_expiry: output_expiry(body)?,
        };
        let mut batch = Batch::new(request, now.as_second());
        batch.made_by = client.id.as_deref().map(str::to_owned);
        let pairs: Vec<[&str; 2]> = line_headers_of(headers)?;
        if let Some(provider) = provider {
            batch.jobs = Some(self.provider_jobs(client, headers, body, provider).await?);
        }
        let id = Uuid::now_v7();
        let store = self.store()?;
        let mut record = record::created(Kind::Batch, id, self.workspace(client), &batch, now);
        let mut secrets = Map::new();
        secrets.insert(HEADERS.to_owned(), json!(pairs));
        record.sealed = Some(store.seal(Kind::Batch, id, &secrets)?);
        let audit = audit_entry(client, &record, "create", now);
        store.commit(vec![Change::Put(Arc::new(record))], vec![audit]).await?;
        self.work.notify_one();
        Ok(batch_view(id, &batch))
    }

    /// The jobs of a batch that the file's provider runs.
    ///
    /// # Errors
    /// 400 where the request names another provider, or the provider cannot run such a batch.
    async fn provider_jobs(
        &self,
        client: &Arc<ClientIdentity>,
        headers: &HeaderMap,
        body: &Body,
        provider: &str,
    ) -> Result<ProviderJobs, Error> {
        rules::check_window(body, false)?;
        let endpoint = body.text("endpoint").unwrap_or_default();
        let uri: Uri = endpoint.parse().map_err(|_| {
            Error::invalid_request("endpoint", format!("{endpoint:?} is not the path of an endpoint."))
        })?;
        let lines: HeaderMap =
            line_headers(headers).map(|(name, value)| (name.clone(), value.clone())).collect();
        let config = self.planner.offline_config(&uri, &lines, Arc::clone(client)).await?;
        let target = JobTarget::new(config, provider, uri, client)?;
        let jobs = ProviderJobs::new(provider, job_target::options(body)?);
        target.check(&jobs)?;
        Ok(jobs)
    }
}

/// `output_expires_after` of a request to create a batch.
#[derive(Deserialize)]
struct ExpiresAfter {
    anchor: String,
    seconds: u32,
}

/// # Errors
/// 400 for an expiry that OpenAI's API does not have.
fn output_expiry(body: &Body) -> Result<Option<u32>, Error> {
    let given = body.value("output_expires_after").filter(|value| *value != b"null".as_slice());
    let Some(value) = given else { return Ok(None) };
    let read = serde_json::from_slice::<ExpiresAfter>(value).ok();
    let read = read.filter(|after| after.anchor == "created_at" && EXPIRY_SECONDS.contains(&after.seconds));
    read.map(|after| Some(after.seconds)).ok_or_else(|| {
        let min = EXPIRY_SECONDS.start();
        let max = EXPIRY_SECONDS.end();
        let message = format!(
            "output_expires_after must have the anchor 'created_at' and seconds from {min} to {max}."
        );
        Error::invalid_request("output_expires_after", message)
    })
}

/// # Errors
/// 400 for a header that is no text.
fn line_headers_of(headers: &HeaderMap) -> Result<Vec<[&str; 2]>, Error> {
    line_headers(headers)
        .map(|(name, value)| match value.to_str() {
            Ok(value) => Ok([name.as_str(), value]),
            Err(_) => {
                Err(Error::bad_request(format!("The header {name} is not plain text."))
                    .with_param(name.as_str()))
            }
        })
        .collect()
}
