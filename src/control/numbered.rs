//! A record with numbered versions, one of them published: what prompts and partials have in common.
//!
//! The content of a version never changes. What it is, and what of it is shown, is theirs. Versions of configs are not published, and are
//! kept in the database alone (`configs`).

use super::call::{Call, by_id_or_slug};
use super::collections::collection_of;
use super::origin;
use super::records::{changed, created, member, members, object, put, set, time, version};
use super::reply::Reply;
use memory::state::stored::prompts::read as published;
use memory::store::{Catalog, Kind, Record};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;

/// A kind of records with versions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbered {
    kind: Kind,
    versions: Kind,
    /// The member `object` of the API.
    object: &'static str,
}

pub(super) const PROMPT: Numbered =
    Numbered { kind: Kind::Prompt, versions: Kind::PromptVersion, object: "prompt" };
pub(super) const PARTIAL: Numbered =
    Numbered { kind: Kind::Partial, versions: Kind::PartialVersion, object: "partial" };

impl Numbered {
    /// A new record as the request names it, and its first version, which is published.
    ///
    /// # Errors
    /// 400 for an unknown collection.
    pub fn first(
        self,
        call: &Call,
        workspace: Uuid,
        slug: String,
        content: &Value,
    ) -> Result<(Record, Record), Error> {
        let body = json!({
            "name": call.text("name").unwrap_or_default(),
            "collection_id": collection_of(call, workspace, call.text("collection_id"))?,
            "published": 1,
            "owner_id": call.actor(),
            "updated_by": call.actor(),
        });
        let record = created(self.kind, Some(workspace), slug, &body, call.now);
        let first = version(self.versions, &record, 1, content, call.now);
        Ok((record, first))
    }

    /// The number of the version after the newest one.
    pub fn next_number(self, catalog: &Catalog, record: &Record) -> u32 {
        self.newest(catalog, record).and_then(|newest| newest.number).unwrap_or_default() + 1
    }

    pub fn newest<'c>(self, catalog: &'c Catalog, record: &Record) -> Option<&'c Arc<Record>> {
        catalog.children(self.versions, record.id).max_by_key(|version| version.number)
    }

    pub fn published<'c>(self, catalog: &'c Catalog, record: &Record) -> Option<&'c Arc<Record>> {
        let number = published(record).published;
        catalog.children(self.versions, record.id).find(|version| version.number == Some(number))
    }

    /// The record of a version that is not published by this.
    pub fn version(self, record: &Record, number: u32, content: &Value, call: &Call) -> Record {
        version(self.versions, record, number, content, call.now)
    }

    /// All versions, the newest first.
    pub fn versions<'c>(self, catalog: &'c Catalog, record: &Record) -> Vec<&'c Arc<Record>> {
        let mut versions: Vec<&Arc<Record>> = catalog.children(self.versions, record.id).collect();
        versions.sort_by_key(|version| std::cmp::Reverse(version.number));
        versions
    }

    /// The version with this id or number.
    ///
    /// # Errors
    /// 404 where there is none.
    pub(crate) fn find_version<'c>(
        self,
        catalog: &'c Catalog,
        record: &Record,
        named: &str,
    ) -> Result<&'c Arc<Record>, Error> {
        let id = Uuid::try_parse(named).ok();
        let number = named.parse::<u32>().ok();
        let is_named =
            |version: &&Arc<Record>| Some(version.id) == id || (number.is_some() && version.number == number);
        catalog.children(self.versions, record.id).find(is_named).ok_or_else(|| {
            let slug = record.slug.as_deref().unwrap_or_default();
            Error::not_found(format!("{slug} has no version {named:?}.")).with_unknown_name(named)
        })
    }

    /// Publishes the version that the body names by its number.
    ///
    /// # Errors
    /// 404 for a version that does not exist.
    pub async fn publish(self, mut call: Call) -> Result<Reply, Error> {
        let record = call.find(self.kind)?;
        let number = call.body.get("version").and_then(Value::as_u64).unwrap_or_default();
        self.find_version(&*call.catalog()?, &record, &number.to_string())?;
        let mut body = members(&record);
        set(&mut body, "published", number);
        set(&mut body, "updated_by", call.actor());
        call.commit(vec![put(changed(&record, &Value::Object(body), call.now))]).await?;
        Ok(Reply::empty())
    }

    /// The records of the collection that a list's query asks for in `collection_id`.
    ///
    /// # Errors
    /// As [`Call::list`].
    pub fn listed(self, call: &Call) -> Result<Vec<Arc<Record>>, Error> {
        let mut records = call.list(self.kind)?;
        if let Some(named) = call.query_text("collection_id") {
            let collection = match Uuid::try_parse(named) {
                Ok(id) => Some(id),
                Err(_) => by_id_or_slug(&*call.catalog()?, Kind::Collection, call.list_workspace()?, named)
                    .map(|found| found.id),
            };
            records.retain(|record| collection.is_some_and(|id| is_in(record, id)));
        }
        Ok(records)
    }

    /// What a record has without its versions.
    pub fn head(self, record: &Record) -> Map<String, Value> {
        let body = members(record);
        let mut head = object(json!({
            "id": record.id,
            "slug": record.slug,
            "name": member(&body, "name"),
            "collection_id": member(&body, "collection_id"),
            "workspace_id": record.workspace,
            "status": record.status.as_str(),
            "created_at": time(record.created_at),
            "last_updated_at": time(record.updated_at),
            "object": self.object,
        }));
        origin::show(&body, &mut head);
        head
    }
}

/// Whether a prompt, partial or collection is in this collection.
pub(super) fn is_in(record: &Record, collection: Uuid) -> bool {
    let of = members(record);
    of.get("collection_id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok())
        == Some(collection)
}
