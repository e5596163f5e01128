//! `GET /v1/openapi.json`: the control API's own document (OpenAPI 3.1), made from the route table and the tables of fields that
//! read requests and describe responses.
//!
//! `docs/openapi.json` is the same document; a test compares the two. Not the data plane: its shapes are the vendors'.

use super::field::{Field, object_schema, type_schema};
use super::reply::Reply;
use super::route::{Access, Body, Route, Shape, get};
use super::routes::routes;
use crate::error::Error;
use serde_json::{Map, Value, json};

pub(super) const ROUTES: &[Route] =
    &[get("/v1/openapi.json", Access::Open, "This document", |_| Box::pin(show()))];

async fn show() -> Result<Reply, Error> {
    Ok(Reply::from(document()))
}

/// The whole document.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes() {
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
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
        "paths": paths,
        "components": {
            "securitySchemes": {
                "service_key": {"type": "apiKey", "in": "header", "name": "x-gateway-api-key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "schemas": {"error": error_schema()},
            "responses": {"error": {
                "description": "An error: 400 what was sent, 401 no or a bad key, 403 a missing scope, 404 nothing there that this key may see, \
                                409 taken or in use, 503 and 507 the store.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/error"}}},
            }},
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = route.path.split('/').filter_map(path_parameter).collect();
    parameters.extend(route.query.iter().map(query_parameter));
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "tags": [route.path.trim_start_matches("/v1/").split('/').next().unwrap_or_default()],
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": content(&route.reply)},
            "default": {"$ref": "#/components/responses/error"},
        },
        "x-on-data-port": route.on_data_port,
    });
    let Value::Object(members) = &mut operation else { return operation };
    match route.access {
        Access::Open => drop(members.insert("security".to_owned(), json!([]))),
        Access::AnyKey => {}
        Access::Metrics => drop(members.insert("x-scopes".to_owned(), json!(["metrics.read"]))),
        Access::Scope(scopes) => {
            let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
            members.insert("x-scopes".to_owned(), names.into());
        }
    }
    let schema = match route.body {
        Body::None => return operation,
        Body::Object(fields) => object_schema(fields, true),
        Body::Raw => json!({"type": "object"}),
    };
    let is_required =
        matches!(route.body, Body::Object(fields) if fields.iter().any(|field| field.is_required));
    members.insert(
        "requestBody".to_owned(),
        json!({"required": is_required, "content": {"application/json": {"schema": schema}}}),
    );
    operation
}

fn operation_id(route: &Route) -> String {
    let mut id = route.method.to_ascii_lowercase();
    for segment in route.path.split('/').filter(|segment| !segment.is_empty() && *segment != "v1") {
        id.push('_');
        id.extend(segment.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }));
    }
    id
}

fn path_parameter(segment: &str) -> Option<Value> {
    let name = segment.strip_prefix('{')?.strip_suffix('}')?;
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
        Shape::Data(fields) => json!({
            "type": "object",
            "required": ["success", "data"],
            "properties": {"success": {"type": "boolean", "enum": [true]}, "data": object_schema(fields, false)},
        }),
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
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.json");
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
