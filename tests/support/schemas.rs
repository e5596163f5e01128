//! OpenAI's published schemas, as strict as OpenAI's own recorded answers are with them.
//!
//! Not a judgement of meaning. What OpenAI itself gets wrong by its schemas is let pass for everybody else, too; nothing
//! more is.

use super::expected::data;
use super::recording::Recording;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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
        let document = document()?;
        let validator = |name: &str| validator(&document, name);
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
        let (validator, values) = match streamed {
            true => (&self.chunk, data(body)),
            false => (&self.whole, vec![serde_json::from_slice(body).unwrap_or_default()]),
        };
        // An error in a stream is no chunk; the schemas have no word for it.
        let values = values.iter().filter(|value| value.get("error").is_none_or(Value::is_null));
        let problems = values.flat_map(|value| {
            validator.iter_errors(value).map(|error| {
                let place = error.instance_path().to_string();
                let place: String = place.chars().filter(|char| !char.is_ascii_digit()).collect();
                let detail: String = error.to_string().chars().take(300).collect();
                let rule = detail.rsplit(' ').next().unwrap_or_default().to_owned();
                (format!("schema {place} {rule}"), detail)
            })
        });
        let left = problems.filter(|(kind, _)| !self.tolerated.contains(kind));
        let left: BTreeSet<String> = left
            .map(|(kind, detail)| match self.tolerated.is_empty() {
                true => kind,
                false => format!("{kind}: {detail}"),
            })
            .collect();
        left.into_iter().collect()
    }
}

fn document() -> Option<Value> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/openai-schemas.json");
    let mut document: Value = serde_json::from_str(&std::fs::read_to_string(file).ok()?).unwrap();
    nullable(&mut document);
    Some(document)
}

fn validator(document: &Value, name: &str) -> Validator {
    let mut root = document.clone();
    root["$ref"] = json!(format!("#/components/schemas/{name}"));
    jsonschema::options().build(&root).unwrap()
}

/// The Responses API's schemas, to the letter: what OpenAI's own answers fail of them, ours need not.
pub(crate) struct Strict {
    response: Validator,
    /// By the `type` they are for: events and output items.
    by_type: BTreeMap<String, Validator>,
}

impl Strict {
    /// `None` where the schemas do not stand beside this checkout.
    pub(crate) fn load() -> Option<Self> {
        let document = document()?;
        let schemas = &document["components"]["schemas"];
        let mut by_type = BTreeMap::new();
        for (list, keyword) in [("ResponseStreamEvent", "anyOf"), ("OutputItem", "oneOf")] {
            for one in schemas[list][keyword].as_array().unwrap() {
                let name = one["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
                let kind = &schemas[name]["properties"]["type"]["enum"][0];
                if let Some(kind) = kind.as_str() {
                    by_type.entry(kind.to_owned()).or_insert_with(|| validator(&document, name));
                }
            }
        }
        Some(Self { response: validator(&document, "Response"), by_type })
    }

    /// Where a Response object breaks its schema, or its items theirs.
    pub(crate) fn response(&self, response: &Value) -> Vec<String> {
        let items = response["output"].as_array().into_iter().flatten().flat_map(|item| self.typed(item));
        items.chain(errors(&self.response, response)).collect()
    }

    /// The same for an event of a stream.
    pub(crate) fn event(&self, event: &Value) -> Vec<String> {
        let mut problems = self.typed(event);
        if event["item"].is_object() {
            problems.extend(self.typed(&event["item"]));
        }
        if event["response"].is_object() {
            problems.extend(self.response(&event["response"]));
        }
        problems
    }

    fn typed(&self, value: &Value) -> Vec<String> {
        match self.by_type.get(value["type"].as_str().unwrap_or_default()) {
            Some(validator) => errors(validator, value),
            None => vec![format!("schema: nothing has this type: {value}")],
        }
    }
}

fn errors(validator: &Validator, value: &Value) -> Vec<String> {
    let error = |error: jsonschema::ValidationError<'_>| {
        let detail: String = error.to_string().chars().take(300).collect();
        format!("schema {}: {detail}", error.instance_path())
    };
    validator.iter_errors(value).map(error).collect()
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
