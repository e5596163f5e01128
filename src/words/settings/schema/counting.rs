//! How usage is counted, in `limits` of the schema.

use super::super::Counting;
use crate::json::schema::{integer, non_empty, one_of, or, pattern};
use serde_json::Value;

/// The keys.
pub(super) fn keys() -> Vec<(&'static str, Value)> {
    let assumed = "Output that is reserved for a request without a bound of its own, in tokens, until enough of its kind were counted.";
    let zone =
        "Where the days, weeks and months of rate limits and budgets begin: a zone of the IANA database.";
    vec![
        ("timezone", or(non_empty(zone), "UTC")),
        ("week_start", or(one_of("The day on which weeks begin.", Counting::weekdays()), "monday")),
        (
            "assume_output_tokens",
            or(integer(assumed, 1, Some(10_000_000)), Counting::default().assume_output_tokens),
        ),
        (
            "shared",
            pattern(
                "Counters that several gateways share: in the store, if it is PostgreSQL, or at a URL of PostgreSQL, Redis or Valkey; without it each counts alone. Read at the start.",
                "^(store$|rediss?://.|postgres(ql)?://.)",
                &["store", "redis://127.0.0.1:6379"],
            ),
        ),
        (
            "leases",
            or(
                one_of(
                    "Whether a gateway borrows an amount ahead of hot buckets of shared counters, for two seconds, so that most requests need \
                     no call to the store. Never of hard limits.",
                    ["on", "off"],
                ),
                "on",
            ),
        ),
        (
            "on_store_error",
            or(
                one_of(
                    "What budgets do while the shared counters are away; hard ones refuse.",
                    ["allow", "deny"],
                ),
                "allow",
            ),
        ),
    ]
}
