//! The models of an integration: which of them may be used, which are its own, and what they cost there.
//!
//! Kept in the integration's record. Requests are held to it in `route` (`Target::check_model`); prices are read by `price`.

use super::super::call::Call;
use super::super::field::{Field, Type, not_null, optional, required};
use super::super::limit_owner;
use super::super::page;
use super::super::records::{changed, members, put};
use super::super::reply::Reply;
use super::super::resource::Resource;
use super::super::route::{Access, MaxBody, Route, Shape, delete, get, put as put_route};
use super::{Integration, READS, UPDATES};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use words::config::read::Problems;
use words::error::Error;

/// The most models of one integration.
const MAX_MODELS: usize = 5000;

const PRICE: Type =
    Type::Object(&[required("price", Type::Number(0.0, 1e6), "Cents for one of them: a token, a call.")]);

const PAY_AS_YOU_GO: Type = Type::Object(&[
    optional("request_token", PRICE, "A token of the request."),
    optional("response_token", PRICE, "A token of the response."),
    optional("cache_read_input_token", PRICE, "A token read from the provider's cache."),
    optional("cache_write_input_token", PRICE, "A token written to the provider's cache."),
    optional("reasoning_token", PRICE, "A token of reasoning."),
    optional("request_audio_token", PRICE, "A token of audio in the request."),
    optional("response_audio_token", PRICE, "A token of audio in the response."),
    optional("cache_read_audio_input_token", PRICE, "A token of audio read from the provider's cache."),
    optional("image", Type::Map(&PRICE, 64), "Images, by quality and size; `default` for all others."),
    optional("additional_units", Type::Map(&PRICE, 64), "What else is counted: `web_search` …"),
]);

const PRICING: Type = Type::Object(&[
    required("type", Type::OneOf(&["static"]), "How it is priced."),
    required("pay_as_you_go", PAY_AS_YOU_GO, "Prices, in cents."),
]);

const MODEL: &[Field] = &[
    required("slug", Type::Name(255), "The model, as requests name it."),
    required("enabled", Type::Flag, "Whether requests may use it."),
    optional("is_custom", Type::Flag, "Whether it is one of your own, which no catalogue has."),
    optional(
        "is_finetune",
        Type::Flag,
        "Whether it was made of another; then `base_model_slug` is required.",
    ),
    optional(
        "base_model_slug",
        Type::Name(255),
        "The model that it was made of: it costs the same where it has no price.",
    ),
    optional("pricing_config", PRICING, "What it costs with this integration."),
];

const MODEL_OBJECT: Type = Type::Object(MODEL);

const PUT: &[Field] = &[
    optional(
        "models",
        Type::List(&MODEL_OBJECT, 0, 1000),
        "Models to add or to change, by `slug`; the others stay as they are.",
    ),
    not_null(
        "allow_all_models",
        Type::Flag,
        "Whether models that are not listed may be used; true by default.",
    ),
];

const SHOWN: &[Field] = &[
    required("object", Type::OneOf(&["list"]), "`list`."),
    required("total", Type::Integer(0, i64::MAX), "How many models are listed on all pages."),
    required("allow_all_models", Type::Flag, "Whether models that are not listed may be used."),
    required("models", Type::List(&MODEL_OBJECT, 0, 1000), "The listed models, by name."),
];

const DELETE: &[Field] = &[
    required(
        "slugs",
        Type::Text(16 << 10),
        "The models to remove, with commas. Only custom and fine-tuned ones.",
    ),
    page::WORKSPACE,
];

const PATH: &str = "/v1/integrations/{slug}/models";

pub(in super::super) const ROUTES: &[Route] = &[
    get(PATH, Access::Scope(READS), "Lists an integration's models", |call| Box::pin(list(call)))
        .query(page::WORKSPACE_QUERY)
        .lists(page::QUERY)
        .replies(Shape::Object(SHOWN)),
    put_route(PATH, Access::Scope(UPDATES), "Adds and changes an integration's models", |call| {
        Box::pin(update(call))
    })
    .query(page::IN_WORKSPACE)
    .body(PUT)
    .takes(MaxBody::Large)
    .replies(Shape::Empty)
    .changes("integrations", "update"),
    delete(PATH, Access::Scope(UPDATES), "Removes custom models of an integration", |call| {
        Box::pin(remove(call))
    })
    .query(DELETE)
    .replies(Shape::Empty)
    .changes("integrations", "update"),
];

/// Whether models that are not listed may be used.
pub(super) fn allows_others(body: &Map<String, Value>) -> bool {
    body.get("allow_all_models").and_then(Value::as_bool).unwrap_or(true)
}

/// The listed models of an integration's body.
fn models(body: &Map<String, Value>) -> Vec<Value> {
    body.get("models").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn slug(model: &Value) -> &str {
    model.get("slug").and_then(Value::as_str).unwrap_or_default()
}

async fn list(call: Call) -> Result<Reply, Error> {
    let body = members(&*Integration::find(&call)?);
    let all = models(&body);
    let page = page::Page::of(&call, 1000);
    let shown: Vec<&Value> = all.iter().skip(page.offset).take(page.size).collect();
    Ok(Reply::from(json!({
        "object": "list",
        "total": all.len(),
        "allow_all_models": allows_others(&body),
        "models": shown,
    })))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let before = Integration::find(&call)?;
    call.check_owner(&before)?;
    let mut body = members(&before);
    let given = call.body.get("models").and_then(Value::as_array).cloned().unwrap_or_default();
    check(&given)?;
    let mut all = models(&body);
    for model in given {
        match all.iter_mut().find(|listed| slug(listed) == slug(&model)) {
            Some(listed) => merge(listed, model),
            None => {
                let mut new = json!({"is_custom": false, "is_finetune": false, "base_model_slug": null, "pricing_config": null});
                merge(&mut new, model);
                all.push(new);
            }
        }
    }
    if all.len() > MAX_MODELS {
        let message =
            format!("An integration has at most {MAX_MODELS} models; these would be {}.", all.len());
        return Err(Error::invalid_request("models", message));
    }
    all.sort_by(|a, b| slug(a).cmp(slug(b)));
    body.insert("models".to_owned(), all.into());
    if let Some(allows) = call.flag("allow_all_models") {
        body.insert("allow_all_models".to_owned(), allows.into());
    }
    limit_owner::keep(&call, Some(&before), Integration::KIND, &mut body)?;
    call.commit(vec![put(changed(&before, &Value::Object(body), call.now))]).await?;
    Ok(Reply::empty())
}

/// What one model must have together, and that none is named twice.
fn check(models: &[Value]) -> Result<(), Error> {
    let problems = Problems::default();
    let mut slugs = HashSet::new();
    for (index, model) in models.iter().enumerate() {
        if !slugs.insert(slug(model)) {
            problems.push(format!("models[{index}].slug"), None, "is named twice");
        }
        let is_finetune = model.get("is_finetune").and_then(Value::as_bool) == Some(true);
        let has_base = model.get("base_model_slug").is_some_and(Value::is_string);
        if is_finetune && !has_base {
            problems.push(
                format!("models[{index}].base_model_slug"),
                None,
                "is required of a fine-tuned model",
            );
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::invalid_body(problems.into_vec())) }
}

/// Members that are given replace those that are there.
fn merge(model: &mut Value, given: Value) {
    if let (Value::Object(model), Value::Object(given)) = (model, given) {
        model.extend(given);
    }
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let before = Integration::find(&call)?;
    call.check_owner(&before)?;
    let mut body = members(&before);
    let mut all = models(&body);
    let wanted: Vec<&str> = call.query_text("slugs").unwrap_or_default().split(',').map(str::trim).collect();
    for wanted in &wanted {
        let is_own = |model: &Value| {
            ["is_custom", "is_finetune"].iter().any(|name| model.get(*name) == Some(&json!(true)))
        };
        let why = match all.iter().find(|model| slug(model) == *wanted) {
            Some(model) if is_own(model) => continue,
            Some(_) => "is not a custom model; set `enabled` to false to keep it from being used",
            None => "is no model of this integration",
        };
        return Err(Error::invalid_request("slugs", format!("{wanted:?} {why}.")));
    }
    all.retain(|model| !wanted.contains(&slug(model)));
    body.insert("models".to_owned(), all.into());
    limit_owner::keep(&call, Some(&before), Integration::KIND, &mut body)?;
    call.commit(vec![put(changed(&before, &Value::Object(body), call.now))]).await?;
    Ok(Reply::empty())
}
