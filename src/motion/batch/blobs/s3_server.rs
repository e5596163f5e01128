//! A small S3 on loopback with one bucket, `bucket`: objects, ranges, conditional writes, uploads in parts, pages of lists.
//!
//! It checks that requests are signed with the key `an-id`, not that the signature is right: `object_store` has tests for that.
//! The black-box tests include this file as well.

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// How many keys a page of a list has.
const PAGE: usize = 2;
/// Of every object.
const DATE: &str = "Mon, 23 Nov 2026 12:00:00 GMT";

/// What a bucket holds, and what was requested of it.
#[derive(Default)]
pub struct Bucket {
    pub objects: BTreeMap<String, Bytes>,
    /// Parts by number, of uploads by id.
    pub uploads: BTreeMap<String, BTreeMap<u32, Bytes>>,
    pub requests: Vec<String>,
    /// The status that every request gets.
    pub broken: Option<StatusCode>,
}

pub type Shared = Arc<Mutex<Bucket>>;

/// Starts it, on this runtime; returns what it holds, and its URL.
pub async fn start() -> (Shared, String) {
    let shared = Shared::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let router = any(serve).with_state(Arc::clone(&shared));
    tokio::spawn(async move { axum::serve(listener, router.into_make_service()).await });
    (shared, endpoint)
}

async fn serve(State(bucket): State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let query: BTreeMap<String, String> =
        url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let key = head.uri.path().strip_prefix("/bucket").unwrap().trim_start_matches('/').to_owned();
    let signature = head.headers.get("authorization").map_or("", |value| value.to_str().unwrap());
    let mut bucket = bucket.lock().unwrap();
    let what = query.keys().map(String::as_str).collect::<Vec<_>>().join(",");
    bucket.requests.push(format!("{} {key} {what}", head.method));
    if !signature.starts_with("AWS4-HMAC-SHA256 Credential=an-id/") {
        return StatusCode::FORBIDDEN.into_response();
    }
    if let Some(status) = bucket.broken {
        return (status, [("location", "/bucket/elsewhere")]).into_response();
    }
    if key.is_empty() {
        return bucket.page(&query);
    }
    if query.is_empty() {
        bucket.object(&head.method, &head.headers, key, body)
    } else {
        bucket.upload(&head.method, &query, key, body)
    }
}

impl Bucket {
    fn object(&mut self, method: &Method, headers: &HeaderMap, key: String, body: Bytes) -> Response {
        let tag = |bytes: &Bytes| format!("\"{}-{}\"", bytes.len(), bytes.first().unwrap_or(&0));
        match *method {
            Method::PUT if headers.contains_key("if-none-match") && self.objects.contains_key(&key) => {
                StatusCode::PRECONDITION_FAILED.into_response()
            }
            Method::PUT => {
                let tag = tag(&body);
                self.objects.insert(key, body);
                [("etag", tag)].into_response()
            }
            Method::DELETE => {
                self.objects.remove(&key);
                StatusCode::NO_CONTENT.into_response()
            }
            _ => {
                let Some(object) = self.objects.get(&key) else {
                    return StatusCode::NOT_FOUND.into_response();
                };
                let tag = tag(object);
                if headers.get("if-match").is_some_and(|expected| expected.to_str().unwrap() != tag) {
                    return StatusCode::PRECONDITION_FAILED.into_response();
                }
                let head = [("etag", tag), ("last-modified", DATE.to_owned())];
                if method == Method::HEAD {
                    return (head, [("content-length", object.len().to_string())]).into_response();
                }
                let range = headers.get("range").map(|range| range.to_str().unwrap().to_owned());
                let Some(range) = range else { return (head, object.clone()).into_response() };
                let (start, end) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
                let start: usize = start.parse().unwrap();
                let end: usize = end.parse().unwrap();
                let content_range = format!("bytes {start}-{end}/{}", object.len());
                let piece = object.slice(start..=end);
                (StatusCode::PARTIAL_CONTENT, head, [("content-range", content_range)], piece).into_response()
            }
        }
    }

    fn upload(
        &mut self,
        method: &Method,
        query: &BTreeMap<String, String>,
        key: String,
        body: Bytes,
    ) -> Response {
        let Some(id) = query.get("uploadId") else {
            let id = format!("upload-{}", self.requests.len());
            self.uploads.insert(id.clone(), BTreeMap::new());
            let xml =
                "<InitiateMultipartUploadResult><UploadId>ID</UploadId></InitiateMultipartUploadResult>";
            return xml.replace("ID", &id).into_response();
        };
        match *method {
            Method::PUT => {
                let number = query["partNumber"].parse().unwrap();
                self.uploads.get_mut(id).unwrap().insert(number, body);
                [("etag", format!("\"part-{number}\""))].into_response()
            }
            Method::DELETE => {
                self.uploads.remove(id);
                StatusCode::NO_CONTENT.into_response()
            }
            _ => {
                let parts = self.uploads.remove(id).unwrap();
                assert!(parts.keys().copied().eq(1..=u32::try_from(parts.len()).unwrap()));
                let sizes: Vec<usize> = parts.values().map(Bytes::len).collect();
                assert!(sizes.split_last().unwrap().1.iter().all(|size| *size == 5 << 20), "{sizes:?}");
                self.objects.insert(key, parts.into_values().collect::<Vec<_>>().concat().into());
                "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
                    .into_response()
            }
        }
    }

    fn page(&self, query: &BTreeMap<String, String>) -> Response {
        let prefix = &query["prefix"];
        let after = query.get("continuation-token").cloned().unwrap_or_default();
        let found = self.objects.iter().filter(|(key, _)| key.starts_with(prefix) && **key > after);
        let mut xml = String::from("<ListBucketResult>");
        let mut last = None;
        for (key, object) in found.clone().take(PAGE) {
            xml += &format!(
                "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2026-11-23T12:00:00.000Z</LastModified><ETag>x</ETag></Contents>",
                object.len()
            );
            last = Some(key);
        }
        if let Some(last) = last.filter(|_| found.count() > PAGE) {
            xml += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
        }
        (xml + "</ListBucketResult>").into_response()
    }
}
