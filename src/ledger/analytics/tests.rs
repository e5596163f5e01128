//! Answers of rollups equal those computed from the rows: counts and sums to the unit, percentiles within one per cent.

use super::super::filter::Filter;
use super::super::rollup::sample::{Dimension, Sample};
use super::super::rollup::{HourCells, absorb, sqlite};
use super::super::{Row, RowKind, Text};
use super::*;
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::BTreeMap;
use uuid::Uuid;

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
        ..blank()
    }
}

fn blank() -> Row {
    Row {
        id: Uuid::nil(),
        kind: RowKind::Request,
        request: None,
        attempt: None,
        created_ms: 0,
        trace_id: "t".into(),
        span_id: None,
        parent_span_id: None,
        span_name: None,
        workspace: None,
        workspace_slug: None,
        api_key: None,
        api_key_name: None,
        user: None,
        metadata: None,
        operation: "chat".into(),
        method: "POST".into(),
        path: "/v1/chat/completions".into(),
        provider: None,
        vendor: None,
        model: None,
        response_model: None,
        config: None,
        prompt: None,
        prompt_version: None,
        status: 200,
        error_code: None,
        is_success: true,
        streamed: false,
        responded: false,
        is_custom: false,
        cache_status: None,
        cache_type: None,
        input_tokens: None,
        output_tokens: None,
        total_tokens: None,
        cached_tokens: None,
        cache_write_tokens: None,
        reasoning_tokens: None,
        usage_source: None,
        cost: None,
        cost_status: None,
        price_version: None,
        rates_hash: None,
        saved_cost: None,
        latency_us: 0,
        upstream_us: 0,
        overhead_us: 0,
        first_token_us: None,
        retries: 0,
        is_fallback: false,
        target: None,
        bytes_in: 0,
        bytes_out: 0,
    }
}

/// Whether a row is one that the query is about, by the row alone.
fn is_wanted(query: &Query, row: &Row) -> bool {
    let filter = &query.filter;
    let has = |list: &[String], value: &Option<Text>| {
        list.is_empty() || value.as_deref().is_some_and(|value| list.iter().any(|of| of == value))
    };
    let pair = (row.vendor.as_deref().unwrap_or_default(), row.model.as_deref().unwrap_or_default());
    let pairs = &filter.vendor_models;
    query.range.contains(&row.created_ms)
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
    sqlite::read(connection, &mut tally).unwrap();
    let ends = tally.plan().cover.rows.clone();
    for row in rows.iter().filter(|row| is_wanted(query, row)) {
        if ends.iter().any(|range| range.contains(&row.created_ms)) {
            tally.add_sample(&Sample::of(row), None).unwrap();
        }
    }
    answer(tally)
}

fn from_rows(rows: &[Row], query: &Query) -> Answer {
    let mut tally = Tally::new(query.clone());
    for row in rows.iter().filter(|row| is_wanted(query, row)) {
        tally.add_sample(&Sample::of(row), None).unwrap();
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
        sqlite::create(&connection).unwrap();
        for (number, batch) in rows.chunks(batch).enumerate() {
            let transaction = connection.transaction().unwrap();
            let mut cells = HourCells::default();
            batch.iter().for_each(|row| absorb(&mut cells, row));
            sqlite::insert(&transaction, cells).unwrap();
            transaction.commit().unwrap();
            // Some are merged before the last rows come.
            if number % 3 == 2 {
                while sqlite::merge_next(&connection, merged_until).unwrap() {}
            }
        }
        let end = range.0 + range.1 + 1;
        let first = (range.0 - offset) / width * width + offset;
        let boundaries = (0..400).map(|n| first + n * width).filter(|at| *at > range.0 && *at < end).collect();
        let query = Query { filter, range: range.0..end, boundaries, by, has_percentiles: true };
        let (rolled, direct) = (from_rollups(&connection, &rows, &query), from_rows(&rows, &query));
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
fn attempts_are_not_counted() {
    let mut cells = HourCells::default();
    absorb(&mut cells, &Row { kind: RowKind::Attempt, ..blank() });
    assert!(cells.is_empty());
}
