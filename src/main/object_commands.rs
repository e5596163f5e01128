//! `turnpike get`, `create`, `edit`, `delete`: the objects of the control API, by calls to a running gateway.
//!
//! Knows no kind: which there are, and where, is `control::object_kinds`'. Checks nothing of an object: that is the gateway's.

use super::object_api::ObjectApi;
use super::object_line::{Connection, ObjectCommand, Which};
use super::object_table;
use super::{input, logging, object_editor, output};
use control::{ObjectKind, ObjectList, object_kinds};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use std::path::Path;
use std::process::ExitCode;
use words::config::read::nearest;

/// Objects that are asked for at a time: every list has pages of so many.
const PAGE: usize = 100;

/// What is escaped in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'@');

/// Runs a command and prints what came of it.
pub fn run(command: ObjectCommand) -> ExitCode {
    match execute(command) {
        Ok(text) => output::print(text.as_bytes()),
        Err(why) => logging::fatal(&why),
    }
}

fn execute(command: ObjectCommand) -> Result<String, String> {
    match command {
        ObjectCommand::Get { of, limit, json, connection } => {
            let found = FoundKind::new(&of.kind)?;
            let api = ObjectApi::new(&connection)?;
            match &of.id {
                Some(id) => {
                    let path = found.one(found.kind.read, id, "shown")?;
                    let object = api.call("GET", &path, &of.query, None)?;
                    if json { pretty(&object) } else { Ok(object_table::members(own(&object))) }
                }
                None => list(&api, &found, &of, limit, json),
            }
        }
        ObjectCommand::Create { kind, file, json, connection } => create(&kind, &file, json, &connection),
        ObjectCommand::Edit { of, file, connection } => edit(&of, file.as_deref(), &connection),
        ObjectCommand::Delete { of, file, connection } => delete(&of, file.as_deref(), &connection),
    }
}

/// A kind, and the objects that it is below.
struct FoundKind {
    kind: ObjectKind,
    /// What stands in the places of parameters, in their order.
    parents: Vec<String>,
    /// As it was written.
    named: String,
}

impl FoundKind {
    /// The kind of this name: whole, with objects in the places of parameters, or where one kind alone has it, the last segment.
    ///
    /// # Errors
    /// There is none, with the nearest one, or all.
    fn new(named: &str) -> Result<Self, String> {
        let kinds = object_kinds();
        let found = |(kind, parents)| Self { kind, parents, named: named.to_owned() };
        let matching = kinds.iter().filter_map(|kind| Some((kind.clone(), parents(kind.name, named)?)));
        if let Some(best) = matching.min_by_key(|(_, parents)| parents.len()) {
            return Ok(found(best));
        }
        let mut last = kinds.iter().filter(|kind| is_last(kind, named));
        if let (Some(kind), None) = (last.next(), last.next()) {
            return Ok(found((kind.clone(), Vec::new())));
        }
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        Err(match nearest(&names, named) {
            Some(near) => format!("there is no kind {named:?}; did you mean {near}?"),
            None => format!("there is no kind {named:?}; there are {}", names.join(", ")),
        })
    }

    /// The path of a list, or of where its objects are made.
    fn whole(&self, path: Option<&str>, verb: &str) -> Result<String, String> {
        path.map(|path| self.filled(path, None)).ok_or_else(|| self.cannot(verb))
    }

    /// The path of an object.
    fn one(&self, path: Option<&str>, id: &str, verb: &str) -> Result<String, String> {
        path.map(|path| self.filled(path, Some(id))).ok_or_else(|| self.cannot(verb))
    }

    fn cannot(&self, verb: &str) -> String {
        format!("{} cannot be {verb}", self.named)
    }

    /// The path with its parameters.
    fn filled(&self, path: &str, id: Option<&str>) -> String {
        let mut values = self.parents.iter().map(String::as_str).chain(id);
        let segment = |segment: &str| match segment.starts_with('{') {
            true => utf8_percent_encode(values.next().unwrap_or_default(), SEGMENT).to_string(),
            false => segment.to_owned(),
        };
        path.split('/').map(segment).collect::<Vec<_>>().join("/")
    }
}

/// What stands in the places of a name's parameters; `None`: it is the name of another kind.
fn parents(name: &str, named: &str) -> Option<Vec<String>> {
    let mut parents = Vec::new();
    let mut written = named.split('/');
    for segment in name.split('/') {
        let own = written.next().filter(|own| !own.is_empty())?;
        if segment.starts_with('{') {
            parents.push(own.to_owned());
        } else if segment != own {
            return None;
        }
    }
    written.next().is_none().then_some(parents)
}

/// Whether this is the last segment of a kind that is below no object.
fn is_last(kind: &ObjectKind, named: &str) -> bool {
    !kind.name.contains('{') && kind.name.rsplit('/').next() == Some(named)
}

fn list(api: &ObjectApi, found: &FoundKind, of: &Which, limit: usize, json: bool) -> Result<String, String> {
    let list = found.kind.list.as_ref();
    let path = found.whole(list.map(|list| list.path), "listed")?;
    let Some(ObjectList { items, columns, .. }) = list else { return Err(found.cannot("listed")) };
    let has_page = of.query.iter().any(|(name, _)| name == "current_page" || name == "page_size");
    let mut objects: Vec<Value> = Vec::new();
    let mut total = None;
    for page in 0.. {
        let mut query = of.query.clone();
        if !has_page {
            query.push(("page_size".to_owned(), PAGE.min(limit).max(1).to_string()));
            query.push(("current_page".to_owned(), page.to_string()));
        }
        let mut answer = api.call("GET", &path, &query, None)?;
        total = answer.get("total").and_then(Value::as_u64);
        let Some(Value::Array(more)) = answer.get_mut(*items).map(Value::take) else {
            return Err(format!("{path}: the response has no list {items:?}"));
        };
        let is_last = has_page || more.len() < PAGE;
        objects.extend(more);
        if is_last || objects.len() >= limit {
            break;
        }
    }
    objects.truncate(limit);
    let shown = u64::try_from(objects.len()).unwrap_or(u64::MAX);
    if let Some(total) = total.filter(|total| *total > shown && !has_page) {
        logging::note(&format!("{shown} of {total} are shown; --limit shows more, --query chooses"));
    }
    if json { pretty(&Value::Array(objects)) } else { Ok(object_table::objects(columns, &objects)) }
}

fn create(kind: &str, file: &Path, json: bool, connection: &Connection) -> Result<String, String> {
    let found = FoundKind::new(kind)?;
    let path = match found.whole(found.kind.create, "made") {
        Ok(path) => path,
        Err(why) => {
            // Keys are made where their type is said.
            let below = format!("{}/", found.kind.name);
            let kinds = object_kinds().into_iter().filter(|kind| kind.create.is_some());
            let names =
                kinds.map(|kind| kind.name).filter(|name| name.starts_with(&below) && !name.contains('{'));
            let names = names.collect::<Vec<_>>().join(", ");
            return Err(if names.is_empty() { why } else { format!("{why} without its type: {names}") });
        }
    };
    let api = ObjectApi::new(connection)?;
    let body = object(file)?;
    let made = api.call("POST", &path, &[], Some(&body))?;
    if json { pretty(&made) } else { Ok(object_table::members(own(&made))) }
}

fn edit(of: &Which, file: Option<&Path>, connection: &Connection) -> Result<String, String> {
    let found = FoundKind::new(&of.kind)?;
    let Some(id) = &of.id else {
        let path = found.whole(found.kind.update_list, "changed without the id of one")?;
        let file = file.ok_or("a list is changed by --file alone")?;
        ObjectApi::new(connection)?.call("PUT", &path, &of.query, Some(&object(file)?))?;
        return Ok(format!("changed {}\n", of.kind));
    };
    let update = found.kind.update.as_ref();
    let path = found.one(update.map(|change| change.path), id, "changed")?;
    let api = ObjectApi::new(connection)?;
    let members = update.map(|change| change.members.as_slice()).unwrap_or_default();
    let Some(file) = file else {
        let read = found.one(found.kind.read, id, "shown")?;
        let before = api.call("GET", &read, &of.query, None)?;
        let changed = object_editor::edit(own(&before), members, |change| {
            api.call("PUT", &path, &of.query, Some(change)).map(drop)
        })?;
        return Ok(if changed { format!("changed {id}\n") } else { "nothing was changed\n".to_owned() });
    };
    api.call("PUT", &path, &of.query, Some(&object(file)?))?;
    Ok(format!("changed {id}\n"))
}

fn delete(of: &Which, file: Option<&Path>, connection: &Connection) -> Result<String, String> {
    let found = FoundKind::new(&of.kind)?;
    let path = match &of.id {
        Some(id) => found.one(found.kind.delete, id, "deleted")?,
        None => found.whole(found.kind.delete_list, "deleted without the id of one")?,
    };
    let body = file.map(object).transpose()?;
    ObjectApi::new(connection)?.call("DELETE", &path, &of.query, body.as_ref())?;
    Ok(format!("deleted {}\n", of.id.as_ref().unwrap_or(&of.kind)))
}

/// The JSON object in a file.
fn object(file: &Path) -> Result<Value, String> {
    let text = input::read(file, "the object")?;
    let read: Map<String, Value> = serde_json::from_slice(&text).map_err(|why| {
        let name =
            if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
        format!("{name}: no JSON object: {why}")
    })?;
    Ok(Value::Object(read))
}

/// The object of a response: some have its members beside it once more, and there its config as a text.
fn own(response: &Value) -> &Value {
    let is_wrapped = response.get("success") == Some(&Value::Bool(true));
    response.get("data").filter(|data| is_wrapped && data.is_object()).unwrap_or(response)
}

fn pretty(value: &Value) -> Result<String, String> {
    serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_path_and_by_its_last_segment() {
        let path = |named: &str| {
            let found = FoundKind::new(named)?;
            found.one(found.kind.read, "a/b", "shown")
        };
        assert_eq!(path("configs").as_deref(), Ok("/v1/configs/a%2Fb"));
        assert_eq!(path("users").as_deref(), Ok("/v1/admin/users/a%2Fb"));
        assert_eq!(path("partials").as_deref(), Ok("/v1/prompts/partials/a%2Fb"));
        assert_eq!(path("prompts/partials").as_deref(), Ok("/v1/prompts/partials/a%2Fb"));
        assert_eq!(path("prompts/x y/versions").as_deref(), Ok("/v1/prompts/x%20y/versions/a%2Fb"));
        assert_eq!(path("workspaces/red/users").as_deref(), Ok("/v1/admin/workspaces/red/users/a%2Fb"));
        assert_eq!(path("confgs"), Err("there is no kind \"confgs\"; did you mean configs?".to_owned()));
        assert!(
            path("nothing at all")
                .is_err_and(|why| why.contains("there are ") && why.contains("virtual-keys"))
        );
        assert_eq!(path("audit-logs").as_deref(), Ok("/v1/audit-logs/a%2Fb"));
        let entries = FoundKind::new("audit-logs").unwrap();
        let deleted = entries.one(entries.kind.delete, "a", "deleted");
        assert_eq!(deleted, Err("audit-logs cannot be deleted".to_owned()));
        assert!(path("prompts//versions").is_err());
    }
}
