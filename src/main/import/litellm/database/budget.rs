//! Columns that limit: budgets with what was spent of them and when they begin anew, and rates.
//!
//! Not here: whose they are.

use super::super::super::cursor::InputAt;
use super::super::super::import::{Import, ImportTarget};
use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use serde_json::{Map, Value, json};

/// The columns of a row, and below them those of the row of `LiteLLM_BudgetTable` that it names.
pub struct Columns<'n> {
    pub own: InputAt<'n>,
    pub budget: Option<InputAt<'n>>,
    /// Of whatever the row limits.
    pub mark: String,
}

/// Of more dollars, a limit cannot be counted.
const MAX_DOLLARS: f64 = 9e9;
/// The most of a rate.
const MAX_RATE: f64 = 9e15;

impl<'n> Columns<'n> {
    pub fn member(&self, name: &str) -> Option<InputAt<'n>> {
        self.own.member(name).or_else(|| self.budget.as_ref()?.member(name))
    }

    fn number(&self, name: &str) -> Option<(InputAt<'n>, f64)> {
        let at = self.member(name)?;
        let number = at.number().filter(|number| !number.is_nan())?;
        Some((at, number))
    }

    /// Whether it limits: an alert alone does not.
    pub fn has_limits(&self) -> bool {
        self.has_budget() || self.has_rates()
    }

    pub fn has_budget(&self) -> bool {
        self.member("max_budget").is_some()
    }

    pub fn has_rates(&self) -> bool {
        ["rpm_limit", "tpm_limit", "tpd_limit"].iter().any(|name| self.member(name).is_some())
    }
}

/// How often a budget begins anew here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Period {
    of: PeriodOf,
    /// Whether it is as long there.
    is_same: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeriodOf {
    Months,
    Days(i64),
}

/// The budget of a row as a usage limit; `None`: it has none. `place`: where that is, for the report.
pub fn usage_limit(import: &mut Import, columns: &Columns<'_>, place: &str) -> Option<Map<String, Value>> {
    if let Some(at) = columns.own.member("budget_id").filter(|_| columns.budget.is_some()) {
        import.findings.exact(&at, format!("{place}: the limits of its budget"));
    }
    let max = columns.number("max_budget");
    let soft = columns.number("soft_budget");
    let may_be_alert = import.target == ImportTarget::Store && !place.contains("policies");
    if max.is_none() && (soft.is_none() || !may_be_alert) {
        if let Some((at, _)) = soft {
            import
                .findings
                .not_taken(&at, "an alert without a budget can stand at stored keys and workspaces alone");
        }
        if let Some(at) = columns.own.member("spend") {
            import.findings.not_taken(
                &at,
                "no budget counts it; what was spent from now on is in analytics (docs/analytics.md)",
            );
        }
        return None;
    }
    let mut limit = Map::from_iter([("type".to_owned(), json!("cost"))]);
    if let Some((at, max)) = &max {
        if *max > MAX_DOLLARS {
            import.findings.different(at, format!("{place}: credit_limit {MAX_DOLLARS}, the most there is"));
        } else {
            import.findings.exact(at, format!("{place}: credit_limit"));
        }
        limit.insert("credit_limit".to_owned(), dollars(*max));
    }
    if let Some((at, soft)) = soft {
        let end = max.as_ref().map_or(MAX_DOLLARS, |(_, max)| max.min(MAX_DOLLARS));
        if (0.0..end).contains(&soft) {
            import.findings.exact(&at, format!("{place}: alert_threshold"));
            limit.insert("alert_threshold".to_owned(), dollars(soft));
        } else {
            import
                .findings
                .not_taken(&at, "is not between 0 and max_budget, so that no alert comes before its end");
        }
    }
    let reset_at = set_period(import, columns, &mut limit, place);
    set_spend(import, columns, &mut limit, reset_at, place);
    Some(limit)
}

/// Writes how often the budget begins anew; returns when it does next.
fn set_period(
    import: &mut Import,
    columns: &Columns<'_>,
    limit: &mut Map<String, Value>,
    place: &str,
) -> Option<Timestamp> {
    let duration = columns.member("budget_duration")?;
    let reset = columns.member("budget_reset_at");
    let reset_at = reset.as_ref().and_then(|at| time(&at.text()?));
    let Some(reset_time) = reset_at else {
        import.findings.different(
            &duration,
            format!("{place}: never begins anew, as the database has no time when it does; what was spent there counts until usage is reset (docs/limits.md)"),
        );
        return None;
    };
    let Some(period) = period(&duration.text().unwrap_or_default()) else {
        import
            .findings
            .not_taken(&duration, "is no duration that LiteLLM reads; the budget never begins anew");
        return None;
    };
    let first = TimeZone::UTC.to_datetime(reset_time);
    let is_first_of_month = first.day() == 1;
    let text = match period.of {
        PeriodOf::Months if is_first_of_month => {
            limit.insert("periodic_reset".to_owned(), json!("monthly"));
            format!("{place}: periodic_reset monthly")
        }
        PeriodOf::Months => format!("{place}: {}", set_days(limit, 30, first)),
        PeriodOf::Days(days) => format!("{place}: {}", set_days(limit, days, first)),
    };
    match (period.is_same, period.of) {
        (true, PeriodOf::Months) if !is_first_of_month => import.findings.different(
            &duration,
            format!("{text} from that day; LiteLLM goes over to the first of the month"),
        ),
        (true, _) => import.findings.exact(&duration, text),
        (false, _) => import.findings.different(
            &duration,
            format!("{text}: budgets begin anew after whole days, 1 to 365, or on the first of the month"),
        ),
    }
    let Some(reset) = reset else { return reset_at };
    let text = format!("{place}: begins anew on {} and so on", first.date());
    match first.time() == civil::Time::midnight() {
        true => import.findings.exact(&reset, text),
        false => import.findings.different(
            &reset,
            format!(
                "{text}, at the day's start (limits.timezone); what was spent there counts until {}",
                first.time()
            ),
        ),
    }
    reset_at
}

fn set_days(limit: &mut Map<String, Value>, days: i64, first: civil::DateTime) -> String {
    limit.insert("periodic_reset_days".to_owned(), json!(days));
    limit.insert("next_usage_reset_at".to_owned(), json!(format!("{}T00:00:00Z", first.date())));
    format!("periodic_reset_days {days}")
}

/// Writes what was spent in the budget's present window.
fn set_spend(
    import: &mut Import,
    columns: &Columns<'_>,
    limit: &mut Map<String, Value>,
    reset_at: Option<Timestamp>,
    place: &str,
) {
    // That of a budget that several share is each one's own.
    let Some(at) = columns.own.member("spend") else { return };
    let Some(spend) = at.number() else { return };
    if reset_at.is_some_and(|reset_at| reset_at <= import.now) {
        import.findings.different(&at, "nothing of it counts: its budget was to begin anew before now");
        return;
    }
    if spend < 0.0 {
        import.findings.different(&at, format!("{place}: counts as 0, what is below is not given back"));
    } else {
        import.findings.exact(&at, format!("{place}: used_before"));
    }
    if spend > 0.0 {
        let mut before = Map::from_iter([("amount".to_owned(), dollars(spend))]);
        if let Some(until) = reset_at {
            before.insert("until".to_owned(), json!(format!("{until:.3}")));
        }
        limit.insert("used_before".to_owned(), Value::Object(before));
    }
}

/// The rates of a row.
pub fn rate_limits(import: &mut Import, columns: &Columns<'_>, place: &str) -> Vec<Value> {
    let mut limits = Vec::new();
    for (name, of, unit) in
        [("rpm_limit", "requests", "rpm"), ("tpm_limit", "tokens", "rpm"), ("tpd_limit", "tokens", "rpd")]
    {
        let Some((at, value)) = columns.number(name) else { continue };
        import.findings.exact(&at, format!("{place}: {of}, {unit}"));
        limits.push(json!({"type": of, "unit": unit, "value": value.clamp(0.0, MAX_RATE).trunc() as i64}));
    }
    limits
}

/// An amount of dollars to the nanodollar, as it is counted here.
pub fn dollars(amount: f64) -> Value {
    let text = format!("{:.9}", amount.clamp(0.0, MAX_DOLLARS));
    let text = text.trim_end_matches('0').trim_end_matches('.');
    serde_json::from_str(text).unwrap_or_default()
}

/// A time as PostgreSQL writes it in JSON: without a zone it is UTC.
pub fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| {
        let at: civil::DateTime = text.parse().ok()?;
        Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })
}

/// A duration such as `30d`. LiteLLM begins budgets of 30 days anew on the first of the month.
fn period(text: &str) -> Option<Period> {
    let text = match text {
        "hourly" => "1h",
        "daily" => "1d",
        "weekly" => "7d",
        "monthly" => "1mo",
        text => text,
    };
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(split)?;
    let number: i64 = number.parse().ok().filter(|number| *number > 0)?;
    let same = |of| Period { of, is_same: true };
    let days = |days: i64, is_same| Period {
        of: PeriodOf::Days(days.clamp(1, 365)),
        is_same: is_same && (1..=365).contains(&days),
    };
    let of_seconds = |seconds: i64| days(seconds / 86_400, seconds % 86_400 == 0);
    match unit {
        "mo" if number == 1 => Some(same(PeriodOf::Months)),
        "mo" => Some(days(number.saturating_mul(30), false)),
        "d" if number == 30 => Some(same(PeriodOf::Months)),
        "d" => Some(days(number, true)),
        "w" => Some(days(number.saturating_mul(7), true)),
        "h" => Some(of_seconds(number.saturating_mul(3_600))),
        "m" => Some(of_seconds(number.saturating_mul(60))),
        "s" => Some(of_seconds(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_days_or_months() {
        let of = |text: &str| period(text).map(|period| (period.of, period.is_same));
        let days = |days, is_same| Some((PeriodOf::Days(days), is_same));
        for (text, wanted) in [
            ("1d", days(1, true)),
            ("30d", Some((PeriodOf::Months, true))),
            ("monthly", Some((PeriodOf::Months, true))),
            ("2mo", days(60, false)),
            ("1w", days(7, true)),
            ("48h", days(2, true)),
            ("30m", days(1, false)),
            ("400d", days(365, false)),
            ("0d", None),
            ("d", None),
            ("", None),
        ] {
            assert_eq!(of(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_was_spent_counts_until_the_budget_begins_anew() {
        let text = r#"{"rows": [
            {"max_budget": 10, "soft_budget": 8.5, "spend": 3.2100000000000001, "budget_duration": "7d", "budget_reset_at": "2026-12-07T00:00:00"},
            {"max_budget": 10, "spend": 3, "budget_duration": "30d", "budget_reset_at": "2026-12-01T00:00:00"},
            {"max_budget": 10, "spend": 3, "budget_duration": "30d", "budget_reset_at": "2026-12-05T13:37:00.5"},
            {"max_budget": 10, "spend": 3, "budget_duration": "1d", "budget_reset_at": "2026-11-30T00:00:00"},
            {"max_budget": 0.1, "spend": 12.5}, {"spend": 3},
            {"max_budget": 10, "spend": 4, "budget_duration": "7d"}, {"max_budget": 1e12, "spend": -1}]}"#;
        let node = words::config::node::Node::from_json(text.as_bytes()).unwrap();
        let rows = InputAt::root(&node, 0).member("rows").unwrap().items();
        let mut import = Import {
            target: ImportTarget::Store,
            now: "2026-11-30T12:00:00Z".parse().unwrap(),
            ..Import::default()
        };
        let limits: Vec<Value> = rows
            .into_iter()
            .map(|own| {
                usage_limit(&mut import, &Columns { own, budget: None, mark: "k".to_owned() }, "k")
                    .map(Value::Object)
                    .unwrap_or_default()
            })
            .collect();
        let wanted = json!([
            {"type": "cost", "credit_limit": 10, "alert_threshold": 8.5, "periodic_reset_days": 7,
             "next_usage_reset_at": "2026-12-07T00:00:00Z", "used_before": {"amount": 3.21, "until": "2026-12-07T00:00:00.000Z"}},
            {"type": "cost", "credit_limit": 10, "periodic_reset": "monthly",
             "used_before": {"amount": 3, "until": "2026-12-01T00:00:00.000Z"}},
            {"type": "cost", "credit_limit": 10, "periodic_reset_days": 30, "next_usage_reset_at": "2026-12-05T00:00:00Z",
             "used_before": {"amount": 3, "until": "2026-12-05T13:37:00.500Z"}},
            {"type": "cost", "credit_limit": 10, "periodic_reset_days": 1, "next_usage_reset_at": "2026-11-30T00:00:00Z"},
            {"type": "cost", "credit_limit": 0.1, "used_before": {"amount": 12.5}},
            null,
            {"type": "cost", "credit_limit": 10, "used_before": {"amount": 4}},
            {"type": "cost", "credit_limit": 9_000_000_000_i64},
        ]);
        assert_eq!(Value::Array(limits), wanted);
    }
}
