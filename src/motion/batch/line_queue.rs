//! The lines of a batch that are still to be sent: those of its file, as they are read, and those whose time to be sent again comes.
//!
//! Not here: whether one may be sent now (`lines_in_flight`), and what becomes of it (`dispatch`).

use super::kept_results::KeptResults;
use super::line_result::LineOutcome;
use super::lines::FileLines;
use super::run::Halt;
use super::validation::{BatchLine, read_line};
use std::collections::VecDeque;
use std::time::Instant;

/// A line to send.
#[derive(Debug)]
pub(super) struct QueuedLine {
    pub number: u32,
    pub line: BatchLine,
    /// How often it was sent.
    pub tries: u32,
}

/// A line to send again.
#[derive(Debug)]
struct Again {
    at: Instant,
    line: QueuedLine,
}

pub(super) struct LineQueue {
    /// `None`: all were read.
    reader: Option<FileLines>,
    endpoint: String,
    next: Option<QueuedLine>,
    again: VecDeque<Again>,
}

impl LineQueue {
    pub fn new(reader: FileLines, endpoint: &str) -> Self {
        Self { reader: Some(reader), endpoint: endpoint.to_owned(), next: None, again: VecDeque::new() }
    }

    /// Whether no line is left, once [`LineQueue::find_next`] has found none.
    pub fn is_empty(&self) -> bool {
        self.next.is_none() && self.again.is_empty()
    }

    /// The line to be sent next.
    pub fn next(&self) -> Option<&QueuedLine> {
        self.next.as_ref()
    }

    pub(crate) fn take_next(&mut self) -> Option<QueuedLine> {
        self.next.take()
    }

    /// The line is sent next after all.
    pub fn put_back(&mut self, line: QueuedLine) {
        self.next = Some(line);
    }

    pub(crate) fn send_again(&mut self, line: QueuedLine, at: Instant) {
        self.again.push_back(Again { at, line });
    }

    /// When a line is to be sent again, if no other is next.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        self.again.iter().map(|again| again.at).min().filter(|_| self.next.is_none())
    }

    /// Finds the next line, if there is none: one whose time to be sent again has come, or a new one. Lines of the file that cannot be
    /// sent have their results at once. `max_again`: with as many lines to be sent again no new one is read.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) async fn find_next(
        &mut self,
        results: &mut KeptResults<'_>,
        max_again: usize,
    ) -> Result<(), Halt> {
        let now = Instant::now();
        if self.next.is_none()
            && let Some(due) = self.again.iter().position(|again| again.at <= now)
        {
            self.next = self.again.remove(due).map(|again| again.line);
        }
        while self.next.is_none() && self.again.len() < max_again {
            let Some(reader) = &mut self.reader else { return Ok(()) };
            let line = match reader.next().await? {
                None => {
                    self.reader = None;
                    return Ok(());
                }
                Some(Ok(line)) if results.has(line.number) => continue,
                Some(Ok(line)) => read_line(&line, &self.endpoint).map(|read| (line.number, read)),
                Some(Err(error)) => Err(error),
            };
            match line {
                Ok((number, line)) => self.next = Some(QueuedLine { number, line, tries: 0 }),
                Err(error) => {
                    let outcome = LineOutcome::Failed { code: error.code, message: &error.message };
                    results.keep(error.line.unwrap_or_default(), "", &outcome);
                }
            }
        }
        Ok(())
    }
}
