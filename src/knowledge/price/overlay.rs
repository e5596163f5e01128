//! The operator's own prices: a YAML file of `provider/model` and what it costs.
//!
//! Not here: who reads the file (`main`), and prices of single stored providers (`own_prices`).

use super::money;
use super::multiplier::Multiplier;
use super::rate_card::{Condition, Period, PriceSource, RateCard, Variant, fnv};
use super::rates::{Rate, Rates, Tier};
use super::unit::Unit;
use std::collections::HashMap;
use std::sync::Arc;
use words::api::service_tier::ServiceTier;
use words::config::read::{Cursor, ObjectReader, Problems};
use words::error::Problem;
use words::settings::read_yaml;

/// The keys of an entry that are no prices.
const KEYS: [&str; 4] = ["free", "like", "multiplier", "service_tiers"];

/// What an entry says of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum OverlayPrice {
    Free,
    Rates(Arc<RateCard>),
    /// What another model costs; of the same vendor, if no other is named.
    Like {
        vendor: Option<Box<str>>,
        model: Box<str>,
    },
    /// What the catalogue says: only multiplied.
    Same,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OverlayEntry {
    pub price: OverlayPrice,
    pub multiplier: Option<Multiplier>,
}

/// Entries by vendor and model, in lower case.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    vendors: HashMap<Box<str>, VendorEntries>,
    /// Of the text it was read from; `None` if there is none.
    fingerprint: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct VendorEntries {
    exact: HashMap<Box<str>, OverlayEntry>,
    /// Beginnings of names; the longest first.
    prefixes: Vec<(Box<str>, OverlayEntry)>,
}

impl Overlay {
    /// # Errors
    /// All problems, with line and column.
    pub fn read(text: &str) -> Result<Self, Vec<Problem>> {
        let (node, before) = read_yaml(text).map_err(|problem| vec![problem])?;
        let problems = Problems::default();
        let mut overlay = Self { vendors: HashMap::new(), fingerprint: Some(fnv(text.as_bytes())) };
        for (entry, at) in Cursor::root(&node, &problems).entries().unwrap_or_default() {
            overlay.add(&entry.name, &at);
        }
        for entries in overlay.vendors.values_mut() {
            entries.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        }
        let problems: Vec<Problem> = before.into_iter().chain(problems.into_vec()).collect();
        if problems.is_empty() { Ok(overlay) } else { Err(problems) }
    }

    /// The entry for a model: the one of its name, else the one with the longest beginning of it.
    pub fn find(&self, vendor: &str, model: &str) -> Option<&OverlayEntry> {
        let entries = self.vendors.get(vendor)?;
        let model = model.to_lowercase();
        entries.exact.get(model.as_str()).or_else(|| {
            let mut prefixes = entries.prefixes.iter();
            prefixes.find(|(prefix, _)| model.starts_with(&**prefix)).map(|(_, entry)| entry)
        })
    }

    /// The providers that entries are of, or are priced like, which `exists` does not have: their entries are for no request.
    pub fn unknown_providers(&self, exists: impl Fn(&str) -> bool) -> Vec<&str> {
        let mut named: Vec<&str> = self.vendors.keys().map(|vendor| &**vendor).collect();
        let exact = self.vendors.values().flat_map(|entries| entries.exact.values());
        let prefixes = self.vendors.values().flat_map(|entries| &entries.prefixes);
        for entry in exact.chain(prefixes.map(|(_, entry)| entry)) {
            if let OverlayPrice::Like { vendor: Some(vendor), .. } = &entry.price {
                named.push(vendor);
            }
        }
        named.retain(|vendor| !exists(vendor));
        named.sort_unstable();
        named.dedup();
        named
    }

    /// Names the text it was read from; `None` if there is none.
    pub fn fingerprint(&self) -> Option<u64> {
        self.fingerprint
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.vendors.values().map(|entries| entries.exact.len() + entries.prefixes.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn add(&mut self, name: &str, at: &Cursor<'_>) {
        let Some((vendor, model)) =
            name.split_once('/').filter(|(vendor, model)| !vendor.is_empty() && !model.is_empty())
        else {
            at.problem(
                "must be named provider/model, such as openai/gpt-5; a * at the end stands for any ending",
            );
            return;
        };
        let Some(entry) = at.fields().and_then(|fields| read_entry(model, at, fields)) else { return };
        let vendor = vendor.to_lowercase();
        let model = model.to_lowercase();
        let entries = self.vendors.entry(vendor.into()).or_default();
        match model.strip_suffix('*') {
            Some(prefix) => entries.prefixes.push((prefix.into(), entry)),
            None => _ = entries.exact.insert(model.into(), entry),
        }
    }
}

fn read_entry(model: &str, at: &Cursor<'_>, mut fields: ObjectReader<'_>) -> Option<OverlayEntry> {
    let before = at.problem_count();
    let free = fields.flag(&["free"]);
    let like = fields.get(&["like"]).and_then(|at| read_like(&at));
    let multiplier = fields.get(&["multiplier"]).and_then(|at| read_multiplier(&at));
    let tiers = fields.get(&["service_tiers"]).map(|at| read_service_tiers(&at)).unwrap_or_default();
    let rates = read_rates(&mut fields);
    if rates.is_empty() && !tiers.is_empty() {
        at.problem("has prices of service tiers without prices of its own, which are for all other requests: give both");
    }
    let keys: Vec<&str> = KEYS.into_iter().chain(Unit::ALL.into_iter().map(Unit::price_key)).collect();
    fields.reject_unknown(&keys);
    if at.problem_count() > before {
        return None;
    }
    let price = match (free, like, rates.is_empty()) {
        (Some(true), None, true) if multiplier.is_none() => OverlayPrice::Free,
        (Some(false), ..) => {
            at.problem("is free or not: leave the key free out of it");
            return None;
        }
        (None, Some(like), true) => like,
        (None, None, false) if has_price(&rates) => {
            let periods = vec![Period { constraint: None, rates }];
            let card = RateCard::new(model, PriceSource::Overlay, periods, tiers);
            OverlayPrice::Rates(Arc::new(card))
        }
        (None, None, false) => {
            at.problem("has only prices of 0: a model that costs nothing is declared with free: true");
            return None;
        }
        (None, None, true) if multiplier.is_some() => OverlayPrice::Same,
        _ => {
            at.problem("must have one of: prices (input_mtok, output_mtok, …), free: true, like, or a multiplier; a multiplier may stand beside prices or like");
            return None;
        }
    };
    Some(OverlayEntry { price, multiplier })
}

/// Prices by the service tier that the response reports. Units without a price there cost what they cost without a tier.
fn read_service_tiers(at: &Cursor<'_>) -> Vec<Variant> {
    let mut variants = Vec::new();
    for (entry, at) in at.entries().unwrap_or_default() {
        let Some(mut fields) = at.fields() else { continue };
        let rates = read_rates(&mut fields);
        fields.reject_unknown(&Unit::ALL.map(Unit::price_key));
        match ServiceTier::new(&entry.name) {
            Some(tier) if !rates.is_empty() => variants.push(Variant {
                conditions: Box::new([Condition::ServiceTier((*tier).into())]),
                period: Period { constraint: None, rates },
            }),
            Some(_) => at.problem("has no prices (input_mtok, output_mtok, …)"),
            None => at.problem("is no name of a service tier, such as flex or priority"),
        }
    }
    variants
}

fn has_price(rates: &Rates) -> bool {
    rates.iter().any(|(_, rate)| rate.base > 0 || rate.tiers.iter().any(|tier| tier.price > 0))
}

/// A model's name, or `{provider, model}`.
fn read_like(at: &Cursor<'_>) -> Option<OverlayPrice> {
    if !at.node.is_object() {
        return at.text().map(|model| OverlayPrice::Like { vendor: None, model: model.into() });
    }
    let mut fields = at.fields()?;
    let vendor = fields.text(&["provider"]);
    let model = fields.required(&["model"]).and_then(|at| at.text());
    fields.reject_unknown(&["provider", "model"]);
    Some(OverlayPrice::Like { vendor: vendor.map(Into::into), model: model?.into() })
}

fn read_multiplier(at: &Cursor<'_>) -> Option<Multiplier> {
    let multiplier = Multiplier::new(at.number()?);
    if multiplier.is_none() {
        at.problem("must be a factor above 0 and up to 1000000, such as 0.8 for 20 % off; a model that costs nothing is declared with free: true");
    }
    multiplier
}

fn read_rates(fields: &mut ObjectReader<'_>) -> Rates {
    let mut rates = Rates::default();
    for unit in Unit::ALL {
        if let Some(rate) = fields.get(&[unit.price_key()]).and_then(|at| read_rate(&at)) {
            rates.set(unit, rate);
        }
    }
    rates
}

/// A number, or `{base, tiers: [{start, price}]}`.
fn read_rate(at: &Cursor<'_>) -> Option<Rate> {
    if !at.node.is_object() {
        return read_price(at).map(Rate::flat);
    }
    let mut fields = at.fields()?;
    let base = fields.required(&["base"]).and_then(|at| read_price(&at));
    let list = fields.required(&["tiers"]).and_then(|at| at.list()).unwrap_or_default();
    fields.reject_unknown(&["base", "tiers"]);
    let mut tiers: Vec<Tier> = list.iter().filter_map(read_tier).collect();
    tiers.sort_by_key(|tier| tier.start);
    Some(Rate { base: base?, tiers: tiers.into() })
}

fn read_tier(at: &Cursor<'_>) -> Option<Tier> {
    let mut fields = at.fields()?;
    let start = fields.required(&["start"]).and_then(|at| at.integer_within(0, i64::from(u32::MAX)));
    let price = fields.required(&["price"]).and_then(|at| read_price(&at));
    fields.reject_unknown(&["start", "price"]);
    Some(Tier { start: u64::try_from(start?).ok()?, price: price? })
}

fn read_price(at: &Cursor<'_>) -> Option<u64> {
    let price = money::price_from_dollars(at.number()?);
    if price.is_none() {
        at.problem("must be a price in dollars, at least 0");
    }
    price
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::api::usage::Usage;

    #[test]
    fn entries_are_found_by_name_then_by_the_longest_beginning() {
        let overlay = Overlay::read(
            "openai/gpt-x: {input_mtok: 1}\n'OpenAI/gpt-*': {input_mtok: 2}\nopenai/*: {free: true}\n\
             openai/gpt-long*: {like: gpt-x, multiplier: 0.5}\ntogether-ai/a/b: {like: {provider: openai, model: gpt-x}}\n",
        );
        let overlay = overlay.unwrap();
        assert_eq!(overlay.len(), 5);
        let price = |vendor, model| overlay.find(vendor, model).map(|entry| entry.price.clone());
        let input = |price: Option<OverlayPrice>| match price {
            Some(OverlayPrice::Rates(card)) => {
                card.rates(jiff::Timestamp::UNIX_EPOCH).unwrap().get(Unit::Input).unwrap().base
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(input(price("openai", "GPT-X")), 1_000_000);
        assert_eq!(input(price("openai", "gpt-y")), 2_000_000);
        assert_eq!(price("openai", "other"), Some(OverlayPrice::Free));
        assert!(matches!(price("openai", "gpt-long-one"), Some(OverlayPrice::Like { vendor: None, .. })));
        assert!(matches!(price("together-ai", "a/b"), Some(OverlayPrice::Like { vendor: Some(_), .. })));
        assert_eq!(price("anthropic", "x"), None);
        assert!(Overlay::default().fingerprint().is_none() && overlay.fingerprint().is_some());
    }

    #[test]
    fn service_tiers_have_prices_of_their_own() {
        let text = "openai/m: {input_mtok: 2, output_mtok: 8, service_tiers: {flex: {input_mtok: 1}, priority: {input_mtok: 4, output_mtok: 16}}}";
        let overlay = Overlay::read(text).unwrap();
        let OverlayPrice::Rates(card) = &overlay.find("openai", "m").unwrap().price else {
            panic!("no prices")
        };
        let usage = Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() };
        let cost =
            |tier| card.cost(&usage, tier, false, jiff::Timestamp::UNIX_EPOCH).unwrap() / 1_000_000_000;
        let tiers = [None, Some("default"), Some("flex"), Some("priority")];
        assert_eq!(tiers.map(cost), [10, 10, 9, 20]);
        // Far dearer than the standard, by nobody knows how much.
        assert_eq!(card.cost(&usage, Some("fast"), false, jiff::Timestamp::UNIX_EPOCH), None);
        let special: Vec<String> =
            card.special_rates(jiff::Timestamp::UNIX_EPOCH).map(|(condition, _)| condition).collect();
        assert_eq!(special, ["service_tier flex", "service_tier priority"]);
    }

    #[test]
    fn every_mistake_has_its_place() {
        for (text, expected) in [
            ("gpt: {free: true}", "provider/model"),
            ("a/b: {free: false}", "leave the key free out"),
            ("a/b: {}", "must have one of"),
            ("a/b: {free: true, input_mtok: 1}", "must have one of"),
            ("a/b: {input_mtok: 0, output_mtok: 0}", "declared with free: true"),
            ("a/b: {input_mtok: -1}", "at least 0"),
            ("a/b: {input_mtok: x}", "number"),
            ("a/b: {inputs: 1}", "inputs"),
            ("a/b: {multiplier: -2}", "factor"),
            ("a/b: {multiplier: 0}", "free: true"),
            ("a/b: {input_mtok: {base: 1}}", "tiers"),
            ("a/b: {input_mtok: {base: 1, tiers: [{start: 5}]}}", "price"),
            ("a/b: {like: {provider: openai}}", "model"),
            ("a/b: {input_mtok: 1, service_tiers: {flex: {}}}", "has no prices"),
            ("a/b: {input_mtok: 1, service_tiers: {flex: {input_mtok: -1}}}", "at least 0"),
            ("a/b: {input_mtok: 1, service_tiers: {flex: {free: true}}}", "free"),
            ("a/b: {service_tiers: {flex: {input_mtok: 1}}}", "give both"),
            ("a/b: {input_mtok: 1, service_tiers: [flex]}", "object"),
            ("a/b: 5", ""),
            ("- 1", ""),
            ("a/b: {free: true}\na/b: {free: true}", "twice"),
        ] {
            let problems = Overlay::read(text).map(|_| ()).unwrap_err();
            let listed = format!("{problems:?}");
            assert!(listed.contains(expected), "{text}: {listed}");
        }
        let problems = Overlay::read("a/b: {free: true}\nc/d:\n  input_mtok: -1\n").map(|_| ()).unwrap_err();
        assert_eq!(problems[0].place, Some((3, 15)));
    }

    #[test]
    fn providers_that_do_not_exist_are_found() {
        let text = "openai/m: {free: true}\nopnai/m: {free: true}\nx/*: {like: {provider: y, model: m}}\nx/n: {free: true}\n";
        let overlay = Overlay::read(text).unwrap();
        assert_eq!(overlay.unknown_providers(|vendor| vendor == "openai"), ["opnai", "x", "y"]);
        assert_eq!(overlay.unknown_providers(|_| true), [""; 0]);
    }

    #[test]
    fn an_empty_file_is_refused_or_empty() {
        // A file with comments only is an overlay without entries, or a problem; never a panic.
        let _ = Overlay::read("# nothing\n");
        let _ = Overlay::read("");
    }
}
