//! Lists by what rows have, on each log store, compared with reading all rows; and SQLite's marks, which lead to them.

use super::log_stores::{count, found, on_each};
use super::{entries, rows};
use crate::ledger::days::{day, suffix};
use crate::ledger::filter::{Bounds, Filter};
use crate::ledger::id::RowIds;
use crate::ledger::log_store::{Expiry, LogStore};
use crate::ledger::matching::{Candidate, Matcher};
use crate::ledger::row::{MS_A_DAY, sample};
use crate::ledger::sqlite::SqliteLogs;
use crate::ledger::{Row, Text};
use uuid::Uuid;

/// A thousand rows of two days, some in the same second, with values that many of them have, and some that few have.
fn many() -> Vec<Row> {
    let ids = RowIds::default();
    let midnight = sample(0).created_ms / MS_A_DAY * MS_A_DAY;
    let mut random = fastrand::Rng::with_seed(37);
    let mut made = |number: u16| {
        let created_ms = midnight + MS_A_DAY + random.i64(-400_000..400_000) / 300 * 300;
        let mut text = |name: &str, of: u32| Text::from(format!("{name}-{}", random.u32(0..of)));
        Row {
            id: ids.new_id(created_ms),
            created_ms,
            trace_id: format!("trace-{number}").into(),
            api_key: Some(text("key", 4)),
            model: Some(text("model", 300)),
            vendor: Some(text("vendor", 2)),
            provider: (!number.is_multiple_of(3)).then(|| text("provider", 2)),
            metadata: (!number.is_multiple_of(7)).then(|| {
                let team = if number.is_multiple_of(2) { "te\\u0061m" } else { "team" };
                Text::from(format!("{{ \"{team}\": \"t-{}\", \"run\": \"run-{number}\"}}", number % 4))
            }),
            workspace: (!number.is_multiple_of(5)).then(|| Uuid::from_u128((number % 5).into())),
            status: if number.is_multiple_of(50) { 429 } else { 200 },
            ..sample(number)
        }
    };
    (0..1000).map(&mut made).collect()
}

/// A filter, and what it means.
struct Case {
    filter: Filter,
    matches: fn(&Row) -> bool,
}

fn one(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

fn cases() -> Vec<Case> {
    let all = Filter::default();
    vec![
        Case {
            filter: Filter { models: one("model-7"), ..all.clone() },
            matches: |row| has(&row.model, "model-7"),
        },
        Case {
            filter: Filter { providers: one("provider-1"), ..all.clone() },
            matches: |row| has(&row.provider, "provider-1"),
        },
        Case {
            filter: Filter { api_keys: one("key-3"), status_codes: one("429"), ..all.clone() },
            matches: |row| has(&row.api_key, "key-3") && row.status == 429,
        },
        Case {
            filter: Filter { status_codes: vec!["429".to_owned(), "500".to_owned()], ..all.clone() },
            matches: |row| row.status == 429,
        },
        Case {
            filter: Filter { workspaces: Some(vec![Uuid::nil(), Uuid::from_u128(2)]), ..all.clone() },
            matches: |row| row.workspace.is_none_or(|id| id == Uuid::from_u128(2)),
        },
        Case {
            filter: Filter { workspaces: Some(vec![Uuid::from_u128(9)]), ..all.clone() },
            matches: |_| false,
        },
        Case {
            filter: Filter {
                vendor_models: vec![
                    ("vendor-1".to_owned(), "model-7".to_owned()),
                    ("vendor-0".to_owned(), "model-8".to_owned()),
                ],
                api_keys: vec!["key-0".to_owned(), "key-1".to_owned()],
                ..all.clone()
            },
            matches: |row| {
                (has(&row.vendor, "vendor-1") && has(&row.model, "model-7")
                    || has(&row.vendor, "vendor-0") && has(&row.model, "model-8"))
                    && (has(&row.api_key, "key-0") || has(&row.api_key, "key-1"))
            },
        },
        Case {
            filter: Filter { traces: one("trace-77"), status_codes: one("200"), ..all },
            matches: |row| &*row.trace_id == "trace-77" && row.status == 200,
        },
    ]
}

fn cases_of_amounts_and_guardrails() -> Vec<Case> {
    let all = Filter::default();
    vec![
        Case {
            filter: Filter {
                cost: Bounds { min: Some(70), max: None },
                output_tokens: Bounds { min: None, max: Some(1000) },
                ..all.clone()
            },
            matches: |row| row.cost >= Some(70) && row.output_tokens <= Some(1000),
        },
        Case {
            filter: Filter {
                guardrails: vec!["guardrail-7".to_owned(), "guardrail-19".to_owned()],
                ..all.clone()
            },
            matches: |row| {
                has(&row.guardrails, ",guardrail-7,other,") || has(&row.guardrails, ",guardrail-19,other,")
            },
        },
        Case {
            filter: Filter { prompt_cache_misses: one("time"), ..all.clone() },
            matches: |row| row.prompt_cache_miss.as_deref() == Some("time"),
        },
        Case { filter: Filter { guardrails: one("ther"), ..all.clone() }, matches: |_| false },
    ]
}

fn cases_of_metadata() -> Vec<Case> {
    let all = Filter::default();
    vec![
        Case {
            filter: Filter { metadata: pairs(&[("run", "run-78")]), ..all.clone() },
            matches: |row| mentions(row, "run-78\""),
        },
        Case {
            filter: Filter { metadata: pairs(&[("team", "t-1"), ("run", "run-5")]), ..all.clone() },
            matches: |row| mentions(row, "\"t-1\"") && mentions(row, "run-5\""),
        },
        Case {
            filter: Filter { metadata: pairs(&[("team", "t-1"), ("run", "run-6")]), ..all.clone() },
            matches: |_| false,
        },
        Case {
            filter: Filter { metadata: pairs(&[("team", "t-3")]), models: one("model-7"), ..all },
            matches: |row| mentions(row, "\"t-3\"") && has(&row.model, "model-7"),
        },
    ]
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Whether the metadata of a row has this text.
fn mentions(row: &Row, text: &str) -> bool {
    row.metadata.as_deref().is_some_and(|metadata| metadata.contains(text))
}

fn has(text: &Option<Text>, wanted: &str) -> bool {
    text.as_deref() == Some(wanted)
}

fn check(store: &dyn LogStore, all: &[Row]) {
    for Case { filter, matches } in
        cases().into_iter().chain(cases_of_metadata()).chain(cases_of_amounts_and_guardrails())
    {
        let times = [None, all.get(100).map(|row| row.created_ms)];
        for (since, until) in times.into_iter().flat_map(|since| times.map(|until| (since, until))) {
            let before = all.get(200).filter(|_| since.is_some()).map(|row| row.id);
            let filter = Filter { since, until, before, ..filter.clone() };
            let mut wanted: Vec<Row> = all.iter().filter(|row| matches(row)).cloned().collect();
            wanted.retain(|row| since.is_none_or(|since| row.created_ms >= since));
            wanted.retain(|row| until.is_none_or(|until| row.created_ms < until));
            wanted.retain(|row| before.is_none_or(|id| row.id < id));
            if before.is_none() {
                let matcher = Matcher::new(filter.clone());
                let is_wanted = |row: &&Row| matcher.matches(&Candidate::new(row));
                let at_hand: Vec<&Row> = all.iter().filter(is_wanted).collect();
                assert_eq!(at_hand, wanted.iter().collect::<Vec<_>>(), "{filter:?}");
            }
            wanted.sort_unstable_by_key(|row| std::cmp::Reverse(row.id));
            assert_eq!(found(store, &filter, 0, 2000), wanted, "{filter:?}");
            assert_eq!(count(store, &filter), wanted.len() as u64, "{filter:?}");
            let after: Vec<Row> = wanted.into_iter().skip(3).take(4).collect();
            assert_eq!(found(store, &filter, 3, 4), after, "{filter:?}");
        }
    }
}

#[test]
fn lists_have_the_rows_that_match_in_order_of_time() {
    on_each(|store| {
        let all = many();
        for some in all.chunks(170) {
            store.write(&entries(some)).unwrap();
        }
        check(store, &all);
    });
}

/// Such as the day on which the new version was started.
#[test]
fn tables_without_marks_or_pairs_are_read_whole() {
    ["marks", "pairs"].into_iter().for_each(is_read_whole_without);
}

fn is_read_whole_without(finding: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("logs.db");
    let all = many();
    SqliteLogs::new(file.clone()).write(&entries(&all[..500])).unwrap();
    let connection = rusqlite::Connection::open(&file).unwrap();
    let table = format!("{finding}_{}", suffix(day(all[0].created_ms)));
    connection.execute_batch(&format!("DROP TABLE {table}; PRAGMA user_version = 1;")).unwrap();
    let store = SqliteLogs::new(file);
    store.write(&entries(&all[500..])).unwrap();
    check(&store, &all);
    let is_there = "SELECT count(*) FROM sqlite_schema WHERE name = ?";
    assert_eq!(connection.query_row(is_there, [table], |row| row.get(0)), Ok(0));
}

#[test]
fn marks_go_with_their_rows_and_come_back_with_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("logs.db");
    let store = SqliteLogs::new(file.clone());
    let all = rows(0..3);
    store.write(&entries(&all)).unwrap();
    let expiry = Expiry { rows: Some(all[0].created_ms + MS_A_DAY), ..Expiry::default() };
    assert_eq!(store.expire(&expiry).unwrap().len(), 2);
    let connection = rusqlite::Connection::open(&file).unwrap();
    let marks = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND (name LIKE 'marks%' OR name LIKE 'pairs%')";
    assert_eq!(connection.query_row(marks, [], |row| row.get(0)), Ok(0));
    store.write(&entries(&all)).unwrap();
    let filter = Filter { models: one("model-2"), ..Filter::default() };
    assert_eq!(found(&store, &filter, 0, 9), all[2..]);
}

/// The rows of the days that stay are still there, and new ones take the free room.
#[test]
fn what_more_than_a_fifth_of_the_file_is_free_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("logs.db");
    let store = SqliteLogs::new(file.clone());
    let old = rows(0..3_000);
    let ids = RowIds::default();
    let later = old.iter().take(300).map(|row| {
        let created_ms = row.created_ms + 2 * MS_A_DAY;
        Row { id: ids.new_id(created_ms), created_ms, ..row.clone() }
    });
    let later: Vec<Row> = later.collect();
    store.write(&entries(&old)).unwrap();
    store.write(&entries(&later)).unwrap();
    let connection = rusqlite::Connection::open(&file).unwrap();
    let pages = || {
        let number =
            |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        (number("freelist_count"), number("page_count"))
    };
    let (_, before) = pages();
    store.expire(&Expiry { rows: Some(later[0].created_ms), ..Expiry::default() }).unwrap();
    let (free, after) = pages();
    assert!(free <= after / 5 && after < before, "{free} of {after}, {before} before");
    assert_eq!(found(&store, &Filter::default(), 0, 9_999).len(), 300);
}
