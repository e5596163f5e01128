//! OpenAI's published schemas, as strict as OpenAI's own recorded answers are with them.
//!
//! Not a judgement of meaning. What OpenAI itself gets wrong by its schemas is let pass for everybody else, too; nothing
//! more is.

use super::expected::data;
use super::recording::Recording;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Validators for chat answers, and what OpenAI's own answers fail.
pub(crate) struct Schemas {
    whole: Validator,
    chunk: Validator,
    tolerated: BTreeSet<String>,
}

impl Schemas {
    /// `None` where the schemas do not stand beside this checkout.
    pub(crate) fn load(recordings: &[Recording]) -> Option<Self> {
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/openai-schemas.json");
        let mut document: Value = serde_json::from_str(&std::fs::read_to_string(file).ok()?).unwrap();
        nullable(&mut document);
        let validator = |name: &str| {
            let mut root = document.clone();
            root["$ref"] = json!(format!("#/components/schemas/{name}"));
            jsonschema::options().build(&root).unwrap()
        };
        let mut schemas = Self {
            whole: validator("CreateChatCompletionResponse"),
            chunk: validator("CreateChatCompletionStreamResponse"),
            tolerated: BTreeSet::new(),
        };
        let own = |recording: &&Recording| {
            recording.host == "api.openai.com"
                && recording.path.ends_with("/chat/completions")
                && recording.status == 200
        };
        let tolerated = recordings.iter().filter(own);
        let tolerated: Vec<String> =
            tolerated.flat_map(|recording| schemas.problems(&recording.body, recording.streamed)).collect();
        schemas.tolerated = tolerated.into_iter().collect();
        Some(schemas)
    }

    /// Where a whole answer or a stream's chunks break the schemas, apart from where OpenAI does.
    pub(crate) fn problems(&self, body: &[u8], streamed: bool) -> Vec<String> {
        let (validator, answers) = match streamed {
            true => (&self.chunk, data(body)),
            false => (&self.whole, vec![serde_json::from_slice(body).unwrap_or_default()]),
        };
        // An error in a stream is no chunk; the schemas have no word for it.
        let answers = answers.iter().filter(|answer| answer.get("error").is_none_or(Value::is_null));
        let problems = answers.flat_map(|answer| {
            validator.iter_errors(answer).map(|error| {
                let place = error.instance_path().to_string();
                let place: String = place.chars().filter(|char| !char.is_ascii_digit()).collect();
                let told: String = error.to_string().chars().take(300).collect();
                let rule = told.rsplit(' ').next().unwrap_or_default().to_owned();
                (format!("schema {place} {rule}"), told)
            })
        });
        let left = problems.filter(|(kind, _)| !self.tolerated.contains(kind));
        let left: BTreeSet<String> = left
            .map(|(kind, told)| match self.tolerated.is_empty() {
                true => kind,
                false => format!("{kind}: {told}"),
            })
            .collect();
        left.into_iter().collect()
    }
}

/// OpenAPI 3.0 says `nullable: true` where JSON schema says that `null` is a type.
fn nullable(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(nullable);
            if map.remove("nullable") == Some(json!(true)) {
                let inner = std::mem::take(schema);
                *schema = json!({"anyOf": [inner, {"type": "null"}]});
            }
        }
        Value::Array(list) => list.iter_mut().for_each(nullable),
        _ => {}
    }
}
