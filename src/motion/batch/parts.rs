//! Results while a batch runs: parts, each a blob that is written once, and the two files that are made of them at the end.
//!
//! A part is lines of `<number of the input line>\t<O or E>\t<JSON>\n`, O for the output file and E for the error file. A line may
//! stand in several parts (it was in flight when a process died, or when a lease went to another one): the first counts.
//! Not here: who runs lines, and the records of batches.

mod line_set;

pub(crate) use line_set::LineSet;

use super::blobs::{Blob, BlobError, BlobReader, BlobWriter, Blobs};
use super::line_result::LineResult;
use super::lines::MAX_LINE_NUMBER;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use memchr::memchr;
use std::time::Duration;

/// How long a result waits in memory: longer with each so many parts, up to the second, so that a batch that runs for a day does not
/// make a part of each line.
pub(crate) const KEPT_FOR: Duration = Duration::from_millis(250);
const LONGEST_KEPT: Duration = Duration::from_secs(4);
const PARTS: u64 = 500;
/// The most that a line's number and kind take, bytes.
const MAX_HEAD: usize = 12;
/// How often a part is written again because its number was taken.
const MAX_CONFLICTS: u32 = 16;
/// How many parts are open at once, each with one piece in memory (1 MiB of a bucket).
const READ_AHEAD: usize = 4;

/// What the parts of a batch have.
#[derive(Debug, Default)]
pub struct Progress {
    pub done: LineSet,
    /// Lines of the output file.
    pub completed: u32,
    /// Lines of the error file.
    pub failed: u32,
    /// The number of the next part.
    pub next_sequence: u64,
}

impl Progress {
    /// Counts a line. `false`: an earlier part has it.
    fn add(&mut self, line: u32, is_error: bool) -> bool {
        let is_new = self.done.insert(line);
        let count = if is_error { &mut self.failed } else { &mut self.completed };
        *count += u32::from(is_new);
        is_new
    }
}

/// The two files of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Assembled {
    pub completed: u32,
    pub failed: u32,
    /// Size of the output file; `None` if there is none.
    pub output_bytes: Option<u64>,
    /// Size of the error file; `None` if there is none.
    pub error_bytes: Option<u64>,
}

/// How long a result of the next part waits in memory.
pub(crate) fn kept_for(next_sequence: u64) -> Duration {
    let times = u32::try_from(1 + next_sequence / PARTS).unwrap_or(u32::MAX);
    KEPT_FOR.saturating_mul(times).min(LONGEST_KEPT)
}

/// Where a part is. `batch_prefix`: `batches/<uuid>`.
pub(crate) fn part_path(batch_prefix: &str, sequence: u64) -> String {
    format!("{}/{sequence:020}", folder(batch_prefix))
}

fn folder(batch_prefix: &str) -> String {
    format!("{batch_prefix}/parts")
}

/// The content of a part.
pub fn encode(results: &[LineResult]) -> Bytes {
    let size = results.iter().map(|result| result.json.len() + MAX_HEAD + 2).sum();
    let mut part = BytesMut::with_capacity(size);
    for result in results {
        let kind = if result.is_error { 'E' } else { 'O' };
        part.put_slice(format!("{}\t{kind}\t", result.line).as_bytes());
        part.put_slice(result.json.as_bytes());
        part.put_u8(b'\n');
    }
    part.freeze()
}

/// Writes results as the next part, or, where its number is taken, as a later one: a process that has lost its lease may
/// still write, and must not replace a part, nor be replaced. Returns the number of the part after it.
pub async fn append(
    blobs: &Blobs,
    batch_prefix: &str,
    next_sequence: u64,
    results: &[LineResult],
) -> Result<u64, BlobError> {
    let part = encode(results);
    let mut sequence = next_sequence;
    for _ in 0..MAX_CONFLICTS {
        if blobs.create(&part_path(batch_prefix, sequence), part.clone()).await? {
            return Ok(sequence.saturating_add(1));
        }
        let parts = blobs.list(&folder(batch_prefix)).await?;
        sequence = next(&parts)?.max(sequence.saturating_add(1));
    }
    Err(BlobError::Other(format!("{batch_prefix}: another process writes its parts again and again")))
}

/// The number after that of the last part.
fn next(parts: &[Blob]) -> Result<u64, BlobError> {
    let Some(last) = parts.last() else { return Ok(0) };
    let name = last.path.rsplit('/').next().unwrap_or_default();
    let sequence: u64 = name.parse().map_err(|_| BlobError::Other(format!("{} is no part", last.path)))?;
    Ok(sequence.saturating_add(1))
}

/// Which lines have a result.
pub(crate) async fn done_lines(blobs: &Blobs, batch_prefix: &str) -> Result<Progress, BlobError> {
    let parts = blobs.list(&folder(batch_prefix)).await?;
    let mut progress = Progress { next_sequence: next(&parts)?, ..Progress::default() };
    let mut readers = readers(blobs, parts);
    while let Some(reader) = readers.next().await {
        let mut reader = reader?;
        while let Some(item) = reader.next().await? {
            if let Item::Head { line, is_error } = item {
                progress.add(line, is_error);
            }
        }
    }
    Ok(progress)
}

/// Readers of the parts in their order; the next ones are opened meanwhile, as each costs a bucket's latency.
fn readers(blobs: &Blobs, parts: Vec<Blob>) -> BoxStream<'static, Result<PartReader, BlobError>> {
    let blobs = blobs.clone();
    let open = move |part| PartReader::open(blobs.clone(), part);
    stream::iter(parts).map(open).buffered(READ_AHEAD).boxed()
}

/// Makes the two files of all parts, each line once. A file without lines is not made, and one that an earlier run has made goes.
/// May be run again after it was interrupted at any place. Where it fails it leaves none.
pub(crate) async fn assemble(
    blobs: &Blobs,
    batch_prefix: &str,
    output_path: &str,
    error_path: &str,
) -> Result<Assembled, BlobError> {
    let assembled = write_both(blobs, batch_prefix, output_path, error_path).await;
    if assembled.is_err() {
        for path in [output_path, error_path] {
            // Left over where that fails as well: the sweep removes it.
            drop(blobs.delete(path).await);
        }
    }
    assembled
}

async fn write_both(
    blobs: &Blobs,
    batch_prefix: &str,
    output_path: &str,
    error_path: &str,
) -> Result<Assembled, BlobError> {
    let parts = blobs.list(&folder(batch_prefix)).await?;
    let mut progress = Progress::default();
    let mut output = blobs.writer(output_path)?;
    let mut errors = blobs.writer(error_path)?;
    let mut readers = readers(blobs, parts);
    while let Some(reader) = readers.next().await {
        let mut reader = reader?;
        // The file that the current result goes to; none if an earlier part has it.
        let mut kind: Option<bool> = None;
        while let Some(item) = reader.next().await? {
            let bytes = match item {
                Item::Head { line, is_error } => {
                    kind = progress.add(line, is_error).then_some(is_error);
                    continue;
                }
                Item::Json(bytes) => bytes,
                Item::End => Bytes::from_static(b"\n"),
            };
            match kind {
                Some(true) => errors.write(&bytes).await?,
                Some(false) => output.write(&bytes).await?,
                None => {}
            }
        }
    }
    let output_bytes = end_file(blobs, output, output_path, progress.completed).await?;
    let error_bytes = end_file(blobs, errors, error_path, progress.failed).await?;
    Ok(Assembled { completed: progress.completed, failed: progress.failed, output_bytes, error_bytes })
}

async fn end_file(
    blobs: &Blobs,
    writer: BlobWriter,
    path: &str,
    lines: u32,
) -> Result<Option<u64>, BlobError> {
    if lines > 0 {
        return writer.finish().await.map(Some);
    }
    writer.abort().await;
    blobs.delete(path).await?;
    Ok(None)
}

/// What a part is made of.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    /// A result begins.
    Head {
        line: u32,
        is_error: bool,
    },
    /// A piece of its JSON. Results may be large, so they are not put together.
    Json(Bytes),
    End,
}

/// Reads one part piece by piece.
struct PartReader {
    path: String,
    stream: BoxStream<'static, Result<Bytes, BlobError>>,
    piece: Bytes,
    in_json: bool,
}

impl PartReader {
    fn new(path: String, reader: BlobReader) -> Self {
        Self { path, stream: reader.stream, piece: Bytes::new(), in_json: false }
    }

    /// With its first piece, which is all of most parts.
    async fn open(blobs: Blobs, part: Blob) -> Result<Self, BlobError> {
        let mut reader = Self::new(part.path.clone(), blobs.read_listed(&part).await?);
        reader.fill().await?;
        Ok(reader)
    }

    async fn next(&mut self) -> Result<Option<Item>, BlobError> {
        if !self.fill().await? {
            // A part is written as a whole, so it ends with a line's end.
            return if self.in_json { Err(self.damaged()) } else { Ok(None) };
        }
        if !self.in_json {
            self.in_json = true;
            return self.head().await.map(Some);
        }
        match memchr(b'\n', &self.piece) {
            Some(0) => {
                self.piece.advance(1);
                self.in_json = false;
                Ok(Some(Item::End))
            }
            Some(at) => Ok(Some(Item::Json(self.piece.split_to(at)))),
            None => Ok(Some(Item::Json(std::mem::take(&mut self.piece)))),
        }
    }

    /// `false` at the end of the part.
    async fn fill(&mut self) -> Result<bool, BlobError> {
        while self.piece.is_empty() {
            match self.stream.next().await {
                Some(piece) => self.piece = piece?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Number and kind, up to the second tab.
    async fn head(&mut self) -> Result<Item, BlobError> {
        let mut line = 0_u32;
        let mut is_error = None;
        let mut tabs = 0;
        for _ in 0..=MAX_HEAD {
            if !self.fill().await? {
                break;
            }
            let byte = self.piece.get_u8();
            match (tabs, byte) {
                (0, b'0'..=b'9') => line = line.saturating_mul(10).saturating_add(u32::from(byte - b'0')),
                (1, b'O') => is_error = Some(false),
                (1, b'E') => is_error = Some(true),
                (_, b'\t') => tabs += 1,
                _ => break,
            }
            if let (2, Some(is_error), 1..=MAX_LINE_NUMBER) = (tabs, is_error, line) {
                return Ok(Item::Head { line, is_error });
            }
        }
        Err(self.damaged())
    }

    fn damaged(&self) -> BlobError {
        BlobError::Other(format!("{} is damaged: it is not what the gateway has written", self.path))
    }
}

#[cfg(test)]
mod tests;
