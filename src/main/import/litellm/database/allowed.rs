//! Which models a key may use: its own list, its team's, its owner's and its organization's together.
//!
//! A list of LiteLLM's has names, patterns, names of groups of models, and words that mean all or none.

use super::super::super::cursor::InputAt;
use std::collections::BTreeMap;
use words::settings::model_pattern::ModelPattern;

/// The models of groups, by their names.
#[derive(Default)]
pub struct AccessGroups(pub BTreeMap<String, Vec<String>>);

/// A list; `None`: all models.
pub type ModelList = Option<Vec<String>>;

impl AccessGroups {
    /// A column with a list.
    pub fn list(&self, at: Option<InputAt<'_>>) -> ModelList {
        let names: Vec<String> = at?.items().iter().filter_map(InputAt::text).collect();
        if names.is_empty() || names.iter().any(|name| matches!(name.as_str(), "all-proxy-models" | "*")) {
            return None;
        }
        // All of the team's: the team's own list says which.
        if names.iter().any(|name| name == "all-team-models") {
            return None;
        }
        let mut models = Vec::new();
        for name in names.into_iter().filter(|name| name != "no-default-models") {
            match self.0.get(&name) {
                Some(of_group) => models.extend(of_group.iter().cloned()),
                None => models.push(name),
            }
        }
        models.dedup();
        Some(models)
    }
}

/// Whether a key here can have this name or pattern in its list.
pub fn is_writable(name: &str) -> bool {
    ModelPattern::parse(name).is_some()
}

/// The models that all lists allow. Of two patterns the narrower one stays where one is within the other.
pub fn both(one: ModelList, other: ModelList) -> ModelList {
    match (one, other) {
        (Some(one), Some(other)) => {
            let mut models = within(&one, &other);
            models.extend(within(&other, &one).into_iter().filter(|name| !one.contains(name)));
            Some(models)
        }
        (one, other) => one.or(other),
    }
}

/// The names, and patterns, that a pattern of the other list means.
fn within(names: &[String], of: &[String]) -> Vec<String> {
    names.iter().filter(|name| of.iter().any(|pattern| is_within(name, pattern))).cloned().collect()
}

/// Whether a pattern, with at most one `*`, means this name, or all that this pattern means.
fn is_within(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        Some((before, after)) => {
            name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
        }
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_narrowed_by_each_other() {
        let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        for (one, other, wanted) in [
            (None, None, None),
            (list(&["a"]), None, list(&["a"])),
            (None, list(&["a"]), list(&["a"])),
            (list(&["a", "b"]), list(&["b", "c"]), list(&["b"])),
            (list(&["openai/*", "x"]), list(&["openai/gpt-4o", "x"]), list(&["x", "openai/gpt-4o"])),
            (list(&["a"]), list(&["b"]), list(&[])),
        ] {
            assert_eq!(both(one.clone(), other.clone()), wanted, "{one:?} {other:?}");
        }
    }

    #[test]
    fn lists_name_groups_and_all_models() {
        let text = r#"{"a": ["all-proxy-models"], "b": ["all-team-models"], "c": ["no-default-models"], "d": ["fast", "x"], "e": []}"#;
        let node = words::config::node::Node::from_json(text.as_bytes()).unwrap();
        let groups = AccessGroups([("fast".to_owned(), vec!["m1".to_owned(), "m2".to_owned()])].into());
        let of = |name: &str| groups.list(InputAt::root(&node, 0).member(name));
        assert_eq!([of("a"), of("b"), of("e"), of("none")], [None, None, None, None]);
        assert_eq!(of("c"), Some(Vec::new()));
        assert_eq!(of("d").unwrap(), ["m1", "m2", "x"]);
    }
}
