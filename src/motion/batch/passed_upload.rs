//! An upload for another purpose than batches, to a provider whose batches are translated: the file is the provider's own, so it is passed on.
//!
//! Which purpose a file has may stand behind it in the form, so it is received before it is known whose it is.

use super::batches::Batches;
use super::line::line_headers;
use super::upload::Upload;
use crate::engine::offline::{OfflineRequest, OfflineResponse};
use crate::engine::request_span::new_trace_id;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Uri};
use memory::auth::ClientIdentity;
use std::sync::Arc;
use tokio::sync::watch;
use uuid::Uuid;
use words::error::Error;

/// The largest response to an upload, bytes.
const MAX_RESPONSE: usize = 1 << 20;

/// Sends a received file to the provider that the headers name.
///
/// # Errors
/// 413 for a file that is larger than a request body may be, and why there is no complete response.
pub(super) async fn pass_on(
    batches: &Batches,
    client: &Arc<ClientIdentity>,
    headers: &HeaderMap,
    upload: &Upload,
    path: &str,
) -> Result<OfflineResponse, Error> {
    let most = batches.shared.settings().settings.limits.max_body_bytes;
    if upload.bytes > most as u64 {
        return Err(Error::body_too_large(most as u64).with_param("file"));
    }
    let content: Vec<Bytes> = batches.blobs.read(path).await?.stream.try_collect().await?;
    let boundary = format!("turnpike-{}", Uuid::now_v7().simple());
    let mut own: HeaderMap =
        line_headers(headers).map(|(name, value)| (name.clone(), value.clone())).collect();
    let kind = HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}"));
    own.insert(CONTENT_TYPE, kind.map_err(|why| Error::internal(why.to_string()))?);
    let trace_id = new_trace_id();
    let (_, leaves) = watch::channel(false);
    let request = OfflineRequest {
        method: Method::POST,
        uri: &Uri::from_static("/v1/files"),
        headers: &own,
        body: form(&boundary, upload, &content),
        is_limited: true,
        is_sent_once: false,
        advance: None,
        trace_id: &trace_id,
        client: Ok(Arc::clone(client)),
        max_response: MAX_RESPONSE,
        given: None,
        address: None,
    };
    let sent = batches.planner.run_offline(request, leaves).await;
    sent.map_err(|why| Error::unreachable(format!("The file was not passed on: {why}"), "no response"))
}

/// The form, with the file last.
fn form(boundary: &str, upload: &Upload, content: &[Bytes]) -> Bytes {
    let size: usize = content.iter().map(Bytes::len).sum();
    let mut body = BytesMut::with_capacity(size + 1024);
    let mut field = |name: &str, value: &str| {
        let part =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.put_slice(part.as_bytes());
    };
    field("purpose", &upload.purpose);
    if let Some(seconds) = upload.expires_after {
        field("expires_after[anchor]", "created_at");
        field("expires_after[seconds]", &seconds.to_string());
    }
    let name = upload.filename.replace(['"', '\\'], "_");
    // Together demands it.
    field("file_name", &name);
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    body.put_slice(head.as_bytes());
    content.iter().for_each(|piece| body.put_slice(piece));
    body.put_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    body.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_what_was_uploaded() {
        let upload = Upload {
            filename: "a\"b.jsonl".to_owned(),
            purpose: "fine-tune".to_owned(),
            expires_after: Some(3600),
            bytes: 4,
        };
        let form = form("b", &upload, &[Bytes::from_static(b"{}"), Bytes::from_static(b"\n\n")]);
        let text = std::str::from_utf8(&form).unwrap();
        assert!(
            text.starts_with(
                "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n--b\r\n"
            ),
            "{text}"
        );
        assert!(text.contains("name=\"expires_after[seconds]\"\r\n\r\n3600\r\n"), "{text}");
        assert!(
            text.contains("filename=\"a_b.jsonl\"") && text.ends_with("\r\n\r\n{}\n\n\r\n--b--\r\n"),
            "{text}"
        );
    }
}
