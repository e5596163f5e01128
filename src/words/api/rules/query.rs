//! Rules for query parameters.
//!
//! The query itself is forwarded unchanged.

use super::value::{one_of, truncated};
use crate::api::operation::Operation;
use crate::error::Error;
use url::form_urlencoded;

const INCLUDES: &[&str] =
    &["file_search_call.results", "message.input_image.image_url", "computer_call_output.output.image_url"];

/// What values a parameter may have.
#[derive(Debug, Clone, Copy)]
pub(in crate::api) enum QueryRule {
    /// `limit` is an integer within these bounds, both inclusive.
    Limit { min: i64, max: i64 },
    /// `include` is a list of names that OpenAI's API has.
    Include,
}

/// Checks the query of a request against its operation's rules; parameters without a rule pass.
///
/// # Errors
/// 400 with the parameter as `param`.
pub fn check_query(operation: Operation, query: Option<&str>) -> Result<(), Error> {
    let rules = operation.query_rules();
    let Some(query) = query.filter(|_| !rules.is_empty()) else { return Ok(()) };
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        for rule in rules {
            match *rule {
                QueryRule::Limit { min, max } if name == "limit" => limit(&value, min, max)?,
                QueryRule::Include if is_include(&name) => {
                    for value in value.split(',') {
                        one_of("include", value, INCLUDES)?;
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a parameter is the list `include`, which may be written `include`, `include[]` or `include[0]`.
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
