//! Which seconds of a day have a row with a value, for the columns that lists filter by. Indexes of rows by these columns took seven
//! tenths of the time of a write.
//!
//! A row is in the block of its key, about a second long. A mark says that some row of a block has a value in a column; who looks for rows
//! with that value reads the marked blocks, and the condition decides as ever. Tables that older versions made have indexes and no marks.

use super::key_ranges::KeyRange;
use crate::ledger::days::suffix;
use crate::ledger::filter::Filter;
use crate::ledger::id::{day_key, ms_key};
use crate::ledger::log_store::LogError;
use crate::ledger::{Row, RowKind, Text};
use crate::store::sql::{Dialect, SqlCondition, Statement, Value};
use crate::store::sqlite::run;
use foldhash::fast::RandomState;
use rusqlite::{Connection, params_from_iter};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use uuid::Uuid;

/// Bits of a key below its block: 1,024 milliseconds.
const BLOCK_BITS: u32 = 46;
/// The marks that are remembered are forgotten after so many: then some are written again, which changes nothing.
const MAX_REMEMBERED: usize = 50_000;

/// The columns with marks, by their numbers in the database.
#[derive(Debug, Clone, Copy)]
enum Marked {
    Workspace = 0,
    ApiKey = 1,
    Model = 2,
    Provider = 3,
    Status = 4,
}

/// The name of a day's table of marks.
pub(super) fn table(day: i64) -> String {
    format!("marks_{}", suffix(day))
}

/// The statement that makes the table of a day, where it is not there.
pub(super) fn make(day: i64) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (name INTEGER NOT NULL, value NOT NULL, block INTEGER NOT NULL,
             PRIMARY KEY (name, value, block)) WITHOUT ROWID;",
        table(day)
    )
}

/// The marks that are in the database already, of the blocks that were written last.
#[derive(Debug, Default)]
pub(super) struct Marks {
    blocks: HashMap<(i64, i64), BlockMarks, RandomState>,
    count: usize,
}

/// The values of one block.
#[derive(Debug, Default)]
struct BlockMarks {
    workspaces: HashSet<Option<Uuid>, RandomState>,
    api_keys: HashSet<Text, RandomState>,
    models: HashSet<Text, RandomState>,
    providers: HashSet<Text, RandomState>,
    statuses: HashSet<u16, RandomState>,
}

impl Marks {
    /// Adds those of a row of this day that are not there, with the statement of [`insert`].
    pub(super) fn add(
        &mut self,
        insert: &mut rusqlite::CachedStatement<'_>,
        day: i64,
        row: &Row,
    ) -> rusqlite::Result<()> {
        if row.kind != RowKind::Request {
            return Ok(());
        }
        if self.count > MAX_REMEMBERED {
            *self = Self::default();
        }
        let block = day_key(row.id) >> BLOCK_BITS;
        let of_block = self.blocks.entry((day, block)).or_default();
        let mut count = 0;
        let mut put = |name: Marked, value: Value<'_>| {
            count += 1;
            insert.execute(params_from_iter([(name as i64).into(), value, block.into()])).map(|_| ())
        };
        if of_block.workspaces.insert(row.workspace) {
            put(Marked::Workspace, workspace(row.workspace.as_ref()))?;
        }
        if of_block.statuses.insert(row.status) {
            put(Marked::Status, i64::from(row.status).into())?;
        }
        let texts = [
            (Marked::ApiKey, &row.api_key, &mut of_block.api_keys),
            (Marked::Model, &row.model, &mut of_block.models),
            (Marked::Provider, &row.provider, &mut of_block.providers),
        ];
        for (name, text, of_block) in texts {
            if let Some(text) = text.as_ref().filter(|text| !of_block.contains(text.as_str())) {
                put(name, text.as_str().into())?;
                of_block.insert(text.clone());
            }
        }
        self.count += count;
        Ok(())
    }
}

/// The statement that adds a mark of a day: name, value, block.
pub(super) fn insert(day: i64) -> String {
    format!("INSERT OR IGNORE INTO {} (name, value, block) VALUES (?, ?, ?)", table(day))
}

/// A workspace as marks have it: none is an empty value.
fn workspace(id: Option<&Uuid>) -> Value<'_> {
    id.map_or(Value::Bytes(&[]), |id| Value::Uuid(*id))
}

/// The keys among which the rows of a day are that the filter is about, the last ones first. `None`: among all of the day, because nothing
/// is marked that it asks for, or another way is shorter.
pub(super) fn ranges(
    connection: &Connection,
    filter: &Filter,
    day: i64,
) -> Result<Option<Vec<KeyRange>>, LogError> {
    if !super::read::has_table(connection, &table(day))? {
        return Ok(None);
    }
    let mut condition = SqlCondition::new(Dialect::Sqlite);
    let mut parts = Vec::new();
    for (name, values) in filtered(filter) {
        let places: Vec<String> = values.into_iter().map(|value| condition.argument(value)).collect();
        parts.push(format!(
            "SELECT block FROM {} WHERE name = {} AND value IN ({})",
            table(day),
            name as i64,
            places.join(", ")
        ));
    }
    if parts.is_empty() {
        return Ok(None);
    }
    let block = |key: i64| key >> BLOCK_BITS;
    condition.compare("block >=", filter.since.map(|since| block(ms_key(since))));
    condition.compare("block <=", filter.until.map(|until| block(ms_key(until))));
    condition.compare("block <=", filter.before.map(|id| block(day_key(id))));
    let sql = format!(
        "SELECT block FROM ({}) WHERE {} GROUP BY block ORDER BY block DESC",
        parts.join(" INTERSECT "),
        condition.sql()
    );
    let mut ranges: Vec<KeyRange> = Vec::new();
    run::query(connection, &condition.into_statement(sql), |row| {
        let block: i64 = row.get(0)?;
        let keys = (block << BLOCK_BITS)..=(((block + 1) << BLOCK_BITS) - 1);
        match ranges.last_mut() {
            // Neighbours are read in one go.
            Some(later) if *later.start() == keys.end() + 1 => *later = *keys.start()..=*later.end(),
            _ => ranges.push(keys),
        }
        Ok::<_, LogError>(ControlFlow::Continue(()))
    })?;
    Ok(Some(ranges))
}

/// Texts as values.
fn texts(all: &[String]) -> Vec<Value<'_>> {
    all.iter().map(|text| Value::from(text.as_str())).collect()
}

/// What the filter asks of columns with marks: one of the values, of each column.
fn filtered(filter: &Filter) -> Vec<(Marked, Vec<Value<'_>>)> {
    let workspaces = filter.workspaces.iter().flatten();
    let workspaces = workspaces.map(|id| workspace((!id.is_nil()).then_some(id))).collect();
    let statuses = filter.status_codes.iter().filter_map(|code| code.parse::<i64>().ok()).map(Value::Int);
    let pairs = filter.vendor_models.iter().map(|(_, model)| Value::from(model.as_str()));
    let all = [
        (Marked::Workspace, workspaces),
        (Marked::ApiKey, texts(&filter.api_keys)),
        (Marked::Model, texts(&filter.models)),
        (Marked::Model, pairs.collect()),
        (Marked::Provider, texts(&filter.providers)),
        (Marked::Status, statuses.collect()),
    ];
    all.into_iter().filter(|(_, values)| !values.is_empty()).collect()
}

/// Runs a statement whose last two arguments are left out for each of the ranges, in their order, with its first and last key.
pub(super) fn query(
    connection: &Connection,
    statement: &Statement<'_>,
    ranges: &[KeyRange],
    mut each: impl FnMut(&rusqlite::Row<'_>) -> Result<ControlFlow<()>, LogError>,
) -> Result<(), LogError> {
    let mut prepared = connection.prepare(&run::text(statement))?;
    for range in ranges {
        let keys = [Value::Int(*range.start()), Value::Int(*range.end())];
        let mut rows = prepared.query(params_from_iter(statement.values.iter().chain(&keys)))?;
        while let Some(row) = rows.next()? {
            if each(row)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}
