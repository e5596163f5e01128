//! Answers requests for the gateway's own list of models, or for one model of it.
//!
//! Which requests those are is decided at admission; the list is made by `engine::model_list`.

use super::Gateway;
use super::downstream::PingoraDownstream;
use super::native;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use judgment::route::admission::ModelQuery;
use judgment::route::provider_ref::split_slug;
use motion::engine::downstream::Downstream;
use motion::engine::header_edit::{self, HeaderCase, edit_response_headers};
use motion::engine::model_list::{GatewayModels, gateway_models};
use motion::engine::request_context::RequestContext;
use motion::engine::response_headers;
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use words::api::model_list::list_json;
use words::error::Error;

/// Sends the list, or the one model.
pub(super) async fn serve(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    query: ModelQuery,
) -> Result<bool> {
    let only = query.model.as_deref().and_then(split_slug).map(|(slug, _)| slug);
    let found = gateway_models(&gateway.engine, ctx, only).await;
    let body = match body(&found, &query) {
        Ok(body) => Bytes::from(body),
        Err(error) => return Err(native::fail_request(ctx, error)),
    };
    let parts = parts(&found, body, ctx).map_err(|error| native::fail_request(ctx, error))?;
    let mut downstream = PingoraDownstream::new(session);
    if !downstream.body_is_complete() {
        // Nothing of a body is read, so the next request could not be found.
        downstream.close_after_response();
    }
    let sent = downstream.send(parts).await;
    sent.map(|()| true).map_err(|error| native::fail_request(ctx, error))
}

/// # Errors
/// 404: there is no such model.
fn body(found: &GatewayModels, query: &ModelQuery) -> std::result::Result<Vec<u8>, Error> {
    let Some(wanted) = &query.model else { return Ok(list_json(&found.models, query.shape)) };
    let model = found.models.iter().find(|model| model.id == *wanted);
    let model = model.ok_or_else(|| {
        let why = found.warnings.first().map(|why| format!(" ({why})")).unwrap_or_default();
        let message =
            format!("There is no model {wanted:?} here{why}. GET /v1/models lists the names that work.");
        Error::not_found(message).with_param("model").with_unknown_name(wanted)
    })?;
    Ok(model.json(query.shape))
}

fn parts(
    found: &GatewayModels,
    body: Bytes,
    ctx: &mut RequestContext,
) -> std::result::Result<Vec<HttpTask>, Error> {
    let mut response = response_headers::new_header(StatusCode::OK)?;
    ctx.record.traffic.bytes_out = body.len() as u64;
    edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, body.len().into());
        if !found.warnings.is_empty() {
            let warnings = response_headers::warnings(found.warnings.iter().map(String::as_str));
            header_edit::insert_str(headers, header_edit::WARNINGS, &warnings);
        }
        response_headers::add_basic_headers(headers, ctx);
    });
    Ok(vec![HttpTask::Header(Box::new(response), false), HttpTask::Body(Some(body), true)])
}
