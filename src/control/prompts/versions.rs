//! Versions of a prompt: listed, read, labelled and published.

use super::super::call::Call;
use super::super::field::{Field, Type, optional, required};
use super::super::labels::{find as find_label, name_of};
use super::super::numbered::PROMPT;
use super::super::page::{self, Page};
use super::super::records::{changed, members, put, set};
use super::super::reply::Reply;
use super::super::route::{Access, Route, Shape, get, put as put_route};
use super::{ONE, shown};
use memory::state::large_work::translation;
use memory::state::stored::prompts::read as published;
use memory::store::{Catalog, Kind, Record};
use serde_json::{Value, json};
use words::error::Error;
use words::settings::scopes::Scope;

const LABEL: &[Field] = &[optional(
    "label_id",
    Type::Text(64),
    "Id or name of a label, which then stands for this version of the prompt; null takes all labels from the version.",
)];

const PUBLISH: &[Field] =
    &[required("version", Type::Integer(1, u32::MAX as i64), "The number of the version that is published.")];

pub(super) const LIST_ROUTE: Route = get(
    "/v1/prompts/{id}/versions",
    Access::Scope(&[Scope::PromptsRead]),
    "Lists the versions of a prompt",
    |call| Box::pin(list(call)),
)
.lists(page::QUERY)
.replies(Shape::List(ONE));

pub(super) const READ_ROUTE: Route = get(
    "/v1/prompts/{id}/versions/{version_id}",
    Access::Scope(&[Scope::PromptsRead]),
    "Reads a version of a prompt, by its id or number",
    |call| Box::pin(read(call)),
)
.replies(Shape::Object(ONE));

pub(super) const LABEL_ROUTE: Route = put_route(
    "/v1/prompts/{id}/versions/{version_id}",
    Access::Scope(&[Scope::PromptsUpdate]),
    "Gives a label to a version of a prompt",
    |call| Box::pin(label(call)),
)
.body(LABEL)
.replies(Shape::Empty)
.changes("prompts", "label");

pub(super) const PUBLISH_ROUTE: Route = put_route(
    "/v1/prompts/{id}/makeDefault",
    Access::Scope(&[Scope::PromptsPublish]),
    "Publishes a version of a prompt",
    |call| Box::pin(PROMPT.publish(call)),
)
.body(PUBLISH)
.replies(Shape::Empty)
.changes("prompts", "publish");

async fn list(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Prompt)?;
    let catalog = call.catalog()?;
    let versions = PROMPT.versions(&catalog, &record);
    let page = Page::of(&call, 50);
    // Each is compiled, to show what it needs.
    let sizes = page.part(&versions).iter().map(|version| version.body.len());
    let work = translation(sizes.sum());
    let show = || page.reply(&versions, |version| shown(&catalog, &record, version, true));
    Ok(call.shared.large_work.run(work, show).await)
}

async fn read(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Prompt)?;
    let catalog = call.catalog()?;
    let version = PROMPT.find_version(&catalog, &record, call.param("version_id"))?;
    Ok(Reply::from(shown(&catalog, &record, version, true)))
}

async fn label(mut call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Prompt)?;
    let catalog = call.catalog()?;
    let version = PROMPT.find_version(&catalog, &record, call.param("version_id"))?;
    let number = version.number.unwrap_or_default();
    let mut labels = published(&record).labels;
    match call.text("label_id") {
        None if call.has("label_id") => labels.retain(|_, labelled| *labelled != number),
        None => {
            return Err(Error::invalid_request(
                "label_id",
                "label_id is required: nothing else of a version can change.",
            ));
        }
        Some(named) => {
            let workspace = record.workspace.unwrap_or_default();
            let label = find_label(&catalog, workspace, named);
            let label = label
                .ok_or_else(|| Error::invalid_request("label_id", format!("There is no label {named:?}.")))?;
            labels.insert(label, number);
        }
    }
    let mut body = members(&record);
    set(&mut body, "labels", json!(labels));
    set(&mut body, "updated_by", call.actor());
    call.commit(vec![put(changed(&record, &Value::Object(body), call.now))]).await?;
    Ok(Reply::empty())
}

/// The names of a version's labels.
pub(super) fn labels(catalog: &Catalog, prompt: &Record, version: &Record) -> Vec<String> {
    let labels = published(prompt).labels;
    let own = labels.into_iter().filter(|(_, number)| Some(*number) == version.number);
    own.filter_map(|(id, _)| name_of(catalog, id)).collect()
}
