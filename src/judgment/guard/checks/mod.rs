//! The gateway's own checks, one a file. Which there are is the list of `guard`; not here: checks of partners.

pub(super) mod add_prefix;
pub(super) mod allowed_request_types;
pub(super) mod contains;
pub(super) mod contains_code;
pub(super) mod counts;
pub(super) mod ends_with;
pub(super) mod inline_images;
mod json_in_text;
pub(super) mod json_keys;
pub(super) mod json_schema;
pub(super) mod jwt;
mod jwt_claims;
pub(super) mod letter_case;
pub(super) mod model_judge;
pub(super) mod model_rules;
pub(super) mod model_whitelist;
pub(super) mod not_null;
mod outgoing;
pub(super) mod partners;
pub(super) mod pii;
pub(super) mod prompt_injection;
pub(super) mod regex_match;
pub(super) mod regex_replace;
pub(super) mod request_parameters;
pub(super) mod required_metadata;
#[cfg(test)]
pub(super) mod testing;
pub(super) mod valid_urls;
pub(super) mod webhook;

use super::parameters::{Parameter, Type, optional};
use serde_json::Value;
use words::config::hooks::HookPhase;

pub(super) const BEFORE: &[HookPhase] = &[HookPhase::Before];
pub(super) const BOTH: &[HookPhase] = &[HookPhase::Before, HookPhase::After];

pub(super) const NOT: Parameter =
    optional("not", Type::Flag, "false", "Whether the verdict is turned round.");

/// A value as text: a text without its quotes, anything else as its JSON.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// How many characters of a text a result shows.
const EXCERPT_CHARS: usize = 100;

/// The beginning of a text, as results show it.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
