//! Results of lines that a provider's jobs have run: kept until they are written as parts, each line once.
//!
//! Results that a batch of the gateway's own has are kept by `dispatch`, which waits for the rest of its lines meanwhile.

use super::line_result::{LineOutcome, LineResult};
use super::lines::LineReader;
use super::parts;
use super::parts::LineSet;
use super::record::batch_path;
use super::run::{Halt, PAUSE, Run};
use super::state::Batch;
use super::validation::read_line;
use std::time::Instant;
use tokio::time::{sleep, sleep_until};
use words::api::own_ids::batch_id;

/// How many results wait, and how many bytes of them.
const KEPT: usize = 500;
const KEPT_BYTES: usize = 1 << 20;

pub(super) struct JobResults<'a> {
    run: &'a Run,
    /// The batch's id, as clients write it.
    trace_id: String,
    done: LineSet,
    waiting: Vec<LineResult>,
    bytes: usize,
    /// When the first of those that wait was kept.
    oldest: Option<Instant>,
    /// The number of the next part.
    sequence: u64,
    pub completed: u32,
    pub failed: u32,
}

impl<'a> JobResults<'a> {
    /// # Errors
    /// The blobs cannot be read.
    pub async fn open(run: &'a Run, batch: &Batch) -> Result<Self, Halt> {
        let progress = parts::done_lines(&run.batches.blobs, &batch_path(run.id)).await?;
        let (waiting, bytes, sequence) = (Vec::new(), 0, progress.next_sequence);
        let parts::Progress { done, completed, failed, .. } = progress;
        let trace_id = batch_id(run.id, batch.provider());
        Ok(Self { run, trace_id, done, waiting, bytes, oldest: None, sequence, completed, failed })
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

    /// Keeps a line's result, unless it has one.
    pub async fn keep(&mut self, line: u32, custom_id: &str, outcome: &LineOutcome<'_>) -> Result<(), Halt> {
        if !self.done.insert(line) {
            return Ok(());
        }
        let id = format!("batch_req_{}_{line}", self.run.id.simple());
        let result = LineResult::new(line, &id, custom_id, outcome);
        self.run.batches.metrics.end_line(result.is_error);
        if result.is_error {
            self.failed += 1;
        } else {
            self.completed += 1;
        }
        self.bytes += result.json.len();
        self.waiting.push(result);
        let oldest = *self.oldest.get_or_insert_with(Instant::now);
        let is_late = oldest.elapsed() >= parts::kept_for(self.sequence);
        if is_late || self.waiting.len() >= KEPT || self.bytes >= KEPT_BYTES {
            self.write().await?;
        }
        Ok(())
    }

    /// Waits until it is time to write results, few as they may be.
    pub async fn due(&self) {
        match self.oldest {
            Some(oldest) => sleep_until((oldest + parts::kept_for(self.sequence)).into()).await,
            None => std::future::pending().await,
        }
    }

    /// Writes the results that wait. Where that cannot be done now it is tried again, since they are paid for.
    ///
    /// # Errors
    /// The process stops meanwhile.
    pub async fn write(&mut self) -> Result<(), Halt> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (blobs, prefix) = (&self.run.batches.blobs, batch_path(self.run.id));
        let mut failing = false;
        loop {
            match parts::append(blobs, &prefix, self.sequence, &self.waiting).await {
                Ok(next) => {
                    self.sequence = next;
                    self.waiting.clear();
                    (self.bytes, self.oldest) = (0, None);
                    return Ok(());
                }
                Err(why) if self.run.batches.shared.lifecycle.is_draining() => return Err(why.into()),
                Err(why) => {
                    if !std::mem::replace(&mut failing, true) {
                        log::warn!(target: "turnpike", "batches: {} waits: {why}", self.trace_id);
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Gives every line without a result this one. Without an input file nobody knows which these are.
    pub async fn fail_rest(&mut self, batch: &Batch, code: &str, message: &str) -> Result<(), Halt> {
        let file = match self.run.input(batch, 0).await {
            Err(Halt::NoInput) if batch.has_no_input() => return self.write().await,
            file => file?,
        };
        let mut reader = LineReader::new(file.stream, self.run.batches.options.max_line_bytes);
        while let Some(line) = reader.next().await? {
            let Ok(line) = line else { continue };
            if !self.has(line.number)
                && let Ok(read) = read_line(&line, &batch.endpoint)
            {
                self.keep(line.number, &read.custom_id, &LineOutcome::Failed { code, message }).await?;
            }
        }
        self.write().await
    }
}
