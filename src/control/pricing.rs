//! `GET /model-configs/pricing/{provider}/{model}`: what a model costs, in cents per token.
//!
//! Without a key: prices are public. Those of stored providers are not shown. Not here: where prices are from (`price`).

use super::call::Call;
use super::field::{Field, Type, required};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get};
use http::StatusCode;
use knowledge::price::{Rates, Rating, money};
use serde_json::{Map, Value, json};
use words::error::Error;

const SUMMARY: &str = "What a model costs, in cents per token";

const PRICING: &[Field] = &[
    required("pay_as_you_go", Type::AnyObject, "The price of each kind of token, `{\"price\": cents}`."),
    required("currency", Type::OneOf(&["USD"]), "Dollars: prices are in their cents."),
    required("free", Type::Flag, "Whether the model is declared free."),
    required("source", Type::Text(20), "`catalogue` or `overlay`."),
    required("model", Type::Text(4096), "The model as the source calls it."),
    required("price_version", Type::Text(255), "Which prices are in force."),
];

const NOT_PRICED: &[Field] = &[required("error", Type::OneOf(&["Model not found"]), "`Model not found`.")];

const WHEN_NOT_PRICED: &str = "The price is not known.";

pub(super) const ROUTES: &[Route] = &[
    get("/model-configs/pricing/{provider}/{*model}", Access::Open, SUMMARY, |call| Box::pin(show(call)))
        .replies(Shape::Object(PRICING))
        .also("404", WHEN_NOT_PRICED, Shape::Object(NOT_PRICED)),
    get("/v1/model-configs/pricing/{provider}/{*model}", Access::Open, SUMMARY, |call| Box::pin(show(call)))
        .replies(Shape::Object(PRICING))
        .also("404", WHEN_NOT_PRICED, Shape::Object(NOT_PRICED)),
];

async fn show(call: Call) -> Result<Reply, Error> {
    let vendor = call.param("provider");
    let model = call.param("model");
    let book = call.shared.prices.load_full();
    let version = book.version();
    match book.rating(vendor, model, None) {
        Rating::Unknown => {
            Ok(Reply::from(json!({"error": "Model not found"})).with_status(StatusCode::NOT_FOUND))
        }
        Rating::Free => Ok(Reply::from(json!({
            "pay_as_you_go": {"request_token": {"price": 0}, "response_token": {"price": 0}},
            "currency": "USD",
            "free": true,
            "source": "overlay",
            "model": model,
            "price_version": &**version,
        }))),
        Rating::Priced(card) => Ok(Reply::from(json!({
            "pay_as_you_go": card.rates(call.now).map(prices).unwrap_or_default(),
            "currency": "USD",
            "free": false,
            "source": card.source.as_str(),
            "model": card.model,
            "price_version": &**version,
        }))),
    }
}

fn prices(rates: &Rates) -> Map<String, Value> {
    let mut prices = Map::new();
    let mut additional = Map::new();
    for (unit, rate) in rates.iter() {
        let price = json!({"price": money::cents_per_unit(rate.base, unit.per())});
        if let Some(name) = unit.token_name() {
            prices.insert(name.to_owned(), price);
        } else if let Some(name) = unit.additional_name() {
            additional.insert(name.to_owned(), price);
        }
    }
    if !additional.is_empty() {
        prices.insert("additional_units".to_owned(), additional.into());
    }
    prices
}
