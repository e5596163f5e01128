//! `default.modelRules`: which models a request may name, by its metadata.

use super::{BEFORE, NOT, text_of};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, required};
use crate::guard::subject::Subject;
use serde_json::{Map, Value, json};

pub(crate) const MODEL_RULES: CheckKind = CheckKind {
    id: "default.modelRules",
    aliases: &[],
    phases: BEFORE,
    about: "Passes where the request's model is in one of the lists that belong to its metadata, or in the default list where none \
            does.",
    source: "",
    parameters: &[
        required(
            "rules",
            Type::Object,
            "`{\"defaults\": [models], \"metadata\": {key: {value: [models]}}}`.",
        ),
        NOT,
    ],
    prepare,
};

#[derive(Debug)]
struct ModelRules {
    defaults: Vec<String>,
    /// Key, value, and models.
    metadata: Vec<(String, String, Vec<String>)>,
    not: bool,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let rules = parameters.object("rules").ok_or_else(|| unusable("Missing rules configuration"))?;
    let defaults = models(rules.get("defaults"), "rules.defaults")?;
    let empty = Map::new();
    let keys = match rules.get("metadata") {
        None | Some(Value::Null) => &empty,
        Some(keys) => keys.as_object().ok_or_else(|| unusable("rules.metadata must be an object"))?,
    };
    let mut metadata = Vec::new();
    for (key, values) in keys {
        let path = format!("rules.metadata.{key}");
        let values = values.as_object().ok_or_else(|| unusable(&format!("{path} must be an object")))?;
        for (value, list) in values {
            metadata.push((key.clone(), value.clone(), models(Some(list), &format!("{path}.{value}"))?));
        }
    }
    Ok(Prepared::Local(Box::new(ModelRules { defaults, metadata, not: parameters.flag("not") })))
}

fn models(list: Option<&Value>, path: &str) -> Result<Vec<String>, Unusable> {
    let Some(list) = list.filter(|list| !list.is_null()) else { return Ok(Vec::new()) };
    let models =
        list.as_array().and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
    models.ok_or_else(|| unusable(&format!("{path} must be a list of models")))
}

fn unusable(message: &str) -> Unusable {
    Unusable { data: Some(failure(message)), ..Unusable::new("rules", message).refused() }
}

fn failure(message: &str) -> Value {
    json!({"explanation": format!("An error occurred while checking model rules: {message}")})
}

/// Whether metadata has a value: the value itself, or one of a list.
fn has(metadata: &Map<String, Value>, key: &str, wanted: &str) -> bool {
    let is = |value: &Value| match value {
        Value::Null => false,
        value => text_of(value) == wanted,
    };
    match metadata.get(key) {
        Some(Value::Array(items)) => items.iter().any(is),
        Some(value) => is(value),
        None => false,
    }
}

impl ModelRules {
    fn judge(&self, subject: &Subject) -> Result<Finding, &'static str> {
        let model =
            subject.model.as_deref().filter(|model| !model.is_empty()).ok_or("Missing model in request")?;
        let matched = self.metadata.iter().filter(|(key, value, _)| has(&subject.metadata, key, value));
        let matched: Vec<_> = matched.collect();
        let mut allowed: Vec<&String> = matched.iter().flat_map(|(_, _, models)| models).collect();
        let uses_defaults = allowed.is_empty();
        if uses_defaults {
            allowed = self.defaults.iter().collect();
        }
        if allowed.is_empty() {
            return Err("No allowed models resolved from rules");
        }
        let is_listed = allowed.iter().any(|listed| **listed == model);
        let verdict = is_listed != self.not;
        let place = if is_listed { "is in" } else { "is not in" };
        let names: Vec<String> = matched.iter().map(|(key, value, _)| format!("{key}:{value}")).collect();
        let lists = if uses_defaults {
            "the default models".to_owned()
        } else {
            format!("the models of the matched rules ({})", names.join(", "))
        };
        Ok(Finding::of(
            verdict,
            json!({
                "explanation": format!("Model \"{model}\" {place} {lists}."),
                "requestedModel": model,
                "allowedModels": allowed,
                "matchedRules": names,
                "not": self.not,
                "verdict": verdict,
            }),
        ))
    }
}

impl LocalCheck for ModelRules {
    fn run(&self, subject: &Subject) -> Finding {
        self.judge(subject)
            .unwrap_or_else(|message| Finding::failed("Error", message).with_data(failure(message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, request, request_with, run, with_metadata};

    fn rules() -> Value {
        json!({"defaults": ["gpt-4o"], "metadata": {"tier": {"pro": ["gpt-4o", "o1"], "free": ["mini"]}, "team": {"a": ["x"]}}})
    }

    #[test]
    fn lists_are_chosen_by_metadata() {
        for (metadata, holds, matched) in [
            (json!({}), true, json!([])),
            (json!({"tier": "pro"}), true, json!(["tier:pro"])),
            (json!({"tier": "free"}), false, json!(["tier:free"])),
            (json!({"tier": "other"}), true, json!([])),
            (json!({"tier": ["free", "pro"], "team": "a"}), true, json!(["tier:pro", "tier:free", "team:a"])),
            (json!({"team": "a"}), false, json!(["team:a"])),
        ] {
            for not in [false, true] {
                let subject = with_metadata(request("a"), metadata.clone());
                let finding = run(&MODEL_RULES, json!({"rules": rules(), "not": not}), &subject);
                assert_eq!(finding.verdict, holds != not, "{metadata}");
                let sorted = |value: &Value| {
                    let mut names: Vec<String> = serde_json::from_value(value.clone()).unwrap();
                    names.sort();
                    names
                };
                assert_eq!(sorted(&data(&finding)["matchedRules"]), sorted(&matched));
            }
        }
    }

    #[test]
    fn errors_fail() {
        let none = request_with(&json!({}));
        for (parameters, subject, message) in [
            (json!({"rules": rules()}), none, "Missing model in request"),
            (json!({}), request("a"), "Missing rules configuration"),
            (
                json!({"rules": {"metadata": {"a": {"b": ["c"]}}}}),
                request("a"),
                "No allowed models resolved from rules",
            ),
            (json!({"rules": {"defaults": "a"}}), request("a"), "rules.defaults must be a list of models"),
            (
                json!({"rules": {"metadata": {"a": {"b": [1]}}}}),
                request("a"),
                "rules.metadata.a.b must be a list of models",
            ),
        ] {
            let finding = run(&MODEL_RULES, parameters, &subject);
            assert_eq!((error(&finding), finding.verdict), (message, false));
        }
    }
}
