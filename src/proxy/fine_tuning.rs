//! Fine-tuning jobs that take more than one request to the provider: training data that clients have uploaded to the gateway are
//! converted and uploaded before the job is created, and a job whose provider does not send it back when it is cancelled is fetched.
//!
//! Everything else of fine-tuning is translated as any operation (`provider::fine_tuning`).

use super::Gateway;
use super::downstream::PingoraDownstream;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode, Uri};
use judgment::route::admission::Endpoint;
use judgment::route::attempt::Request;
use judgment::route::target::Target;
use knowledge::provider::batch_jobs::{BatchJobs, Job};
use knowledge::provider::fine_tuning::training::TrainingWriter;
use motion::batch::read_training;
use motion::engine::downstream::Downstream;
use motion::engine::header_edit::{HeaderCase, edit_response_headers};
use motion::engine::offline::{OfflineRequest, OfflineResponse};
use motion::engine::orchestrator::Admitted;
use motion::engine::request_context::RequestContext;
use motion::engine::response_headers;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use serde_json::Map;
use std::sync::Arc;
use tokio::sync::watch;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::api::own_ids::is_own_file;
use words::error::Error;

/// The largest response to a cancel request or an upload that is read, bytes.
const MAX_RESPONSE: usize = 1 << 20;
/// The most training data that are converted, bytes: they are held in memory until they are uploaded.
const MAX_TRAINING: usize = 32 << 20;
/// The members of a request that name files.
const FILE_PARAMS: [&str; 2] = ["training_file", "validation_file"];

/// Sends the cancel request, and makes the admitted request one for the job. `Some`: the job is not cancelled, and this is why.
///
/// # Errors
/// The cancel request has no complete response.
pub(super) async fn cancel(
    gateway: &Gateway,
    session: &Session,
    ctx: &RequestContext,
    admitted: &mut Admitted,
) -> Result<Option<OfflineResponse>, Error> {
    let uri = admitted.request.uri.clone();
    let headers = &session.req_header().headers;
    let response = send_offline(gateway, ctx, Method::POST, &uri, headers, Bytes::new()).await;
    let response = response.map_err(|why| Error::invalid_response("The job could not be cancelled.", why))?;
    if !response.status.is_success() {
        return Ok(Some(response));
    }
    let job = job_uri(&uri)?;
    let endpoint = Endpoint::find(&Method::GET, job.path());
    admitted.request = Request::new(endpoint, Method::GET, job, None);
    admitted.prepared = None;
    Ok(None)
}

/// Whether a request for a job names files of the gateway's own.
pub(super) fn names_own_files(body: Option<&Body>) -> bool {
    let is_own = |param: &&str| body.and_then(|body| body.text(param)).is_some_and(|id| is_own_file(&id));
    FILE_PARAMS.iter().any(is_own)
}

/// A file of the gateway's own in the provider's format.
pub(super) struct Training {
    target: Arc<Target>,
    /// Of the object or dataset, without folders: the same for the same file, however often it is used.
    name: String,
    content: Bytes,
}

impl Training {
    fn with_job<T>(
        &self,
        with: impl FnOnce(&dyn BatchJobs, &Job<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let jobs = self.target.provider.batch_jobs();
        let jobs = jobs.ok_or_else(|| Error::internal("a provider without uploads"))?;
        let options = Map::new();
        let job = Job {
            name: &self.name,
            account: &self.target.account,
            model: "",
            operation: Operation::ChatCompletions,
            options: &options,
            input: None,
            id: None,
        };
        with(jobs, &job)
    }
}

/// Converts the gateway's own files that a request for a job names, and names what they are going to be at the provider instead.
///
/// # Errors
/// 400 for a file that is not there, or cannot be converted, with the number of its line.
pub(super) async fn convert_own_files(
    gateway: &Gateway,
    session: &Session,
    ctx: &mut RequestContext,
    request: &mut Request,
) -> Result<Vec<Training>, Error> {
    let config = gateway.planner.config(session.req_header(), ctx, request).await?;
    let target = config.targets().first().ok_or_else(|| Error::internal("a config without a target"))?;
    let Some(body) = request.body.clone() else { return Ok(Vec::new()) };
    let mut edits = Vec::new();
    let mut uploads = Vec::new();
    for param in FILE_PARAMS {
        if let Some(id) = body.text(param).filter(|id| is_own_file(id)) {
            let model = target.model().or(request.model.as_deref()).unwrap_or_default();
            let content = converted(gateway, ctx, target, model, param, &id).await?;
            let name = format!("ft-{}", id.rsplit('-').next().unwrap_or_default());
            let training = Training { target: Arc::clone(target), name, content };
            // The vendors that take converted files have them under the gateway's names: no response is needed.
            let name = training.with_job(|jobs, job| jobs.uploaded(job, &[]))?;
            edits.push(Edit::Set(param, serde_json::Value::from(name).to_string().into()));
            uploads.push(training);
        }
    }
    let body = Body::parse(body.edit(&edits)).map_err(|_| Error::internal("an edited body is no JSON"))?;
    request.body = Some(body);
    Ok(uploads)
}

/// The file in the provider's format.
async fn converted(
    gateway: &Gateway,
    ctx: &RequestContext,
    target: &Target,
    model: &str,
    param: &str,
    id: &str,
) -> Result<Bytes, Error> {
    let provider = target.provider;
    let Some(format) = provider.training_format() else {
        let provider = provider.id();
        let message = format!(
            "{provider} learns from its own files: upload the file to it (POST /v1/files for the provider {provider}), \
             and give the id that it returns."
        );
        return Err(Error::invalid_request(param, message).with_provider(provider));
    };
    let batches = gateway.batches.as_ref().ok_or_else(|| Error::not_found("This gateway keeps no files."))?;
    let client = ctx.record.client.clone().unwrap_or_else(|| ctx.snapshot.service_keys.anonymous());
    let mut writer = TrainingWriter::new(provider, &target.account, model, format, MAX_TRAINING);
    read_training(batches, &client, param, id, |number, line| writer.push(param, number, line)).await?;
    writer.finish(param).map(Bytes::from)
}

/// Uploads a file as the input of batches is uploaded.
///
/// # Errors
/// The provider's, for an upload that fails.
pub(super) async fn upload(
    gateway: &Gateway,
    session: &Session,
    ctx: &RequestContext,
    training: Training,
) -> Result<(), Error> {
    let provider = training.target.provider.id();
    for call in training.with_job(|jobs, job| jobs.uploads(job, &training.content))? {
        let uri = format!("/v1/proxy/{}", call.path);
        let uri = Uri::try_from(&uri).map_err(|_| Error::internal(format!("{uri} is no path")))?;
        let mut headers = session.req_header().headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
        headers.extend(call.headers);
        let response = send_offline(gateway, ctx, call.method, &uri, &headers, call.body).await;
        let response = response
            .map_err(|why| Error::invalid_response("The training data could not be uploaded.", why))?;
        // What an earlier job with the same file has made is there already.
        if !response.status.is_success() && response.status != StatusCode::CONFLICT {
            let body = response.body.concat();
            let body = String::from_utf8_lossy(body.get(..500).unwrap_or(&body)).into_owned();
            let message =
                format!("{provider} refused the training data with status {}: {body}", response.status);
            return Err(Error::bad_request(message).with_provider(provider));
        }
    }
    Ok(())
}

/// Sends one request in the client's name.
async fn send_offline(
    gateway: &Gateway,
    ctx: &RequestContext,
    method: Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<OfflineResponse, String> {
    let client = ctx.record.client.clone().unwrap_or_else(|| ctx.snapshot.service_keys.anonymous());
    // Not given up when the client leaves.
    let (_stays, leaves) = watch::channel(false);
    let request = OfflineRequest {
        method,
        uri,
        headers,
        body,
        is_limited: false,
        is_sent_once: false,
        advance: None,
        trace_id: &ctx.span.trace_id,
        client: Ok(client),
        max_response: MAX_RESPONSE,
        given: None,
        address: None,
    };
    gateway.planner.run_offline(request, leaves).await
}

/// The job's own path.
fn job_uri(uri: &Uri) -> Result<Uri, Error> {
    let job = uri.path().strip_suffix("/cancel").and_then(|path| Uri::try_from(path).ok());
    job.ok_or_else(|| Error::internal("a cancel request whose path does not end so"))
}

/// Sends the response to the cancel request to the client.
///
/// # Errors
/// The client is gone.
pub(super) async fn send(
    session: &mut Session,
    ctx: &mut RequestContext,
    response: OfflineResponse,
) -> Result<(), Error> {
    let body = Bytes::from(response.body.concat());
    ctx.record.traffic.bytes_out = body.len() as u64;
    let mut header = response_headers::new_header(response.status)?;
    edit_response_headers(&mut header, HeaderCase::Lower, |headers| {
        if let Some(content_type) = response.headers.get(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, content_type.clone());
        }
        headers.insert(CONTENT_LENGTH, body.len().into());
        response_headers::add_basic_headers(headers, ctx);
    });
    let mut downstream = PingoraDownstream::new(session);
    downstream.send(vec![HttpTask::Header(Box::new(header), false), HttpTask::Body(Some(body), true)]).await
}
