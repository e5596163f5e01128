//! Reads the JSON body of a control request and reports all its problems at once, each with its path.
//!
//! Uses the same cursor as the config object and the settings: unknown keys, duplicate keys and wrong types are
//! problems. Not for bodies whose exact bytes matter; `explain` reads those itself.

use crate::config::node::{Kind, Node};
use crate::config::read::{Cursor, Problems};
use crate::error::Error;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};

/// A type that is read from a request body.
pub(super) trait Body: Sized {
    /// Reads the value at the cursor. Problems are added to the cursor's list.
    fn read(at: &Cursor<'_>) -> Option<Self>;
}

/// Extracts a [`Body`]. An empty body counts as an empty object.
#[derive(Debug)]
pub(super) struct Json<T>(pub T);

impl<T: Body, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|_| Error::bad_request("The request body could not be read. Send it again."))?;
        parse(&bytes).map(Json)
    }
}

/// # Errors
/// 400 with all problems.
fn parse<T: Body>(text: &[u8]) -> Result<T, Error> {
    let node = match text.trim_ascii() {
        b"" => Node::from(Kind::Map(Vec::new())),
        text => Node::from_json(text).map_err(|error| {
            Error::bad_request(format!("The request body must be a JSON object: {error}."))
        })?,
    };
    let problems = Problems::default();
    let value = T::read(&Cursor::root(&node, &problems));
    match value {
        Some(value) if problems.is_empty() => Ok(value),
        _ => Err(Error::invalid_body(problems.into_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Named(Option<String>, Option<bool>);

    impl Body for Named {
        fn read(at: &Cursor<'_>) -> Option<Self> {
            let mut fields = at.fields()?;
            let named = Self(fields.text(&["name"]), fields.flag(&["on"]));
            fields.reject_unknown(&["name", "on"]);
            Some(named)
        }
    }

    #[test]
    fn every_problem_is_reported_with_its_path() {
        let error = parse::<Named>(br#"{"name": 7, "on": "yes", "nmae": ""}"#).unwrap_err();
        let paths: Vec<&str> = error.problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!((error.status(), paths), (400, vec!["name", "on", "nmae"]), "{error}");
        assert_eq!(error.param.as_deref(), Some("name"));
    }

    #[test]
    fn an_empty_body_is_an_empty_object() {
        assert_eq!(parse::<Named>(b" \n").unwrap(), Named(None, None));
        assert_eq!(parse::<Named>(br#"{"name": "a"}"#).unwrap(), Named(Some("a".to_owned()), None));
    }

    #[test]
    fn a_body_of_another_shape_is_refused() {
        for text in [&b"{"[..], b"[]", b"7", b"null x"] {
            assert_eq!(parse::<Named>(text).unwrap_err().status(), 400);
        }
    }
}
