//! The searches of the web that Google's models make: `grounding_metadata` names the queries and the pages that were found.
//!
//! Other providers report a search as a block of its own when they make it. Which query found which page is not known, nor which part of
//! the text was written after it.

use crate::json::{Json, JsonStr};
use serde::Deserialize;

/// The member of a response that has them.
pub(crate) const MEMBER: &str = "grounding_metadata";

/// The most queries and pages that are read: both come from the provider.
const MAX: usize = 64;

/// What was searched for, and found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Searches {
    pub queries: Vec<String>,
    pub pages: Vec<WebPage>,
}

/// A page that was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WebPage {
    pub url: String,
    pub title: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    web_search_queries: Option<Vec<JsonStr<'a>>>,
    grounding_chunks: Option<Vec<Chunk<'a>>>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    web: Option<Web<'a>>,
}

#[derive(Deserialize)]
struct Web<'a> {
    #[serde(borrow)]
    uri: Option<JsonStr<'a>>,
    title: Option<JsonStr<'a>>,
}

impl Searches {
    /// Reads `grounding_metadata`; `None` where nothing was searched for.
    pub fn read(json: &str) -> Option<Self> {
        let metadata = Json::parse(json)?.read::<Metadata<'_>>().map(|metadata| {
            let queries = metadata.web_search_queries.unwrap_or_default();
            let queries = queries.into_iter().map(|query| query.0.into_owned()).take(MAX).collect();
            let pages =
                metadata.grounding_chunks.unwrap_or_default().into_iter().filter_map(|chunk| chunk.web);
            let page = |web: Web<'_>| {
                let title = web.title.map(|title| title.0.into_owned());
                Some(WebPage { url: web.uri?.0.into_owned(), title })
            };
            Self { queries, pages: pages.filter_map(page).take(MAX).collect() }
        })?;
        (!metadata.queries.is_empty()).then_some(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_pages_are_read() {
        let json = r#"{"webSearchQueries":["tea"],"groundingChunks":[{"web":{"uri":"https://a","title":"A"}},{"web":{"uri":"https://b"}},
            {"retrievedContext":{"uri":"x"}}],"groundingSupports":[{"segment":{"endIndex":4}}],"searchEntryPoint":{"renderedContent":"<b>"}}"#;
        let page =
            |url: &str, title: Option<&str>| WebPage { url: url.to_owned(), title: title.map(str::to_owned) };
        let searches = Searches::read(json).unwrap();
        assert_eq!(searches.queries, ["tea"]);
        assert_eq!(searches.pages, [page("https://a", Some("A")), page("https://b", None)]);
        for nothing in ["{}", "null", r#"{"webSearchQueries":[]}"#, r#"{"webSearchQueries":7}"#] {
            assert_eq!(Searches::read(nothing), None, "{nothing}");
        }
    }
}
