//! `default.jsonSchema`: whether JSON in the text fits a schema.
//!
//! The schema is the operator's or a client's: what it may cost is bounded before it is used. A schema that refers to itself is
//! refused, since texts can be nested as deep as they like; the others are unfolded (each reference counts as what it refers
//! to), and the size that results, times the size of the text, is what a validation may take. Patterns are those of
//! `config::pattern`. Nothing is ever fetched.

use super::json_in_text::{in_braces, in_fences};
use super::{BOTH, NOT, excerpt};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, required};
use crate::guard::subject::Subject;
use jsonschema::paths::Location;
use jsonschema::{Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use words::config::pattern::{PatternBudget, Searcher};

pub(crate) const JSON_SCHEMA: CheckKind = CheckKind {
    id: "default.jsonSchema",
    aliases: &[],
    phases: BOTH,
    about: "Passes where JSON in the text fits the schema. Looks into fenced blocks; only where they hold no JSON at pieces in \
            braces, which end at the first closing brace. Text without JSON fails.",
    source: "",
    parameters: &[
        required(
            "schema",
            Type::Object,
            "A JSON Schema of draft 2020-12, or of the draft that its `$schema` names: at most 64 KiB; references within it only \
             (`#/$defs/...`), none of them to a schema around it; patterns as for `default.regexMatch`.",
        ),
        NOT,
    ],
    prepare,
};

/// Maximum bytes of a schema.
const MAX_SCHEMA: usize = 64 << 10;
/// Maximum size of a schema that is unfolded, in values.
const MAX_UNFOLDED: u64 = 20_000;
/// Maximum depth of a schema that is unfolded.
const MAX_DEPTH: usize = 200;
/// Maximum product of the unfolded size and the bytes of a text.
const MAX_WORK: u64 = 50_000_000;
/// How much a property name's pattern counts: it is matched by another engine.
const NAME_PATTERN_SIZE: u64 = 500;
/// The most errors that a result lists.
const MAX_ERRORS: usize = 50;
/// How much of an error's message a result shows: it may repeat the value.
const MAX_MESSAGE: usize = 500;

struct JsonSchema {
    validator: Validator,
    unfolded: u64,
    not: bool,
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonSchema")
            .field("unfolded", &self.unfolded)
            .field("not", &self.not)
            .finish_non_exhaustive()
    }
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let schema = parameters.get("schema").ok_or_else(|| unusable("Missing schema"))?;
    let validator =
        compile(schema, parameters.patterns).map_err(|problem| unusable(&format!("schema {problem}")))?;
    let (validator, unfolded) = validator;
    Ok(Prepared::Local(Box::new(JsonSchema { validator, unfolded, not: parameters.flag("not") })))
}

fn unusable(message: &str) -> Unusable {
    Unusable { data: Some(failure(message)), ..Unusable::new("schema", message) }
}

fn failure(message: &str) -> Value {
    json!({"explanation": format!("An error occurred while processing the JSON: {message}")})
}

/// The validator, and the size of the schema unfolded.
fn compile(schema: &Value, budget: &PatternBudget) -> Result<(Validator, u64), String> {
    if schema.to_string().len() > MAX_SCHEMA {
        return Err(format!("is too large: at most {MAX_SCHEMA} bytes"));
    }
    let mut unfolding = Unfolding { root: schema, sizes: HashMap::new(), patterns: HashMap::new(), budget };
    let unfolded = unfolding.size(schema, 0)?;
    let options = jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex().size_limit(32 << 10).dfa_size_limit(64 << 10))
        .with_keyword("pattern", pattern_keyword(unfolding.patterns));
    let validator = options.build(schema).map_err(|error| format!("is none: {}", shown(&error)))?;
    Ok((validator, unfolded))
}

#[expect(clippy::type_complexity, reason = "this is what the library takes")]
fn pattern_keyword(
    patterns: HashMap<String, Arc<Searcher>>,
) -> impl for<'a> Fn(
    &'a Map<String, Value>,
    &'a Value,
    Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>>
+ Send
+ Sync
+ 'static {
    move |_, value, _| {
        // Every text that may be a pattern was compiled. What is none, the schema of schemas refuses.
        let searcher = value.as_str().and_then(|text| patterns.get(text)).cloned();
        Ok(Box::new(PatternKeyword(searcher)))
    }
}

/// The keyword `pattern`.
struct PatternKeyword(Option<Arc<Searcher>>);

impl<'i> Keyword<'i> for PatternKeyword {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if Keyword::is_valid(self, instance) {
            Ok(())
        } else {
            Err(ValidationError::custom("does not match the pattern"))
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        match (&self.0, instance.as_str()) {
            (Some(searcher), Some(text)) => searcher.is_match(text, 0..text.len()),
            (_, text) => text.is_none(),
        }
    }
}

/// Walks over a schema as a validation does, which comes to what a `$ref` names each time it comes to the `$ref`.
struct Unfolding<'s> {
    root: &'s Value,
    /// The sizes of what was referred to; `None`: the one that is being walked over.
    sizes: HashMap<&'s str, Option<u64>>,
    patterns: HashMap<String, Arc<Searcher>>,
    budget: &'s PatternBudget,
}

impl<'s> Unfolding<'s> {
    fn size(&mut self, schema: &'s Value, depth: usize) -> Result<u64, String> {
        if depth > MAX_DEPTH {
            return Err(format!("is nested too deep: at most {MAX_DEPTH} values with what it refers to"));
        }
        let mut size: u64 = 1;
        match schema {
            Value::Array(items) => {
                for item in items {
                    size = size.saturating_add(self.size(item, depth + 1)?);
                }
            }
            Value::Object(members) => {
                for (name, value) in members {
                    let of_member = match (name.as_str(), value) {
                        ("$ref", Value::String(reference)) => self.referred(reference, depth)?,
                        ("$dynamicRef" | "$recursiveRef", _) => {
                            return Err(format!("has a {name}, which is not taken"));
                        }
                        ("$id" | "id", Value::String(_)) if depth > 0 => {
                            return Err("has another schema with an $id in it, which is not taken".to_owned());
                        }
                        ("pattern", Value::String(pattern)) => self.pattern(pattern)?,
                        ("patternProperties", Value::Object(named)) => {
                            let names = (named.len() as u64).saturating_mul(NAME_PATTERN_SIZE);
                            names.saturating_add(self.size(value, depth + 1)?)
                        }
                        _ => self.size(value, depth + 1)?,
                    };
                    size = size.saturating_add(of_member);
                }
            }
            _ => {}
        }
        if size > MAX_UNFOLDED {
            Err(format!("is too large: at most {MAX_UNFOLDED} values, those it refers to counted each time"))
        } else {
            Ok(size)
        }
    }

    fn referred(&mut self, reference: &'s str, depth: usize) -> Result<u64, String> {
        match self.sizes.get(reference) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => return Err(format!("refers to itself with {reference}, which is not taken")),
            None => {}
        }
        let pointer =
            reference.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
        let pointer = pointer.ok_or_else(|| {
            format!("refers to {reference}: only references within it are taken, of the form #/$defs/name")
        })?;
        let decoded = percent_encoding::percent_decode_str(pointer).decode_utf8_lossy();
        let target = self.root.pointer(&decoded);
        let target = target.ok_or_else(|| format!("refers to {reference}, which is not there"))?;
        self.sizes.insert(reference, None);
        let size = self.size(target, depth + 1)?;
        self.sizes.insert(reference, Some(size));
        Ok(size)
    }

    fn pattern(&mut self, pattern: &str) -> Result<u64, String> {
        if !self.patterns.contains_key(pattern) {
            let searcher = Searcher::compile(pattern, self.budget);
            let searcher = searcher.map_err(|problem| format!("has a pattern that {problem}"))?;
            self.patterns.insert(pattern.to_owned(), Arc::new(searcher));
        }
        Ok(1)
    }
}

fn shown(error: &ValidationError<'_>) -> String {
    let message = error.to_string();
    match message.get(..message.floor_char_boundary(MAX_MESSAGE)) {
        Some(begin) if begin.len() < message.len() => format!("{begin}..."),
        _ => message,
    }
}

impl LocalCheck for JsonSchema {
    fn run(&self, subject: &Subject) -> Finding {
        let failed = |message: &str| Finding::failed("Error", message).with_data(failure(message));
        let Some(text) = subject.prose() else { return failed("Missing text to analyze") };
        let text = &*text;
        if self.unfolded.saturating_mul(text.len() as u64) > MAX_WORK {
            return failed("The text is too long for a schema of this size");
        }
        let fenced = in_fences(text);
        let candidates = if fenced.is_empty() { in_braces(text) } else { fenced };
        let fitting = candidates.iter().find(|value| self.validator.is_valid(value));
        let errors = match (fitting, candidates.first()) {
            (None, Some(first)) => {
                let errors = self.validator.iter_errors(first).take(MAX_ERRORS);
                errors
                    .map(|error| json!({"path": error.instance_path().as_str(), "message": shown(&error)}))
                    .collect()
            }
            _ => Vec::new(),
        };
        let verdict = fitting.is_some() != self.not;
        let explanation = match (fitting, candidates.is_empty()) {
            (Some(_), _) => "The JSON fits the schema.",
            (None, true) => "No valid JSON found in the response.",
            (None, false) => "The JSON does not fit the schema.",
        };
        // Without any JSON there is nothing that could fail to fit.
        let verdict = verdict && !candidates.is_empty();
        Finding::of(
            verdict,
            json!({
                "matchedJson": fitting.or(candidates.first()),
                "explanation": explanation,
                "validationErrors": errors,
                "not": self.not,
                "verdict": verdict,
                "textExcerpt": excerpt(text),
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, response, run};

    fn needs_key() -> Value {
        json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]})
    }

    #[track_caller]
    fn check(schema: Value, text: &str) -> (bool, Value) {
        let finding = run(&JSON_SCHEMA, json!({"schema": schema}), &response(text));
        (finding.verdict, data(&finding).clone())
    }

    #[test]
    fn the_rows_of_the_reference() {
        let (verdict, found) =
            check(needs_key(), "adding text\n```json\n{\"key\": \"value\"}\n```\nand more");
        assert_eq!((verdict, &found["matchedJson"]), (true, &json!({"key": "value"})));
        let (verdict, found) = check(needs_key(), "```json\n{\"key1\": \"value\"}\n```");
        assert_eq!((verdict, &found["matchedJson"]), (false, &json!({"key1": "value"})));
        assert!(
            found["validationErrors"][0]["message"]
                .as_str()
                .unwrap()
                .contains("\"key\" is a required property")
        );
        let (verdict, found) = check(needs_key(), "no JSON at all");
        assert_eq!((verdict, &found["explanation"]), (false, &json!("No valid JSON found in the response.")));
        assert!(!check(json!({}), r#"{"a":{"b":1}}"#).0, "bare and nested");
        assert!(check(json!({}), "```{\"a\":{\"b\":1}}```").0);
        assert!(check(needs_key(), r#"{"a":1} {"key":"b"}"#).0, "any of them");
        assert!(!check(needs_key(), "```json\n[1]\n``` {\"key\":\"b\"}").0, "fenced JSON decides alone");
        let (_, found) = check(needs_key(), r#"{"key": 5}"#);
        assert_eq!(found["validationErrors"][0]["path"], "/key");
    }

    #[test]
    fn the_verdict_is_turned_round() {
        for (text, verdict) in [(r#"{"key":"b"}"#, false), (r#"{"key":1}"#, true), ("none", false)] {
            let finding = run(&JSON_SCHEMA, json!({"schema": needs_key(), "not": true}), &response(text));
            assert_eq!(finding.verdict, verdict, "{text}");
        }
        assert_eq!(
            error(&run(&JSON_SCHEMA, json!({"schema": {}}), &response(""))),
            "Missing text to analyze"
        );
        assert_eq!(error(&run(&JSON_SCHEMA, json!({}), &response("a"))), "Missing schema");
    }

    #[test]
    fn patterns_are_ours() {
        let schema = json!({"properties": {"a": {"pattern": "^x+$"}}, "patternProperties": {"^n_": {"type": "number"}}});
        assert!(check(schema.clone(), r#"{"a":"xx","n_1":1}"#).0);
        assert!(!check(schema.clone(), r#"{"a":"xy"}"#).0 && !check(schema.clone(), r#"{"n_1":"1"}"#).0);
        assert!(check(schema, r#"{"a":1}"#).0, "a pattern is for texts only");
    }

    /// Schemas that would take for ever, or the stack, or the network.
    #[test]
    fn hostile_schemas_are_refused() {
        let mut doubling = Map::new();
        for level in 0..40 {
            let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
            doubling.insert(format!("a{level}"), json!({"allOf": [next, next]}));
        }
        doubling.insert("a40".to_owned(), json!({}));
        let mut deep = json!({});
        for _ in 0..300 {
            deep = json!({"items": deep});
        }
        for (schema, wanted) in [
            (json!({"$ref": "#"}), "refers to itself with #"),
            (json!({"allOf": [{"$ref": "#/allOf/0"}]}), "refers to itself"),
            (
                json!({"$defs": {"t": {"properties": {"c": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"}),
                "refers to itself",
            ),
            (json!({"$ref": "https://example.com/schema"}), "only references within it"),
            (json!({"$ref": "#name"}), "only references within it"),
            (json!({"$ref": "#/$defs/no"}), "which is not there"),
            (json!({"$dynamicRef": "#a"}), "has a $dynamicRef"),
            (
                json!({"properties": {"a": {"$id": "https://example.com/x"}}}),
                "has another schema with an $id",
            ),
            (json!({"$defs": doubling, "$ref": "#/$defs/a0"}), "at most 20000 values"),
            (deep, "nested too deep"),
            (json!({"pattern": "("}), "has a pattern that is no pattern"),
            (json!({"pattern": "(?=a)"}), "look-around"),
            (json!({"patternProperties": {"(?=a)": {}}}), "is none: "),
            (json!({"type": "no type"}), "is none: "),
            (json!({"description": "x".repeat(70_000)}), "is too large: at most 65536 bytes"),
        ] {
            let finding = run(&JSON_SCHEMA, json!({"schema": schema}), &response("{}"));
            assert!(error(&finding).contains(wanted), "{schema}: {}", error(&finding));
        }
        let schema = json!({"anyOf": vec![json!({"minimum": 1}); 2000]});
        let finding = run(&JSON_SCHEMA, json!({"schema": schema}), &response(&"a".repeat(20_000)));
        assert_eq!(error(&finding), "The text is too long for a schema of this size");
    }
}
