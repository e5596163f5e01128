//! The catalog as a sealed file in the state directory, for a start while the database is down.
//!
//! The whole file is encrypted under the master key and belongs to one database. It is a copy: nothing is lost without it.

use super::rows::{Columns, nanoseconds, parse_record};
use super::sealing::Keyring;
use super::{Catalog, Kind, Record, Sealed, StoreError};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
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
        let records: Vec<Value> =
            Kind::ALL.into_iter().flat_map(|kind| catalog.all(kind)).map(|record| to_json(record)).collect();
        let text = json!({"position": catalog.position, "records": records}).to_string();
        let sealed = keys.seal_bytes(&self.context(), text.into_bytes())?;
        self.replace(&sealed).map_err(|why| match why.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                StoreError::Full(format!("{}: {why}", self.file.display()))
            }
            _ => StoreError::Unavailable(format!("{}: {why}", self.file.display())),
        })
    }

    fn replace(&self, sealed: &Sealed) -> std::io::Result<()> {
        let folder = self.file.parent().unwrap_or(std::path::Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let part = self.file.with_extension(format!("part.{}", std::process::id()));
        let _ = std::fs::remove_file(&part);
        let write = || {
            let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
            out.write_all(format!("{MAGIC}{}\n", sealed.key_id).as_bytes())?;
            out.write_all(&sealed.bytes)?;
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
        let content: Value = serde_json::from_slice(&plain).map_err(|why| self.damaged(&why.to_string()))?;
        let items = content.get("records").and_then(Value::as_array).ok_or_else(no_snapshot)?;
        let mut records = Vec::with_capacity(items.len());
        for item in items {
            let record = from_json(item).ok_or_else(no_snapshot)?;
            records.extend(parse_record(record.columns())?.map(Arc::new));
        }
        let position = content.get("position").and_then(Value::as_u64).ok_or_else(no_snapshot)?;
        Ok(Some(Catalog::new(records, position)))
    }

    fn damaged(&self, why: &str) -> StoreError {
        StoreError::Damaged(format!("the snapshot {}: {why}", self.file.display()))
    }

    fn context(&self) -> Vec<u8> {
        format!("snapshot of {}", self.database).into_bytes()
    }
}

fn to_json(record: &Record) -> Value {
    let id = |id: Option<Uuid>| id.map(|id| id.to_string());
    json!([
        record.kind.as_str(),
        record.id.to_string(),
        id(record.parent),
        id(record.workspace),
        record.slug,
        record.number,
        record.status.as_str(),
        record.revision,
        nanoseconds(record.created_at),
        nanoseconds(record.updated_at),
        &*record.body,
        record.sealed.as_ref().map(|sealed| &sealed.key_id),
        record.sealed.as_ref().map(|sealed| BASE64_STANDARD.encode(&sealed.bytes)),
    ])
}

/// A row of the file.
struct Row<'a> {
    item: &'a [Value; 13],
    id: Uuid,
    parent: Option<Uuid>,
    workspace: Option<Uuid>,
    sealed: Option<Vec<u8>>,
}

fn from_json(item: &Value) -> Option<Row<'_>> {
    let item: &[Value; 13] = item.as_array()?.as_slice().try_into().ok()?;
    let [_, id, parent, workspace, .., sealed] = item;
    let optional = |value: &Value| match value.as_str() {
        Some(text) => Uuid::try_parse(text).ok().map(Some),
        None => Some(None),
    };
    let sealed = match sealed.as_str() {
        Some(text) => Some(BASE64_STANDARD.decode(text).ok()?),
        None => None,
    };
    let id = Uuid::try_parse(id.as_str()?).ok()?;
    Some(Row { item, id, parent: optional(parent)?, workspace: optional(workspace)?, sealed })
}

impl Row<'_> {
    fn columns(&self) -> Columns<'_> {
        let [kind, _, _, _, slug, number, status, revision, created_at, updated_at, body, key_id, _] =
            self.item;
        let integer = |value: &Value| value.as_i64().unwrap_or(-1);
        Columns {
            kind: kind.as_str().unwrap_or_default(),
            id: self.id,
            parent: self.parent,
            workspace: self.workspace,
            slug: slug.as_str().map(str::to_owned),
            number: number.as_i64(),
            status: status.as_str().unwrap_or_default(),
            revision: integer(revision),
            created_at: integer(created_at),
            updated_at: integer(updated_at),
            body: body.as_str().unwrap_or_default(),
            key_id: key_id.as_str().map(str::to_owned),
            sealed: self.sealed.as_deref(),
        }
    }
}
