//! The operations of a document, and the names of their tools.

use super::document::DocumentProblem;
use super::references::resolved;
use crate::api::mcp::names;
use http::Method;
use serde_json::Value;
use std::collections::HashMap;

/// The methods whose operations become tools.
const METHODS: [(&str, Method); 6] = [
    ("get", Method::GET),
    ("put", Method::PUT),
    ("post", Method::POST),
    ("delete", Method::DELETE),
    ("patch", Method::PATCH),
    ("head", Method::HEAD),
];

/// The longest `operationId`, bytes.
const MAX_ID: usize = 1024;

/// An operation as it stands in a document.
#[derive(Debug)]
pub(super) struct Found<'d> {
    pub method: Method,
    /// As the document writes it.
    pub path: &'d str,
    /// Of its path, with the parameters of all its operations.
    pub item: &'d Value,
    pub operation: &'d Value,
    /// Of its tool.
    pub name: String,
}

/// The operations of a document.
pub(super) struct Operations<'d> {
    pub found: Vec<Found<'d>>,
}

impl<'d> Operations<'d> {
    /// All of them, until there are `max` problems. Two with one `operationId` are a problem: which of them is called, nobody could know.
    pub fn of(document: &'d Value, max: usize, problems: &mut Vec<DocumentProblem>) -> Self {
        let mut found: Vec<Found<'d>> = Vec::new();
        let mut places: HashMap<String, String> = HashMap::new();
        let paths = document.get("paths").and_then(Value::as_object);
        for (path, item) in paths.into_iter().flatten() {
            let Some(item) = resolved(document, item) else { continue };
            for (member, method) in METHODS {
                let Some(operation) = item.get(member).filter(|operation| operation.is_object()) else {
                    continue;
                };
                if problems.len() >= max {
                    return Self { found };
                }
                let place = format!("{method} {path}");
                let id = operation.get("operationId").and_then(Value::as_str).filter(|id| !id.is_empty());
                if id.is_some_and(|id| id.len() > MAX_ID) {
                    let why = format!("has more than {MAX_ID} bytes");
                    problems.push(DocumentProblem::new(format!(".paths.{path}.{member}.operationId"), why));
                    continue;
                }
                let mut name = match id {
                    Some(id) => names::plain(id),
                    None => made_name(member, path),
                };
                if id.is_none() && places.contains_key(&name) {
                    // It has a hash of the whole.
                    name = names::plain(&place);
                }
                if let Some(other) = places.get(&name) {
                    let why = format!("is that of {other} too");
                    problems.push(DocumentProblem::new(format!(".paths.{path}.{member}.operationId"), why));
                    continue;
                }
                places.insert(name.clone(), place);
                found.push(Found { method, path, item, operation, name });
            }
        }
        Self { found }
    }
}

/// The name of an operation without one: `get_pets_petId`.
fn made_name(method: &str, path: &str) -> String {
    let parts = path.split(|char: char| !char.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    names::plain(&std::iter::once(method).chain(parts).collect::<Vec<_>>().join("_"))
}
