//! Gemini's grounding and citations as OpenAI's `url_citation` annotations.
//!
//! Gemini counts bytes, OpenAI characters, so the response's text is needed to convert: `Zürich` ends at byte
//! 7 and at character 6.

use serde::Deserialize;
use words::api::chat::UrlCitation;
use words::api::gemini::wire::{GeminiGrounding, GeminiSegment};
use words::json::{Json, JsonStr};

/// The longest response text held, bytes. Beyond it no positions are found: memory stays bounded.
const MAX_TEXT: usize = 4 << 20;

/// The text of one choice so far.
#[derive(Debug, Default)]
pub(super) struct ResponseText {
    text: String,
    is_whole: bool,
}

impl ResponseText {
    pub(super) fn take(&mut self, text: &str) {
        self.is_whole = self.text.len() + text.len() <= MAX_TEXT && (self.is_whole || self.text.is_empty());
        if self.is_whole {
            self.text.push_str(text);
        }
    }

    /// Character offsets of `segment`: at its byte offsets if they match its text, otherwise where its text
    /// is found.
    fn place(&self, segment: &GeminiSegment<'_>) -> Option<(usize, usize)> {
        let start = segment.start_index.unwrap_or_default();
        let end = segment.end_index?;
        let wanted = segment.text.as_deref().unwrap_or_default();
        let matching = self.text.get(start..end).filter(|slice| wanted.is_empty() || *slice == wanted);
        let (start, part) = match matching {
            Some(slice) => (start, slice),
            None if wanted.is_empty() => return None,
            None => (self.text.find(wanted)?, wanted),
        };
        let before = self.text.get(..start)?.chars().count();
        Some((before, before + part.chars().count()))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Citations<'a> {
    #[serde(borrow)]
    citations: Option<Vec<Citation<'a>>>,
    /// Former name of `citations`.
    citation_sources: Option<Vec<Citation<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Citation<'a> {
    start_index: Option<usize>,
    end_index: Option<usize>,
    #[serde(borrow)]
    uri: Option<JsonStr<'a>>,
    title: Option<JsonStr<'a>>,
}

fn annotation(start: usize, end: usize, url: &str, title: Option<&str>) -> String {
    let title = title.unwrap_or(url);
    UrlCitation { start_index: start as u64, end_index: end as u64, url, title }.annotation()
}

/// The annotations in `groundingMetadata`. Sources without a URL (files of a search store) have none.
pub(super) fn grounding_annotations(json: &Json<'_>, text: &ResponseText, sink: &mut dyn FnMut(&str)) {
    let Some(grounding) = json.read::<GeminiGrounding<'_>>() else { return };
    let sources = grounding.grounding_chunks.unwrap_or_default();
    for support in grounding.grounding_supports.unwrap_or_default() {
        let place = support.segment.as_ref().and_then(|segment| text.place(segment));
        let Some((start, end)) = place else { continue };
        for index in support.grounding_chunk_indices.unwrap_or_default() {
            let Some(source) = sources.get(index) else { continue };
            let page = source.web.as_ref().or(source.retrieved_context.as_ref()).or(source.maps.as_ref());
            if let Some(page) = page
                && let Some(uri) = &page.uri
            {
                sink(&annotation(start, end, uri, page.title.as_deref()));
            }
        }
    }
}

/// The annotations in `citationMetadata`.
pub(super) fn citation_annotations(json: &Json<'_>, text: &ResponseText, sink: &mut dyn FnMut(&str)) {
    let Some(parsed) = json.read::<Citations<'_>>() else { return };
    for citation in parsed.citations.or(parsed.citation_sources).unwrap_or_default() {
        let segment =
            GeminiSegment { start_index: citation.start_index, end_index: citation.end_index, text: None };
        if let Some(uri) = &citation.uri
            && let Some((start, end)) = text.place(&segment)
        {
            sink(&annotation(start, end, uri, citation.title.as_deref()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_characters() {
        let mut text = ResponseText::default();
        text.take("Zürich liegt ");
        text.take("schön. Bern auch.");
        let grounding = r#"{"groundingChunks":[{"web":{"uri":"https://a","title":"A"}},{"web":{"uri":"https://b"}},
            {"retrievedContext":{"fileSearchStore":"s"}}],
            "groundingSupports":[{"segment":{"endIndex":22,"text":"Zürich liegt schön."},"groundingChunkIndices":[0,2]},
            {"segment":{"startIndex":1,"endIndex":3,"text":"Bern auch."},"groundingChunkIndices":[1,9]},
            {"segment":{"startIndex":1,"endIndex":2,"text":"nirgends"},"groundingChunkIndices":[0]}]}"#;
        let mut annotations = Vec::new();
        grounding_annotations(&Json::parse(grounding).unwrap(), &text, &mut |json| {
            annotations.push(json.to_owned());
        });
        assert_eq!(
            annotations,
            [
                r#"{"type":"url_citation","url_citation":{"start_index":0,"end_index":19,"url":"https://a","title":"A"}}"#,
                r#"{"type":"url_citation","url_citation":{"start_index":20,"end_index":30,"url":"https://b","title":"https://b"}}"#,
            ]
        );
        let citations =
            r#"{"citations":[{"startIndex":0,"endIndex":7,"uri":"https://c"},{"endIndex":2,"uri":"x"}]}"#;
        annotations.clear();
        citation_annotations(&Json::parse(citations).unwrap(), &text, &mut |json| {
            annotations.push(json.to_owned());
        });
        assert_eq!(annotations.len(), 1);
        assert!(annotations[0].contains(r#""start_index":0,"end_index":6"#), "{annotations:?}");
    }
}
