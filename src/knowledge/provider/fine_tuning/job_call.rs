//! What a client's call says besides its body: which job, and which page of a list.

use crate::provider::spec::{encode_segment, has_dot_segment};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use url::form_urlencoded;
use words::api::operation::Operation;
use words::error::Error;

/// One call of a fine-tuning operation.
#[derive(Debug)]
pub struct TuningCall<'a> {
    pub operation: Operation,
    /// The job's id as the client has it, decoded; empty where the call names none.
    pub id: Cow<'a, str>,
    /// The last item of the page before.
    pub after: Option<String>,
    pub limit: Option<usize>,
}

impl<'a> TuningCall<'a> {
    /// `path`: relative to the version segment, still encoded; `query`: without the `?`.
    ///
    /// # Errors
    /// 400 for a `limit` that is no number of items, and for an id that would leave its path.
    pub fn new(operation: Operation, path: &'a str, query: Option<&str>) -> Result<Self, Error> {
        let id = path.strip_prefix("fine_tuning/jobs/").and_then(|rest| rest.split('/').next());
        let id = percent_decode_str(id.unwrap_or_default()).decode_utf8_lossy();
        if has_dot_segment(&id) {
            return Err(Error::bad_request("The id of a job must not contain '.' or '..' as a segment."));
        }
        let mut after = None;
        let mut limit = None;
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match name.as_ref() {
                "after" if !value.is_empty() => after = Some(value.into_owned()),
                "limit" => {
                    let number = value.parse().ok().filter(|number| (1..=1000).contains(number));
                    limit = Some(number.ok_or_else(|| {
                        Error::invalid_request("limit", "limit must be an integer from 1 to 1000.")
                    })?);
                }
                _ => {}
            }
        }
        Ok(Self { operation, id, after, limit })
    }

    /// The id as one segment of a path.
    pub fn segment(&self) -> Cow<'_, str> {
        encode_segment(&self.id)
    }
}
