//! Tests of blobs in a directory: whole or not at all, what is left behind, deletion. A bucket: `bucket_tests`.

use super::*;
use std::path::Path as FilePath;

fn open(folder: &FilePath) -> Blobs {
    Blobs::open(&BlobLocation::Directory(folder.to_path_buf())).unwrap()
}

async fn content(blobs: &Blobs, path: &str) -> Vec<u8> {
    let mut reader = blobs.read(path).await.unwrap();
    let mut whole = Vec::new();
    while let Some(piece) = reader.stream.next().await {
        whole.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(whole.len() as u64, reader.size);
    whole
}

/// Names of all files below a folder, but for the lock.
fn names(folder: &FilePath) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            found.extend(names(&entry.path()));
        } else {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found.retain(|name| name != "in-use.lock");
    found.sort();
    found
}

#[tokio::test]
async fn a_blob_is_written_read_listed_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path());
    assert_eq!(blobs.size("files/a").await, Ok(None));
    assert_eq!(blobs.list("files").await.unwrap(), vec![]);
    assert_eq!(blobs.read("files/a").await.err(), Some(BlobError::NotFound));
    blobs.put("files/a", Bytes::from_static(b"one")).await.unwrap();
    blobs.put("files/a", Bytes::from_static(b"three")).await.unwrap();
    blobs.put("files/b/c", Bytes::new()).await.unwrap();
    blobs.put("files2", Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(content(&blobs, "files/a").await, b"three");
    assert_eq!(content(&blobs, "files/b/c").await, b"");
    assert_eq!(blobs.size("files/a").await, Ok(Some(5)));
    let listed = blobs.list("files").await.unwrap();
    let expected =
        [("files/a", 5), ("files/b/c", 0)].map(|(path, size)| Blob { path: path.to_owned(), size });
    assert_eq!(listed, expected);
    assert_eq!(content(&open(folder.path()), "files/a").await, b"three");

    assert_eq!(blobs.create("files/a", Bytes::from_static(b"no")).await, Ok(false));
    assert_eq!(blobs.create("files/n", Bytes::from_static(b"yes")).await, Ok(true));
    assert_eq!(
        (content(&blobs, "files/a").await, content(&blobs, "files/n").await),
        (b"three".to_vec(), b"yes".to_vec())
    );

    blobs.delete("files/a").await.unwrap();
    blobs.delete("files/a").await.unwrap();
    blobs.delete_all("files").await.unwrap();
    blobs.delete_all("files").await.unwrap();
    assert_eq!(names(folder.path()), ["files2"]);
    assert!(!folder.path().join("files").exists());
}

#[tokio::test]
async fn a_large_blob_appears_when_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path());
    let bytes: Vec<u8> = (0..3_500_000_u32).map(|at| (at % 251) as u8).collect();
    for step in [1_000, 262_144, 3_500_000] {
        let mut writer = blobs.writer("files/large").unwrap();
        for piece in bytes.chunks(step) {
            writer.write(piece).await.unwrap();
        }
        assert_eq!(blobs.size("files/large").await, Ok(None));
        assert_eq!(blobs.list("files").await.unwrap(), vec![]);
        assert_eq!(writer.finish().await, Ok(3_500_000));
        assert!(content(&blobs, "files/large").await == bytes, "other bytes, in steps of {step}");
        blobs.delete("files/large").await.unwrap();
    }
    let mut small = blobs.writer("files/small").unwrap();
    small.write(b"ab").await.unwrap();
    small.write(b"c").await.unwrap();
    assert_eq!(small.finish().await, Ok(3));
    assert_eq!(content(&blobs, "files/small").await, b"abc");
    assert_eq!(blobs.writer("files/empty").unwrap().finish().await, Ok(0));
    assert_eq!(names(folder.path()), ["empty", "small"]);
}

#[tokio::test]
async fn an_aborted_blob_leaves_nothing_and_the_older_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path());
    blobs.put("files/a", Bytes::from_static(b"old")).await.unwrap();
    for size in [10, 3_000_000] {
        let mut writer = blobs.writer("files/a").unwrap();
        writer.write(&vec![7; size]).await.unwrap();
        writer.abort().await;
        assert_eq!(names(folder.path()), ["a"]);
    }
    assert_eq!(content(&blobs, "files/a").await, b"old");
}

#[tokio::test]
async fn a_dropped_blob_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path());
    let mut writer = blobs.writer("files/a").unwrap();
    writer.write(&vec![7; 3_000_000]).await.unwrap();
    assert_eq!(names(folder.path()), ["a#1"]);
    drop(writer);
    // In the background.
    let removed = async {
        while !names(folder.path()).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), removed).await.unwrap();
}

#[tokio::test]
async fn what_a_killed_process_left_goes_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path());
    let mut writer = blobs.writer("files/a").unwrap();
    writer.write(&vec![7; 3_000_000]).await.unwrap();
    // As a process that is killed: nothing of it runs any more, and the system lets go of its lock.
    std::mem::forget(writer);
    drop(blobs);
    assert_eq!(names(folder.path()), ["a#1"]);
    let blobs = open(folder.path());
    assert_eq!(names(folder.path()), Vec::<String>::new());
    assert_eq!(blobs.size("files/a").await, Ok(None));
    blobs.remove_abandoned().await.unwrap();
}

#[tokio::test]
async fn a_blob_that_changes_while_it_is_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path());
    blobs.put("files/a", Bytes::from(vec![1; 600_000])).await.unwrap();
    let mut reader = blobs.read("files/a").await.unwrap();
    assert!(reader.stream.next().await.unwrap().is_ok());
    blobs.put("files/a", Bytes::from(vec![2; 700_000])).await.unwrap();
    let error = reader.stream.next().await.unwrap().unwrap_err();
    assert!(matches!(&error, BlobError::Other(text) if text.contains("replaced")), "{error}");
    let mut reader = blobs.read("files/a").await.unwrap();
    blobs.delete("files/a").await.unwrap();
    assert_eq!(reader.stream.next().await.unwrap(), Err(BlobError::NotFound));
}

#[tokio::test]
async fn a_path_leads_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(&folder.path().join("blobs"));
    for path in ["../a", "files/../../a", "a//b", "files/a#1"] {
        assert!(blobs.put(path, Bytes::from_static(b"x")).await.is_err(), "{path}");
    }
    assert_eq!(names(folder.path()), Vec::<String>::new());
}
