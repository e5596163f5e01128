//! The rules for requests (`docs/request-rules.md`): required fields, types, ranges and counts, one row per field.
//!
//! Checks a body and never changes it. Fields without a row pass: a provider may know them. Values are checked as JSON
//! text, so that no tree of a large body is built in memory.

mod batches;
mod chat;
mod completions;
mod fine_tuning;
mod items;
mod lists;
mod others;
mod query;
mod tool_kinds;
mod tools;
mod value;

use super::body::Body;
use super::operation::Operation;
use crate::error::Error;
pub(super) use batches::TABLE as BATCHES;
pub use batches::{check_endpoint, check_window};
pub(super) use chat::TABLE as CHAT;
pub(super) use completions::TABLE as COMPLETIONS;
pub(super) use fine_tuning::TABLE as FINE_TUNING;
pub(super) use others::{
    COUNT_TOKENS, EMBEDDINGS, IMAGES, INPUT_TOKENS, MESSAGES, MODERATIONS, RERANK, RESPONSES, SPEECH,
};
pub(super) use query::QueryRule;
pub use query::check_query;
pub(crate) use value::{MAX_METADATA_KEY, MAX_METADATA_PAIRS, MAX_METADATA_VALUE};

/// One field of a request body.
struct Row {
    name: &'static str,
    required: bool,
    rule: Rule,
}

const fn required(name: &'static str, rule: Rule) -> Row {
    Row { name, required: true, rule }
}

const fn optional(name: &'static str, rule: Rule) -> Row {
    Row { name, required: false, rule }
}

/// What a field may hold. Bounds are inclusive. `null` counts as absent for every field.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Any value.
    Any,
    Text,
    Flag,
    Object,
    /// One text, or a list of at most `max` texts.
    TextOrTexts {
        max: usize,
    },
    /// A text, a list of texts, a list of tokens, or a list of lists of tokens.
    Prompt,
    /// A list of objects.
    List {
        min: usize,
        max: usize,
    },
    Number {
        min: f64,
        max: f64,
    },
    Integer {
        min: i64,
        max: i64,
    },
    OneOf(&'static [&'static str]),
    /// A list of at least one message, each with one of these roles.
    Messages {
        roles: &'static [&'static str],
    },
    /// A list of tools of known kinds, functions with a name: nested in `function`, or beside the kind.
    Tools {
        max: usize,
        nested: bool,
    },
    /// One of these texts, or an object that names a function.
    ToolChoice(&'static [&'static str]),
    /// A list of functions with a name.
    Functions {
        min: usize,
        max: usize,
    },
    /// `none`, `auto`, or an object that names a function.
    FunctionCall,
    /// An object whose `type` is one of these.
    Format(&'static [&'static str]),
    /// An object whose `format`, if it has one, is an object whose `type` is one of these.
    TextOptions(&'static [&'static str]),
    /// An object of token id to bias, from -100 to 100.
    Biases,
    /// An object of texts with the limits of metadata.
    Metadata,
    /// A list of at most 5 objects with a `type`, and `wandb` an object.
    Integrations,
}

/// Any whole number that fits, where no range is set.
const INTEGER: Rule = Rule::Integer { min: i64::MIN, max: i64::MAX };
const PENALTY: Rule = Rule::Number { min: -2.0, max: 2.0 };
const TEMPERATURE: Rule = Rule::Number { min: 0.0, max: 2.0 };
const TOP_P: Rule = Rule::Number { min: 0.0, max: 1.0 };
const CHOICES: Rule = Rule::Integer { min: 1, max: 128 };
const STOP: Rule = Rule::TextOrTexts { max: 4 };

/// The fields of one operation, and what one field requires of another.
pub(super) struct Table {
    rows: &'static [Row],
    across: fn(&Fields<'_>) -> Result<(), Error>,
}

const fn rows(rows: &'static [Row]) -> Table {
    Table { rows, across: |_| Ok(()) }
}

/// The members of a body as the rules see them.
struct Fields<'a> {
    body: &'a Body,
    given: &'a dyn Fn(&str) -> bool,
}

impl Fields<'_> {
    /// The JSON text of a field; `None` when it is absent or null.
    fn value(&self, name: &str) -> Option<&[u8]> {
        self.body.value(name).filter(|&value| value != b"null")
    }

    fn is_true(&self, name: &str) -> bool {
        self.body.value(name) == Some(b"true")
    }

    fn integer(&self, name: &str) -> Option<i64> {
        value::integer(self.value(name)?)
    }

    /// Whether the config sets one of these itself. Then the body's value does not reach the provider.
    fn is_given(&self, names: &[&str]) -> bool {
        names.iter().any(|name| (self.given)(name))
    }

    /// Checks `stream_options`, whose rule chat and text completions share.
    fn stream_options(&self) -> Result<(), Error> {
        let wrong = self.value("stream_options").is_some() && !self.is_true("stream");
        if wrong && !self.is_given(&["stream_options", "stream"]) {
            let message = "The 'stream_options' parameter is only allowed when 'stream' is true.";
            return Err(Error::invalid_request("stream_options", message));
        }
        Ok(())
    }
}

/// Checks a request body against its operation's table; a body without a table passes.
///
/// `given` is true for the names that the config sets itself (`override_params`, a target's default model). These count
/// as present, and their values in the body are not checked.
///
/// # Errors
/// 400 with the first wrong field as `param` and OpenAI's message for it.
pub fn check(operation: Operation, body: &Body, given: &dyn Fn(&str) -> bool) -> Result<(), Error> {
    let Some(table) = operation.rules() else { return Ok(()) };
    let fields = Fields { body, given };
    for row in table.rows {
        let checked = match fields.value(row.name) {
            None if row.required => Err(missing(row.name)),
            None => Ok(()),
            Some(value) => row.rule.check(row.name, value),
        };
        match checked {
            // Checked last, because it costs more than the rule and matters only for bodies that fail it.
            Err(error) if !given(row.name) => return Err(error),
            _ => {}
        }
    }
    (table.across)(&fields)
}

fn missing(name: &str) -> Error {
    Error::invalid_request(name, format!("Missing required parameter: '{name}'."))
}

#[cfg(test)]
mod tests;
