//! The limits of an update, put together with those before: what a limit does not say stays, null clears.
//!
//! Not here: what goes together in a limit (`limits`), and whose limits those before are.

use super::{listed, origins, with_default};
use memory::limits::from_records::USED_BEFORE;
use serde_json::{Map, Value};

/// When a usage limit starts anew. A limit that says how often says all of it.
const PERIODS: [&str; 2] = ["periodic_reset", "periodic_reset_days"];
const NEXT: &str = "next_usage_reset_at";

/// By which members a usage limit is found among those before: the first of these lists that finds one.
pub(super) const USAGE_FOUND_BY: [&[&str]; 2] =
    [&["type", "periodic_reset", "periodic_reset_days"], &["type"]];

/// One of the two members with limits.
struct Member {
    name: &'static str,
    /// The `type` of a limit that names none.
    default: &'static str,
    /// By which members a limit of a list is found among those before.
    found_by: &'static [&'static [&'static str]],
}

const MEMBERS: [Member; 2] = [
    Member { name: "usage_limits", default: "cost", found_by: &USAGE_FOUND_BY },
    Member { name: "rate_limits", default: "requests", found_by: &[&["type", "unit"]] },
];

/// Gives each limit of `update` the members that it does not name and the one before had. A limit that is no list changes the only one
/// there is; one of a list that of its type and period, or type and unit. Those that a list does not have are gone.
pub(super) fn merge(update: &mut Map<String, Value>, before: &Map<String, Value>) {
    for member in &MEMBERS {
        let Some(value) = update.get_mut(member.name).filter(|value| !value.is_null()) else { continue };
        let before = listed(before.get(member.name).cloned().unwrap_or_default());
        let is_one = value.is_object();
        let mut items = listed(value.take());
        if let ([item], [old], true) = (items.as_mut_slice(), before.as_slice(), is_one) {
            continue_limit(item, old);
        } else {
            items = items.into_iter().map(|item| with_default(item, "type", member.default)).collect();
            let origins = origins(&items, &before, member.found_by);
            for (item, origin) in items.iter_mut().zip(origins) {
                if let Some(old) = origin.and_then(|at| before.get(at)) {
                    continue_limit(item, old);
                }
            }
        }
        *value = if is_one { items.pop().unwrap_or_default() } else { items.into() };
    }
}

/// Gives a limit what it does not say itself.
fn continue_limit(item: &mut Value, old: &Value) {
    let (Value::Object(item), Value::Object(old)) = (item, old) else { return };
    let has = |item: &Map<String, Value>, name: &str| item.get(name).is_some_and(|value| !value.is_null());
    let has_period = PERIODS.iter().any(|name| has(item, name));
    let type_of = |limit: &Map<String, Value>| limit.get("type").cloned().unwrap_or_else(|| "cost".into());
    let is_changed = has(item, "type") && type_of(item) != type_of(old);
    for (name, value) in old {
        let is_period = PERIODS.contains(&name.as_str()) || name == NEXT;
        let is_replaced = is_period && has_period;
        // What was used of it elsewhere is in the unit of the type that was.
        let is_of_other_type = name == USED_BEFORE && is_changed;
        if !is_replaced && !is_of_other_type && !item.contains_key(name) {
            item.insert(name.clone(), value.clone());
        }
    }
    item.retain(|_, value| !value.is_null());
    if old.contains_key(NEXT)
        && item.get(NEXT) == old.get(NEXT)
        && !PERIODS.iter().any(|name| has(item, name))
    {
        item.remove(NEXT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(name: &str, before: &Value, update: Value) -> Value {
        let of = |value: Value| Map::from_iter([(name.to_owned(), value)]);
        let mut update = of(update);
        merge(&mut update, &of(before.clone()));
        update.remove(name).unwrap()
    }

    #[test]
    fn a_usage_limit_keeps_what_the_update_does_not_name() {
        let monthly = json!({"type": "cost", "credit_limit": 50.0, "alert_threshold": 40.0, "periodic_reset": "monthly", "hard": true});
        let begun = json!({"type": "cost", "credit_limit": 50.0, "used_before": {"amount": 7}});
        let daily = json!({"type": "cost", "credit_limit": 50.0, "periodic_reset_days": 3, "next_usage_reset_at": "2026-01-02T00:00:00.000Z"});
        for (before, update, wanted) in [
            (
                &monthly,
                json!({"credit_limit": 75}),
                json!({"type": "cost", "credit_limit": 75, "alert_threshold": 40.0, "periodic_reset": "monthly", "hard": true}),
            ),
            (
                &monthly,
                json!({"periodic_reset_days": 7, "alert_threshold": null, "hard": false}),
                json!({"type": "cost", "credit_limit": 50.0, "periodic_reset_days": 7, "hard": false}),
            ),
            (
                &monthly,
                json!({"periodic_reset": null, "hard": null, "alert_threshold": null}),
                json!({"type": "cost", "credit_limit": 50.0}),
            ),
            (
                &monthly,
                json!({"type": "requests"}),
                json!({"type": "requests", "credit_limit": 50.0, "alert_threshold": 40.0, "periodic_reset": "monthly", "hard": true}),
            ),
            (
                &daily,
                json!({"credit_limit": 75}),
                json!({"type": "cost", "credit_limit": 75, "periodic_reset_days": 3, "next_usage_reset_at": "2026-01-02T00:00:00.000Z"}),
            ),
            (&daily, json!({"periodic_reset_days": null}), json!({"type": "cost", "credit_limit": 50.0})),
            (
                &daily,
                json!({"periodic_reset": "weekly"}),
                json!({"type": "cost", "credit_limit": 50.0, "periodic_reset": "weekly"}),
            ),
            (&begun, json!({"type": "tokens"}), json!({"type": "tokens", "credit_limit": 50.0})),
            (
                &begun,
                json!({"type": "cost", "credit_limit": 60}),
                json!({"type": "cost", "credit_limit": 60, "used_before": {"amount": 7}}),
            ),
            (&Value::Null, json!({"credit_limit": 1}), json!({"type": "cost", "credit_limit": 1})),
            (&monthly, Value::Null, Value::Null),
        ] {
            assert_eq!(merged("usage_limits", before, update.clone()), wanted, "{update}");
        }
    }

    #[test]
    fn limits_of_a_list_are_found_by_their_type_and_period() {
        let weekly = json!({"type": "cost", "credit_limit": 5, "periodic_reset": "weekly", "hard": true});
        let monthly = json!({"type": "cost", "credit_limit": 9, "periodic_reset": "monthly"});
        let tokens = json!({"type": "tokens", "credit_limit": 100, "periodic_reset": "weekly"});
        let before = json!([weekly, monthly, tokens]);
        let update = json!([
            {"type": "tokens", "credit_limit": 200},
            {"credit_limit": 8, "periodic_reset": "monthly"},
            {"type": "requests", "credit_limit": 1},
        ]);
        let wanted = json!([
            {"type": "tokens", "credit_limit": 200, "periodic_reset": "weekly"},
            {"type": "cost", "credit_limit": 8, "periodic_reset": "monthly"},
            {"type": "requests", "credit_limit": 1},
        ]);
        assert_eq!(merged("usage_limits", &before, update), wanted, "the weekly one is gone");
        let one = merged("usage_limits", &json!([weekly]), json!({"credit_limit": 6}));
        assert_eq!(one, json!({"type": "cost", "credit_limit": 6, "periodic_reset": "weekly", "hard": true}));
    }

    #[test]
    fn rate_limits_are_found_by_their_type_and_unit() {
        let before = json!([
            {"type": "requests", "unit": "rpm", "value": 5, "smooth": true},
            {"type": "tokens", "unit": "rpm", "value": 500, "smooth": true},
        ]);
        let update = json!([{"unit": "rpm", "value": 6}, {"type": "tokens", "unit": "rpd", "value": 9}]);
        let wanted = json!([
            {"type": "requests", "unit": "rpm", "value": 6, "smooth": true},
            {"type": "tokens", "unit": "rpd", "value": 9},
        ]);
        assert_eq!(merged("rate_limits", &before, update), wanted);
        let only = json!([{"type": "tokens", "unit": "rpm", "value": 500, "smooth": true}]);
        let wanted = json!({"type": "tokens", "unit": "rpm", "value": 600, "smooth": true});
        assert_eq!(merged("rate_limits", &only, json!({"value": 600})), wanted);
    }
}
