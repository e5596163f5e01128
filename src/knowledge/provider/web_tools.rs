//! What a client restricts its web search or its fetching of pages to, where that is replaced by a tool of the provider's
//! own that has no such members.
//!
//! A limit of the domains is refused: without it the model would read what it must not. Everything else that is left out
//! is reported.

use super::translation_notes::TranslationNotes;
use words::error::Error;
use words::json::Json;

/// Members of such tools that set nothing, or that are judged elsewhere.
const PLAIN: [&str; 4] = ["type", "name", "cache_control", "strict"];

/// Judges the members of a client's tool, or of `web_search_options`, but for those in `kept`.
///
/// # Errors
/// 400 that names a limit of the domains.
pub(super) fn drop_settings(
    settings: &Json<'_>,
    at: &str,
    kept: &[&str],
    provider: &str,
    notes: &mut TranslationNotes,
) -> Result<(), Error> {
    for (name, value) in Json::members(settings.get()).unwrap_or_default() {
        if name != "filters" || kept.contains(&"filters") {
            drop_setting(&name, &value, at, kept, provider, notes)?;
            continue;
        }
        let at = format!("{at}.filters");
        for (name, value) in Json::members(value.get()).unwrap_or_default() {
            drop_setting(&name, &value, &at, &[], provider, notes)?;
        }
    }
    Ok(())
}

fn drop_setting(
    name: &str,
    value: &Json<'_>,
    at: &str,
    kept: &[&str],
    provider: &str,
    notes: &mut TranslationNotes,
) -> Result<(), Error> {
    if PLAIN.contains(&name) || kept.contains(&name) || is_default(name, value) {
        return Ok(());
    }
    let at = format!("{at}.{name}");
    if limits_domains(name) {
        let message =
            format!("{at}: {provider} cannot limit its search to domains. Leave it out, or choose another.");
        return Err(Error::invalid_request(at, message));
    }
    notes.drop_param(&at, provider);
    Ok(())
}

/// A type of tool without the versions that vendors put behind it: `web_search_20250305`, `web_search_2025_08_26`.
pub(super) fn unversioned(kind: &str) -> &str {
    let mut rest = kind;
    while let Some((base, version)) = rest.rsplit_once('_')
        && !version.is_empty()
        && version.bytes().all(|byte| byte.is_ascii_digit())
    {
        rest = base;
    }
    rest
}

/// Whether a type of tool is a search of the web that its vendor runs.
pub(super) fn is_web_search(kind: &str) -> bool {
    matches!(unversioned(kind), "web_search" | "web_search_preview" | "google_search" | "googleSearch")
}

fn limits_domains(name: &str) -> bool {
    matches!(name, "allowed_domains" | "blocked_domains" | "excludeDomains" | "exclude_domains")
}

/// Whether a member asks for nothing besides what a provider does anyway.
fn is_default(name: &str, value: &Json<'_>) -> bool {
    let text: String = value.get().split_whitespace().collect();
    matches!(text.as_str(), "null" | "[]" | "{}" | "\"\"")
        || (name == "container" && text == r#"{"type":"auto"}"#)
        || (name == "search_context_size" && text == "\"medium\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_one_in_every_version() {
        let searches =
            ["web_search", "web_search_20260209", "web_search_2025_08_26", "web_search_preview_2025_03_11"];
        for kind in searches {
            assert!(is_web_search(kind), "{kind}");
        }
        for kind in ["web_fetch_20250910", "x_search", "_1", "", "web_search_new"] {
            assert!(!is_web_search(kind), "{kind}");
        }
    }

    #[test]
    fn filters_in_filters_are_one_setting() {
        let depth = 100_000;
        let nested = format!("{}{{\"a\":1}}{}", "{\"filters\":".repeat(depth), "}".repeat(depth));
        let mut notes = TranslationNotes::default();
        drop_settings(&Json::parse(&nested).unwrap(), "tools[0]", &[], "p", &mut notes).unwrap();
        assert_eq!(notes.warnings.join("; "), "tools[0].filters.filters: dropped, p has no such parameter");
    }

    #[test]
    fn limits_of_domains_are_refused_and_the_rest_is_reported() {
        let judged = |settings: &str, kept: &[&str]| {
            let mut notes = TranslationNotes::default();
            let settings = Json::parse(settings).unwrap();
            match drop_settings(&settings, "tools[0]", kept, "p", &mut notes) {
                Ok(()) => notes.warnings.join("; "),
                Err(error) => error.param.unwrap_or_default(),
            }
        };
        let dropped = |name: &str| format!("tools[0].{name}: dropped, p has no such parameter");
        for (settings, outcome) in [
            (
                r#"{"type":"web_search","name":"web_search","filters":null,"allowed_domains":[]}"#,
                String::new(),
            ),
            (r#"{"filters":{"allowed_domains":[]},"search_context_size":"medium"}"#, String::new()),
            (r#"{"container":{"type": "auto"}}"#, String::new()),
            (r#"{"container":{"type":"auto","file_ids":["f"]}}"#, dropped("container")),
            (r#"{"max_uses":3}"#, dropped("max_uses")),
            (r#"{"user_location":{"city":"Bonn"}}"#, dropped("user_location")),
            (r#"{"search_context_size":"low"}"#, dropped("search_context_size")),
            (r#"{"filters":{"other":1}}"#, dropped("filters.other")),
            (r#"{"allowed_domains":["a.example"]}"#, "tools[0].allowed_domains".to_owned()),
            (r#"{"blocked_domains":["a.example"]}"#, "tools[0].blocked_domains".to_owned()),
            (
                r#"{"filters":{"allowed_domains":["a.example"]}}"#,
                "tools[0].filters.allowed_domains".to_owned(),
            ),
        ] {
            assert_eq!(judged(settings, &[]), outcome, "{settings}");
        }
        assert_eq!(judged(r#"{"blocked_domains":["a.example"]}"#, &["blocked_domains"]), "");
    }
}
