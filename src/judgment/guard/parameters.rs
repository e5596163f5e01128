//! The parameters of checks: described by types, from which validation and `docs/guardrails.md` are made.
//!
//! Types are judged when a config is read, and what is required must be there: a guardrail that cannot work would let everything pass. A
//! value of the right type that makes no sense (a pattern that cannot be compiled) is [`Unusable`]: an error of the check's result in
//! a config sent with a request, and refused where a config or guardrail is saved.

use super::finding::CheckError;
use serde_json::{Map, Value};
use words::api::operation::is_reference_name;
use words::config::pattern::PatternBudget;

/// One parameter of a check.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: Type,
    /// Refused where a config is read without it.
    pub required: bool,
    /// As JSON, for the documentation; empty: none.
    pub default: &'static str,
    /// What it is, with its unit.
    pub about: &'static str,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Text,
    /// Text that is never shown: a key.
    Secret,
    Flag,
    Number,
    /// A text, or a number.
    Id,
    /// A list of texts.
    List,
    /// A list of texts, or one text.
    Texts,
    /// Kinds of requests, by their reference names: a list, or a text of them with commas.
    RequestTypes,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A list of some of these texts.
    SomeOf(&'static [&'static str]),
    Object,
    /// A JSON Schema: an object, or `true` or `false`.
    Schema,
    /// An object of texts, or its JSON as text.
    Headers,
    /// Any JSON.
    Any,
}

/// The parameters of one check as written, and what patterns in them may cost: the budget is that of the whole config.
#[derive(Debug, Clone, Copy)]
pub struct Parameters<'a> {
    pub members: &'a Map<String, Value>,
    pub patterns: &'a PatternBudget,
}

/// Why a check cannot run with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Unusable {
    /// The parameter at fault; empty where it is several.
    pub parameter: &'static str,
    /// What the check's result shows.
    pub error: CheckError,
    /// The result's `data`, where there is any.
    pub data: Option<Value>,
    /// The result's verdict.
    pub verdict: bool,
    /// Refused when the config is read, inline ones too: something is missing, has not its type, or can never be judged.
    pub is_refused: bool,
}

pub const fn required(name: &'static str, kind: Type, about: &'static str) -> Parameter {
    Parameter { name, kind, required: true, default: "", about }
}

pub const fn optional(
    name: &'static str,
    kind: Type,
    default: &'static str,
    about: &'static str,
) -> Parameter {
    Parameter { name, kind, required: false, default, about }
}

impl Unusable {
    pub fn new(parameter: &'static str, message: impl Into<String>) -> Self {
        let error = CheckError { name: "Error".to_owned(), message: message.into() };
        Self { parameter, error, data: None, verdict: false, is_refused: false }
    }

    /// The same for something that is missing, or has not its type.
    #[must_use]
    pub(crate) fn refused(self) -> Self {
        Self { is_refused: true, ..self }
    }
}

impl<'a> Parameters<'a> {
    /// Absent and null are the same.
    pub fn get(self, name: &str) -> Option<&'a Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    pub fn text(self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    /// `false` where absent.
    pub fn flag(self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn flag_or(self, name: &str, default: bool) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    pub fn number(self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    /// A whole number; `None` for any other.
    pub fn integer(self, name: &str) -> Option<i64> {
        let number = self.number(name)?;
        (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
    }

    /// A list of texts, or one text. `None` where absent.
    pub fn texts(self, name: &str) -> Option<Vec<&'a str>> {
        match self.get(name)? {
            Value::Array(items) => Some(items.iter().filter_map(Value::as_str).collect()),
            value => value.as_str().map(|text| vec![text]),
        }
    }

    pub fn object(self, name: &str) -> Option<&'a Map<String, Value>> {
        self.get(name)?.as_object()
    }
}

/// The kinds of requests of a list, or of a text with commas.
pub(super) fn request_types(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::String(text) => text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
        _ => Vec::new(),
    }
}

/// What is wrong with a list of kinds of requests: one that is none would allow and block nothing.
fn unknown_request_types(value: &Value) -> Option<String> {
    let is_list = match value {
        Value::Array(items) => items.iter().all(Value::is_string),
        value => value.is_string(),
    };
    if !is_list {
        return Some("must be a list of types of requests, or a text of them with commas".to_owned());
    }
    let mut unknown = request_types(value).into_iter().filter(|name| !is_reference_name(name));
    let name = unknown.next()?;
    Some(format!("has {name:?}, which is no type of requests; docs/guardrails.md lists them"))
}

impl Type {
    /// What is wrong with a value, to be put behind its path; `None`: nothing.
    pub fn problem(self, value: &Value) -> Option<String> {
        let is_list_of = |value: &Value, is: &dyn Fn(&str) -> bool| match value {
            Value::Array(items) => items.iter().all(|item| item.as_str().is_some_and(is)),
            value => value.as_str().is_some_and(is),
        };
        let (fits, wanted) = match self {
            _ if value.is_null() => return None,
            Self::Text | Self::Secret => (value.is_string(), "a text".to_owned()),
            Self::Flag => (value.is_boolean(), "true or false".to_owned()),
            Self::Number => (value.is_number(), "a number".to_owned()),
            Self::Id => (value.is_string() || value.is_number(), "a text or a number".to_owned()),
            Self::List => (value.is_array() && is_list_of(value, &|_| true), "a list of texts".to_owned()),
            Self::Texts => (is_list_of(value, &|_| true), "a list of texts, or one".to_owned()),
            Self::RequestTypes => return unknown_request_types(value),
            Self::OneOf(names) => (
                value.as_str().is_some_and(|name| names.contains(&name)),
                format!("one of {}", names.join(", ")),
            ),
            Self::SomeOf(names) => (
                value.is_array() && is_list_of(value, &|name| names.contains(&name)),
                format!("a list of some of {}", names.join(", ")),
            ),
            Self::Object => (value.is_object(), "an object".to_owned()),
            Self::Schema => (value.is_object() || value.is_boolean(), "an object, true or false".to_owned()),
            Self::Headers => (
                value.as_object().is_some_and(|members| members.values().all(Value::is_string))
                    || value.is_string(),
                "an object of texts, or its JSON as a text".to_owned(),
            ),
            Self::Any => return None,
        };
        (!fits).then(|| format!("must be {wanted}"))
    }
}
