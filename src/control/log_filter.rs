//! The parameters that say which requests a list, an export or a sum is about, read into a filter of the ledger.
//!
//! The same names in a query and, for exports, as members of a JSON object. What the filter finds is not here.

use super::call::{Call, by_id_or_slug};
use super::field::{Field, Type, optional};
use knowledge::price::money;
use memory::ledger::filter::{Bounds, Filter};
use memory::state::metrics::MISS_CAUSES;
use memory::store::{Kind, Status};
use serde_json::{Map, Value};
use uuid::Uuid;
use words::config::read::Problems;

const TOKENS: Type = Type::Integer(0, i64::MAX);
/// Cents.
const COST: Type = Type::Number(0.0, 1e11);
const FEEDBACK: Type = Type::Number(-10.0, 10.0);
/// Characters of a list of values with commas. All lists of a request together fit into a URL.
pub(super) const LIST_CHARS: usize = 4096;
const LIST: Type = Type::Text(LIST_CHARS);
/// Values of one list, at most.
const MAX_VALUES: usize = 500;

/// The parameters, but for the times.
pub(super) const FIELDS: [Field; 25] = [
    optional(
        "workspace_slug",
        Type::Text(128),
        "Slug or id of a workspace. Where absent: the key's own; of a key of the organisation all.",
    ),
    optional("workspace_id", Type::Text(128), "The same as `workspace_slug`."),
    optional("total_units_min", TOKENS, "Tokens, at least."),
    optional("total_units_max", TOKENS, "Tokens, at most."),
    optional("prompt_token_min", TOKENS, "Input tokens, at least."),
    optional("prompt_token_max", TOKENS, "Input tokens, at most."),
    optional("completion_token_min", TOKENS, "Output tokens, at least."),
    optional("completion_token_max", TOKENS, "Output tokens, at most."),
    optional("cost_min", COST, "Cents, at least."),
    optional("cost_max", COST, "Cents, at most."),
    optional(
        "weighted_feedback_min",
        FEEDBACK,
        "The average of value × weight of the trace's feedback, at least.",
    ),
    optional("weighted_feedback_max", FEEDBACK, "The same, at most."),
    optional("status_code", LIST, "Status codes with commas: `401,403`."),
    optional("virtual_keys", LIST, "Slugs of stored providers, with commas."),
    optional("configs", LIST, "Slugs of configs, with commas."),
    optional("prompt_slug", LIST, "Slugs of prompts, with commas."),
    optional("api_key_ids", LIST, "Ids of service keys, with commas."),
    optional("trace_id", LIST, "Trace ids, with commas."),
    optional("span_id", LIST, "Span ids, with commas."),
    optional("metadata", LIST, "A JSON object as text; all its pairs must match."),
    optional("ai_org_model", LIST, "Vendor and model as `openai__gpt-4o`, with commas."),
    optional("ai_model", LIST, "Models, with commas."),
    optional("cache_status", LIST, "`hit`, `semantic_hit`, `miss`, `refresh` and `disabled`, with commas."),
    optional("guardrails", LIST, "Slugs of guardrails whose checks failed, with commas."),
    optional(
        "prompt_cache_miss",
        LIST,
        "Why the provider's cache of prompts has read nothing (`prompt_cache: auto`): `first`, `below_minimum`, `changed`, `other_target`, \
         `time` and `unknown`, with commas.",
    ),
];

/// The filter that these values describe; times and workspaces are the caller's to add.
pub(super) fn read(call: &Call, values: &Map<String, Value>, problems: &Problems) -> Filter {
    let integers = |name: &str| Bounds {
        min: values.get(&format!("{name}_min")).and_then(Value::as_i64),
        max: values.get(&format!("{name}_max")).and_then(Value::as_i64),
    };
    let number = |name: &str| values.get(name).and_then(Value::as_f64);
    let nanodollars = |name: &str| number(name).and_then(money::from_cents);
    let list = |name: &str| list(values, name, problems);
    let slugs =
        |name: &str, kind: Kind| list(name).into_iter().map(|value| slug(call, kind, value)).collect();
    Filter {
        workspaces: None,
        default_workspace: call.snapshot.stored.default_workspace().unwrap_or_default(),
        since: None,
        until: None,
        total_tokens: integers("total_units"),
        input_tokens: integers("prompt_token"),
        output_tokens: integers("completion_token"),
        cost: Bounds { min: nanodollars("cost_min"), max: nanodollars("cost_max") },
        feedback: Bounds { min: number("weighted_feedback_min"), max: number("weighted_feedback_max") },
        status_codes: status_codes(list("status_code"), problems),
        providers: slugs("virtual_keys", Kind::Provider),
        configs: slugs("configs", Kind::Config),
        prompts: slugs("prompt_slug", Kind::Prompt),
        api_keys: list("api_key_ids"),
        traces: list("trace_id"),
        spans: list("span_id"),
        models: list("ai_model"),
        vendor_models: vendor_models(&list("ai_org_model"), problems),
        cache_statuses: cache_statuses(&list("cache_status"), problems),
        guardrails: list("guardrails"),
        prompt_cache_misses: miss_causes(list("prompt_cache_miss"), problems),
        metadata: metadata(values.get("metadata"), problems),
        before: None,
    }
}

/// No log has it: PostgreSQL cannot store it.
const NO_NUL: &str = "must not contain the character U+0000";

/// The values of a list with commas; of an export's filters also an array.
fn list(values: &Map<String, Value>, name: &str, problems: &Problems) -> Vec<String> {
    let found: Vec<String> = match values.get(name) {
        Some(Value::String(text)) => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        }
        Some(Value::Array(items)) => items.iter().filter_map(item).collect(),
        _ => Vec::new(),
    };
    if found.iter().any(|value| value.contains('\0')) {
        problems.push(name, None, NO_NUL);
    }
    if found.len() > MAX_VALUES {
        problems.push(name, None, format!("must have at most {MAX_VALUES} values"));
        return Vec::new();
    }
    found
}

/// A text or a whole number of a list.
fn item(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).or_else(|| value.as_i64().map(|number| number.to_string()))
}

/// The beginning of a value, for a message.
fn shown(value: &str) -> &str {
    value.get(..value.floor_char_boundary(64)).unwrap_or(value)
}

fn status_codes(codes: Vec<String>, problems: &Problems) -> Vec<String> {
    for code in &codes {
        if !code.parse::<u16>().is_ok_and(|number| number < 1000 && number.to_string() == *code) {
            problems.push("status_code", None, format!("{:?} is no status code such as 429", shown(code)));
        }
    }
    codes
}

/// Rows have slugs; clients may also send the id of the object.
fn slug(call: &Call, kind: Kind, value: String) -> String {
    let Ok(id) = Uuid::try_parse(&value) else { return value };
    let catalog = call.catalog().ok();
    let slug = catalog.and_then(|catalog| catalog.get(kind, id)?.slug.clone());
    slug.unwrap_or(value)
}

fn vendor_models(pairs: &[String], problems: &Problems) -> Vec<(String, String)> {
    let pair = |text: &String| match text.split_once("__") {
        Some((vendor, model)) if !vendor.is_empty() && !model.is_empty() => {
            Some((vendor.to_owned(), model.to_owned()))
        }
        _ => {
            let message = format!("{:?} must be vendor__model, as openai__gpt-4o", shown(text));
            problems.push("ai_org_model", None, message);
            None
        }
    };
    pairs.iter().filter_map(pair).collect()
}

fn miss_causes(names: Vec<String>, problems: &Problems) -> Vec<String> {
    for name in names.iter().filter(|name| !MISS_CAUSES.contains(&name.as_str())) {
        let allowed = MISS_CAUSES.join(", ");
        problems.push("prompt_cache_miss", None, format!("{:?} must be one of {allowed}", shown(name)));
    }
    names
}

fn cache_statuses(names: &[String], problems: &Problems) -> Vec<String> {
    const STATUSES: [&str; 5] = ["HIT", "SEMANTIC HIT", "MISS", "REFRESH", "DISABLED"];
    let status = |name: &String| {
        let upper = name.to_ascii_uppercase().replace(['_', '-'], " ");
        let found = STATUSES.into_iter().find(|status| *status == upper);
        if found.is_none() {
            let allowed = "hit, semantic_hit, miss, refresh, disabled";
            problems.push("cache_status", None, format!("{:?} must be one of {allowed}", shown(name)));
        }
        found.map(str::to_owned)
    };
    names.iter().filter_map(status).collect()
}

fn metadata(value: Option<&Value>, problems: &Problems) -> Vec<(String, String)> {
    let parsed = match value {
        Some(Value::String(text)) => serde_json::from_str(text).ok(),
        Some(Value::Object(members)) => Some(members.clone()),
        _ => return Vec::new(),
    };
    let Some(members) = parsed else {
        problems.push("metadata", None, r#"must be a JSON object such as {"_user":"ann"}"#);
        return Vec::new();
    };
    let pair = |(name, value): (String, Value)| match value {
        Value::String(text) if name.contains('\0') || text.contains('\0') => {
            problems.push("metadata", None, NO_NUL);
            None
        }
        Value::String(text) => Some((name, text)),
        // Metadata are texts; clients write numbers and booleans without quotes.
        Value::Number(_) | Value::Bool(_) => Some((name, value.to_string())),
        _ => {
            problems.push(format!("metadata.{name}"), None, "must be a text");
            None
        }
    };
    members.into_iter().filter_map(pair).collect()
}

/// Restricts a filter to requests of these keys; `None`: of all. To be called when its workspaces are set.
pub(super) fn restrict(filter: &mut Filter, keys: Option<Vec<String>>) {
    let Some(mut keys) = keys else { return };
    if !filter.api_keys.is_empty() {
        keys.retain(|id| filter.api_keys.contains(id));
    }
    if keys.is_empty() {
        // A list without keys would require nothing.
        filter.workspaces = Some(Vec::new());
    }
    filter.api_keys = keys;
}

/// The workspaces that the call's requests are in: the one that it names, else the key's own, and for a key of the organisation all.
/// Requests of keys without a workspace (the nil id) belong to the default one. `has_archived`: whether archived workspaces are there
/// for keys of the organisation.
///
/// # Errors
/// 403 for another workspace than the key's, 400 for one that is not there.
pub(super) fn workspaces(
    call: &Call,
    named: Option<&str>,
    has_archived: bool,
) -> Result<Vec<Uuid>, words::error::Error> {
    use words::error::Error;
    let default = call.snapshot.stored.default_workspace();
    let with_nil = |id: Uuid| if Some(id) == default { vec![id, Uuid::nil()] } else { vec![id] };
    let own = call.own_workspace();
    let Some(named) = named else {
        let Some(own) = own else {
            let catalog = call.catalog()?;
            let records = catalog.all(Kind::Workspace);
            let shown = records.filter(|record| has_archived || record.status == Status::Active);
            return Ok(shown.map(|record| record.id).chain([Uuid::nil()]).collect());
        };
        return Ok(with_nil(own));
    };
    let found = by_id_or_slug(&*call.catalog()?, Kind::Workspace, None, named);
    match (found, own) {
        (Some(record), Some(own)) if record.id == own => Ok(with_nil(own)),
        (_, Some(_)) => {
            Err(Error::forbidden("The key belongs to another workspace.").with_param("workspace_slug"))
        }
        (Some(record), None) if has_archived || record.status == Status::Active => Ok(with_nil(record.id)),
        _ => Err(Error::invalid_request("workspace_slug", format!("There is no workspace {named:?}."))),
    }
}
