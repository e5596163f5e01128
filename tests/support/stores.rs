//! Runs a test once for each kind of store: on SQLite, and on PostgreSQL where there is one.
//!
//! The gateways that a test starts on its own thread get a new database each. Not for the shared gateway.

use super::{Gateway, postgres_server};
use std::cell::Cell;

thread_local! {
    static IS_POSTGRES: Cell<bool> = const { Cell::new(false) };
}

/// The first line of what [`of_gateway`] adds to settings.
const MARK: &str = "# The test's store.\n";

pub(crate) async fn on_each_store(test: impl AsyncFn()) {
    test().await;
    if postgres_server::shared().is_some() {
        IS_POSTGRES.set(true);
        test().await;
        IS_POSTGRES.set(false);
    }
}

/// Whether the test runs on PostgreSQL now.
pub(crate) fn is_postgres() -> bool {
    IS_POSTGRES.get()
}

/// What is added to a gateway's settings; `before`: those it has now, whose store it keeps.
pub(crate) fn of_gateway(before: Option<&str>) -> String {
    if let Some((_, store)) = before.and_then(|text| text.split_once(MARK)) {
        return format!("{MARK}{store}");
    }
    match postgres_server::shared().filter(|_| is_postgres()) {
        Some(server) => settings(&server.new_database(), ""),
        None => String::new(),
    }
}

/// Gateways with these settings: on SQLite, and on PostgreSQL where there is one.
pub(crate) fn gateways(of: &str) -> Vec<Gateway> {
    let on_postgres =
        postgres_server::shared().map(|server| format!("{of}{}", settings(&server.new_database(), "")));
    std::iter::once(of.to_owned()).chain(on_postgres).map(|yaml| Gateway::start(&yaml)).collect()
}

/// The settings of a store at this URL.
pub(crate) fn settings(url: &str, more: &str) -> String {
    let key = "5a".repeat(32);
    format!("{MARK}store:\n  url: {url}\n  encryption_key: \"{key}\"\n{more}")
}
