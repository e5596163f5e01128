//! The prices of one model, ready for arithmetic: by date, time of day, service tier and batch.
//!
//! Not here: which model a name means (`catalog`), and how prices are written (`decode`).
//!
//! **Arithmetic.** Each unit is charged for what is left of it after the units within it that have prices of their own: input
//! without cache reads, for example. Prices are whole, products are `i128`, and the sum is rounded half-even to nanodollars
//! once. The crate genai-prices says the same to the last nanodollar (`tests`).

use super::rates::Rates;
use super::unit::Unit;
use jiff::Timestamp;
use smallvec::SmallVec;
use std::fmt::Write as _;
use std::sync::Arc;
use words::api::usage::Usage;

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
                let second = second.rem_euclid(86_400);
                let start = i64::from(start);
                let end = i64::from(end);
                if end < start { second >= start || second < end } else { second >= start && second < end }
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

/// The service tier of Anthropic's fast mode, as usage has it.
const FAST: &str = "fast";

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

/// The dearest price of an input token and of an output token, and the prices of a request and a search: picodollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Dearest {
    input: Option<i128>,
    output: Option<i128>,
    request: Option<i128>,
    search: Option<i128>,
}

/// The facts of a request that select prices.
#[derive(Clone, Copy)]
struct Selection<'a> {
    service_tier: Option<&'a str>,
    is_batch: bool,
    at: Timestamp,
}

/// Which service tier a request is priced at before its response reports one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedTier<'a> {
    /// The one that it names, if it names one.
    Named(Option<&'a str>),
    /// At most the one that it names: the standard price, or that tier's.
    UpTo(&'a str),
    /// Whichever the provider likes.
    Any,
}

/// The prices that are in force for a request: those of conditions that hold, then the standard ones. The first that has one for a
/// unit counts.
struct InForce<'a>(SmallVec<[&'a Rates; 4]>);

impl InForce<'_> {
    /// Millionths of a dollar per [`Unit::per`], for a request with so much input.
    fn price(&self, unit: Unit, input: u64) -> Option<u64> {
        self.0.iter().find_map(|rates| rates.get(unit)).map(|rate| rate.at(input))
    }

    /// The most of it for a request with up to so much input.
    fn most(&self, unit: Unit, input: u64) -> Option<u64> {
        self.0.iter().find_map(|rates| rates.get(unit)).map(|rate| rate.up_to(input))
    }
}

impl RateCard {
    pub fn new(model: &str, source: PriceSource, periods: Vec<Period>, variants: Vec<Variant>) -> Self {
        let periods = periods.into_boxed_slice();
        let variants = variants.into_boxed_slice();
        let hash = fingerprint(&periods, &variants);
        let all = periods.iter().chain(variants.iter().map(|variant| &variant.period));
        let units =
            all.flat_map(|period| period.rates.iter()).fold(0, |units, (unit, _)| units | 1 << unit as u32);
        let card = Self { model: model.into(), source, periods, variants, units, ordinary: None, hash };
        let ordinary =
            card.is_constant().then(|| card.dearest(0, ExpectedTier::Named(None), Timestamp::UNIX_EPOCH));
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
    pub(crate) fn has_rates(&self) -> bool {
        let periods = self.periods.iter().chain(self.variants.iter().map(|variant| &variant.period));
        periods.into_iter().any(|period| !period.rates.is_empty())
    }

    /// All its prices, each with the time at which it is in force: the standard ones, and those under conditions.
    pub(super) fn all_periods(&self) -> impl Iterator<Item = (&[Condition], &Period)> {
        let standard = self.periods.iter().map(|period| (&[][..], period));
        standard.chain(self.variants.iter().map(|variant| (&*variant.conditions, &variant.period)))
    }

    /// The price of a unit, or of what contains it, for a request with so much input. Millionths of a dollar per [`Unit::per`].
    pub(super) fn price(
        &self,
        unit: Unit,
        service_tier: Option<&str>,
        is_batch: bool,
        input: u64,
        at: Timestamp,
    ) -> Option<u64> {
        let in_force = self.in_force(Selection { service_tier, is_batch, at });
        let containing = Unit::ALL.into_iter().rev().filter(|other| other.contains(unit));
        std::iter::once(unit).chain(containing).find_map(|unit| in_force.price(unit, input))
    }

    /// Whether any of its prices is more than nothing.
    pub(crate) fn is_positive(&self) -> bool {
        let periods = self.periods.iter().chain(self.variants.iter().map(|variant| &variant.period));
        let mut rates = periods.flat_map(|period| period.rates.iter());
        rates.any(|(_, rate)| rate.base > 0 || rate.tiers.iter().any(|tier| tier.price > 0))
    }

    /// What a request costs, in nanodollars. Prices are those in force when the request began (`at`), for the service tier that
    /// the response reports; one that has no prices of its own costs the standard, unless it is known to be far dearer. `None` if nothing that was used has a price, or tokens
    /// have none: neither their own nor one that contains them. What is billed by the piece alone has no price for tokens, and needs none.
    pub fn cost(
        &self,
        usage: &Usage,
        service_tier: Option<&str>,
        is_batch: bool,
        at: Timestamp,
    ) -> Option<i64> {
        if self.lacks(service_tier) {
            return None;
        }
        let in_force = self.in_force(Selection { service_tier, is_batch, at });
        // What is left of each unit that was used.
        let mut remainders: SmallVec<[(Unit, i128); 8]> = SmallVec::new();
        let mut has_rates = false;
        let mut has_priced_use = false;
        let mut by_token = false;
        let mut by_piece = false;
        let mut input = 0;
        let mut output = 0;
        let mut sum = 0_i128;
        // The specific units first: what they take is no longer the general ones'.
        for unit in self.units().rev() {
            let Some(price) = in_force.price(unit, usage.input) else { continue };
            has_rates = true;
            by_token |= unit.is_input() || unit.is_output();
            by_piece |= matches!(unit, Unit::Request | Unit::RerankSearch | Unit::Characters);
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
            input += if unit.is_input() { remainder } else { 0 };
            output += if unit.is_output() { remainder } else { 0 };
            sum = sum.saturating_add(remainder.saturating_mul(scaled(unit, price)));
        }
        let pieces = [usage.web_searches, usage.rerank_searches, usage.characters];
        let was_used = usage.input > 0 || usage.output > 0 || pieces.iter().any(|count| *count > 0);
        let has_all = input >= i128::from(usage.input) && output >= i128::from(usage.output);
        let is_priced = has_rates && (has_priced_use || !was_used) && (has_all || (by_piece && !by_token));
        is_priced.then(|| nanodollars(sum))
    }

    /// The most that a request with up to so many tokens and searches of the web can cost, in nanodollars: nothing is read from a cache,
    /// all input is written to it, and audio is audio throughout where the model has prices for these. `None` if something of it has no
    /// price; searches without one are part of the price of tokens.
    pub fn estimate(
        &self,
        input: u64,
        output: u64,
        searches: u64,
        tier: ExpectedTier<'_>,
        at: Timestamp,
    ) -> Option<i64> {
        let dearest = match self.ordinary {
            Some(ordinary) if tier == ExpectedTier::Named(None) => ordinary,
            _ => self.dearest(input, tier, at),
        };
        let Dearest { input: input_price, output: output_price, request, search } = dearest;
        let by_token = input_price.is_some() || output_price.is_some();
        let lacks = |count: u64, price: Option<i128>| count > 0 && price.is_none();
        match by_token {
            true if lacks(input, input_price) || lacks(output, output_price) => return None,
            false if request.is_none() => return None,
            _ => {}
        }
        let counts = [(input, input_price), (output, output_price), (1, request), (searches, search)];
        let costs = counts.map(|(count, price)| i128::from(count).saturating_mul(price.unwrap_or_default()));
        Some(nanodollars(costs.iter().fold(0, |sum, cost| sum.saturating_add(*cost))))
    }

    /// Whether this tier's price is not known, and is not near the standard one: Anthropic's fast mode costs several times that.
    pub fn lacks(&self, service_tier: Option<&str>) -> bool {
        let is_of_tier =
            |condition: &Condition| matches!(condition, Condition::ServiceTier(tier) if **tier == *FAST);
        service_tier == Some(FAST)
            && !self.variants.iter().any(|variant| variant.conditions.iter().any(is_of_tier))
    }

    /// Whether searches of the web are billed by the piece, at any time and tier.
    pub fn bills_searches(&self) -> bool {
        self.units & 1 << Unit::WebSearch as u32 != 0
    }

    /// Whether searches of a reranker are billed by the piece, at any time and tier.
    pub fn bills_reranks(&self) -> bool {
        self.units & 1 << Unit::RerankSearch as u32 != 0
    }

    /// Whether the characters of a text that is spoken are billed, at any time and tier.
    pub fn bills_characters(&self) -> bool {
        self.units & 1 << Unit::Characters as u32 != 0
    }

    fn dearest(&self, input: u64, tier: ExpectedTier<'_>, at: Timestamp) -> Dearest {
        let selection = |service_tier| Selection { service_tier, is_batch: false, at };
        let (in_force, variants) = match tier {
            ExpectedTier::Named(tier) => (self.in_force(selection(tier)), SmallVec::new()),
            // Of a tier without a price for a unit, the standard one counts.
            ExpectedTier::UpTo(_) | ExpectedTier::Any => {
                (self.in_force(selection(None)), self.of_tiers(tier, at))
            }
        };
        let mut dearest = Dearest::default();
        for unit in self.units() {
            let special = variants.iter().filter_map(|rates: &&Rates| rates.get(unit));
            let special = special.map(|rate| rate.up_to(input)).max();
            let Some(price) = in_force.most(unit, input).max(special) else { continue };
            let place = match unit {
                Unit::Request => &mut dearest.request,
                Unit::WebSearch => &mut dearest.search,
                unit if unit.is_input() => &mut dearest.input,
                unit if unit.is_output() => &mut dearest.output,
                _ => continue,
            };
            *place = (*place).max(Some(scaled(unit, price)));
        }
        dearest
    }

    /// The prices in force of the service tiers that are expected.
    fn of_tiers(&self, expected: ExpectedTier<'_>, at: Timestamp) -> SmallVec<[&Rates; 4]> {
        let is_expected = |condition: &Condition| match (condition, expected) {
            (Condition::ServiceTier(_), ExpectedTier::Any) => true,
            (Condition::ServiceTier(tier), ExpectedTier::UpTo(name)) => **tier == *name,
            _ => false,
        };
        let in_force = self.variants.iter().filter(|variant| {
            variant.period.constraint.is_none_or(|constraint| constraint.holds(at))
                && variant.conditions.iter().all(is_expected)
        });
        in_force.map(|variant| &variant.period.rates).collect()
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
        let whole = small.div_euclid(1_000);
        let rest = small.rem_euclid(1_000);
        return whole + i64::from(rest > 500 || (rest == 500 && whole % 2 != 0));
    }
    let whole = picodollars.div_euclid(1_000);
    let rest = picodollars.rem_euclid(1_000);
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
mod tests;
