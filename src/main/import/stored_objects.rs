//! The workspaces and policies that a gateway has: whether an object of an import is among them.
//!
//! Found by the slug, in its workspace, and by the mark in the description: without that, it is of somebody else. A prompt has no description:
//! it is one of the import where it says the same. Not here: keys, which are found by their digests.

use super::super::object_api::ObjectApi;
use super::objects::{PlannedKind, PlannedObject};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const PAGE: u64 = 1000;

/// What a prompt says.
const SAID: [&str; 3] = ["string", "parameters", "virtual_key"];

/// What there is of an object.
pub enum Found {
    Nothing,
    Object,
    /// Revoked or archived.
    Ended,
    /// Under its slug, but of somebody else.
    Other,
}

/// An object of the gateway.
struct StoredObject {
    workspace: Option<String>,
    description: String,
    is_archived: bool,
}

/// What was read so far.
#[derive(Default)]
pub struct StoredObjects {
    found: HashMap<(PlannedKind, String), Vec<StoredObject>>,
    /// The ids of workspaces, by their slugs.
    workspaces: BTreeMap<String, String>,
    /// The slugs of prompts.
    prompts: BTreeSet<String>,
}

impl StoredObjects {
    /// Reads all of a kind, archived ones too.
    ///
    /// # Errors
    /// The gateway cannot be reached, or does not let this key look.
    pub fn read(&mut self, api: &ObjectApi, kind: PlannedKind, path: &str) -> Result<(), String> {
        for status in ["active", "archived"] {
            let of_status = [("status".to_owned(), status.to_owned())];
            each(api, path, &of_status, |item| self.add(kind, item, status == "archived"))?;
        }
        Ok(())
    }

    /// Reads which prompts there are.
    ///
    /// # Errors
    /// As [`StoredObjects::read`].
    pub fn read_prompts(&mut self, api: &ObjectApi, path: &str) -> Result<(), String> {
        each(api, path, &[], |item| {
            self.prompts.extend(item.get("slug").and_then(Value::as_str).map(str::to_owned));
        })
    }

    /// Whether a prompt is there.
    ///
    /// # Errors
    /// As [`StoredObjects::read`].
    pub fn find_prompt(&self, api: &ObjectApi, path: &str, object: &PlannedObject) -> Result<Found, String> {
        let slug = object.text("slug");
        if !self.prompts.contains(slug) {
            return Ok(Found::Nothing);
        }
        let there = api.call("GET", &format!("{path}/{slug}"), &[], None)?;
        let is_same = SAID.iter().all(|name| there.get(name) == object.body.get(*name));
        Ok(if is_same { Found::Object } else { Found::Other })
    }

    fn add(&mut self, kind: PlannedKind, item: &Value, is_archived: bool) {
        let text = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
        let slug = text("slug").unwrap_or_default();
        if kind == PlannedKind::Workspace
            && let Some(id) = text("id")
        {
            self.workspaces.insert(slug.clone(), id);
        }
        let object = StoredObject {
            workspace: text("workspace_id"),
            description: text("description").unwrap_or_default(),
            is_archived,
        };
        self.found.entry((kind, slug)).or_default().push(object);
    }

    /// Whether an object is there. Of several with its slug, one in use counts.
    pub fn find(&self, object: &PlannedObject) -> Found {
        let slug = object.text("slug").to_owned();
        let workspace = Some(object.text("workspace_id")).filter(|slug| !slug.is_empty());
        // A workspace that is new has nothing yet.
        let workspace = workspace.map(|slug| self.workspaces.get(slug).cloned().unwrap_or_default());
        let there = self.found.get(&(object.kind, slug)).map(Vec::as_slice).unwrap_or_default();
        let mut there: Vec<&StoredObject> = there
            .iter()
            .filter(|one| object.kind == PlannedKind::Workspace || one.workspace == workspace)
            .collect();
        there.sort_by_key(|one| one.is_archived);
        let mark = format!("[{}]", object.mark);
        match there.first() {
            None => Found::Nothing,
            Some(one) if !one.description.contains(&mark) => Found::Other,
            Some(one) if one.is_archived => Found::Ended,
            Some(_) => Found::Object,
        }
    }
}

/// Has `take` look at all items of a list.
fn each(
    api: &ObjectApi,
    path: &str,
    query: &[(String, String)],
    mut take: impl FnMut(&Value),
) -> Result<(), String> {
    let mut page = 0_u64;
    loop {
        let of_page =
            [("page_size".to_owned(), PAGE.to_string()), ("current_page".to_owned(), page.to_string())];
        let list = api.call("GET", path, &[query, &of_page].concat(), None)?;
        let items = list.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().for_each(&mut take);
        page += 1;
        let total = list.get("total").and_then(Value::as_u64).unwrap_or_default();
        if items.is_empty() || page * PAGE >= total {
            return Ok(());
        }
    }
}
