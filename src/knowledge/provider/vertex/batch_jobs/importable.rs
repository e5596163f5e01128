//! What the importer of Vertex AI's batches takes of a request of Gemini.
//!
//! It loads all lines into one table, so each member of a request is a column: an object without members, and a name that no
//! column can have, fail the whole job before any line is run. What says nothing is left out here; any other such member
//! refuses its line alone. Source: <https://docs.cloud.google.com/bigquery/docs/schemas#column_names>, to which the
//! importer's errors refer. Not what Gemini itself takes of a schema (`provider/gemini`).

use super::ID;
use serde_json::Value;
use std::borrow::Cow;
use words::error::Error;

/// As deep as columns of a table may be nested.
const MAX_DEPTH: usize = 15;

/// Members of schemas that say nothing of a value.
const COMMENTS: [&str; 3] = ["$schema", "$id", "$comment"];

/// Members that are the same when they are absent as when they are empty.
const MAY_BE_EMPTY: [&str; 4] = ["properties", "args", "$defs", "patternProperties"];

/// The request as it can be imported: unchanged, where nothing is to be left out.
///
/// # Errors
/// 400 that names the member which cannot be imported.
pub fn request(body: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    let mut request: Value = serde_json::from_slice(body)
        .map_err(|error| Error::bad_request(format!("The request is not JSON: {error}")).with_provider(ID))?;
    let is_changed = clean(&mut request, 0, "request")?;
    Ok(if is_changed { Cow::Owned(request.to_string().into_bytes()) } else { Cow::Borrowed(body) })
}

/// Leaves out what says nothing. Returns whether there was any.
fn clean(value: &mut Value, depth: usize, path: &str) -> Result<bool, Error> {
    match value {
        Value::Object(object) => {
            if depth == MAX_DEPTH {
                let message = format!(
                    "{path} is nested deeper than the {MAX_DEPTH} levels that batches on vertex-ai take."
                );
                return Err(refused(&message));
            }
            let before = object.len();
            object.retain(|name, value| {
                let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
                !(COMMENTS.contains(&name.as_str()) || (is_empty && MAY_BE_EMPTY.contains(&name.as_str())))
            });
            let mut is_changed = object.len() < before;
            for (name, value) in object.iter_mut() {
                let path = format!("{path}.{name}");
                if value.as_object().is_some_and(serde_json::Map::is_empty) {
                    return Err(refused(&format!(
                        "{path} is empty: batches on vertex-ai take no empty object there."
                    )));
                }
                if !is_column(name) {
                    return Err(refused(&format!(
                        "{path} cannot stand in a batch on vertex-ai: names of members are letters, digits, '_' and '-'."
                    )));
                }
                is_changed |= clean(value, depth + 1, &path)?;
            }
            Ok(is_changed)
        }
        Value::Array(items) => {
            let mut is_changed = false;
            for item in items {
                is_changed |= clean(item, depth, path)?;
            }
            Ok(is_changed)
        }
        _ => Ok(false),
    }
}

fn is_column(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 300
        && name.chars().all(|char| char.is_alphanumeric() || "_-".contains(char))
}

fn refused(message: &str) -> Error {
    Error::invalid_request("body", message).with_provider(ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(body: &str) -> String {
        String::from_utf8(request(body.as_bytes()).unwrap().into_owned()).unwrap()
    }

    #[test]
    fn members_without_meaning_are_left_out() {
        let plain = r#"{"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}"#;
        assert_eq!(imported(plain), plain, "in its own bytes");
        let tool = r#"{"tools":[{"functionDeclarations":[{"name":"now","parameters":{"$schema":"x","type":"object","properties":{}}}]}]}"#;
        let wanted =
            r#"{"tools":[{"functionDeclarations":[{"name":"now","parameters":{"type":"object"}}]}]}"#;
        assert_eq!(imported(tool), wanted);
        let call = r#"{"contents":[{"parts":[{"functionCall":{"args":{},"name":"now"}}]}]}"#;
        assert_eq!(imported(call), r#"{"contents":[{"parts":[{"functionCall":{"name":"now"}}]}]}"#);
    }

    #[test]
    fn what_fails_a_job_refuses_its_line() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(16), "}".repeat(16));
        let cases = [
            (r#"{"tools":[{"googleSearch":{}}]}"#, "request.tools.googleSearch is empty"),
            (r##"{"schema":{"$ref":"#/$defs/a"}}"##, "request.schema.$ref cannot stand"),
            (r#"{"properties":{"first name":{"type":"string"}}}"#, "request.properties.first name cannot"),
            (deep.as_str(), "nested deeper than the 15 levels"),
        ];
        for (body, why) in cases {
            let error = request(body.as_bytes()).unwrap_err();
            assert_eq!(error.status(), 400);
            assert!(error.message.contains(why), "{}", error.message);
        }
        request(format!("{}1{}", r#"{"a":"#.repeat(15), "}".repeat(15)).as_bytes()).unwrap();
    }
}
