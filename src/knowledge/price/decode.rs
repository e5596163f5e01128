//! Reads a catalogue in the format of genai-prices' `data.json`, version 2.
//!
//! What the arithmetic needs is read strictly, and a mistake refuses the whole file: a catalogue that was fetched replaces one
//! that works. What it does not need (extractors of usage, descriptions, prices of units that are not counted here) is read over.

use super::catalog::{Catalog, CatalogModel, CatalogProvider};
use super::model_rule::{ModelRule, NamePattern};
use super::money;
use super::rate_card::{Condition, Constraint, Period, PriceSource, RateCard, Variant};
use super::rates::{Rate, Rates, Tier};
use super::unit::Unit;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;

/// How deep rules of names may be nested.
const MAX_RULE_DEPTH: usize = 16;

/// The most tiers of a price.
const MAX_TIERS: usize = 64;

impl Catalog {
    /// # Errors
    /// What is wrong, with the provider and model where it stands.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let list = list(text)?;
        let providers: Vec<_> =
            list.into_iter().map(|json| Ok((provider(&json)?.id, json))).collect::<Result<_, String>>()?;
        if providers.is_empty() {
            return Err("has no providers".to_owned());
        }
        Ok(Self::new(providers.into_iter()))
    }

    /// Reads one whose providers and models are not checked now, but left out where they cannot be decoded later.
    ///
    /// # Errors
    /// It is no list of providers with ids.
    pub(super) fn read_trusted(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Provider {
            id: Box<str>,
        }
        let with_id = |json: Box<RawValue>| {
            let provider: Provider = serde_json::from_str(json.get()).map_err(|error| error.to_string())?;
            Ok((provider.id, json))
        };
        let providers: Vec<_> = list(text)?.into_iter().map(with_id).collect::<Result<_, String>>()?;
        Ok(Self::new(providers.into_iter()))
    }
}

fn list(text: &[u8]) -> Result<Vec<Box<RawValue>>, String> {
    serde_json::from_slice(text).map_err(|error| {
        if error.is_data() {
            "must be a list of providers".to_owned()
        } else {
            format!("is no JSON: {error}")
        }
    })
}

pub(super) fn provider(json: &RawValue) -> Result<CatalogProvider, String> {
    let json: Value = serde_json::from_str(json.get()).map_err(|error| format!("is no JSON: {error}"))?;
    let id = json.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let id = id.ok_or("has a provider without an id")?;
    let at = |message: String| format!("provider {id}: {message}");
    let models =
        json.get("models").and_then(Value::as_array).ok_or_else(|| at("has no models".to_owned()))?;
    let models = models.iter().map(model).collect::<Result<_, _>>().map_err(at)?;
    let resold = json.get("fallback_model_providers").and_then(Value::as_array);
    let resold = resold.into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect();
    Ok(CatalogProvider { id: id.into(), models, resold })
}

fn model(json: &Value) -> Result<CatalogModel, String> {
    let id = json.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let id = id.ok_or("has a model without an id")?;
    let at = |message: String| format!("model {id}: {message}");
    let rule = rule(json.get("match").unwrap_or(&Value::Null), 0).map_err(at)?;
    let periods = periods(json.get("prices").unwrap_or(&Value::Null)).map_err(at)?;
    let variants = json.get("price_variants").and_then(Value::as_array);
    let variants = variants.into_iter().flatten().map(variant).collect::<Result<_, _>>().map_err(at)?;
    let card = RateCard::new(id, PriceSource::Catalogue, periods, variants);
    let context_window = json.get("context_window").and_then(Value::as_u64);
    Ok(CatalogModel { id: id.into(), rule, card: Arc::new(card), context_window })
}

fn rule(json: &Value, depth: usize) -> Result<ModelRule, String> {
    let object = json.as_object().filter(|object| object.len() == 1);
    let (operator, argument) =
        object.and_then(|object| object.iter().next()).ok_or("match must be an object with one operator")?;
    let text = || {
        let text = argument.as_str().ok_or_else(|| format!("{operator} must be a text"))?;
        Ok::<_, String>(text.to_lowercase().into_boxed_str())
    };
    let list = || {
        let list = argument.as_array().filter(|_| depth < MAX_RULE_DEPTH);
        let list = list.ok_or_else(|| format!("{operator} must be a list, not nested too deeply"))?;
        list.iter().map(|one| rule(one, depth + 1)).collect::<Result<Box<[_]>, _>>()
    };
    Ok(match operator.as_str() {
        "and" => ModelRule::All(list()?),
        "or" => ModelRule::Any(list()?),
        "contains" => ModelRule::Contains(text()?),
        "ends_with" => ModelRule::EndsWith(text()?),
        "equals" => ModelRule::Equals(text()?),
        "starts_with" => ModelRule::StartsWith(text()?),
        // Not in lower case: `\D` is not `\d`.
        "regex" => {
            let pattern = argument.as_str().ok_or("regex must be a text")?;
            let compiled = NamePattern::compile(pattern);
            ModelRule::Matches(compiled.map_err(|problem| format!("the regex {pattern} {problem}"))?)
        }
        _ => return Err(format!("match has an operator that does not exist: {operator}")),
    })
}

fn periods(json: &Value) -> Result<Vec<Period>, String> {
    match json {
        Value::Null => Ok(Vec::new()),
        Value::Object(prices) => Ok(vec![Period { constraint: None, rates: rates(prices)? }]),
        Value::Array(list) => list.iter().map(period).collect(),
        _ => Err("prices must be an object or a list".to_owned()),
    }
}

fn period(json: &Value) -> Result<Period, String> {
    let prices = json.get("prices").and_then(Value::as_object).ok_or("a price must have prices")?;
    let constraint = json.get("constraint").filter(|constraint| !constraint.is_null()).map(constraint);
    Ok(Period { constraint: constraint.transpose()?, rates: rates(prices)? })
}

fn variant(json: &Value) -> Result<Variant, String> {
    let when = json.get("when").and_then(Value::as_object).filter(|when| !when.is_empty());
    let when = when.ok_or("a price variant must have conditions (when)")?;
    let conditions = when.iter().map(|(name, value)| match (name.as_str(), value.as_str()) {
        ("service_tier", Some(tier)) => Condition::ServiceTier(tier.into()),
        ("processing", Some("batch")) => Condition::Batch,
        _ => Condition::Other,
    });
    Ok(Variant { conditions: conditions.collect(), period: period(json)? })
}

fn constraint(json: &Value) -> Result<Constraint, String> {
    let text = |name| json.get(name).and_then(Value::as_str);
    match (text("start_date"), text("start_time"), text("end_time")) {
        (Some(date), None, None) => {
            let start = date.parse::<Date>().and_then(|date| date.to_zoned(TimeZone::UTC));
            let start = start.map_err(|error| format!("start_date {date}: {error}"))?;
            Ok(Constraint::From(start.timestamp().as_second()))
        }
        (None, Some(start), Some(end)) => {
            Ok(Constraint::TimeOfDay { start: second_of_day(start)?, end: second_of_day(end)? })
        }
        _ => Err("a constraint must have a start_date, or a start_time and an end_time".to_owned()),
    }
}

/// Seconds since midnight UTC of `16:30:00Z` or `16:30:00+02:00`.
fn second_of_day(text: &str) -> Result<u32, String> {
    // Any day will do.
    let instant = format!("2000-01-02T{text}").parse::<jiff::Timestamp>();
    let instant = instant.map_err(|error| format!("the time {text}: {error}"))?;
    u32::try_from(instant.as_second().rem_euclid(86_400)).map_err(|error| error.to_string())
}

/// Prices of units that are not counted here are read over.
fn rates(prices: &Map<String, Value>) -> Result<Rates, String> {
    let mut rates = Rates::default();
    for (key, value) in prices {
        if let Some(unit) = Unit::from_price_key(key).filter(|_| !value.is_null()) {
            rates.set(unit, rate(value).map_err(|problem| format!("{key} {problem}"))?);
        }
    }
    Ok(rates)
}

/// A price: a number, or `{base, tiers: [{start, price}]}`. The overlay writes prices in the same way.
pub fn rate(json: &Value) -> Result<Rate, String> {
    if json.is_number() {
        return price(json).map(Rate::flat);
    }
    let (Some(base), Some(tiers)) = (json.get("base"), json.get("tiers").and_then(Value::as_array)) else {
        return Err("must be a number, or an object with base and tiers".to_owned());
    };
    if tiers.len() > MAX_TIERS {
        return Err(format!("has more than {MAX_TIERS} tiers"));
    }
    let tier = |json: &Value| {
        let start = json.get("start").and_then(Value::as_u64);
        let start = start.ok_or("must have tiers with a start, a number of tokens")?;
        let price = price(json.get("price").unwrap_or(&Value::Null))?;
        Ok::<_, String>(Tier { start, price })
    };
    let mut tiers: Vec<Tier> = tiers.iter().map(tier).collect::<Result<_, _>>()?;
    tiers.sort_by_key(|tier| tier.start);
    Ok(Rate { base: price(base)?, tiers: tiers.into() })
}

fn price(json: &Value) -> Result<u64, String> {
    let price = json.as_f64().and_then(money::price_from_dollars);
    price.ok_or_else(|| "must be a price in dollars, at least 0".to_owned())
}
