//! The limit objects of keys, workspaces and providers: read, checked, normalised, shown.
//!
//! Nothing here counts or enforces them: that is the room `limits`, which has them from `limits::from_records`.

mod merge;

use super::call::Call;
use super::field::{Field, Type, optional, required};
use super::records::time;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use memory::limits::from_records::{LAST_RESET, RESETS, USAGE_NUMBERS, USED_BEFORE, usage_numbers};
use merge::{USAGE_FOUND_BY, merge};
use serde_json::{Map, Value};
use std::collections::HashMap;
use words::config::read::Problems;
use words::settings::key_limits::MAX_SAME_RATES;

const DAYS: Type = Type::Integer(1, 365);
/// Below 2^53, so that no client rounds it.
pub(super) const COUNT: Type = Type::Number(0.0, 9e15);

pub(super) const HARD: Field = optional(
    "hard",
    Type::Flag,
    "Whether it is never exceeded: a request is refused when what it can cost at most is more than what is left. False: the request \
     that crosses the limit completes.",
);
pub(super) const FIT: Field = optional(
    "fit",
    Type::Flag,
    "With `hard`: whether a request that could cost too much has its `max_completion_tokens` lowered to what is left, instead of \
     being refused.",
);
pub(super) const SMOOTH: Field = optional(
    "smooth",
    Type::Flag,
    "Whether the window before counts in part, so that no more than about `value` passes in any span of a window's length. False: \
     windows stand alone, and up to twice the value passes around the end of one.",
);

pub(super) const RAISE: Field = optional(
    "raise",
    Type::Object(&[
        required("amount", COUNT, "What is added to `credit_limit`, in its unit; above 0."),
        required("until", Type::Time, "Until when. Then the limit is as before."),
    ]),
    "More for a while: until some time the limit is `credit_limit` and this amount together.",
);

pub(super) const USED: Field = optional(
    USED_BEFORE,
    Type::Object(&[
        required("amount", COUNT, "What was used, in the unit of `credit_limit`."),
        optional("until", Type::Time, "Until when it counts. Absent: always."),
    ]),
    "What was used of it at another gateway, whose budget goes on here. It counts as if it was used here; a reset of the usage ends it.",
);

const USAGE: &[Field] = &[
    optional(
        "type",
        Type::OneOf(&["cost", "tokens", "requests"]),
        "What is counted; `cost` by default, in dollars.",
    ),
    optional(
        "credit_limit",
        COUNT,
        "The most that may be used; dollars for `cost`. 0: nothing passes. Absent: no limit, only the alert.",
    ),
    optional("alert_threshold", COUNT, "Where an alert is sent; below `credit_limit`."),
    optional("periodic_reset", Type::OneOf(&["weekly", "monthly"]), "When the count starts anew."),
    optional(
        "periodic_reset_days",
        DAYS,
        "Days until the count starts anew; not together with `periodic_reset`.",
    ),
    optional(
        "next_usage_reset_at",
        Type::Time,
        "With `periodic_reset_days`: a day at whose start (`limits.timezone`) the count starts anew; the days are counted from it forwards \
         and backwards, so that there may be a start before it. In responses: when it does next.",
    ),
    RAISE,
    USED,
    HARD,
    FIT,
];

const RATE: &[Field] = &[
    optional("type", Type::OneOf(&["requests", "tokens"]), "What is counted; `requests` by default."),
    optional(
        "unit",
        Type::OneOf(&["rps", "rpm", "rph", "rpd", "rpw"]),
        "Per second, minute, hour, day or week.",
    ),
    optional("value", COUNT, "The most in a unit of time; 0: nothing passes."),
    SMOOTH,
];

const USAGE_OBJECT: Type = Type::Object(USAGE);
const RATE_OBJECT: Type = Type::Object(RATE);

/// `usage_limits` and `rate_limits` of a request: an object or a list of them, wherever Portkey has the one or the other.
pub(super) const USAGE_LIMITS: Field = optional(
    "usage_limits",
    Type::AnyOf(&[USAGE_OBJECT, Type::List(&USAGE_OBJECT, 0, 10)]),
    "How much may be used (docs/limits.md).",
);
pub(super) const RATE_LIMITS: Field = optional(
    "rate_limits",
    Type::AnyOf(&[Type::List(&RATE_OBJECT, 0, 20), RATE_OBJECT]),
    "How much may be used in a unit of time (docs/limits.md).",
);
pub(super) const RESET_USAGE: Field =
    optional("reset_usage", Type::Flag, "Whether what was used counts from 0 again.");

/// Brings the limits of an update to what they are from then on: with what the limits before have and the update does not name, in their
/// normal form, and with the days from which they count. `is_list`: as for [`normalise`].
pub(super) fn update(
    update: &mut Map<String, Value>,
    before: &Map<String, Value>,
    is_list: bool,
    today: &Today,
    problems: &Problems,
) {
    merge(update, before);
    normalise(update, is_list, problems);
    set_first_days(update, before, today);
}

/// Checks the limits of a body and brings them to their normal form. `is_list`: whether the resource has a list of usage limits, or
/// one.
pub(super) fn normalise(body: &mut Map<String, Value>, is_list: bool, problems: &Problems) {
    if let Some(value) = body.get_mut("usage_limits") {
        let items = listed(value.take());
        if items.len() > 1 && !is_list {
            problems.push("usage_limits", None, "takes one limit");
        }
        let item = |(index, item): (usize, Value)| {
            let path = if is_list { format!("usage_limits[{index}].") } else { "usage_limits.".to_owned() };
            let item = with_default(item, "type", "cost");
            if let Value::Object(members) = &item {
                check_usage(members, &path, problems);
            }
            item
        };
        let mut items = items.into_iter().enumerate().map(item);
        *value = if is_list { items.collect() } else { items.next().unwrap_or(Value::Null) };
    }
    if let Some(value) = body.get_mut("rate_limits") {
        let items = listed(value.take());
        let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            let text = |name: &str| item.get(name).and_then(Value::as_str);
            let count = counts.entry((text("type").unwrap_or("requests"), text("unit").unwrap_or_default()));
            let count = count.or_default();
            *count += 1;
            if *count > MAX_SAME_RATES {
                let message = format!("is one of more than {MAX_SAME_RATES} with the same type and unit");
                problems.push(format!("rate_limits[{index}]"), None, message);
            }
            for name in ["unit", "value"] {
                if item.get(name).is_none_or(Value::is_null) {
                    problems.push(format!("rate_limits[{index}].{name}"), None, "is required");
                }
            }
        }
        *value = items.into_iter().map(|item| with_default(item, "type", "requests")).collect();
    }
}

/// Checks what depends on each other in one usage limit whose members are at `path`.
pub(super) fn check_usage(item: &Map<String, Value>, path: &str, problems: &Problems) {
    let number = |name: &str| item.get(name).and_then(Value::as_f64);
    let has = |name: &str| item.get(name).is_some_and(|value| !value.is_null());
    let is_set = |name: &str| item.get(name).and_then(Value::as_bool) == Some(true);
    let problem = |name: &str, message: &str| problems.push(format!("{path}{name}"), None, message);
    if let (Some(limit), Some(threshold)) = (number("credit_limit"), number("alert_threshold"))
        && threshold >= limit
    {
        problem("alert_threshold", "must be below credit_limit");
    }
    let is_cost = item.get("type").and_then(Value::as_str) == Some("cost");
    if is_cost && number("credit_limit").is_some_and(|limit| limit > MAX_DOLLARS) {
        problem("credit_limit", "must be at most 9000000000 dollars");
    }
    if has("periodic_reset") && has("periodic_reset_days") {
        problem("periodic_reset_days", "cannot be combined with periodic_reset");
    }
    if has("next_usage_reset_at") && !has("periodic_reset") && !has("periodic_reset_days") {
        problem("next_usage_reset_at", "needs periodic_reset_days, which says how often");
    }
    if is_set("fit") && !is_set("hard") {
        problem("fit", "needs hard: true");
    }
    let used = item.get(USED_BEFORE).and_then(|used| used.get("amount")).and_then(Value::as_f64);
    if is_cost && used.is_some_and(|used| used > MAX_DOLLARS) {
        problem("used_before.amount", "must be at most 9000000000 dollars");
    }
    if let Some(raise) = item.get("raise").and_then(Value::as_object) {
        let amount = raise.get("amount").and_then(Value::as_f64).unwrap_or_default();
        if amount <= 0.0 {
            problem("raise.amount", "must be above 0");
        }
        match number("credit_limit") {
            None => problem("raise", "needs credit_limit, which is raised"),
            Some(limit) if is_cost && limit + amount > MAX_DOLLARS => {
                problem("raise.amount", "must be at most 9000000000 dollars together with credit_limit");
            }
            Some(_) => {}
        }
    }
}

/// Gives the usage limits of an update that start anew every so many days the day from which they count: the one they name; that of
/// the limit before, where it is as long, so that a change does not begin a new window; else the next start.
///
/// Which limit of a list is which of those before is found out here, and its number kept ([`USAGE_NUMBERS`]).
pub(super) fn set_first_days(update: &mut Map<String, Value>, before: &Map<String, Value>, today: &Today) {
    let numbers_before = usage_numbers(before, "");
    let before = listed(before.get("usage_limits").cloned().unwrap_or_default());
    match update.get_mut("usage_limits") {
        Some(Value::Array(items)) => {
            let origins = origins(items, &before, &USAGE_FOUND_BY);
            for (item, origin) in items.iter_mut().zip(&origins) {
                set_first_day(item, origin.and_then(|at| before.get(at)), today);
            }
            let places = places(items);
            let numbers = numbers(items, &origins, &numbered(&before, &numbers_before));
            if numbers != places {
                update.insert(USAGE_NUMBERS.to_owned(), numbers.into());
            } else if !numbers_before.is_empty() {
                update.insert(USAGE_NUMBERS.to_owned(), Value::Null);
            }
        }
        Some(item) => set_first_day(item, before.first(), today),
        None => {}
    }
}

/// Which of the limits before each limit is: one with the same values of the first of these lists of members, else of the next.
fn origins(items: &[Value], before: &[Value], found_by: &[&[&str]]) -> Vec<Option<usize>> {
    let mut origins = vec![None; items.len()];
    let is_same = |name: &str, one: &Value, other: &Value| {
        let of = |item: &Value| item.get(name).cloned().unwrap_or_default();
        of(one) == of(other)
    };
    for names in found_by {
        for (at, item) in items.iter().enumerate() {
            if origins.get(at).copied().flatten().is_none() {
                let mut free = (0..before.len()).filter(|of| !origins.contains(&Some(*of)));
                let found = free.find(|of| {
                    before.get(*of).is_some_and(|of| names.iter().all(|name| is_same(name, item, of)))
                });
                if let Some(origin) = origins.get_mut(at) {
                    *origin = found;
                }
            }
        }
    }
    origins
}

/// The place of each limit among those that count the same.
fn places(items: &[Value]) -> Vec<usize> {
    let is_same_kind = |one: &Value, other: &Value| one.get("type") == other.get("type");
    let before = |at: usize| items.iter().take(at);
    items
        .iter()
        .enumerate()
        .map(|(at, item)| before(at).filter(|one| is_same_kind(item, one)).count())
        .collect()
}

/// The numbers that limits have: `given`, and their places where nothing is given.
fn numbered(items: &[Value], given: &[usize]) -> Vec<usize> {
    let places = places(items).into_iter().enumerate();
    places.map(|(at, place)| given.get(at).copied().unwrap_or(place)).collect()
}

/// The numbers of limits: that of the limit before, of a new one the lowest that is free among those that count the same.
fn numbers(items: &[Value], origins: &[Option<usize>], before: &[usize]) -> Vec<usize> {
    let kept: Vec<Option<usize>> = origins.iter().map(|of| before.get((*of)?).copied()).collect();
    let mut numbers: Vec<(&Value, usize)> = Vec::with_capacity(items.len());
    for (item, own) in items.iter().zip(&kept) {
        let of = item.get("type").unwrap_or(&Value::Null);
        let is_taken = |number: usize| {
            let of_kept = items
                .iter()
                .zip(&kept)
                .any(|(other, kept)| other.get("type") == Some(of) && *kept == Some(number));
            of_kept || numbers.contains(&(of, number))
        };
        let number = own.unwrap_or_else(|| (0..).find(|number| !is_taken(*number)).unwrap_or_default());
        numbers.push((of, number));
    }
    numbers.into_iter().map(|(_, number)| number).collect()
}

fn set_first_day(item: &mut Value, before: Option<&Value>, today: &Today) {
    let Value::Object(members) = item else { return };
    let before = before.and_then(Value::as_object);
    set_day(members, before, today);
}

/// As [`set_first_days`], for one limit.
pub(super) fn set_day(item: &mut Map<String, Value>, before: Option<&Map<String, Value>>, today: &Today) {
    let Some(days) = item.get("periodic_reset_days").and_then(Value::as_i64) else {
        item.remove("next_usage_reset_at");
        return;
    };
    let time_of =
        |item: &Map<String, Value>| item.get("next_usage_reset_at")?.as_str()?.parse::<Timestamp>().ok();
    let is_as_long = |before: &&Map<String, Value>| {
        before.get("periodic_reset_days").and_then(Value::as_i64) == Some(days)
    };
    let given = time_of(item).or_else(|| time_of(before.filter(is_as_long)?));
    let first = match given {
        Some(given) => Some(today.day_of(given)),
        None => today.zone.to_datetime(today.now).date().checked_add(days.days()).ok(),
    };
    // A day is kept as its midnight in UTC, wherever days begin.
    if let Some(first) = first.and_then(|day| day.to_zoned(TimeZone::UTC).ok()) {
        item.insert("next_usage_reset_at".to_owned(), time(first.timestamp()));
    }
}

/// What time it is, and where days begin (`limits.timezone`).
pub(super) struct Today {
    now: Timestamp,
    zone: TimeZone,
}

impl Today {
    pub(super) fn of(call: &Call) -> Self {
        Self { now: call.now, zone: call.limits.calendar().zone.clone() }
    }

    /// The day that a time names: midnight in UTC is how days are written and kept; any other time is in the day that it is in where days
    /// begin, as the midnights are that responses show.
    fn day_of(&self, time: Timestamp) -> Date {
        let in_utc = TimeZone::UTC.to_datetime(time);
        if in_utc.time() == Time::midnight() {
            return in_utc.date();
        }
        self.zone.to_datetime(time).date()
    }
}

/// Of more, the nanodollars do not fit into 63 bits.
const MAX_DOLLARS: f64 = 9e9;

/// Has all that was used count from 0 again: limits are compiled with the number of resets.
/// `prefix`: what the names of the limits begin with.
pub(super) fn reset(members: &mut Map<String, Value>, prefix: &str, now: Timestamp) {
    let name = format!("{prefix}{RESETS}");
    let resets = members.get(&name).and_then(Value::as_u64).unwrap_or(0);
    members.insert(name, resets.saturating_add(1).into());
    members.insert(format!("{prefix}{LAST_RESET}"), time(now));
    if let Some(limits) = members.get_mut(&format!("{prefix}usage_limits")) {
        forget_used_before(limits);
    }
}

/// Takes what was used elsewhere out of usage limits: with a reset it counts no more.
pub(super) fn forget_used_before(limits: &mut Value) {
    match limits {
        Value::Array(items) => items.iter_mut().for_each(forget_used_before),
        Value::Object(item) => drop(item.remove(USED_BEFORE)),
        _ => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-05-06T10:00:00Z".parse().unwrap()
    }

    fn today() -> Today {
        Today { now: now(), zone: TimeZone::UTC }
    }

    /// What is shown is sent back, wherever days begin.
    #[test]
    fn a_day_that_was_shown_and_sent_back_is_the_same_day() {
        use memory::limits::from_records::reset_of;
        use memory::limits::{Calendar, LimitKind, UsageOf};
        for zone in
            ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Auckland", "Europe/London"]
        {
            let zone = TimeZone::get(zone).unwrap();
            let calendar = Calendar { zone: zone.clone(), ..Calendar::default() };
            // Around midnight, where the day is not that of UTC.
            for now in [
                "2026-05-06T10:00:00Z",
                "2026-05-06T23:30:00Z",
                "2026-05-06T00:30:00Z",
                "2026-05-06T00:00:00Z",
            ] {
                let today = Today { now: now.parse().unwrap(), zone: zone.clone() };
                let mut item = Map::from_iter([("periodic_reset_days".to_owned(), json!(5))]);
                set_day(&mut item, None, &today);
                let reset_at = |item: &Map<String, Value>| {
                    let kind = LimitKind::Usage {
                        of: UsageOf::Cost,
                        credit: 1,
                        alert_at: None,
                        reset: reset_of(item),
                    };
                    calendar.window(&kind, today.now.as_millisecond()).reset_at().unwrap()
                };
                let first = reset_at(&item);
                let day = zone.to_datetime(today.now).date().checked_add(5.days()).unwrap();
                assert_eq!(zone.to_datetime(first), day.at(0, 0, 0, 0), "{zone:?} {now}");
                let before = item.clone();
                for _ in 0..3 {
                    item.insert("next_usage_reset_at".to_owned(), time(reset_at(&item)));
                    set_day(&mut item, Some(&before), &today);
                    assert_eq!(reset_at(&item), first, "{zone:?} {now}");
                }
                // A day is meant, also where it begins later or earlier.
                item.insert("next_usage_reset_at".to_owned(), json!("2026-07-01T00:00:00Z"));
                set_day(&mut item, None, &today);
                assert_eq!(item["next_usage_reset_at"], "2026-07-01T00:00:00.000Z");
            }
        }
    }

    fn normal(text: &str, is_list: bool) -> (Value, Vec<String>) {
        let mut body = serde_json::from_str(text).unwrap();
        let problems = Problems::default();
        normalise(&mut body, is_list, &problems);
        set_first_days(&mut body, &Map::new(), &today());
        (Value::Object(body), problems.into_vec().into_iter().map(|problem| problem.path).collect())
    }

    #[test]
    fn days_count_from_the_next_start_and_periods_from_the_calendar() {
        for (limits, wanted) in [
            (r#"{"credit_limit":1,"periodic_reset":"weekly"}"#, Value::Null),
            (
                r#"{"credit_limit":1,"periodic_reset":"monthly","next_usage_reset_at":"2026-07-01T12:00:00Z"}"#,
                Value::Null,
            ),
            (r#"{"credit_limit":1,"periodic_reset_days":3}"#, json!("2026-05-09T00:00:00.000Z")),
            (
                r#"{"credit_limit":1,"periodic_reset_days":3,"next_usage_reset_at":"2026-07-01T12:00:00Z"}"#,
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
    fn a_changed_limit_keeps_its_first_day() {
        let of = |limits: Value| Map::from_iter([("usage_limits".to_owned(), limits)]);
        let day_after = |before: Value, update: Value| {
            let mut update = of(json!([{"credit_limit": 1}, update]));
            set_first_days(&mut update, &of(json!([{"credit_limit": 1}, before])), &today());
            update["usage_limits"][1]["next_usage_reset_at"].as_str().unwrap().get(..10).unwrap().to_owned()
        };
        let before = json!({"periodic_reset_days": 3, "next_usage_reset_at": "2026-01-02T00:00:00.000Z"});
        let days = |days: u8| json!({"periodic_reset_days": days});
        assert_eq!(day_after(before.clone(), days(3)), "2026-01-02");
        assert_eq!(day_after(before.clone(), days(4)), "2026-05-10", "another length");
        assert_eq!(day_after(Value::Null, days(3)), "2026-05-09");
        let named = json!({"periodic_reset_days": 3, "next_usage_reset_at": "2026-06-01T10:00:00Z"});
        assert_eq!(day_after(before, named), "2026-06-01");
    }

    #[test]
    fn a_limit_of_a_list_keeps_its_number_when_others_go() {
        let limit = |of: &str, period: &str| json!({"type": of, "credit_limit": 1, "periodic_reset": period});
        let mut kept = Map::new();
        let mut put = |items: Value| {
            let mut update = Map::from_iter([("usage_limits".to_owned(), items)]);
            set_first_days(&mut update, &kept, &today());
            crate::records::overlay(&mut kept, &update, &["usage_limits", USAGE_NUMBERS]);
            kept.get(USAGE_NUMBERS).cloned()
        };
        let weekly = limit("cost", "weekly");
        let monthly = limit("cost", "monthly");
        let tokens = limit("tokens", "weekly");
        assert_eq!(put(json!([weekly, tokens, monthly])), None, "their places");
        assert_eq!(put(json!([monthly])), Some(json!([1])));
        assert_eq!(put(json!([tokens, monthly])), Some(json!([0, 1])));
        assert_eq!(put(json!([monthly, weekly])), Some(json!([1, 0])), "a new one has the free number");
        assert_eq!(put(json!([weekly, monthly])), None);
        // The only one that counts money is the one before, with another period.
        assert_eq!(put(json!([tokens, monthly])), Some(json!([0, 1])));
        assert_eq!(put(json!([limit("cost", "weekly")])), Some(json!([1])));
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
            r#"{"usage_limits":{"credit_limit":5,"alert_threshold":9,"periodic_reset":"weekly","periodic_reset_days":2,"fit":true},
                "rate_limits":[{"value":1}]}"#,
            false,
        );
        assert_eq!(
            problems,
            [
                "usage_limits.alert_threshold",
                "usage_limits.periodic_reset_days",
                "usage_limits.fit",
                "rate_limits[0].unit"
            ]
        );
        let (_, problems) = normal(
            r#"{"usage_limits":[{"credit_limit":9e12},{"credit_limit":1,"next_usage_reset_at":"2026-07-01T12:00:00Z"}]}"#,
            true,
        );
        assert_eq!(problems, ["usage_limits[0].credit_limit", "usage_limits[1].next_usage_reset_at"]);
        assert_eq!(normal(r#"{"usage_limits":[{},{}]}"#, false).1, ["usage_limits"]);
    }
}
