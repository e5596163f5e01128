//! Tests of blobs in a bucket, against a small S3 on loopback: objects, ranges, conditional writes, uploads in parts, pages of lists.

use super::s3_server::{self, Shared};
use super::*;
use axum::http::StatusCode;
use words::config::secret::Secret;

/// A bucket on loopback, and blobs below `a/b` in it.
async fn bucket() -> (Shared, Blobs) {
    // Clients are built with the process's provider, though these connections have no TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (shared, endpoint) = s3_server::start().await;
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
