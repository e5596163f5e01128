//! The path of an operation: a template, and what it becomes with the values of its parameters.
//!
//! No value leaves its segment: one that a server could read as more than a name in one segment is refused, also where it is escaped.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What of a value stands in a URL as it is: the unreserved characters of RFC 3986, 2.3.
pub(super) const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What of a template is escaped: what no path has.
const NO_PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'|');

/// A part of a template.
#[derive(Debug)]
enum Part {
    Fixed(String),
    /// The name of a parameter.
    Parameter(String),
}

/// The template of a path.
#[derive(Debug)]
pub(super) struct PathTemplate {
    parts: Vec<Part>,
}

impl PathTemplate {
    /// # Errors
    /// Why it cannot be called.
    pub fn parse(path: &str) -> Result<Self, String> {
        if !path.starts_with('/') {
            return Err("its path does not begin with a /".to_owned());
        }
        if path.contains(['?', '#']) {
            return Err("its path has a query or a fragment".to_owned());
        }
        let decoded = percent_decode_str(path).decode_utf8_lossy();
        if decoded.split(['/', '\\']).any(is_dots) {
            return Err("its path has a segment of dots".to_owned());
        }
        let mut parts = Vec::new();
        let mut rest = path;
        while let Some((fixed, behind)) = rest.split_once('{') {
            let Some((name, after)) = behind.split_once('}') else {
                return Err("its path has a { without its }".to_owned());
            };
            parts.push(Part::Fixed(utf8_percent_encode(fixed, NO_PATH).to_string()));
            parts.push(Part::Parameter(name.to_owned()));
            rest = after;
        }
        parts.push(Part::Fixed(utf8_percent_encode(rest, NO_PATH).to_string()));
        Ok(Self { parts })
    }

    /// The names of its parameters.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Fixed(_) => None,
            Part::Parameter(name) => Some(name.as_str()),
        })
    }

    /// The path. `value`: of a parameter, not yet escaped.
    ///
    /// # Errors
    /// A value cannot stand in its segment, or there is none.
    pub fn fill(&self, value: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
        let mut path = String::new();
        for part in &self.parts {
            match part {
                Part::Fixed(text) => path.push_str(text),
                Part::Parameter(name) => {
                    let value = value(name)?;
                    check(&value).map_err(|why| format!("The argument {name} {why}."))?;
                    path.extend(utf8_percent_encode(&value, ESCAPED));
                }
            }
        }
        if path.split('/').any(is_dots) {
            return Err("The arguments make a segment of dots of the path.".to_owned());
        }
        Ok(path)
    }
}

/// The segments of a template. `None`: one with a parameter.
#[derive(Debug, Clone)]
pub(super) struct Segments(Vec<Option<Box<str>>>);

impl Segments {
    pub fn of(template: &str) -> Self {
        let text = |segment: &str| -> Box<str> { percent_decode_str(segment).decode_utf8_lossy().into() };
        Self(template.split('/').map(|segment| (!segment.contains('{')).then(|| text(segment))).collect())
    }

    /// Whether values of parameters here may make a path that servers take for that of `other`, which has fewer.
    pub fn hides(&self, other: &Self) -> bool {
        let parameters = |of: &Self| of.0.iter().filter(|segment| segment.is_none()).count();
        let is_one = |(own, other): (&Option<Box<str>>, &Option<Box<str>>)| match (own, other) {
            (Some(own), Some(other)) => own.eq_ignore_ascii_case(other),
            _ => true,
        };
        self.0.len() == other.0.len()
            && parameters(other) < parameters(self)
            && self.0.iter().zip(&other.0).all(is_one)
    }

    /// Whether a path that was filled in is one of these.
    pub fn fit(&self, path: &str) -> bool {
        let is_one = |(segment, text): (&str, &Option<Box<str>>)| match text {
            Some(text) => percent_decode_str(segment).decode_utf8_lossy().eq_ignore_ascii_case(text),
            None => true,
        };
        path.split('/').count() == self.0.len() && path.split('/').zip(&self.0).all(is_one)
    }
}

/// Whether a segment means the one above it, or itself.
fn is_dots(segment: &str) -> bool {
    let name = segment.split(';').next().unwrap_or_default();
    matches!(name, "." | "..")
}

/// # Errors
/// Why a value cannot stand in a segment.
fn check(value: &str) -> Result<(), &'static str> {
    // Some servers undo escapes twice.
    let mut text = std::borrow::Cow::Borrowed(value);
    for _ in 0..3 {
        if text.contains(['/', '\\']) {
            return Err("has a / or a \\, which no argument in a path may have");
        }
        if text.chars().any(char::is_control) {
            return Err("has a control character");
        }
        if is_dots(&text) {
            return Err("is a segment of dots");
        }
        let decoded = percent_decode_str(&text).decode_utf8_lossy().into_owned();
        text = decoded.into();
    }
    if value.is_empty() { Err("is empty") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, value: &str) -> Result<String, String> {
        PathTemplate::parse(template).unwrap().fill(|_| Ok(value.to_owned()))
    }

    #[test]
    fn a_value_stays_in_its_segment() {
        for (value, wanted) in [
            ("a", "/pets/a/toys"),
            ("a b", "/pets/a%20b/toys"),
            ("ä?#&=;", "/pets/%C3%A4%3F%23%26%3D%3B/toys"),
            ("100%", "/pets/100%25/toys"),
            ("...", "/pets/.../toys"),
        ] {
            assert_eq!(filled("/pets/{id}/toys", value).as_deref(), Ok(wanted), "{value}");
        }
        for value in [
            "",
            ".",
            "..",
            "../a",
            "a/b",
            "a\\b",
            "%2e%2e",
            "a%2Fb",
            "a%252Fb",
            "%252e%252e",
            "..;x",
            "a\0",
            "a\r\nb",
            "/",
            "%5C",
        ] {
            assert!(filled("/pets/{id}/toys", value).is_err(), "{value:?}");
        }
        // Together with what stands around it.
        assert!(filled("/pets/.{id}", ".").is_err());
        assert_eq!(filled("/pets/{id}.json", "a").as_deref(), Ok("/pets/a.json"));
    }

    #[test]
    fn a_filled_path_is_found_to_be_that_of_a_more_concrete_template() {
        let own = Segments::of("/pets/{id}/{part}");
        for (other, hides) in [
            ("/pets/admin/{part}", true),
            ("/pets/admin/keys", true),
            ("/pets/{id}/{part}", false),
            ("/pets/{name}/keys", true),
            ("/pets/admin", false),
            ("/cats/admin/keys", false),
        ] {
            assert_eq!(own.hides(&Segments::of(other)), hides, "{other}");
        }
        let admin = Segments::of("/pets/admin/{part}");
        assert!(admin.fit("/pets/admin/x") && admin.fit("/pets/ADMIN/y") && admin.fit("/pets/%61dmin/y"));
        assert!(!admin.fit("/pets/admins/x") && !admin.fit("/pets/admin"));
    }

    #[test]
    fn a_template_that_leaves_its_base_is_none() {
        for path in ["pets", "/a/../b", "/a/%2e%2e/b", "/a?b", "/a#b", "/a/{b", "/./a", "/..;/a"] {
            assert!(PathTemplate::parse(path).is_err(), "{path}");
        }
        let template = PathTemplate::parse("/größe/{a}/{b}").unwrap();
        assert_eq!(template.parameters().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(template.fill(|name| Ok(name.to_owned())).unwrap(), "/gr%C3%B6%C3%9Fe/a/b");
    }
}
