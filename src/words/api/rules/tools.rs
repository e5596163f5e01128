//! Checks tools, functions, and the choice of one: the kinds and the names of the items, and the values of the choice.
//!
//! Only what the public schemas require of every item. Schemas of parameters and vendors' own members pass unread.

use super::items::{is_named, member};
use super::value::{JsonKind, invalid_value, length, not_an_object, one_of, wrong_type};
use super::{missing, tool_kinds};
use crate::error::Error;
use crate::json::string::unquote;
use crate::json::walk;

/// The kinds of a tool choice that are not kinds of tools as well.
const CHOICE_KINDS: &[&str] = &["allowed_tools"];
const ALLOWED_MODES: &[&str] = &["auto", "required"];
const FUNCTION_CALLS: &[&str] = &["none", "auto"];

/// The members of a tool, or of the choice of one, that are judged: JSON texts.
#[derive(Default)]
struct Tool<'a> {
    kind: Option<&'a [u8]>,
    function: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    is_empty: bool,
}

impl<'a> Tool<'a> {
    fn new() -> Self {
        Self { is_empty: true, ..Self::default() }
    }

    fn take(&mut self, member: &[u8], value: &'a [u8]) {
        self.is_empty = false;
        let value = Some(value).filter(|value| *value != b"null");
        if is_named(member, "type") {
            self.kind = value;
        } else if is_named(member, "function") {
            self.function = value;
        } else if is_named(member, "name") {
            self.name = value;
        }
    }

    /// Checks the kind, and that a function has a name: in `function` as in chats (`nested`), or beside the kind. A tool
    /// without a kind passes if it has other members, because some vendors' own tools have none.
    fn check(&self, at: &dyn Fn() -> String, nested: bool) -> Result<(), Error> {
        let Some(kind) = self.kind else {
            return if self.is_empty {
                Err(missing(&format!("{}.type", at())))
            } else {
                self.check_function(at)
            };
        };
        let Some(kind) = unquote(kind) else {
            return wrong_type(&format!("{}.type", at()), "a string", kind);
        };
        if !tool_kinds::is_listed(&kind) {
            let supported = "'function' and the kinds of tools in the documentation";
            return invalid_value(&format!("{}.type", at()), &kind, supported);
        }
        match (&*kind, nested) {
            ("function", true) if self.function.is_none() => Err(missing(&format!("{}.function", at()))),
            ("function", true) => self.check_function(at),
            ("function", false) => check_name(self.name, &|| format!("{}.name", at())),
            _ => Ok(()),
        }
    }

    /// Checks the member `function`, if there is one.
    fn check_function(&self, at: &dyn Fn() -> String) -> Result<(), Error> {
        let Some(function) = self.function else { return Ok(()) };
        if JsonKind::from_json(function) != JsonKind::Object {
            return wrong_type(&format!("{}.function", at()), "an object", function);
        }
        check_name(member(function, "name"), &|| format!("{}.function.name", at()))
    }
}

/// Checks a list of at most `max` tools; `nested`: as [`Tool::check`] has it.
pub(super) fn tools(name: &str, value: &[u8], max: usize, nested: bool) -> Result<(), Error> {
    items(name, value, 0, max, |index, tool| tool.check(&|| format!("{name}[{index}]"), nested))
}

/// Checks a list of functions, each with a name.
pub(super) fn functions(name: &str, value: &[u8], min: usize, max: usize) -> Result<(), Error> {
    items(name, value, min, max, |index, tool| check_name(tool.name, &|| format!("{name}[{index}].name")))
}

/// Checks each item of a list of objects, in one pass. Reports the length first, then an item that is no object.
fn items(
    name: &str,
    value: &[u8],
    min: usize,
    max: usize,
    check: impl Fn(usize, &Tool<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(mut list) = walk::items(value) else { return wrong_type(name, "an array", value) };
    let mut count = 0;
    let mut checked = Ok(());
    let mut non_object = None;
    loop {
        let mut tool = Tool::new();
        match list.next_members(|member, value| tool.take(member, value)) {
            None => break,
            Some(true) if checked.is_ok() => checked = check(count, &tool),
            Some(true) => {}
            Some(false) => non_object = non_object.or(Some(count)),
        }
        count += 1;
    }
    length(name, count, min, max)?;
    non_object.map_or(checked, |index| not_an_object(name, index))
}

/// Checks a tool choice: one of `values`, or an object of a known kind that names the function it chooses.
pub(super) fn tool_choice(name: &str, value: &[u8], values: &[&str]) -> Result<(), Error> {
    if let Some(text) = unquote(value) {
        return one_of(name, &text, values);
    }
    let Some(choice) = read(value) else { return wrong_type(name, "a string or an object", value) };
    let at = || name.to_owned();
    let Some(kind) = choice.kind else { return Err(missing(&format!("{name}.type"))) };
    let kind_name = format!("{name}.type");
    let Some(kind) = unquote(kind) else { return wrong_type(&kind_name, "a string", kind) };
    if !CHOICE_KINDS.contains(&&*kind) && !tool_kinds::is_listed(&kind) {
        return invalid_value(
            &kind_name,
            &kind,
            "'function', 'custom', 'allowed_tools', and the kinds of tools",
        );
    }
    match &*kind {
        // Clients of chats also send the form of the Responses API, and the other way round.
        "function" if choice.function.is_none() && choice.name.is_none() => {
            Err(missing(&format!("{name}.function")))
        }
        "function" if choice.function.is_some() => choice.check_function(&at),
        "function" => check_name(choice.name, &|| format!("{name}.name")),
        "custom" => match inside(value, "custom") {
            None if choice.name.is_none() => Err(missing(&format!("{name}.custom"))),
            None => check_name(choice.name, &|| format!("{name}.name")),
            Some(custom) if JsonKind::from_json(custom) != JsonKind::Object => {
                wrong_type(&format!("{name}.custom"), "an object", custom)
            }
            Some(custom) => check_name(member(custom, "name"), &|| format!("{name}.custom.name")),
        },
        "allowed_tools" => match inside(value, "allowed_tools") {
            // As the Responses API has it.
            None if inside(value, "tools").is_some() => allowed_tools(name, value),
            None => Err(missing(&format!("{name}.allowed_tools"))),
            Some(allowed) => allowed_tools(&format!("{name}.allowed_tools"), allowed),
        },
        _ => Ok(()),
    }
}

/// Checks the mode and the list of the tools that may be chosen from.
fn allowed_tools(name: &str, value: &[u8]) -> Result<(), Error> {
    if JsonKind::from_json(value) != JsonKind::Object {
        return wrong_type(name, "an object", value);
    }
    let mode = format!("{name}.mode");
    match inside(value, "mode") {
        None => return Err(missing(&mode)),
        Some(text) => match unquote(text) {
            Some(text) => one_of(&mode, &text, ALLOWED_MODES)?,
            None => return wrong_type(&mode, "a string", text),
        },
    }
    let tools = format!("{name}.tools");
    match inside(value, "tools") {
        None => Err(missing(&tools)),
        Some(list) => items(&tools, list, 0, usize::MAX, |_, _| Ok(())),
    }
}

/// A member of an object that is not null.
fn inside<'a>(value: &'a [u8], name: &str) -> Option<&'a [u8]> {
    member(value, name).filter(|value| *value != b"null")
}

/// Checks `function_call`: one of two values, or an object that names a function.
pub(super) fn function_call(name: &str, value: &[u8]) -> Result<(), Error> {
    if let Some(text) = unquote(value) {
        return one_of(name, &text, FUNCTION_CALLS);
    }
    match read(value) {
        Some(choice) => check_name(choice.name, &|| format!("{name}.name")),
        None => wrong_type(name, "a string or an object", value),
    }
}

/// Reads one object; `None` for any other value.
fn read(value: &[u8]) -> Option<Tool<'_>> {
    let mut tool = Tool::new();
    walk::members(value)?.for_each(|(member, value)| tool.take(member, value));
    Some(tool)
}

fn check_name(name: Option<&[u8]>, at: &dyn Fn() -> String) -> Result<(), Error> {
    match name {
        None => Err(missing(&at())),
        Some(b"\"\"") => {
            let at = at();
            Err(Error::invalid_request(at.as_str(), format!("{at} must not be empty.")))
        }
        Some(value) if JsonKind::from_json(value) == JsonKind::Text => Ok(()),
        Some(value) => wrong_type(&at(), "a string", value),
    }
}
