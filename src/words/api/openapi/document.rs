//! Reads an OpenAPI document: its version, its references, its operations; all problems at once.
//!
//! A problem refuses the document. An operation that is right and that no tool can be made of is only left out.

use super::operation::{Found, Operations};
use super::path::Segments;
use super::references;
use super::tool::ApiTool;
use crate::json::bounded_yaml::options;
use http::Method;
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;
use std::borrow::Cow;

/// The largest document, bytes of text.
pub const MAX_DOCUMENT: usize = 1 << 20;
/// The most operations that are tools.
pub const MAX_OPERATIONS: usize = 500;
/// The most bytes of all definitions of tools together.
const MAX_DEFINITIONS: usize = 1 << 20;
/// The most problems that are listed.
const MAX_PROBLEMS: usize = 50;
/// The deepest nesting of YAML. JSON may be 127 deep.
const MAX_YAML_DEPTH: usize = 40;

/// What a document offers.
#[derive(Debug)]
pub struct ApiDocument {
    /// `info.title`.
    pub title: String,
    /// `info.version`.
    pub version: String,
    /// The first server, where its URL is absolute and has no variables.
    pub server_url: Option<String>,
    /// In the order of paths.
    pub tools: Vec<ApiTool>,
    pub left_out: Vec<LeftOut>,
}

/// An operation that is no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// `POST /files`.
    pub operation: String,
    pub why: String,
}

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentProblem {
    /// In the document, with dots before members: `.paths./pets.get.operationId`. Empty for the document as a whole.
    pub path: String,
    pub message: String,
}

/// What of a document is used.
pub struct OperationChoice<'a> {
    /// Whether the operation with this name of a tool is one.
    pub is_wanted: &'a dyn Fn(&str) -> bool,
    /// Whether the header with this name, in small letters, is sent with every call: then it is no argument.
    pub is_own_header: &'a dyn Fn(&str) -> bool,
}

impl DocumentProblem {
    pub(super) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// Reads a document: an object, or the text of one in JSON or YAML.
///
/// # Errors
/// All that is wrong with it, at most 50 problems.
pub fn read(document: &Value, choice: &OperationChoice<'_>) -> Result<ApiDocument, Vec<DocumentProblem>> {
    let document = tree(document).map_err(|problem| vec![problem])?;
    let mut problems = Vec::new();
    check_version(&document, &mut problems);
    references::check(&document, MAX_PROBLEMS, &mut problems);
    if !document.get("paths").is_some_and(Value::is_object) {
        problems.push(DocumentProblem::new(".paths", "must be an object: its operations become the tools"));
    }
    let operations = Operations::of(&document, MAX_PROBLEMS, &mut problems);
    let mut found = operations.found;
    let template =
        |found: &Found<'_>| Template { method: found.method.clone(), path: Segments::of(found.path) };
    let templates: Vec<Template> = found.iter().map(template).collect();
    found.retain(|found| (choice.is_wanted)(&found.name));
    if found.len() > MAX_OPERATIONS {
        let count = found.len();
        let why = format!(
            "has {count} operations, and at most {MAX_OPERATIONS} become tools: name those in operations.allow"
        );
        problems.push(DocumentProblem::new(".paths", why));
    }
    problems.truncate(MAX_PROBLEMS);
    if !problems.is_empty() {
        return Err(problems);
    }
    let (tools, left_out) = tools(&document, &found, &templates, choice).map_err(|problem| vec![problem])?;
    let info = |name: &str| {
        let text = document.pointer(&format!("/info/{name}")).and_then(Value::as_str);
        text.unwrap_or_default().chars().take(128).collect()
    };
    Ok(ApiDocument {
        title: info("title"),
        version: info("version"),
        server_url: server_url(&document),
        tools,
        left_out,
    })
}

/// Where an operation is.
struct Template {
    method: Method,
    path: Segments,
}

/// # Errors
/// Their definitions are too large together.
fn tools(
    document: &Value,
    found: &[Found<'_>],
    templates: &[Template],
    choice: &OperationChoice<'_>,
) -> Result<(Vec<ApiTool>, Vec<LeftOut>), DocumentProblem> {
    let is_30 = version(document).starts_with("3.0");
    let mut tools = Vec::with_capacity(found.len());
    let mut left_out = Vec::new();
    let mut bytes = 0;
    for found in found {
        match ApiTool::new(document, is_30, found, choice.is_own_header) {
            Ok(tool) => {
                bytes += tool.definition.len();
                let own = Segments::of(found.path);
                let is_hidden = |other: &&Template| other.method == found.method && own.hides(&other.path);
                let others = templates.iter().filter(is_hidden).map(|other| other.path.clone()).collect();
                tools.push(tool.without(others));
            }
            Err(why) => {
                let operation = format!("{} {}", found.method, found.path);
                left_out.push(LeftOut { operation, why });
            }
        }
        if bytes > MAX_DEFINITIONS {
            let why =
                format!("makes tools of more than {MAX_DEFINITIONS} bytes: name fewer in operations.allow");
            return Err(DocumentProblem::new("", why));
        }
    }
    Ok((tools, left_out))
}

/// The document as a tree.
fn tree(document: &Value) -> Result<Cow<'_, Value>, DocumentProblem> {
    let size = document.as_str().map_or_else(|| document.to_string().len(), str::len);
    if size > MAX_DOCUMENT {
        let why = format!("has {size} bytes, and {MAX_DOCUMENT} are taken");
        return Err(DocumentProblem::new("", why));
    }
    let Some(text) = document.as_str() else { return Ok(Cow::Borrowed(document)) };
    let read = match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).map_err(|why| why.to_string()),
        false => {
            serde_saphyr::from_str_with_options(text, options(DuplicateKeyPolicy::Error, MAX_YAML_DEPTH))
                .map_err(|why| why.to_string())
        }
    };
    let read: Value = read.map_err(|why| {
        let line = why.lines().next().unwrap_or_default();
        DocumentProblem::new("", format!("is neither JSON nor YAML that can be read: {line}"))
    })?;
    Ok(Cow::Owned(read))
}

fn version(document: &Value) -> &str {
    document.get("openapi").and_then(Value::as_str).unwrap_or_default()
}

fn check_version(document: &Value, problems: &mut Vec<DocumentProblem>) {
    let version = version(document);
    if version.starts_with("3.0") || version.starts_with("3.1") {
        return;
    }
    problems.push(if document.get("swagger").is_some() {
        DocumentProblem::new(".swagger", "is of Swagger 2: convert the document to OpenAPI 3.0 or 3.1")
    } else if document.is_object() {
        DocumentProblem::new(".openapi", "must be 3.0.x or 3.1.x")
    } else {
        DocumentProblem::new("", "must be an object: an OpenAPI document")
    });
}

fn server_url(document: &Value) -> Option<String> {
    let url = document.pointer("/servers/0/url")?.as_str()?;
    let is_absolute = url.starts_with("https://") || url.starts_with("http://");
    (is_absolute && !url.contains('{')).then(|| url.trim_end_matches('/').to_owned())
}
