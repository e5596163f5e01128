//! Prices of a stored provider, read from the bodies of its record and of its integration: `pricing_adjustments`, and
//! `pricing_config` of `models`.
//!
//! The API has checked them when they were saved; what cannot be used here is left out. Prices are in cents per token. Not here:
//! the API (`control::integrations`).

use super::money;
use super::multiplier::Multiplier;
use super::own_prices::{OwnModel, OwnPrices};
use super::rate_card::{Period, PriceSource, RateCard, Rating, fnv};
use super::rates::{Rate, Rates};
use super::unit::Unit;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

impl OwnPrices {
    /// Whether `pricing_adjustments` are factors that prices can have: none of them below 0, and that of all others not 0.
    pub fn reads_adjustments(json: &Value) -> bool {
        json.get("multiplier").is_none_or(Value::is_null) || multiplier(json).is_some()
    }

    /// Of the integration's body and the provider's; what the provider says goes before. `None` if neither says anything.
    pub fn from_records(integration: Option<&Value>, provider: &Value) -> Option<Self> {
        let bodies = || integration.into_iter().chain([provider]);
        let adjustments = |body: &Value| body.get("pricing_adjustments").and_then(multiplier);
        let factor = bodies().filter_map(adjustments).next_back();
        let mut models = HashMap::new();
        for list in bodies().filter_map(|body| body.get("models")?.as_array()) {
            models.extend(list.iter().filter_map(model));
        }
        let mut text = String::new();
        for body in bodies() {
            for member in ["pricing_adjustments", "models"] {
                text.push_str(&body.get(member).map(Value::to_string).unwrap_or_default());
                text.push('\n');
            }
        }
        Self::new(fnv(text.as_bytes()), factor, models)
    }

    /// The price of one call of what has this name, in cents; 0: it is free. `identity`: what no other price has. `None`: it is no price.
    pub fn of_call(name: &str, cents: f64, identity: &str) -> Option<Self> {
        let mut rates = Rates::default();
        let price = money::price_from_cents(cents, Unit::Request.per())?;
        rates.set(Unit::Request, Rate::flat(price));
        let models = HashMap::from([(name.to_lowercase().into(), OwnModel::Fixed(rating(name, rates)?))]);
        Self::new(fnv(identity.as_bytes()), None, models)
    }
}

/// `{"multiplier": {"default": 0.8, "response_token": 0.9, "additional_units": {"web_search": 1}}}`; names may have dots
/// instead of objects.
fn multiplier(json: &Value) -> Option<Multiplier> {
    let factors = json.get("multiplier")?.as_object()?;
    let number = |name: &str| factors.get(name).and_then(Value::as_f64);
    let mut multiplier = Multiplier::new(number("default").unwrap_or(1.0))?;
    for unit in Unit::ALL {
        let token = unit.token_name().and_then(number);
        let additional = unit.additional_name().and_then(|name| {
            let below = factors.get("additional_units").and_then(|units| units.get(name)?.as_f64());
            below.or_else(|| number(&format!("additional_units.{name}")))
        });
        if let Some(factor) = token.or(additional) {
            multiplier.set(unit, factor)?;
        }
    }
    Some(multiplier)
}

/// One entry of `models`: its name, and its own prices or the model that it was made of. `None` if it has neither.
fn model(json: &Value) -> Option<(Box<str>, OwnModel)> {
    let name = json.get("slug")?.as_str()?.to_lowercase();
    let base = json.get("base_model_slug").and_then(Value::as_str).filter(|base| !base.is_empty());
    let own = match json.get("pricing_config").and_then(|config| config.get("pay_as_you_go")?.as_object()) {
        Some(prices) => OwnModel::Fixed(fixed(&name, prices)?),
        None => OwnModel::Like(base?.into()),
    };
    Some((name.into(), own))
}

/// `{"request_token": {"price": 0.00025}, …}`. All prices 0 declare the model free.
fn fixed(name: &str, prices: &Map<String, Value>) -> Option<Rating> {
    let mut rates = Rates::default();
    let price = |json: Option<&Value>| json?.get("price")?.as_f64();
    for unit in Unit::ALL {
        let token = unit.token_name().and_then(|name| price(prices.get(name)));
        let additional =
            unit.additional_name().and_then(|name| price(prices.get("additional_units")?.get(name)));
        let cents = token.or(additional);
        if let Some(price) = cents.and_then(|cents| money::price_from_cents(cents, unit.per())) {
            rates.set(unit, Rate::flat(price));
        }
    }
    rating(name, rates)
}

fn rating(name: &str, rates: Rates) -> Option<Rating> {
    if rates.is_empty() {
        return None;
    }
    if rates.iter().all(|(_, rate)| rate.base == 0) {
        return Some(Rating::Free);
    }
    let periods = vec![Period { constraint: None, rates }];
    Some(Rating::Priced(Arc::new(RateCard::new(name, PriceSource::Provider, periods, Vec::new()))))
}

#[cfg(test)]
mod tests {
    use super::super::{Charge, CostStatus, PriceBook};
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;
    use words::api::usage::Usage;

    fn dollars(book: &PriceBook, own: Option<&OwnPrices>, model: &str) -> (Option<f64>, CostStatus) {
        let web_searches = if model == "my-model" { 10 } else { 0 };
        let usage = Usage { input: 1_000_000, output: 1_000_000, web_searches, ..Usage::default() };
        let at = Timestamp::from_second(1_790_000_000).unwrap();
        let cost = book.cost(&Charge {
            vendor: "openai",
            model,
            response_model: None,
            own,
            usage: &usage,
            service_tier: None,
            is_batch: false,
            at,
        });
        (cost.nanodollars.map(money::dollars), cost.status)
    }

    #[test]
    fn own_prices_go_before_those_of_everyone() {
        let book = PriceBook::default();
        let integration = json!({
            "pricing_adjustments": {"multiplier": {"default": 0.8, "response_token": 0.5}},
            "models": [
                {"slug": "My-Model", "pricing_config": {"type": "static", "pay_as_you_go": {
                    "request_token": {"price": 0.00025}, "response_token": {"price": 0.001},
                    "additional_units": {"web_search": {"price": 1}},
                }}},
                {"slug": "gratis", "pricing_config": {"pay_as_you_go": {"request_token": {"price": 0}}}},
                {"slug": "ft:gpt-4o-mini:acme", "is_finetune": true, "base_model_slug": "gpt-4o-mini"},
                {"slug": "plain", "enabled": true},
            ],
        });
        let prices = OwnPrices::from_records(Some(&integration), &json!({})).unwrap();
        let own = Some(&prices);
        // 2.50 + 10 dollars, and ten searches of a cent.
        assert_eq!(dollars(&book, own, "my-model"), (Some(12.6), CostStatus::Priced));
        assert_eq!(dollars(&book, own, "gratis"), (Some(0.0), CostStatus::Free));
        assert_eq!(dollars(&book, own, "gpt-4o").0, Some(2.5 * 0.8 + 10.0 * 0.5));
        assert_eq!(dollars(&book, own, "ft:gpt-4o-mini:acme").0, Some(0.15 * 0.8 + 0.6 * 0.5));
        assert_eq!(dollars(&book, own, "plain"), (None, CostStatus::Unknown));
        assert_eq!(dollars(&book, None, "my-model"), (None, CostStatus::Unknown));
        let other = json!({"pricing_adjustments": {"multiplier": {"default": 2}}});
        let twice = OwnPrices::from_records(Some(&integration), &other).unwrap();
        assert_eq!(dollars(&book, Some(&twice), "gpt-4o").0, Some(25.0));
        assert_ne!(twice.identity(), prices.identity());
        assert!(OwnPrices::from_records(None, &json!({"models": [{"slug": "a"}]})).is_none());
        let null = json!({"pricing_adjustments": null});
        assert!(OwnPrices::from_records(Some(&null), &null).is_none());
    }
}
