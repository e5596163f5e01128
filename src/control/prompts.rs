//! Stored prompts: a prompt has versions, one of them published; a version's content never changes.
//!
//! Rendering is in `prompts/render`, versions and labels of versions in `prompts/versions`. Templates are compiled by the room
//! `prompt`; requests use what `state::stored` compiled.

mod content;
mod render;
mod versions;

use super::call::Call;
use super::collections::collection_of;
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::numbered::PROMPT;
use super::origin::{ORIGIN, SET};
use super::page;
use super::records::{object, put, set, time};
use super::reply::Reply;
use super::resource::{
    Draft, Item, Resource, changed_record, create, delete, list, read, stored_items, update,
};
use super::route::{Route, Shape};
use knowledge::prompt::VersionBody;
use memory::state::large_work::translation;
use memory::state::stored::prompts::read as published;
use memory::store::{Catalog, Kind, Record};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

pub(super) use content::CONTENT;

const TEXT: Type = Type::Text(1 << 20);
const FUNCTIONS: Type = Type::List(&Type::AnyObject, 0, 1024);
const CHOICE: Type = Type::AnyOf(&[Type::Text(64), Type::AnyObject]);
const STRICT_VARIABLES: &str =
    "Whether a request without a variable that the template shows is refused; else the variable is empty.";
const METADATA: &str = "Kept with the version; `azure_alias` replaces the model.";

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it where none is chosen."),
    optional(
        "slug",
        Type::Slug(2, 64),
        "How requests name it; made of the name where absent. Not `partials`.",
    ),
    required("string", TEXT, "The template: a JSON array of messages, or the text of a completion."),
    required("parameters", Type::AnyObject, "Parameters of the chat or completion, such as `temperature`."),
    required("virtual_key", Type::Name(128), "Slug of the provider that completions are sent to."),
    optional(
        "collection_id",
        Type::Name(128),
        "Id or slug of a collection; the workspace's default one where absent.",
    ),
    optional("model", Type::Text(255), "The model."),
    optional("functions", FUNCTIONS, "Functions in the older form."),
    optional("tools", FUNCTIONS, "Tools."),
    optional("tool_choice", CHOICE, "Which tool is called."),
    optional("version_description", Type::Text(1024), "What this version is for."),
    optional("template_metadata", Type::AnyObject, METADATA),
    optional("prompt_metadata", Type::AnyObject, "The same as `template_metadata`."),
    optional("metadata", Type::AnyObject, "The same as `template_metadata`."),
    optional(
        "is_raw_template",
        Type::Flag,
        "Whether a template that begins with a tag is a list of messages.",
    ),
    optional("strict_variables", Type::Flag, STRICT_VARIABLES),
    optional(
        "workspace_id",
        Type::Name(128),
        "Id or slug; needed with keys of the organisation unless it is the default one.",
    ),
    optional("organisation_id", Type::Text(64), "Taken from the key."),
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people. Makes no version."),
    optional("collection_id", Type::Name(128), "Id or slug of a collection. Makes no version."),
    optional("patch", Type::Flag, "Whether members that are absent are taken from the latest version."),
    optional("string", TEXT, "The template of a new version."),
    optional("parameters", Type::AnyObject, "Parameters of a new version."),
    optional("virtual_key", Type::Name(128), "Provider of a new version."),
    optional("model", Type::Text(255), "Model of a new version."),
    optional("functions", FUNCTIONS, "Functions of a new version."),
    optional("tools", FUNCTIONS, "Tools of a new version."),
    optional("tool_choice", CHOICE, "Which tool is called."),
    optional("version_description", Type::Text(1024), "What the new version is for. Alone it makes none."),
    optional("template_metadata", Type::AnyObject, METADATA),
    optional("prompt_metadata", Type::AnyObject, "The same as `template_metadata`."),
    optional("metadata", Type::AnyObject, "The same as `template_metadata`."),
    optional(
        "is_raw_template",
        Type::Flag,
        "Whether a template that begins with a tag is a list of messages.",
    ),
    optional("strict_variables", Type::Flag, STRICT_VARIABLES),
];

const CREATED: &[Field] = &[
    required("id", Type::Uuid, "The prompt."),
    required("slug", Type::Text(128), "How requests name it."),
    required("version_id", Type::Uuid, "Version 1, which is published."),
    required("object", Type::Text(20), "`prompt`."),
];

const UPDATED: &[Field] = &[
    required("id", Type::Uuid, "The prompt."),
    required("slug", Type::Text(128), "How requests name it."),
    required("prompt_version_id", Type::Uuid, "The new version, or the published one where none was made."),
];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The prompt."),
    required("slug", Type::Text(128), "How requests name it."),
    required("name", Type::Text(255), "For people."),
    required("collection_id", Type::Uuid, "Its collection."),
    nullable("workspace_id", Type::Uuid, "Its workspace."),
    nullable("model", Type::Text(255), "The model of the published version."),
    required("status", Type::Text(20), "`active`."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`prompt`."),
];

const ONE: &[Field] = &[
    required("id", Type::Uuid, "The prompt."),
    required("slug", Type::Text(128), "How requests name it."),
    required("name", Type::Text(255), "For people."),
    required("collection_id", Type::Uuid, "Its collection."),
    nullable("workspace_id", Type::Uuid, "Its workspace."),
    required("status", Type::Text(20), "`active`."),
    required("created_at", Type::Time, "When it was made; of a version: when the version was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    required("string", TEXT, "The template."),
    required("parameters", Type::AnyObject, "Parameters of the chat or completion."),
    nullable("model", Type::Text(255), "The model."),
    nullable("virtual_key", Type::Text(128), "Slug of the provider."),
    nullable("functions", FUNCTIONS, "Functions in the older form."),
    nullable("tools", FUNCTIONS, "Tools."),
    nullable("tool_choice", CHOICE, "Which tool is called."),
    nullable("template_metadata", Type::AnyObject, "Kept with the version."),
    required(
        "is_raw_template",
        Type::Bit,
        "Whether a template that begins with a tag is a list of messages.",
    ),
    required("strict_variables", Type::Flag, STRICT_VARIABLES),
    required("prompt_version", Type::Integer(1, u32::MAX as i64), "The number of the version."),
    required("prompt_version_id", Type::Uuid, "The version."),
    required(
        "prompt_version_status",
        Type::OneOf(&["active", "archived"]),
        "`active`: it is the published one.",
    ),
    nullable("prompt_version_description", Type::Text(1024), "What the version is for."),
    required("prompt_version_labels", Type::List(&Type::Text(64), 0, 1000), "Names of its labels."),
    required(
        "variable_components",
        Type::AnyObject,
        "`variables`, `sections`, `sectionVariables`, `partials`, `variablePartials`: what the template needs.",
    ),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`prompt`."),
];

const LIST: &[Field] =
    &[optional("collection_id", Type::Text(128), "Only of this collection: id or slug."), page::WORKSPACE];

pub(super) const ROUTES: &[Route] = &[
    create::<StoredPrompt>(&[Scope::PromptsCreate], "Saves a prompt", CREATE, Shape::Object(CREATED)),
    list::<StoredPrompt>(&[Scope::PromptsList], "Lists prompts", LIST, ITEM),
    read::<StoredPrompt>(&[Scope::PromptsRead], "Reads the published version of a prompt", ONE),
    update::<StoredPrompt>(
        &[Scope::PromptsUpdate],
        "Changes a prompt, or makes a version",
        UPDATE,
        Shape::Object(UPDATED),
    ),
    delete::<StoredPrompt>(&[Scope::PromptsDelete], "Takes a prompt out of use"),
    versions::LIST_ROUTE,
    versions::READ_ROUTE,
    versions::LABEL_ROUTE,
    versions::PUBLISH_ROUTE,
    render::ROUTE,
];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<StoredPrompt>("prompts");

struct StoredPrompt;

impl Resource for StoredPrompt {
    const KIND: Kind = Kind::Prompt;
    const NAME: &'static str = "prompts";
    const PATHS: [&'static str; 2] = ["/v1/prompts", "/v1/prompts/{id}"];
    const PREFIX: &'static str = "pp-";
    const IS_COMPILED: bool = true;
    const KEPT: &'static [&'static str] = &["name"];

    /// # Errors
    /// 400 for the name of the routes of partials.
    fn slug(call: &Call, workspace: Option<Uuid>) -> Result<String, Error> {
        if call.text("slug") == Some("partials") {
            return Err(Error::invalid_request(
                "slug",
                "partials is the name of a route. Choose another slug.",
            ));
        }
        call.new_slug(Self::KIND, workspace, Self::PREFIX, call.text("name").unwrap_or_default())
    }

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        if call.has("collection_id") {
            let workspace = draft.record.workspace.unwrap_or_default();
            let collection = collection_of(call, workspace, call.text("collection_id"))?;
            set(&mut draft.body, "collection_id", collection.to_string());
        }
        Ok(())
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        PROMPT.listed(call).map(stored_items)
    }

    async fn shown(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let catalog = call.catalog()?;
        let version = PROMPT.published(&catalog, record);
        let version = version.ok_or_else(|| Error::internal("a prompt without a version"))?;
        let show = || shown(&catalog, record, version, false);
        Ok(call.shared.large_work.run(translation(version.body.len()), show).await)
    }

    async fn listed(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let catalog = call.catalog()?;
        let model = PROMPT.published(&catalog, record).and_then(|version| content::read(version).model);
        let mut item = PROMPT.head(record);
        set(&mut item, "model", model);
        Ok(Value::Object(item))
    }

    /// With its first version.
    async fn create(mut call: Call) -> Result<Reply, Error> {
        let workspace = call.new_workspace()?;
        let content = content::of_request(&call, VersionBody::default());
        content::check_elsewhere(&call, &content, Some(workspace)).await?;
        let slug = Self::slug(&call, Some(workspace))?;
        let (record, first) = PROMPT.first(&call, workspace, slug, &content::stored(&content)?)?;
        let reply = json!({"id": record.id, "slug": record.slug, "version_id": first.id, "object": "prompt"});
        call.commit(vec![put(record), put(first)]).await?;
        Ok(Reply::from(reply))
    }

    /// A change of the content makes a version.
    async fn update(mut call: Call) -> Result<Reply, Error> {
        let before = Self::find(&call)?;
        let catalog = call.catalog()?;
        let mut version_id = PROMPT.published(&catalog, &before).map(|version| version.id);
        let mut changes = vec![put(changed_record::<Self>(&call, &before)?)];
        if content::is_changed(&call) {
            let base = if call.flag("patch") == Some(true) {
                let newest = PROMPT.newest(&catalog, &before);
                newest.map(|newest| content::read(newest)).unwrap_or_default()
            } else {
                content::check_complete(&call)?;
                VersionBody::default()
            };
            let content = content::of_request(&call, base);
            let workspace = Some(before.workspace.unwrap_or_default());
            content::check_elsewhere(&call, &content, workspace).await?;
            let number = PROMPT.next_number(&catalog, &before);
            let next = PROMPT.version(&before, number, &content::stored(&content)?, &call);
            version_id = Some(next.id);
            changes.push(put(next));
        }
        call.commit(changes).await?;
        Ok(Reply::from(json!({"id": before.id, "slug": before.slug, "prompt_version_id": version_id})))
    }
}

/// A prompt with one of its versions. `is_version`: the times are the version's.
fn shown(catalog: &Catalog, record: &Record, version: &Record, is_version: bool) -> Value {
    let content = content::read(version);
    let mut shown = PROMPT.head(record);
    if is_version {
        set(&mut shown, "created_at", time(version.created_at));
    }
    let of = published(record);
    let status = if version.number == Some(of.published) { "active" } else { "archived" };
    let labels: Vec<String> = versions::labels(catalog, record, version);
    let components = content::components(&content);
    let more = json!({
        "string": content.string,
        "parameters": content.parameters.map_or_else(|| json!({}), |raw| content::value(&raw)),
        "model": content.model,
        "virtual_key": content.virtual_key,
        "functions": content.functions.map(|raw| content::value(&raw)),
        "tools": content.tools.map(|raw| content::value(&raw)),
        "tool_choice": content.tool_choice.map(|raw| content::value(&raw)),
        "template_metadata": content.template_metadata,
        "is_raw_template": u8::from(content.is_raw_template),
        "strict_variables": content.strict_variables,
        "prompt_version": version.number,
        "prompt_version_id": version.id,
        "prompt_version_status": status,
        "prompt_version_description": content.version_description,
        "prompt_version_labels": labels,
        "variable_components": components,
    });
    shown.extend(object(more));
    Value::Object(shown)
}
