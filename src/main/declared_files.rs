//! Stored objects as files: read with their secrets from the environment, and written without them.
//!
//! Checks nothing of an object: that is the gateway's.

use super::import::tree::Tree;
use super::import::yaml;
use super::input;
use serde_json::{Map, Value};
use std::path::Path;
use words::settings::read_yaml;

/// Stands for the value of a variable: the only member of an object.
const FROM_ENV: &str = "from_env";
/// The members that may have secrets. No variable is read for another: what is shown of an object has its name and its place.
const SECRET: [&str; 5] = ["key", "configurations", "config", "checks", "to"];
/// The members of an object that stand first.
const FIRST: [&str; 4] = ["kind", "slug", "name", "workspace_id"];

/// The objects of one set.
#[derive(Debug, Default)]
pub struct DeclaredSet {
    pub set: String,
    pub objects: Vec<Value>,
}

impl DeclaredSet {
    /// Reads files. Secrets whose variable is not set stay references.
    ///
    /// # Errors
    /// A file that cannot be read, has other members, or is of another set than those before.
    pub fn read<'f>(files: impl IntoIterator<Item = &'f Path>) -> Result<Self, String> {
        let mut all = Self::default();
        for file in files {
            let text = input::read(file, "objects")?;
            let text = String::from_utf8(text).map_err(|_| format!("{}: not UTF-8", file.display()))?;
            all.add(&text, &file.display().to_string())?;
        }
        Ok(all)
    }

    fn add(&mut self, text: &str, file: &str) -> Result<(), String> {
        let (node, problems) = read_yaml(text).map_err(|problem| format!("{file}: {problem}"))?;
        if let Some(problem) = problems.first() {
            return Err(format!("{file}: {problem}"));
        }
        let read: Value = serde_json::from_str(&node.to_json()).map_err(|why| format!("{file}: {why}"))?;
        let Value::Object(mut members) = read else {
            return Err(format!("{file}: must have the members set and objects"));
        };
        let set = members.remove("set");
        let set = set.as_ref().and_then(Value::as_str).filter(|set| !set.is_empty());
        let set = set
            .ok_or_else(|| format!("{file}: set is required: the name of the set that its objects are of"))?;
        if !self.set.is_empty() && self.set != set {
            return Err(format!(
                "{file}: is of the set {set}, and the files before of {}: apply each by itself",
                self.set
            ));
        }
        set.clone_into(&mut self.set);
        let Some(Value::Array(objects)) = members.remove("objects") else {
            return Err(format!("{file}: objects is required: a list"));
        };
        if let Some(name) = members.keys().next() {
            return Err(format!("{file}: unknown member {name}; there are set and objects"));
        }
        self.objects.extend(objects);
        Ok(())
    }

    /// Puts the values of variables in place of their names.
    pub fn resolve(&mut self, variable: &dyn Fn(&str) -> Option<String>) {
        let members = self.objects.iter_mut().filter_map(Value::as_object_mut).flatten();
        let secret = members.filter(|(name, _)| SECRET.contains(&name.as_str()));
        secret.for_each(|(_, value)| resolve(value, variable));
    }

    /// The text of a file, with `comments` above.
    pub fn write(&self, comments: &[String]) -> String {
        let mut text = String::new();
        for line in comments.iter().flat_map(|comment| comment.lines()) {
            text.push_str(format!("# {line}").trim_end());
            text.push('\n');
        }
        let objects = self.objects.iter().map(tree_of_object).collect();
        text + &yaml::write(&Tree::of([("set", Tree::text(&*self.set)), ("objects", Tree::List(objects))]))
    }
}

fn resolve(value: &mut Value, variable: &dyn Fn(&str) -> Option<String>) {
    let reference = value.as_object().filter(|members| members.len() == 1);
    if let Some(name) = reference.and_then(|members| members.get(FROM_ENV)?.as_str()) {
        if let Some(found) = variable(name) {
            *value = found.into();
        }
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| resolve(item, variable)),
        Value::Object(members) => members.values_mut().for_each(|value| resolve(value, variable)),
        _ => {}
    }
}

fn tree_of_object(object: &Value) -> Tree {
    let none = Map::new();
    let members = object.as_object().unwrap_or(&none);
    let first = FIRST.iter().filter_map(|name| Some((*name, members.get(*name)?)));
    let others = members.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
    let all = first.chain(others.map(|(name, value)| (name.as_str(), value)));
    all.fold(Tree::map(), |map, (name, value)| map.with(name, tree(value)))
}

/// A value as it is: nothing in these files is a reference by its text.
fn tree(value: &Value) -> Tree {
    match value {
        Value::String(text) => Tree::text(&**text),
        Value::Array(items) => Tree::List(items.iter().map(tree).collect()),
        Value::Object(members) => {
            members.iter().fold(Tree::map(), |map, (name, value)| map.with(name, tree(value)))
        }
        other => Tree::from_json(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_again_whatever_is_in_it() {
        let odd =
            "a: b # \"c\" '${D}' \\ \u{7f}\u{85}\u{2028}\u{feff}\n\ttab\r\n- é 日本 {from_env} %@`|>&*!?";
        let objects = vec![
            json!({"kind": "prompts", "slug": "a", "string": odd, "parameters": {odd: [odd, "", " ", "1", "true", "~", "null"]}}),
            json!({"kind": "configs", "slug": "b", "config": {"weight": 0.5, "big": 9_007_199_254_740_993_u64, "small": 1e-9, "none": null}}),
        ];
        let set = DeclaredSet { set: "main".to_owned(), objects: objects.clone() };
        let mut read = DeclaredSet::default();
        let text = set.write(&["first".to_owned()]);
        read.add(&text, "file").unwrap_or_else(|why| panic!("{why}\n{text}"));
        read.resolve(&|_| None);
        assert_eq!((read.set.as_str(), &read.objects), ("main", &objects), "{text}");
    }

    #[test]
    fn secrets_come_from_the_environment_and_stay_names_without_it() {
        let mut set = DeclaredSet::default();
        set.add(
            "set: a\nobjects: [{kind: providers, key: {from_env: K}, note: '${K}', other: {from_env: L}}]",
            "f",
        )
        .unwrap();
        set.resolve(&|name| (name == "K").then(|| "sk-1".to_owned()));
        assert_eq!(
            set.objects,
            [json!({"kind": "providers", "key": "sk-1", "note": "${K}", "other": {"from_env": "L"}})]
        );
        assert!(set.add("set: b\nobjects: []", "g").unwrap_err().contains("apply each by itself"));
        assert!(set.add("objects: []", "g").unwrap_err().contains("set is required"));
        assert!(set.add("set: a\nobjects: []\nmore: 1", "g").unwrap_err().contains("unknown member more"));
    }
}
