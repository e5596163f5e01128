//! Earlier items that a request refers to instead of repeating them: those that the gateway keeps take the place of their references.
//!
//! So limits, guardrails and the cache have what a translation sends. Not what becomes of a reference to any other item (`input`).

use crate::api::body::{Body, Edit};
use crate::error::Error;
use crate::json::splice::Object;
use crate::json::{JsonStr, values};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// The most bytes of earlier items that one request may refer to: a reference is short, and may come many times.
const MAX_BYTES: usize = 16 << 20;
/// The most JSON values in them.
const MAX_VALUES: usize = 20_000;

/// The members of an item that make it a reference.
#[derive(Deserialize)]
struct Reference<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
}

/// The body with the items that `kept` finds in place of their references. `None`: it refers to none of them. Most requests have no
/// reference, and are not read.
///
/// # Errors
/// 400 that names the reference with which they are too many.
pub fn with_kept_items(body: &Body, kept: impl Fn(&str) -> Option<Arc<str>>) -> Result<Option<Bytes>, Error> {
    let Some(continued) = after_rounds(body, &kept) else { return filled(body, &kept) };
    let body = Body::parse(continued.clone()).map_err(|why| Error::bad_request(why.to_string()))?;
    Ok(Some(filled(&body, &kept)?.unwrap_or(continued)))
}

/// The body with kept items in place of their references, if it has any.
fn filled(body: &Body, kept: &impl Fn(&str) -> Option<Arc<str>>) -> Result<Option<Bytes>, Error> {
    let input = body.value("input").filter(|input| memchr::memmem::find(input, b"item_reference").is_some());
    let Some(input) = input else { return Ok(None) };
    let items: Vec<&RawValue> = serde_json::from_slice(input).unwrap_or_default();
    let mut list = String::from("[");
    let mut bytes = 0;
    let mut found = 0;
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            list.push(',');
        }
        let Some(json) = referred(item).and_then(|id| kept(&id)) else {
            list.push_str(item.get());
            continue;
        };
        bytes += json.len();
        found += values::count(json.as_bytes(), MAX_VALUES);
        if bytes > MAX_BYTES || found > MAX_VALUES {
            let at = format!("input[{index}]");
            let message = format!(
                "The items that {at} and others refer to have over {MAX_BYTES} bytes or {MAX_VALUES} values."
            );
            return Err(Error::invalid_request(at, message));
        }
        list.push_str(&json);
    }
    list.push(']');
    Ok((bytes > 0).then(|| body.edit(&[Edit::Set("input", Cow::Owned(list))])))
}

/// The body where the response that it goes on from was made in rounds (`tool_rounds`): the provider goes on from the last one, and gets what
/// came after it.
fn after_rounds(body: &Body, kept: &impl Fn(&str) -> Option<Arc<str>>) -> Option<Bytes> {
    let kept = kept(&body.text("previous_response_id")?)?;
    let kept = Object::read(&kept)?;
    let last = kept.json_of("previous_response_id")?;
    let unsent = kept.json_of("items")?.strip_suffix(']')?;
    let input = body.raw("input").unwrap_or("[]").trim();
    let items = match input.strip_prefix('[') {
        Some(items) => items.to_owned(),
        None => format!("{{\"type\":\"message\",\"role\":\"user\",\"content\":{input}}}]"),
    };
    let is_empty = unsent == "[" || items.trim_start().starts_with(']');
    let comma = if is_empty { "" } else { "," };
    let mut edits = vec![Edit::Set("previous_response_id", Cow::Borrowed(last))];
    if unsent != "[" {
        edits.push(Edit::Set("input", Cow::Owned(format!("{unsent}{comma}{items}"))));
    }
    Some(body.edit(&edits))
}

/// The id of the item that an item refers to, if it is a reference.
fn referred(item: &RawValue) -> Option<Cow<'_, str>> {
    let reference: Reference<'_> = serde_json::from_str(item.get()).ok()?;
    reference.kind.filter(|kind| kind.0 == "item_reference")?;
    Some(reference.id?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled_text(text: &'static str) -> Option<String> {
        let body = Body::parse(text.as_bytes().into()).unwrap();
        let kept = |id: &str| id.starts_with("rs_").then(|| format!("{{\"kept\":{id:?}}}").into());
        let found = with_kept_items(&body, kept).unwrap();
        found.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn kept_items_stand_in_the_place_of_their_references() {
        for untouched in [
            r#"{"input":"item_reference"}"#,
            r#"{"model":"item_reference"}"#,
            r#"{"input":[{"type":"item_reference","id":"other"},{"type":"function_call","id":"rs_1"}]}"#,
        ] {
            assert_eq!(filled_text(untouched), None, "{untouched}");
        }
        assert_eq!(
            filled_text(
                r#"{"input":[{"role":"user","content":"a"},{"type":"item_reference","id":"rs_1"},{"id":"x","type":"item_reference"},{"id":"rs_1","type":"item_reference"}],"n":1}"#
            )
            .as_deref(),
            Some(
                r#"{"input":[{"role":"user","content":"a"},{"kept":"rs_1"},{"id":"x","type":"item_reference"},{"kept":"rs_1"}],"n":1}"#
            )
        );
    }

    #[test]
    fn a_response_of_rounds_goes_on_from_its_last() {
        let of = |input: &str, kept: &str| {
            let body = format!("{{\"previous_response_id\":\"resp_1\",\"input\":{input}}}");
            let body = Body::parse(body.into()).unwrap();
            let kept: Arc<str> = kept.into();
            let found = with_kept_items(&body, |id| (id == "resp_1").then(|| Arc::clone(&kept))).unwrap();
            found.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
        };
        let last = r#"{"previous_response_id":"resp_3","items":[]}"#;
        let wanted = r#"{"previous_response_id":"resp_3","input":"a"}"#;
        assert_eq!(of("\"a\"", last).as_deref(), Some(wanted));
        let unsent = r#"{"previous_response_id":"resp_3","items":[{"call_id":"c"}]}"#;
        let wanted = r#"{"previous_response_id":"resp_3","input":[{"call_id":"c"},{"x":1}]}"#;
        assert_eq!(of("[{\"x\":1}]", unsent).as_deref(), Some(wanted));
        assert!(of("\"a\"", unsent).unwrap().contains(r#"[{"call_id":"c"},{"type":"message""#));
        assert!(of("[]", unsent).unwrap().contains(r#""input":[{"call_id":"c"}]"#));
        assert_eq!(of("\"a\"", r#"{"id":"x"}"#), None);
    }

    #[test]
    fn what_one_request_can_refer_to_is_bounded() {
        for (kept, most) in
            [(format!("\"{}\"", "x".repeat(1 << 20)), 15), (format!("[{}0]", "0,".repeat(4998)), 4)]
        {
            let kept: Arc<str> = kept.into();
            let refers = |count: usize| {
                let list = vec![r#"{"type":"item_reference","id":"a"}"#; count].join(",");
                let body = Body::parse(format!("{{\"input\":[{list}]}}").into()).unwrap();
                with_kept_items(&body, |_| Some(Arc::clone(&kept)))
            };
            assert!(refers(most).unwrap().is_some());
            let error = refers(most + 1).unwrap_err();
            assert_eq!(error.param, Some(format!("input[{most}]")));
        }
    }
}
