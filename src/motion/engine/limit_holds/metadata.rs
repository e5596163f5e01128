//! The metadata of a request, as limits read it.

use memory::limits;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The members of metadata that name the user, and the session of an agent.
const USER: &str = "_user";
const SESSION: &str = "_session";

/// The merged metadata of a request; `user` of its body stands in for `_user`.
#[derive(Debug, Clone, Default)]
pub(in crate::engine) struct Metadata(Vec<(String, String)>);

impl Metadata {
    /// `session`: of a header of an agent's, stands in for `_session`.
    pub fn new(json: Option<&RawValue>, user: Option<&str>, session: Option<&str>) -> Self {
        if json.is_none() && user.is_none() && session.is_none() {
            return Self::default();
        }
        let members: Option<Map<String, Value>> = json.and_then(|json| serde_json::from_str(json.get()).ok());
        let text = |value: Value| match value {
            Value::String(text) => Some(text),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        };
        let mut members: Vec<(String, String)> =
            members.into_iter().flatten().filter_map(|(name, value)| Some((name, text(value)?))).collect();
        for (name, value) in [(USER, user), (SESSION, session)] {
            if let Some(value) = value.filter(|_| !members.iter().any(|(of, _)| of == name)) {
                members.push((name.to_owned(), value.to_owned()));
            }
        }
        Self(members)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl limits::Metadata for Metadata {
    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_the_body_stands_in_for_the_one_of_the_metadata() {
        let json = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        for (metadata, user, wanted) in [
            (Some(r#"{"_user":"ann"}"#), Some("bob"), Some("ann")),
            (Some(r#"{"team":"a"}"#), Some("bob"), Some("bob")),
            (Some(r#"{"_user":7}"#), None, Some("7")),
            (Some(r#"{"_user":null}"#), Some("bob"), Some("bob")),
            (None, Some("bob"), Some("bob")),
            (None, None, None),
        ] {
            let raw = metadata.map(json);
            let metadata = Metadata::new(raw.as_deref(), user, Some("s-1"));
            assert_eq!(limits::Metadata::value(&metadata, USER), wanted, "{raw:?}");
            assert_eq!(limits::Metadata::value(&metadata, SESSION), Some("s-1"));
        }
        let own = json(r#"{"_session":"own"}"#);
        let metadata = Metadata::new(Some(&own), None, Some("s-1"));
        assert_eq!(limits::Metadata::value(&metadata, SESSION), Some("own"));
    }
}
