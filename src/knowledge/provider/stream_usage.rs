//! Requests the usage of a stream (`stream_options.include_usage`) where the client did not: what was used must be known
//! to charge it.
//!
//! Only the request. The event that the provider adds for it is taken out of the response by the engine.

use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::json::splice::{Object, Splice};

const NAME: &str = "stream_options";
const WANTED: &str = r#"{"include_usage":true}"#;

/// Adds the edit that requests usage to the other edits of a body. False if the client requests it itself, or the provider's
/// edits take the member out.
pub(super) fn request(body: &Body, edits: &mut Vec<Edit<'static>>) -> bool {
    let at = edits.iter().position(|edit| matches!(edit, Edit::Set(NAME, _) | Edit::Remove(NAME)));
    let options = match at.and_then(|at| edits.get(at)) {
        Some(Edit::Remove(_)) => return false,
        Some(Edit::Set(_, value)) => Some(&**value),
        None => body.raw(NAME),
    };
    let Some(wanted) = with_usage(options) else { return false };
    let edit = Edit::Set(NAME, wanted);
    match at.and_then(|at| edits.get_mut(at)) {
        Some(before) => *before = edit,
        None => edits.push(edit),
    }
    true
}

/// The options with usage; `None` if they have it.
fn with_usage(options: Option<&str>) -> Option<Cow<'static, str>> {
    let Some(object) = options.and_then(Object::read) else { return Some(Cow::Borrowed(WANTED)) };
    if object.json_of("include_usage") == Some("true") {
        return None;
    }
    let mut splice = Splice::new(options.unwrap_or_default());
    if object.has("include_usage") {
        splice.replace(&object, "include_usage", "true");
    } else {
        splice.append(&object, "include_usage", "true");
    }
    let changed = splice.finish().and_then(|bytes| String::from_utf8(bytes).ok());
    Some(changed.map_or(Cow::Borrowed(WANTED), Cow::Owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_requested_unless_the_client_does() {
        let cases = [
            (r#"{"stream":true}"#, r#"{"stream":true,"stream_options":{"include_usage":true}}"#, true),
            (r#"{"stream_options":null}"#, r#"{"stream_options":{"include_usage":true}}"#, true),
            (r#"{"stream_options":{}}"#, r#"{"stream_options":{"include_usage":true}}"#, true),
            (
                r#"{"stream_options":{"include_usage":false,"include_obfuscation":false}}"#,
                r#"{"stream_options":{"include_usage":true,"include_obfuscation":false}}"#,
                true,
            ),
            (
                r#"{"stream_options":{"include_obfuscation":false}}"#,
                r#"{"stream_options":{"include_obfuscation":false,"include_usage":true}}"#,
                true,
            ),
            (
                r#"{"stream_options":{"include_usage":true}}"#,
                r#"{"stream_options":{"include_usage":true}}"#,
                false,
            ),
        ];
        for (given, wanted, is_added) in cases {
            let body = Body::parse(given.into()).unwrap();
            let mut edits = Vec::new();
            assert_eq!(request(&body, &mut edits), is_added, "{given}");
            assert_eq!(body.edit(&edits), wanted);
        }
    }

    #[test]
    fn edits_of_the_provider_are_kept() {
        let body = Body::parse(r#"{"stream_options":{"x":1}}"#.into()).unwrap();
        let mut edits = vec![Edit::Set(NAME, Cow::Borrowed(r#"{"include_usage":false}"#))];
        assert!(request(&body, &mut edits));
        assert_eq!(body.edit(&edits), r#"{"stream_options":{"include_usage":true}}"#);
        let mut edits = vec![Edit::Remove(NAME)];
        assert!(!request(&body, &mut edits));
        assert_eq!(body.edit(&edits), "{}");
    }
}
