//! `default.jsonSchema`: whether JSON in the text fits a schema.
//!
//! The schema is the operator's or a client's: what it may cost is bounded before it is used (`schema_work`), so that one may refer
//! to itself as well. A schema that cannot be judged is refused when the config is read. Patterns are those of `config::pattern`.
//! Nothing is ever fetched.

mod schema_graph;
mod schema_work;

use super::json_in_text::{in_braces, in_fences};
use super::{BOTH, NOT, excerpt};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, required};
use crate::guard::subject::Subject;
use jsonschema::paths::Location;
use jsonschema::{Keyword, PatternOptions, ValidationError, Validator};
use schema_graph::Graph;
use schema_work::{SchemaWork, ValueWork};
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
            Type::Schema,
            "A JSON Schema of draft 2020-12, or of the draft that its `$schema` names: at most 64 KiB; references within it only, by \
             pointer, `$id` or anchor; it may refer to itself where that goes into the value; no `$dynamicRef`; patterns as for \
             `default.regexMatch`. What is no such schema is refused.",
        ),
        NOT,
    ],
    prepare,
};

/// Maximum bytes of a schema.
const MAX_SCHEMA: usize = 64 << 10;
/// Maximum size of what one value is compared with, in values, those that are referred to counted each time.
const MAX_SIZE: u64 = 20_000;
/// Maximum sum of the sizes that the values of a text are compared with, times their bytes.
const MAX_WORK: u64 = 50_000_000;
/// How deep the calls of a validation may be inside each other: they are on the stack of a thread.
const MAX_NESTING: u64 = 600;
/// The most errors that a result lists.
const MAX_ERRORS: usize = 50;
/// How much of an error's message a result shows: it may repeat the value.
const MAX_MESSAGE: usize = 500;

struct JsonSchema {
    validator: Validator,
    work: SchemaWork,
    not: bool,
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonSchema").field("work", &self.work).field("not", &self.not).finish_non_exhaustive()
    }
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let schema = parameters.get("schema").ok_or_else(|| unusable("Missing schema"))?;
    let validator =
        compile(schema, parameters.patterns).map_err(|problem| unusable(&format!("schema {problem}")))?;
    let (validator, work) = validator;
    Ok(Prepared::Local(Box::new(JsonSchema { validator, work, not: parameters.flag("not") })))
}

fn unusable(message: &str) -> Unusable {
    Unusable { data: Some(failure(message)), is_refused: true, ..Unusable::new("schema", message) }
}

fn failure(message: &str) -> Value {
    json!({"explanation": format!("An error occurred while processing the JSON: {message}")})
}

/// The validator, and what a validation takes.
fn compile(schema: &Value, budget: &PatternBudget) -> Result<(Validator, SchemaWork), String> {
    if schema.to_string().len() > MAX_SCHEMA {
        return Err(format!("is too large: at most {MAX_SCHEMA} bytes"));
    }
    let graph = Graph::of(schema)?;
    let work = SchemaWork::of(&graph)?;
    if work.largest() > MAX_SIZE {
        return Err(format!("is too large: at most {MAX_SIZE} values, those it refers to counted each time"));
    }
    let mut patterns = HashMap::new();
    for pattern in &graph.patterns {
        let searcher = Searcher::compile(pattern, budget);
        let searcher = searcher.map_err(|problem| format!("has a pattern that {problem}"))?;
        patterns.insert((*pattern).to_owned(), Arc::new(searcher));
    }
    let options = jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex().size_limit(32 << 10).dfa_size_limit(64 << 10))
        .with_keyword("pattern", pattern_keyword(patterns));
    let validator = options.build(schema).map_err(|error| format!("is none: {}", shown(&error)))?;
    Ok((validator, work))
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
        let fenced = in_fences(text);
        let candidates = if fenced.is_empty() { in_braces(text) } else { fenced };
        let works: Vec<ValueWork> =
            candidates.iter().map(|value| self.work.for_value(value, MAX_WORK)).collect();
        let visits = works.iter().map(|work| work.visits).fold(0, u64::saturating_add);
        if visits > MAX_WORK {
            return failed("The text is too long, or its JSON too deep, for a schema of this size");
        }
        if works.iter().any(|work| work.nesting > MAX_NESTING) {
            return failed("The JSON is too deep for this schema");
        }
        let fitting = candidates.iter().find(|value| self.validator.is_valid(value));
        // Where a choice fails, each of its schemas is looked at again, at each depth.
        let are_listed =
            works.first().is_some_and(|work| work.visits.saturating_mul(work.nesting) <= MAX_WORK);
        let errors = match (fitting, candidates.first()) {
            (None, Some(first)) if are_listed => {
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
            (json!({"$ref": "#"}), "refers to itself with #, without going into the value"),
            (json!({"allOf": [{"$ref": "#/allOf/0"}]}), "refers to itself"),
            (
                json!({"$defs": {"t": {"not": {"$ref": "#/$defs/t"}}}, "items": {"$ref": "#/$defs/t"}}),
                "refers to itself",
            ),
            (json!({"$ref": "https://example.com/schema"}), "refers to what is not in it"),
            (json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}), "only references within it"),
            (json!({"$ref": "#name"}), "refers to #name, which is not in it"),
            (json!({"$ref": "#/$defs/no"}), "which is not in it"),
            (json!({"$dynamicRef": "#a"}), "has a $dynamicRef"),
            (json!({"$defs": doubling, "$ref": "#/$defs/a0"}), "at most 20000 values"),
            (deep, "nested too deep"),
            (json!({"pattern": "("}), "has a pattern that is no pattern"),
            (json!({"pattern": "(?=a)"}), "look-around"),
            (json!({"patternProperties": {"(?=a)": {}}}), "is none: "),
            (json!({"type": "no type"}), "is none: "),
            (json!({"description": "x".repeat(70_000)}), "is too large: at most 65536 bytes"),
        ] {
            let finding = run(&JSON_SCHEMA, json!({"schema": schema}), &response("{}"));
            let error = finding.error.map(|error| error.message);
            assert!(error.as_ref().is_some_and(|error| error.contains(wanted)), "{schema}: {error:?}");
        }
        let schema = json!({"additionalProperties": {"anyOf": vec![json!({"minimum": 1}); 2000]}});
        let text = json!({"a": "a".repeat(20_000)}).to_string();
        let finding =
            run(&JSON_SCHEMA, json!({"schema": schema}), &response(&format!("```json\n{text}\n```")));
        assert!(error(&finding).starts_with("The text is too long"), "{}", error(&finding));
    }

    /// JSON in a fenced block, which is nested this deep in a member.
    fn nested(name: &str, depth: usize) -> String {
        let mut value = json!({});
        for _ in 0..depth {
            value = json!({ name: value });
        }
        format!("```json\n{value}\n```")
    }

    #[test]
    fn schemas_may_refer_to_themselves() {
        let node = json!({"type": "object", "properties": {
            "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "required": ["value"]});
        let tree = json!({"$defs": {"Node": node}, "$ref": "#/$defs/Node"});
        let root = json!({"properties": {"foo": {"$ref": "#"}}, "additionalProperties": false});
        let any = json!({"$defs": {"any": {"anyOf": [{"type": ["string", "number", "boolean", "null"]},
            {"type": "array", "items": {"$ref": "#/$defs/any"}},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/any"}}]}}, "$ref": "#/$defs/any"});
        let named = json!({"$id": "https://example.com/tree", "$defs": {"leaf": {"$anchor": "leaf", "type": "integer"},
            "node": {"$id": "node", "properties": {"next": {"$ref": "node"}, "leaf": {"$ref": "/tree#leaf"}}}}, "$ref": "node"});
        for (schema, text, verdict) in [
            (&tree, r#"{"value":1,"children":[{"value":2,"children":[{"value":3}]}]}"#, true),
            (&tree, r#"{"value":1,"children":[{"value":2,"children":[{"value":"3"}]}]}"#, false),
            (&root, r#"{"foo":{"foo":{"foo":false}}}"#, true),
            (&root, r#"{"foo":{"foo":{"bar":false}}}"#, false),
            (&any, r#"{"a":[1,{"b":[null,"x"]}]}"#, true),
            (&named, r#"{"next":{"next":{"leaf":1}}}"#, true),
            (&named, r#"{"next":{"next":{"leaf":"1"}}}"#, false),
            (&json!(true), r#"{"a":1}"#, true),
            (&json!(false), r#"{"a":1}"#, false),
            (&json!({"properties": {"a": true, "b": false}}), r#"{"a":1}"#, true),
            (&json!({"properties": {"a": true, "b": false}}), r#"{"b":1}"#, false),
        ] {
            let (found, data) = check(schema.clone(), &format!("```json\n{text}\n```"));
            assert_eq!(found, verdict, "{schema} {text}: {data}");
        }
        for depth in [1, 20, 100] {
            assert!(check(root.clone(), &nested("foo", depth)).0, "{depth}");
        }
    }

    /// What would take two comparisons more for each value inside is counted, and refused before it begins.
    #[test]
    fn what_a_validation_takes_is_bounded_by_the_depth_of_the_json() {
        let again = json!({"properties": {"c": {"$ref": "#"}}});
        for schema in [
            json!({"allOf": [again, again]}),
            json!({"anyOf": [again, {"additionalProperties": {"$ref": "#"}}], "minProperties": 1}),
            json!({"anyOf": [again], "unevaluatedProperties": false}),
        ] {
            assert_eq!(check(schema.clone(), &nested("c", 3)).1["not"], false, "{schema}");
            let finding = run(&JSON_SCHEMA, json!({"schema": schema}), &response(&nested("c", 100)));
            assert!(error(&finding).starts_with("The text is too long"), "{schema}");
        }
        // In one place already: each level above takes what is below it almost three times.
        let mut chain = json!({});
        for _ in 0..30 {
            chain = json!({"allOf": [chain], "unevaluatedProperties": {}});
        }
        let finding = run(&JSON_SCHEMA, json!({"schema": chain}), &response(r#"{"a":1}"#));
        assert!(error(&finding).contains("at most 20000 values"), "{}", error(&finding));
        // Two ways to different members are one for each.
        let branches = json!({"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}});
        assert!(check(branches, &nested("r", 100)).0);
    }
}
