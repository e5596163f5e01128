//! Reads a whole response of a common kind from colon to colon instead of byte by byte.
//!
//! Only where that is unambiguous: each wanted name occurs at most once. In JSON, a name in quotes with a colon behind
//! it is always the name of a member, because quotes inside a string are escaped. All other responses are left to the
//! full scan.
//!
//! ```text
//! "model":"m"               a wanted name: the value is "m"
//! "content":"\"usage\":{}"  not wanted; what precedes the second colon is an escaped quote
//! "usage":{"a":1}}          a wanted name: the value begins here
//! "error":                  wherever it is: left to the full scan
//! ```

/// The longest response read this way: longer ones arrive in several chunks anyway.
const MAX_BYTES: usize = 64 << 10;

/// The wanted values as JSON text; `usage` begins with the value and extends to the end of the response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommonFields<'a> {
    pub usage: Option<&'a [u8]>,
    pub id: Option<&'a [u8]>,
    pub model: Option<&'a [u8]>,
    pub finish: Option<&'a [u8]>,
    pub tier: Option<&'a [u8]>,
}

/// Reads a whole response of chat, completions or embeddings. `None` if this is not enough.
pub(super) fn find(response: &[u8]) -> Option<CommonFields<'_>> {
    let text = response.trim_ascii();
    if text.len() > MAX_BYTES || text.first() != Some(&b'{') || text.last() != Some(&b'}') {
        return None;
    }
    let mut usage = None;
    let mut model = None;
    let mut finish = None;
    let mut tier = None;
    let mut id = None;
    let mut ids = 0;
    let mut is_id_first = false;
    let mut is_first = true;
    // There are few colons: a search for one name would cost as much as all of these steps.
    for colon in memchr::memchr_iter(b':', text) {
        let name = name_before(text, colon);
        let is_outermost = std::mem::take(&mut is_first);
        let slot = match name {
            Some(b"usage") => &mut usage,
            Some(b"model") => &mut model,
            Some(b"finish_reason") => &mut finish,
            Some(b"service_tier") => &mut tier,
            // Errors are rare and have many shapes.
            Some(b"error") => return None,
            Some(b"id") => {
                ids += 1;
                if ids > 1 {
                    continue;
                }
                is_id_first = is_outermost;
                &mut id
            }
            _ => continue,
        };
        if slot.is_some() {
            return None;
        }
        *slot = Some(text.get(colon + 1..)?.trim_ascii_start());
    }
    // Calls of tools have ids as well, also where the response has none. Its own is most often its first member.
    if ids > 0 && !is_id_first {
        return None;
    }
    Some(CommonFields {
        usage: object_start(usage.unwrap_or_default())?,
        id: plain_string(id.unwrap_or_default())?,
        model: plain_string(model.unwrap_or_default())?,
        finish: plain_string(finish.unwrap_or_default())?,
        tier: plain_string(tier.unwrap_or_default())?,
    })
}

/// The name in quotes that ends before this colon, if it is one of the wanted ones.
fn name_before(text: &[u8], colon: usize) -> Option<&'static [u8]> {
    let before = text.get(..colon)?.trim_ascii_end().strip_suffix(b"\"")?;
    let name: &[u8] = match before.last()? {
        b'd' => b"id",
        b'e' => b"usage",
        b'l' => b"model",
        b'n' => b"finish_reason",
        b'r' if before.ends_with(b"_tier") => b"service_tier",
        b'r' => b"error",
        _ => return None,
    };
    let opened = before.strip_suffix(name)?.strip_suffix(b"\"")?;
    // A quote behind a backslash is inside a string.
    (opened.last() != Some(&b'\\')).then_some(name)
}

/// A string without escapes, quotes included; nothing for `null`.
fn plain_string(value: &[u8]) -> Option<Option<&[u8]>> {
    match value.first() {
        None => Some(None),
        Some(b'"') => {
            let end = memchr::memchr2(b'"', b'\\', value.get(1..)?)?;
            (value.get(end + 1) == Some(&b'"')).then(|| value.get(..end + 2))
        }
        Some(_) => value.starts_with(b"null").then_some(None),
    }
}

/// An object and what follows it: the reader of the object finds its end. Nothing for `null`.
fn object_start(value: &[u8]) -> Option<Option<&[u8]>> {
    if value.first() != Some(&b'{') {
        return (value.is_empty() || value.starts_with(b"null")).then_some(None);
    }
    Some(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_responses_are_read_and_doubtful_ones_are_left() {
        let response =
            br#" {"model": "m","choices":[{"message":{"content":"\"usage\":{}"},"finish_reason":"stop"}],
            "service_tier":"default","usage" : {"a":1,"b":{"c":2}}} "#;
        let fields = find(response).unwrap();
        assert_eq!(fields.usage, Some(&br#"{"a":1,"b":{"c":2}}}"#[..]));
        assert_eq!(fields.model, Some(&b"\"m\""[..]));
        assert_eq!(fields.finish, Some(&b"\"stop\""[..]));
        assert_eq!(fields.tier, Some(&b"\"default\""[..]));
        let none = CommonFields { usage: None, id: None, model: None, finish: None, tier: None };
        assert_eq!(find(br#"{"object":"model","a\"model":"x","b:":["error"]}"#).as_ref(), Some(&none));
        assert_eq!(find(br#"{"usage":null,"data":[]}"#), Some(none));
        for doubtful in [
            &br#"{"error":{"message":"no"}}"#[..],
            br#"{"choices":[{"finish_reason":"stop"},{"finish_reason":"length"}]}"#,
            br#"{"x":{"usage":{"a":1}},"usage":{"a":2}}"#,
            br#"{"model":"a\"b"}"#,
            br#"{"object":"chat.completion","choices":[{"message":{"tool_calls":[{"id":"call_1"}]}}]}"#,
            br#"{"a\"finish_reason":"stop","finish_reason":1}"#,
            br#"{"model":1}"#,
            b"[1]",
            b"{\"model\":\"m\"",
            b"",
        ] {
            assert_eq!(find(doubtful), None, "{}", String::from_utf8_lossy(doubtful));
        }
    }
}
