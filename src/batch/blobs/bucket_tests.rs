//! Tests of blobs in a bucket, against a small S3 on loopback: objects, ranges, conditional writes, uploads in parts, pages of lists.
//!
//! It checks that requests are signed, not that the signature is right: `object_store` has tests for that.

use super::*;
use crate::config::secret::Secret;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// How many keys a page of a list has.
const PAGE: usize = 2;
const DATE: &str = "Mon, 23 Nov 2026 12:00:00 GMT";

#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, Bytes>,
    /// Parts by number, of uploads by id.
    uploads: BTreeMap<String, BTreeMap<u32, Bytes>>,
    requests: Vec<String>,
    /// The status that every request gets.
    broken: Option<StatusCode>,
}

type Shared = Arc<Mutex<Bucket>>;

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
    match query.is_empty() {
        true => bucket.object(&head.method, &head.headers, key, body),
        false => bucket.upload(&head.method, &query, key, body),
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
                let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
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
                assert!(sizes.split_last().unwrap().1.iter().all(|size| *size == 5 * MIB), "{sizes:?}");
                self.objects.insert(key, parts.into_values().collect::<Vec<_>>().concat().into());
                "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
                    .into_response()
            }
        }
    }

    fn page(&self, query: &BTreeMap<String, String>) -> Response {
        let (prefix, after) =
            (&query["prefix"], query.get("continuation-token").cloned().unwrap_or_default());
        let found = self.objects.iter().filter(|(key, _)| key.starts_with(prefix) && **key > after);
        let (mut xml, mut last) = (String::from("<ListBucketResult>"), None);
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

/// A bucket on loopback, and blobs below `a/b` in it.
async fn bucket() -> (Shared, Blobs) {
    // Clients are built with the process's provider, though these connections have no TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let shared = Shared::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let router = any(serve).with_state(Arc::clone(&shared));
    tokio::spawn(async move { axum::serve(listener, router.into_make_service()).await });
    let location = S3Location {
        bucket: "bucket".to_owned(),
        prefix: "a/b".to_owned(),
        endpoint: Some(endpoint),
        access_key_id: Some("an-id".to_owned()),
        secret_access_key: Some(Secret::new("a-secret")),
        ..S3Location::default()
    };
    (shared, Blobs::open(&BlobLocation::S3(location)).unwrap())
}

async fn content(blobs: &Blobs, path: &str) -> Vec<u8> {
    let reader = blobs.read(path).await.unwrap();
    reader.stream.try_collect::<Vec<_>>().await.unwrap().concat()
}

fn keys(shared: &Shared) -> Vec<String> {
    shared.lock().unwrap().objects.keys().cloned().collect()
}

#[tokio::test]
async fn objects_are_written_listed_and_deleted_below_the_prefix() {
    let (shared, blobs) = bucket().await;
    shared.lock().unwrap().objects.insert("a/bfiles/other".to_owned(), Bytes::new());
    for name in ["files/3", "files/1", "files/2", "files/5", "files/4", "files2"] {
        blobs.put(name, Bytes::from(name.to_owned())).await.unwrap();
    }
    blobs.put("files/1", Bytes::new()).await.unwrap();
    assert_eq!(keys(&shared)[..2], ["a/b/files/1", "a/b/files/2"]);
    assert_eq!(content(&blobs, "files/3").await, b"files/3");
    assert_eq!(content(&blobs, "files/1").await, b"");
    assert_eq!((blobs.size("files/2").await, blobs.size("files/9").await), (Ok(Some(7)), Ok(None)));
    assert_eq!(blobs.read("files/9").await.err(), Some(BlobError::NotFound));
    let listed = blobs.list("files").await.unwrap();
    let paths: Vec<&str> = listed.iter().map(|blob| blob.path.as_str()).collect();
    assert_eq!(paths, ["files/1", "files/2", "files/3", "files/4", "files/5"]);
    assert_eq!((listed[0].size, listed[1].size), (0, 7));

    assert_eq!(blobs.create("files/2", Bytes::from_static(b"new")).await, Ok(false));
    assert_eq!(blobs.create("files/6", Bytes::from_static(b"new")).await, Ok(true));
    assert_eq!(content(&blobs, "files/2").await, b"files/2");

    blobs.delete("files/6").await.unwrap();
    blobs.delete("files/6").await.unwrap();
    blobs.delete_all("files").await.unwrap();
    blobs.remove_abandoned().await.unwrap();
    assert_eq!(keys(&shared), ["a/b/files2", "a/bfiles/other"]);
}

#[tokio::test]
async fn a_large_object_goes_in_parts_and_comes_in_ranges() {
    let (shared, blobs) = bucket().await;
    let bytes: Vec<u8> = (0..11 * MIB + 7).map(|at| (at % 251) as u8).collect();
    let mut writer = blobs.writer("files/large").unwrap();
    for piece in bytes.chunks(700_000) {
        writer.write(piece).await.unwrap();
    }
    assert_eq!(keys(&shared), Vec::<String>::new());
    assert_eq!(writer.finish().await, Ok(bytes.len() as u64));
    assert!(shared.lock().unwrap().uploads.is_empty());
    assert!(content(&blobs, "files/large").await == bytes, "other bytes");
    let ranges = shared.lock().unwrap().requests.iter().filter(|line| line.starts_with("GET")).count();
    assert_eq!(ranges, 12, "of 1 MiB");

    let mut small = blobs.writer("files/small").unwrap();
    small.write(b"abc").await.unwrap();
    assert_eq!(small.finish().await, Ok(3));
    assert_eq!(shared.lock().unwrap().requests.last().unwrap(), "PUT a/b/files/small ");
}

#[tokio::test]
async fn an_upload_that_is_not_finished_leaves_no_parts() {
    let (shared, blobs) = bucket().await;
    let bytes = vec![1; 6 * MIB];
    let mut writer = blobs.writer("files/a").unwrap();
    writer.write(&bytes).await.unwrap();
    assert_eq!(shared.lock().unwrap().uploads.len(), 1);
    writer.abort().await;
    assert_eq!(shared.lock().unwrap().uploads.len(), 0);
    let mut writer = blobs.writer("files/a").unwrap();
    writer.write(&bytes).await.unwrap();
    drop(writer);
    // In the background.
    let aborted = async {
        while !shared.lock().unwrap().uploads.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), aborted).await.unwrap();
    assert_eq!(keys(&shared), Vec::<String>::new());
}

#[tokio::test]
async fn a_storage_that_fails_is_an_error_that_may_pass() {
    let (shared, blobs) = bucket().await;
    blobs.put("files/a", Bytes::from_static(b"x")).await.unwrap();
    for status in [
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::FORBIDDEN,
        StatusCode::UNAUTHORIZED,
        StatusCode::TEMPORARY_REDIRECT,
    ] {
        shared.lock().unwrap().broken = Some(status);
        let error = blobs.put("files/b", Bytes::from_static(b"x")).await.unwrap_err();
        assert!(matches!(error, BlobError::Unreachable(_)), "{status}: {error}");
        assert!(!error.to_string().contains("a-secret"), "{error}");
        assert!(matches!(blobs.list("files").await, Err(BlobError::Unreachable(_))));
        assert!(matches!(blobs.size("files/a").await, Err(BlobError::Unreachable(_))));
    }
    let followed = shared.lock().unwrap().requests.iter().any(|line| line.contains("elsewhere"));
    assert!(!followed, "a redirect leads to another host");
    let mut writer = blobs.writer("files/c").unwrap();
    assert!(matches!(writer.write(&vec![1; 6 * MIB]).await, Err(BlobError::Unreachable(_))));
    shared.lock().unwrap().broken = None;
    assert!(matches!(writer.finish().await, Err(BlobError::Other(_))), "a part is missing");
    assert_eq!(keys(&shared), ["a/b/files/a"]);
}
