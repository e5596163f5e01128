//! How the body of a request must be read before a target can be chosen, and which bodies are rejected.
//!
//! Does not read the body: the data port reads it from a connection, and `explain` gets it in its own request.

use super::RequestHead;
use crate::route::request_mode::RequestMode;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use memory::net::inbound::content_coding::ContentCoding;
use words::api::body::Body;
use words::api::operation::BodyKind;
use words::error::Error;

/// How to read a body that must be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyReading {
    /// The maximum size of the body in bytes.
    pub limit: usize,
    /// `Content-Length` in bytes; `None` for a chunked body.
    pub length: Option<usize>,
    pub content: BodyContent,
}

/// What a body may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyContent {
    /// A JSON object and nothing else.
    JsonObject,
    /// Parsed if it is a JSON object; anything else is passed on for the provider to judge.
    AnyJson,
    /// A form whose field `model` names the provider (`form_model`).
    Form,
    /// Bytes that are kept only because they may have to be sent twice.
    Opaque,
}

impl BodyReading {
    /// How to read the body of a request; `None` if it streams through unread. An operation's JSON body is always
    /// read, because `model` may choose the target. On other paths a JSON body is read so that `@slug/model` and
    /// `override_params` work there too; one that is too long to read, or of unknown length, streams through.
    ///
    /// # Errors
    /// 400 for a JSON body with a compression that is not read, 413 for one over the limit.
    pub(super) fn find(head: &RequestHead<'_>, limit: usize) -> Result<Option<Self>, Error> {
        let length = content_length(head.headers);
        let is_compressed = head.headers.contains_key(header::CONTENT_ENCODING);
        if head.endpoint.mode == RequestMode::Passthrough {
            let is_read = length.is_some_and(|length| length > 0 && length <= limit)
                && !is_compressed
                && is_json(head.headers);
            return Ok(is_read.then_some(Self { limit, length, content: BodyContent::AnyJson }));
        }
        if head.endpoint.operation.body_kind() != BodyKind::Json {
            return Ok(None);
        }
        ContentCoding::of(head.headers)?;
        let reading = Self { limit, length, content: BodyContent::JsonObject };
        reading.check_size(length.unwrap_or_default())?;
        Ok(Some(reading))
    }

    /// How to hold an upload that may have to be sent twice; `None` for one that is empty, too long or of unknown
    /// length: such an upload streams through and is sent only once.
    pub fn upload(headers: &HeaderMap, limit: usize) -> Option<Self> {
        let length = content_length(headers).filter(|length| *length > 0 && *length <= limit)?;
        Some(Self { limit, length: Some(length), content: BodyContent::Opaque })
    }

    /// How to read a body that would stream through, for what judges the request by it: whatever its type and length are, it may be a JSON
    /// object. `None` for a form, and for one that is compressed or too long. `has_body`: the connection has more to read of the request; in
    /// HTTP/2 its header need not show it.
    pub fn late(headers: &HeaderMap, limit: usize, has_body: bool) -> Option<Self> {
        let length = content_length(headers);
        let media =
            headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_form =
            media.trim_start().get(..10).is_some_and(|start| start.eq_ignore_ascii_case("multipart/"));
        let is_plain = |encoding: &HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"identity");
        let is_compressed = !headers.get_all(header::CONTENT_ENCODING).iter().all(is_plain);
        let is_read = has_body && length.is_none_or(|length| length <= limit);
        (is_read && !is_form && !is_compressed).then_some(Self {
            limit,
            length,
            content: BodyContent::AnyJson,
        })
    }

    /// # Errors
    /// 413 when `size`, in bytes, is over the limit.
    pub fn check_size(&self, size: usize) -> Result<(), Error> {
        if size > self.limit { Err(Error::body_too_large(self.limit as u64)) } else { Ok(()) }
    }

    /// Parses the complete body.
    ///
    /// # Errors
    /// 413 when it is over the limit; 400 when it must be a JSON object and is not.
    pub fn parse(&self, bytes: Bytes) -> Result<Body, Error> {
        self.check_size(bytes.len())?;
        match self.content {
            BodyContent::JsonObject if bytes.is_empty() => {
                Err(Error::bad_request("The request body must be a JSON object, and it is empty."))
            }
            BodyContent::JsonObject => Body::parse(bytes).map_err(|reason| {
                Error::bad_request(format!("The request body must be a JSON object: {reason}."))
            }),
            BodyContent::AnyJson => Ok(Body::parse(bytes.clone()).unwrap_or_else(|_| Body::opaque(bytes))),
            BodyContent::Form | BodyContent::Opaque => Ok(Body::opaque(bytes)),
        }
    }
}

/// Whether a request with these headers has a body. One of HTTP/2 may have a body without them.
pub fn is_sent_with_body(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
        || content_length(headers).is_some_and(|length| length > 0)
}

pub(super) fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}
