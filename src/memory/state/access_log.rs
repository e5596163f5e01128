//! The access log: lines are queued in memory, up to a limit, and written by one background task.
//!
//! A request only appends bytes under a short lock, so a slow disk never delays it. Lines beyond the limit and lines
//! whose write failed are dropped and counted. The contents of a line are up to the request record.

use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use words::settings::AccessLog as Output;

/// Maximum bytes of queued lines; further lines are dropped.
const MAX_PENDING_BYTES: usize = 8 << 20;

/// The queue and the output.
#[derive(Debug)]
pub struct AccessLog {
    pending: Mutex<Pending>,
    dropped: AtomicU64,
    /// Locked for as long as a write takes, which may be for ever. Only `flush` waits for it.
    sink: Mutex<Sink>,
    /// Replaces `sink` before the next write.
    next: Mutex<Option<Sink>>,
}

/// Lines not yet written, and the time of the last one as text, because most lines share their second.
#[derive(Debug, Default)]
struct Pending {
    lines: Vec<u8>,
    second: i64,
    stamp: String,
}

#[derive(Debug)]
enum Sink {
    Off,
    Stdout,
    Journal,
    File(File),
}

impl AccessLog {
    /// Opens the output.
    ///
    /// # Errors
    /// The file cannot be opened for appending, or there is no journal.
    pub fn open(output: &Output) -> io::Result<Self> {
        Ok(Self {
            pending: Mutex::default(),
            dropped: AtomicU64::new(0),
            sink: Mutex::new(sink(output)?),
            next: Mutex::default(),
        })
    }

    /// Reopens the output, after the file was moved away or with new settings. Queued lines go to the new output. A
    /// write that hangs on the old one does not block this.
    ///
    /// # Errors
    /// As [`AccessLog::open`]; then the old output stays in use.
    pub fn reopen(&self, output: &Output) -> io::Result<()> {
        let new = sink(output)?;
        *self.next.lock() = Some(new);
        Ok(())
    }

    /// Appends one line. `write` gets the buffer and the time as text (RFC 3339, UTC, milliseconds) and
    /// writes the line without the newline.
    pub fn line(&self, now: SystemTime, write: impl FnOnce(&mut Vec<u8>, &str)) {
        let mut pending = self.pending.lock();
        if pending.lines.len() > MAX_PENDING_BYTES {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Pending { lines, second, stamp } = &mut *pending;
        restamp(now, second, stamp);
        write(lines, stamp);
        lines.push(b'\n');
    }

    /// Whether [`AccessLog::flush`] has something to do. Waits for no output.
    pub fn is_waiting(&self) -> bool {
        !self.pending.lock().lines.is_empty() || self.next.lock().is_some()
    }

    /// The number of lines dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    /// Writes the queued lines. Blocks for as long as the output does, so only the background task and the end of
    /// the process call it. Returns whether there was something to write.
    ///
    /// # Errors
    /// The write failed; its lines are lost and counted as dropped.
    pub fn flush(&self) -> io::Result<bool> {
        // The sink is locked first, so that two concurrent flushes do not write their lines in the wrong order.
        let mut sink = self.sink.lock();
        if let Some(next) = self.next.lock().take() {
            *sink = next;
        }
        let lines = {
            let mut pending = self.pending.lock();
            // The next batch will probably be about as large as this one, or as one not long ago.
            let room = pending.lines.len().max(pending.lines.capacity() / 2);
            let room = Vec::with_capacity(room.min(MAX_PENDING_BYTES));
            std::mem::replace(&mut pending.lines, room)
        };
        if lines.is_empty() {
            return Ok(false);
        }
        let written = sink.write(&lines);
        if written.is_err() {
            self.dropped.fetch_add(memchr::memchr_iter(b'\n', &lines).count() as u64, Ordering::Relaxed);
        }
        written.map(|()| true)
    }
}

impl Sink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Off => Ok(()),
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(lines)?;
                out.flush()
            }
            Self::Journal => journal(lines),
            Self::File(file) => file.write_all(lines),
        }
    }
}

/// Updates the stamp. The date is formatted once per second, then only the milliseconds change.
fn restamp(now: SystemTime, second: &mut i64, stamp: &mut String) {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_secs()).unwrap_or_default();
    if now != *second || stamp.is_empty() {
        *second = now;
        let time = jiff::Timestamp::from_second(now).unwrap_or_default();
        *stamp = format!("{time:.0}").trim_end_matches('Z').to_owned();
        stamp.push_str(".000Z");
    }
    // `…:05.123Z`: drops the milliseconds and the Z.
    let at = stamp.len().saturating_sub(4);
    stamp.truncate(at);
    let millis = since.subsec_millis();
    for digit in [millis / 100, millis / 10, millis] {
        stamp.push(char::from(b'0' + (digit % 10) as u8));
    }
    stamp.push('Z');
}

fn sink(output: &Output) -> io::Result<Sink> {
    Ok(match output {
        Output::Off => Sink::Off,
        Output::Stdout => Sink::Stdout,
        Output::Journald => {
            // Without a journal this fails now, at start, instead of at the first write.
            systemd_journal_logger::JournalLog::new()?;
            Sink::Journal
        }
        Output::File(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            Sink::File(file.map_err(|why| named(path, &why))?)
        }
    })
}

/// The error with the path that it is about, and with the folder if that is what is missing.
fn named(path: &Path, why: &io::Error) -> io::Error {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let text = match folder {
        Some(folder) => format!("{}: there is no folder {}", path.display(), folder.display()),
        None => format!("{}: {why}", path.display()),
    };
    io::Error::new(why.kind(), text)
}

fn journal(lines: &[u8]) -> io::Result<()> {
    let journal = systemd_journal_logger::JournalLog::new()?.with_syslog_identifier("turnpike-access".into());
    for line in String::from_utf8_lossy(lines).lines() {
        journal.journal_send(
            &log::Record::builder()
                .level(log::Level::Info)
                .target("access")
                .args(format_args!("{line}"))
                .build(),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("missing");
        let path = folder.join("access.log");
        let error = AccessLog::open(&Output::File(path.clone())).unwrap_err().to_string();
        assert_eq!(error, format!("{}: there is no folder {}", path.display(), folder.display()));
        let error = AccessLog::open(&Output::File(dir.path().into())).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", dir.path().display())), "{error}");
        let log = AccessLog::open(&Output::Off).unwrap();
        assert!(log.reopen(&Output::File(path)).unwrap_err().to_string().contains("there is no folder"));
    }

    #[test]
    fn lines_reach_the_file_and_a_moved_file_is_reopened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let output = Output::File(path.clone());
        let log = AccessLog::open(&output).unwrap();
        assert!(!log.is_waiting());
        log.line(SystemTime::now(), |out, _| out.extend_from_slice(b"one"));
        assert!(log.is_waiting());
        log.flush().unwrap();
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        assert!(!log.is_waiting());
        log.reopen(&output).unwrap();
        assert!(log.is_waiting(), "the old file is to be closed, also if no line comes");
        log.line(SystemTime::now(), |out, _| out.extend_from_slice(b"two"));
        log.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn a_line_gets_the_time_it_was_written_at() {
        let log = AccessLog::open(&Output::Off).unwrap();
        let at = |millis| SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(millis);
        for (millis, wanted) in [
            (1_795_235_489_007, "2026-11-21T04:31:29.007Z"),
            (1_795_235_489_999, "2026-11-21T04:31:29.999Z"),
            (1_795_235_490_000, "2026-11-21T04:31:30.000Z"),
        ] {
            log.line(at(millis), |_, stamp| assert_eq!(stamp, wanted));
        }
    }

    #[test]
    fn past_the_bound_lines_are_dropped_and_counted() {
        let log = AccessLog::open(&Output::Off).unwrap();
        log.line(SystemTime::now(), |out, _| out.resize(MAX_PENDING_BYTES + 1, b'x'));
        log.line(SystemTime::now(), |out, _| out.extend_from_slice(b"lost"));
        assert_eq!(log.take_dropped(), 1);
        log.flush().unwrap();
        log.line(SystemTime::now(), |out, _| out.extend_from_slice(b"kept"));
        assert_eq!(log.take_dropped(), 0);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_a_new_output_works() {
        // Every write to /dev/full fails with "no space left".
        let log = AccessLog::open(&Output::File("/dev/full".into())).unwrap();
        log.line(SystemTime::now(), |out, _| out.extend_from_slice(b"one"));
        log.line(SystemTime::now(), |out, _| out.extend_from_slice(b"two"));
        assert!(log.flush().is_err());
        assert_eq!(log.take_dropped(), 2);
        log.line(SystemTime::now(), |out, _| out.extend_from_slice(b"three"));
        log.reopen(&Output::Off).unwrap();
        log.flush().unwrap();
        assert_eq!(log.take_dropped(), 0);
    }
}
