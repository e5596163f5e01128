//! Reads the parts of a request's body in any dialect: deserializing borrowed JSON, with errors that name the parameter.
//!
//! Not the rules for requests (`api::rules`): these are what a translation cannot do without.

use crate::api::body::MAX_MEMBERS;
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt::Display;

/// The members of an object: their names, and their values unread.
pub type MemberList<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

/// Deserializes `text` as `T`. `expected` completes "{param} must be ...". The param is written out only for an error.
///
/// # Errors
/// 400 that names the `param`.
pub fn parse<'a, T: Deserialize<'a>>(text: &'a str, param: impl Display, expected: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|_| Error::invalid_request(param.to_string(), format!("{param} must be {expected}.")))
}

/// Deserializes borrowed JSON as `T`, which borrows from the same source.
///
/// # Errors
/// As [`parse`].
pub(crate) fn reread<'a, T: Deserialize<'a>>(
    json: &Json<'a>,
    param: impl Display,
    expected: &str,
) -> Result<T, Error> {
    parse(source(json)?, param, expected)
}

/// The text that borrowed JSON borrows.
///
/// # Errors
/// 500 if it borrows nothing: the parts of a request always do.
pub fn source<'a>(json: &Json<'a>) -> Result<&'a str, Error> {
    json.source().ok_or_else(|| Error::internal("a request's JSON is borrowed from it"))
}

/// The members of a JSON object, in order. `expected` completes "{param} must be ...".
///
/// # Errors
/// 400 if it is no object, or has more members than a body may have.
pub fn members<'a>(json: &Json<'a>, param: impl Display, expected: &str) -> Result<MemberList<'a>, Error> {
    let members = Json::members(source(json)?)
        .ok_or_else(|| Error::invalid_request(param.to_string(), format!("{param} must be {expected}.")))?;
    if members.len() > MAX_MEMBERS {
        let message = format!("{param} has more than {MAX_MEMBERS} members.");
        return Err(Error::invalid_request(param.to_string(), message));
    }
    Ok(members)
}

/// The value of a JSON string; `None` if it is something else.
pub(crate) fn parse_string(text: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<JsonStr<'_>>(text).ok().map(|text| text.0)
}

/// 400 for a member that is required here.
pub fn missing(param: impl Display) -> Error {
    Error::invalid_request(param.to_string(), format!("{param} is missing."))
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
