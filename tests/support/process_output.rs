//! The output of a running process, line by line.
//!
//! It finds lines and prints the last ones; tests check their content.

use parking_lot::Mutex;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

const SHOWN: usize = 100;

/// The lines of one pipe so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessOutput {
    lines: Arc<Mutex<Vec<String>>>,
}

impl ProcessOutput {
    /// Reads the pipe on a thread of its own until the process closes it: a full pipe would stop the process.
    pub(crate) fn follow(pipe: impl Read + Send + 'static) -> Self {
        let output = Self::default();
        let lines = Arc::clone(&output.lines);
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n') {
                let Ok(line) = line else { break };
                lines.lock().push(String::from_utf8_lossy(&line).into_owned());
            }
        });
        output
    }

    /// All lines that contain `text`.
    pub(crate) fn lines_with(&self, text: &str) -> Vec<String> {
        self.lines.lock().iter().filter(|line| line.contains(text)).cloned().collect()
    }

    /// The last lines, under a heading.
    pub(crate) fn tail(&self, heading: &str) -> String {
        let lines = self.lines.lock();
        let from = lines.len().saturating_sub(SHOWN);
        format!("--- {heading} ({} lines)\n{}\n", lines.len(), lines[from..].join("\n"))
    }
}
