//! Reads the parts of a request's body in any dialect: deserializing borrowed JSON, with errors that name the parameter.
//!
//! Not the rules of the spec (`api::rules`): these are what a translation cannot do without.

use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;

/// Deserializes `text` as `T`. `expected` completes "{param} must be ...".
///
/// # Errors
/// 400 that names the `param`.
pub fn parse<'a, T: Deserialize<'a>>(text: &'a str, param: &str, expected: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|_| Error::invalid_request(param, format!("{param} must be {expected}.")))
}

/// Deserializes borrowed JSON as `T`, which borrows from the same source.
///
/// # Errors
/// As [`parse`].
pub fn reread<'a, T: Deserialize<'a>>(json: &Json<'a>, param: &str, expected: &str) -> Result<T, Error> {
    parse(source(json)?, param, expected)
}

/// The text that borrowed JSON borrows.
///
/// # Errors
/// 500 if it borrows nothing: the parts of a request always do.
pub fn source<'a>(json: &Json<'a>) -> Result<&'a str, Error> {
    json.source().ok_or_else(|| Error::internal("a request's JSON is borrowed from it"))
}

/// The value of a JSON string; `None` if it is something else.
pub fn parse_string(text: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<JsonStr<'_>>(text).ok().map(|text| text.0)
}

/// 400 for a member that is required here.
pub fn missing(param: &str) -> Error {
    Error::invalid_request(param, format!("{param} is missing."))
}

/// `stop`: one string or several.
///
/// # Errors
/// 400 for anything else.
pub fn stop(text: &str) -> Result<Vec<Cow<'_, str>>, Error> {
    if let Some(one) = parse_string(text) {
        return Ok(vec![one]);
    }
    let list: Vec<JsonStr<'_>> = parse(text, "stop", "a string or a list of strings")?;
    Ok(list.into_iter().map(|text| text.0).collect())
}
