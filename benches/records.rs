//! `cargo bench --bench records`: rows a second into SQLite and PostgreSQL, and what handing them over costs a request meanwhile.
//!
//! Each request hands over its row with one attempt, as the sink does. Not here: reading (docs/analytics.md has figures of ten
//! million rows), and the gateway as a whole (`load`).

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a bench that cannot run stops, and says why")]

#[path = "../src/memory/store/tests/postgres_server.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod postgres_server;

use jiff::Timestamp;
use memory::ledger::log_store::LogStore;
use memory::ledger::postgres::PostgresLogs;
use memory::ledger::sqlite::SqliteLogs;
use memory::ledger::writer::WriterOptions;
use memory::ledger::{Attempt, Entry, Ledger, Row, RowKind, Text};
use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;
use words::config::secret::Secret;

/// How long rows are handed over, as fast as they are written.
const LENGTH: Duration = Duration::from_secs(20);
const QUEUE_BYTES: usize = 64 << 20;

fn main() {
    print(
        "| log store | rows | seconds | rows a second | one request hands over its rows, median | p99 |\n|---|---:|---:|---:|---:|---:|",
    );
    let folder = tempfile::tempdir().unwrap();
    measure("SQLite", Arc::new(SqliteLogs::new(folder.path().join("logs.db"))));
    match postgres_server::Server::start() {
        Some(server) => {
            let url = Secret::new(server.new_database());
            measure(
                "PostgreSQL, on the same machine, without fsync",
                Arc::new(PostgresLogs::new(&url).unwrap()),
            );
        }
        None => print("| PostgreSQL: not installed | | | | | |"),
    }
}

fn measure(name: &str, store: Arc<dyn LogStore>) {
    let folder = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        max_queue_bytes: QUEUE_BYTES,
        spool_folder: folder.path().join("spool"),
        max_spool_bytes: 0,
    };
    let ledger = Ledger::start(store, &options).unwrap();
    let (began, mut number, mut spent) = (Instant::now(), 0_u32, Vec::new());
    while began.elapsed() < LENGTH {
        let entries = entries(&ledger, number);
        let handed = Instant::now();
        assert!(ledger.push(entries), "the queue has room");
        spent.push(handed.elapsed());
        number += 1;
        // Below a quarter of the queue nothing is spooled.
        while number.is_multiple_of(64) && ledger.health().queue_bytes > QUEUE_BYTES as u64 / 8 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    let wanted = u64::from(number);
    while ledger.health().written < wanted {
        let health = ledger.health();
        assert!(health.why.is_none() && health.spooled == 0, "{health:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    let seconds = began.elapsed().as_secs_f64();
    ledger.close(Duration::from_secs(10));
    spent.sort_unstable();
    let at = |share: usize| spent.get(spent.len() * share / 100).copied().unwrap_or_default().as_nanos();
    let rate = wanted as f64 / seconds;
    print(&format!("| {name} | {wanted} | {seconds:.1} | {rate:.0} | {} ns | {} ns |", at(50), at(99)));
}

/// The rows of one request: of 400 users, 20 models, 8 providers, 40 keys, 10 workspaces.
fn entries(ledger: &Ledger, number: u32) -> Vec<Entry> {
    let now = Timestamp::now().as_millisecond();
    let text = |name: &str, of: u32| Some(Text::from(format!("{name}-{}", number % of)));
    let mut request = Row {
        trace_id: Text::from(Uuid::now_v7().to_string()),
        workspace: Some(Uuid::from_u128(u128::from(number % 10))),
        workspace_slug: text("ws", 10),
        api_key: text("key", 40),
        api_key_name: text("name", 40),
        user: text("user", 400),
        metadata: Some(Text::from(format!("{{\"_user\":\"user-{}\",\"team\":\"search\"}}", number % 400))),
        operation: Text::new("chat"),
        method: Text::new("POST"),
        path: Text::new("/v1/chat/completions"),
        provider: text("provider", 8),
        vendor: Some(Text::new("openai")),
        model: text("model", 20),
        response_model: text("model", 20),
        status: if number.is_multiple_of(50) { 429 } else { 200 },
        is_success: !number.is_multiple_of(50),
        responded: true,
        input_tokens: Some(u64::from(number % 1000)),
        output_tokens: Some(200),
        total_tokens: Some(u64::from(number % 1000) + 200),
        cost: Some(i64::from(number % 1000) * 2500 + 2_000_000),
        cost_status: Some(Text::new("priced")),
        latency_us: u64::from(number.wrapping_mul(2_654_435_761) % 3_000_000),
        upstream_us: 900_000,
        overhead_us: 60,
        target: Some(Text::new("config")),
        bytes_in: 500,
        bytes_out: 2000,
        ..Row::new(ledger.new_id(now), RowKind::Request, now)
    };
    request.first_token_us = Some(300_000);
    let attempt = Attempt {
        number: 1,
        created_ms: now + 1,
        provider: request.provider.as_deref().map(str::to_owned).map(Cow::Owned),
        vendor: Some("openai"),
        model: request.model.as_deref().map(str::to_owned).map(Cow::Owned),
        response_model: request.response_model.as_deref().map(str::to_owned).map(Cow::Owned),
        target: Some("config"),
        status: request.status,
        is_success: request.is_success,
        responded: true,
        spent_us: request.upstream_us,
        ..Attempt::default()
    };
    request.add_attempt(&attempt);
    vec![Entry::from(request)]
}

fn print(line: &str) {
    // A closed pipe does not fail the bench.
    let _ = writeln!(std::io::stdout(), "{line}");
}
