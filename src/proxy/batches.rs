//! Answers requests for files and batches of the gateway itself: reads their bodies, and sends their responses.
//!
//! Which requests those are is decided at admission; what is done is `batch`'s.

use super::Gateway;
use super::downstream::PingoraDownstream;
use super::native;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use judgment::route::admission::object_id;
use motion::batch::{Batches, BlobReader, Output, Uploaded};
use motion::engine::body_pace::BodyPace;
use motion::engine::downstream::Downstream;
use motion::engine::header_edit::{HeaderCase, edit_response_headers};
use motion::engine::offline::OfflineResponse;
use motion::engine::request_context::RequestContext;
use motion::engine::response_headers;
use motion::engine::reusable_timer::ReusableTimer;
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use serde_json::Value;
use std::time::Instant;
use words::api::body::Body;
use words::api::operation::Operation;
use words::error::Error;

/// What a client gets.
enum Answer {
    Json(Value),
    Content(BlobReader),
    /// A provider's.
    Passed(OfflineResponse),
}

/// What is requested of the gateway's files and batches.
#[derive(Debug, Default)]
pub(super) struct OwnCall {
    /// Of a batch that is to be created.
    pub body: Option<Body>,
    /// The provider that the request names, where its batches are translated.
    pub provider: Option<&'static str>,
}

/// Does what is requested, and sends the response.
pub(super) async fn serve(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    call: OwnCall,
) -> Result<bool> {
    let answer = match &gateway.batches {
        Some(batches) => answer(batches, session, ctx, call).await,
        None => Err(Error::store_unavailable(
            "This gateway keeps no files and batches of its own: it is an edge node, or it shares its store with others and \
             batches.s3 or batches.directory is not set. Name a provider to use that one's.",
        )),
    };
    let sent = match answer {
        Ok(answer) => send(session, ctx, answer).await,
        Err(error) => Err(error),
    };
    sent.map(|()| true).map_err(|error| native::fail_request(ctx, error))
}

async fn answer(
    batches: &Batches,
    session: &mut Session,
    ctx: &mut RequestContext,
    OwnCall { body, provider }: OwnCall,
) -> std::result::Result<Answer, Error> {
    let client = ctx.record.client.clone().unwrap_or_else(|| ctx.snapshot.service_keys.anonymous());
    let header = session.req_header();
    let uri = header.uri.clone();
    let id = object_id(uri.path()).unwrap_or_default();
    let query = uri.query();
    Ok(match ctx.api.operation {
        Operation::FilesUpload => {
            let headers = header.headers.clone();
            let mut downstream = PingoraDownstream::new(session);
            downstream.send_continue().await?;
            let pace = BodyPace::new(Instant::now(), &ctx.snapshot.settings.limits);
            let bytes_in = &mut ctx.record.traffic.bytes_in;
            let chunks = chunks(&mut downstream, pace).inspect(|chunk| {
                *bytes_in += chunk.as_ref().map_or(0, |chunk: &Bytes| chunk.len() as u64);
            });
            match batches.upload(&client, &headers, provider, chunks).await? {
                Uploaded::Kept(file) => Answer::Json(file),
                Uploaded::Passed(response) => Answer::Passed(response),
            }
        }
        Operation::FilesList => Answer::Json(batches.files(&client, query, provider)?),
        Operation::FilesGet => Answer::Json(batches.file(&client, id).await?),
        Operation::FilesContent => Answer::Content(batches.content(&client, id).await?),
        Operation::FilesDelete => Answer::Json(batches.delete_file(&client, id).await?),
        Operation::BatchesCreate => {
            let body = body.ok_or_else(|| Error::internal("a batch without a body"))?;
            Answer::Json(batches.create(&client, &header.headers, &body).await?)
        }
        Operation::BatchesList => Answer::Json(batches.list(&client, query, provider)?),
        Operation::BatchesGet => Answer::Json(batches.batch(&client, id).await?),
        Operation::BatchesCancel => Answer::Json(batches.cancel(&client, id).await?),
        _ => match batches.output(&client, id).await? {
            Output::File(content) => Answer::Content(content),
            Output::Errors(errors) => Answer::Json(errors),
        },
    })
}

/// The body as it arrives; one that comes too slowly is an error.
fn chunks<'a, 's>(
    downstream: &'a mut PingoraDownstream<'s>,
    pace: BodyPace,
) -> impl Stream<Item = std::result::Result<Bytes, Error>> + Send + use<'a, 's> {
    let start = (downstream, ReusableTimer::default(), 0_usize, false);
    Box::pin(stream::unfold(start, move |(downstream, mut timer, size, is_over)| {
        let pace = pace.clone();
        async move {
            if is_over {
                return None;
            }
            let left = pace.deadline(size).saturating_duration_since(Instant::now());
            let next =
                timer.timeout(left, downstream.next_chunk()).await.unwrap_or_else(|| Err(pace.error()));
            let (chunk, size, is_over) = match next {
                Ok(Some(chunk)) => {
                    let size = size + chunk.len();
                    (Ok(chunk), size, false)
                }
                Ok(None) => return None,
                Err(error) => (Err(error), size, true),
            };
            Some((chunk, (downstream, timer, size, is_over)))
        }
    }))
}

async fn send(
    session: &mut Session,
    ctx: &mut RequestContext,
    answer: Answer,
) -> std::result::Result<(), Error> {
    let mut downstream = PingoraDownstream::new(session);
    if !downstream.body_is_complete() {
        // Nothing of a body is read, so the next request could not be found.
        downstream.close_after_response();
    }
    match answer {
        Answer::Json(value) => {
            let body = Bytes::from(value.to_string());
            ctx.record.traffic.bytes_out = body.len() as u64;
            let header = header(ctx, StatusCode::OK, "application/json", body.len() as u64)?;
            downstream.send(vec![header, HttpTask::Body(Some(body), true)]).await
        }
        Answer::Passed(OfflineResponse { status, body, .. }) => {
            let body = Bytes::from(body.concat());
            ctx.record.traffic.bytes_out = body.len() as u64;
            let header = header(ctx, status, "application/json", body.len() as u64)?;
            downstream.send(vec![header, HttpTask::Body(Some(body), true)]).await
        }
        Answer::Content(BlobReader { size, mut stream }) => {
            let header = header(ctx, StatusCode::OK, "application/octet-stream", size)?;
            downstream.send(vec![header]).await?;
            while let Some(chunk) = stream.next().await {
                // The length is sent, so a client sees that the rest is missing.
                let chunk = chunk.inspect_err(|_| downstream.close_after_response())?;
                ctx.record.traffic.bytes_out += chunk.len() as u64;
                downstream.send(vec![HttpTask::Body(Some(chunk), false)]).await?;
            }
            downstream.send(vec![HttpTask::Body(None, true)]).await
        }
    }
}

fn header(
    ctx: &RequestContext,
    status: StatusCode,
    content_type: &'static str,
    length: u64,
) -> std::result::Result<HttpTask, Error> {
    let mut response = response_headers::new_header(status)?;
    edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(CONTENT_LENGTH, length.into());
        response_headers::add_basic_headers(headers, ctx);
    });
    Ok(HttpTask::Header(Box::new(response), false))
}
