//! The list that `turnpike keys list` prints: columns and short scopes for people, JSON for programs.
//!
//! Never a secret: a key has its public id only.

use super::object_table::{aligned, visible};
use jiff::Timestamp;
use memory::auth::key_body::KeyBody;
use memory::store::{Catalog, Kind, Record, Status};
use serde_json::{Value, json};
use std::fmt::Write;
use words::settings::scopes::ScopeSet;

/// So many bytes of scopes are on a line at most, but always a whole resource.
const WIDTH: usize = 100;

/// One stored key.
struct Key {
    id: String,
    public_id: String,
    /// `None`: what is stored of it cannot be read.
    body: Option<KeyBody>,
    workspace: String,
}

/// The stored keys, in a table or in JSON.
pub fn print(catalog: &Catalog, json: bool) -> String {
    let keys = catalog.all(Kind::ApiKey).filter(|key| key.status == Status::Active);
    let keys: Vec<Key> = keys.map(|record| Key::of(catalog, record)).collect();
    let now = Timestamp::now();
    if json {
        let list: Vec<Value> = keys.iter().map(|key| key.to_json(now)).collect();
        return format!("{:#}\n", Value::from(list));
    }
    table(&keys, now)
}

impl Key {
    fn of(catalog: &Catalog, record: &Record) -> Self {
        let workspace = record.workspace.and_then(|id| catalog.get(Kind::Workspace, id));
        Self {
            id: record.id.to_string(),
            public_id: record.slug.as_deref().unwrap_or("-").to_owned(),
            body: KeyBody::parse(&record.body).ok(),
            workspace: workspace.and_then(|record| record.slug.as_deref()).unwrap_or("-").to_owned(),
        }
    }

    fn status(&self, now: Timestamp) -> &'static str {
        match &self.body {
            None => "cannot be read",
            Some(body) if body.expires_at.is_some_and(|end| end <= now) => "expired",
            Some(_) => "active",
        }
    }

    fn to_json(&self, now: Timestamp) -> Value {
        let body = self.body.as_ref();
        json!({
            "id": self.id,
            "public_id": self.public_id,
            "name": body.map(|body| &body.name),
            "type": body.map(|body| body.kind.as_str()),
            "workspace": (self.workspace != "-").then_some(&self.workspace),
            "status": self.status(now),
            "expires_at": body.and_then(|body| body.expires_at).map(|end| end.to_string()),
            "scopes": body.map(|body| &body.scopes),
        })
    }
}

/// A line for each key, and its scopes below it.
fn table(keys: &[Key], now: Timestamp) -> String {
    let mut rows =
        vec![["ID", "PUBLIC ID", "NAME", "TYPE", "WORKSPACE", "STATUS"].map(str::to_owned).to_vec()];
    rows.extend(keys.iter().map(|key| {
        let body = key.body.as_ref();
        let name = body.map_or("-", |body| &body.name);
        let kind = body.map_or("-", |body| body.kind.as_str());
        let cells: [&str; 6] = [&key.id, &key.public_id, name, kind, &key.workspace, key.status(now)];
        cells.map(visible).to_vec()
    }));
    let scopes = std::iter::once(Vec::new()).chain(keys.iter().map(|key| {
        let body = key.body.as_ref();
        body.map(scope_lines).unwrap_or_default()
    }));
    let mut out = String::new();
    for (row, scopes) in aligned(&rows).lines().zip(scopes) {
        // Writing into a String cannot fail.
        let _ = writeln!(out, "{row}");
        for line in scopes {
            let _ = writeln!(out, "    {line}");
        }
    }
    out
}

/// The scopes of a key in short: everything its type may hold is one word, and the actions of a resource stand together.
fn scope_lines(body: &KeyBody) -> Vec<String> {
    let (held, _) = ScopeSet::parse(body.scopes.iter().map(String::as_str));
    let of_type = body.kind.scopes();
    if of_type.without(&held).is_empty() {
        return vec!["all scopes of its type".to_owned()];
    }
    let mut resources: Vec<(&str, Vec<&str>)> = Vec::new();
    for scope in held.iter() {
        match resources.iter_mut().find(|(resource, _)| *resource == scope.resource()) {
            Some((_, actions)) => actions.push(scope.action()),
            None => resources.push((scope.resource(), vec![scope.action()])),
        }
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    for (resource, actions) in resources {
        let most = of_type.iter().filter(|scope| scope.resource() == resource).count();
        let text = match actions.as_slice() {
            all if all.len() == most && most > 1 => format!("{resource}.*"),
            [one] => format!("{resource}.{one}"),
            some => format!("{resource}.{{{}}}", some.join(",")),
        };
        if !line.is_empty() && line.len() + text.len() >= WIDTH {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&text);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::settings::scopes::KeyType;

    #[test]
    fn the_actions_of_a_resource_stand_together() {
        let with = |kind: KeyType, scopes: &[&str]| {
            let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            scope_lines(&KeyBody { scopes, ..KeyBody::new("k", kind) })
        };
        let organisation = KeyType::OrganisationService;
        let all: Vec<&str> = organisation.scopes().iter().map(|scope| scope.as_str()).collect();
        assert_eq!(with(organisation, &all), ["all scopes of its type"]);
        let some = ["configs.read", "workspaces.list", "workspaces.read", "metrics.read"];
        assert_eq!(with(organisation, &some), ["workspaces.{list,read} configs.read metrics.read"]);
        let whole = ["configs.create", "configs.list", "configs.read", "configs.update", "configs.delete"];
        assert_eq!(with(organisation, &whole), ["configs.*"]);
        let (_, most) = all.split_first().unwrap();
        let lines = with(organisation, most);
        assert!(lines.len() > 3 && lines.iter().all(|line| line.len() <= WIDTH), "{lines:?}");
        assert_eq!(with(organisation, &[]), Vec::<String>::new());
    }
}
