//! The prices of one model, ready for arithmetic: by date, time of day, service tier and batch.
//!
//! Not here: which model a name means (`catalog`), and how prices are written (`decode`).
//!
//! **Arithmetic.** Each unit is charged for what is left of it after the units within it that have prices of their own: input
//! without cache reads, for example. Prices are whole, products are `i128`, and the sum is rounded half-even to nanodollars
//! once. The crate genai-prices says the same to the last nanodollar (`tests`).

use super::rates::Rates;
use super::unit::Unit;
use crate::api::usage::Usage;
use jiff::Timestamp;
use smallvec::SmallVec;
use std::fmt::Write as _;
use std::sync::Arc;

/// What is to be paid for a model.
#[derive(Debug, Clone)]
pub enum Rating {
    Priced(Arc<RateCard>),
    /// Declared free.
    Free,
    Unknown,
}

/// Whose prices they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PriceSource {
    /// The catalogue: the one in the binary, or a newer one.
    Catalogue,
    /// The operator's overlay.
    Overlay,
    /// A stored provider or integration.
    Provider,
}

impl PriceSource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Catalogue => "catalogue",
            Self::Overlay => "overlay",
            Self::Provider => "provider",
        }
    }
}

/// When prices are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constraint {
    /// From this second on (Unix time).
    From(i64),
    /// Between two times of day, in seconds since midnight UTC; over midnight when the end is earlier.
    TimeOfDay { start: u32, end: u32 },
}

impl Constraint {
    fn holds(self, at: Timestamp) -> bool {
        match self {
            Self::From(start) => at.as_second() >= start,
            Self::TimeOfDay { start, end } => {
                // Before 1970 fractions of seconds count from the other side.
                let second = at.as_second() - i64::from(at.subsec_nanosecond() < 0);
                let (second, start, end) = (second.rem_euclid(86_400), i64::from(start), i64::from(end));
                match end < start {
                    true => second >= start || second < end,
                    false => second >= start && second < end,
                }
            }
        }
    }
}

/// Prices, and when they are in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Period {
    /// `None`: always.
    pub constraint: Option<Constraint>,
    pub rates: Rates,
}

/// A fact of a request that changes its prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The service tier that the response reports.
    ServiceTier(Box<str>),
    /// Sent through a provider's batch API.
    Batch,
    /// A fact that the gateway has not: it never holds.
    Other,
}

/// Prices that replace the standard ones under conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    pub conditions: Box<[Condition]>,
    pub period: Period,
}

/// The prices of one model.
#[derive(Debug, PartialEq, Eq)]
pub struct RateCard {
    /// The model as the source of the prices calls it.
    pub model: Box<str>,
    pub source: PriceSource,
    /// The last one in force counts.
    periods: Box<[Period]>,
    /// The first one in force that has a price for a unit counts.
    variants: Box<[Variant]>,
    /// The units that have a price in any of them, a bit each: most units have none, and are not looked for.
    units: u32,
    /// Of an ordinary request, where neither the time nor the input changes it.
    ordinary: Option<Dearest>,
    hash: u64,
}

/// The dearest price of an input token and of an output token, and the price of a request: picodollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Dearest {
    input: Option<i128>,
    output: Option<i128>,
    request: Option<i128>,
}

/// The facts of a request that select prices.
#[derive(Clone, Copy)]
struct Selection<'a> {
    service_tier: Option<&'a str>,
    is_batch: bool,
    at: Timestamp,
}

/// The prices that are in force for a request: those of conditions that hold, then the standard ones. The first that has one for a
/// unit counts.
struct InForce<'a>(SmallVec<[&'a Rates; 4]>);

impl InForce<'_> {
    /// Millionths of a dollar per [`Unit::per`], for a request with so much input.
    fn price(&self, unit: Unit, input: u64) -> Option<u64> {
        self.0.iter().find_map(|rates| rates.get(unit)).map(|rate| rate.at(input))
    }
}

impl RateCard {
    pub fn new(model: &str, source: PriceSource, periods: Vec<Period>, variants: Vec<Variant>) -> Self {
        let (periods, variants) = (periods.into_boxed_slice(), variants.into_boxed_slice());
        let hash = fingerprint(&periods, &variants);
        let all = periods.iter().chain(variants.iter().map(|variant| &variant.period));
        let units =
            all.flat_map(|period| period.rates.iter()).fold(0, |units, (unit, _)| units | 1 << unit as u32);
        let card = Self { model: model.into(), source, periods, variants, units, ordinary: None, hash };
        let ordinary = card.is_constant().then(|| {
            let selection = Selection { service_tier: None, is_batch: false, at: Timestamp::UNIX_EPOCH };
            card.dearest(0, selection)
        });
        Self { ordinary, ..card }
    }

    /// Whether an ordinary request has the same prices at any time, and with any input.
    fn is_constant(&self) -> bool {
        let is_flat = |period: &Period| {
            period.constraint.is_none() && period.rates.iter().all(|(_, rate)| rate.tiers.is_empty())
        };
        let is_special = |variant: &Variant| !variant.conditions.is_empty();
        self.periods.len() == 1 && self.periods.iter().all(is_flat) && self.variants.iter().all(is_special)
    }

    /// A hash of all its prices, the same in every process and version: two rows with the same hash were priced alike.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The same card with each rate changed; of another source.
    pub fn map(&self, source: PriceSource, change: impl Fn(&Rates) -> Rates) -> Self {
        let changed =
            |period: &Period| Period { constraint: period.constraint, rates: change(&period.rates) };
        let periods = self.periods.iter().map(changed).collect();
        let variants = self.variants.iter();
        let variants =
            variants.map(|one| Variant { conditions: one.conditions.clone(), period: changed(&one.period) });
        Self::new(&self.model, source, periods, variants.collect())
    }

    /// Without prices for tiers and batch. A provider that resells another's models has its standard prices only.
    pub fn standard(&self) -> Self {
        Self::new(&self.model, self.source, self.periods.to_vec(), Vec::new())
    }

    /// The prices in force for an ordinary request.
    pub fn rates(&self, at: Timestamp) -> Option<&Rates> {
        let holds = |period: &&Period| period.constraint.is_none_or(|constraint| constraint.holds(at));
        let period = self.periods.iter().rev().find(holds).or(self.periods.first());
        period.map(|period| &period.rates)
    }

    /// The prices in force under a condition, with the condition as text: `service_tier flex`, `batch`.
    pub fn special_rates(&self, at: Timestamp) -> impl Iterator<Item = (String, &Rates)> {
        let in_force = move |variant: &&Variant| {
            variant.period.constraint.is_none_or(|constraint| constraint.holds(at))
                && !variant.conditions.contains(&Condition::Other)
                && !variant.period.rates.is_empty()
        };
        self.variants.iter().filter(in_force).map(|variant| {
            let conditions = variant.conditions.iter().map(|condition| match condition {
                Condition::ServiceTier(tier) => format!("service_tier {tier}"),
                Condition::Batch => "batch".to_owned(),
                Condition::Other => String::new(),
            });
            (conditions.collect::<Vec<_>>().join(", "), &variant.period.rates)
        })
    }

    /// Whether any usage can have a price at all: some models have prices only for what is not counted here, such as seconds.
    pub fn has_rates(&self) -> bool {
        let periods = self.periods.iter().chain(self.variants.iter().map(|variant| &variant.period));
        periods.into_iter().any(|period| !period.rates.is_empty())
    }

    /// What a request costs, in nanodollars. Prices are those in force when the request began (`at`), for the service tier that
    /// the response reports; one that has no prices of its own costs the standard. `None` if nothing that was used has a price.
    pub fn cost(
        &self,
        usage: &Usage,
        service_tier: Option<&str>,
        is_batch: bool,
        at: Timestamp,
    ) -> Option<i64> {
        let in_force = self.in_force(Selection { service_tier, is_batch, at });
        // What is left of each unit that was used.
        let mut remainders: SmallVec<[(Unit, i128); 8]> = SmallVec::new();
        let mut has_rates = false;
        let mut has_priced_use = false;
        let mut sum = 0_i128;
        // The specific units first: what they take is no longer the general ones'.
        for unit in self.units().rev() {
            let Some(price) = in_force.price(unit, usage.input) else { continue };
            has_rates = true;
            let count = unit.count(usage);
            if count == 0 {
                continue;
            }
            has_priced_use = true;
            let within = remainders.iter().filter(|(other, _)| unit.contains(*other));
            let taken: i128 = within.map(|(_, remainder)| remainder).sum();
            // A provider that reports more cached tokens than input tokens has no negative input.
            let remainder = (i128::from(count) - taken).max(0);
            remainders.push((unit, remainder));
            sum = sum.saturating_add(remainder.saturating_mul(scaled(unit, price)));
        }
        let was_used =
            usage.input > 0 || usage.output > 0 || usage.web_searches > 0 || usage.rerank_searches > 0;
        (has_rates && (has_priced_use || !was_used)).then(|| nanodollars(sum))
    }

    /// The most that a request with so many tokens can cost, in nanodollars: nothing is read from a cache, all input is written
    /// to it, and audio is audio throughout where the model has prices for these. `None` if tokens have no price.
    /// Searches are not bounded by tokens and not included.
    pub fn estimate(
        &self,
        input: u64,
        output: u64,
        service_tier: Option<&str>,
        at: Timestamp,
    ) -> Option<i64> {
        let Dearest { input: input_price, output: output_price, request } = match self.ordinary {
            Some(ordinary) if service_tier.is_none() => ordinary,
            _ => self.dearest(input, Selection { service_tier, is_batch: false, at }),
        };
        if input_price.is_none() && output_price.is_none() && request.is_none() {
            return None;
        }
        let tokens = [(input, input_price), (output, output_price), (1, request)];
        let costs = tokens.map(|(count, price)| i128::from(count).saturating_mul(price.unwrap_or_default()));
        Some(nanodollars(costs.iter().fold(0, |sum, cost| sum.saturating_add(*cost))))
    }

    fn dearest(&self, input: u64, selection: Selection<'_>) -> Dearest {
        let in_force = self.in_force(selection);
        let mut dearest = Dearest::default();
        for unit in self.units() {
            let Some(price) = in_force.price(unit, input) else { continue };
            let place = match unit {
                Unit::Request => &mut dearest.request,
                unit if unit.is_input() => &mut dearest.input,
                unit if unit.is_output() => &mut dearest.output,
                _ => continue,
            };
            *place = (*place).max(Some(scaled(unit, price)));
        }
        dearest
    }

    /// The units that have a price at any time, the general before the specific.
    fn units(&self) -> impl DoubleEndedIterator<Item = Unit> {
        let end = (u32::BITS - self.units.leading_zeros()) as usize;
        let units = Unit::ALL.get(..end).unwrap_or_default().iter();
        units.copied().filter(|unit| self.units & 1 << *unit as u32 != 0)
    }

    fn in_force(&self, selection: Selection<'_>) -> InForce<'_> {
        let applies = |variant: &&Variant| {
            variant.period.constraint.is_none_or(|constraint| constraint.holds(selection.at))
                && variant.conditions.iter().all(|condition| match condition {
                    Condition::ServiceTier(tier) => selection.service_tier == Some(&**tier),
                    Condition::Batch => selection.is_batch,
                    Condition::Other => false,
                })
        };
        let mut in_force = SmallVec::new();
        for variant in self.variants.iter().filter(applies) {
            in_force.push(&variant.period.rates);
        }
        in_force.extend(self.rates(selection.at));
        InForce(in_force)
    }
}

/// Picodollars for one of the unit: a thousand calls are a thousandth of a million tokens.
fn scaled(unit: Unit, price: u64) -> i128 {
    i128::from(price) * i128::from(1_000_000 / unit.per().max(1))
}

/// Rounds picodollars half-even to nanodollars.
fn nanodollars(picodollars: i128) -> i64 {
    // Up to nine million dollars, without a division of 128 bits.
    if let Ok(small) = i64::try_from(picodollars) {
        let (whole, rest) = (small.div_euclid(1_000), small.rem_euclid(1_000));
        return whole + i64::from(rest > 500 || (rest == 500 && whole % 2 != 0));
    }
    let (whole, rest) = (picodollars.div_euclid(1_000), picodollars.rem_euclid(1_000));
    let rounds_up = rest > 500 || (rest == 500 && whole % 2 != 0);
    i64::try_from(whole + i128::from(rounds_up)).unwrap_or(i64::MAX)
}

/// A hash of the prices as text.
fn fingerprint(periods: &[Period], variants: &[Variant]) -> u64 {
    let mut text = String::new();
    for period in periods {
        write_period(&mut text, period);
    }
    for variant in variants {
        // Writing to a String does not fail.
        let _ = write!(text, "{:?}", variant.conditions);
        write_period(&mut text, &variant.period);
    }
    fnv(text.as_bytes())
}

/// FNV-1a, 64 bits: the same in every process and version.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn write_period(text: &mut String, period: &Period) {
    // Writing to a String does not fail.
    let _ = write!(text, "{:?}", period.constraint);
    for (unit, rate) in period.rates.iter() {
        let _ = write!(text, " {}={}", unit.price_key(), rate.base);
        for tier in &rate.tiers {
            let _ = write!(text, ">{}:{}", tier.start, tier.price);
        }
    }
    text.push(';');
}

#[cfg(test)]
mod tests {
    use super::super::rates::{Rate, Tier};
    use super::*;

    fn card(prices: &[(Unit, u64)]) -> RateCard {
        let mut rates = Rates::default();
        for (unit, price) in prices {
            rates.set(*unit, Rate::flat(*price));
        }
        RateCard::new("m", PriceSource::Catalogue, vec![Period { constraint: None, rates }], Vec::new())
    }

    fn cost(card: &RateCard, usage: Usage) -> Option<i64> {
        card.cost(&usage, None, false, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn parts_are_charged_once_and_at_their_own_rate() {
        let card = card(&[
            (Unit::Input, 3_000_000),
            (Unit::Output, 15_000_000),
            (Unit::CacheRead, 300_000),
            (Unit::CacheWrite, 3_750_000),
            (Unit::CacheWrite1h, 6_000_000),
        ]);
        let usage = Usage {
            input: 1_000,
            output: 100,
            cached: 400,
            cache_write: 300,
            cache_write_1h: 100,
            reasoning: 60,
            ..Usage::default()
        };
        // 300 × 3 + 400 × 0.3 + 200 × 3.75 + 100 × 6 + 100 × 15, in microdollars.
        assert_eq!(cost(&card, usage), Some(900_000 + 120_000 + 750_000 + 600_000 + 1_500_000));
    }

    #[test]
    fn tiers_are_cliffs_for_the_whole_request() {
        let mut rates = Rates::default();
        let tiered = |base, start, price| Rate { base, tiers: Box::new([Tier { start, price }]) };
        rates.set(Unit::Input, tiered(1_250_000, 200_000, 2_500_000));
        rates.set(Unit::Output, tiered(10_000_000, 200_000, 15_000_000));
        let periods = vec![Period { constraint: None, rates }];
        let card = RateCard::new("m", PriceSource::Catalogue, periods, Vec::new());
        let usage = |input| Usage { input, output: 1_000, ..Usage::default() };
        assert_eq!(cost(&card, usage(200_000)), Some(260_000_000));
        assert_eq!(cost(&card, usage(200_001)), Some(515_002_500));
        assert_eq!(card.estimate(200_001, 1_000, None, Timestamp::UNIX_EPOCH), Some(515_002_500));
    }

    #[test]
    fn nothing_priced_is_unknown_and_not_zero() {
        let usage = Usage { input: 5, output: 5, ..Usage::default() };
        assert_eq!(cost(&card(&[]), usage), None);
        assert_eq!(cost(&card(&[]), Usage::default()), None);
        assert_eq!(cost(&card(&[(Unit::WebSearch, 1)]), usage), None);
        assert_eq!(cost(&card(&[(Unit::Input, 1)]), Usage::default()), Some(0));
        assert_eq!(cost(&card(&[(Unit::Request, 5_000_000)]), usage), Some(5_000_000));
        assert_eq!(card(&[(Unit::WebSearch, 1)]).estimate(1, 1, None, Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn rounding_is_half_even_and_once() {
        let card = card(&[(Unit::Input, 100), (Unit::Output, 100)]);
        let usage = |input, output| Usage { input, output, ..Usage::default() };
        // 5 × 100 pd = 0.5 nd; 15 × 100 = 1.5; 25 × 100 = 2.5; in two parts the same.
        for (input, output, expected) in [(5, 0, 0), (15, 0, 2), (25, 0, 2), (10, 5, 2), (3, 2, 0), (6, 0, 1)]
        {
            assert_eq!(cost(&card, usage(input, output)), Some(expected), "{input} {output}");
        }
    }

    #[test]
    fn contradictory_and_huge_usage_is_not_negative() {
        let card =
            card(&[(Unit::Input, 1_000_000), (Unit::CacheRead, 100_000), (Unit::Output, u64::MAX / 4)]);
        let usage = Usage { input: 10, cached: 100, ..Usage::default() };
        assert_eq!(cost(&card, usage), Some(10_000));
        let usage = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        assert_eq!(cost(&card, usage), Some(i64::MAX));
        assert_eq!(card.estimate(u64::MAX, u64::MAX, None, Timestamp::UNIX_EPOCH), Some(i64::MAX));
    }

    #[test]
    fn an_estimate_is_an_upper_bound_of_every_use() {
        let card = card(&[
            (Unit::Input, 1_000_000),
            (Unit::CacheRead, 100_000),
            (Unit::CacheWrite, 1_250_000),
            (Unit::CacheWrite1h, 2_000_000),
            (Unit::Output, 5_000_000),
            (Unit::Reasoning, 7_000_000),
        ]);
        let bound = card.estimate(100, 100, None, Timestamp::UNIX_EPOCH).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..1_000 {
            let input = random.u64(0..=100);
            let cached = random.u64(0..=input);
            let cache_write = random.u64(0..=input - cached);
            let output = random.u64(0..=100);
            let usage = Usage {
                input,
                output,
                cached,
                cache_write,
                cache_write_1h: random.u64(0..=cache_write),
                reasoning: random.u64(0..=output),
                ..Usage::default()
            };
            assert!(cost(&card, usage).unwrap() <= bound, "{usage:?}");
        }
    }

    #[test]
    fn prices_change_with_date_time_tier_and_batch() {
        let flat = |price| {
            let mut rates = Rates::default();
            rates.set(Unit::Input, Rate::flat(price));
            rates
        };
        let periods = vec![
            Period { constraint: None, rates: flat(1_000) },
            Period { constraint: Some(Constraint::From(1_000_000)), rates: flat(2_000) },
            Period { constraint: Some(Constraint::TimeOfDay { start: 80_000, end: 100 }), rates: flat(500) },
        ];
        let variant = |condition, price| Variant {
            conditions: Box::new([condition]),
            period: Period { constraint: None, rates: flat(price) },
        };
        let variants =
            vec![variant(Condition::ServiceTier("flex".into()), 100), variant(Condition::Batch, 50)];
        let card = RateCard::new("m", PriceSource::Catalogue, periods, variants);
        let usage = Usage { input: 1_000, ..Usage::default() };
        let cost = |second, tier, batch| {
            card.cost(&usage, tier, batch, Timestamp::from_second(second).unwrap()).unwrap()
        };
        assert_eq!(cost(200, None, false), 1_000);
        assert_eq!(cost(1_000_000, None, false), 2_000);
        assert_eq!(cost(99, None, false), 500);
        assert_eq!(cost(-86_400 * 5 + 80_000, None, false), 500);
        assert_eq!(cost(200, Some("flex"), false), 100);
        assert_eq!(cost(200, Some("flux"), false), 1_000);
        assert_eq!(cost(200, None, true), 50);
        assert_eq!(cost(200, Some("flex"), true), 100);
        assert_eq!(card.standard().cost(&usage, Some("flex"), true, Timestamp::UNIX_EPOCH), Some(500));
    }

    #[test]
    fn the_hash_is_that_of_the_prices() {
        let one = card(&[(Unit::Input, 1), (Unit::Output, 2)]);
        assert_eq!(one.hash(), card(&[(Unit::Output, 2), (Unit::Input, 1)]).hash());
        assert_ne!(one.hash(), card(&[(Unit::Output, 1), (Unit::Input, 2)]).hash());
        // It is written into rows that outlive this version.
        assert_eq!(one.hash(), 6_261_737_711_426_260_008);
    }
}
