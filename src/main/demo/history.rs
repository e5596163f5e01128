//! The last seven days of a demo: rows of requests with their attempts, made up, and written as those of requests are: by the ledger.
//!
//! More by day than by night, fewer at the weekend; some that were retried, refused, denied, broken off or that have no price. What a row
//! costs is what the prices in force say of its tokens.

use super::objects::{DemoTeam, TeamKey};
use fastrand::Rng;
use jiff::Timestamp;
use knowledge::price::{Charge, Cost, PriceBook};
use knowledge::provider;
use memory::ledger::{Attempt, Entry, Ledger, Row, RowKind, Text};
use memory::state::Shared;
use serde_json::json;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;
use uuid::Uuid;
use words::api::usage::Usage;

const MS_AN_HOUR: i64 = 3_600_000;
const HOURS: i64 = 7 * 24;
/// Requests of a busy hour.
const BUSY: f64 = 90.0;
/// Rows that are handed over together.
const BATCH: usize = 500;
/// The same history at each start, but for its times.
const SEED: u64 = 39;

/// What becomes of a request, by parts of a thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Good,
    FromCache,
    /// The first target failed, and another one responded.
    FellBack,
    Retried,
    Denied,
    Spent,
    Limited,
    Failed,
    BrokenOff,
    ClientLeft,
}

const OUTCOMES: [(u32, Outcome); 10] = [
    (784, Outcome::Good),
    (110, Outcome::FromCache),
    (38, Outcome::FellBack),
    (22, Outcome::Retried),
    (14, Outcome::Denied),
    (8, Outcome::Spent),
    (10, Outcome::Limited),
    (7, Outcome::Failed),
    (4, Outcome::BrokenOff),
    (3, Outcome::ClientLeft),
];

impl Outcome {
    fn draw(rng: &mut Rng) -> Self {
        let mut at = rng.u32(0..1000);
        for (share, outcome) in OUTCOMES {
            if at < share {
                return outcome;
            }
            at -= share;
        }
        Self::Good
    }

    /// Status and code, as the gateway would have them.
    const fn ended(self) -> (u16, Option<&'static str>) {
        match self {
            Self::Good | Self::FromCache | Self::FellBack | Self::Retried => (200, None),
            Self::Denied => (446, Some("hooks_failed")),
            Self::Spent => (412, Some("usage_limit")),
            Self::Limited => (429, Some("rate_limit")),
            Self::Failed => (502, Some("upstream_unreachable")),
            Self::BrokenOff => (200, Some("upstream_invalid_answer")),
            Self::ClientLeft => (499, Some("caller_left")),
        }
    }

    /// Whether a provider was called.
    const fn was_sent(self) -> bool {
        !matches!(self, Self::FromCache | Self::Denied | Self::Spent | Self::Limited)
    }

    /// Whether tokens were used.
    const fn was_charged(self) -> bool {
        self.was_sent() && !matches!(self, Self::Failed)
    }
}

/// Writes the history.
///
/// # Errors
/// There is no ledger, or it takes no more.
pub fn write(shared: &Shared, teams: &[DemoTeam]) -> Result<(), String> {
    let ledger = shared.ledger().ok_or("this gateway keeps no logs")?;
    let prices = shared.prices.load();
    let mut maker = Maker { ledger, prices: &prices, rng: Rng::with_seed(SEED) };
    let now = Timestamp::now().as_millisecond();
    let mut entries = Vec::with_capacity(BATCH);
    for hour in 0..HOURS {
        let begin = now - (HOURS - hour) * MS_AN_HOUR;
        let count = (BUSY * busyness(begin) * maker.rng.f64().mul_add(0.4, 0.8)) as u32;
        for _ in 0..count {
            let at = begin + maker.rng.i64(0..MS_AN_HOUR);
            entries.extend(maker.row(teams, at).map(Entry::from));
        }
        if entries.len() >= BATCH || hour + 1 == HOURS {
            push(ledger, std::mem::take(&mut entries))?;
        }
    }
    Ok(())
}

/// Waits until there is room: nothing is dropped, and live requests have room as well.
fn push(ledger: &Ledger, entries: Vec<Entry>) -> Result<(), String> {
    const TRIES: usize = 100;
    const MAX_WAITING_BYTES: u64 = 16 << 20;
    for _ in 0..TRIES {
        if ledger.health().queue_bytes <= MAX_WAITING_BYTES {
            return if ledger.push(entries) { Ok(()) } else { Err("the ledger's queue is full".to_owned()) };
        }
        sleep(Duration::from_millis(100));
    }
    Err("the ledger takes no rows".to_owned())
}

/// How much of the busiest hour's traffic there is at this time, UTC.
fn busyness(ms: i64) -> f64 {
    let hours = ms.div_euclid(MS_AN_HOUR);
    // 1970 began on a Thursday.
    let hour = hours.rem_euclid(24);
    let weekday = (hours.div_euclid(24) + 3).rem_euclid(7);
    let of_day = ((hour as f64 - 14.0) / 24.0 * std::f64::consts::TAU).cos().mul_add(0.45, 0.55);
    if weekday >= 5 { of_day * 0.4 } else { of_day }
}

struct Maker<'a> {
    ledger: &'a Ledger,
    prices: &'a PriceBook,
    rng: Rng,
}

impl Maker<'_> {
    /// A request that began at this time.
    fn row(&mut self, teams: &[DemoTeam], at: i64) -> Option<Row> {
        let team = self.rng.choice(teams)?;
        let key = self.rng.choice(&team.keys)?;
        let (vendor, model) = *self.rng.choice(team.models)?;
        let person = *self.rng.choice(team.people)?;
        let outcome = Outcome::draw(&mut self.rng);
        let (status, error_code) = outcome.ended();
        let id = self.ledger.new_id(at);
        let latency = self.latency(outcome);
        let streamed = self.rng.bool();
        let first_token = latency / self.rng.u64(3..9);
        let is_success = error_code.is_none();
        let mut row = Row {
            trace_id: Text::from(Uuid::from_u128(self.rng.u128(..)).to_string()),
            error_code: error_code.map(Text::new),
            is_success,
            status,
            guardrails: (outcome == Outcome::Denied).then(|| Text::new(",no-secrets,")),
            streamed,
            latency_us: latency,
            overhead_us: self.rng.u64(250..900),
            first_token_us: (streamed && outcome.was_charged()).then_some(first_token),
            is_fallback: outcome == Outcome::FellBack,
            retries: i32::from(outcome == Outcome::Retried),
            cache_status: Some(Text::new(if outcome == Outcome::FromCache { "HIT" } else { "MISS" })),
            cache_type: Some(Text::new("simple")),
            bytes_in: self.rng.u64(300..9_000),
            bytes_out: self.rng.u64(700..6_000),
            ..of(team, key, person, (vendor, model), Row::new(id, RowKind::Request, at))
        };
        let usage = self.usage(outcome);
        self.charge(&mut row, outcome, vendor, &usage);
        if outcome.was_sent() {
            row.upstream_us = latency.saturating_sub(row.overhead_us);
            attempts(&mut row, outcome, &usage);
        }
        Some(row)
    }

    /// Microseconds.
    fn latency(&mut self, outcome: Outcome) -> u64 {
        let rng = &mut self.rng;
        // Most are quick, few take long.
        let slow = 1.0 / rng.f64().mul_add(0.98, 0.02);
        match outcome {
            Outcome::FromCache | Outcome::Denied | Outcome::Spent | Outcome::Limited => rng.u64(400..2_500),
            Outcome::Failed => rng.u64(2_000..40_000),
            _ => (slow.min(30.0) * 400_000.0) as u64 + rng.u64(200_000..1_500_000),
        }
    }

    fn usage(&mut self, outcome: Outcome) -> Usage {
        let input = self.rng.u64(200..6_000);
        let output =
            if outcome == Outcome::BrokenOff { self.rng.u64(5..60) } else { self.rng.u64(40..1_400) };
        let cached = if self.rng.u8(0..4) == 0 { input / 2 } else { 0 };
        Usage { input, output, total: input + output, cached, ..Usage::default() }
    }

    /// What it used and costs, or would have cost without the cache.
    fn charge(&self, row: &mut Row, outcome: Outcome, vendor: &str, usage: &Usage) {
        let cost = self.cost(row, vendor, usage);
        if outcome.was_charged() {
            row.set_usage(Some(usage), "reported");
            row.set_cost(Some(&cost));
        } else if outcome == Outcome::FromCache {
            row.cost = Some(0);
            row.saved_cost = cost.nanodollars;
        }
    }

    fn cost(&self, row: &Row, vendor: &str, usage: &Usage) -> Cost {
        let unknown = || Cost::unknown(Arc::clone(self.prices.version()), 0);
        let at = Timestamp::from_millisecond(row.created_ms);
        let (Some(vendor), Some(model), Ok(at)) = (provider::find(vendor), row.model.as_deref(), at) else {
            return unknown();
        };
        self.prices.cost(&Charge {
            vendor: vendor.id(),
            model,
            response_model: None,
            own: None,
            usage,
            service_tier: None,
            is_batch: false,
            at,
        })
    }
}

/// Who sent it, and where it went.
fn of(
    team: &DemoTeam,
    key: &TeamKey,
    person: &'static str,
    to: (&'static str, &'static str),
    row: Row,
) -> Row {
    let (vendor, model) = to;
    let metadata = json!({"_user": person, "team": team.slug});
    Row {
        workspace: Some(team.workspace),
        workspace_slug: Some(Text::new(team.slug)),
        api_key: Some(Text::from(key.id.to_string())),
        api_key_name: Some(Text::new(key.name)),
        user: Some(Text::new(person)),
        metadata: Some(Text::from(metadata.to_string())),
        operation: Text::new("chat"),
        method: Text::new("POST"),
        path: Text::new("/v1/chat/completions"),
        provider: Some(Text::new(vendor)),
        vendor: Some(Text::new(vendor)),
        model: Some(Text::new(model)),
        response_model: Some(Text::new(model)),
        requested_model: Some(Text::new(model)),
        config: Some(Text::new(team.config)),
        target: Some(Text::new("config.targets[1]")),
        ..row
    }
}

/// The attempts: one that failed before the other, where the outcome says so.
fn attempts(row: &mut Row, outcome: Outcome, usage: &Usage) {
    let failed = match outcome {
        Outcome::FellBack => Some((0, "upstream_unreachable", "config.targets[0]", "openai-west")),
        Outcome::Retried => Some((503, "upstream_error", "config.targets[1]", "")),
        _ => None,
    };
    let vendor = row.vendor.clone();
    let model = row.model.clone();
    let provider = row.provider.clone();
    let mut number = 1;
    let mut spent = 0;
    if let Some((status, code, target, slug)) = failed {
        spent = row.upstream_us / 10;
        row.add_attempt(&Attempt {
            number,
            created_ms: row.created_ms,
            provider: if slug.is_empty() { provider.as_deref() } else { Some(slug) }.map(Into::into),
            vendor: vendor.as_deref(),
            model: model.as_deref().map(Into::into),
            target: Some(target),
            status,
            error_code: Some(code),
            spent_us: spent,
            usage_source: "reported",
            ..Attempt::default()
        });
        number += 1;
    }
    let status = row.status;
    let error_code = row.error_code.clone();
    row.add_attempt(&Attempt {
        number,
        created_ms: row.created_ms.saturating_add((spent / 1000).cast_signed()),
        provider: provider.as_deref().map(Into::into),
        vendor: vendor.as_deref(),
        model: model.as_deref().map(Into::into),
        response_model: model.as_deref().map(Into::into),
        target: Some("config.targets[1]"),
        status: if outcome == Outcome::Failed { 0 } else { status },
        error_code: error_code.as_deref(),
        is_success: error_code.is_none(),
        responded: outcome != Outcome::Failed,
        spent_us: row.upstream_us.saturating_sub(spent),
        usage: outcome.was_charged().then_some(usage),
        usage_source: "reported",
        ..Attempt::default()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_share_a_thousand_and_days_are_busier_than_nights_and_weekends() {
        assert_eq!(OUTCOMES.iter().map(|(share, _)| share).sum::<u32>(), 1000);
        // Monday the 30th of November 2026, 14:00 and 02:00, and the day before.
        let monday = 1_796_047_200_000;
        assert!(busyness(monday) > 0.95 && busyness(monday - 12 * MS_AN_HOUR) < 0.2);
        assert!(busyness(monday - 24 * MS_AN_HOUR) < 0.5);
    }
}
