//! Objects in buckets: PUT and GET of S3 below `/s3/<bucket>/<key>`, and upload, list and get of Cloud Storage's JSON API.
//!
//! Every bucket exists, except those named `missing-*`. What S3 checks of a request's body is checked, a signature is not.

use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// Stores an object, by the name of its bucket, a slash, and its key.
pub(super) fn store(call: &Call<'_>, name: &str, content: Bytes) {
    call.state.vendors.objects.remove(name);
    call.state.vendors.objects.put(name, json!({"name": name}), content);
}

/// The content of an object of a URI: `s3://<bucket>/<key>`, `gs://<bucket>/<key>`.
pub(super) fn read(call: &Call<'_>, uri: &str) -> Option<Bytes> {
    let (_, name) = uri.split_once("://")?;
    Some(call.state.vendors.objects.find(name)?.content)
}

/// `PUT /s3/<bucket>/<key>`.
pub(super) fn put_s3(call: &Call<'_>) -> Result<Reply, ApiError> {
    if let Some(refusal) = refuse_s3(call) {
        return Ok(refusal);
    }
    store(call, call.id, call.body.clone());
    Ok(Reply::whole(OCTETS, Bytes::new()))
}

/// `GET /s3/<bucket>/<key>`.
pub(super) fn get_s3(call: &Call<'_>) -> Result<Reply, ApiError> {
    if let Some(refusal) = refuse_s3(call) {
        return Ok(refusal);
    }
    Ok(match call.state.vendors.objects.find(call.id) {
        Some(object) => Reply::whole(OCTETS, object.content),
        None => s3_error(StatusCode::NOT_FOUND, "NoSuchKey", "The specified key does not exist."),
    })
}

/// The errors that S3 has for a request which is not made for it.
fn refuse_s3(call: &Call<'_>) -> Option<Reply> {
    let header = |name: &str| call.parts.headers.get(name).and_then(|value| value.to_str().ok());
    if call.id.starts_with("missing-") {
        let message = "The specified bucket does not exist";
        return Some(s3_error(StatusCode::NOT_FOUND, "NoSuchBucket", message));
    }
    let scope = header("authorization").unwrap_or_default();
    if !scope.starts_with("AWS4-HMAC-SHA256 ") || !scope.contains("/s3/aws4_request") {
        return Some(s3_error(StatusCode::FORBIDDEN, "AccessDenied", "The request is not signed for s3."));
    }
    let hash: String = digest(&SHA256, call.body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    match header("x-amz-content-sha256") {
        Some(sent) if sent == hash => None,
        Some(_) => {
            let message = "The provided 'x-amz-content-sha256' header does not match what was computed.";
            Some(s3_error(StatusCode::BAD_REQUEST, "XAmzContentSHA256Mismatch", message))
        }
        None => {
            let message = "Missing required header for this request: x-amz-content-sha256";
            Some(s3_error(StatusCode::BAD_REQUEST, "InvalidRequest", message))
        }
    }
}

fn s3_error(status: StatusCode, code: &str, message: &str) -> Reply {
    let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    Reply { status, ..Reply::whole(XML, Bytes::from(body)) }
}

/// `POST /upload/storage/v1/b/<bucket>/o?uploadType=media&name=<key>`.
pub(super) fn upload(call: &Call<'_>) -> Result<Reply, ApiError> {
    let bucket = bucket(call)?;
    let key = call.query("name").ok_or_else(|| ApiError::missing("name").in_dialect(Dialect::Gemini))?;
    store(call, &format!("{bucket}/{key}"), call.body.clone());
    Ok(Reply::value(&object(bucket, &key, call.body.len())))
}

/// `GET /storage/v1/b/<bucket>/o?prefix=<prefix>`.
pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let bucket = bucket(call)?;
    let prefix = format!("{bucket}/{}", call.query("prefix").unwrap_or_default());
    let (objects, _) = call.state.vendors.objects.page(None, usize::MAX);
    let names = objects.iter().filter_map(|object| object.get("name").and_then(Value::as_str));
    let names = names.filter(|name| name.starts_with(&prefix));
    let items: Vec<Value> = names
        .filter_map(|name| name.split_once('/'))
        .map(|(bucket, key)| {
            let size = read(call, &format!("gs://{bucket}/{key}")).map_or(0, |content| content.len());
            object(bucket, key, size)
        })
        .collect();
    // A list without objects has no `items`.
    Ok(Reply::value(&if items.is_empty() {
        json!({"kind": "storage#objects"})
    } else {
        json!({"kind": "storage#objects", "items": items})
    }))
}

/// `GET /storage/v1/b/<bucket>/o/<key>`, with `alt=media` its content.
pub(super) fn get(call: &Call<'_>) -> Result<Reply, ApiError> {
    let bucket = bucket(call)?;
    let key = call.id.split_once("/o/").map_or("", |(_, key)| key);
    let content = read(call, &format!("gs://{bucket}/{key}")).ok_or_else(|| {
        ApiError::not_found(format!("No such object: {bucket}/{key}")).in_dialect(Dialect::Gemini)
    })?;
    if call.query("alt").as_deref() == Some("media") {
        return Ok(Reply::whole(OCTETS, content));
    }
    Ok(Reply::value(&object(bucket, key, content.len())))
}

/// The bucket, of an id `<bucket>/o/<key>`.
fn bucket<'c>(call: &'c Call<'_>) -> Result<&'c str, ApiError> {
    let bucket = call.id.split('/').next().unwrap_or_default();
    if bucket.starts_with("missing-") {
        let message = "The specified bucket does not exist.";
        return Err(ApiError::not_found(message).in_dialect(Dialect::Gemini));
    }
    Ok(bucket)
}

fn object(bucket: &str, key: &str, size: usize) -> Value {
    json!({"kind": "storage#object", "bucket": bucket, "name": key, "size": size.to_string()})
}
