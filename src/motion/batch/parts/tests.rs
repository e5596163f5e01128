//! Tests of results: what is written is read, each line counts once, interrupted work is done again to the same end.

use super::super::blobs::BlobLocation;
use super::super::line_result::LineOutcome;
use super::*;
use proptest::prelude::*;

const BATCH: &str = "batches/b1";

fn result(line: u32, is_error: bool, json: &str) -> LineResult {
    LineResult { line, is_error, json: json.to_owned() }
}

fn blobs(folder: &tempfile::TempDir) -> Blobs {
    Blobs::open(&BlobLocation::Directory(folder.path().to_path_buf())).unwrap()
}

async fn text(blobs: &Blobs, path: &str) -> String {
    let mut reader = blobs.read(path).await.unwrap();
    let mut whole = Vec::new();
    while let Some(piece) = reader.stream.next().await {
        whole.extend_from_slice(&piece.unwrap());
    }
    String::from_utf8(whole).unwrap()
}

async fn assembled(blobs: &Blobs) -> Result<Assembled, BlobError> {
    assemble(blobs, BATCH, "files/out", "files/err").await
}

#[tokio::test]
async fn the_first_result_of_a_line_counts() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = blobs(&folder);
    let empty = done_lines(&blobs, BATCH).await.unwrap();
    assert_eq!((empty.next_sequence, empty.done.contains(0)), (0, false));
    let next =
        append(&blobs, BATCH, 0, &[result(2, false, "{\"a\":2}"), result(1, true, "{}")]).await.unwrap();
    let next =
        append(&blobs, BATCH, next, &[result(2, true, "late"), result(3, false, "{\t}")]).await.unwrap();
    assert_eq!(next, 2);
    let progress = done_lines(&blobs, BATCH).await.unwrap();
    assert_eq!((progress.completed, progress.failed, progress.next_sequence), (2, 1, 2));
    assert!(progress.done.contains(3) && !progress.done.contains(4) && !progress.done.contains(u32::MAX));

    for _ in 0..2 {
        let files = assembled(&blobs).await.unwrap();
        let expected = Assembled { completed: 2, failed: 1, output_bytes: Some(12), error_bytes: Some(3) };
        assert_eq!(files, expected);
        assert_eq!(text(&blobs, "files/out").await, "{\"a\":2}\n{\t}\n");
        assert_eq!(text(&blobs, "files/err").await, "{}\n");
    }
}

#[tokio::test]
async fn a_late_writer_replaces_no_part() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = blobs(&folder);
    assert_eq!(append(&blobs, BATCH, 5, &[result(1, false, "new")]).await, Ok(6));
    assert_eq!(append(&blobs, BATCH, 7, &[result(2, false, "new")]).await, Ok(8));
    assert_eq!(append(&blobs, BATCH, 5, &[result(1, false, "old"), result(9, false, "nine")]).await, Ok(9));
    assembled(&blobs).await.unwrap();
    assert_eq!(text(&blobs, "files/out").await, "new\nnew\nnine\n");
}

#[tokio::test]
async fn many_parts_are_read_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = blobs(&folder);
    let mut next = 0;
    for part in 0..30_u32 {
        let results = [result(part + 1, false, &part.to_string()), result(part + 2, false, "later")];
        next = append(&blobs, BATCH, next, &results).await.unwrap();
    }
    // As the worker runs it.
    let own = blobs.clone();
    let files = tokio::spawn(async move { assembled(&own).await }).await.unwrap().unwrap();
    assert_eq!(files.completed, 31);
    let mut expected: Vec<String> = std::iter::repeat_n("later".to_owned(), 31).collect();
    expected[0] = "0".to_owned();
    assert_eq!(text(&blobs, "files/out").await, expected.join("\n") + "\n");
}

#[tokio::test]
async fn a_kind_without_lines_has_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = blobs(&folder);
    // As an interrupted run of another set of parts would leave it.
    blobs.put("files/err", Bytes::from_static(b"old\n")).await.unwrap();
    append(&blobs, BATCH, 0, &[result(1, false, "{}")]).await.unwrap();
    let files = assembled(&blobs).await.unwrap();
    assert_eq!((files.output_bytes, files.error_bytes), (Some(3), None));
    assert_eq!(blobs.size("files/err").await, Ok(None));
    blobs.delete_all(BATCH).await.unwrap();
    let files = assembled(&blobs).await.unwrap();
    assert_eq!(files, Assembled { completed: 0, failed: 0, output_bytes: None, error_bytes: None });
    assert_eq!(blobs.list("files").await.unwrap(), vec![]);
}

#[tokio::test]
async fn a_result_larger_than_the_pieces_passes() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = blobs(&folder);
    let long = format!("\"{}\"", "x".repeat(3_000_000));
    append(&blobs, BATCH, 0, &[result(1, false, &long), result(2, true, &long), result(3, false, "3")])
        .await
        .unwrap();
    assembled(&blobs).await.unwrap();
    assert_eq!(text(&blobs, "files/out").await, format!("{long}\n3\n"));
    assert_eq!(text(&blobs, "files/err").await, format!("{long}\n"));
}

#[tokio::test]
async fn a_damaged_part_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = blobs(&folder);
    for content in
        ["1\tO\t{}", "1\tO", "x\tO\t{}\n", "1\tX\t{}\n", "0\tO\t{}\n", "10000001\tO\t{}\n", "1\t\t{}\n"]
    {
        blobs.put(&part_path(BATCH, 7), Bytes::from(content)).await.unwrap();
        for error in [done_lines(&blobs, BATCH).await.unwrap_err(), assembled(&blobs).await.unwrap_err()] {
            let BlobError::Other(text) = error else { panic!("{content:?}") };
            assert!(text.contains("batches/b1/parts/00000000000000000007"), "{content:?}: {text}");
        }
    }
    blobs.delete(&part_path(BATCH, 7)).await.unwrap();
    blobs.put("batches/b1/parts/x", Bytes::new()).await.unwrap();
    assert!(done_lines(&blobs, BATCH).await.is_err());
}

#[test]
fn parts_are_read_in_the_order_in_which_they_were_written() {
    let paths: Vec<String> = [9, 10, 99, 100, u64::MAX].map(|sequence| part_path(BATCH, sequence)).to_vec();
    let mut sorted = paths.clone();
    sorted.sort();
    assert_eq!(sorted, paths);
    let outcome = LineOutcome::Failed { code: "batch_expired", message: "m" };
    let results = [LineResult::new(10_000_000, "batch_req_1", "c", &outcome)];
    assert!(encode(&results).starts_with(b"10000000\tE\t{\"id\":"));
}

proptest! {
    #[test]
    fn a_part_is_read_as_it_was_written_whatever_the_cuts(
        results in proptest::collection::vec((1u32..=MAX_LINE_NUMBER, any::<bool>(), r"[ab\t]{0,9}"), 0..9),
        size in 1usize..20,
    ) {
        let results: Vec<LineResult> = results.iter().map(|(line, error, json)| result(*line, *error, json)).collect();
        let part = encode(&results);
        let pieces: Vec<_> = part.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let stream = futures_util::stream::iter(pieces).boxed();
        let mut reader = PartReader::new("p".to_owned(), BlobReader { size: part.len() as u64, stream });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut found: Vec<LineResult> = Vec::new();
        while let Some(item) = runtime.block_on(reader.next()).unwrap() {
            match item {
                Item::Head { line, is_error } => found.push(result(line, is_error, "")),
                Item::Json(json) => found.last_mut().unwrap().json.push_str(std::str::from_utf8(&json).unwrap()),
                Item::End => {}
            }
        }
        prop_assert_eq!(found, results);
    }
}

/// A full disk is not to hold one file while there is no room for both.
#[tokio::test]
async fn no_file_is_left_where_the_other_one_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = blobs(&folder);
    append(&blobs, BATCH, 0, &[result(1, false, "{}"), result(2, true, "{}")]).await.unwrap();
    // A folder in the place of the error file.
    std::fs::create_dir_all(folder.path().join("files/err/taken")).unwrap();
    assert!(assembled(&blobs).await.is_err());
    assert_eq!(blobs.size("files/out").await, Ok(None));
    std::fs::remove_dir_all(folder.path().join("files/err")).unwrap();
    assert_eq!(assembled(&blobs).await.unwrap().output_bytes, Some(3));
}
