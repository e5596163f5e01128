//! A schema of a document as a JSON Schema that stands for itself: references written out, what only OpenAPI knows translated or left out.
//!
//! What is cut off, because it contains itself, or is too deep or too large, takes anything: the API judges it.

use super::references::{resolved, target};
use serde_json::{Map, Value, json};

/// How deep a schema is written out.
const MAX_DEPTH: usize = 24;
/// The most bytes of the schemas of one tool.
pub(super) const MAX_BYTES: usize = 64 << 10;
/// What each schema counts for besides its own text, bytes: a judge of its own is made of it.
const SCHEMA_BYTES: usize = 16;

/// Keywords whose value is one schema.
const SCHEMAS: [&str; 8] =
    ["items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose members are schemas.
const MAPS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
/// Keywords that stay as they are where their value is a number.
const NUMBERS: [&str; 13] = [
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
];
/// Other keywords that stay as they are.
const KEPT: [&str; 11] = [
    "enum",
    "const",
    "required",
    "uniqueItems",
    "dependentRequired",
    "format",
    "title",
    "description",
    "default",
    "deprecated",
    "contentEncoding",
];
/// Keywords that mean nothing right over a schema of which something was cut off.
const EXACT: [&str; 3] = ["not", "if", "contains"];
const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "integer", "string"];

/// Reads the schemas of one tool.
pub(super) struct SchemaReader<'d> {
    document: &'d Value,
    /// Of OpenAPI 3.0, which has `nullable` and boolean bounds.
    is_30: bool,
    /// How many patterns may still be kept.
    patterns: usize,
    /// Bytes that may still be written.
    left: usize,
    /// The references around what is read now.
    around: Vec<&'d str>,
    /// How often something was cut off.
    cuts: usize,
    /// A list or a map could not be read to its end: what has it takes anything.
    is_broken_off: bool,
}

impl<'d> SchemaReader<'d> {
    /// `patterns`: the most that are kept; without them a schema is good that has some which cannot be read.
    pub fn new(document: &'d Value, is_30: bool, patterns: usize) -> Self {
        Self { document, is_30, patterns, left: MAX_BYTES, around: Vec::new(), cuts: 0, is_broken_off: false }
    }

    pub fn read(&mut self, schema: &'d Value) -> Value {
        self.schema(schema, 0)
    }

    fn cut(&mut self) -> Value {
        self.cuts += 1;
        Value::Object(Map::new())
    }

    fn schema(&mut self, schema: &'d Value, depth: usize) -> Value {
        self.left = self.left.saturating_sub(SCHEMA_BYTES);
        let members = match schema {
            Value::Bool(flag) => return Value::Bool(*flag),
            Value::Object(members) => members,
            _ => return Value::Object(Map::new()),
        };
        if depth >= MAX_DEPTH || self.left == 0 {
            return self.cut();
        }
        match members.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.referred(reference, members, depth),
            None => self.members(members, depth),
        }
    }

    /// What a reference refers to. In 3.1 other members may stand by it; in 3.0 they mean nothing.
    fn referred(&mut self, reference: &'d str, members: &'d Map<String, Value>, depth: usize) -> Value {
        if self.around.contains(&reference) {
            return self.cut();
        }
        let Some(found) = target(self.document, reference) else { return self.cut() };
        self.around.push(reference);
        let mut read = self.schema(found, depth + 1);
        self.around.pop();
        if self.is_30 || members.len() == 1 {
            return read;
        }
        let Value::Object(mut own) = self.members(members, depth) else { return read };
        let description = own.remove("description");
        if let (Some(description), Some(read)) = (description, read.as_object_mut()) {
            read.insert("description".to_owned(), description);
        }
        if own.is_empty() { read } else { json!({"allOf": [read, own]}) }
    }

    fn members(&mut self, members: &'d Map<String, Value>, depth: usize) -> Value {
        let mut read = Map::new();
        for (name, value) in members {
            if self.left == 0 {
                self.is_broken_off = true;
            } else {
                self.member(name, value, depth, &mut read);
            }
            if std::mem::take(&mut self.is_broken_off) {
                return self.cut();
            }
        }
        self.leave_out_read_only(members, &mut read);
        if self.is_30 {
            bounds_of_30(members, &mut read);
            return nullable(members, read);
        }
        Value::Object(read)
    }

    fn member(&mut self, name: &'d str, value: &'d Value, depth: usize, read: &mut Map<String, Value>) {
        let before = self.cuts;
        let found = match (name, value) {
            (_, Value::Object(_) | Value::Bool(_)) if SCHEMAS.contains(&name) => {
                self.schema(value, depth + 1)
            }
            (_, Value::Array(items)) if LISTS.contains(&name) && !items.is_empty() => self.list(items, depth),
            (_, Value::Object(inner)) if MAPS.contains(&name) => {
                if name == "patternProperties" && !self.takes_patterns(inner.len()) {
                    return;
                }
                self.map(inner, depth)
            }
            ("type", value) => match types(value) {
                Some(types) => types,
                None => return,
            },
            ("pattern", Value::String(_)) if self.takes_patterns(1) => self.copied(value),
            (_, Value::Number(_)) if NUMBERS.contains(&name) => self.copied(value),
            ("required", Value::Array(_)) => self.copied(value),
            ("required", _) => return,
            _ if KEPT.contains(&name) => self.copied(value),
            _ => return,
        };
        let is_cut = self.cuts > before;
        if is_cut && EXACT.contains(&name) {
            return;
        }
        self.left = self.left.saturating_sub(name.len() + 4);
        // Of two schemas that take anything, more than one fits.
        let name = if is_cut && name == "oneOf" { "anyOf" } else { name };
        read.entry(name).or_insert(found);
    }

    fn list(&mut self, items: &'d [Value], depth: usize) -> Value {
        let mut all = Vec::new();
        for item in items {
            if self.left == 0 {
                self.is_broken_off = true;
                break;
            }
            all.push(self.schema(item, depth + 1));
        }
        Value::Array(all)
    }

    fn map(&mut self, members: &'d Map<String, Value>, depth: usize) -> Value {
        let mut all = Map::new();
        for (name, schema) in members {
            if self.left == 0 {
                self.is_broken_off = true;
                break;
            }
            self.left = self.left.saturating_sub(name.len());
            all.insert(name.clone(), self.schema(schema, depth + 1));
        }
        Value::Object(all)
    }

    /// Whether there is room for so many more patterns.
    fn takes_patterns(&mut self, count: usize) -> bool {
        let left = self.patterns.checked_sub(count);
        self.patterns = left.unwrap_or(self.patterns);
        left.is_some()
    }

    fn copied(&mut self, value: &Value) -> Value {
        self.left = self.left.saturating_sub(value.to_string().len());
        value.clone()
    }

    /// Members that the API alone sets are no arguments.
    fn leave_out_read_only(&self, members: &'d Map<String, Value>, read: &mut Map<String, Value>) {
        let Some(properties) = members.get("properties").and_then(Value::as_object) else { return };
        let is_read_only = |schema: &'d Value| {
            let found = resolved(self.document, schema).and_then(|schema| schema.get("readOnly"));
            found == Some(&Value::Bool(true))
        };
        let names: Vec<&String> =
            properties.iter().filter(|(_, schema)| is_read_only(schema)).map(|(name, _)| name).collect();
        if names.is_empty() {
            return;
        }
        if let Some(Value::Object(properties)) = read.get_mut("properties") {
            properties.retain(|name, _| !names.contains(&name));
        }
        if let Some(Value::Array(required)) = read.get_mut("required") {
            required.retain(|required| !names.iter().any(|name| required == name.as_str()));
        }
    }
}

/// The types that JSON Schema has.
fn types(value: &Value) -> Option<Value> {
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(names) => {
            let valid: Vec<Value> = names.iter().filter(|name| is_type(name)).cloned().collect();
            (!valid.is_empty()).then_some(Value::Array(valid))
        }
        value => is_type(value).then(|| value.clone()),
    }
}

/// `exclusiveMinimum: true` makes `minimum` exclusive in OpenAPI 3.0.
fn bounds_of_30(members: &Map<String, Value>, read: &mut Map<String, Value>) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if members.get(exclusive) == Some(&Value::Bool(true))
            && let Some(value) = read.remove(bound)
        {
            read.insert(exclusive.to_owned(), value);
        }
    }
}

/// `nullable: true` of OpenAPI 3.0.
fn nullable(members: &Map<String, Value>, mut read: Map<String, Value>) -> Value {
    if members.get("nullable") != Some(&Value::Bool(true)) {
        return Value::Object(read);
    }
    if let Some(Value::Array(values)) = read.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(Value::String(name)) = read.get("type") {
        let types = json!([name, "null"]);
        read.insert("type".to_owned(), types);
    }
    let has_choice = LISTS.iter().any(|name| read.contains_key(*name));
    if has_choice { json!({"anyOf": [read, {"type": "null"}]}) } else { Value::Object(read) }
}
