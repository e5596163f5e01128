//! `POST /prompts/{id}/render`: the body of a chat or completion, made of a prompt and the request's variables.

use super::super::call::{Call, by_id_or_slug};
use super::super::field::{Field, Type, required};
use super::super::reply::Reply;
use super::super::route::{Access, MaxBody, Route, Shape, post};
use super::super::work::Work;
use bytes::Bytes;
use knowledge::prompt::{PromptReference, RenderedPrompt, TemplateKind};
use memory::state::large_work::{self, translation};
use memory::store::{Kind, Record, Status};
use std::sync::Arc;
use uuid::Uuid;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::rules;
use words::error::Error;
use words::settings::scopes::Scope;

const RENDERED: &[Field] = &[
    required("success", Type::Flag, "`true`."),
    required(
        "data",
        Type::AnyObject,
        "The body of a request to `/chat/completions`, or `/completions` for a text.",
    ),
];

pub(super) const ROUTE: Route = post(
    "/v1/prompts/{id}/render",
    Access::Scope(&[Scope::PromptsRender]),
    "Renders a prompt (`slug`, `slug@12`, `slug@latest`, `slug@label`) with `variables`; any parameter of a chat beside them",
    |call| Box::pin(render(call)),
)
.raw_body()
.works_at(Work::Render)
.takes(MaxBody::Large)
.replies(Shape::Object(RENDERED))
.for_clients();

async fn render(call: Call) -> Result<Reply, Error> {
    let (prompt, reference) = find(&call)?;
    let stored = &call.snapshot.stored;
    let set = stored.prompts(prompt.workspace).ok_or_else(|| not_found(call.named()))?;
    let found = set.find(&reference)?;
    let body = Body::parse(call.bytes.clone())
        .map_err(|why| Error::bad_request(format!("The request body must be a JSON object: {why}.")))?;
    let work = translation(found.version.size().max(call.bytes.len()));
    let work = if found.version.has_new_partials() { work.max(large_work::PATTERNS) } else { work };
    let render = || {
        let rendered = found.version.render(body.members(), &**set)?;
        check_given(&body, &rendered)?;
        Ok::<_, Error>(rendered)
    };
    let rendered = call.shared.large_work.run(work, render).await?;
    let reply = format!(r#"{{"success":true,"data":{}}}"#, rendered.body);
    Ok(Reply::text("application/json", reply).with_warnings(rendered.warnings))
}

/// Judges the members of a request by the rules of the body that is made with them; what the prompt itself has is as it was saved.
///
/// # Errors
/// 400 as [`rules::check`].
fn check_given(request: &Body, rendered: &RenderedPrompt) -> Result<(), Error> {
    let operation = match rendered.kind {
        TemplateKind::Chat => Operation::ChatCompletions,
        TemplateKind::Text => Operation::Completions,
    };
    let made = Body::parse(Bytes::copy_from_slice(rendered.body.as_bytes()))
        .map_err(|error| Error::internal(format!("a rendered prompt: {error}")))?;
    let is_own = |name: &str| matches!(name, "messages" | "prompt") || request.raw(name).is_none();
    // Whether a request is streamed decides what else it may have.
    rules::check(operation, &made, &|name| name != "stream" && is_own(name))
}

/// The record of the prompt that the path names, and the reference with its slug.
fn find(call: &Call) -> Result<(Arc<Record>, String), Error> {
    let named = call.named();
    let prompt = PromptReference::parse(named).prompt;
    let catalog = call.catalog()?;
    let found = match (call.list_workspace()?, Uuid::try_parse(prompt)) {
        (Some(workspace), _) => by_id_or_slug(&catalog, Kind::Prompt, Some(workspace), prompt),
        (None, Ok(id)) => catalog.get(Kind::Prompt, id).cloned(),
        (None, Err(_)) => {
            catalog.all(Kind::Prompt).find(|record| record.slug.as_deref() == Some(prompt)).cloned()
        }
    };
    let found = found.filter(|record| record.status == Status::Active).ok_or_else(|| not_found(prompt))?;
    let version = named.get(prompt.len()..).unwrap_or_default();
    let reference = format!("{}{version}", found.slug.as_deref().unwrap_or_default());
    Ok((found, reference))
}

fn not_found(prompt: &str) -> Error {
    Error::not_found(format!("Invalid prompt id: there is no prompt {prompt:?} that this key may see."))
        .with_unknown_name(prompt)
}
