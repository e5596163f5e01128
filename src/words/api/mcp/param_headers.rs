//! Arguments of a tool that its definition wants repeated in headers: `Mcp-Param-NAME`, by `x-mcp-header` in its schema (SEP-2243).

use super::era::{EraProblem, decoded, encoded, single};
use crate::json::Json;
use http::HeaderMap;

/// What a schema must have in it somewhere, so that it is worth reading.
pub const MARK: &str = "x-mcp-header";
/// What the names of those headers begin with.
const PREFIX: &str = "mcp-param-";
/// How deep arguments are looked at.
const MAX_DEPTH: usize = 16;
/// The most headers of one call, and the longest name and value, bytes.
const MAX_HEADERS: usize = 64;
const MAX_NAME: usize = 128;
const MAX_VALUE: usize = 8192;

/// The headers of a call with these arguments, each name in lower case with its value. What fits in no header is left out.
pub fn param_headers(input_schema: &Json<'_>, arguments: &Json<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    add(input_schema, arguments, MAX_DEPTH, &mut found);
    found
}

fn add(schema: &Json<'_>, arguments: &Json<'_>, depth: usize, found: &mut Vec<(String, String)>) {
    let member = |json: &Json<'_>, wanted: &str| {
        let members = Json::members(json.get())?;
        members.into_iter().find(|(name, _)| name == wanted).map(|(_, json)| json.get().to_owned())
    };
    let Some(properties) = member(schema, "properties") else { return };
    for (name, property) in Json::members(&properties).unwrap_or_default() {
        let Some(argument) = member(arguments, &name) else { continue };
        let Some(argument) = Json::parse(&argument) else { continue };
        let header =
            member(&property, MARK).and_then(|header| Json::parse(&header)?.text().map(String::from));
        if let Some(header) = header.filter(|header| is_name(header))
            && let Some(value) = value(&argument)
            && found.len() < MAX_HEADERS
        {
            found.push((format!("{PREFIX}{}", header.to_ascii_lowercase()), value));
        }
        if argument.is_object() && depth > 0 {
            add(&property, &argument, depth - 1, found);
        }
    }
}

/// Whether the headers of a client's call repeat its arguments. `wanted`: what [`param_headers`] makes of them.
///
/// # Errors
/// A header is missing, is there twice, or says something else.
pub fn check_params(headers: &HeaderMap, wanted: &[(String, String)]) -> Result<(), EraProblem> {
    for (name, value) in wanted {
        let header = single(headers, name)?;
        if !header.is_some_and(|header| is_same(&header, value)) {
            return Err(EraProblem::Mismatch(format!("{name} is not the argument that it repeats")));
        }
    }
    Ok(())
}

/// Whether two values of headers mean the same: `7` and `7.0` do.
fn is_same(header: &str, value: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    match (decoded(header), decoded(value)) {
        (Some(one), Some(other)) if one == other => true,
        (Some(one), Some(other)) => number(&one).is_some_and(|one| number(&other) == Some(one)),
        _ => false,
    }
}

/// Whether it is a token of HTTP (RFC 9110, 5.6.2).
fn is_name(header: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=MAX_NAME).contains(&header.len()) && header.bytes().all(is_token)
}

/// A text, a number or a flag as a header has it.
fn value(argument: &Json<'_>) -> Option<String> {
    let value = match argument.text() {
        Some(text) => encoded(&text),
        None => {
            Some(argument.get()).filter(|json| !json.starts_with(['{', '[']) && *json != "null")?.to_owned()
        }
    };
    (value.len() <= MAX_VALUE).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_arguments_are_repeated() {
        let schema = r#"{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},"limit":{"type":"integer","x-mcp-header":"Limit"},
            "dry":{"type":"boolean","x-mcp-header":"Dry"},"other":{"type":"string"},"bad":{"x-mcp-header":"a b"},
            "in":{"type":"object","properties":{"zone":{"x-mcp-header":"Zone"}}},"list":{"x-mcp-header":"List"}}}"#;
        let arguments =
            r#"{"region":"größe","limit":7,"dry":true,"other":"x","bad":"y","in":{"zone":"a"},"list":[1]}"#;
        let found = param_headers(&Json::parse(schema).unwrap(), &Json::parse(arguments).unwrap());
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(
            found,
            [
                ("mcp-param-region", "=?base64?Z3LDtsOfZQ==?="),
                ("mcp-param-limit", "7"),
                ("mcp-param-dry", "true"),
                ("mcp-param-zone", "a"),
            ]
        );
        let none = param_headers(&Json::parse(schema).unwrap(), &Json::parse(r#"{"region":null}"#).unwrap());
        assert!(none.is_empty(), "{none:?}");
    }

    #[test]
    fn texts_that_look_like_json_are_texts() {
        let schema = r#"{"properties":{"v":{"x-mcp-header":"V.1"}}}"#;
        let of = |arguments: &str| {
            let found = param_headers(&Json::parse(schema).unwrap(), &Json::parse(arguments).unwrap());
            found.into_iter().next()
        };
        for text in ["[urgent] x", "{a", "null"] {
            let found = of(&format!("{{\"v\":\"{text}\"}}"));
            assert_eq!(found, Some(("mcp-param-v.1".to_owned(), text.to_owned())));
        }
        assert_eq!(of(r#"{"v":null}"#), None);
        assert_eq!(of(r#"{"v":[1]}"#), None);
    }

    #[test]
    fn a_client_repeats_its_arguments() {
        let wanted =
            [("mcp-param-v".to_owned(), "us".to_owned()), ("mcp-param-n".to_owned(), "7".to_owned())];
        let check = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, value.parse().unwrap());
            }
            check_params(&map, &wanted).is_ok()
        };
        assert!(check(&[("mcp-param-v", "us"), ("mcp-param-n", "7")]));
        assert!(check(&[("mcp-param-v", "=?base64?dXM=?="), ("mcp-param-n", "7.0")]));
        assert!(!check(&[("mcp-param-v", "us")]));
        assert!(!check(&[("mcp-param-v", "eu"), ("mcp-param-n", "7")]));
        assert!(!check(&[("mcp-param-v", "=?base64?dX!!M=?="), ("mcp-param-n", "7")]));
        assert!(!check(&[("mcp-param-v", "us"), ("mcp-param-v", "us"), ("mcp-param-n", "7")]));
    }
}
