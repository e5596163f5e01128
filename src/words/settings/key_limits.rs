//! `usage_limits` and `rate_limits` of `auth.keys[]` and `providers.<slug>`: what a key of the settings may use, and what a provider.
//!
//! Read into the form that limits of stored keys have in their records, so that `limits` compiles both by the same rules. Nothing
//! is counted here.

use crate::config::members::{FLAG, Form, MemberTable, MemberType, OneOf, form, list, object, whole};
use crate::config::read::Cursor;
use crate::json::schema;
use jiff::Timestamp;
use serde_json::{Number, Value, json};

/// The limits of one key or provider, as records of the store have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyLimits {
    pub usage: Vec<Value>,
    pub rates: Vec<Value>,
}

const MAX_USAGE_LIMITS: usize = 10;
const MAX_RATE_LIMITS: usize = 20;
/// How many rate limits may have the same type and unit.
pub const MAX_SAME_RATES: usize = 6;
/// The largest number of tokens or requests; below 2^53.
const MAX_COUNT: f64 = 9e15;
/// Of more dollars, the nanodollars do not fit into 63 bits.
const MAX_DOLLARS: f64 = 9e9;

impl KeyLimits {
    /// Adds its members to those of a key or provider.
    pub(super) fn members(table: &mut MemberTable<'_>) -> Self {
        let usage = "How much it may use (docs/limits.md).";
        let rates = "How much it may use in a unit of time (docs/limits.md).";
        let limits = Self {
            usage: table
                .get("usage_limits", list(object(usage_limit), "One limit."), usage)
                .unwrap_or_default(),
            rates: table
                .get("rate_limits", list(object(rate_limit), "One limit."), rates)
                .unwrap_or_default(),
        };
        for (name, max) in [("usage_limits", MAX_USAGE_LIMITS), ("rate_limits", MAX_RATE_LIMITS)] {
            let at = table.at(name);
            if at.and_then(|at| at.node.items()).is_some_and(|items| items.len() > max) {
                table.problem(name, &format!("must have at most {max} limits"));
            }
        }
        let is_same_kind = |one: &Value, other: &Value| {
            ["type", "unit"].iter().all(|name| one.get(*name) == other.get(*name))
        };
        let has_too_many = |one: &Value| {
            limits.rates.iter().filter(|other| is_same_kind(one, other)).count() > MAX_SAME_RATES
        };
        if limits.rates.iter().any(has_too_many) {
            let why = format!("must have at most {MAX_SAME_RATES} limits with the same type and unit");
            table.problem("rate_limits", &why);
        }
        limits
    }
}

fn usage_limit(table: &mut MemberTable<'_>) -> Option<Value> {
    let amount = "The most that may be used; dollars for `cost`. 0: nothing passes.";
    let first = "With `periodic_reset_days`: a day from which the days count. Default: 2024-01-01.";
    let hard = "Never exceeded: what a request can cost at most must fit. Default: false.";
    let fit = "With `hard`: `max_completion_tokens` is lowered to what is left. Default: false.";
    let period = "When the count starts anew. Default: never.";
    let types = OneOf(&["cost", "tokens", "requests"]);
    let of = table.get("type", types, "What is counted. Default: cost.").unwrap_or("cost");
    let max = if of == "cost" { MAX_DOLLARS } else { MAX_COUNT };
    let credit = table.needed("credit_limit", Amount(max), amount);
    let alert = table.get("alert_threshold", Amount(max), "Where an alert is sent; below `credit_limit`.");
    let period = table.get("periodic_reset", OneOf(&["weekly", "monthly"]), period);
    let days: Option<u64> =
        table.get("periodic_reset_days", whole(1, 365), "Days until the count starts anew.");
    let first = table.get("next_usage_reset_at", FIRST_DAY, first);
    let raise = "More than `credit_limit` until some time; then it is as before. Default: none.";
    let raise = table.get("raise", object(|table| raise_of(table, max)), raise);
    let used = "What was used of it at another gateway, whose budget goes on here. Default: nothing.";
    let used = table.get("used_before", object(|table| used_of(table, max)), used);
    let hard = table.get("hard", FLAG, hard).unwrap_or(false);
    let fit = table.get("fit", FLAG, fit).unwrap_or(false);
    if credit.zip(alert).is_some_and(|(credit, alert)| alert >= credit) {
        table.problem("alert_threshold", "must be below credit_limit");
    }
    if period.is_some() {
        table.problem("periodic_reset_days", "cannot be combined with periodic_reset");
    }
    if table.at("periodic_reset_days").is_none() {
        table.problem("next_usage_reset_at", "needs periodic_reset_days, which says how often");
    }
    if fit && !hard {
        table.problem("fit", "needs hard: true");
    }
    Some(json!({
        "type": of,
        "credit_limit": number(credit?),
        "alert_threshold": alert.map(number),
        "periodic_reset": period,
        "periodic_reset_days": days,
        "next_usage_reset_at": first.map(|day| format!("{day:.3}")),
        "raise": raise,
        "used_before": used,
        "hard": hard,
        "fit": fit,
    }))
}

/// What is added to a limit, and until when.
fn raise_of(table: &mut MemberTable<'_>, max: f64) -> Option<Value> {
    let amount = table.needed("amount", Amount(max), "What is added to `credit_limit`.");
    let until = table.needed("until", TIME, "Until when, such as 2026-12-01T00:00:00Z.");
    Some(json!({"amount": number(amount?), "until": format!("{:.3}", until?)}))
}

/// What was used before, and until when it counts.
fn used_of(table: &mut MemberTable<'_>, max: f64) -> Option<Value> {
    let amount = table.needed("amount", Amount(max), "What was used, in the unit of `credit_limit`.");
    let until = table.get("until", TIME, "Until when it counts. Default: always.");
    Some(json!({"amount": number(amount?), "until": until.map(|until| format!("{until:.3}"))}))
}

fn rate_limit(table: &mut MemberTable<'_>) -> Option<Value> {
    let types = OneOf(&["requests", "tokens"]);
    let units = OneOf(&["rps", "rpm", "rph", "rpd", "rpw"]);
    let of = table.get("type", types, "What is counted. Default: requests.").unwrap_or("requests");
    let unit = table.needed_here("unit", units, "Per second, minute, hour, day or week.");
    let value = table.needed("value", Amount(MAX_COUNT), "The most in a unit of time.");
    let smooth = table.get("smooth", FLAG, "The window before counts in part. Default: false.");
    if table.at("unit").is_none() {
        table.missing("unit", "is required: rps, rpm, rph, rpd or rpw");
    }
    Some(json!({
        "type": of,
        "unit": unit?,
        "value": number(value?),
        "smooth": smooth.unwrap_or(false),
    }))
}

/// A number from 0 to this. The largest depends on what is counted, which the schema does not say.
struct Amount(f64);

impl MemberType for Amount {
    type Value = f64;

    fn read(&self, at: &Cursor<'_>) -> Option<f64> {
        let number = at.number()?;
        if !(0.0..=self.0).contains(&number) {
            at.problem(format!("must be from 0 to {}", self.0));
            return None;
        }
        Some(number)
    }

    fn schema(&self, doc: &str) -> Value {
        json!({"type": "number", "minimum": 0, "maximum": MAX_COUNT, "description": doc})
    }
}

const FIRST_DAY: Form<Timestamp> = form(first_day, schema::text);

const TIME: Form<Timestamp> = form(
    |at| {
        let time = at.text()?.parse().ok();
        if time.is_none() {
            at.problem("must be a time such as 2026-12-01T00:00:00Z");
        }
        time
    },
    schema::text,
);

/// A day, or a time of it.
fn first_day(at: &Cursor<'_>) -> Option<Timestamp> {
    let text = at.text()?;
    let day = text.get(..10).and_then(|day| day.parse::<jiff::civil::Date>().ok());
    let midnight = day.and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok());
    if midnight.is_none() {
        at.problem("must be a day such as 2026-05-03");
    }
    midnight.map(|midnight| midnight.timestamp())
}

/// Whole numbers without a fraction, so that they are shown as they were written.
fn number(number: f64) -> Value {
    if number.fract() == 0.0 {
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}
