//! Citations of web pages as `groundingMetadata`.
//!
//! OpenAI's annotations count characters, Gemini bytes, so the text is needed: `Zürich` ends at character 6 and at byte 7.

use super::wire::{GeminiGrounding, GeminiPage, GeminiSegment, GeminiSource, GeminiSupport};
use crate::json::{Json, JsonStr};
use serde::Deserialize;

/// The longest text that is held to find places in, bytes. Pages that are cited behind it have no place.
const MAX_TEXT: usize = 1 << 20;

/// The text and the citations of one candidate.
#[derive(Debug, Default)]
pub(super) struct Grounding {
    text: String,
    is_cut: bool,
    annotations: Vec<String>,
}

#[derive(Deserialize)]
struct Annotation<'a> {
    #[serde(borrow)]
    url_citation: Citation<'a>,
}

#[derive(Deserialize)]
struct Citation<'a> {
    start_index: Option<usize>,
    end_index: Option<usize>,
    #[serde(borrow)]
    url: JsonStr<'a>,
    title: Option<JsonStr<'a>>,
}

impl Grounding {
    pub fn text(&mut self, text: &str) {
        self.is_cut |= self.text.len() + text.len() > MAX_TEXT;
        if !self.is_cut {
            self.text.push_str(text);
        }
    }

    pub fn annotation(&mut self, json: &str) {
        self.annotations.push(json.to_owned());
    }

    /// `groundingMetadata`; `None` without citations.
    pub fn metadata(&self) -> Option<Json<'static>> {
        let cited =
            self.annotations.iter().filter_map(|json| serde_json::from_str::<Annotation<'_>>(json).ok());
        let citations: Vec<Citation<'_>> = cited.map(|annotation| annotation.url_citation).collect();
        let mut pages: Vec<(&str, &str)> = Vec::new();
        let mut grounding_supports = Vec::new();
        for citation in &citations {
            let url: &str = &citation.url;
            let place = pages.iter().position(|(page, _)| *page == url).unwrap_or(pages.len());
            if place == pages.len() {
                pages.push((url, citation.title.as_deref().unwrap_or(url)));
            }
            if let Some(segment) = self.segment(citation) {
                grounding_supports.push(GeminiSupport {
                    segment: Some(segment),
                    grounding_chunk_indices: Some(vec![place]),
                });
            }
        }
        (!pages.is_empty()).then(|| {
            Json::from_value(&GeminiGrounding {
                grounding_chunks: Some(pages.into_iter().map(|(uri, title)| source(uri, title)).collect()),
                grounding_supports: Some(grounding_supports),
            })
        })
    }

    fn segment(&self, citation: &Citation<'_>) -> Option<GeminiSegment<'_>> {
        let start = citation.start_index?;
        let end = citation.end_index?;
        if self.is_cut || start >= end {
            return None;
        }
        let place = |character: usize| match self.text.char_indices().nth(character) {
            Some((at, _)) => Some(at),
            None => (self.text.chars().count() == character).then_some(self.text.len()),
        };
        let start_index = place(start)?;
        let end_index = place(end)?;
        Some(GeminiSegment {
            start_index: Some(start_index),
            end_index: Some(end_index),
            text: Some(self.text.get(start_index..end_index)?.into()),
        })
    }
}

fn source<'a>(uri: &'a str, title: &'a str) -> GeminiSource<'a> {
    GeminiSource {
        web: Some(GeminiPage { uri: Some(uri.into()), title: Some(title.into()) }),
        ..GeminiSource::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_become_bytes_and_pages_are_listed_once() {
        let mut grounding = Grounding::default();
        grounding.text("Zürich ");
        grounding.text("liegt schön.");
        let annotation = |from: usize, to: usize, url: &str| {
            format!(
                r#"{{"type":"url_citation","url_citation":{{"start_index":{from},"end_index":{to},"url":"{url}","title":"T"}}}}"#
            )
        };
        for (from, to, url) in
            [(0, 6, "https://a"), (7, 19, "https://b"), (0, 2, "https://a"), (5, 99, "https://a")]
        {
            grounding.annotation(&annotation(from, to, url));
        }
        grounding.annotation("{}");
        assert_eq!(
            grounding.metadata().unwrap().get(),
            r#"{"groundingChunks":[{"web":{"uri":"https://a","title":"T"}},{"web":{"uri":"https://b","title":"T"}}],"groundingSupports":[{"segment":{"startIndex":0,"endIndex":7,"text":"Zürich"},"groundingChunkIndices":[0]},{"segment":{"startIndex":8,"endIndex":21,"text":"liegt schön."},"groundingChunkIndices":[1]},{"segment":{"startIndex":0,"endIndex":3,"text":"Zü"},"groundingChunkIndices":[0]}]}"#
        );
        assert!(Grounding::default().metadata().is_none());
    }
}
