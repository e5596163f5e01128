//! Rules for query parameters (spec "GET /batches", "checkpoints", "GET /responses/{response_id}").
//!
//! The query itself travels on as it came.

use super::value::{one_of, truncated};
use crate::api::operation::Operation;
use crate::error::Error;
use url::form_urlencoded;

const INCLUDES: &[&str] =
    &["file_search_call.results", "message.input_image.image_url", "computer_call_output.output.image_url"];

/// Holds the query of a request against the spec; parameters it does not name pass.
///
/// # Errors
/// 400 with the parameter as `param`.
pub fn check_query(operation: Operation, query: Option<&str>) -> Result<(), Error> {
    let Some(query) = query else { return Ok(()) };
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match (operation, &*name) {
            (Operation::BatchesList, "limit") => limit(&value, 1, 100)?,
            (Operation::FineTuningCheckpoints, "limit") => limit(&value, 1, i64::MAX)?,
            (Operation::ResponsesGet, name) if is_include(name) => {
                for value in value.split(',') {
                    one_of("include", value, INCLUDES)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A list in a query is written in several ways: `include`, `include[]`, `include[0]`.
fn is_include(name: &str) -> bool {
    let index = name.strip_prefix("include").and_then(|rest| match rest {
        "" => Some(""),
        rest => rest.strip_prefix('[')?.strip_suffix(']'),
    });
    index.is_some_and(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
}

fn limit(given: &str, min: i64, max: i64) -> Result<(), Error> {
    let message = match given.parse::<i64>() {
        Err(_) => {
            format!("Invalid type for 'limit': expected an integer, but got '{}' instead.", truncated(given))
        }
        Ok(number) if number < min => format!(
            "Invalid 'limit': integer below minimum value. Expected a value >= {min}, but got {number} instead."
        ),
        Ok(number) if number > max => format!(
            "Invalid 'limit': integer above maximum value. Expected a value <= {max}, but got {number} instead."
        ),
        Ok(_) => return Ok(()),
    };
    Err(Error::invalid_request("limit", message))
}
