//! Checks lists of plain items: texts, and the prompts of a completion.
//!
//! Every item is judged, so that a list is refused here whatever target it would go to.

use super::value::{JsonKind, length, wrong_type};
use crate::error::Error;
use crate::json::walk;

/// Checks a text, or a list of at most `max` texts.
pub(super) fn text_or_texts(name: &str, value: &[u8], max: usize) -> Result<(), Error> {
    match walk::items(value) {
        Some(items) => {
            length(name, items.clone().count(), 0, max)?;
            all(name, items, JsonKind::Text)
        }
        None => expect_text(name, value),
    }
}

/// Checks a prompt: a text, a list of texts, a list of tokens, or a list of lists of tokens.
pub(super) fn prompt(name: &str, value: &[u8]) -> Result<(), Error> {
    let Some(mut items) = walk::items(value) else { return expect_text(name, value) };
    let first = items.clone().next().map(JsonKind::from_json);
    match first {
        None | Some(JsonKind::Text) => all(name, items, JsonKind::Text),
        Some(JsonKind::List) => {
            let tokens = |(index, item): (usize, _)| {
                let name = || format!("{name}[{index}]");
                match walk::items(item) {
                    Some(tokens) => all_of(&name, tokens, JsonKind::Integer),
                    None => wrong_type(&name(), "an array", item),
                }
            };
            (&mut items).enumerate().try_for_each(tokens)
        }
        Some(_) => all(name, items, JsonKind::Integer),
    }
}

fn expect_text(name: &str, value: &[u8]) -> Result<(), Error> {
    match JsonKind::from_json(value) {
        JsonKind::Text => Ok(()),
        _ => wrong_type(name, "a string or an array", value),
    }
}

fn all(name: &str, items: walk::Items<'_>, kind: JsonKind) -> Result<(), Error> {
    all_of(&|| name.to_owned(), items, kind)
}

/// Checks that all items are of one kind.
fn all_of(name: &dyn Fn() -> String, mut items: walk::Items<'_>, kind: JsonKind) -> Result<(), Error> {
    let is_other = |item: &&[u8]| JsonKind::from_json(item) != kind;
    let other = (&mut items).enumerate().find(|(_, item)| is_other(item));
    other.map_or(Ok(()), |(index, item)| wrong_type(&format!("{}[{index}]", name()), kind.phrase(), item))
}
