//! Answers of rollups equal those computed from the rows: counts and sums to the unit, percentiles within one per cent.

use super::super::filter::{Bounds, Filter};
use super::super::id::RowIds;
use super::super::log_store::LogStore;
use super::super::rollup::sample::{Dimension, Sample};
use super::super::rollup::{HourCells, absorb, statements::tables, storage};
use super::super::sqlite::SqliteLogs;
use super::super::{Entry, Feedback, Row, RowKind, Text};
use super::*;
use crate::ledger::postgres::PostgresLogs;
use crate::store::sql::Dialect;
use crate::store::tests::postgres_server;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use uuid::Uuid;
use words::config::secret::Secret;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

const MODELS: [&str; 3] = ["gpt-4o", "haiku", "gpt,4"];
const STATUS: [u16; 4] = [200, 200, 429, 500];
const CACHE: [Option<&str>; 4] = [None, Some("HIT"), Some("SEMANTIC HIT"), Some("MISS")];
const COST: [(Option<i64>, Option<&str>); 4] =
    [(Some(75_000), Some("priced")), (Some(0), Some("free")), (None, Some("unknown")), (None, None)];

/// A row of nothing but what analytics reads; everything else follows from `number`.
fn row(number: u64, created_ms: i64) -> Row {
    let pick = |of: u64, from: usize| (number / of) as usize % from;
    let status = STATUS[pick(1, 4)];
    let (cost, cost_status) = COST[pick(3, 4)];
    Row {
        created_ms,
        workspace: [None, Some(Uuid::from_u128(1)), Some(Uuid::from_u128(2))][pick(2, 3)],
        vendor: Some(["openai", "anthropic"][pick(5, 2)].into()),
        model: (pick(7, 5) > 0).then(|| MODELS[pick(7, 3)].into()),
        api_key: Some(format!("key-{}", pick(11, 4)).into()),
        provider: (pick(13, 3) > 0).then(|| "emu".into()),
        config: (pick(17, 2) > 0).then(|| "pc-a".into()),
        prompt: (pick(19, 4) > 2).then(|| "pp-a".into()),
        cache_status: CACHE[pick(23, 4)].map(Text::from),
        status,
        is_success: status == 200,
        input_tokens: (pick(29, 6) > 0).then_some(number % 1000),
        output_tokens: Some(number % 77),
        total_tokens: Some(number % 1000 + number % 77),
        cost,
        cost_status: cost_status.map(Text::from),
        saved_cost: Some(number as i64 % 1_000_000),
        latency_us: number.wrapping_mul(2_654_435_761) % 3_000_000,
        retries: pick(31, 12) as i32 - 1,
        is_fallback: pick(37, 2) == 0,
        trace_id: format!("trace-{}", pick(41, 50)).into(),
        user: (pick(43, 3) > 0).then(|| format!("user-{}", pick(47, 5)).into()),
        metadata: (pick(53, 4) > 0)
            .then(|| format!("{{\"te\\\"am\":\"t{}\",\"x\":\"1\"}}", pick(59, 3)).into()),
        ..blank()
    }
}

fn blank() -> Row {
    let row = Row::new(Uuid::nil(), RowKind::Request, 0);
    Row { trace_id: "t".into(), status: 200, is_success: true, ..row }
}

/// A member of the row's metadata.
fn member(row: &Row, name: &str) -> Option<String> {
    let members: serde_json::Value = serde_json::from_str(row.metadata.as_deref()?).unwrap();
    members.get(name)?.as_str().map(str::to_owned)
}

/// Whether a row is one that the query is about, by the row alone.
fn is_wanted(query: &Query, row: &Row) -> bool {
    let filter = &query.filter;
    let has = |list: &[String], value: &Option<Text>| {
        list.is_empty() || value.as_deref().is_some_and(|value| list.iter().any(|of| of == value))
    };
    let pair = (row.vendor.as_deref().unwrap_or_default(), row.model.as_deref().unwrap_or_default());
    let pairs = &filter.vendor_models;
    let within = |bounds: Bounds<i64>, value: Option<i64>| {
        bounds.is_open()
            || value.is_some_and(|value| {
                bounds.min.is_none_or(|min| value >= min) && bounds.max.is_none_or(|max| value <= max)
            })
    };
    let signed = |value: Option<u64>| value.map(u64::cast_signed);
    query.range.contains(&row.created_ms)
        && within(filter.total_tokens, signed(row.total_tokens))
        && within(filter.input_tokens, signed(row.input_tokens))
        && within(filter.cost, row.cost)
        && (filter.traces.is_empty() || filter.traces.iter().any(|trace| *trace == *row.trace_id))
        && filter.metadata.iter().all(|(name, value)| member(row, name).as_ref() == Some(value))
        && filter.workspaces.as_ref().is_none_or(|of| of.contains(&row.workspace.unwrap_or_default()))
        && (filter.status_codes.is_empty() || filter.status_codes.contains(&row.status.to_string()))
        && has(&filter.providers, &row.provider)
        && has(&filter.configs, &row.config)
        && has(&filter.prompts, &row.prompt)
        && has(&filter.api_keys, &row.api_key)
        && has(&filter.models, &row.model)
        && has(&filter.cache_statuses, &row.cache_status)
        && (pairs.is_empty() || pairs.iter().any(|(vendor, model)| (vendor.as_str(), model.as_str()) == pair))
}

type Answer = BTreeMap<(u32, Option<String>), Group>;

fn answer(tally: Tally) -> Answer {
    tally
        .into_groups()
        .map(|(bucket, value, group)| ((bucket, value.map(|text| text.to_string())), group))
        .collect()
}

/// The answer from the rollups, the ends from rows.
fn from_rollups(connection: &Connection, rows: &[Row], query: &Query) -> Answer {
    let mut tally = Tally::new(query.clone());
    storage::read(connection, &mut tally).unwrap();
    let ends = tally.plan().cover.rows.clone();
    for row in rows.iter().filter(|row| is_wanted(query, row)) {
        if ends.iter().any(|range| range.contains(&row.created_ms)) {
            tally.add_sample(&Sample::of(row), None, &FeedbackSum::default()).unwrap();
        }
    }
    answer(tally)
}

fn from_rows(rows: &[Row], query: &Query) -> Answer {
    let mut tally = Tally::new(query.clone());
    for row in rows.iter().filter(|row| is_wanted(query, row)) {
        let value = match &query.by {
            By::User => row.user.as_deref().map(str::to_owned),
            By::RequestedModel => row.requested_model.as_deref().map(str::to_owned),
            By::Metadata(name) => member(row, name),
            _ => None,
        };
        tally.add_sample(&Sample::of(row), value.as_deref(), &FeedbackSum::default()).unwrap();
    }
    answer(tally)
}

/// The percentiles by sorting.
fn exact(rows: &[Row], query: &Query, quantile: f64) -> Option<f64> {
    let mut all: Vec<u64> =
        rows.iter().filter(|row| is_wanted(query, row)).map(|row| row.latency_us).collect();
    all.sort_unstable();
    let rank = (quantile * (all.len() as f64 - 1.0)) as usize;
    all.get(rank).map(|latency| (*latency as f64 / 1000.0).max(0.01))
}

fn by() -> impl Strategy<Value = By> {
    prop_oneof![
        Just(By::Nothing),
        Just(By::Workspace),
        prop_oneof![
            Just(Dimension::AiService),
            Just(Dimension::Model),
            Just(Dimension::StatusCode),
            Just(Dimension::ApiKey),
            Just(Dimension::Config),
            Just(Dimension::Provider),
            Just(Dimension::Prompt),
        ]
        .prop_map(By::Dimension)
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let texts = |values: &'static [&'static str]| {
        proptest::collection::vec(proptest::sample::select(values), 0..2)
            .prop_map(|values| values.into_iter().map(str::to_owned).collect::<Vec<String>>())
    };
    let workspaces = proptest::sample::subsequence(vec![0_u128, 1, 2], 0..=3);
    let status = prop_oneof![3 => Just(vec![]), 1 => Just(vec!["429".to_owned(), "500".to_owned()])];
    let pairs = prop_oneof![
        3 => Just(vec![]),
        1 => Just(vec![("openai".to_owned(), "haiku".to_owned()), ("none".to_owned(), "haiku".to_owned())]),
    ];
    (
        workspaces,
        status,
        texts(&["gpt-4o", "nope"]),
        texts(&["key-1", "key-2"]),
        texts(&["HIT"]),
        texts(&["emu"]),
        pairs,
    )
        .prop_map(
            |(workspaces, status_codes, models, api_keys, cache_statuses, providers, vendor_models)| Filter {
                workspaces: Some(workspaces.into_iter().map(Uuid::from_u128).collect()),
                status_codes,
                models: models.clone(),
                api_keys,
                cache_statuses: if models.is_empty() { cache_statuses } else { Vec::new() },
                providers,
                vendor_models,
                ..Filter::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn answers_of_rollups_are_those_of_the_rows(
        rows in proptest::collection::vec((any::<u32>(), 0..30 * DAY), 1..400),
        batch in 1..60_usize,
        merged_until in 0..40 * DAY,
        range in (0..10 * DAY, 0..25 * DAY),
        width in prop_oneof![Just(DAY), Just(8 * DAY), Just(HOUR), Just(7 * DAY), Just(90 * 60_000)],
        offset in prop_oneof![Just(0), Just(HOUR), Just(HOUR / 2)],
        by in by(),
        filter in filter(),
    ) {
        let rows: Vec<Row> = rows.into_iter().map(|(number, at)| row(number.into(), at)).collect();
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&tables(Dialect::Sqlite)).unwrap();
        for (number, batch) in rows.chunks(batch).enumerate() {
            let transaction = connection.transaction().unwrap();
            let mut cells = HourCells::default();
            batch.iter().for_each(|row| absorb(&mut cells, row));
            storage::insert(&*transaction, cells).unwrap();
            transaction.commit().unwrap();
            // Some are merged before the last rows come.
            if number % 3 == 2 {
                while storage::merge_next(&connection, merged_until).unwrap() {}
            }
        }
        let end = range.0 + range.1 + 1;
        let first = (range.0 - offset) / width * width + offset;
        let boundaries = (0..400).map(|n| first + n * width).filter(|at| *at > range.0 && *at < end).collect();
        let query = Query { filter, range: range.0..end, boundaries, by, has_percentiles: true };
        let rolled = from_rollups(&connection, &rows, &query);
        let direct = from_rows(&rows, &query);
        prop_assert_eq!(rolled.keys().collect::<Vec<_>>(), direct.keys().collect::<Vec<_>>());
        for (key, group) in &rolled {
            prop_assert_eq!(&group.measures, &direct[key].measures);
            let quantiles = [0.5, 0.95, 0.99];
            prop_assert_eq!(group.latencies.quantiles(quantiles), direct[key].latencies.quantiles(quantiles));
        }
        let all = Query { by: By::Nothing, boundaries: Vec::new(), ..query };
        for quantile in [0.5, 0.9, 0.95, 0.99] {
            let found = from_rollups(&connection, &rows, &all).into_values().next();
            let found = found.and_then(|group| group.latencies.quantiles([quantile])[0]);
            match (found, exact(&rows, &all, quantile)) {
                (Some(found), Some(exact)) => prop_assert!((found - exact).abs() <= exact * 0.01, "{} {}", found, exact),
                (found, exact) => prop_assert_eq!(found, exact),
            }
        }
    }
}

#[test]
fn a_question_with_too_many_groups_is_given_up() {
    let query = Query {
        filter: Filter::default(),
        range: 0..DAY,
        boundaries: Vec::new(),
        by: By::User,
        has_percentiles: false,
    };
    let mut tally = Tally::new(query);
    let row = blank();
    let mut add =
        |user: usize| tally.add_sample(&Sample::of(&row), Some(&user.to_string()), &FeedbackSum::default());
    assert!((0..tally::MAX_GROUPS).all(|user| add(user).is_ok()));
    assert_eq!(add(7), Ok(()));
    assert_eq!(add(tally::MAX_GROUPS), Err(Unanswered::TooManyGroups));
}

#[test]
fn a_question_reports_what_it_holds_and_is_given_up_where_that_is_too_much() {
    let query = Query {
        filter: Filter::default(),
        range: 0..DAY,
        boundaries: Vec::new(),
        by: By::User,
        has_percentiles: false,
    };
    let reported = Arc::new(AtomicUsize::new(0));
    let held = Arc::clone(&reported);
    let may_hold = move |bytes| {
        held.store(bytes, Ordering::Relaxed);
        bytes <= 10 << 20
    };
    let mut tally = Tally::within(query, Box::new(may_hold));
    let row = blank();
    let mut add =
        |user: usize| tally.add_sample(&Sample::of(&row), Some(&user.to_string()), &FeedbackSum::default());
    let users = (0..tally::MAX_GROUPS).take_while(|user| add(*user).is_ok()).count();
    assert!((2_000..40_000).contains(&users), "{users}");
    let reported = reported.load(Ordering::Relaxed);
    assert!((10 << 20..11 << 20).contains(&reported), "{reported}");
    assert_eq!(add(0), Ok(()));
}

#[test]
fn attempts_are_not_counted() {
    let mut cells = HourCells::default();
    absorb(&mut cells, &Row { kind: RowKind::Attempt, ..blank() });
    assert!(cells.into_pieces().next().is_none());
}

/// A filter about single requests.
fn row_filter() -> impl Strategy<Value = Filter> {
    let tokens = Bounds { min: Some(100), max: Some(900) };
    let metadata = vec![("te\"am".to_owned(), "t1".to_owned())];
    let choices = vec![
        Filter { total_tokens: tokens, ..Filter::default() },
        Filter { input_tokens: Bounds { max: None, ..tokens }, ..Filter::default() },
        Filter { cost: Bounds { min: None, max: Some(10) }, ..Filter::default() },
        Filter { metadata, ..Filter::default() },
        Filter { traces: vec!["trace-7".to_owned(), "trace-8".to_owned()], ..Filter::default() },
    ];
    (proptest::sample::select(choices), filter()).prop_map(|(one, filter)| Filter {
        workspaces: filter.workspaces,
        models: filter.models,
        ..one
    })
}

/// What stores answer, rows and rollups together, equals what the rows say.
pub(in crate::ledger) fn check_answers(store: &dyn LogStore, cases: usize) {
    let mut runner = TestRunner::deterministic();
    let ids = RowIds::default();
    let mut rows: Vec<Row> = Vec::new();
    let any = |runner: &mut TestRunner| any::<u32>().new_tree(runner).unwrap().current();
    for batch in 0..30_i64 {
        let mut new = Vec::new();
        for _ in 0..40 {
            let at = batch * DAY + i64::from(any(&mut runner) % 86_400_000) - 3 * DAY;
            let row = row(any(&mut runner).into(), at.max(0));
            new.push(Row { id: ids.new_id(row.created_ms), ..row });
        }
        let entries: Vec<Entry> = new.iter().cloned().map(Entry::from).collect();
        assert_eq!(store.write(&entries).unwrap(), 40);
        // Written twice, counted once.
        assert_eq!(store.write(&entries).unwrap(), 0);
        rows.extend(new);
        if batch % 4 == 3 {
            while store.merge_rollups(batch * DAY).unwrap() {}
        }
    }
    let by = prop_oneof![4 => by(), 1 => Just(By::User), 1 => Just(By::RequestedModel), 1 => Just(By::Metadata("te\"am".to_owned()))];
    let filters = prop_oneof![2 => filter(), 1 => row_filter()];
    let widths = proptest::sample::select(vec![
        (DAY, 0),
        (DAY, HOUR / 2),
        (HOUR, 0),
        (7 * DAY, 3 * HOUR),
        (60_000, 0),
    ]);
    let mut answered = 0;
    for _ in 0..cases {
        let (width, offset) = widths.new_tree(&mut runner).unwrap().current();
        let start = i64::from(any(&mut runner)) % (20 * DAY);
        let end = start + 1 + i64::from(any(&mut runner)) % (400 * width).min(20 * DAY);
        let first = (start - offset) / width * width + offset;
        let query = Query {
            filter: filters.new_tree(&mut runner).unwrap().current(),
            range: start..end,
            boundaries: (0..402).map(|n| first + n * width).filter(|at| *at > start && *at < end).collect(),
            by: by.new_tree(&mut runner).unwrap().current(),
            has_percentiles: true,
        };
        let mut tally = Tally::new(query.clone());
        store.sums(&mut tally, &Arc::default()).unwrap();
        let found = answer(tally);
        let exact = from_rows(&rows, &query);
        assert_eq!(found.keys().collect::<Vec<_>>(), exact.keys().collect::<Vec<_>>(), "{query:?}");
        for (key, group) in &found {
            assert_eq!(group.measures, exact[key].measures, "{query:?}");
            assert_eq!(group.latencies.quantiles([0.95]), exact[key].latencies.quantiles([0.95]));
        }
        answered += usize::from(!found.is_empty());
    }
    assert!(answered > cases / 4, "{answered} of {cases} found something");
}

/// The workspace that requests of none belong to.
const DEFAULT: Uuid = Uuid::from_u128(0xd);

/// Four requests of no workspace, and feedback for two of them; feedback of another workspace, which uses the same trace ids.
fn write_feedback(store: &dyn LogStore) {
    let ids = RowIds::default();
    let request = |number: i64, trace: &str, team: &str| Row {
        id: ids.new_id(number * HOUR),
        created_ms: number * HOUR,
        trace_id: trace.to_owned().into(),
        model: Some(MODELS[number as usize % 3].into()),
        metadata: Some(format!("{{\"team\":\"{team}\"}}").into()),
        ..blank()
    };
    let rows =
        [request(0, "a", "red"), request(1, "a", "red"), request(2, "b", "blue"), request(3, "c", "blue")];
    store.write(&rows.map(Entry::from)).unwrap();
    let feedback = |number: u128, trace: &str, value: i64, weight: f64| Feedback {
        id: Uuid::from_u128(number),
        created_ms: number as i64 * HOUR,
        trace_id: trace.to_owned(),
        workspace: None,
        value,
        weight,
        metadata: None,
    };
    let own = |feedback: Feedback| Feedback { workspace: Some(DEFAULT), ..feedback };
    let given = [feedback(1, "a", 5, 1.0), own(feedback(2, "b", -3, 0.5)), feedback(3, "gone", 10, 1.0)];
    store.put_feedback(&given).unwrap();
    let foreign = |number| Feedback {
        created_ms: HOUR,
        workspace: Some(Uuid::from_u128(0xf)),
        ..feedback(number, if number < 20 { "a" } else { "c" }, if number < 20 { -10 } else { 10 }, 1.0)
    };
    store.put_feedback(&[foreign(11), foreign(12), foreign(21)]).unwrap();
}

/// Feedback by time, score and model, and of requests by metadata. Nothing counts that another workspace gave.
pub(in crate::ledger) fn check_feedback(store: &dyn LogStore) {
    write_feedback(store);
    let mine = Filter {
        workspaces: Some(vec![DEFAULT, Uuid::nil()]),
        default_workspace: DEFAULT,
        ..Filter::default()
    };
    let tally = |filter: Filter, has_models: bool| {
        let filter = Filter { since: Some(0), until: Some(5 * HOUR), ..filter };
        let query = FeedbackQuery { filter, boundaries: vec![2 * HOUR], has_models };
        let mut tally = FeedbackTally::new(query);
        store.feedback_sums(&mut tally, &Arc::default()).unwrap();
        tally
    };
    let all = tally(mine.clone(), false);
    assert_eq!(
        all.buckets.values().map(|sum| (sum.count, sum.weighted)).collect::<Vec<_>>(),
        [(1, 5.0), (2, 8.5)]
    );
    assert_eq!(all.scores, BTreeMap::from([(-3, 1), (5, 1), (10, 1)]));
    let models = tally(mine.clone(), true).models;
    // Trace a has two requests and one feedback.
    assert_eq!(models.values().map(|sum| sum.count).sum::<u64>(), 2);
    let of_blue = Filter { metadata: vec![("team".to_owned(), "blue".to_owned())], ..mine.clone() };
    assert_eq!(tally(of_blue, false).scores, BTreeMap::from([(-3, 1)]));
    let query = Query {
        filter: mine,
        range: 0..5 * HOUR,
        boundaries: Vec::new(),
        by: By::Metadata("team".to_owned()),
        has_percentiles: false,
    };
    let mut teams = Tally::new(query.clone());
    store.sums(&mut teams, &Arc::default()).unwrap();
    let teams = answer(teams);
    let of = |team: &str| teams[&(0, Some(team.to_owned()))].feedback;
    assert_eq!(of("red"), FeedbackSum { requests: 2, count: 2, weighted: 10.0 });
    assert_eq!(of("blue"), FeedbackSum { requests: 1, count: 1, weighted: -1.5 });
    let feedback = Bounds { min: Some(0.0), max: None };
    let liked = Query { filter: Filter { feedback, ..query.filter.clone() }, by: By::Nothing, ..query };
    let mut found = Tally::new(liked);
    store.sums(&mut found, &Arc::default()).unwrap();
    assert_eq!(answer(found)[&(0, None)].measures.requests, 2);
}

#[test]
fn sqlite_answers_as_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    check_answers(&SqliteLogs::new(folder.path().join("logs.db")), 300);
    check_feedback(&SqliteLogs::new(folder.path().join("other.db")));
}

#[test]
fn postgres_answers_as_its_rows() {
    let Some(server) = postgres_server::shared() else { return };
    let store = |url: String| PostgresLogs::new(&Secret::new(url)).unwrap();
    check_answers(&store(server.new_database()), 100);
    check_feedback(&store(server.new_database()));
}
