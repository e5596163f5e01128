//! `default.requiredMetadataKeys` and `default.requiredMetadataKeyValuePairs`: what a request's metadata must have.

use super::{BEFORE, text_of};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameter, Parameters, Type, Unusable, optional, required};
use crate::guard::subject::Subject;
use serde_json::{Map, Value, json};

const OPERATOR: Parameter =
    optional("operator", Type::OneOf(&["all", "any", "none"]), r#""all""#, "How many of them must be there.");

pub(crate) const REQUIRED_METADATA_KEYS: CheckKind = CheckKind {
    id: "default.requiredMetadataKeys",
    aliases: &[],
    phases: BEFORE,
    about: "Passes where the request's metadata has `all`, `any` or `none` of the keys.",
    source: "",
    parameters: &[required("metadataKeys", Type::List, "The keys."), OPERATOR],
    prepare: prepare_keys,
};

pub(crate) const REQUIRED_METADATA_PAIRS: CheckKind = CheckKind {
    id: "default.requiredMetadataKeyValuePairs",
    aliases: &[],
    phases: BEFORE,
    about: "Passes where the request's metadata has `all`, `any` or `none` of the keys with their values.",
    source: "",
    parameters: &[
        required(
            "metadataPairs",
            Type::Object,
            "Keys and their values: `{\"environment\": \"production\"}`.",
        ),
        OPERATOR,
    ],
    prepare: prepare_pairs,
};

#[derive(Debug)]
struct RequiredMetadata {
    /// Keys, and the values they must have.
    wanted: Vec<(String, Option<String>)>,
    operator: Operator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    All,
    Any,
    None,
}

impl Operator {
    fn read(parameters: &Parameters<'_>) -> Self {
        match parameters.text("operator") {
            Some("any") => Self::Any,
            Some("none") => Self::None,
            _ => Self::All,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Any => "any",
            Self::None => "none",
        }
    }
}

fn prepare_keys(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let keys = parameters.texts("metadataKeys").filter(|keys| !keys.is_empty());
    let keys = keys.ok_or_else(|| missing("metadataKeys"))?;
    let wanted = keys.into_iter().map(|key| (key.to_owned(), None)).collect();
    Ok(Prepared::Local(Box::new(RequiredMetadata { wanted, operator: Operator::read(parameters) })))
}

fn prepare_pairs(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let pairs = parameters.object("metadataPairs").filter(|pairs| !pairs.is_empty());
    let pairs = pairs.ok_or_else(|| missing("metadataPairs"))?;
    let wanted = pairs.iter().map(|(key, value)| (key.clone(), Some(text_of(value)))).collect();
    Ok(Prepared::Local(Box::new(RequiredMetadata { wanted, operator: Operator::read(parameters) })))
}

/// The request passes where it cannot be judged.
fn missing(parameter: &'static str) -> Unusable {
    let message = format!("Missing or invalid {parameter}");
    let data = json!({"explanation": format!("An error occurred while checking metadata: {message}")});
    Unusable { data: Some(data), verdict: true, ..Unusable::new(parameter, message) }
}

impl RequiredMetadata {
    fn has(metadata: &Map<String, Value>, key: &str, value: Option<&str>) -> bool {
        metadata.get(key).is_some_and(|found| value.is_none_or(|value| text_of(found) == value))
    }
}

impl LocalCheck for RequiredMetadata {
    fn run(&self, subject: &Subject) -> Finding {
        let shown = |(key, value): &(String, Option<String>)| match value {
            Some(value) => format!("{key}={value}"),
            None => key.clone(),
        };
        let (present, missing): (Vec<_>, Vec<_>) =
            self.wanted.iter().partition(|(key, value)| Self::has(&subject.metadata, key, value.as_deref()));
        let verdict = match self.operator {
            Operator::All => missing.is_empty(),
            Operator::Any => !present.is_empty(),
            Operator::None => present.is_empty(),
        };
        let names = |list: &[&(String, Option<String>)]| list.iter().copied().map(shown).collect::<Vec<_>>();
        let present = names(&present);
        let missing = names(&missing);
        let explanation = match (verdict, self.operator) {
            (true, Operator::None) => "The metadata has none of them.".to_owned(),
            (true, _) => format!("The metadata has: {}.", present.join(", ")),
            (false, Operator::None) => {
                format!("The metadata has what it may not have: {}.", present.join(", "))
            }
            (false, _) => format!("The metadata lacks: {}.", missing.join(", ")),
        };
        let (found, lacks) = if self.wanted.iter().any(|(_, value)| value.is_some()) {
            ("presentPairs", "missingPairs")
        } else {
            ("presentKeys", "missingKeys")
        };
        let data = json!({
            "explanation": explanation,
            "operator": self.operator.name(),
            found: present,
            lacks: missing,
            "verdict": verdict,
        });
        Finding::of(verdict, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, request, run, with_metadata};

    #[test]
    fn keys_must_be_there() {
        let subject = with_metadata(request("a"), json!({"a": "1"}));
        for (operator, keys, verdict, missing) in [
            ("all", json!(["a", "b"]), false, json!(["b"])),
            ("any", json!(["a", "b"]), true, json!(["b"])),
            ("none", json!(["a", "b"]), false, json!(["b"])),
            ("none", json!(["b"]), true, json!(["b"])),
        ] {
            let finding =
                run(&REQUIRED_METADATA_KEYS, json!({"operator": operator, "metadataKeys": keys}), &subject);
            assert_eq!(
                (finding.verdict, &data(&finding)["missingKeys"]),
                (verdict, &missing),
                "{operator} {keys}"
            );
        }
        let finding = run(&REQUIRED_METADATA_KEYS, json!({"metadataKeys": []}), &subject);
        assert_eq!((error(&finding), finding.verdict), ("Missing or invalid metadataKeys", true));
    }

    #[test]
    fn pairs_must_be_there() {
        let subject = with_metadata(request("a"), json!({"environment": "production", "seats": "5"}));
        for (operator, pairs, verdict) in [
            ("all", json!({"environment": "production", "seats": 5}), true),
            ("all", json!({"environment": "staging"}), false),
            ("any", json!({"environment": "staging", "seats": "5"}), true),
            ("none", json!({"environment": "staging"}), true),
        ] {
            let finding = run(
                &REQUIRED_METADATA_PAIRS,
                json!({"operator": operator, "metadataPairs": pairs}),
                &subject,
            );
            assert_eq!(
                (finding.verdict, &data(&finding)["operator"]),
                (verdict, &json!(operator)),
                "{pairs}"
            );
        }
        let finding = run(&REQUIRED_METADATA_PAIRS, json!({"metadataPairs": {"a": "b"}}), &subject);
        assert_eq!(data(&finding)["missingPairs"], json!(["a=b"]));
        assert_eq!(
            error(&run(&REQUIRED_METADATA_PAIRS, json!({}), &subject)),
            "Missing or invalid metadataPairs"
        );
    }
}
