//! Entries on disk, for the time the log store is away, slow or full: numbered files, written at the end, read from the beginning.
//!
//! Bounded in bytes. A file is deleted when all of it is in the log store; after a crash it is read once more, and rows that are there
//! are not written again. Each entry has a checksum: what a crash left half written is left out.
//!
//! A folder is one process's at a time, by a lock that ends with it. While another process has the folder of the settings, as after an
//! upgrade without a stop, this one has a folder of its own in it. What a process leaves behind, the next one takes over
//! ([`Spool::take_over`]).

use super::{Entry, Row};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes after which the next file begins.
const FILE_BYTES: u64 = 8 << 20;
/// Length of the row, length of the payload plus one (0: none), checksum of both.
const HEAD_BYTES: usize = 12;
/// How the folders begin of processes that found another one in the root; their ids follow.
const OF_PROCESS: &str = "process-";
/// The file in each folder that its process has locked.
const LOCK: &str = "lock";
/// A greater length means that the file is damaged.
const MAX_ENTRY_BYTES: usize = 64 << 20;

/// The spool of one process.
#[derive(Debug)]
pub(super) struct Spool {
    /// That of the settings.
    root: PathBuf,
    /// Where this process writes: the root, or a folder in it.
    folder: PathBuf,
    /// Of `folder`; `None`: nothing was made yet.
    lock: Option<File>,
    max_bytes: u64,
    /// Numbers and sizes of the files, the oldest first.
    files: VecDeque<(u64, u64)>,
    /// The last of `files`, while it is written.
    writing: Option<File>,
    /// The place in the first of `files` up to which it was read.
    reading: Option<BufReader<File>>,
}

/// The result of adding entries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    pub kept: usize,
    /// Entries for which the bound left no room.
    pub beyond_bound: usize,
    /// Why the disk refused the rest.
    pub failed: Option<String>,
}

impl Spool {
    /// The spool in this folder, with what an earlier process left there. Nothing is made before something is added.
    pub(super) fn open(root: PathBuf, max_bytes: u64) -> Self {
        let mut spool = Self {
            folder: root.clone(),
            root,
            lock: None,
            max_bytes,
            files: VecDeque::new(),
            writing: None,
            reading: None,
        };
        if spool.root.is_dir() {
            if let Some(lock) = lock(&spool.root) {
                spool.lock = Some(lock);
                spool.files = files(&spool.root).into();
            }
            spool.take_over();
        }
        spool
    }

    /// Takes over what other processes have left behind that have ended.
    pub(super) fn take_over(&mut self) {
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let is_of_process = |entry: &fs::DirEntry| {
            entry.file_name().to_str().is_some_and(|name| name.starts_with(OF_PROCESS))
                && entry.path().is_dir()
        };
        let of_processes = folders.filter(is_of_process).map(|entry| entry.path());
        let others: Vec<PathBuf> =
            of_processes.chain([self.root.clone()]).filter(|path| *path != self.folder).collect();
        for other in others {
            let left = files(&other);
            if left.is_empty() && other == self.root {
                continue;
            }
            let Some(_lock) = lock(&other) else { continue };
            if self.make_folder().is_err() {
                return;
            }
            for (number, size) in left {
                let next = self.files.back().map_or(1, |(last, _)| last + 1);
                if fs::rename(path(&other, number), path(&self.folder, next)).is_ok() {
                    self.files.push_back((next, size));
                    // What is added goes into a file behind it.
                    self.writing = None;
                }
            }
            if other != self.root {
                let _ = fs::remove_file(other.join(LOCK));
                let _ = fs::remove_dir(&other);
            }
        }
    }

    /// Makes the folder of this process, if it has none yet.
    fn make_folder(&mut self) -> io::Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        make(&self.root)?;
        self.lock = lock(&self.root);
        if self.lock.is_none() {
            self.folder = self.root.join(format!("{OF_PROCESS}{}", std::process::id()));
            make(&self.folder)?;
            self.lock = lock(&self.folder);
        }
        self.files = files(&self.folder).into();
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, size)| size).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Adds entries, as many as the bound and the disk allow.
    pub(super) fn add(&mut self, entries: &[Entry]) -> Added {
        let mut added = Added::default();
        let mut used = self.bytes();
        let mut bytes = Vec::new();
        for entry in entries {
            bytes.clear();
            if let Err(why) = encode(entry, &mut bytes) {
                added.failed = Some(why.to_string());
                continue;
            }
            let size = bytes.len() as u64;
            if used + size > self.max_bytes {
                added.beyond_bound += 1;
                continue;
            }
            match self.append(&bytes) {
                Ok(()) => {
                    added.kept += 1;
                    used += size;
                }
                Err(why) => {
                    added.failed = Some(format!("{}: {why}", self.folder.display()));
                    return added;
                }
            }
        }
        added
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.files.back().is_none_or(|(_, size)| *size >= FILE_BYTES) {
            self.writing = None;
        }
        let file = match &mut self.writing {
            Some(file) => file,
            None => {
                self.make_folder()?;
                let number = self.files.back().map_or(1, |(number, _)| number + 1);
                let path = path(&self.folder, number);
                let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
                self.files.push_back((number, 0));
                self.writing.insert(file)
            }
        };
        let done = file.write_all(bytes);
        if let Some((_, size)) = self.files.back_mut() {
            match done {
                Ok(()) => *size += bytes.len() as u64,
                // The entries behind half an entry could not be read.
                Err(_) => drop(file.set_len(*size)),
            }
        }
        done
    }

    /// The next entries of the oldest file, about `max_bytes` of them. Empty: all of it was read. [`Spool::forget`] deletes it.
    pub(super) fn read(&mut self, max_bytes: usize) -> io::Result<Vec<Entry>> {
        let Some((number, _)) = self.files.front() else { return Ok(Vec::new()) };
        if self.files.len() == 1 {
            // What is added from now on goes into another file.
            self.writing = None;
        }
        let reader = match &mut self.reading {
            Some(reader) => reader,
            None => self.reading.insert(BufReader::new(File::open(path(&self.folder, *number))?)),
        };
        let mut entries = Vec::new();
        let mut bytes = 0;
        while bytes < max_bytes
            && let Some(entry) = decode(reader)?
        {
            bytes += entry.size();
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Deletes the oldest file: all of it is in the log store.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.reading = None;
        match self.files.pop_front() {
            Some((number, _)) => fs::remove_file(path(&self.folder, number)),
            None => Ok(()),
        }
    }

    /// Begins the oldest file once more: what was read last is not in the log store.
    pub(super) fn rewind(&mut self) {
        self.reading = None;
    }
}

/// The lock of a folder; `None`: another process has it.
fn lock(folder: &Path) -> Option<File> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(folder.join(LOCK)).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Numbers and sizes of the files in a folder, the oldest first.
fn files(folder: &Path) -> Vec<(u64, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<(u64, u64)> = entries
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_suffix(".rows")?.parse().ok()?;
            Some((number, entry.metadata().ok()?.len()))
        })
        .collect();
    files.sort_unstable();
    files
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}.rows"))
}

fn encode(entry: &Entry, out: &mut Vec<u8>) -> io::Result<()> {
    out.resize(HEAD_BYTES, 0);
    serde_json::to_writer(&mut *out, &entry.row)?;
    let row_len = out.len() - HEAD_BYTES;
    out.extend_from_slice(entry.payload.as_deref().unwrap_or_default());
    let payload_len = entry.payload.as_ref().map_or(0, |payload| payload.len() + 1);
    let checksum = crc32fast::hash(out.get(HEAD_BYTES..).unwrap_or_default());
    let len = |len: usize| u32::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
    let head = [len(row_len)?, len(payload_len)?, checksum];
    for (place, number) in out.chunks_exact_mut(4).zip(head) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    Ok(())
}

/// The next entry; `None` at the end of the file, and where it is damaged.
fn decode(from: &mut BufReader<File>) -> io::Result<Option<Entry>> {
    let mut head = [0; HEAD_BYTES];
    if let Err(why) = from.read_exact(&mut head) {
        return if why.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(why) };
    }
    let mut numbers = head.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let mut next = || numbers.next().unwrap_or_default();
    let row_len = next() as usize;
    let payload_len = next() as usize;
    let checksum = next();
    let len = row_len + payload_len.saturating_sub(1);
    if len > MAX_ENTRY_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; len];
    if let Err(why) = from.read_exact(&mut bytes) {
        return if why.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(why) };
    }
    let (row, payload) = bytes.split_at_checked(row_len).unwrap_or_default();
    if crc32fast::hash(&bytes) != checksum {
        return Ok(None);
    }
    let Ok(row) = serde_json::from_slice::<Row>(row) else { return Ok(None) };
    Ok(Some(Entry { row, payload: (payload_len > 0).then(|| Arc::from(payload)), bodies: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::row::sample;

    fn entries(numbers: std::ops::Range<u16>) -> Vec<Entry> {
        let payload = |number: u16| number.is_multiple_of(2).then(|| Arc::from(vec![7; number.into()]));
        numbers.map(|number| Entry { payload: payload(number), ..Entry::from(sample(number)) }).collect()
    }

    fn read_all(spool: &mut Spool) -> Vec<Entry> {
        let mut all = Vec::new();
        while !spool.is_empty() {
            let some = spool.read(2000).unwrap();
            if some.is_empty() {
                spool.forget().unwrap();
            }
            all.extend(some);
        }
        all
    }

    #[test]
    fn what_is_added_is_read_in_order_by_the_next_process_too() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("spool");
        let all = entries(0..30);
        let mut spool = Spool::open(folder.clone(), 1 << 20);
        assert!(spool.is_empty() && !folder.exists());
        assert_eq!(spool.add(&all[..20]).kept, 20);
        let first = spool.read(1).unwrap();
        assert_eq!(first, all[..1]);
        // Into another file: the first one is read.
        assert_eq!(spool.add(&all[20..]).kept, 10);
        drop(spool);
        let mut spool = Spool::open(folder.clone(), 1 << 20);
        assert_eq!(read_all(&mut spool), all);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the lock");
    }

    #[test]
    fn two_processes_do_not_touch_each_others_files() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("spool");
        let all = entries(0..40);
        let mut old = Spool::open(folder.clone(), 1 << 20);
        assert_eq!(old.add(&all[..10]).kept, 10);
        let mut new = Spool::open(folder.clone(), 1 << 20);
        assert!(new.is_empty());
        assert_eq!((old.add(&all[10..20]).kept, new.add(&all[20..30]).kept), (10, 10));
        new.take_over();
        assert_eq!(read_all(&mut new), all[20..30], "the other one has not ended");
        assert_eq!(read_all(&mut old), all[..20]);
        // What the old one leaves at its end.
        assert_eq!(old.add(&all[30..]).kept, 10);
        drop(old);
        new.take_over();
        assert_eq!(read_all(&mut new), all[30..]);
        // And what the new one leaves, which is below the root.
        assert_eq!(new.add(&all[..5]).kept, 5);
        drop(new);
        let mut next = Spool::open(folder.clone(), 1 << 20);
        assert_eq!(read_all(&mut next), all[..5]);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the lock");
    }

    #[test]
    fn it_keeps_to_its_bound_and_takes_more_when_there_is_room_again() {
        let folder = tempfile::tempdir().unwrap();
        let all = entries(0..40);
        let mut spool = Spool::open(folder.path().to_owned(), 20_000);
        let added = spool.add(&all);
        assert!(added.kept > 5 && added.beyond_bound > 0, "{added:?}");
        assert_eq!(added.kept + added.beyond_bound, 40);
        assert!(spool.bytes() <= 20_000);
        assert_eq!(read_all(&mut spool).len(), added.kept);
        assert_eq!(spool.add(&all[..5]).kept, 5);
    }

    #[test]
    fn half_an_entry_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let all = entries(0..3);
        Spool::open(folder.path().to_owned(), 1 << 20).add(&all);
        let file = path(folder.path(), 1);
        let len = fs::metadata(&file).unwrap().len();
        OpenOptions::new().write(true).open(&file).unwrap().set_len(len - 1).unwrap();
        assert_eq!(read_all(&mut Spool::open(folder.path().to_owned(), 1 << 20)), all[..2]);
        let mut bytes = fs::read(&file).unwrap_or_default();
        assert!(bytes.is_empty());
        // A wrong checksum.
        Spool::open(folder.path().to_owned(), 1 << 20).add(&all);
        bytes = fs::read(&file).unwrap();
        bytes[20] ^= 1;
        fs::write(&file, bytes).unwrap();
        assert_eq!(read_all(&mut Spool::open(folder.path().to_owned(), 1 << 20)), []);
    }

    #[test]
    fn a_disk_that_refuses_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let added = Spool::open(file.join("spool"), 1 << 20).add(&entries(0..2));
        assert!(added.kept == 0 && added.failed.is_some(), "{added:?}");
    }
}
