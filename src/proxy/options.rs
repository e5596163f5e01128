//! The response to OPTIONS: what a path takes, and to a browser's preflight what its page may send.
//!
//! Calls nothing and needs no key. Which pages are allowed is decided by `engine::cors`.

use super::downstream::PingoraDownstream;
use super::native;
use http::{StatusCode, header};
use judgment::route::admission::allowed_methods;
use motion::engine::downstream::Downstream;
use motion::engine::header_edit::{HeaderCase, edit_response_headers, insert_str};
use motion::engine::record_builder::RecordSource;
use motion::engine::request_context::RequestContext;
use motion::engine::{cors, response_headers};
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;

/// Responds with 204.
pub(super) async fn answer(session: &mut Session, ctx: &mut RequestContext) -> Result<bool> {
    ctx.record.source = RecordSource::Control;
    let request = session.req_header();
    let mut response = match response_headers::new_header(StatusCode::NO_CONTENT) {
        Ok(response) => response,
        Err(error) => return Err(native::fail_request(ctx, error)),
    };
    edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        insert_str(headers, header::ALLOW, &allowed_methods(request.uri.path()));
        response_headers::add_basic_headers(headers, ctx);
        let cors = ctx.snapshot.settings.cors.as_ref().filter(|_| ctx.reply.allowed_origin.is_some());
        if let Some(cors) = cors.filter(|_| cors::is_preflight(&request.method, &request.headers)) {
            cors::write_preflight(headers, cors, &request.headers);
        }
    });
    let mut downstream = PingoraDownstream::new(session);
    if !downstream.body_is_complete() {
        // A body that nobody reads would be parsed as the next request.
        downstream.close_after_response();
    }
    let sent = downstream.send(vec![HttpTask::Header(Box::new(response), true)]).await;
    sent.map(|()| true).map_err(|error| native::fail_request(ctx, error))
}
