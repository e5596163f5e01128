//! Citations: web pages as OpenAI's `url_citation` annotations, all others unchanged in the member
//! `citations`.

use serde::Deserialize;
use words::api::chat::{Event, UrlCitation};
use words::json::{Json, JsonStr};

/// The most citations kept for the end of a response, bytes of JSON.
const MAX_KEPT: usize = 1 << 20;

/// Tracks the position in the response's text, and keeps the citations that have no counterpart at OpenAI.
#[derive(Debug, Default)]
pub(super) struct Citations {
    /// Characters of text so far.
    chars: u64,
    /// Where the cited text begins, in characters.
    start: u64,
    /// A JSON list that is not closed yet.
    kept: String,
}

#[derive(Deserialize)]
struct Citation<'a> {
    #[serde(borrow)]
    title: Option<JsonStr<'a>>,
    location: Option<Location<'a>>,
}

#[derive(Deserialize)]
struct Location<'a> {
    #[serde(borrow)]
    web: Option<Web<'a>>,
}

#[derive(Deserialize)]
struct Web<'a> {
    #[serde(borrow)]
    url: Option<JsonStr<'a>>,
    domain: Option<JsonStr<'a>>,
}

impl Citations {
    /// Starts another block of text.
    pub fn begin(&mut self) {
        self.start = self.chars;
    }

    pub fn count(&mut self, text: &str) {
        self.chars += text.chars().count() as u64;
    }

    /// Takes one citation of the text since [`Citations::begin`].
    pub fn take(&mut self, json: &Json<'_>, sink: &mut dyn FnMut(Event<'_>)) {
        let citation = json.read::<Citation<'_>>();
        let web = citation.as_ref().and_then(|citation| citation.location.as_ref()?.web.as_ref());
        if let Some(web) = web
            && let Some(url) = web.url.as_deref()
        {
            let title = citation.as_ref().and_then(|citation| citation.title.as_deref());
            let title = title.or(web.domain.as_deref()).unwrap_or(url);
            let citation = UrlCitation { start_index: self.start, end_index: self.chars, url, title };
            return sink(Event::Annotation { choice: 0, json: &citation.annotation() });
        }
        if self.kept.len() + json.get().len() < MAX_KEPT {
            self.kept.push(if self.kept.is_empty() { '[' } else { ',' });
            self.kept.push_str(json.get());
        }
    }

    /// Ends the response: emits the kept citations as the member `citations`.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        if !self.kept.is_empty() {
            self.kept.push(']');
            sink(Event::Member { name: "citations", json: &std::mem::take(&mut self.kept) });
        }
    }
}
