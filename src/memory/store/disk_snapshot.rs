//! The catalog as a sealed file in the state directory, for a start while the database is down.
//!
//! The whole file is encrypted under the master key and belongs to one database. It is a copy: nothing is lost without it.

use super::rows::{Columns, nanoseconds, parse_record, parse_uuid};
use super::sealing::{Keyring, NONCE_LEN};
use super::{Catalog, Kind, Record, Sealed, StoreError};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

/// The first line, before the id of the key.
const MAGIC: &str = "turnpike-snapshot 1 ";

/// The file and the database that it belongs to.
#[derive(Debug)]
pub struct DiskSnapshot {
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
        // One record after another into one buffer, which is sealed in place: a large store is in memory once more, not thrice.
        let lines = Kind::ALL.into_iter().flat_map(|kind| catalog.all(kind)).map(|record| Row::new(record));
        write_lines(&mut bytes, catalog.position, lines).map_err(|why| self.damaged(&why.to_string()))?;
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
            let row: Row<'_> = serde_json::from_slice(line).map_err(|why| self.damaged(&why.to_string()))?;
            records.extend(row.record()?.map(Arc::new));
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
    rows: impl Iterator<Item = Row<'a>>,
) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *bytes, &position)?;
    for row in rows {
        bytes.push(b'\n');
        serde_json::to_writer(&mut *bytes, &row)?;
    }
    Ok(())
}

/// A line of the file: a record's columns, in an array.
#[derive(Serialize, Deserialize)]
struct Row<'a>(
    Cow<'a, str>,
    String,
    Option<String>,
    Option<String>,
    Option<Cow<'a, str>>,
    Option<u32>,
    Cow<'a, str>,
    i64,
    i64,
    i64,
    Cow<'a, str>,
    Option<Cow<'a, str>>,
    Option<String>,
);

impl<'a> Row<'a> {
    fn new(record: &'a Record) -> Self {
        let sealed = record.sealed.as_ref();
        Self(
            record.kind.as_str().into(),
            record.id.to_string(),
            record.parent.map(|id| id.to_string()),
            record.workspace.map(|id| id.to_string()),
            record.slug.as_deref().map(Cow::from),
            record.number,
            record.status.as_str().into(),
            i64::try_from(record.revision).unwrap_or(i64::MAX),
            nanoseconds(record.created_at),
            nanoseconds(record.updated_at),
            Cow::from(&*record.body),
            sealed.map(|sealed| sealed.key_id.as_str().into()),
            sealed.map(|sealed| BASE64_STANDARD.encode(&sealed.bytes)),
        )
    }

    fn record(self) -> Result<Option<Record>, StoreError> {
        let Self(
            kind,
            id,
            parent,
            workspace,
            slug,
            number,
            status,
            revision,
            created_at,
            updated_at,
            body,
            key_id,
            sealed,
        ) = self;
        let damaged = |_| StoreError::Damaged(format!("{kind} {id}: its sealed part"));
        let sealed = sealed.map(|text| BASE64_STANDARD.decode(text).map_err(damaged)).transpose()?;
        parse_record(Columns {
            kind: &kind,
            id: parse_uuid(&id)?,
            parent: parent.as_deref().map(parse_uuid).transpose()?,
            workspace: workspace.as_deref().map(parse_uuid).transpose()?,
            slug: slug.map(Cow::into_owned),
            number: number.map(i64::from),
            status: &status,
            revision,
            created_at,
            updated_at,
            body: &body,
            key_id: key_id.map(Cow::into_owned),
            sealed: sealed.as_deref(),
        })
    }
}
