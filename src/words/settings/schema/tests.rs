//! The schema's words for the types of members, compared with what the readers of these types take: the same values, and defaults
//! that read back.
//!
//! Each member gets one wrong value after another, and both must agree. Which members there are, and which are needed, is stated
//! once (`config::members`) and not compared.

use super::build;
use crate::config::Checks;
use crate::settings::{Draft, SecretSources, SettingsSource};
use jsonschema::Validator;
use serde_json::{Map, Value, json};

const PROVIDERS: [&str; 2] = ["openai", "groq"];

/// What only the reader sees: parts of its messages.
const ONLY_THE_READER: [&str; 64] = [
    "is required, or srv or file",
    "give one of dns, srv and file",
    "which certificates do not name",
    "needs auth.jwt, whose issuer",
    "needs an issuer in auth.jwt",
    "is required, or sha256 in its place",
    "stands in place of key",
    "must be true where a listener has tls.acme",
    "edge only reads its store",
    "must be an address or a range",
    "is not a range of addresses",
    "needs client_ca",
    "needs custom_host",
    "is not the name of a key in auth.keys",
    "is required with proxy_protocol",
    "must be a time such as",
    "needs the file or url",
    "of the IANA database",
    "must not be longer than rows",
    "must be store (the store's",
    "needs a store in PostgreSQL",
    "must be IP:PORT",
    "clashes with",
    "takes its default",
    "names the stored provider",
    "names the saved config",
    "must be @slug",
    "must have at least one of",
    "is required with provider",
    "is required in conditional mode",
    "must hold at least one condition",
    "is required in loadbalance mode",
    "is required in fallback mode",
    "must hold at least one target",
    "is for loadbalance mode",
    "needs two targets at least",
    "must hold one of a weight above 0",
    "must be the name of a target of the same level",
    "must be an http or https URL",
    "must name a host",
    "is not a host name, an address or a range",
    "is only used with output: file",
    "is only used with encryption_key",
    "username and password belong together",
    "would be sent unencrypted",
    "means the same as",
    "a text that begins with one",
    "is no operator of queries",
    "must be an origin",
    "means all pages",
    "is required, or jwks_file",
    "not both",
    "must not hold a user or password",
    "is a scope of the whole organisation",
    "must be below credit_limit",
    "cannot be combined with periodic_reset",
    "needs periodic_reset_days",
    "needs hard: true",
    "must be a day such as",
    "must be from 0 to 9000000000",
    "must be the URL of a proxy",
    "must end with the proxy's host",
    "must be an IP address of this machine",
    "must be the only address of its IP version",
];

fn checks() -> Checks<'static> {
    Checks {
        provider: &|name| match PROVIDERS.contains(&name) {
            true => Ok(()),
            false => Err("is not a provider this gateway knows".to_owned()),
        },
        ..Checks::NONE
    }
}

/// The reader's problems with a document.
fn read(document: &Value) -> Vec<String> {
    let sources =
        SecretSources { env: &|_| Some("from-outside".to_owned()), credential: &|_| Ok("c".to_owned()) };
    let read = Draft::read(&document.to_string(), &sources, &checks()).finish();
    read.map_or_else(|problems| problems.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

/// One schema at one place.
struct Place<'a> {
    /// Members and indexes from the root; an index is a number.
    path: Vec<String>,
    schema: &'a Value,
}

/// Follows `$ref`, and leaves the choices of an `anyOf` to the caller.
fn choices<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    if let Some(name) = schema["$ref"].as_str() {
        return choices(root, &root["$defs"][name.trim_start_matches("#/$defs/")]);
    }
    match schema["anyOf"].as_array() {
        Some(items) => items.iter().flat_map(|item| choices(root, item)).collect(),
        None => vec![schema],
    }
}

/// A value that the schema takes: for an object, its required members.
fn sample(root: &Value, schema: &Value) -> Value {
    if let Some(example) = schema["examples"].get(0).or(schema.get("default")) {
        return example.clone();
    }
    if let Some(name) = schema["$ref"].as_str() {
        return sample(root, &root["$defs"][name.trim_start_matches("#/$defs/")]);
    }
    if let Some(first) = schema["anyOf"].get(0) {
        return sample(root, first);
    }
    if let Some(value) = schema["enum"].get(0) {
        return value.clone();
    }
    let kind = schema["type"].as_str().or(schema["type"].get(0).and_then(Value::as_str));
    match kind.unwrap_or_else(|| panic!("no type: {schema}")) {
        "object" => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let member = |name: &str| (name.to_owned(), sample(root, &schema["properties"][name]));
            let mut members: Map<String, Value> = required.map(member).collect();
            // The list of combinations of which a config must have one.
            if schema["properties"].get("override_params").is_some() && !members.contains_key("provider") {
                members.insert("retry".to_owned(), json!({"attempts": 1}));
            }
            // A model server needs an address of its own.
            if schema["properties"].get("engine").is_some() {
                members.insert("custom_host".to_owned(), json!("http://127.0.0.1:9"));
            }
            Value::Object(members)
        }
        "array" => Value::Array(Vec::new()),
        "string" => json!("sample-text"),
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => schema["minimum"].clone(),
    }
}

/// Every place below `schema`, to a bounded depth of recursion.
fn walk<'a>(root: &'a Value, schema: &'a Value, path: &[String], found: &mut Vec<Place<'a>>) {
    let depth = |name: &str| path.iter().filter(|segment| *segment == name).count();
    if depth("targets") > 1 || depth("$and") + depth("$or") > 1 {
        return;
    }
    found.push(Place { path: path.to_vec(), schema });
    for choice in choices(root, schema) {
        let below = |segment: &str| [path, &[segment.to_owned()]].concat();
        for (name, member) in choice["properties"].as_object().into_iter().flatten() {
            walk(root, member, &below(name), found);
        }
        for (pattern, member) in choice["patternProperties"].as_object().into_iter().flatten() {
            let name = if pattern.contains("url") { "url.pathname" } else { "metadata.user" };
            walk(root, member, &below(name), found);
        }
        if let member @ Value::Object(_) = &choice["additionalProperties"] {
            walk(root, member, &below("sample"), found);
        }
        if let items @ Value::Object(_) = &choice["items"] {
            walk(root, items, &below("0"), found);
        }
    }
}

/// The schema of the member or item `name`.
fn member<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let free = |of: &str| schema.get(of).filter(|schema| schema.is_object());
    if name == "0" {
        return free("items");
    }
    let by_pattern = || {
        let patterns = schema["patternProperties"].as_object()?;
        let mine = |pattern: &str| pattern.contains("url") == name.starts_with("url");
        patterns.iter().find(|(pattern, _)| mine(pattern)).map(|(_, schema)| schema)
    };
    schema["properties"].get(name).or_else(by_pattern).or_else(|| free("additionalProperties"))
}

/// A document with `value` at `path`, and samples of whatever stands on the way.
fn document(root: &Value, path: &[String], value: &Value) -> Value {
    fn put(root: &Value, schema: &Value, path: &[String], value: &Value) -> Value {
        let Some((first, rest)) = path.split_first() else { return value.clone() };
        let all = choices(root, schema);
        let found = all.iter().find_map(|choice| Some((choice, member(choice, first)?)));
        let Some((choice, below)) = found else {
            // A key that the schema does not know.
            let mut members = all.iter().map(|choice| sample(root, choice)).find(Value::is_object).unwrap();
            members[first] = value.clone();
            return members;
        };
        if first == "0" {
            return json!([put(root, below, rest, value)]);
        }
        let mut members = sample(root, choice);
        members[first] = put(root, below, rest, value);
        members
    }
    put(root, root, path, value)
}

/// Values of every kind, and those around the bounds of this schema.
fn candidates(root: &Value, schema: &Value) -> Vec<Value> {
    let mut values = vec![
        Value::Null,
        json!(true),
        json!(""),
        json!("  "),
        json!("x"),
        json!("${VARIABLE}"),
        json!("credential:name"),
        json!("127.0.0.1:9"),
        json!(-1),
        json!(0),
        json!(1),
        json!(2.0),
        json!(1.5),
        json!(1e30),
        json!([]),
        json!([1]),
        json!([{}]),
        json!({}),
        json!({"sample": 1}),
    ];
    for choice in choices(root, schema) {
        for bound in ["minimum", "maximum"] {
            if let Some(bound) = choice[bound].as_i64() {
                values.extend([bound.saturating_sub(1), bound, bound.saturating_add(1)].map(Value::from));
            }
        }
        values.extend(choice["enum"].as_array().into_iter().flatten().cloned());
    }
    values.extend(schema["examples"].as_array().into_iter().flatten().cloned());
    values.extend(schema.get("default").cloned());
    values
}

fn schema() -> (Value, Validator) {
    let schema = build(&PROVIDERS);
    jsonschema::meta::validate(&schema).expect("it is a schema");
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    (schema, validator)
}

fn places(root: &Value) -> Vec<Place<'_>> {
    let mut found = Vec::new();
    walk(root, root, &[], &mut found);
    assert!(found.len() > 500, "{}", found.len());
    found
}

/// The key `listen.data[0]` of a path.
fn key(path: &[String]) -> String {
    let mut key = String::new();
    for segment in path {
        match segment.as_str() {
            "0" => key.push_str("[0]"),
            name if key.is_empty() => key.push_str(name),
            name => key.push_str(&format!(".{name}")),
        }
    }
    key
}

/// Whether only the reader knows the value: a reference, or a service account as text.
fn is_reference(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains("${") || text.starts_with("credential:"))
}

#[test]
fn the_schema_and_the_reader_agree_on_every_value_of_every_key() {
    let (root, validator) = schema();
    let (mut agreed, mut refused) = (0, 0);
    for place in places(&root) {
        for value in candidates(&root, place.schema) {
            let document = document(&root, &place.path, &value);
            let (taken, problems) = (validator.is_valid(&document), read(&document));
            let path = key(&place.path);
            if !taken {
                assert!(!problems.is_empty(), "{path}: only the schema refuses {document}");
                refused += 1;
            } else if !is_reference(&value) {
                let unseen = problems
                    .iter()
                    .find(|problem| !ONLY_THE_READER.iter().any(|part| problem.contains(part)));
                assert!(unseen.is_none(), "{path}: only the reader refuses {document}: {problems:?}");
            }
            agreed += 1;
        }
    }
    assert!(agreed > 10_000 && refused > 3_000, "{agreed} {refused}");
}

#[test]
fn the_defaults_are_those_of_the_reader() {
    let (root, _) = schema();
    let settings = |document: &Value| {
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let mut settings = Draft::read(&document.to_string(), &sources, &checks()).finish().ok()?;
        settings.hash.clear();
        settings.source = SettingsSource::default();
        Some(format!("{settings:?}"))
    };
    let mut compared = 0;
    // In configs, of names of models as well, an absent key means the level above, and the settings do not hold the default.
    let is_in_config =
        |place: &&Place<'_>| ["configs", "models"].iter().any(|name| place.path.iter().any(|at| at == name));
    for place in places(&root).iter().filter(|place| !is_in_config(place)) {
        let Some(default) = place.schema.get("default") else { continue };
        if place.path.first().is_some_and(|first| first == "time_limits") {
            continue;
        }
        let with = settings(&document(&root, &place.path, default));
        let without = settings(&document(&root, &place.path, &Value::Null));
        assert!(with.is_some() && with == without, "{}: {default} is not the default", key(&place.path));
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
}

#[test]
fn everything_is_described() {
    let (root, _) = schema();
    for place in places(&root).iter().skip(1) {
        let last = place.path.last().unwrap();
        let named = last != "0" && last != "sample" && !place.path.iter().any(|segment| segment == "query");
        if named {
            let text = place.schema["description"].as_str().unwrap_or_default();
            assert!(text.len() > 3, "{} has no description", key(&place.path));
        }
    }
}
