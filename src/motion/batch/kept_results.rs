//! Results of a batch's lines: kept until they are written as a part, each line once.
//!
//! They are paid for, so none is dropped where it cannot be written now. Not here: what a part is (`parts`), and how a result is written
//! (`line_result`).

use super::blobs::BlobError;
use super::line_result::{LineOutcome, LineResult};
use super::parts::{self, LineSet};
use super::record::batch_path;
use super::run::{Halt, PAUSE, Run};
use super::state::{Batch, StoredError};
use super::validation::read_line;
use std::time::Instant;
use tokio::time::{sleep, sleep_until};
use words::api::own_ids::batch_id;

/// How many results wait, and how many bytes of them.
const KEPT: usize = 500;
const KEPT_BYTES: usize = 1 << 20;
/// With more, there is no room for the result of another line.
const MAX_KEPT_BYTES: usize = 8 << 20;

pub(super) struct KeptResults<'a> {
    run: &'a Run,
    /// The batch's id, as clients write it.
    trace_id: String,
    /// The lines that have their results.
    done: LineSet,
    /// Not written yet.
    waiting: Vec<LineResult>,
    bytes: usize,
    /// When the first of those that wait was kept.
    oldest: Option<Instant>,
    /// The number of the next part.
    sequence: u64,
    /// Lines of the output file and of the error file whose results are written.
    pub completed: u32,
    pub failed: u32,
}

impl<'a> KeptResults<'a> {
    /// # Errors
    /// The blobs cannot be read.
    pub async fn open(run: &'a Run, batch: &Batch) -> Result<Self, Halt> {
        let progress = parts::done_lines(&run.batches.blobs, &batch_path(run.id)).await?;
        Ok(Self {
            run,
            trace_id: batch_id(run.id, batch.provider()),
            done: progress.done,
            waiting: Vec::new(),
            bytes: 0,
            oldest: None,
            sequence: progress.next_sequence,
            completed: progress.completed,
            failed: progress.failed,
        })
    }

    /// The id of a line's request.
    pub fn request_id(&self, line: u32) -> String {
        format!("{}-{line}", self.trace_id)
    }

    /// The lines that have their results.
    pub fn done(&self) -> &LineSet {
        &self.done
    }

    /// Whether a line has its result.
    pub fn has(&self, line: u32) -> bool {
        self.done.contains(line)
    }

    /// Whether all results are written.
    pub fn is_written(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether there is room for the result of another line.
    pub fn has_room(&self) -> bool {
        self.bytes < MAX_KEPT_BYTES
    }

    /// Keeps a line's result, unless it has one.
    pub fn keep(&mut self, line: u32, custom_id: &str, outcome: &LineOutcome<'_>) {
        if !self.done.insert(line) {
            return;
        }
        let id = format!("batch_req_{}_{line}", self.run.id.simple());
        let result = LineResult::new(line, &id, custom_id, outcome);
        self.run.batches.metrics.end_line(result.is_error);
        self.bytes += result.json.len();
        self.oldest.get_or_insert_with(Instant::now);
        self.waiting.push(result);
    }

    /// Keeps a line's result, unless it has one, and writes those that wait once it is time.
    ///
    /// # Errors
    /// As [`KeptResults::write`].
    pub async fn add(&mut self, line: u32, custom_id: &str, outcome: &LineOutcome<'_>) -> Result<(), Halt> {
        self.keep(line, custom_id, outcome);
        if self.is_due(Instant::now()) { self.write().await } else { Ok(()) }
    }

    /// When results are to be written, few as they may be.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.oldest.map(|oldest| oldest + parts::kept_for(self.sequence))
    }

    /// Whether it is time to write results.
    pub fn is_due(&self, now: Instant) -> bool {
        let is_full = self.waiting.len() >= KEPT || self.bytes >= KEPT_BYTES;
        is_full || self.due_at().is_some_and(|at| now >= at)
    }

    /// Waits until [`KeptResults::due_at`].
    pub async fn due(&self) {
        match self.due_at() {
            Some(at) => sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Writes the results that wait. Where that cannot be done now it is tried again.
    ///
    /// # Errors
    /// The process stops meanwhile.
    pub async fn write(&mut self) -> Result<(), Halt> {
        let mut failing = false;
        loop {
            match self.try_write().await {
                Ok(()) => return Ok(()),
                Err(why) if self.run.is_draining() => return Err(why.into()),
                Err(why) => {
                    if !std::mem::replace(&mut failing, true) {
                        log::warn!(target: "turnpike", "batches: {} waits: {why}", self.trace_id);
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Writes the results that wait, and counts them.
    ///
    /// # Errors
    /// They cannot be written now, and are kept.
    pub async fn try_write(&mut self) -> Result<(), BlobError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let prefix = batch_path(self.run.id);
        self.sequence = parts::append(&self.run.batches.blobs, &prefix, self.sequence, &self.waiting).await?;
        for result in self.waiting.drain(..) {
            let count = if result.is_error { &mut self.failed } else { &mut self.completed };
            *count += 1;
        }
        self.bytes = 0;
        self.oldest = None;
        Ok(())
    }

    /// Gives every line without a result this one. Without an input file nobody knows which these are.
    pub(crate) async fn fail_rest(&mut self, batch: &Batch, error: &StoredError) -> Result<(), Halt> {
        let mut lines = match self.run.lines(batch).await {
            Err(Halt::NoInput) if batch.has_no_input() => return self.write().await,
            lines => lines?,
        };
        while let Some(line) = lines.next().await? {
            let Ok(line) = line else { continue };
            if !self.has(line.number)
                && let Ok(read) = read_line(&line, &batch.request.endpoint)
            {
                self.add(line.number, &read.custom_id, &error.outcome()).await?;
            }
        }
        self.write().await
    }
}
