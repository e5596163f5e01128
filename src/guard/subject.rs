//! What a check looks at: a request in the client's dialect before a target is called, or its response.
//!
//! Not here: where texts are in a body (`body_texts`), how streams become texts (`engine`), and what may be changed (`Change`).

use super::body_texts::{BodyTexts, judged};
use super::finding::Change;
use super::pieces::{Piece, divided};
use crate::api::operation::Operation;
use crate::config::hooks::HookPhase;
use http::HeaderMap;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A request or a response. Cheap to copy where a check outlives the request.
#[derive(Debug, Clone)]
pub struct Subject {
    pub phase: HookPhase,
    pub operation: Operation,
    /// The target's provider.
    pub provider: &'static str,
    /// The model that the request names.
    pub model: Option<Arc<str>>,
    /// The request's metadata: an object of strings.
    pub metadata: Arc<Map<String, Value>>,
    /// The client's headers.
    pub headers: Arc<HeaderMap>,
    /// The body of the client's request; null where it is no JSON.
    pub request: Arc<Value>,
    /// The response in the client's dialect, where it is one document; null for a stream.
    pub response: Arc<Value>,
    /// Whether the client requested a stream.
    pub streamed: bool,
    /// What is judged (reference 9.2): of a request the texts of its last message, its prompt or input, joined with newlines; of a
    /// response those of its first choice, with nothing between them. `None`: there is none.
    pub text: Option<Arc<str>>,
    /// Every text that may be changed: of a request those of all messages, of a response those of all choices.
    pub texts: Arc<[Text]>,
    /// The JSON of the body that is judged; empty for a stream.
    pub source: Arc<str>,
    /// What placeholders in the texts stand for, of all checks so far: (placeholder, original).
    pub placeholders: Arc<[(String, String)]>,
}

/// One text of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    pub text: String,
    /// Whether it is part of [`Subject::text`].
    pub is_judged: bool,
    /// Where it is in [`Subject::source`], or in the list of a stream's texts: what a model has written for one choice is one text, and may
    /// stand in several places.
    pub pieces: Vec<Piece>,
}

impl Text {
    fn set(&mut self, new: &str) {
        let parts = divided(&self.text, &self.pieces, new);
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        self.pieces.iter_mut().zip(lengths).for_each(|(piece, len)| piece.len = len);
        new.clone_into(&mut self.text);
    }
}

impl Subject {
    /// A request with this body, and nothing else yet.
    pub fn of_request(operation: Operation, source: &str) -> Self {
        let mut subject = Self {
            phase: HookPhase::Before,
            operation,
            provider: "",
            model: None,
            metadata: Arc::default(),
            headers: Arc::default(),
            request: Arc::default(),
            response: Arc::default(),
            streamed: false,
            text: None,
            texts: Arc::default(),
            source: Arc::default(),
            placeholders: Arc::default(),
        };
        subject.read(source);
        subject
    }

    /// The response to this request, as one document.
    #[must_use]
    pub fn with_response(mut self, source: &str) -> Self {
        self.phase = HookPhase::After;
        self.read(source);
        self
    }

    /// The response to this request, as a stream whose choices have these texts, each of the choice with this number.
    #[must_use]
    pub fn with_stream(mut self, texts: Vec<(u32, String)>) -> Self {
        self.phase = HookPhase::After;
        self.source = Arc::default();
        self.response = Arc::default();
        let first = texts.iter().map(|(choice, _)| *choice).min();
        let mut choices: Vec<(u32, Text)> = Vec::new();
        for (place, (choice, text)) in texts.into_iter().enumerate() {
            let piece = Piece { place: place..place, len: text.len() };
            match choices.iter_mut().find(|(of, _)| *of == choice) {
                Some((_, begun)) => {
                    begun.text.push_str(&text);
                    begun.pieces.push(piece);
                }
                None => {
                    let is_judged = Some(choice) == first;
                    choices.push((choice, Text { text, is_judged, pieces: vec![piece] }));
                }
            }
        }
        self.set_texts(choices.into_iter().map(|(_, text)| text).collect());
        self
    }

    fn read(&mut self, source: &str) {
        let value = Arc::new(serde_json::from_str(source).unwrap_or_default());
        match self.phase {
            HookPhase::Before => self.request = value,
            HookPhase::After => self.response = value,
        }
        self.source = source.into();
        self.set_texts(BodyTexts::read(source, self.phase).texts);
    }

    /// The texts that a stream has in place of those of [`Subject::with_stream`], in their order.
    pub fn stream_texts(&self) -> Vec<String> {
        let mut all: Vec<(usize, &str)> = Vec::new();
        for text in self.texts.iter() {
            let parts = divided(&text.text, &text.pieces, &text.text);
            all.extend(text.pieces.iter().map(|piece| piece.place.start).zip(parts));
        }
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, text)| text.to_owned()).collect()
    }

    fn set_texts(&mut self, texts: Vec<Text>) {
        self.text = judged(&texts).map(Arc::from);
        self.texts = texts.into();
    }

    /// How much text a check may have to read.
    pub fn bytes(&self) -> usize {
        let of_stream = || self.texts.iter().map(|text| text.text.len()).sum();
        if self.source.is_empty() { of_stream() } else { self.source.len() }
    }

    /// The text, if it is not empty.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref().filter(|text| !text.is_empty())
    }

    /// The body that is judged: the request's, or the response's.
    pub fn body(&self) -> &Value {
        match self.phase {
            HookPhase::Before => &self.request,
            HookPhase::After => &self.response,
        }
    }

    /// Takes what a check changes; whether that changes anything. A stream has no body that could be replaced.
    pub fn apply(&mut self, change: &Change) -> bool {
        if let Change::Placeholders(_, new) = change {
            self.placeholders = self.placeholders.iter().chain(new).cloned().collect();
        }
        match change {
            Change::None => false,
            Change::Body(_) if self.source.is_empty() => false,
            Change::Body(body) => {
                let is_changed = body != self.body();
                if is_changed {
                    self.read(&body.to_string());
                }
                is_changed
            }
            Change::Texts(new) | Change::Placeholders(new, _) if self.source.is_empty() => {
                let mut texts = self.texts.to_vec();
                let pairs = texts.iter_mut().zip(new).filter_map(|(text, new)| Some((text, new.as_ref()?)));
                let is_changed = pairs.fold(false, |is_changed, (text, new)| {
                    let differs = text.text != *new;
                    text.set(new);
                    is_changed | differs
                });
                self.set_texts(texts);
                is_changed
            }
            Change::Texts(new) | Change::Placeholders(new, _) => {
                let source = Arc::clone(&self.source);
                let changed = BodyTexts::read(&source, self.phase).replace(&source, new);
                if let Some(changed) = &changed {
                    self.read(changed);
                }
                changed.is_some()
            }
        }
    }
}
