//! The limit objects of keys, workspaces and providers (reference 1.3): read, checked, normalised, shown.
//!
//! Nothing here counts or enforces them.

use super::field::{Field, Type, optional};
use crate::config::read::Problems;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, civil::Weekday};
use serde_json::{Map, Value, json};

const DAYS: Type = Type::Integer(1, 365);

const USAGE: &[Field] = &[
    optional(
        "type",
        Type::OneOf(&["cost", "tokens", "requests"]),
        "What is counted; `cost` by default, in dollars.",
    ),
    optional("credit_limit", Type::Number(0.0, 1e15), "The most that may be used; dollars for `cost`."),
    optional("alert_threshold", Type::Number(0.0, 1e15), "Where an alert is sent; below `credit_limit`."),
    optional("periodic_reset", Type::OneOf(&["weekly", "monthly"]), "When the count starts anew."),
    optional(
        "periodic_reset_days",
        DAYS,
        "Days until the count starts anew; not together with `periodic_reset`.",
    ),
    optional("next_usage_reset_at", Type::Time, "When the count starts anew next; midnight UTC."),
];

const RATE: &[Field] = &[
    optional("type", Type::OneOf(&["requests", "tokens"]), "What is counted; `requests` by default."),
    optional(
        "unit",
        Type::OneOf(&["rps", "rpm", "rph", "rpd", "rpw"]),
        "Per second, minute, hour, day or week.",
    ),
    optional("value", Type::Integer(0, i64::MAX), "The most in a unit of time."),
];

const USAGE_OBJECT: Type = Type::Object(USAGE);
const RATE_OBJECT: Type = Type::Object(RATE);

/// `usage_limits` and `rate_limits` of a request: an object or a list of them, wherever the reference has the one or the other.
pub(super) const USAGE_LIMITS: Field = optional(
    "usage_limits",
    Type::AnyOf(&[USAGE_OBJECT, Type::List(&USAGE_OBJECT, 0, 10)]),
    "How much may be used. Kept and shown; not enforced yet.",
);
pub(super) const RATE_LIMITS: Field = optional(
    "rate_limits",
    Type::AnyOf(&[Type::List(&RATE_OBJECT, 0, 20), RATE_OBJECT]),
    "How much may be used in a unit of time. Kept and shown; not enforced yet.",
);

/// Checks the limits of a body and brings them to their normal form: usage limits with a type and the next reset.
/// `is_list`: whether the resource has a list of usage limits, or one.
pub(super) fn normalise(body: &mut Map<String, Value>, is_list: bool, now: Timestamp, problems: &Problems) {
    if let Some(value) = body.get_mut("usage_limits") {
        let items = listed(value.take());
        let many = items.len() > 1 || is_list;
        let items: Vec<Value> = items
            .into_iter()
            .enumerate()
            .map(|(index, item)| {
                let path = if is_list { format!("usage_limits[{index}]") } else { "usage_limits".to_owned() };
                usage(item, &path, now, problems)
            })
            .collect();
        if items.len() > 1 && !is_list {
            problems.push("usage_limits", None, "takes one limit");
        }
        *value = match (many, items.into_iter().collect::<Vec<_>>()) {
            (true, items) => items.into(),
            (false, items) => items.into_iter().next().unwrap_or(Value::Null),
        };
    }
    if let Some(value) = body.get_mut("rate_limits") {
        let items = listed(value.take());
        for (index, item) in items.iter().enumerate() {
            for name in ["unit", "value"] {
                if item.get(name).is_none_or(Value::is_null) {
                    problems.push(format!("rate_limits[{index}].{name}"), None, "is required");
                }
            }
        }
        *value = items.into_iter().map(|item| with_default(item, "type", "requests")).collect();
    }
}

fn listed(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        value => vec![value],
    }
}

fn with_default(mut item: Value, name: &str, default: &str) -> Value {
    if let Value::Object(members) = &mut item
        && members.get(name).is_none_or(Value::is_null)
    {
        members.insert(name.to_owned(), default.into());
    }
    item
}

fn usage(item: Value, path: &str, now: Timestamp, problems: &Problems) -> Value {
    let mut item = with_default(item, "type", "cost");
    let number = |name: &str| item.get(name).and_then(Value::as_f64);
    let has = |name: &str| item.get(name).is_some_and(|value| !value.is_null());
    if let (Some(limit), Some(threshold)) = (number("credit_limit"), number("alert_threshold"))
        && threshold >= limit
    {
        problems.push(format!("{path}.alert_threshold"), None, "must be below credit_limit");
    }
    if has("periodic_reset") && has("periodic_reset_days") {
        problems.push(format!("{path}.periodic_reset_days"), None, "cannot be combined with periodic_reset");
    }
    let next = next_reset(&item, now);
    if let Value::Object(members) = &mut item {
        members.insert(
            "next_usage_reset_at".to_owned(),
            next.map_or(Value::Null, |next| json!(format!("{next:.3}"))),
        );
    }
    item
}

/// When the count starts anew next: the time given, at midnight UTC, else as the period says (weeks begin on Monday).
fn next_reset(item: &Value, now: Timestamp) -> Option<Timestamp> {
    let given = item.get("next_usage_reset_at").and_then(Value::as_str);
    let midnight = |time: Timestamp| time.to_zoned(TimeZone::UTC).start_of_day().ok();
    if let Some(given) = given.and_then(|text| text.parse().ok()) {
        return midnight(given).map(|time| time.timestamp());
    }
    let today = midnight(now)?;
    if let Some(days) = item.get("periodic_reset_days").and_then(Value::as_i64) {
        return today.checked_add(days.days()).ok().map(|time| time.timestamp());
    }
    let next = match item.get("periodic_reset").and_then(Value::as_str)? {
        "weekly" => today.nth_weekday(1, Weekday::Monday).ok()?,
        _ => today.first_of_month().ok()?.checked_add(1.month()).ok()?,
    };
    Some(next.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str, is_list: bool) -> (Value, Vec<String>) {
        let mut body = serde_json::from_str(text).unwrap();
        let problems = Problems::default();
        normalise(&mut body, is_list, "2026-05-06T10:00:00Z".parse().unwrap(), &problems);
        (Value::Object(body), problems.into_vec().into_iter().map(|problem| problem.path).collect())
    }

    #[test]
    fn the_next_reset_is_at_midnight_and_weeks_begin_on_monday() {
        for (limits, wanted) in [
            (r#"{"credit_limit":1,"periodic_reset":"weekly"}"#, json!("2026-05-11T00:00:00.000Z")),
            (r#"{"credit_limit":1,"periodic_reset":"monthly"}"#, json!("2026-06-01T00:00:00.000Z")),
            (r#"{"credit_limit":1,"periodic_reset_days":3}"#, json!("2026-05-09T00:00:00.000Z")),
            (
                r#"{"credit_limit":1,"next_usage_reset_at":"2026-07-01T12:00:00Z"}"#,
                json!("2026-07-01T00:00:00.000Z"),
            ),
            (r#"{"credit_limit":1}"#, Value::Null),
        ] {
            let (body, problems) = normal(&format!("{{\"usage_limits\":{limits}}}"), false);
            assert_eq!(body["usage_limits"]["next_usage_reset_at"], wanted, "{limits}");
            assert_eq!((problems, &body["usage_limits"]["type"]), (vec![], &json!("cost")));
        }
    }

    #[test]
    fn an_object_and_a_list_are_the_same() {
        let one = r#"{"usage_limits":{"credit_limit":1},"rate_limits":{"unit":"rpm","value":5}}"#;
        let (body, problems) = normal(one, true);
        assert_eq!(problems, [""; 0]);
        assert_eq!(body["usage_limits"][0]["credit_limit"], 1);
        assert_eq!(body["rate_limits"], json!([{"type": "requests", "unit": "rpm", "value": 5}]));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let (_, problems) = normal(
            r#"{"usage_limits":{"credit_limit":5,"alert_threshold":9,"periodic_reset":"weekly","periodic_reset_days":2},
                "rate_limits":[{"value":1}]}"#,
            false,
        );
        assert_eq!(
            problems,
            ["usage_limits.alert_threshold", "usage_limits.periodic_reset_days", "rate_limits[0].unit"]
        );
    }
}
