//! Where the rows of a day are that may have a pair of metadata: pieces of up to some hundred rows, each with the fingerprints of its rows'
//! pairs.
//!
//! Pairs may be as many as rows, so each of them has no mark (`marks`): a piece has 4 bytes for each. Who looks for a pair reads the
//! fingerprints of a day, and then the rows of those pieces that have it; the condition decides as ever. Rows that are written together
//! are not in order of time, so a piece has rows of one span of time: a minute, and beyond some hundred rows in it a second. Tables
//! that older versions made have none.

use super::key_ranges::KeyRange;
use crate::ledger::days::suffix;
use crate::ledger::filter::Filter;
use crate::ledger::id::{day_key, ms_key};
use crate::ledger::log_store::LogError;
use crate::ledger::{Row, RowKind};
use crate::store::sql::{Dialect, SqlCondition};
use crate::store::sqlite::run;
use foldhash::fast::RandomState;
use rusqlite::{Connection, params};
use siphasher::sip::SipHasher13;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::Hasher as _;
use std::ops::ControlFlow;
use words::json::walk;

/// Bits of a key below a minute of 65,536 milliseconds, and below a second of 1,024.
const MINUTE_BITS: u32 = 52;
const SECOND_BITS: u32 = 46;
/// A piece with so many rows, or fingerprints, takes no more.
const MAX_ROWS: usize = 512;
const MAX_PRINTS: usize = 2_048;
/// Pieces and fingerprints that are remembered; beyond, all are forgotten, and other pieces begin.
const MAX_PIECES: usize = 10_000;
const MAX_REMEMBERED: usize = 200_000;

/// The name of a day's table of pieces.
pub(super) fn table(day: i64) -> String {
    format!("pairs_{}", suffix(day))
}

/// The statement that makes the table of a day, where it is not there. `first`, `last`: keys of rows. `prints`: of 4 bytes each.
pub(super) fn make(day: i64) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (id INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, prints BLOB NOT NULL);",
        table(day)
    )
}

/// The pieces that take more rows.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    open: HashMap<Span, Piece, RandomState>,
    remembered: usize,
}

/// A day, and a span of time in it: its length and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Span {
    day: i64,
    bits: u32,
    number: i64,
}

#[derive(Debug, Default)]
struct Piece {
    /// `None`: it is not in the database yet.
    id: Option<i64>,
    first: i64,
    last: i64,
    rows: usize,
    prints: Vec<u8>,
    has: HashSet<u32, RandomState>,
    is_changed: bool,
    /// It takes no more, and its fingerprints are forgotten.
    is_full: bool,
}

impl Pairs {
    /// Adds the pairs of a row of this day. They are in the database after [`Pairs::save`].
    pub(super) fn add(&mut self, day: i64, row: &Row) {
        let Some(metadata) = row.metadata.as_deref().filter(|_| row.kind == RowKind::Request) else { return };
        let key = day_key(row.id);
        let span = |bits: u32| Span { day, bits, number: key >> bits };
        let minute = span(MINUTE_BITS);
        let is_full = self.open.get(&minute).is_some_and(|piece| piece.is_full);
        let piece = self.open.entry(if is_full { span(SECOND_BITS) } else { minute }).or_default();
        if piece.is_full {
            *piece = Piece::default();
        }
        piece.first = if piece.rows == 0 { key } else { piece.first.min(key) };
        piece.last = if piece.rows == 0 { key } else { piece.last.max(key) };
        piece.rows += 1;
        piece.is_changed = true;
        for print in prints(metadata) {
            if piece.has.insert(print) {
                piece.prints.extend_from_slice(&print.to_le_bytes());
                self.remembered += 1;
            }
        }
    }

    /// Writes the pieces that have changed.
    ///
    /// # Errors
    /// The database's.
    pub(super) fn save(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let changed = self.open.iter_mut().filter(|(_, piece)| piece.is_changed);
        for (span, piece) in changed {
            let table = table(span.day);
            let first = piece.first;
            let last = piece.last;
            match piece.id {
                Some(id) => {
                    let sql = format!("UPDATE {table} SET first = ?, last = ?, prints = ? WHERE id = ?");
                    connection.prepare_cached(&sql)?.execute(params![first, last, piece.prints, id])?;
                }
                None => {
                    let sql = format!("INSERT INTO {table} (first, last, prints) VALUES (?, ?, ?)");
                    connection.prepare_cached(&sql)?.execute(params![first, last, piece.prints])?;
                    piece.id = Some(connection.last_insert_rowid());
                }
            }
            piece.is_changed = false;
            if piece.rows >= MAX_ROWS || piece.has.len() >= MAX_PRINTS {
                self.remembered = self.remembered.saturating_sub(piece.has.len());
                *piece = Piece { is_full: true, ..Piece::default() };
            }
        }
        if self.open.len() > MAX_PIECES || self.remembered > MAX_REMEMBERED {
            *self = Self::default();
        }
        Ok(())
    }
}

/// The fingerprints of a row's pairs. What is no text is no pair.
fn prints(metadata: &str) -> impl Iterator<Item = u32> {
    let members = walk::members(metadata.as_bytes()).into_iter().flatten();
    members.filter_map(|(name, value)| {
        let value = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        Some(print(&unescaped(name)?, &unescaped(value)?))
    })
}

/// The text between the quotes of a JSON string.
fn unescaped(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !text.contains(&b'\\') {
        return Some(Cow::Borrowed(text));
    }
    let text: String = serde_json::from_slice(&[b"\"", text, b"\""].concat()).ok()?;
    Some(Cow::Owned(text.into_bytes()))
}

/// The fingerprint of a pair. The same in all versions: it is in the database. Clients may choose pairs with equal ones, and make their own
/// lists slow.
fn print(name: &[u8], value: &[u8]) -> u32 {
    let mut hasher = SipHasher13::new_with_keys(0x7475_726e, 0x7069_6b65);
    hasher.write(&(name.len() as u64).to_le_bytes());
    hasher.write(name);
    hasher.write(value);
    (hasher.finish() & u64::from(u32::MAX)) as u32
}

/// The keys among which the rows of a day are that have all pairs of the filter, the last ones first. `None`: among all of the day, because
/// it asks for none, or the day has no pieces.
///
/// # Errors
/// The database's.
pub(super) fn ranges(
    connection: &Connection,
    filter: &Filter,
    day: i64,
) -> Result<Option<Vec<KeyRange>>, LogError> {
    if filter.metadata.is_empty() || !super::read::has_table(connection, &table(day))? {
        return Ok(None);
    }
    let wanted = filter.metadata.iter().map(|(name, value)| print(name.as_bytes(), value.as_bytes()));
    let wanted: Vec<[u8; 4]> = wanted.map(u32::to_le_bytes).collect();
    let mut condition = SqlCondition::new(Dialect::Sqlite);
    condition.compare("last >=", filter.since.map(ms_key));
    condition.compare("first <", filter.until.map(ms_key));
    condition.compare("first <", filter.before.map(day_key));
    let sql = format!("SELECT first, last, prints FROM {} WHERE {}", table(day), condition.sql());
    let mut found = Vec::new();
    run::query(connection, &condition.into_statement(sql), |row| {
        let prints = row.get_ref(2)?.as_blob().unwrap_or_default();
        let (prints, _) = prints.as_chunks::<4>();
        if wanted.iter().all(|print| prints.contains(print)) {
            found.push(row.get(0)?..=row.get(1)?);
        }
        Ok::<_, LogError>(ControlFlow::Continue(()))
    })?;
    Ok(Some(super::key_ranges::in_order(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_those_that_a_filter_names() {
        let of = |text: &str| prints(text).collect::<Vec<u32>>();
        let [team, quoted] = [print(b"team", b"search"), print(b"a\"b", "é\n".as_bytes())];
        assert_eq!(of(r#"{"team":"search"}"#), [team]);
        assert_eq!(of(r#"{ "team" : "search" , "n": 7, "x": null, "o": {"team":"x"} }"#), [team]);
        assert_eq!(of(r#"{"a\"b":"\u00e9\n","team":"search"}"#), [quoted, team]);
        assert_eq!(of("[]"), Vec::<u32>::new());
        assert_ne!(print(b"ab", b"c"), print(b"a", b"bc"));
        // It is in databases.
        assert_eq!(print(b"team", b"search"), 0xb453_503c);
    }
}
