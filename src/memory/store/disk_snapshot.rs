//! The catalog as a sealed file in the state directory, for a start while the database is down.
//!
//! The whole file is encrypted under the master key and belongs to one database. It is a copy: nothing is lost without it.

use super::rows::record;
use super::sealing::{Keyring, NONCE_LEN};
use super::sql::{Dialect, ResultRow, Value, WrongType};
use super::statements::values;
use super::{Catalog, Kind, Record, Sealed, StoreError};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Serialize, Serializer};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// The first line, before the id of the key.
const MAGIC: &str = "turnpike-snapshot 1 ";

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
        let mut bytes = format!("{MAGIC}{}\n", keys.current_id()).into_bytes();
        let from = bytes.len();
        bytes.extend([0; NONCE_LEN]);
        // All records are written into one buffer, which is sealed in place, so that a large store takes its memory twice and not three times.
        let records = Kind::ALL.into_iter().flat_map(|kind| catalog.all(kind));
        write_lines(&mut bytes, catalog.position, records)?;
        keys.seal_in_place(&self.context(), &mut bytes, from)?;
        self.replace(&bytes).map_err(|why| match why.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                StoreError::Full(format!("{}: {why}", self.file.display()))
            }
            _ => StoreError::Unavailable(format!("{}: {why}", self.file.display())),
        })
    }

    fn replace(&self, bytes: &[u8]) -> std::io::Result<()> {
        let folder = self.file.parent().unwrap_or(std::path::Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let part = self.file.with_extension(format!("part.{}", std::process::id()));
        let _ = std::fs::remove_file(&part);
        let write = || {
            let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
            out.write_all(bytes)?;
            out.sync_all()?;
            std::fs::rename(&part, &self.file)?;
            File::open(folder)?.sync_all()
        };
        let written = write();
        if written.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        written
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
        let rest = bytes.strip_prefix(MAGIC.as_bytes()).ok_or_else(no_snapshot)?;
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(no_snapshot)?;
        let (key_id, sealed) = rest.split_at(end);
        let sealed = Sealed {
            key_id: String::from_utf8_lossy(key_id).into_owned(),
            bytes: sealed.get(1..).unwrap_or_default().into(),
        };
        let plain = keys
            .unseal_bytes(&self.context(), &sealed)
            .map_err(|why| self.damaged(&format!("{why}, or it is of another database")))?;
        let mut lines = plain.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let position =
            lines.next().and_then(|line| serde_json::from_slice(line).ok()).ok_or_else(no_snapshot)?;
        let mut records = Vec::new();
        for line in lines {
            let line = Line::parse(line).map_err(|why| self.damaged(&why))?;
            records.extend(record(&line)?.map(Arc::new));
        }
        Ok(Some(Catalog::new(records, position)))
    }

    fn damaged(&self, why: &str) -> StoreError {
        StoreError::Damaged(format!("the snapshot {}: {why}", self.file.display()))
    }

    fn context(&self) -> Vec<u8> {
        format!("snapshot of {}", self.database).into_bytes()
    }
}

/// The position, then each record, in a line.
fn write_lines<'a>(
    bytes: &mut Vec<u8>,
    position: u64,
    records: impl Iterator<Item = &'a Arc<Record>>,
) -> Result<(), StoreError> {
    let failed = |why: serde_json::Error| StoreError::Damaged(why.to_string());
    serde_json::to_writer(&mut *bytes, &position).map_err(failed)?;
    for record in records {
        bytes.push(b'\n');
        serde_json::to_writer(&mut *bytes, &values(Dialect::Sqlite, record)?).map_err(failed)?;
    }
    Ok(())
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
