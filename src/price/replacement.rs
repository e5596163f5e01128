//! Whether a newer catalogue may replace the one in force, and how the two differ.
//!
//! A file or URL can be wrong in ways that parse: empty, cut, prices in another unit. Not here: fetching it (`state::price_feed`).

use super::catalog::Catalog;
use super::price_book::PriceBook;
use super::rate_card::RateCard;
use super::unit::Unit;
use super::vendors::catalogue_provider;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many times larger or smaller a price in use may become.
const MAX_FACTOR: u64 = 10;

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
/// more than tenfold. Where none is in use yet, as at a start: it has less than nine tenths of all models, or prices of more than
/// one in fifty have moved so far, as they do in a file with another unit.
pub fn check_replacement(book: &PriceBook, next: &Catalog, at: Timestamp) -> Result<(), String> {
    let in_use = book.models_in_use();
    if in_use.is_empty() {
        return check_all(book.catalog(), next, at);
    }
    let mut missing = Vec::new();
    for (vendor, model, card) in &in_use {
        let (provider, name) = catalogue_provider(vendor, model);
        match next.find(&provider, name).filter(|found| found.card.has_rates()) {
            None => missing.push(format!("{vendor}/{model}")),
            Some(found) => check_prices(&format!("{vendor}/{model}"), card, &found.card, at)?,
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
    let (before, after) = (catalog.models(), next.models());
    if after.saturating_mul(10) < before.saturating_mul(9) {
        return Err(format!("it has only {after} models, the prices in force have {before}"));
    }
    let (old, new) = (by_name(catalog), by_name(next));
    let moved = old.iter().filter_map(|(name, card)| check_prices(name, card, new.get(name)?, at).err());
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

fn check_prices(name: &str, before: &RateCard, after: &RateCard, at: Timestamp) -> Result<(), String> {
    for unit in Unit::ALL {
        if let (Some(old), Some(new)) = (price(before, unit, at), price(after, unit, at))
            && (new > old.saturating_mul(MAX_FACTOR) || new.saturating_mul(MAX_FACTOR) < old)
        {
            let (old, new) = (super::money::price_in_dollars(old), super::money::price_in_dollars(new));
            return Err(format!("{name}: {} would go from {old} to {new} dollars", unit.price_key()));
        }
    }
    Ok(())
}

/// How `after` differs from `before`, by `provider/model`.
pub fn changes(before: &Catalog, after: &Catalog, at: Timestamp) -> BTreeMap<String, Vec<Change>> {
    let (old, new) = (by_name(before), by_name(after));
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
    let models = catalog.providers().flat_map(|provider| {
        provider.models.iter().map(|model| (format!("{}/{}", provider.id, model.id), Arc::clone(&model.card)))
    });
    models.collect()
}

fn card_changes(before: &RateCard, after: &RateCard, at: Timestamp) -> Vec<Change> {
    if before.hash() == after.hash() {
        return Vec::new();
    }
    let prices = Unit::ALL.into_iter().filter_map(|unit| {
        let (before, after) = (price(before, unit, at), price(after, unit, at));
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
