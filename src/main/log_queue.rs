//! The bounded queue between the process's log and its output: whoever logs a line never waits for stderr.
//!
//! A stderr that is not read blocks only the writer's own thread. When the queue is full, new lines are dropped and
//! counted. Not the access log: `state::access_log` has its own queue.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum bytes of lines that wait to be written.
const MAX_BYTES: usize = 1 << 20;

/// Lines that wait for the writer.
#[derive(Debug, Default)]
pub struct LogQueue {
    state: Mutex<State>,
    /// Signalled when a line was added.
    added: Condvar,
    /// Signalled when the writer has written what it took.
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines dropped since the last [`LogQueue::take_dropped`].
    dropped: u64,
    /// Lines dropped that the output does not mention yet.
    unmentioned: u64,
    has_writer: bool,
    is_writing: bool,
}

impl LogQueue {
    /// Adds a line, or drops it when the queue is full.
    pub fn push(&self, line: Vec<u8>) {
        let mut state = self.state.lock();
        if state.bytes + line.len() > MAX_BYTES {
            state.dropped += 1;
            state.unmentioned += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.added.notify_one();
    }

    /// Lines dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.state.lock().dropped)
    }

    /// Starts the thread that writes to stderr.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub fn start_writer(self: &Arc<Self>) -> io::Result<()> {
        let queue = Arc::clone(self);
        self.state.lock().has_writer = true;
        let started = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            loop {
                queue.write_next(&mut io::stderr());
            }
        });
        if started.is_err() {
            self.state.lock().has_writer = false;
        }
        started.map(drop)
    }

    /// Waits until all lines are written, for at most `limit`. Writes them itself where no writer was started.
    pub fn flush(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            let mut state = self.state.lock();
            if state.lines.is_empty() && !state.is_writing {
                return;
            }
            if !state.has_writer {
                drop(state);
                self.write_next(&mut io::stderr());
            } else if self.written.wait_until(&mut state, deadline).timed_out() {
                return;
            }
        }
    }

    /// Waits for lines and writes all of them. An output that fails loses them: there is nowhere else to report it.
    fn write_next(&self, out: &mut impl Write) {
        let mut state = self.state.lock();
        while state.lines.is_empty() {
            self.added.wait(&mut state);
        }
        let lines = std::mem::take(&mut state.lines);
        let dropped = std::mem::take(&mut state.unmentioned);
        state.bytes = 0;
        state.is_writing = true;
        drop(state);
        for line in &lines {
            let _ = out.write_all(line);
        }
        if dropped > 0 {
            let _ =
                writeln!(out, "turnpike: {dropped} log lines were dropped: the log's output was too slow");
        }
        let _ = out.flush();
        self.state.lock().is_writing = false;
        self.written.notify_all();
    }
}

/// Hands whole lines to the queue.
pub struct LineWriter(pub Arc<LogQueue>);

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_new_lines_and_counts_them() {
        let queue = LogQueue::default();
        for _ in 0..5 {
            queue.push(vec![b'x'; MAX_BYTES / 4]);
        }
        assert_eq!((queue.take_dropped(), queue.take_dropped()), (1, 0));
        let mut out = Vec::new();
        queue.write_next(&mut out);
        let end = String::from_utf8_lossy(out.get(MAX_BYTES..).unwrap()).into_owned();
        assert_eq!(end, "turnpike: 1 log lines were dropped: the log's output was too slow\n");
        queue.push(b"after\n".to_vec());
        out.clear();
        queue.write_next(&mut out);
        assert_eq!(out, b"after\n");
    }

    #[test]
    fn lines_keep_their_order_and_arrive_whole() {
        let queue = Arc::new(LogQueue::default());
        let mut writer = LineWriter(Arc::clone(&queue));
        for number in 0..3 {
            writer.write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        let mut out = Vec::new();
        queue.write_next(&mut out);
        assert_eq!(out, b"line 0\nline 1\nline 2\n");
    }
}
