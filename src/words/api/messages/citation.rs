//! OpenAI's annotations translated into Anthropic's citations.
//!
//! `encrypted_index` is Anthropic's own proof of a search result. Other providers have none, so it is empty; only
//! Anthropic would need it.

use crate::json::{Json, JsonStr};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The citation types of Anthropic's dialect; citations of these types pass unchanged.
const NATIVE_TYPES: [&str; 5] = [
    "char_location",
    "page_location",
    "content_block_location",
    "web_search_result_location",
    "search_result_location",
];

#[derive(Deserialize)]
struct Annotation<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    url_citation: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct UrlCitation<'a> {
    #[serde(borrow)]
    url: Option<Json<'a>>,
    title: Option<Json<'a>>,
    /// The cited passage (OpenRouter).
    content: Option<Json<'a>>,
    cited_text: Option<Json<'a>>,
    encrypted_index: Option<Json<'a>>,
}

#[derive(Serialize)]
struct WebCitation<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    cited_text: Cow<'a, str>,
    url: Cow<'a, str>,
    title: Option<Cow<'a, str>>,
    encrypted_index: Cow<'a, str>,
}

/// The citation for an annotation, as JSON; `None` for an annotation that has no equivalent.
pub(super) fn from_annotation(annotation: &str) -> Option<String> {
    let parsed: Annotation<'_> = Json::parse(annotation)
        .filter(Json::is_object)
        .and_then(|_| serde_json::from_str(annotation).ok())?;
    if parsed.kind.as_deref().is_some_and(|kind| NATIVE_TYPES.contains(&kind)) {
        return Some(annotation.to_owned());
    }
    let json = parsed.url_citation.filter(Json::is_object)?;
    let url_citation: UrlCitation<'_> = json.read()?;
    let text = |json: &'_ Option<Json<'_>>| json.as_ref().and_then(Json::text).map(Cow::into_owned);
    let citation = WebCitation {
        kind: "web_search_result_location",
        cited_text: text(&url_citation.cited_text)
            .or_else(|| text(&url_citation.content))
            .unwrap_or_default()
            .into(),
        url: text(&url_citation.url)?.into(),
        title: text(&url_citation.title).map(Cow::Owned),
        encrypted_index: text(&url_citation.encrypted_index).unwrap_or_default().into(),
    };
    serde_json::to_string(&citation).ok()
}
