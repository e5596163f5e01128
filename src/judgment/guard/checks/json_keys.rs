//! `default.jsonKeys`: whether JSON in the text has any, all or none of some keys.

use super::json_in_text::{in_braces, in_fences};
use super::{BOTH, excerpt};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, required};
use crate::guard::subject::Subject;
use serde_json::{Map, Value, json};

pub(crate) const JSON_KEYS: CheckKind = CheckKind {
    id: "default.jsonKeys",
    aliases: &[],
    phases: BOTH,
    about: "Passes where an object in the text has `any`, `all` or `none` of the keys at its top level. Looks into fenced blocks \
            and at pieces in braces, which end at the first closing brace; text without JSON fails.",
    source: "",
    parameters: &[
        required("keys", Type::List, "The keys."),
        required("operator", Type::OneOf(&["any", "all", "none"]), "How many of them must be there."),
    ],
    prepare,
};

#[derive(Debug)]
struct JsonKeys {
    keys: Vec<String>,
    operator: Operator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Any,
    All,
    None,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let unusable = |parameter, message: &str| Unusable {
        data: Some(failure(message)),
        ..Unusable::new(parameter, message)
    };
    let keys = parameters.texts("keys").filter(|keys| !keys.is_empty());
    let keys = keys.ok_or_else(|| unusable("keys", "Missing keys to check"))?;
    let operator = match parameters.text("operator") {
        Some("any") => Operator::Any,
        Some("all") => Operator::All,
        Some("none") => Operator::None,
        _ => {
            return Err(unusable(
                "operator",
                "Invalid or missing operator (must be \"any\", \"all\", or \"none\")",
            ));
        }
    };
    let keys = keys.into_iter().map(str::to_owned).collect();
    Ok(Prepared::Local(Box::new(JsonKeys { keys, operator })))
}

fn failure(message: &str) -> Value {
    json!({"explanation": format!("An error occurred while processing JSON: {message}")})
}

impl JsonKeys {
    fn holds(&self, present: usize) -> bool {
        match self.operator {
            Operator::Any => present > 0,
            Operator::All => present == self.keys.len(),
            Operator::None => present == 0,
        }
    }

    /// The object that fits best.
    fn best<'o>(&self, objects: &'o [Map<String, Value>]) -> Option<&'o Map<String, Value>> {
        let count =
            |object: &Map<String, Value>| self.keys.iter().filter(|key| object.contains_key(*key)).count();
        let rank = |object: &&Map<String, Value>| {
            let count = count(object);
            (self.holds(count), if self.operator == Operator::None { self.keys.len() - count } else { count })
        };
        // The last of equal ones is the maximum; the first in the text should be.
        objects.iter().rev().max_by_key(rank)
    }

    fn explanation(&self, holds: bool, present: &[&str], missing: &[&str]) -> String {
        let found = format!("[{}]", present.join(", "));
        let absent = format!("[{}]", missing.join(", "));
        match (self.operator, holds) {
            (Operator::Any, true) => {
                format!("Successfully found at least one required key. Found keys: {found}.")
            }
            (Operator::Any, false) => {
                format!("Failed to find any of the required keys. Missing keys: {absent}.")
            }
            (Operator::All, true) => format!("Successfully found all required keys. Found keys: {found}."),
            (Operator::All, false) => format!("Failed to find all required keys. Missing keys: {absent}."),
            (Operator::None, true) => {
                format!("Successfully verified that none of the keys are present. Missing keys: {absent}.")
            }
            (Operator::None, false) => format!("Found keys that should not be present. Found keys: {found}."),
        }
    }
}

impl LocalCheck for JsonKeys {
    fn run(&self, subject: &Subject) -> Finding {
        let Some(text) = subject.prose() else {
            let message = "Missing text to analyze";
            return Finding::failed("Error", message).with_data(failure(message));
        };
        let text = &*text;
        let values = in_fences(text).into_iter().chain(in_braces(text));
        let objects: Vec<_> = values
            .filter_map(|value| match value {
                Value::Object(object) => Some(object),
                _ => None,
            })
            .collect();
        let operator = match self.operator {
            Operator::Any => "any",
            Operator::All => "all",
            Operator::None => "none",
        };
        let Some(object) = self.best(&objects) else {
            let data = json!({
                "explanation": "No valid JSON found in the text.",
                "operator": operator,
                "requiredKeys": self.keys,
                "textExcerpt": excerpt(text),
            });
            return Finding::of(false, data);
        };
        let keys = self.keys.iter().map(String::as_str);
        let (present, missing): (Vec<&str>, Vec<&str>) = keys.partition(|key| object.contains_key(*key));
        let verdict = self.holds(present.len());
        let data = json!({
            "matchedJson": object,
            "verdict": verdict,
            "explanation": self.explanation(verdict, &present, &missing),
            "operator": operator,
            "presentKeys": present,
            "missingKeys": missing,
        });
        Finding::of(verdict, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, response, run};

    #[track_caller]
    fn check(operator: &str, keys: &[&str], text: &str) -> (bool, Value) {
        let finding = run(&JSON_KEYS, json!({"operator": operator, "keys": keys}), &response(text));
        (finding.verdict, data(&finding).clone())
    }

    #[test]
    fn the_rows_of_the_reference() {
        let object = r#"{"key1": "value1", "key2": "value2"}"#;
        let (verdict, found) = check("any", &["key1", "key3"], object);
        assert!(verdict);
        assert_eq!(found["explanation"], "Successfully found at least one required key. Found keys: [key1].");
        assert_eq!((&found["presentKeys"], &found["missingKeys"]), (&json!(["key1"]), &json!(["key3"])));
        let two = r#"{"key1": 1} and {"key2": 2, "key3": 3}"#;
        assert!(check("all", &["key2", "key3"], two).0 && !check("all", &["key1", "key2"], two).0);
        assert!(check("none", &["key3", "key4"], object).0 && !check("none", &["key2"], object).0);
        let (verdict, found) = check("any", &["key1"], "no JSON here");
        assert_eq!((verdict, &found["explanation"]), (false, &json!("No valid JSON found in the text.")));
        assert!(!check("any", &["a"], r#"{"a":{"b":1}}"#).0, "bare and nested");
        assert!(check("any", &["a"], "```json\n{\"a\":{\"b\":1}}\n```").0);
    }

    #[test]
    fn errors_fail() {
        for (parameters, text, message) in [
            (
                json!({"keys": ["a"]}),
                "{}",
                "Invalid or missing operator (must be \"any\", \"all\", or \"none\")",
            ),
            (json!({"operator": "any"}), "{}", "Missing keys to check"),
            (json!({"operator": "any", "keys": []}), "{}", "Missing keys to check"),
            (json!({"operator": "any", "keys": ["a"]}), "", "Missing text to analyze"),
        ] {
            let finding = run(&JSON_KEYS, parameters, &response(text));
            assert_eq!((error(&finding), finding.verdict), (message, false));
        }
    }
}
