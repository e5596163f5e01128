//! Whether a newer catalogue may replace the one in force, and how the two differ.
//!
//! A file or URL can be wrong in ways that parse: empty, cut, prices in another unit. Not here: fetching it (`state::price_feed`).

use super::catalog::{Catalog, CatalogModel};
use super::price_book::PriceBook;
use super::rate_card::{Condition, Constraint, RateCard};
use super::unit::Unit;
use super::vendors::catalogue_provider;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many times larger or smaller a price in use may become.
const MAX_FACTOR: u64 = 10;

/// The most points at which the prices of a model are compared.
const MAX_POINTS: usize = 2_000;

/// How many of a hundred models may have prices that move more than that, while none is in use.
const MAX_MOVED_PERCENT: usize = 2;

/// How many names a message lists.
const LISTED: usize = 5;

/// One difference of two catalogues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Added,
    Removed,
    /// A price of an ordinary request, in millionths of a dollar; `None` where there is none.
    Price {
        unit: Unit,
        before: Option<u64>,
        after: Option<u64>,
    },
    /// Tiers, dates or variants.
    Other,
}

/// # Errors
/// Why `next` may not replace the catalogue in force: it has less than nine tenths of the models in use, or a price in use has moved
/// more than tenfold, is gone, or is new and more than ten times the dearest there is. That is looked at for every service tier, number of
/// input tokens and time that has a price of its own. Where none is in use yet, as at a start: it has less than nine tenths of all models, or prices of more than
/// one in fifty have moved so far, as they do in a file with another unit.
pub fn check_replacement(book: &PriceBook, next: &Catalog, at: Timestamp) -> Result<(), String> {
    let in_use = book.models_in_use();
    if in_use.is_empty() {
        return check_all(book.catalog(), next, at);
    }
    let ceilings = Ceilings::of(book.catalog());
    let mut missing = Vec::new();
    for (vendor, model, card) in &in_use {
        let (provider, name) = catalogue_provider(vendor, model);
        match next.find(&provider, name).filter(|found| found.card.has_rates()) {
            None => missing.push(format!("{vendor}/{model}")),
            Some(found) => check_prices(&format!("{vendor}/{model}"), card, &found.card, &ceilings, at)?,
        }
    }
    if missing.len().saturating_mul(10) > in_use.len() {
        missing.sort();
        missing.truncate(LISTED);
        return Err(format!("it has no prices for models in use, such as {}", missing.join(", ")));
    }
    Ok(())
}

fn check_all(catalog: &Catalog, next: &Catalog, at: Timestamp) -> Result<(), String> {
    let before = catalog.models();
    let after = next.models();
    if after.saturating_mul(10) < before.saturating_mul(9) {
        return Err(format!("it has only {after} models, the prices in force have {before}"));
    }
    let old = by_name(catalog);
    let new = by_name(next);
    let ceilings = Ceilings::of(catalog);
    let check = |name: &String, card| check_prices(name, card, new.get(name)?, &ceilings, at).err();
    let moved = old.iter().filter_map(|(name, card)| check(name, card));
    let mut moved: Vec<String> = moved.collect();
    if moved.len().saturating_mul(100) <= old.len().saturating_mul(MAX_MOVED_PERCENT) {
        return Ok(());
    }
    let count = moved.len();
    moved.truncate(LISTED);
    Err(format!(
        "it moves prices of {count} of {} models more than tenfold, such as {}",
        old.len(),
        moved.join("; ")
    ))
}

/// The highest price of each unit in a catalogue.
struct Ceilings([u64; Unit::COUNT]);

impl Ceilings {
    fn of(catalog: &Catalog) -> Self {
        let mut highest = [0; Unit::COUNT];
        let mut raise = |model: &CatalogModel| {
            for (unit, rate) in model.card.all_periods().flat_map(|(_, period)| period.rates.iter()) {
                if let Some(place) = highest.get_mut(unit as usize) {
                    *place = rate.up_to(u64::MAX).max(*place);
                }
            }
        };
        catalog.providers().for_each(|provider| provider.models.iter().for_each(&mut raise));
        Self(highest)
    }

    fn get(&self, unit: Unit) -> u64 {
        self.0.get(unit as usize).copied().unwrap_or_default()
    }
}

/// What the prices of a request depend on.
struct Point<'a> {
    tier: Option<&'a str>,
    is_batch: bool,
    input: u64,
    at: Timestamp,
}

/// All points at which one of the cards may have prices that it has at no other.
fn points<'a>(cards: [&'a RateCard; 2], now: Timestamp) -> Vec<Point<'a>> {
    let mut tiers = vec![None];
    let mut inputs = vec![0];
    let mut times = vec![now];
    for (conditions, period) in cards.into_iter().flat_map(RateCard::all_periods) {
        tiers.extend(conditions.iter().filter_map(|condition| match condition {
            Condition::ServiceTier(tier) => Some(Some(&**tier)),
            Condition::Batch | Condition::Other => None,
        }));
        let starts = period.rates.iter().flat_map(|(_, rate)| rate.tiers.iter().map(|tier| tier.start));
        inputs.extend(starts.map(|start| start.saturating_add(1)));
        let midnight = now.as_second() - now.as_second().rem_euclid(86_400);
        let begins = match period.constraint {
            Some(Constraint::From(second)) => vec![second],
            Some(Constraint::TimeOfDay { start, end }) => {
                [start, end].map(|of| midnight + i64::from(of)).to_vec()
            }
            None => Vec::new(),
        };
        let begins = begins.into_iter().filter_map(|second| Timestamp::from_second(second).ok());
        // What was in force before no request is priced by any more.
        times.extend(begins.map(|begin| begin.max(now)));
    }
    tiers.sort_unstable();
    tiers.dedup();
    inputs.sort_unstable();
    inputs.dedup();
    times.sort_unstable();
    times.dedup();
    let mut points = Vec::new();
    for (tier, is_batch) in tiers.into_iter().flat_map(|tier| [(tier, false), (tier, true)]) {
        for at in &times {
            points.extend(inputs.iter().map(|input| Point { tier, is_batch, input: *input, at: *at }));
        }
    }
    points.truncate(MAX_POINTS);
    points
}

fn check_prices(
    name: &str,
    before: &RateCard,
    after: &RateCard,
    ceilings: &Ceilings,
    at: Timestamp,
) -> Result<(), String> {
    if before.hash() == after.hash() {
        return Ok(());
    }
    for point in points([before, after], at) {
        for unit in Unit::ALL {
            let price = |card: &RateCard| card.price(unit, point.tier, point.is_batch, point.input, point.at);
            let has_moved = match (price(before), price(after)) {
                (Some(old), Some(new)) => {
                    new > old.saturating_mul(MAX_FACTOR) || new.saturating_mul(MAX_FACTOR) < old
                }
                (Some(old), None) => old > 0,
                (None, Some(new)) => new > ceilings.get(unit).saturating_mul(MAX_FACTOR),
                (None, None) => false,
            };
            if has_moved {
                let shown = |price: Option<u64>| {
                    price.map_or("none".to_owned(), |price| super::money::price_in_dollars(price).to_string())
                };
                let old = shown(price(before));
                let new = shown(price(after));
                let key = unit.price_key();
                return Err(format!("{name}: {key} would go from {old} to {new} dollars{}", point.text()));
            }
        }
    }
    Ok(())
}

impl Point<'_> {
    /// As an addition to a message; empty for an ordinary request.
    fn text(&self) -> String {
        let tier = self.tier.map(|tier| format!("service_tier {tier}"));
        let batch = self.is_batch.then(|| "batch".to_owned());
        let input = (self.input > 0).then(|| format!("{} input tokens", self.input));
        let parts: Vec<String> = [tier, batch, input].into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    }
}

/// How `after` differs from `before`, by `provider/model`.
pub fn changes(before: &Catalog, after: &Catalog, at: Timestamp) -> BTreeMap<String, Vec<Change>> {
    let old = by_name(before);
    let new = by_name(after);
    let mut changes = BTreeMap::new();
    for (name, card) in &old {
        let found = match new.get(name) {
            None => vec![Change::Removed],
            Some(other) => card_changes(card, other, at),
        };
        if !found.is_empty() {
            changes.insert(name.clone(), found);
        }
    }
    let added = new.keys().filter(|name| !old.contains_key(*name));
    changes.extend(added.map(|name| (name.clone(), vec![Change::Added])));
    changes
}

fn by_name(catalog: &Catalog) -> BTreeMap<String, Arc<RateCard>> {
    let mut cards = BTreeMap::new();
    for provider in catalog.providers() {
        let named =
            provider.models.iter().map(|model| (format!("{}/{}", provider.id, model.id), &model.card));
        cards.extend(named.map(|(name, card)| (name, Arc::clone(card))));
    }
    cards
}

fn card_changes(before: &RateCard, after: &RateCard, at: Timestamp) -> Vec<Change> {
    if before.hash() == after.hash() {
        return Vec::new();
    }
    let prices = Unit::ALL.into_iter().filter_map(|unit| {
        let before = price(before, unit, at);
        let after = price(after, unit, at);
        (before != after).then_some(Change::Price { unit, before, after })
    });
    let changes: Vec<Change> = prices.collect();
    if changes.is_empty() { vec![Change::Other] } else { changes }
}

fn price(card: &RateCard, unit: Unit, at: Timestamp) -> Option<u64> {
    card.rates(at)?.get(unit).map(|rate| rate.base)
}

#[cfg(test)]
mod tests {
    use super::super::overlay::Overlay;
    use super::*;

    fn catalog(models: &[(&str, f64)]) -> Catalog {
        let models: Vec<String> = models
            .iter()
            .map(|(id, price)| {
                format!(r#"{{"id":"{id}","match":{{"equals":"{id}"}},"prices":{{"input_mtok":{price}}}}}"#)
            })
            .collect();
        Catalog::read(format!(r#"[{{"id":"openai","models":[{}]}}]"#, models.join(",")).as_bytes()).unwrap()
    }

    fn book(models: &[(&str, f64)]) -> PriceBook {
        PriceBook::shipped(Overlay::default()).with_catalog(Arc::new(catalog(models)), "one")
    }

    fn check(book: &PriceBook, next: &Catalog) -> Result<(), String> {
        check_replacement(book, next, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_catalogue_that_lost_models_in_use_is_refused() {
        let book = book(&[("a", 1.0), ("b", 1.0), ("unused", 1.0)]);
        assert!(check(&book, &catalog(&[("a", 1.0)])).unwrap_err().contains("only 1 models"));
        for model in ["a", "b", "no-such-model"] {
            book.rating("openai", model, None);
        }
        assert_eq!(book.models_in_use().len(), 2);
        assert_eq!(check(&book, &catalog(&[("a", 1.0), ("b", 2.0)])), Ok(()));
        assert!(check(&book, &catalog(&[("a", 1.0)])).unwrap_err().contains("openai/b"));
    }

    #[test]
    fn a_price_in_use_that_moves_tenfold_is_refused() {
        let book = book(&[("a", 1.0), ("b", 1.0)]);
        // Nothing is in use: all models are looked at.
        assert!(check(&book, &catalog(&[("a", 1.0), ("b", 1_000.0)])).unwrap_err().contains("1 of 2 models"));
        assert_eq!(check(&book, &catalog(&[("a", 2.0), ("b", 0.5)])), Ok(()));
        book.rating("openai", "a", None);
        assert_eq!(check(&book, &catalog(&[("a", 10.0), ("b", 1_000.0)])), Ok(()));
        assert!(check(&book, &catalog(&[("a", 10.1)])).unwrap_err().contains("from 1 to 10.1 dollars"));
        assert!(check(&book, &catalog(&[("a", 0.09)])).unwrap_err().contains("openai/a"));
    }

    /// A catalogue of one model with these members.
    fn of_model(members: &str) -> Catalog {
        let text =
            format!(r#"[{{"id":"openai","models":[{{"id":"m","match":{{"equals":"m"}},{members}}}]}}]"#);
        Catalog::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_price_that_goes_or_moves_in_any_tier_variant_or_period_is_refused() {
        let usual = r#""prices":{"input_mtok":{"base":1,"tiers":[{"start":1000,"price":2}]},"output_mtok":8,"cache_read_mtok":0.5},
            "price_variants":[{"when":{"service_tier":"flex"},"prices":{"input_mtok":0.5,"output_mtok":4}}]"#;
        let book = PriceBook::default().with_catalog(Arc::new(of_model(usual)), "one");
        book.rating("openai", "m", None);
        for (from, to, wanted) in [
            ("", "", None),
            (r#","output_mtok":8"#, "", Some("output_mtok would go from 8 to none")),
            (r#""price":2"#, r#""price":2000"#, Some("(1001 input tokens)")),
            (r#""output_mtok":4"#, r#""output_mtok":900"#, Some("(service_tier flex)")),
            (r#""output_mtok":4"#, r#""output_mtok":0"#, Some("(service_tier flex)")),
            (r#""output_mtok":8"#, r#""output_mtok":8,"requests_kcount":1000000"#, Some("requests_kcount")),
            // As its input costs without it.
            (r#","cache_read_mtok":0.5"#, "", None),
            (r#"{"service_tier":"flex"}"#, r#"{"service_tier":"slow"}"#, None),
        ] {
            let next = of_model(&usual.replacen(from, to, usize::from(!from.is_empty())));
            let found = check(&book, &next);
            match wanted {
                None => assert_eq!(found, Ok(()), "{from} {to}"),
                Some(text) => {
                    let why = found.expect_err(to);
                    assert!(why.contains(text), "{why}");
                }
            }
        }
        let later = r#""prices":[{"prices":{"input_mtok":1,"output_mtok":8}},
            {"constraint":{"start_date":"2030-01-01"},"prices":{"input_mtok":1,"output_mtok":0}}]"#;
        assert!(check(&book, &of_model(later)).is_err(), "from a day on");
    }

    #[test]
    fn models_stay_in_use_when_the_book_is_replaced() {
        let book = book(&[("a", 1.0), ("b", 1.0)]);
        book.rating("openai", "a", None);
        let reloaded = book.with_overlay(Arc::new(Overlay::read("openai/x: {free: true}").unwrap()));
        assert_eq!(reloaded.models_in_use().len(), 1);
        let next = reloaded.with_catalog(Arc::new(catalog(&[("a", 2.0), ("b", 1.0)])), "two");
        assert_eq!(next.models_in_use().len(), 1);
        assert!(check(&next, &catalog(&[("b", 1.0)])).unwrap_err().contains("openai/a"));
        // Once the overlay has a price for it, the catalogue's is not in use.
        let own = Overlay::read("openai/a: {input_mtok: 1}").unwrap();
        assert_eq!(next.with_overlay(Arc::new(own)).models_in_use().len(), 0);
    }

    #[test]
    fn differences_are_by_model_and_unit() {
        let found = changes(
            &catalog(&[("a", 1.0), ("b", 1.0), ("same", 1.0)]),
            &catalog(&[("a", 2.0), ("c", 1.0), ("same", 1.0)]),
            Timestamp::UNIX_EPOCH,
        );
        let price = Change::Price { unit: Unit::Input, before: Some(1_000_000), after: Some(2_000_000) };
        let expected = [
            ("openai/a", vec![price]),
            ("openai/b", vec![Change::Removed]),
            ("openai/c", vec![Change::Added]),
        ];
        assert_eq!(found, expected.map(|(name, list)| (name.to_owned(), list)).into());
    }
}
