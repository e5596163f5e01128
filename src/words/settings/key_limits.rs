//! `auth.keys[].usage_limits` and `rate_limits`: what a key of the settings may use.
//!
//! Read into the form that limits of stored keys have in their records, so that `limits` compiles both by the same rules. Nothing
//! is counted here.

use crate::config::read::{Cursor, ObjectReader};
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

/// The limits of one key, as records of the store have them.
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

pub(super) const USAGE_KEYS: [&str; 8] = [
    "type",
    "credit_limit",
    "alert_threshold",
    "periodic_reset",
    "periodic_reset_days",
    "next_usage_reset_at",
    "hard",
    "fit",
];
pub(super) const RATE_KEYS: [&str; 4] = ["type", "unit", "value", "smooth"];

impl KeyLimits {
    pub(super) fn read(fields: &mut ObjectReader<'_>) -> Self {
        let rates_at = fields.get(&["rate_limits"]);
        let usage = list(fields.get(&["usage_limits"]), MAX_USAGE_LIMITS, usage);
        let rates = list(rates_at.clone(), MAX_RATE_LIMITS, rate);
        let is_same_kind = |one: &Value, other: &Value| {
            ["type", "unit"].iter().all(|name| one.get(*name) == other.get(*name))
        };
        let has_too_many =
            |one: &Value| rates.iter().filter(|other| is_same_kind(one, other)).count() > MAX_SAME_RATES;
        if let Some(at) = rates_at.filter(|_| rates.iter().any(has_too_many)) {
            at.problem(format!("must have at most {MAX_SAME_RATES} limits with the same type and unit"));
        }
        Self { usage, rates }
    }
}

fn list<'a>(at: Option<Cursor<'a>>, max: usize, read: fn(&Cursor<'a>) -> Option<Value>) -> Vec<Value> {
    let Some(at) = at else { return Vec::new() };
    let items = at.list().unwrap_or_default();
    if items.len() > max {
        at.problem(format!("must have at most {max} limits"));
    }
    items.iter().filter_map(read).collect()
}

fn usage(at: &Cursor<'_>) -> Option<Value> {
    let mut fields = at.fields()?;
    let f = &mut fields;
    let of = choice(f, "type", &["cost", "tokens", "requests"]).unwrap_or("cost");
    let credit = f.required(&["credit_limit"]);
    let max = if of == "cost" { MAX_DOLLARS } else { MAX_COUNT };
    let credit = credit.and_then(|at| amount(&at, max));
    let alert_at = f.get(&["alert_threshold"]);
    let alert = alert_at.as_ref().and_then(|at| amount(at, max));
    if let (Some(at), Some(alert), Some(credit)) = (&alert_at, alert, credit)
        && alert >= credit
    {
        at.problem("must be below credit_limit");
    }
    let period = choice(f, "periodic_reset", &["weekly", "monthly"]);
    let days_at = f.get(&["periodic_reset_days"]);
    let days = days_at.as_ref().and_then(|at| at.integer_within(1, 365));
    if let (Some(at), Some(_)) = (&days_at, period) {
        at.problem("cannot be combined with periodic_reset");
    }
    let first_at = f.get(&["next_usage_reset_at"]);
    let first = first_at.as_ref().and_then(first_day);
    if let (Some(at), None) = (&first_at, &days_at) {
        at.problem("needs periodic_reset_days, which says how often");
    }
    let hard = f.flag(&["hard"]).unwrap_or(false);
    let fit_at = f.get(&["fit"]);
    let fit = fit_at.as_ref().and_then(Cursor::flag).unwrap_or(false);
    if let (Some(at), true, false) = (&fit_at, fit, hard) {
        at.problem("needs hard: true");
    }
    fields.reject_unknown(&USAGE_KEYS);
    let mut limit = Map::new();
    limit.insert("type".to_owned(), of.into());
    limit.insert("credit_limit".to_owned(), number(credit?));
    limit.insert("alert_threshold".to_owned(), alert.map_or(Value::Null, number));
    limit.insert("periodic_reset".to_owned(), period.into());
    limit.insert("periodic_reset_days".to_owned(), days.into());
    limit.insert("next_usage_reset_at".to_owned(), first.map(|day| format!("{day:.3}")).into());
    limit.insert("hard".to_owned(), hard.into());
    limit.insert("fit".to_owned(), fit.into());
    Some(Value::Object(limit))
}

fn rate(at: &Cursor<'_>) -> Option<Value> {
    let mut fields = at.fields()?;
    let f = &mut fields;
    let of = choice(f, "type", &["requests", "tokens"]).unwrap_or("requests");
    if f.peek(&["unit"]).is_none() {
        f.missing("unit", "is required: rps, rpm, rph, rpd or rpw");
    }
    let unit = choice(f, "unit", &["rps", "rpm", "rph", "rpd", "rpw"]);
    let value = f.required(&["value"]).and_then(|at| amount(&at, MAX_COUNT));
    let smooth = f.flag(&["smooth"]).unwrap_or(false);
    fields.reject_unknown(&RATE_KEYS);
    let mut limit = Map::new();
    limit.insert("type".to_owned(), of.into());
    limit.insert("unit".to_owned(), unit?.into());
    limit.insert("value".to_owned(), number(value?));
    limit.insert("smooth".to_owned(), smooth.into());
    Some(Value::Object(limit))
}

fn choice(fields: &mut ObjectReader<'_>, name: &str, names: &[&'static str]) -> Option<&'static str> {
    let variants: Vec<(&str, &'static str)> = names.iter().map(|name| (*name, *name)).collect();
    fields.get(&[name])?.one_of(&variants)
}

/// A number from 0 to `max`.
fn amount(at: &Cursor<'_>, max: f64) -> Option<f64> {
    let number = at.number()?;
    if !(0.0..=max).contains(&number) {
        at.problem(format!("must be from 0 to {max}"));
        return None;
    }
    Some(number)
}

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
