//! `GET /v1/openapi.json`: the control API's own document (OpenAPI 3.1), made from the route table and the tables of fields that
//! read requests and describe responses.
//!
//! `docs/openapi.json` is the same document; a test compares the two. Not the data plane: its shapes are the vendors'.

use super::field::{Field, object_schema, type_schema};
use super::reply::Reply;
use super::route::{Access, Body, Route, Shape, get};
use super::routes::routes;
use knowledge::provider;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use words::error::Error;
use words::settings::schema;
use words::settings::scopes::Scope;

pub(super) const ROUTES: &[Route] =
    &[get("/v1/openapi.json", Access::Open, "This document", |_| Box::pin(show()))];

async fn show() -> Result<Reply, Error> {
    Ok(Reply::from(document()))
}

/// The whole document.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes() {
        let item = paths.entry(documented_path(route)).or_insert_with(|| json!({}));
        if let Value::Object(operations) = item {
            operations.insert(route.method.to_ascii_lowercase(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Turnpike's control API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Everything an operator can see and change while the gateway runs. Served on the control port, and on the data \
                            port where `x-on-data-port` is true. Requests of models are the data plane's, whose shapes are the vendors'.",
        },
        "security": [{"service_key": []}, {"bearer": []}],
        "tags": tags(),
        "paths": paths,
        "components": {
            "securitySchemes": {
                "service_key": {"type": "apiKey", "in": "header", "name": "x-gateway-api-key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "schemas": schemas(),
            "responses": error_responses(),
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = route.path.split('/').filter_map(path_parameter).collect();
    parameters.extend(route.parameters().map(query_parameter));
    let mut operation = json!({
        "summary": route.summary,
        "description": description(route),
        "operationId": operation_id(route),
        "tags": [tag(route)],
        "parameters": parameters,
        "responses": responses(route),
        "x-on-data-port": route.on_data_port,
        "x-refuses-other-parameters": route.refuses_others(),
    });
    let Value::Object(members) = &mut operation else { return operation };
    match route.access {
        Access::Open | Access::Link => drop(members.insert("security".to_owned(), json!([]))),
        Access::Metrics => {
            members.insert("security".to_owned(), json!([{}, {"service_key": []}, {"bearer": []}]));
        }
        Access::AnyKey | Access::Scope(_) => {}
    }
    if route.writes() {
        members.insert("x-refused-at-edge".to_owned(), true.into());
    }
    let scopes = scopes(route);
    if !scopes.is_empty() {
        members.insert("x-scopes".to_owned(), scopes.into());
    }
    let schema = match route.body {
        Body::None => return operation,
        Body::Raw([]) => json!({"type": "object"}),
        Body::Object(fields) | Body::Raw(fields) => object_schema(fields, true),
    };
    let is_required = match route.body {
        Body::Object(fields) => fields.iter().any(|field| field.is_required),
        Body::Raw(fields) => !fields.is_empty(),
        Body::None => false,
    };
    members.insert(
        "requestBody".to_owned(),
        json!({"required": is_required, "content": {"application/json": {"schema": schema}}}),
    );
    operation
}

/// Who may call it.
fn description(route: &Route) -> String {
    match (route.access, scopes(route).join("` or `")) {
        (Access::Open, _) => "Needs no key.".to_owned(),
        (Access::Link, _) => "Needs no key, but a signed link.".to_owned(),
        (Access::AnyKey, _) => "Needs a key; any is good.".to_owned(),
        (Access::Metrics, scope) => {
            format!("Needs no key while `listen.metrics` is `open`, else one with the scope `{scope}`.")
        }
        (Access::Scope(_), scopes) => format!("Needs a key with the scope `{scopes}`."),
    }
}

fn scopes(route: &Route) -> Vec<&'static str> {
    match route.access {
        Access::Open | Access::Link | Access::AnyKey => Vec::new(),
        Access::Metrics => vec![Scope::MetricsRead.as_str()],
        Access::Scope(scopes) => scopes.iter().map(|scope| scope.as_str()).collect(),
    }
}

/// The errors that a route can have besides those of every HTTP server: status, name in the components, when.
const ERRORS: &[(&str, &str, &str)] = &[
    ("400", "bad_request", "What was sent is wrong; `error.details` has every problem with its path."),
    ("401", "unauthorized", "No key or token, or one that is not good."),
    ("403", "forbidden", "The key lacks the scope, or belongs to another workspace."),
    ("404", "not_found", "There is nothing that this key may see."),
    ("409", "conflict", "The name is taken, or the object is in use, read-only or in another state."),
    ("413", "too_large", "The body is too large."),
    ("503", "unavailable", "The store is not available; `Retry-After` says when to try again."),
    ("507", "no_space", "The store has no space left."),
];

fn responses(route: &Route) -> Map<String, Value> {
    let mut responses = Map::new();
    responses.insert("200".to_owned(), json!({"description": "Done.", "content": content(&route.reply)}));
    let has_body = !matches!(route.body, Body::None);
    let needs_key = route.access != Access::Open;
    for (status, name, _) in ERRORS {
        let is_possible = match *status {
            "400" => has_body && needs_key || route.parameters().next().is_some(),
            "401" => needs_key && route.access != Access::Link,
            // What is described there depends on the settings.
            "404" => route.path.contains('{') || route.path.starts_with("/.well-known/"),
            "409" | "507" => route.change.is_some(),
            "413" => has_body,
            _ => needs_key,
        };
        if is_possible {
            responses.insert((*status).to_owned(), json!({"$ref": format!("#/components/responses/{name}")}));
        }
    }
    responses.extend(route.also.map(|(status, description, reply)| {
        (status.to_owned(), json!({"description": description, "content": content(&reply)}))
    }));
    responses
}

/// The error, and what a config consists of.
fn schemas() -> Map<String, Value> {
    let vendors: Vec<&str> = provider::names().collect();
    let mut schemas = schema::of_configs(&vendors, "#/components/schemas/");
    schemas.insert("error".to_owned(), error_schema());
    schemas
}

fn error_responses() -> Map<String, Value> {
    let schema = json!({"application/json": {"schema": {"$ref": "#/components/schemas/error"}}});
    let response = |(_, name, description): &(&str, &str, &str)| {
        ((*name).to_owned(), json!({"description": description, "content": schema}))
    };
    ERRORS.iter().map(response).collect()
}

/// The resource: the first segment of the path below `/v1` and `/v1/admin`.
fn tag(route: &Route) -> &'static str {
    let mut segments = route.path.split('/').filter(|segment| !matches!(*segment, "" | "v1" | "admin"));
    segments.next().unwrap_or_default()
}

fn tags() -> Value {
    let names: BTreeSet<&str> = routes().map(tag).collect();
    names.into_iter().map(|name| json!({"name": name})).collect()
}

fn operation_id(route: &Route) -> String {
    let mut id = route.method.to_ascii_lowercase();
    if route.path.starts_with("/v1/model-configs/") {
        id.push_str("_v1");
    }
    for segment in route.path.split('/').filter(|segment| !matches!(*segment, "" | "v1")) {
        id.push('_');
        let name = segment.trim_matches(['{', '}', '*']);
        if name != segment {
            id.push_str("by_");
        }
        id.extend(name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }));
    }
    id
}

/// The path with plain names of parameters.
fn documented_path(route: &Route) -> String {
    route.path.replace("{*", "{")
}

fn path_parameter(segment: &str) -> Option<Value> {
    // `{*name}` takes the rest of the path.
    let name = segment.strip_prefix('{')?.strip_suffix('}')?.trim_start_matches('*');
    Some(json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": "Id or slug.",
        "schema": {"type": "string", "minLength": 1},
    }))
}

fn query_parameter(field: &Field) -> Value {
    json!({
        "name": field.name,
        "in": "query",
        "required": field.is_required,
        // An empty one is as if it were absent.
        "allowEmptyValue": field.may_be_empty(),
        "description": field.doc,
        "schema": type_schema(&field.of, true),
    })
}

fn content(reply: &Shape) -> Value {
    let schema = match reply {
        Shape::Empty => json!({"type": "object", "maxProperties": 0}),
        Shape::Object(fields) => object_schema(fields, false),
        Shape::List(fields) => json!({
            "type": "object",
            "required": ["object", "total", "data"],
            "properties": {
                "object": {"type": "string", "enum": ["list"]},
                "total": {"type": "integer", "minimum": 0, "description": "How many there are on all pages."},
                "data": {"type": "array", "items": object_schema(fields, false)},
            },
        }),
        Shape::Data(fields) => {
            let mut schema = object_schema(fields, false);
            let data = schema.clone();
            if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
                properties.insert("success".to_owned(), json!({"type": "boolean", "enum": [true]}));
                properties.insert("data".to_owned(), data);
            }
            if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
                required.extend(["success".into(), "data".into()]);
            }
            schema
        }
        Shape::Free => json!({"type": "object"}),
        Shape::Text(content_type) => return json!({*content_type: {"schema": {"type": "string"}}}),
    };
    json!({"application/json": {"schema": schema}})
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["success", "data", "error"],
        "properties": {
            "success": {"type": "boolean", "enum": [false]},
            "data": {
                "type": "object",
                "required": ["message", "errorCode"],
                "properties": {"message": {"type": "string"}, "errorCode": {"type": "string", "pattern": "^AB0[1-9]$"}},
            },
            "error": {
                "type": "object",
                "required": ["message", "type", "code", "details"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "param": {"type": ["string", "null"]},
                    "code": {"type": "string"},
                    "details": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["path", "message"],
                            "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
                        },
                    },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::path::Path;

    /// `UPDATE_GOLDEN=1 cargo test openapi` writes it.
    #[test]
    fn the_checked_in_document_is_the_one_that_is_served() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        let served = format!("{}\n", serde_json::to_string_pretty(&document()).unwrap());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, &served).unwrap();
        }
        let checked_in = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(checked_in == served, "docs/openapi.json differs: UPDATE_GOLDEN=1 cargo test openapi");
    }

    #[test]
    fn every_operation_has_an_id_of_its_own_and_every_parameter_a_place() {
        let mut ids = HashSet::new();
        for route in routes() {
            assert!(ids.insert(operation_id(route)), "{} {}", route.method, route.path);
            let braces = route.path.matches('{').count();
            assert_eq!(route.path.split('/').filter_map(path_parameter).count(), braces, "{}", route.path);
        }
    }
}
