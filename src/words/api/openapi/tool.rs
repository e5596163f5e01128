//! A tool that is an operation of an API: its definition for clients, and the request that a call of it is.
//!
//! Its arguments are the parameters by their names and the body as `body`. Where two have one name, the later of path, query, header and body
//! has its place in front: `query_id`.

use super::encoding::{Place, Style, form, joined_pairs, pairs, simple};
use super::operation::Found;
use super::path::{PathTemplate, Segments};
use super::references::resolved;
use super::schema::{MAX_BYTES, SchemaReader};
use crate::json::Json;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value, json};

/// The longest description, characters.
const MAX_DESCRIPTION: usize = 4096;
/// The most arguments of a tool.
const MAX_ARGUMENTS: usize = 200;
/// The most patterns that the schema of a tool keeps, and the most bytes of each when it is compiled.
const MAX_PATTERNS: usize = 16;
const MAX_PATTERN: usize = 32 << 10;
/// The most bytes of the schema of a tool.
const MAX_SCHEMA: usize = 4 * MAX_BYTES;
/// The most bytes of the arguments of a call.
const MAX_CALL: usize = 4 << 20;
/// The most bytes of arguments times bytes of their schema: each value may be judged by each of its parts.
const MAX_WORK: usize = 1 << 32;
/// The most parameters that an operation and its path list, whatever becomes of them.
const MAX_LISTED_PARAMETERS: usize = 500;
/// The longest path with its query, and the longest value of a header, bytes.
const MAX_PATH: usize = 16 << 10;
const MAX_HEADER: usize = 8 << 10;
/// The most bytes of arguments of which all problems are looked for.
const MAX_EXPLAINED: usize = 64 << 10;
/// The most problems with arguments that a message lists, and the longest of each, bytes.
const MAX_LISTED: usize = 5;
const MAX_PROBLEM: usize = 200;
/// Headers that OpenAPI does not take for parameters.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];
/// Headers that no argument sets: those of the connection, of credentials, and of where a client is.
const RESERVED_HEADERS: [&str; 16] = [
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "traceparent",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-real-ip",
];
/// What names of such headers begin with.
const RESERVED_BEGINNINGS: [&str; 5] = ["proxy-", "x-gateway-", "x-portkey-", "x-forwarded-", "sec-"];

/// An operation as a tool.
#[derive(Debug)]
pub struct ApiTool {
    /// The server's own name of it: the `operationId`, shortened as `mcp::names` does.
    pub name: String,
    pub method: Method,
    /// What clients list, JSON in one spelling.
    pub definition: Box<str>,
    path: PathTemplate,
    /// More concrete templates of other operations with this method, which no arguments may reach: `access` judges those by their names.
    others: Vec<Segments>,
    parameters: Vec<Parameter>,
    body: Option<BodyArgument>,
    validator: Validator,
}

/// The HTTP request of a call.
#[derive(Debug)]
pub struct ApiRequest {
    pub method: Method,
    /// With the query; below the API's base URL.
    pub path: String,
    pub headers: HeaderMap,
    /// `None`: the method has none.
    pub body: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Parameter {
    argument: String,
    name: String,
    place: Place,
    style: Style,
    explodes: bool,
}

#[derive(Debug)]
struct BodyArgument {
    argument: String,
    media: HeaderValue,
    is_form: bool,
}

/// The schema of a tool's arguments while it is made.
struct Arguments<'d> {
    schemas: SchemaReader<'d>,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Arguments<'_> {
    /// Takes an argument; the name that it has. `prefix`: what stands before its name where that is taken.
    ///
    /// # Errors
    /// Both are taken, or there are too many.
    fn add(&mut self, name: &str, prefix: &str, schema: Value, is_required: bool) -> Result<String, String> {
        let mut argument = name.to_owned();
        if self.properties.contains_key(&argument) {
            argument = format!("{prefix}_{name}");
        }
        if self.properties.contains_key(&argument) {
            return Err(format!("several of its parameters are called {name}"));
        }
        if self.properties.len() >= MAX_ARGUMENTS {
            return Err(format!("it has more than {MAX_ARGUMENTS} parameters"));
        }
        self.properties.insert(argument.clone(), schema);
        if is_required {
            self.required.push(argument.as_str().into());
        }
        Ok(argument)
    }

    fn schema(self) -> Value {
        let mut schema =
            json!({"type": "object", "properties": self.properties, "additionalProperties": false});
        if let (false, Some(members)) = (self.required.is_empty(), schema.as_object_mut()) {
            members.insert("required".to_owned(), self.required.into());
        }
        schema
    }
}

impl ApiTool {
    /// `is_own_header`: whether a header is sent with every call.
    ///
    /// # Errors
    /// Why no tool can be made of the operation.
    pub(super) fn new(
        document: &Value,
        is_30: bool,
        found: &Found<'_>,
        is_own_header: &dyn Fn(&str) -> bool,
    ) -> Result<Self, String> {
        let path = PathTemplate::parse(found.path)?;
        let mut why = String::new();
        // A pattern that cannot be read is no reason to do without the operation.
        for patterns in [MAX_PATTERNS, 0] {
            let schemas = SchemaReader::new(document, is_30, patterns);
            let mut arguments = Arguments { schemas, properties: Map::new(), required: Vec::new() };
            let parameters = parameters(document, found, &path, is_own_header, &mut arguments)?;
            let body = body(document, found, &mut arguments)?;
            let schema = arguments.schema();
            let size = schema.to_string().len();
            if size > MAX_SCHEMA {
                return Err(format!(
                    "the schema of its arguments has {size} bytes, and {MAX_SCHEMA} are taken"
                ));
            }
            match validator(&schema) {
                Ok(validator) => {
                    let definition = definition(found, schema).to_string().into();
                    let name = found.name.clone();
                    let method = found.method.clone();
                    let others = Vec::new();
                    return Ok(Self { name, method, definition, path, others, parameters, body, validator });
                }
                Err(problem) => why = problem,
            }
        }
        Err(format!("the schema of its arguments is none: {why}"))
    }

    /// Has calls refused whose path would be that of one of these templates.
    #[must_use]
    pub(super) fn without(mut self, others: Vec<Segments>) -> Self {
        self.others = others;
        self
    }

    /// The request of a call with these arguments, as the client has written them.
    ///
    /// # Errors
    /// What is wrong with them, for the model that has written them.
    pub fn request_of(&self, arguments: Option<&Json<'_>>) -> Result<ApiRequest, String> {
        let Some(json) = arguments else { return self.request(&Value::Null, 0) };
        let size = json.get().len();
        if size > MAX_CALL {
            return Err(format!("The arguments have {size} bytes, and {MAX_CALL} are taken."));
        }
        let most = MAX_WORK / self.definition.len().max(1);
        if size > most {
            return Err(format!(
                "The arguments have {size} bytes, and by this tool's schema {most} are judged."
            ));
        }
        let read = json.read().ok_or("The arguments are nested too deep.")?;
        self.request(&read, size)
    }

    /// The same, if the arguments fit the schema. Null: there are none. `size`: of their text, bytes.
    pub(super) fn request(&self, arguments: &Value, size: usize) -> Result<ApiRequest, String> {
        let none = Value::Object(Map::new());
        let arguments = if arguments.is_null() { &none } else { arguments };
        self.check(arguments, size)?;
        let value = |argument: &str| arguments.get(argument).filter(|value| !value.is_null());
        let of = |place: Place| self.parameters.iter().filter(move |parameter| parameter.place == place);
        let mut path = self.path.fill(|name| {
            let parameter = of(Place::Path).find(|parameter| parameter.name == name);
            let found = parameter.and_then(|parameter| Some((parameter, value(&parameter.argument)?)));
            let (parameter, value) = found.ok_or_else(|| format!("The argument {name} is missing."))?;
            Ok(simple(value, parameter.style, parameter.explodes))
        })?;
        if self.others.iter().any(|other| other.fit(&path)) {
            return Err("The arguments make the path of another operation.".to_owned());
        }
        let query = self.query(&value)?;
        if !query.is_empty() {
            path = format!("{path}?{query}");
        }
        if path.len() > MAX_PATH {
            return Err(format!("The arguments make a URL of more than {MAX_PATH} bytes."));
        }
        let mut headers = HeaderMap::new();
        for parameter in of(Place::Header) {
            let Some(value) = value(&parameter.argument) else { continue };
            let text = simple(value, parameter.style, parameter.explodes);
            let name = HeaderName::from_bytes(parameter.name.as_bytes()).ok();
            let value = HeaderValue::from_str(&text).ok().filter(|value| value.len() <= MAX_HEADER);
            let both = name
                .zip(value)
                .ok_or_else(|| format!("The argument {} cannot stand in a header.", parameter.argument))?;
            headers.insert(both.0, both.1);
        }
        let body = self.body(&value, &mut headers);
        Ok(ApiRequest { method: self.method.clone(), path, headers, body })
    }

    fn query<'v>(&self, value: &impl Fn(&str) -> Option<&'v Value>) -> Result<String, String> {
        let mut all = Vec::new();
        let of_query = || self.parameters.iter().filter(|parameter| parameter.place == Place::Query);
        for parameter in of_query() {
            let Some(value) = value(&parameter.argument) else { continue };
            // Its members are parameters of their own: none may be another one.
            let members = value.as_object().filter(|_| parameter.explodes && parameter.style == Style::Form);
            let mut members = members.into_iter().flatten();
            if let Some((name, _)) = members.find(|(name, _)| of_query().any(|other| other.name == **name)) {
                return Err(format!("The member {name} of {} is another parameter.", parameter.argument));
            }
            all.extend(pairs(&parameter.name, value, parameter.style, parameter.explodes));
        }
        Ok(joined_pairs(all.into_iter()))
    }

    fn body<'v>(
        &self,
        value: &impl Fn(&str) -> Option<&'v Value>,
        headers: &mut HeaderMap,
    ) -> Option<Vec<u8>> {
        let found = self.body.as_ref().and_then(|body| Some((body, value(&body.argument)?)));
        match found {
            Some((body, value)) => {
                headers.insert(CONTENT_TYPE, body.media.clone());
                Some(if body.is_form { form(value) } else { value.to_string() }.into_bytes())
            }
            None => matches!(self.method, Method::POST | Method::PUT | Method::PATCH).then(Vec::new),
        }
    }

    fn check(&self, arguments: &Value, size: usize) -> Result<(), String> {
        if self.validator.is_valid(arguments) {
            return Ok(());
        }
        let problem = |error: jsonschema::ValidationError<'_>| {
            let at = error.instance_path().to_string();
            let message = error.to_string();
            let end = message.floor_char_boundary(MAX_PROBLEM);
            let message = message.get(..end).unwrap_or_default();
            if at.is_empty() { message.to_owned() } else { format!("{at}: {message}") }
        };
        // Large arguments may have a problem in each of their values.
        let problems: Vec<String> = match size > MAX_EXPLAINED {
            true => self.validator.validate(arguments).err().map(problem).into_iter().collect(),
            false => self.validator.iter_errors(arguments).take(MAX_LISTED).map(problem).collect(),
        };
        Err(format!("The arguments do not fit the schema of the tool: {}.", problems.join("; ")))
    }
}

/// The parameters of the operation, and those of its path that it does not have itself.
fn parameters<'d>(
    document: &'d Value,
    found: &Found<'d>,
    path: &PathTemplate,
    is_own_header: &dyn Fn(&str) -> bool,
    arguments: &mut Arguments<'d>,
) -> Result<Vec<Parameter>, String> {
    let of = |value: &'d Value| value.get("parameters").and_then(Value::as_array).into_iter().flatten();
    let text =
        |parameter: &'d Value, name: &str| parameter.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut listed: Vec<(&str, &str, &Value)> = Vec::new();
    let all = || of(found.operation).chain(of(found.item));
    if all().nth(MAX_LISTED_PARAMETERS).is_some() {
        return Err(format!("it lists more than {MAX_LISTED_PARAMETERS} parameters"));
    }
    for parameter in all() {
        let parameter = resolved(document, parameter).ok_or("one of its parameters refers to nothing")?;
        let name = text(parameter, "name");
        let place = text(parameter, "in");
        if !listed.iter().any(|(other, at, _)| *other == name && *at == place) {
            listed.push((name, place, parameter));
        }
    }
    let mut read = Vec::new();
    for (wanted, place) in [("path", Place::Path), ("query", Place::Query), ("header", Place::Header)] {
        for (name, _, parameter) in listed.iter().filter(|(_, at, _)| *at == wanted) {
            let is_used = match place {
                Place::Path => path.parameters().any(|used| used == *name),
                Place::Query => !name.is_empty(),
                Place::Header => is_argument(name, is_required(parameter), is_own_header)?,
            };
            if is_used {
                read.push(one_parameter(name, place, wanted, parameter, arguments)?);
            }
        }
    }
    let is_there = |name: &str| read.iter().any(|read| read.place == Place::Path && read.name == name);
    if let Some(name) = path.parameters().find(|name| !is_there(name)) {
        return Err(format!("its path names {name}, which is none of its parameters"));
    }
    match listed.iter().find(|(_, at, parameter)| *at == "cookie" && is_required(parameter)) {
        Some((name, ..)) => Err(format!("it needs the cookie {name}, and no cookies are sent")),
        None => Ok(read),
    }
}

fn is_required(object: &Value) -> bool {
    object.get("required") == Some(&Value::Bool(true))
}

/// Whether a header is an argument.
///
/// # Errors
/// The operation needs it, and no argument may set it.
fn is_argument(name: &str, is_required: bool, is_own_header: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let plain = name.to_ascii_lowercase();
    if IGNORED_HEADERS.contains(&plain.as_str()) || is_own_header(&plain) {
        return Ok(false);
    }
    let is_reserved = RESERVED_HEADERS.contains(&plain.as_str())
        || RESERVED_BEGINNINGS.iter().any(|begin| plain.starts_with(begin))
        || HeaderName::from_bytes(plain.as_bytes()).is_err();
    match (is_reserved, is_required) {
        (true, true) => Err(format!("it needs the header {name}, which no argument sets")),
        (is_reserved, _) => Ok(!is_reserved),
    }
}

fn one_parameter<'d>(
    name: &str,
    place: Place,
    prefix: &str,
    parameter: &'d Value,
    arguments: &mut Arguments<'d>,
) -> Result<Parameter, String> {
    let content = parameter.get("content").and_then(Value::as_object);
    let of_json = content.and_then(|content| content.get("application/json"));
    if content.is_some() && of_json.is_none() {
        return Err(format!("its parameter {name} is of a kind other than JSON"));
    }
    let style = match of_json {
        Some(_) => Style::Json,
        None => Style::parse(parameter.get("style").and_then(Value::as_str), place)
            .map_err(|style| format!("its parameter {name} has the style {style}, which is not supported"))?,
    };
    let explodes = parameter.get("explode").and_then(Value::as_bool).unwrap_or(style == Style::Form);
    let schema = of_json.unwrap_or(parameter).get("schema");
    let schema = schema.map_or(Value::Bool(true), |schema| arguments.schemas.read(schema));
    let schema = described(schema, parameter);
    let is_needed = place == Place::Path || is_required(parameter);
    let argument = arguments.add(name, prefix, schema, is_needed)?;
    Ok(Parameter { argument, name: name.to_owned(), place, style, explodes })
}

/// A schema with the description of what has it, unless it has one.
fn described(schema: Value, owner: &Value) -> Value {
    let Some(description) = owner.get("description").and_then(Value::as_str) else { return schema };
    let mut members = match schema {
        Value::Object(members) => members,
        Value::Bool(true) => Map::new(),
        other => return other,
    };
    let description = || description.chars().take(MAX_DESCRIPTION).collect::<String>();
    members.entry("description").or_insert_with(|| description().into());
    Value::Object(members)
}

/// The body as an argument: JSON, or else a form.
///
/// # Errors
/// The operation needs another one.
fn body<'d>(
    document: &'d Value,
    found: &Found<'d>,
    arguments: &mut Arguments<'d>,
) -> Result<Option<BodyArgument>, String> {
    let Some(body) = found.operation.get("requestBody") else { return Ok(None) };
    if matches!(found.method, Method::GET | Method::HEAD) {
        return Ok(None);
    }
    let body = resolved(document, body).ok_or("its body refers to nothing")?;
    let content = body.get("content").and_then(Value::as_object);
    let media = |is_wanted: &dyn Fn(&str) -> bool| {
        let mut found = content.into_iter().flatten();
        found.find(|(name, _)| is_wanted(name.split(';').next().unwrap_or_default().trim()))
    };
    let chosen = media(&|name| name.eq_ignore_ascii_case("application/json"))
        .or_else(|| media(&|name| name.ends_with("+json") && !name.contains('*')));
    let as_form = || media(&|name| name.eq_ignore_ascii_case("application/x-www-form-urlencoded"));
    let is_form = chosen.is_none();
    let chosen = chosen.or_else(as_form);
    let Some((name, of)) = chosen else {
        let offered: Vec<&str> = content.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        return match is_required(body) {
            true => Err(format!("it needs a body of {}, and JSON and forms are sent", offered.join(" or "))),
            false => Ok(None),
        };
    };
    let media = HeaderValue::from_str(name).map_err(|_| "its body has no valid type")?;
    let schema = of.get("schema").map_or(Value::Bool(true), |schema| arguments.schemas.read(schema));
    let schema = described(schema, body);
    let argument = arguments.add("body", "request", schema, is_required(body))?;
    Ok(Some(BodyArgument { argument, media, is_form }))
}

fn validator(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN);
    let options = jsonschema::options().with_draft(Draft::Draft202012).offline();
    options.with_pattern_options(patterns).build(schema).map_err(|why| why.to_string())
}

/// What clients list.
fn definition(found: &Found<'_>, schema: Value) -> Value {
    let text = |name: &str| found.operation.get(name).and_then(Value::as_str).unwrap_or_default().trim();
    let is_deprecated = found.operation.get("deprecated") == Some(&Value::Bool(true));
    let note = if is_deprecated { "Deprecated: the API may give it up." } else { "" };
    let parts: Vec<&str> =
        [text("summary"), text("description"), note].into_iter().filter(|part| !part.is_empty()).collect();
    let description = match parts.is_empty() {
        true => format!("{} {}", found.method, found.path),
        false => parts.join("\n\n").chars().take(MAX_DESCRIPTION).collect(),
    };
    let only_reads = matches!(found.method, Method::GET | Method::HEAD);
    let mut annotations = json!({"readOnlyHint": only_reads});
    if let (false, Some(hints)) = (only_reads, annotations.as_object_mut()) {
        let is_idempotent = matches!(found.method, Method::PUT | Method::DELETE);
        hints.insert("idempotentHint".to_owned(), is_idempotent.into());
        hints.insert("destructiveHint".to_owned(), (found.method == Method::DELETE).into());
    }
    // An approval is of this operation, and of no other one that is described alike.
    let operation = json!({"turnpike/operation": format!("{} {}", found.method, found.path)});
    json!({"name": found.name, "description": description, "inputSchema": schema, "annotations": annotations, "_meta": operation})
}
