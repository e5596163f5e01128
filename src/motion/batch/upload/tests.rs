//! Tests of uploads: fields in any order and in any pieces, what is refused and that nothing is left of it, hostile forms.

use super::super::blobs::{BlobError, BlobLocation};
use super::*;
use futures_util::stream::{self, StreamExt as _};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const TYPE: &str = "multipart/form-data; boundary=XyZ";
const FILE: (&str, &str) = ("file\"; filename=\"in.jsonl", "{\"a\":1}\r\n--XyX\r\n");
const PURPOSE: (&str, &str) = ("purpose", "batch");

/// A form of these fields.
fn form(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::new();
    for (name, value) in fields {
        text += &format!("--XyZ\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    (text + "--XyZ--\r\n").into_bytes()
}

struct Received {
    result: Result<Upload, Error>,
    content: Option<Vec<u8>>,
}

fn pieces(bytes: &[u8], size: usize) -> Vec<Result<Bytes, Error>> {
    bytes.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect()
}

fn receive_body(
    content_type: &str,
    body: impl Stream<Item = Result<Bytes, Error>> + Send,
    max_bytes: u64,
) -> Received {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&BlobLocation::Directory(folder.path().to_path_buf())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let result = receive(content_type, body, &blobs, "files/u", max_bytes).await;
        let content = match blobs.read("files/u").await {
            Ok(reader) => {
                let pieces: Vec<_> = reader.stream.map(Result::unwrap).collect().await;
                Some(pieces.concat())
            }
            Err(error) => {
                assert_eq!(error, BlobError::NotFound);
                None
            }
        };
        if content.is_none() {
            let left = std::fs::read_dir(folder.path().join("files")).map_or(0, Iterator::count);
            assert_eq!(left, 0, "a staged file is left");
        }
        Received { result, content }
    })
}

fn received(fields: &[(&str, &str)]) -> Received {
    receive_body(TYPE, stream::iter(pieces(&form(fields), 64)), 1000)
}

fn refused(fields: &[(&str, &str)]) -> Error {
    let received = received(fields);
    assert_eq!(received.content, None);
    received.result.unwrap_err()
}

#[test]
fn fields_come_in_any_order() {
    let seconds = ("expires_after[seconds]", "3600");
    let anchor = ("expires_after[anchor]", "created_at");
    for fields in [[FILE, PURPOSE, anchor, seconds], [seconds, PURPOSE, FILE, anchor]] {
        let received = received(&fields);
        let expected = Upload {
            filename: "in.jsonl".to_owned(),
            purpose: "batch".to_owned(),
            expires_after: Some(3600),
            bytes: FILE.1.len() as u64,
        };
        assert_eq!(received.result.unwrap(), expected);
        assert_eq!(received.content.unwrap(), FILE.1.as_bytes());
    }
    assert_eq!(received(&[PURPOSE, FILE]).result.unwrap().expires_after, None);
    let empty = received(&[("file\"; filename=\"a", ""), PURPOSE]);
    assert_eq!((empty.result.unwrap().bytes, empty.content), (0, Some(Vec::new())));
    for purpose in PURPOSES {
        assert_eq!(received(&[("purpose", purpose), FILE]).result.unwrap().purpose, purpose);
    }
}

#[test]
fn each_mistake_names_its_field_and_leaves_nothing() {
    let anchor = ("expires_after[anchor]", "created_at");
    let seconds = "expires_after[seconds]";
    for (fields, param) in [
        (vec![FILE], "purpose"),
        (vec![PURPOSE], "file"),
        (vec![], "file"),
        (vec![FILE, ("purpose", "batches")], "purpose"),
        (vec![FILE, ("purpose", "")], "purpose"),
        (vec![FILE, PURPOSE, PURPOSE], "purpose"),
        (vec![FILE, FILE, PURPOSE], "file"),
        (vec![("file", "text"), PURPOSE], "file"),
        (vec![FILE, PURPOSE, anchor], seconds),
        (vec![FILE, PURPOSE, (seconds, "3600")], "expires_after[anchor]"),
        (vec![FILE, PURPOSE, ("expires_after[anchor]", "now"), (seconds, "3600")], "expires_after[anchor]"),
        (vec![FILE, PURPOSE, anchor, (seconds, "3599")], seconds),
        (vec![FILE, PURPOSE, anchor, (seconds, "2592001")], seconds),
        (vec![FILE, PURPOSE, anchor, (seconds, "1e4")], seconds),
        (vec![FILE, PURPOSE, anchor, (seconds, "-3600")], seconds),
        (vec![FILE, PURPOSE, anchor, (seconds, "4294970896")], seconds),
    ] {
        let error = refused(&fields);
        assert_eq!((error.status(), error.param.as_deref()), (400, Some(param)), "{fields:?}: {error}");
    }
    assert!(
        refused(&[("purpose", "x")])
            .message
            .contains("batch, fine-tune, assistants, vision, user_data, evals")
    );
    let error = refused(&[PURPOSE, ("model", "m"), FILE]);
    assert!(error.status() == 400 && error.message.contains("\"model\""), "{error}");
    let long = "x".repeat(MAX_FIELD + 1);
    assert_eq!(refused(&[("purpose", &long), FILE]).param.as_deref(), Some("purpose"));
}

#[test]
fn a_file_that_is_too_large_is_413_with_the_limit() {
    let exact = "x".repeat(1000);
    let over = format!("{exact}y");
    assert_eq!(received(&[PURPOSE, (FILE.0, &exact)]).result.unwrap().bytes, 1000);
    let error = refused(&[PURPOSE, (FILE.0, &over)]);
    assert_eq!((error.status(), error.param.as_deref()), (413, Some("file")));
    assert!(error.message.contains("1000 bytes"), "{error}");
}

#[test]
fn a_name_has_no_folders_and_no_control_characters() {
    let long = "ä".repeat(300);
    let long_name = format!("file\"; filename=\"{long}");
    for (name, expected) in [
        ("file\"; filename=\"../../etc/passwd", "passwd"),
        ("file\"; filename=\"C:\\dir\\in.jsonl", "in.jsonl"),
        ("file\"; filename=\"ä b;c.jsonl", "ä b;c.jsonl"),
        ("file\"; filename=\"a\tb", "ab"),
        ("file\"; filename=\"", "file"),
        ("file\"; filename=\"dir/", "file"),
        ("file\"; filename*=UTF-8''%c3%a4.jsonl; x=\"", "ä.jsonl"),
        (long_name.as_str(), long.get(..254).unwrap()),
    ] {
        let upload = received(&[(name, "x"), PURPOSE]).result.unwrap();
        assert_eq!(upload.filename, expected, "{name}");
    }
}

#[test]
fn a_body_that_is_no_form_is_refused() {
    for content_type in ["application/json", "multipart/form-data", "multipart/mixed; boundary=XyZ", ""] {
        let received = receive_body(content_type, stream::iter(pieces(&form(&[FILE, PURPOSE]), 64)), 1000);
        let error = received.result.unwrap_err();
        assert_eq!((error.status(), error.param.as_deref()), (400, Some("content-type")), "{content_type}");
    }
    let whole = form(&[PURPOSE, FILE]);
    for end in [0, 3, 20, 60, 120, 150, whole.len() - 5] {
        let received = receive_body(TYPE, stream::iter(pieces(&whole[..end], 7)), 1000);
        let error = received.result.unwrap_err();
        assert!(error.status() == 400 && received.content.is_none(), "{end}: {error}");
        assert!(error.message.contains("boundary"), "{end}: {error}");
    }
}

#[test]
fn an_error_of_the_body_is_passed_on() {
    let mut parts = pieces(&form(&[PURPOSE, FILE])[..150], 10);
    parts.push(Err(Error::client_closed()));
    let received = receive_body(TYPE, stream::iter(parts), 1000);
    assert_eq!(received.result.unwrap_err().status(), 499);
    assert_eq!(received.content, None);
}

/// A form that begins with `start` and goes on with zeros; what was read of it is counted.
fn endless<'a>(
    start: &'a [u8],
    read: &'a AtomicUsize,
) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'a {
    let zeros = Bytes::from(vec![b'0'; 4096]);
    let all = stream::iter(pieces(start, 64)).chain(stream::repeat_with(move || Ok(zeros.clone())));
    all.inspect(|piece| {
        read.fetch_add(piece.as_ref().map_or(0, Bytes::len), Ordering::Relaxed);
    })
}

#[test]
fn a_form_without_an_end_is_refused_after_a_few_pieces() {
    let purpose = "--XyZ\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n";
    for start in ["", "--XyZ\r\nContent-Disposition: ", "--XyZ--x\r\n--XyZ\r\n", "--XyZ   ", purpose] {
        let read = AtomicUsize::new(0);
        let received = receive_body(TYPE, endless(start.as_bytes(), &read), u64::MAX);
        let error = received.result.unwrap_err();
        assert_eq!(error.status(), 400, "{start:?}: {error}");
        let read = read.load(Ordering::Relaxed);
        assert!(read < 64 * 1024, "{start:?}: {read} bytes were read");
    }
}

#[test]
fn a_file_without_an_end_is_refused_at_its_limit() {
    let start = form(&[PURPOSE, (FILE.0, "")]);
    let start = &start[..start.len() - "\r\n--XyZ--\r\n".len()];
    let read = AtomicUsize::new(0);
    let received = receive_body(TYPE, endless(start, &read), 5_000_000);
    assert_eq!(received.result.unwrap_err().status(), 413);
    let read = read.load(Ordering::Relaxed);
    assert!(read < 5_100_000, "{read} bytes were read");
}

proptest! {
    // Each writes a file and syncs it.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn pieces_change_nothing(
        content in r"(\r|\n|-|X|yZ|--XyX|\r\n--Xy|a){0,40}",
        size in 1usize..70,
    ) {
        // A file with the boundary in it cannot be sent with that boundary.
        prop_assume!(!content.contains("--XyZ"));
        let form = form(&[PURPOSE, (FILE.0, &content)]);
        let received = receive_body(TYPE, stream::iter(pieces(&form, size)), 1000);
        prop_assert_eq!(received.result.unwrap().bytes, content.len() as u64);
        prop_assert_eq!(received.content.unwrap(), content.into_bytes());
    }
}
