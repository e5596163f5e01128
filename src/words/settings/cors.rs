//! `cors`: which web pages may call the data port from a browser.
//!
//! Not here: the headers that tell a browser so (`engine::cors`).

use crate::config::members::{Form, MemberTable, form, non_empty, seconds};
use crate::config::read::Cursor;
use crate::json::schema;
use serde_json::json;
use std::time::Duration;

/// The default of `max_age_seconds`: browsers cap it, Chrome at two hours.
const MAX_AGE: Duration = Duration::from_secs(600);

/// `cors`. Without it, no page may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    pub origins: Origins,
    /// How long a browser may remember the answer to a preflight.
    pub max_age: Duration,
}

/// The origins of pages that may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// Those of every page.
    Any,
    /// As browsers write them: lower-case, without a default port.
    Listed(Vec<String>),
}

const ORIGINS: Form<Origins> = form(Origins::read, |doc| {
    json!({
        "type": "array",
        "minItems": 1,
        "items": schema::non_empty("An origin: scheme, host and perhaps a port."),
        "description": doc,
        "examples": [["https://app.example.com"]],
    })
});

impl Cors {
    pub(super) const DOC: &str =
        "Which web pages may call the data port from a browser. Without it, none may.";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let origins = "The origins of pages that may call; '*' alone is all pages.";
        let max_age = "Seconds for which a browser may remember the answer to a preflight.";
        let origins = table.needed("origins", ORIGINS, origins);
        let max_age = table.or("max_age_seconds", seconds(0, 86_400), MAX_AGE, max_age);
        Some(Self { origins: origins?, max_age })
    }
}

impl Origins {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let items = at.list()?;
        if items.is_empty() {
            at.problem(
                "must list at least one origin, such as https://app.example.com, or '*' for all pages",
            );
            return None;
        }
        let texts: Vec<&str> = items.iter().filter_map(non_empty).collect();
        if texts.contains(&"*") {
            if texts.len() > 1 {
                at.problem("'*' means all pages; list it alone");
            }
            return Some(Self::Any);
        }
        Some(Self::Listed(items.iter().filter_map(origin).collect()))
    }

    /// Whether pages of this origin may call.
    pub fn allow(&self, origin: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(origins) => origins.iter().any(|listed| listed.eq_ignore_ascii_case(origin)),
        }
    }
}

/// An origin as a browser writes it in `Origin`.
fn origin(at: &Cursor<'_>) -> Option<String> {
    let text = non_empty(at)?;
    // The origin of pages in a sandbox or from a file.
    if text == "null" {
        return Some(text.to_owned());
    }
    let parsed = url::Url::parse(text).ok();
    let is_bare = |url: &url::Url| {
        let path = url.path();
        url.has_host()
            && (path.is_empty() || path == "/")
            && url.query().is_none()
            && url.fragment().is_none()
    };
    let Some(url) = parsed.filter(|url| is_bare(url) && !text.contains('*')) else {
        at.problem("must be an origin: scheme, host and perhaps a port, such as https://app.example.com");
        return None;
    };
    // Schemes of browser extensions have no origin by the standard; they are compared as written.
    let ascii = url.origin().ascii_serialization();
    Some(if ascii == "null" { text.trim_end_matches('/').to_owned() } else { ascii })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Checks;
    use crate::settings::{SecretSources, Settings};

    fn cors(yaml: &str) -> Result<Option<Cors>, String> {
        let checks = Checks::NONE;
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let settings = Settings::parse(&format!("cors: {yaml}\n"), &sources, &checks);
        settings.map(|settings| settings.cors).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn origins_are_compared_as_browsers_write_them() {
        let yaml = "{origins: ['https://App.Example.com:443/', 'http://localhost:3000', 'chrome-extension://abc', 'null']}";
        let cors = cors(yaml).unwrap().unwrap();
        assert_eq!(cors.max_age, MAX_AGE);
        for origin in ["https://app.example.com", "http://localhost:3000", "chrome-extension://abc", "null"] {
            assert!(cors.origins.allow(origin), "{origin} {cors:?}");
        }
        for origin in [
            "",
            "*",
            "http://app.example.com",
            "https://app.example.com:8443",
            "https://app.example.com.evil.example",
            "https://evil.example",
            "http://localhost",
            "http://localhost:3000/",
        ] {
            assert!(!cors.origins.allow(origin), "{origin}");
        }
    }

    #[test]
    fn all_pages_must_be_named_explicitly() {
        assert_eq!(cors("{origins: ['*'], max_age_seconds: 0}").unwrap().unwrap().origins, Origins::Any);
        for (yaml, problem) in [
            ("{}", "origins"),
            ("{origins: []}", "at least one"),
            ("{origins: ['*', 'https://a.example']}", "alone"),
            ("{origins: ['a.example']}", "must be an origin"),
            ("{origins: ['https://a.example/path']}", "must be an origin"),
            ("{origins: ['https://*.example']}", "must be an origin"),
            ("{origins: ['https://a.example'], max_age_seconds: -1}", "max_age_seconds"),
            ("{origin: ['https://a.example']}", "origin"),
        ] {
            let error = cors(yaml).unwrap_err();
            assert!(error.contains(problem), "{yaml}: {error}");
        }
    }
}
