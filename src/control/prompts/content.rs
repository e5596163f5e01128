//! The content of a version: read from a request, checked, written to a record and read from one.

use super::super::call::Call;
use knowledge::prompt::inclusion::problems_of_names;
use knowledge::prompt::{Components, Template, VersionBody};
use memory::state::large_work::translation;
use memory::store::Record;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;
use uuid::Uuid;
use words::error::{Error, Problem};

/// The members of the content of a prompt or partial: each makes a version. `version_description` alone makes none.
pub(in super::super) const CONTENT: [&str; 10] = [
    "string",
    "parameters",
    "virtual_key",
    "model",
    "functions",
    "tools",
    "tool_choice",
    "template_metadata",
    "is_raw_template",
    "strict_variables",
];
/// Other names of `template_metadata`.
const ALIASES: [&str; 2] = ["prompt_metadata", "metadata"];

/// The members that a change without `patch` must have.
const COMPLETE: [&str; 4] = ["string", "parameters", "model", "virtual_key"];

/// Three names of one member, in the order in which they count.
const METADATA: [&str; 3] = ["template_metadata", "prompt_metadata", "metadata"];

/// Whether a request makes a version.
pub(super) fn is_changed(call: &Call) -> bool {
    CONTENT.iter().chain(&ALIASES).any(|name| call.has(name))
}

/// # Errors
/// 400 with each member that is missing.
pub(super) fn check_complete(call: &Call) -> Result<(), Error> {
    let is_missing = |name: &&&str| call.body.get(**name).is_none_or(Value::is_null);
    let problems: Vec<Problem> = COMPLETE
        .iter()
        .filter(is_missing)
        .map(|name| {
            let message = "is required for a new version without patch: true".to_owned();
            Problem { path: (*name).to_owned(), message, place: None }
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(Error::invalid_body(problems)) }
}

/// The content that a request describes; what it does not name is as in `base`, and what is null is absent.
pub(super) fn of_request(call: &Call, base: VersionBody) -> VersionBody {
    let text = |name: &str, before: Option<String>| match call.body.get(name) {
        None => before,
        Some(value) => value.as_str().map(str::to_owned),
    };
    let raw = |name: &str, before: Option<Box<RawValue>>| match call.body.get(name) {
        None => before,
        Some(Value::Null) => None,
        Some(value) => to_raw_value(value).ok(),
    };
    let flag =
        |name: &str, before: bool| call.body.get(name).map_or(before, |flag| flag == &Value::Bool(true));
    let metadata = METADATA.iter().find_map(|name| call.body.get(*name));
    VersionBody {
        string: text("string", Some(base.string)).unwrap_or_default(),
        parameters: raw("parameters", base.parameters),
        model: text("model", base.model),
        virtual_key: text("virtual_key", base.virtual_key),
        functions: raw("functions", base.functions),
        tools: raw("tools", base.tools),
        tool_choice: raw("tool_choice", base.tool_choice),
        template_metadata: match metadata {
            None => base.template_metadata,
            Some(metadata) => Some(metadata.clone()).filter(|metadata| !metadata.is_null()),
        },
        is_raw_template: flag("is_raw_template", base.is_raw_template),
        strict_variables: flag("strict_variables", base.strict_variables),
        version_description: call.text("version_description").map(str::to_owned),
    }
}

/// As [`check`]; a large template on a thread of its own.
///
/// # Errors
/// As [`check`].
pub(super) async fn check_elsewhere(
    call: &Call,
    content: &VersionBody,
    workspace: Option<Uuid>,
) -> Result<(), Error> {
    let work = translation(content.string.len());
    call.shared.large_work.run(work, || check(call, content, workspace)).await
}

/// # Errors
/// 400 with everything that is wrong with the template and its partials, and for an unknown provider.
fn check(call: &Call, content: &VersionBody, workspace: Option<Uuid>) -> Result<(), Error> {
    let mut problems = match Template::compile(&content.string, content.is_raw_template) {
        Err(problems) => problems,
        Ok(template) => {
            let none = Arc::default();
            let set = call.snapshot.stored.prompts(workspace).unwrap_or(&none);
            let found = problems_of_names(&template.components().partials, &**set);
            found
                .into_iter()
                .map(|message| Problem { path: "string".to_owned(), message, place: None })
                .collect()
        }
    };
    for problem in &mut problems {
        problem.message = format!("Error in parsing prompt template: {}", problem.message);
    }
    let slug = content.virtual_key.as_deref().unwrap_or_default().trim_start_matches('@');
    if call.snapshot.directory(workspace).provider(slug).is_none() {
        let message = match slug {
            "" => "must name the provider that completions are sent to".to_owned(),
            slug => format!("there is no stored provider {slug:?}"),
        };
        problems.push(Problem { path: "virtual_key".to_owned(), message, place: None });
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::invalid_body(problems)) }
}

/// The body of a version's record.
///
/// # Errors
/// 500: it cannot be written as JSON.
pub(super) fn stored(content: &VersionBody) -> Result<Value, Error> {
    serde_json::to_value(content).map_err(|why| Error::internal(format!("a version of a prompt: {why}")))
}

/// The content of a version's record.
pub(super) fn read(record: &Record) -> VersionBody {
    serde_json::from_str(&record.body).unwrap_or_default()
}

/// What the template needs; nothing where it is not valid.
pub(super) fn components(content: &VersionBody) -> Components {
    let template = Template::compile(&content.string, content.is_raw_template);
    template.map(|template| template.components().clone()).unwrap_or_default()
}

pub(super) fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}
