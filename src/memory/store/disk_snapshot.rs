//! The catalog as a sealed file in the state directory, for a start while the database is down.
//!
//! The file is encrypted under the master key, in parts, and belongs to one database. It is a copy: nothing is lost without it.

use super::rows::record;
use super::sealing::{Keyring, NONCE_LEN, random};
use super::sql::{Dialect, ResultRow, Value, WrongType};
use super::statements::values;
use super::{Catalog, Kind, Record, Sealed, StoreError, create_private, folder_of, make_private_folder};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Serialize, Serializer};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// The first line, before the id of the key.
const MAGIC: &str = "turnpike-snapshot 2 ";
/// The same of a version that sealed everything in one part.
const MAGIC_OF_ONE_PART: &str = "turnpike-snapshot 1 ";
/// Bytes of records that are sealed together: writing holds no more beside the records.
const PART: usize = if cfg!(test) { 512 } else { 1 << 20 };
/// Before each part: its length.
const LENGTH_BYTES: usize = 4;
/// After the first line: random bytes that all parts of a file are bound to, so that none is of another one.
const FILE_ID_BYTES: usize = 16;

/// The file and the database that it belongs to.
#[derive(Debug)]
pub(crate) struct DiskSnapshot {
    pub file: PathBuf,
    /// Names the database, so that another one's content is never used.
    pub database: String,
}

impl DiskSnapshot {
    /// Replaces the file. Blocks.
    ///
    /// # Errors
    /// `Full`, `Unavailable`: what the system refuses. The previous file is still there.
    pub fn save(&self, catalog: &Catalog, keys: &Keyring) -> Result<(), StoreError> {
        let folder = folder_of(&self.file);
        let part = self.file.with_extension(format!("part.{}", std::process::id()));
        let open = || {
            make_private_folder(folder)?;
            let _ = std::fs::remove_file(&part);
            create_private(&part, folder)
        };
        let out = open().map_err(|why| self.refused(&why))?;
        let saved = self.write(&out, catalog, keys).and_then(|()| {
            let put_in_place = || {
                out.sync_all()?;
                std::fs::rename(&part, &self.file)?;
                File::open(folder)?.sync_all()
            };
            put_in_place().map_err(|why| self.refused(&why))
        });
        if saved.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        saved
    }

    fn write(&self, mut out: &File, catalog: &Catalog, keys: &Keyring) -> Result<(), StoreError> {
        let mut file_id = [0; FILE_ID_BYTES];
        random(&mut file_id)?;
        let head = [MAGIC.as_bytes(), keys.current_id().as_bytes(), b"\n", &file_id].concat();
        out.write_all(&head).map_err(|why| self.refused(&why))?;
        let failed = |why: serde_json::Error| StoreError::Damaged(why.to_string());
        let mut parts = Parts { snapshot: self, out, keys, file_id, number: 0, bytes: Vec::new() };
        parts.begin();
        serde_json::to_writer(&mut parts.bytes, &catalog.position).map_err(failed)?;
        for record in Kind::ALL.into_iter().flat_map(|kind| catalog.all(kind)) {
            if parts.bytes.len() >= PART {
                parts.end(false)?;
            }
            parts.bytes.push(b'\n');
            serde_json::to_writer(&mut parts.bytes, &values(Dialect::Sqlite, record)?).map_err(failed)?;
        }
        parts.end(true)
    }

    fn refused(&self, why: &std::io::Error) -> StoreError {
        let text = format!("{}: {why}", self.file.display());
        match why.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreError::Full(text),
            _ => StoreError::Unavailable(text),
        }
    }

    /// The catalog of the file; `None` without a file. Blocks.
    ///
    /// # Errors
    /// `Damaged`: it cannot be read, belongs to another database, or was sealed under a key that is not here.
    pub fn read(&self, keys: &Keyring) -> Result<Option<Catalog>, StoreError> {
        let bytes = match std::fs::read(&self.file) {
            Ok(bytes) => bytes,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(self.damaged(&why.to_string())),
        };
        let no_snapshot = || self.damaged("it is no snapshot of this version");
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(no_snapshot)?;
        let (line, rest) = bytes.split_at(end);
        let rest = rest.get(1..).unwrap_or_default();
        let mut records = Records::default();
        if let Some(key_id) = line.strip_prefix(MAGIC_OF_ONE_PART.as_bytes()) {
            let plain = self.unseal(keys, key_id, &self.context(), rest)?;
            records.add(&plain).map_err(|why| self.damaged(&why))?;
        } else {
            let key_id = line.strip_prefix(MAGIC.as_bytes()).ok_or_else(no_snapshot)?;
            let (file_id, mut rest) = rest.split_first_chunk().ok_or_else(no_snapshot)?;
            let mut number = 0;
            while !rest.is_empty() {
                let (length, after) = rest.split_first_chunk::<LENGTH_BYTES>().ok_or_else(no_snapshot)?;
                let length = u32::from_le_bytes(*length) as usize;
                let (sealed, after) = after.split_at_checked(length).ok_or_else(no_snapshot)?;
                let context = self.part_context(file_id, number, after.is_empty());
                let plain = self.unseal(keys, key_id, &context, sealed)?;
                records.add(&plain).map_err(|why| self.damaged(&why))?;
                rest = after;
                number += 1;
            }
        }
        let position = records.position.ok_or_else(no_snapshot)?;
        Ok(Some(Catalog::new(records.all, position)))
    }

    fn unseal(
        &self,
        keys: &Keyring,
        key_id: &[u8],
        context: &[u8],
        sealed: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let key_id = String::from_utf8_lossy(key_id).into_owned();
        let unsealed = keys.unseal_bytes(context, &Sealed { key_id, bytes: sealed.into() });
        unsealed.map_err(|why| self.damaged(&format!("{why}, or it is of another database")))
    }

    /// What a part is bound to: the database, the file, its place in it, and whether it is the last one.
    fn part_context(&self, file_id: &[u8; FILE_ID_BYTES], number: u32, is_last: bool) -> Vec<u8> {
        let context = self.context();
        let parts = [context.as_slice(), b"\0", file_id, &number.to_le_bytes(), &[u8::from(is_last)]];
        parts.concat()
    }

    fn damaged(&self, why: &str) -> StoreError {
        StoreError::Damaged(format!("the snapshot {}: {why}", self.file.display()))
    }

    fn context(&self) -> Vec<u8> {
        format!("snapshot of {}", self.database).into_bytes()
    }
}

/// Writes the parts of a file: the position, then each record, in a line. A part begins and ends with a whole line.
struct Parts<'a> {
    snapshot: &'a DiskSnapshot,
    out: &'a File,
    keys: &'a Keyring,
    file_id: [u8; FILE_ID_BYTES],
    number: u32,
    /// The part that is being made: room for its length and the nonce, then lines.
    bytes: Vec<u8>,
}

impl Parts<'_> {
    fn begin(&mut self) {
        self.bytes.clear();
        self.bytes.resize(LENGTH_BYTES + NONCE_LEN, 0);
    }

    /// Seals and writes the part, and begins another one.
    fn end(&mut self, is_last: bool) -> Result<(), StoreError> {
        let context = self.snapshot.part_context(&self.file_id, self.number, is_last);
        self.keys.seal_in_place(&context, &mut self.bytes, LENGTH_BYTES)?;
        let length = u32::try_from(self.bytes.len() - LENGTH_BYTES);
        let length = length.map_err(|_| StoreError::Damaged("a record is too large".to_owned()))?;
        if let Some(place) = self.bytes.first_chunk_mut() {
            *place = length.to_le_bytes();
        }
        self.out.write_all(&self.bytes).map_err(|why| self.snapshot.refused(&why))?;
        self.number += 1;
        self.begin();
        Ok(())
    }
}

/// What the lines of a file have.
#[derive(Default)]
struct Records {
    position: Option<u64>,
    all: Vec<Arc<Record>>,
}

impl Records {
    /// Adds the lines of a part.
    fn add(&mut self, plain: &[u8]) -> Result<(), String> {
        for line in plain.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if self.position.is_none() {
                let position = serde_json::from_slice(line).map_err(|why| why.to_string())?;
                self.position = Some(position);
                continue;
            }
            let line = Line::parse(line)?;
            self.all.extend(record(&line).map_err(|why| why.to_string())?.map(Arc::new));
        }
        Ok(())
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Real(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Uuid(id) => serializer.collect_str(id),
            Self::Bytes(bytes) => serializer.serialize_str(&BASE64_STANDARD.encode(bytes)),
        }
    }
}

/// A line of the file: a record's columns as SQLite has them, in an array.
struct Line {
    columns: Vec<serde_json::Value>,
    sealed: Option<Vec<u8>>,
}

impl Line {
    fn parse(line: &[u8]) -> Result<Self, String> {
        let columns: Vec<serde_json::Value> = serde_json::from_slice(line).map_err(|why| why.to_string())?;
        let sealed =
            columns.last().and_then(|column| column.as_str()).map(|text| BASE64_STANDARD.decode(text));
        Ok(Self { sealed: sealed.transpose().map_err(|why| why.to_string())?, columns })
    }

    fn column(&self, column: usize) -> &serde_json::Value {
        self.columns.get(column).unwrap_or(&serde_json::Value::Null)
    }
}

impl ResultRow for Line {
    fn int(&self, column: usize) -> Result<Option<i64>, WrongType> {
        Ok(self.column(column).as_i64())
    }

    fn real(&self, column: usize) -> Result<Option<f64>, WrongType> {
        Ok(self.column(column).as_f64())
    }

    fn text(&self, column: usize) -> Result<Option<&str>, WrongType> {
        Ok(self.column(column).as_str())
    }

    fn uuid(&self, column: usize) -> Result<Option<Uuid>, WrongType> {
        let id = self.column(column).as_str().map(Uuid::try_parse);
        id.transpose().map_err(|why| WrongType(why.to_string()))
    }

    fn bytes(&self, _: usize) -> Result<Option<&[u8]>, WrongType> {
        Ok(self.sealed.as_deref())
    }
}
