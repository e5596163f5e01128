//! The ids of earlier items that a request refers to instead of repeating the items.
//!
//! Not what becomes of a reference (`input`).

use crate::api::body::Body;
use crate::json::JsonStr;
use serde::Deserialize;

/// The most references of one request.
const MAX_REFERENCES: usize = 4096;

/// The ids in `input` of a create request, in order; most requests have none, and are not read.
pub fn references(body: &Body) -> Vec<String> {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<JsonStr<'a>>,
        #[serde(borrow)]
        id: Option<JsonStr<'a>>,
    }
    let Some(input) = body.value("input") else { return Vec::new() };
    if memchr::memmem::find(input, b"item_reference").is_none() {
        return Vec::new();
    }
    let items: Vec<Item<'_>> = serde_json::from_slice(input).unwrap_or_default();
    let is_reference = |item: &Item<'_>| item.kind.as_deref() == Some("item_reference");
    let ids = items.into_iter().filter(is_reference).filter_map(|item| Some(item.id?.0.into_owned()));
    ids.take(MAX_REFERENCES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_in_the_input() {
        let ids = |text: &'static str| references(&Body::parse(text.as_bytes().into()).unwrap());
        assert_eq!(ids(r#"{"input":"item_reference"}"#), [""; 0]);
        assert_eq!(ids(r#"{"model":"item_reference"}"#), [""; 0]);
        assert_eq!(
            ids(
                r#"{"input":[{"role":"user","content":"a"},{"type":"item_reference","id":"rs_1"},{"id":"x","type":"item_reference"},{"type":"item_reference"},{"type":"function_call","id":"fc"}]}"#
            ),
            ["rs_1", "x"]
        );
    }
}
