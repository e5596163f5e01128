//! How values of parameters are written: the styles of OpenAPI (Parameter Object, "Style Values").

use super::path::ESCAPED;
use percent_encoding::utf8_percent_encode;
use serde_json::Value;

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header,
}

/// How a list or an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// With commas: in paths and headers.
    Simple,
    /// `a=1&a=2`, or `a=1,2` where it is not exploded.
    Form,
    Spaces,
    Pipes,
    /// `a[b]=1`.
    Deep,
    /// As JSON text.
    Json,
}

impl Style {
    /// # Errors
    /// The name of a style that is not supported there.
    pub fn parse(name: Option<&str>, place: Place) -> Result<Self, String> {
        match (name, place) {
            (None | Some("simple"), Place::Path | Place::Header) => Ok(Self::Simple),
            (None | Some("form"), Place::Query) => Ok(Self::Form),
            (Some("spaceDelimited"), Place::Query) => Ok(Self::Spaces),
            (Some("pipeDelimited"), Place::Query) => Ok(Self::Pipes),
            (Some("deepObject"), Place::Query) => Ok(Self::Deep),
            (Some(other), _) => Err(other.to_owned()),
        }
    }
}

/// A value in a path or a header, not escaped. `explodes`: members of objects are `a=1`.
pub(super) fn simple(value: &Value, style: Style, explodes: bool) -> String {
    match value {
        Value::Array(items) if style != Style::Json => items.iter().map(scalar).collect::<Vec<_>>().join(","),
        Value::Object(members) if style != Style::Json => {
            let between = if explodes { "=" } else { "," };
            let member = |(name, value): (&String, &Value)| format!("{name}{between}{}", scalar(value));
            members.iter().map(member).collect::<Vec<_>>().join(",")
        }
        _ if style == Style::Json => value.to_string(),
        value => scalar(value),
    }
}

/// The pairs of a query that a value is, escaped.
pub(super) fn pairs(name: &str, value: &Value, style: Style, explodes: bool) -> Vec<(String, String)> {
    let between = match style {
        Style::Spaces => "%20",
        Style::Pipes => "%7C",
        _ => ",",
    };
    let joined = |texts: Vec<String>| vec![(escaped(name), texts.join(between))];
    match (value, style) {
        (_, Style::Json) => vec![(escaped(name), escaped(&value.to_string()))],
        (Value::Object(members), Style::Deep) => {
            let pair = |(member, value): (&String, &Value)| {
                (escaped(&format!("{name}[{member}]")), escaped(&scalar(value)))
            };
            members.iter().map(pair).collect()
        }
        (Value::Array(items), _) if explodes || style == Style::Deep => {
            items.iter().map(|item| (escaped(name), escaped(&scalar(item)))).collect()
        }
        (Value::Array(items), _) if items.is_empty() => Vec::new(),
        (Value::Array(items), _) => joined(items.iter().map(|item| escaped(&scalar(item))).collect()),
        (Value::Object(members), _) if explodes => {
            members.iter().map(|(name, value)| (escaped(name), escaped(&scalar(value)))).collect()
        }
        (Value::Object(members), _) => joined(
            members.iter().flat_map(|(name, value)| [escaped(name), escaped(&scalar(value))]).collect(),
        ),
        (value, _) => vec![(escaped(name), escaped(&scalar(value)))],
    }
}

/// A form of the members of an object (`application/x-www-form-urlencoded`). Lists are repeated, objects are JSON text.
pub(super) fn form(value: &Value) -> String {
    let members = value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    joined_pairs(members.flat_map(|(name, value)| match value {
        Value::Array(_) => pairs(name, value, Style::Form, true),
        _ => vec![(escaped(name), escaped(&scalar(value)))],
    }))
}

/// `a=1&b=2`.
pub(super) fn joined_pairs(pairs: impl Iterator<Item = (String, String)>) -> String {
    pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// One value as text; what has members is JSON text.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_by_their_style() {
        let list = json!(["a b", 1, true]);
        let object = json!({"x": 1, "y": "&"});
        for (value, style, explodes, wanted) in [
            (&list, Style::Form, true, "p=a%20b&p=1&p=true"),
            (&list, Style::Form, false, "p=a%20b,1,true"),
            (&list, Style::Spaces, false, "p=a%20b%201%20true"),
            (&list, Style::Pipes, false, "p=a%20b%7C1%7Ctrue"),
            (&object, Style::Form, true, "x=1&y=%26"),
            (&object, Style::Form, false, "p=x,1,y,%26"),
            (&object, Style::Deep, true, "p%5Bx%5D=1&p%5By%5D=%26"),
            (&object, Style::Json, true, "p=%7B%22x%22%3A1%2C%22y%22%3A%22%26%22%7D"),
            (&json!("a=b&c"), Style::Form, true, "p=a%3Db%26c"),
            (&json!([]), Style::Form, true, ""),
            (&json!([]), Style::Form, false, ""),
            (&json!(1.5), Style::Form, true, "p=1.5"),
        ] {
            let text = joined_pairs(pairs("p", value, style, explodes).into_iter());
            assert_eq!(text, wanted, "{value} {style:?} {explodes}");
        }
        assert_eq!(simple(&list, Style::Simple, false), "a b,1,true");
        assert_eq!(simple(&object, Style::Simple, false), "x,1,y,&");
        assert_eq!(simple(&object, Style::Simple, true), "x=1,y=&");
        assert_eq!(
            form(&json!({"a": [1, 2], "b": "x y", "c": null, "d": {"e": 1}})),
            "a=1&a=2&b=x%20y&d=%7B%22e%22%3A1%7D"
        );
    }

    #[test]
    fn a_style_that_is_not_supported_is_named() {
        assert_eq!(Style::parse(Some("matrix"), Place::Path), Err("matrix".to_owned()));
        assert_eq!(Style::parse(Some("form"), Place::Header), Err("form".to_owned()));
        assert_eq!(Style::parse(Some("deepObject"), Place::Query), Ok(Style::Deep));
    }
}
