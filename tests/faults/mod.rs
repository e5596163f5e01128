//! The fault matrix: sixteen ways a provider fails, and what a client of a plain fallback config gets in each
//! case.
//!
//! Two targets, `retry: {attempts: 2}`, `request_timeout: 30000`, nothing else: no fault may need a setting
//! of its own. Each row runs with primaries of four dialects, streamed and whole where the fault exists; the
//! results are printed as the table that the README shows. Not here: what the settings change
//! (`time_limits`), breakers (`breakers`), providers that fail in all ways at once (`chaos`).

pub(crate) mod case;
pub(crate) mod observed;
pub(crate) mod rows;
mod scenarios;
mod time_limits;

use crate::support::exclusive::exclusive;
use crate::support::{Gateway, report};
use case::{Bed, Case};
use futures_util::{FutureExt, StreamExt, stream};
use rows::{FAULTS, Fault, Form};
use std::fmt::Write;
use std::panic::AssertUnwindSafe;

/// Cases run concurrently: most of them only wait.
const AT_ONCE: usize = 40;

/// The columns of the table: the primary's dialect, and whether the response is streamed.
const COLUMNS: [(&str, case::PrimaryDialect, Form); 6] = [
    ("OpenAI, streamed", case::PrimaryDialect::OpenAi, Form::Streamed),
    ("OpenAI, whole", case::PrimaryDialect::OpenAi, Form::Whole),
    ("Anthropic", case::PrimaryDialect::Anthropic, Form::Streamed),
    ("Gemini", case::PrimaryDialect::Gemini, Form::Streamed),
    ("Bedrock", case::PrimaryDialect::Bedrock, Form::Streamed),
    ("Messages", case::PrimaryDialect::Anthropic, Form::Streamed),
];

#[tokio::test]
async fn every_fault_is_survived_on_a_plain_config() {
    let _exclusive = exclusive().await;
    let bed = &Bed::start();
    // The slowest cases start first.
    let mut cases: Vec<Case> = FAULTS.iter().flat_map(cases).collect();
    cases.sort_by_key(|case| std::cmp::Reverse(case.fault.max_seconds));
    let verdicts = stream::iter(cases).map(|case| async move {
        // Catch panics, so that a failed case is a mark in the table and does not end the test.
        let run = AssertUnwindSafe(scenarios::run(bed, case)).catch_unwind().await;
        (case, run.is_ok())
    });
    let verdicts: Vec<(Case, bool)> = verdicts.buffer_unordered(AT_ONCE).collect().await;
    report(&table(&verdicts));
    let failed: Vec<String> =
        verdicts.iter().filter(|(_, passed)| !passed).map(|(case, _)| case.to_string()).collect();
    assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), verdicts.len(), failed.join("\n"));
    scenarios::accounts_balance(bed).await;
}

/// A fault in every dialect and form it exists in.
fn cases(fault: &'static Fault) -> Vec<Case> {
    let mut cases = Vec::new();
    for form in [Form::Streamed, Form::Whole] {
        if !fault.forms.contains(&form) {
            continue;
        }
        cases.extend(case::PRIMARY_DIALECTS.map(|dialect| Case { fault, dialect, form, messages: false }));
        if fault.messages {
            cases.push(Case { fault, dialect: case::PrimaryDialect::Anthropic, form, messages: true });
        }
    }
    cases
}

/// The results as the README shows them: the column of a translated dialect covers streamed and whole.
fn table(verdicts: &[(Case, bool)]) -> String {
    let mut out = String::from("| Fault |");
    COLUMNS.iter().for_each(|(name, ..)| write!(out, " {name} |").unwrap());
    out.push_str("\n|---|");
    COLUMNS.iter().for_each(|_| out.push_str("---|"));
    out.push('\n');
    for fault in FAULTS {
        write!(out, "| {} |", fault.name).unwrap();
        for (name, dialect, form) in COLUMNS {
            let here = verdicts.iter().filter(|(case, _)| {
                let column = case.messages == (name == "Messages");
                let form = case.form == form || case.dialect != case::PrimaryDialect::OpenAi;
                case.fault.name == fault.name && case.dialect == dialect && column && form
            });
            let passed: Vec<bool> = here.map(|(_, passed)| *passed).collect();
            let mark = match (passed.is_empty(), passed.iter().all(|passed| *passed)) {
                (true, _) => "–",
                (false, true) => "✓",
                (false, false) => "✗",
            };
            write!(out, " {mark} |").unwrap();
        }
        out.push('\n');
    }
    out
}

/// A gateway for tests of this folder that read counters which other tests change.
fn own_gateway() -> Gateway {
    Gateway::start(crate::support::settings::STANDARD)
}
