//! Sends a response that the gateway has made of others, whole or in parts.
//!
//! Not errors (`error_response`), and not what an attempt sends (`forward`).

use super::downstream::Downstream;
use super::header_edit::{HeaderCase, edit_response_headers};
use super::{keep_alive, response_headers};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode};
use pingora_core::protocols::http::HttpTask;
use words::api::operation::Operation;
use words::error::Error;

/// `length`: of the body, bytes; `None`: it is sent in chunks, to clients that can read them.
fn header(
    status: StatusCode,
    headers: &HeaderMap,
    length: Option<usize>,
    is_http10: bool,
) -> Result<HttpTask, Error> {
    let mut header = response_headers::new_header(status)?;
    edit_response_headers(&mut header, HeaderCase::Lower, |out| {
        let is_kept = |name: &_| ![CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(name);
        for (name, value) in headers.iter().filter(|(name, _)| is_kept(*name)) {
            out.append(name.clone(), value.clone());
        }
        match length {
            Some(length) => drop(out.insert(CONTENT_LENGTH, length.into())),
            // Without chunks the end of a stream could not be told from a cut.
            None if !is_http10 => drop(out.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"))),
            None => {}
        }
    });
    Ok(HttpTask::Header(Box::new(header), false))
}

/// Sends a whole response.
///
/// # Errors
/// The client has left.
pub async fn send_whole<D: Downstream>(
    downstream: &mut D,
    status: StatusCode,
    headers: &HeaderMap,
    body: Vec<u8>,
) -> Result<(), Error> {
    let header = header(status, headers, Some(body.len()), false)?;
    downstream.send(vec![header, HttpTask::Body(Some(Bytes::from(body)), true)]).await
}

/// Begins a stream.
///
/// # Errors
/// The client has left.
pub async fn begin<D: Downstream>(
    downstream: &mut D,
    status: StatusCode,
    headers: &HeaderMap,
    is_http10: bool,
) -> Result<(), Error> {
    downstream.send(vec![header(status, headers, None, is_http10)?]).await
}

/// Sends a part of a stream, and leaves nothing in `out`.
///
/// # Errors
/// The client has left.
pub async fn send_part<D: Downstream>(downstream: &mut D, out: &mut Vec<u8>) -> Result<(), Error> {
    if out.is_empty() {
        return Ok(());
    }
    let part = Bytes::from(std::mem::take(out));
    downstream.send(vec![HttpTask::Body(Some(part), false)]).await
}

/// Sends what keeps a stream of events alive.
///
/// # Errors
/// The client has left.
pub async fn send_heartbeat<D: Downstream>(downstream: &mut D, operation: Operation) -> Result<(), Error> {
    downstream.send(vec![HttpTask::Body(Some(keep_alive::bytes(operation, true)), false)]).await
}

/// Whether a chunk of a stream is such a comment, which stands in no event.
pub fn is_heartbeat(chunk: &[u8]) -> bool {
    keep_alive::COMMENT == chunk
}

/// Ends a stream.
///
/// # Errors
/// The client has left.
pub async fn end<D: Downstream>(downstream: &mut D, out: Vec<u8>) -> Result<(), Error> {
    downstream.send(vec![HttpTask::Body(Some(Bytes::from(out)), true)]).await
}
