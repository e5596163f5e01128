//! OpenAI's published schemas, applied as strictly as OpenAI's own recorded responses allow.
//!
//! They check form, not meaning. A violation found in OpenAI's own responses is accepted from every provider;
//! no other is.

use super::expected::data;
use super::recording::Recording;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Validators for chat responses, and the violations in OpenAI's own.
pub(crate) struct Schemas {
    whole: Validator,
    chunk: Validator,
    tolerated: BTreeSet<String>,
}

impl Schemas {
    /// `None` if the schemas are not beside this checkout.
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

    /// The schema violations of a response or of a stream's chunks, except those that OpenAI has too.
    pub(crate) fn problems(&self, body: &[u8], streamed: bool) -> Vec<String> {
        let (validator, values) = if streamed {
            (&self.chunk, data(body))
        } else {
            (&self.whole, vec![serde_json::from_slice(body).unwrap_or_default()])
        };
        // An error in a stream is not a chunk; the schemas do not cover it.
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
            .map(|(kind, detail)| if self.tolerated.is_empty() { kind } else { format!("{kind}: {detail}") })
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

/// The schemas of fine-tuning; empty if they are not beside this checkout.
#[derive(Default)]
pub(crate) struct JobSchemas(BTreeMap<&'static str, Validator>);

impl JobSchemas {
    pub(crate) fn load() -> Self {
        const NAMES: [&str; 3] = ["FineTuningJob", "FineTuningJobEvent", "FineTuningJobCheckpoint"];
        let document = document();
        Self(
            document
                .iter()
                .flat_map(|document| NAMES.map(|name| (name, validator(document, name))))
                .collect(),
        )
    }

    pub(crate) fn check_job(&self, job: &Value) {
        self.check("FineTuningJob", job);
    }

    pub(crate) fn check_event(&self, event: &Value) {
        self.check("FineTuningJobEvent", event);
    }

    pub(crate) fn check_checkpoint(&self, checkpoint: &Value) {
        self.check("FineTuningJobCheckpoint", checkpoint);
    }

    fn check(&self, name: &str, value: &Value) {
        let problems = self.0.get(name).map(|validator| errors(validator, value)).unwrap_or_default();
        assert_eq!(problems, Vec::<String>::new(), "{value}");
    }
}

/// The Responses API's schemas, without exceptions: our responses may not repeat OpenAI's violations.
pub(crate) struct Strict {
    response: Validator,
    /// By the `type` they apply to: events and output items.
    by_type: BTreeMap<String, Validator>,
}

impl Strict {
    /// `None` if the schemas are not beside this checkout.
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

    /// The schema violations of a Response object and its items.
    pub(crate) fn response(&self, response: &Value) -> Vec<String> {
        let items = response["output"].as_array().into_iter().flatten().flat_map(|item| self.typed(item));
        items.chain(errors(&self.response, response)).collect()
    }

    /// The schema violations of a stream's event.
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

/// OpenAPI 3.0 has `nullable: true` where JSON Schema lists `null` as a type.
fn nullable(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(nullable);
            // As an older version of JSON Schema has it.
            if map.get("exclusiveMinimum") == Some(&json!(true)) {
                let minimum = map.remove("minimum").unwrap_or_else(|| json!(0));
                map.insert("exclusiveMinimum".to_owned(), minimum);
            }
            if map.remove("nullable") == Some(json!(true)) {
                let inner = std::mem::take(schema);
                *schema = json!({"anyOf": [inner, {"type": "null"}]});
            }
        }
        Value::Array(list) => list.iter_mut().for_each(nullable),
        _ => {}
    }
}
