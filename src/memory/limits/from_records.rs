//! What records of the store, and keys and providers of the settings, limit: their bodies read as [`Limit`]s.
//!
//! The control plane has checked what it wrote. What this version cannot read of a body is left out, never guessed. Not here: which
//! of them are in force (`in_force`).

use super::limit::{Limit, LimitKind, LimitScope, OnMissing, RateOf, RateUnit, Reset, UsageOf};
use crate::auth::fact_key::{Condition, FactKey};
use crate::store::{Catalog, Kind, Record};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Number, Value};
use std::sync::Arc;
use uuid::Uuid;
use words::settings::key_limits::MAX_SAME_RATES;
use words::settings::{KeyLimits, ServiceKey, StoredProvider};

/// The member of a body that counts how often its usage was reset by hand.
pub const RESETS: &str = "usage_resets";
/// When that was done last.
pub const LAST_RESET: &str = "last_reset_at";
/// The member of a usage limit with what was used of it before this gateway counted: gone where usage is reset by hand.
pub const USED_BEFORE: &str = "used_before";
/// What the names of an integration's own limits begin with: its record may be a provider as well.
pub const OF_INTEGRATION: &str = "integration_";

/// The kinds of records that have limits.
pub const KINDS: [Kind; 5] =
    [Kind::UsagePolicy, Kind::RatePolicy, Kind::ApiKey, Kind::Workspace, Kind::Provider];

/// Of a list of usage limits, the number of each among those that count the same, where it is not its place among them: one that
/// stood before it was taken away.
pub const USAGE_NUMBERS: &str = "usage_limit_numbers";

/// Where the indices of a record's rate limits begin, and those of what it limits as an integration.
const RATES: usize = 64;
const INTEGRATIONS: usize = 128;
/// How many usage limits of a record may count the same.
const MAX_SAME_USAGES: usize = 20;

/// The limits of a record. `catalog`: the workspaces that conditions name.
/// `now` decides which raises are in force.
pub fn limits_of(record: &Record, catalog: &Catalog, now: Timestamp) -> Vec<Limit> {
    let Ok(Value::Object(body)) = serde_json::from_str(&record.body) else { return Vec::new() };
    let name = text(&body, "name").or(record.slug.as_deref()).map(Arc::from);
    let limits = match record.kind {
        Kind::UsagePolicy => policy(record, &body, catalog, usage(&body), now),
        Kind::RatePolicy => policy(record, &body, catalog, rate(&body), now),
        Kind::ApiKey => of_members(record.id, LimitScope::Key, &body, "", now),
        Kind::Workspace => of_members(record.id, LimitScope::Workspace, &body, "", now),
        Kind::Provider => {
            let mut limits = of_members(record.id, LimitScope::Provider, &body, "", now);
            limits.iter_mut().for_each(|limit| limit.workspace = record.workspace);
            limits.extend(of_members(record.id, LimitScope::Integration, &body, OF_INTEGRATION, now));
            limits.extend(of_workspaces(record.id, &body, now));
            limits
        }
        _ => Vec::new(),
    };
    limits.into_iter().map(|limit| Limit { name: name.clone(), ..limit }).collect()
}

/// What an integration has for each workspace: those with an entry, and each of the others by itself.
fn of_workspaces(integration: Uuid, body: &Map<String, Value>, now: Timestamp) -> Vec<Limit> {
    let entries = || items(body, "workspaces").filter_map(Value::as_object);
    let workspace = |entry: &Map<String, Value>| text(entry, "id")?.parse::<Uuid>().ok();
    let of = |workspace: Option<Uuid>, access: &Map<String, Value>| {
        let id = integration_workspace_id(integration, workspace);
        let limits = of_members(id, LimitScope::Integration, access, "", now).into_iter();
        limits.map(move |limit| Limit { record: integration, workspace, ..limit })
    };
    let mut limits: Vec<Limit> =
        entries().filter_map(|entry| Some(of(Some(workspace(entry)?), entry))).flatten().collect();
    if let Some(global) = body.get("global_workspace_access").and_then(Value::as_object) {
        let named: Vec<&str> = entries().filter_map(|entry| text(entry, "id")).collect();
        limits.extend(of(None, global).map(|limit| Limit {
            conditions: vec![Condition::new(FactKey::Workspace, [], named.iter().copied())],
            group_by: vec![FactKey::Workspace],
            ..limit
        }));
    }
    limits
}

/// Under which id the usage of an integration's limits for a workspace is kept; `None`: for those without an entry.
pub fn integration_workspace_id(integration: Uuid, workspace: Option<Uuid>) -> Uuid {
    let workspace = workspace.map_or_else(|| "*".to_owned(), |id| id.to_string());
    id_of_text(&format!("turnpike integration {integration} workspace {workspace}"))
}

/// Under which ids usage of a record may be kept, whatever its limits are now.
pub(crate) fn usage_ids(record: &Record) -> Vec<Uuid> {
    let mut ids = vec![record.id];
    if record.kind == Kind::Provider
        && let Ok(Value::Object(body)) = serde_json::from_str(&record.body)
    {
        let entries = items(&body, "workspaces").filter_map(Value::as_object);
        let workspaces = entries.filter_map(|entry| text(entry, "id")?.parse::<Uuid>().ok()).map(Some);
        ids.extend(workspaces.chain([None]).map(|of| integration_workspace_id(record.id, of)));
    }
    ids
}

/// The limits of a key of the settings: those of requests whose key has its name. `now`: as for [`limits_of`].
pub fn limits_of_key(key: &ServiceKey, now: Timestamp) -> Vec<Limit> {
    let limits = of_settings(settings_key_id(&key.name), LimitScope::Key, &key.limits, now);
    named(limits, &FactKey::ApiKey, &key.name)
}

/// The limits of a provider of the settings: those of attempts that use it.
pub fn limits_of_provider(slug: &str, provider: &StoredProvider, now: Timestamp) -> Vec<Limit> {
    let limits = of_settings(settings_provider_id(slug), LimitScope::Provider, &provider.limits, now);
    named(limits, &FactKey::VirtualKey, slug)
}

fn of_settings(id: Uuid, scope: LimitScope, limits: &KeyLimits, now: Timestamp) -> Vec<Limit> {
    let usages = indexed(limits.usage.iter().filter_map(Value::as_object), usage, &[]);
    let rates = indexed(limits.rates.iter().filter_map(Value::as_object), rate, &[]);
    let found = usages.into_iter().chain(rates);
    found.filter_map(|(index, item, kind)| limit(id, scope, index, item, raised(item, kind, now))).collect()
}

/// Limits of what has this name in the settings.
fn named(limits: Vec<Limit>, key: &FactKey, name: &str) -> Vec<Limit> {
    let shared: Arc<str> = name.into();
    let is_it = || vec![Condition::new(key.clone(), [name], [])];
    let limits = limits.into_iter();
    limits.map(|limit| Limit { conditions: is_it(), name: Some(Arc::clone(&shared)), ..limit }).collect()
}

/// Under which id the usage of a provider of the settings is kept: the same as long as its slug is.
pub(crate) fn settings_provider_id(slug: &str) -> Uuid {
    id_of_text(&format!("turnpike settings provider {slug}"))
}

/// Under which id the usage of a key of the settings is kept: the same as long as its name is.
pub(crate) fn settings_key_id(name: &str) -> Uuid {
    id_of_text(&format!("turnpike settings key {name}"))
}

fn id_of_text(text: &str) -> Uuid {
    let digest = digest(&SHA256, text.as_bytes());
    let mut bytes = [0; 16];
    for (byte, of) in bytes.iter_mut().zip(digest.as_ref()) {
        *byte = *of;
    }
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

fn policy(
    record: &Record,
    body: &Map<String, Value>,
    catalog: &Catalog,
    kind: Option<LimitKind>,
    now: Timestamp,
) -> Vec<Limit> {
    let read = || {
        let conditions = items(body, "conditions").map(|item| Condition::read(item, catalog));
        let group_by = items(body, "group_by").map(|item| FactKey::parse(item.get("key")?.as_str()?));
        Some(Limit {
            workspace: record.workspace,
            conditions: conditions.collect::<Option<_>>()?,
            group_by: group_by.collect::<Option<_>>()?,
            on_missing: text(body, "on_missing").and_then(OnMissing::parse).unwrap_or_default(),
            ..limit(record.id, LimitScope::Policy, 0, body, raised(body, kind?, now))?
        })
    };
    read().into_iter().collect()
}

/// `usage_limits` and `rate_limits` of a body, with `prefix` before their names: objects or lists of them.
fn of_members(
    id: Uuid,
    scope: LimitScope,
    body: &Map<String, Value>,
    prefix: &str,
    now: Timestamp,
) -> Vec<Limit> {
    let first = if prefix.is_empty() { 0 } else { INTEGRATIONS };
    let listed = |name: &str| match body.get(&format!("{prefix}{name}")) {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_object).collect(),
        Some(Value::Object(item)) => vec![item],
        _ => Vec::new(),
    };
    let resets = body.get(&format!("{prefix}{RESETS}")).and_then(Value::as_u64);
    let generation = resets.and_then(|resets| u32::try_from(resets).ok()).unwrap_or(0);
    let numbers = usage_numbers(body, prefix);
    let usages = indexed(listed("usage_limits").into_iter(), usage, &numbers);
    let found = usages.into_iter().chain(indexed(listed("rate_limits").into_iter(), rate, &[]));
    let limits = found
        .filter_map(|(index, item, kind)| limit(id, scope, first + index, item, raised(item, kind, now)));
    limits.map(|limit| Limit { generation, ..limit }).collect()
}

/// The numbers of a body's usage limits ([`USAGE_NUMBERS`]), as far as it has them.
pub fn usage_numbers(body: &Map<String, Value>, prefix: &str) -> Vec<usize> {
    let numbers = body.get(&format!("{prefix}{USAGE_NUMBERS}")).and_then(Value::as_array);
    let numbers = numbers.into_iter().flatten().map(Value::as_u64);
    numbers.map_while(|number| usize::try_from(number?).ok()).collect()
}

/// The limits of a list, each with its index: by what it counts, a rate also by its unit, and then by its number among those that count
/// the same. So usage stays with what it is usage of, wherever the limit stands and whatever becomes of it and of others.
/// `numbers`: where they are not their places.
fn indexed<'a>(
    items: impl Iterator<Item = &'a Map<String, Value>>,
    read: fn(&Map<String, Value>) -> Option<LimitKind>,
    numbers: &[usize],
) -> Vec<(usize, &'a Map<String, Value>, LimitKind)> {
    let mut counts = std::collections::HashMap::new();
    let read = items.enumerate().filter_map(|(place, item)| {
        let kind = read(item)?;
        let (first, room) = indices(&kind);
        let next = counts.entry(first).or_insert(0);
        let number = numbers.get(place).copied().unwrap_or(*next);
        *next += 1;
        (number < room).then_some((first + number, item, kind))
    });
    read.collect()
}

/// The first index of the limits that count what this one does, and how many there are.
fn indices(kind: &LimitKind) -> (usize, usize) {
    match *kind {
        LimitKind::Usage { of, .. } => (MAX_SAME_USAGES * of as usize, MAX_SAME_USAGES),
        LimitKind::Rate { of, unit, .. } => {
            let class = RateUnit::ALL.len() * of as usize + unit as usize;
            (RATES + MAX_SAME_RATES * class, MAX_SAME_RATES)
        }
    }
}

fn limit(
    id: Uuid,
    scope: LimitScope,
    index: usize,
    item: &Map<String, Value>,
    Raised { kind, until, before }: Raised,
) -> Option<Limit> {
    let is_set = |name: &str| item.get(name).and_then(Value::as_bool) == Some(true);
    Some(Limit {
        index: u8::try_from(index).ok()?,
        hard: is_set("hard"),
        fit: is_set("fit"),
        smooth: is_set("smooth"),
        raised_until: until,
        used_before: before.amount,
        changes_at: until.into_iter().chain(before.until).min(),
        ..Limit::new(id, scope, kind)
    })
}

/// A limit with the raise and the usage of before that are in force.
struct Raised {
    kind: LimitKind,
    /// `None`: it is not raised.
    until: Option<i64>,
    before: UsedBefore,
}

/// What was used of a usage limit before this gateway counted.
#[derive(Default)]
struct UsedBefore {
    amount: i64,
    /// `None`: it counts always.
    until: Option<i64>,
}

/// A usage limit with what its `raise` adds until some time, exactly.
fn raised(item: &Map<String, Value>, kind: LimitKind, now: Timestamp) -> Raised {
    let raise = item.get("raise").and_then(Value::as_object);
    let until = raise.and_then(|raise| text(raise, "until")?.parse::<Timestamp>().ok());
    let amount = raise.and_then(|raise| raise.get("amount")?.as_number());
    match (kind, amount, until) {
        (LimitKind::Usage { of, credit, alert_at, reset }, Some(amount), Some(until)) if now < until => {
            let is_hard = item.get("hard").and_then(Value::as_bool) == Some(true);
            let decimals = if of == UsageOf::Cost { NANODOLLARS } else { 0 };
            let credit = credit.saturating_add(whole(amount, decimals, !is_hard));
            let kind = LimitKind::Usage { of, credit, alert_at, reset };
            Raised { kind, until: Some(until.as_millisecond()), before: used_before(item, kind, now) }
        }
        _ => Raised { kind, until: None, before: used_before(item, kind, now) },
    }
}

/// What `used_before` of a usage limit says, while it counts.
fn used_before(item: &Map<String, Value>, kind: LimitKind, now: Timestamp) -> UsedBefore {
    let read = || {
        let LimitKind::Usage { of, .. } = kind else { return None };
        let before = item.get(USED_BEFORE)?.as_object()?;
        let decimals = if of == UsageOf::Cost { NANODOLLARS } else { 0 };
        let amount = whole(before.get("amount")?.as_number()?, decimals, true);
        let until = text(before, "until").map(str::parse::<Timestamp>).transpose().ok()?;
        let counts = until.is_none_or(|until| now < until);
        counts.then(|| UsedBefore { amount, until: until.map(Timestamp::as_millisecond) })
    };
    read().unwrap_or_default()
}

fn usage(item: &Map<String, Value>) -> Option<LimitKind> {
    let of = match text(item, "type") {
        Some("cost") | None => UsageOf::Cost,
        Some("tokens") => UsageOf::Tokens,
        Some("requests") => UsageOf::Requests,
        Some(_) => return None,
    };
    let decimals = if of == UsageOf::Cost { NANODOLLARS } else { 0 };
    let is_hard = item.get("hard").and_then(Value::as_bool) == Some(true);
    let number = |name: &str| item.get(name).and_then(Value::as_number);
    let credit = number("credit_limit").map(|number| whole(number, decimals, !is_hard));
    let alert_at = number("alert_threshold").map(|number| whole(number, decimals, true));
    if credit.is_none() && alert_at.is_none() {
        return None;
    }
    // A limit may consist of the alert alone.
    Some(LimitKind::Usage { of, credit: credit.unwrap_or(i64::MAX), alert_at, reset: reset_of(item) })
}

fn rate(item: &Map<String, Value>) -> Option<LimitKind> {
    let of = match text(item, "type") {
        Some("requests") | None => RateOf::Requests,
        Some("tokens") => RateOf::Tokens,
        Some(_) => return None,
    };
    let value = whole(item.get("value")?.as_number()?, 0, false);
    Some(LimitKind::Rate { of, unit: RateUnit::parse(text(item, "unit")?)?, value })
}

/// When a usage limit, as a body has it, begins anew.
pub fn reset_of(item: &Map<String, Value>) -> Reset {
    let days = item.get("periodic_reset_days").and_then(Value::as_u64);
    match (text(item, "periodic_reset"), days.and_then(|days| u16::try_from(days).ok())) {
        (Some("weekly"), _) => Reset::Weekly,
        (Some("monthly"), _) => Reset::Monthly,
        (_, Some(days)) if days > 0 => {
            let day = text(item, "next_usage_reset_at").and_then(|text| text.parse::<Timestamp>().ok());
            let day = day.map(|day| TimeZone::UTC.to_datetime(day).date());
            Reset::Days { days, from: day.unwrap_or(FIRST_DAY) }
        }
        _ => match item.get("reset_after_idle_minutes").and_then(Value::as_u64) {
            Some(minutes) if minutes > 0 => {
                Reset::Idle { minutes: u16::try_from(minutes).unwrap_or(u16::MAX) }
            }
            _ => Reset::Never,
        },
    }
}

/// From which day days count where nothing says it: a Monday.
const FIRST_DAY: Date = Date::constant(2024, 1, 1);

/// The decimals of dollars that are a nanodollar.
const NANODOLLARS: i32 = 9;

/// `number * 10^decimals` as a whole number: of a fraction, what is above it or below it. Exact: from its digits, not from a float.
fn whole(number: &Number, decimals: i32, up: bool) -> i64 {
    let text = number.to_string();
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = i32::try_from(after.len()).unwrap_or(i32::MAX);
    let Ok(value) = format!("{before}{after}").parse::<i128>() else { return i64::MAX };
    let shift = decimals.saturating_add(exponent).saturating_sub(fraction);
    let power = |of: i32| u32::try_from(of).ok().and_then(|of| 10_i128.checked_pow(of));
    let scaled = match shift {
        0.. => power(shift).and_then(|power| value.checked_mul(power)),
        _ => match power(-shift) {
            Some(power) => Some(value.div_euclid(power) + i128::from(up && value.rem_euclid(power) > 0)),
            // Less than one by more digits than there are.
            None => Some(i128::from(up && value > 0)),
        },
    };
    scaled.and_then(|scaled| i64::try_from(scaled).ok()).unwrap_or(i64::MAX)
}

fn text<'a>(body: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    body.get(name)?.as_str()
}

fn items<'a>(body: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    body.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests;
