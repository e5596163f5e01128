//! The annotation of a web page that a text cites, in OpenAI's format, the same from every provider:
//! `{"type":"url_citation","url_citation":{"start_index":0,"end_index":4,"url":"https://..","title":"Cats"}}`.

use serde::Serialize;

/// A web page and the text that it supports.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UrlCitation<'a> {
    /// Where the text begins, in characters.
    pub start_index: u64,
    /// Where it ends.
    pub end_index: u64,
    pub url: &'a str,
    /// The type in OpenAI's clients requires a title: the URL, where a page has none.
    pub title: &'a str,
}

impl UrlCitation<'_> {
    /// The JSON of an annotation ([`Event::Annotation`](super::Event::Annotation)).
    pub fn annotation(&self) -> String {
        #[derive(Serialize)]
        struct Annotation<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            url_citation: &'a UrlCitation<'a>,
        }
        // Strings and numbers always serialize.
        serde_json::to_string(&Annotation { kind: "url_citation", url_citation: self }).unwrap_or_default()
    }
}
