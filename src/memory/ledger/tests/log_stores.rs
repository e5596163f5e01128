//! The log stores: the same on each database that this machine has.

use super::{entries, rows};
use crate::ledger::days::{day, suffix};
use crate::ledger::filter::{Bounds, Filter};
use crate::ledger::id::RowIds;
use crate::ledger::log_store::{Expiry, LogError, LogStore, ReadControl};
use crate::ledger::postgres::PostgresLogs;
use crate::ledger::row::{MS_A_DAY, RowKind};
use crate::ledger::sqlite::SqliteLogs;
use crate::ledger::{Entry, Feedback, Row, Text};
use crate::store::tests::postgres_server;
use std::ops::ControlFlow;
use std::sync::Arc;
use uuid::Uuid;
use words::config::secret::Secret;

/// Runs a test on an empty log store of each kind.
pub(super) fn on_each(test: impl Fn(&dyn LogStore)) {
    let folder = tempfile::tempdir().unwrap();
    test(&SqliteLogs::new(folder.path().join("data/logs.db")));
    if let Some(server) = postgres_server::shared() {
        test(&PostgresLogs::new(&Secret::new(server.new_database())).unwrap());
    }
}

pub(super) fn found(store: &dyn LogStore, filter: &Filter, offset: u64, limit: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let take = &mut |row| {
        rows.push(row);
        if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    store.scan(filter, offset, &Arc::default(), take).unwrap();
    rows
}

pub(super) fn count(store: &dyn LogStore, filter: &Filter) -> u64 {
    let control = Arc::new(ReadControl::default());
    store.count(filter, &control).unwrap();
    control.found.load(std::sync::atomic::Ordering::Relaxed)
}

/// Rows of three days, ten a day, with an attempt each.
fn three_days() -> Vec<Row> {
    let ids = RowIds::default();
    let mut all = Vec::new();
    for row in rows(0..30) {
        let created_ms = row.created_ms + i64::from(row.status) / 10 * MS_A_DAY;
        let request = Row { id: ids.new_id(created_ms), created_ms, ..row.clone() };
        let attempt = Row {
            id: ids.new_id(created_ms + 1),
            kind: RowKind::Attempt,
            request: Some(request.id),
            created_ms: created_ms + 1,
            ..request.clone()
        };
        all.extend([request, attempt]);
    }
    all
}

#[test]
fn rows_are_kept_once_and_found_by_what_they_are() {
    on_each(|store| {
        let all = three_days();
        assert_eq!(store.write(&entries(&all[..40])).unwrap(), 40);
        assert_eq!(store.write(&entries(&all)).unwrap(), 20);
        let requests: Vec<Row> =
            all.iter().rev().filter(|row| row.kind == RowKind::Request).cloned().collect();
        let everything = Filter::default();
        assert_eq!(found(store, &everything, 0, 100), requests);
        assert_eq!(found(store, &everything, 9, 5), requests[9..14]);
        assert_eq!(found(store, &everything, 25, 50), requests[25..]);
        assert_eq!(count(store, &everything), 30);
        let one = &requests[17];
        assert_eq!(store.row(one.id).unwrap().as_ref(), Some(one));
        assert_eq!(store.row(Uuid::now_v7()).unwrap(), None);
        assert_eq!(store.attempts(one).unwrap().len(), 1);
        let number = one.status;
        let filters = [
            Filter { traces: vec![one.trace_id.to_string()], ..Filter::default() },
            Filter { models: vec![format!("model-{number}")], ..Filter::default() },
            Filter { api_keys: vec![format!("key-{number}"), "other".to_owned()], ..Filter::default() },
            Filter {
                vendor_models: vec![(format!("vendor-{number}"), format!("model-{number}"))],
                ..Filter::default()
            },
            Filter { metadata: vec![("_user".to_owned(), format!("user-{number}"))], ..Filter::default() },
            Filter { since: Some(one.created_ms), until: Some(one.created_ms + 1), ..Filter::default() },
            Filter { cost: Bounds { min: one.cost, max: one.cost }, ..Filter::default() },
        ];
        for filter in filters {
            assert_eq!(found(store, &filter, 0, 9), std::slice::from_ref(one), "{filter:?}");
            assert_eq!(count(store, &filter), 1);
        }
        let nowhere = Filter { workspaces: Some(Vec::new()), ..Filter::default() };
        assert_eq!(count(store, &nowhere), 0);
    });
}

#[test]
fn payloads_and_rows_expire_by_whole_days() {
    on_each(|store| {
        let all = three_days();
        let payload = Some(Arc::from(b"text".as_slice()));
        let with_payloads: Vec<Entry> =
            all.iter().map(|row| Entry { payload: payload.clone(), ..Entry::from(row.clone()) }).collect();
        store.write(&with_payloads).unwrap();
        let first = all.first().unwrap();
        let last = all.last().unwrap();
        assert_eq!(store.payload(first.id).unwrap().as_deref(), Some(b"text".as_slice()));
        let expiry = Expiry { payloads: Some(first.created_ms + MS_A_DAY), ..Expiry::default() };
        assert_eq!(store.expire(&expiry).unwrap().len(), 1);
        assert_eq!(store.payload(first.id).unwrap(), None);
        assert!(store.row(first.id).unwrap().is_some());
        let expiry = Expiry { rows: Some(last.created_ms), ..Expiry::default() };
        assert_eq!(store.expire(&expiry).unwrap().len(), 3);
        assert_eq!(count(store, &Filter::default()), 10);
        assert!(store.payload(last.id).unwrap().is_some());
        // The day begins anew where a row of it comes late.
        assert_eq!(store.write(&entries(&all[..2])).unwrap(), 2);
        assert_eq!(count(store, &Filter::default()), 11);
    });
}

#[test]
fn feedback_is_replaced_by_its_id_and_filters_traces() {
    on_each(|store| {
        let all = three_days();
        store.write(&entries(&all)).unwrap();
        let feedback = |trace: &Text, value: i64| Feedback {
            id: Uuid::now_v7(),
            created_ms: 1,
            trace_id: trace.to_string(),
            workspace: all[0].workspace,
            value,
            weight: 0.5,
            metadata: Some("{}".to_owned()),
        };
        let both = [feedback(&all[0].trace_id, 4), feedback(&all[2].trace_id, -4)];
        store.put_feedback(&both).unwrap();
        let liked = Filter { feedback: Bounds { min: Some(1.5), max: None }, ..Filter::default() };
        assert_eq!(found(store, &liked, 0, 9), all[..1]);
        store.put_feedback(&[Feedback { value: 10, ..both[1].clone() }]).unwrap();
        assert_eq!(count(store, &liked), 2);
        assert_eq!(store.feedback(both[1].id).unwrap().unwrap().value, 10);
    });
}

#[test]
fn a_path_that_cannot_be_is_unavailable_until_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let blocker = folder.path().join("data");
    std::fs::write(&blocker, "").unwrap();
    let store = SqliteLogs::new(blocker.join("logs.db"));
    let all = three_days();
    assert!(matches!(store.write(&entries(&all)), Err(LogError::Unavailable(_))));
    assert!(matches!(store.row(all[0].id), Err(LogError::Unavailable(_))));
    std::fs::remove_file(&blocker).unwrap();
    assert_eq!(store.write(&entries(&all)).unwrap(), all.len());
}

/// The first row, after the tables lost columns that an older gateway would not have made.
fn check_row_without_columns(store: &dyn LogStore, row: &Row) {
    let kept = Row { target: None, bytes_out: 0, ..row.clone() };
    let later = Row {
        id: RowIds::default().new_id(row.created_ms + 1),
        created_ms: row.created_ms + 1,
        ..row.clone()
    };
    assert_eq!(store.write(&entries(std::slice::from_ref(&later))).unwrap(), 1);
    assert_eq!(store.row(row.id).unwrap(), Some(kept));
    assert_eq!(store.row(later.id).unwrap(), Some(later));
}

#[test]
fn sqlite_tables_of_an_older_gateway_get_the_columns_that_they_lack() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("logs.db");
    let row = rows(0..1).remove(0);
    SqliteLogs::new(file.clone()).write(&entries(std::slice::from_ref(&row))).unwrap();
    let connection = rusqlite::Connection::open(&file).unwrap();
    let table = format!("rows_{}", suffix(day(row.created_ms)));
    for column in ["target", "bytes_out"] {
        connection.execute_batch(&format!("ALTER TABLE {table} DROP COLUMN {column}")).unwrap();
    }
    drop(connection);
    check_row_without_columns(&SqliteLogs::new(file), &row);
}

#[test]
fn postgres_tables_of_an_older_gateway_get_the_columns_that_they_lack() {
    let Some(server) = postgres_server::shared() else { return };
    let url = server.new_database();
    let row = rows(0..1).remove(0);
    let open = || PostgresLogs::new(&Secret::new(url.as_str())).unwrap();
    open().write(&entries(std::slice::from_ref(&row))).unwrap();
    let drop = "ALTER TABLE log_rows DROP COLUMN target; ALTER TABLE log_rows DROP COLUMN bytes_out";
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        let connected = tokio::spawn(connection);
        client.batch_execute(drop).await.unwrap();
        connected.abort();
    });
    check_row_without_columns(&open(), &row);
}

/// A file that is gone takes no rows: the write fails, and the next one makes the file anew.
#[test]
fn rows_are_not_written_into_a_deleted_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("logs.db");
    let store = SqliteLogs::new(file.clone());
    let all = rows(0..3);
    store.write(&entries(&all[..1])).unwrap();
    assert_eq!(count(&store, &Filter::default()), 1);
    std::fs::remove_file(&file).unwrap();
    let refused = store.write(&entries(&all[1..2]));
    assert!(matches!(refused, Err(LogError::Unavailable(ref why)) if why.contains("logs.db")), "{refused:?}");
    store.write(&entries(&all[1..2])).unwrap();
    assert_eq!(count(&store, &Filter::default()), 1, "what was in the deleted file is not read any more");
    let again = SqliteLogs::new(file);
    assert_eq!(found(&again, &Filter::default(), 0, 9), all[1..2]);
}
