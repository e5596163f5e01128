//! What a check looks at: a request in the client's dialect before a target is called, or its response.
//!
//! Not here: where texts are in a body (`body_texts`), how streams become texts (`engine`), and what may be changed (`Change`).

use super::body_texts::{BodyTexts, Reading, joined};
use super::finding::Change;
use super::judged::{Judged, Part, Selection};
use super::lazy_tree::LazyTree;
use super::needs::Needs;
use super::pieces::{Piece, divided};
use http::HeaderMap;
use memory::state::large_work::{LargeWork, translation};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;
use words::api::operation::Operation;
use words::config::hooks::{HookPhase, JudgedScope};
use words::json::{rewrite, surrogates, unique};

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
    pub request: Arc<LazyTree>,
    /// The response in the client's dialect, where it is one document; null for a stream.
    pub response: Arc<LazyTree>,
    /// Whether the client requested a stream.
    pub streamed: bool,
    /// What is judged, joined with newlines: of a request its prompt or input, and what is new in its messages or all of them; of a
    /// response the text and the calls of one choice. `None`: there is none.
    pub text: Option<Arc<str>>,
    /// What is judged of a request.
    pub selection: Selection,
    /// Which choice of a response is judged.
    pub choice: u32,
    /// Every text that may be changed: of a request those of all messages, of a response those of all choices.
    pub texts: Arc<[Text]>,
    /// The JSON of the body that is judged; empty for a stream, and where there is no body or none that was read.
    pub source: Arc<str>,
    /// What placeholders in the texts stand for, of all checks so far: (placeholder, original).
    pub placeholders: Arc<[(String, String)]>,
    /// Whether the judged body is a JSON object: no other body is read.
    pub is_object: bool,
    /// How much of it checks can read.
    pub available: Needs,
    /// On the generic endpoint: the operation that this path names below `/v1`.
    pub meant: Option<Operation>,
    /// What is new in a request and could not be read.
    pub unread: Option<Arc<str>>,
    /// What else of it could not be read.
    pub unread_earlier: Option<Arc<str>>,
    /// Why the request's JSON cannot be judged as one value: it is too deep, or has a member twice.
    pub ambiguous: Option<Arc<str>>,
    /// It was denied, and has nothing of what was: what that was, in counts.
    pub withheld: Option<Judged>,
}

/// One text of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamText {
    pub choice: u32,
    pub text: String,
    /// The answer's, or the arguments of a call.
    pub part: Part,
}

/// One text of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    pub text: String,
    /// Where it stands.
    pub part: Part,
    /// Of a response: in which choice it is.
    pub choice: u32,
    /// Of a request: whether the model has not had it yet.
    pub is_new: bool,
    /// Where it is in [`Subject::source`], or in the list of a stream's texts: what a model has written for one choice is one text, and may
    /// stand in several places.
    pub pieces: Vec<Piece>,
}

impl Text {
    /// Where it begins.
    pub fn start(&self) -> usize {
        self.pieces.first().map_or(0, |piece| piece.place.start)
    }

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
        Self::of_path(operation, None, source)
    }

    /// As [`Subject::of_request`], on the generic endpoint with the operation that its path is elsewhere.
    pub fn of_path(operation: Operation, meant: Option<Operation>, source: &str) -> Self {
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
            is_object: false,
            available: Needs::met_by(operation),
            meant,
            selection: Selection::default(),
            choice: 0,
            unread: None,
            unread_earlier: None,
            ambiguous: None,
            withheld: None,
        };
        subject.read(source);
        subject
    }

    /// The response to this request, as one document.
    #[must_use]
    pub fn with_response(mut self, source: &str) -> Self {
        self.phase = HookPhase::After;
        self.available = Needs::Text;
        self.read(source);
        self
    }

    /// The response to this request, as a stream with these texts.
    #[must_use]
    pub fn with_stream(mut self, texts: Vec<StreamText>) -> Self {
        self.phase = HookPhase::After;
        self.available = Needs::Text;
        (self.unread, self.unread_earlier) = (None, None);
        self.source = Arc::default();
        self.response = Arc::default();
        self.choice = texts.iter().map(|text| text.choice).min().unwrap_or_default();
        let mut all: Vec<Text> = Vec::new();
        for (place, StreamText { choice, text, part }) in texts.into_iter().enumerate() {
            let piece = Piece::whole(place..place, text.len());
            let is_begun =
                |begun: &&mut Text| part == Part::Answer && begun.part == part && begun.choice == choice;
            match all.iter_mut().find(is_begun) {
                Some(begun) => {
                    begun.text.push_str(&text);
                    begun.pieces.push(piece);
                }
                None => all.push(Text { text, part, choice, is_new: true, pieces: vec![piece] }),
            }
        }
        self.set_texts(all);
        self
    }

    /// Whether it judges this of a request. Of a response all is judged.
    pub(super) fn is_selected(&self, selection: Selection) -> bool {
        self.phase == HookPhase::After || self.selection == selection
    }

    /// Judges this of a request. What is read besides messages is read now.
    pub(super) fn select(&mut self, selection: Selection) {
        let is_read = self.selection.reads_as(selection);
        self.selection = selection;
        if is_read {
            self.join();
        } else {
            let source = Arc::clone(&self.source);
            self.read_texts(&source);
        }
    }

    fn read(&mut self, source: &str) {
        self.source = source.into();
        let tree = Arc::new(LazyTree::new(Arc::clone(&self.source)));
        match self.phase {
            HookPhase::Before => {
                if !source.is_empty() {
                    let ambiguous = unique::check(&surrogates::replaced(source)).err();
                    self.ambiguous = ambiguous.map(|why| why.to_string().into());
                }
                self.request = tree;
            }
            HookPhase::After => self.response = tree,
        }
        self.choice = 0;
        self.read_texts(source);
    }

    fn read_texts(&mut self, source: &str) {
        let found = BodyTexts::read(source, self.reading(), self.selection);
        self.unread = found.unread.map(Arc::from);
        self.unread_earlier = found.unread_earlier.map(Arc::from);
        self.is_object = found.is_object;
        self.set_texts(found.texts);
    }

    fn reading(&self) -> Reading {
        let has_shape = self.meant.is_some_and(|meant| Needs::met_by(meant) == Needs::Text);
        match (self.phase, self.operation) {
            (_, Operation::McpCall) => Reading::JsonRpc,
            (HookPhase::After, _) => Reading::Response,
            // Not where it is too deep, or so ambiguous that it is refused.
            (_, Operation::Passthrough) if self.ambiguous.is_none() && !has_shape => Reading::AnyRequest,
            // Its texts stand in members that no other operation has.
            (_, Operation::Rerank) if self.ambiguous.is_none() => Reading::AnyRequest,
            _ => Reading::Request,
        }
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

    /// The same response once for each further choice whose text differs, with that choice as the judged one.
    pub fn other_choices(&self) -> Vec<Self> {
        let mut choices: Vec<u32> =
            self.texts.iter().map(|text| text.choice).filter(|choice| *choice != self.choice).collect();
        choices.sort_unstable();
        choices.dedup();
        let of_choice = |choice: u32| {
            let mut other = self.clone();
            other.choice = choice;
            other.join();
            other
        };
        // A document may have all of its texts once more, in one member.
        let differs =
            |other: &Self| other.text != self.text && other.text.as_deref() != self.prose().as_deref();
        choices.into_iter().map(of_choice).filter(differs).collect()
    }

    /// Without a text, and without the body that has it: what was denied is repeated to no other server.
    #[must_use]
    pub fn without_texts(&self) -> Self {
        let mut without = self.clone();
        without.withheld = Some(self.judged());
        match self.phase {
            HookPhase::Before => without.request = Arc::default(),
            HookPhase::After => without.response = Arc::default(),
        }
        without.source = Arc::default();
        without.set_texts(Vec::new());
        without
    }

    fn set_texts(&mut self, texts: Vec<Text>) {
        self.texts = texts.into();
        self.join();
    }

    fn join(&mut self) {
        self.text = joined(self.texts.iter().filter(|text| self.judges(text))).map(Arc::from);
    }

    /// Whether a text is part of [`Subject::text`].
    fn judges(&self, text: &Text) -> bool {
        match self.phase {
            HookPhase::Before => text.is_new || self.selection.scope == JudgedScope::All,
            HookPhase::After => text.choice == self.choice,
        }
    }

    /// What is judged, for the result of a hook.
    pub(super) fn judged(&self) -> Judged {
        let scope = (self.phase == HookPhase::Before).then_some(self.selection.scope);
        Judged::of(scope, &self.texts, |text| self.judges(text))
    }

    /// Whether a change would replace a judged text that stays as it is.
    pub(super) fn leaves_fixed(&self, change: &Change) -> bool {
        let (Change::Texts(new) | Change::Placeholders(new, _)) = change else { return false };
        self.texts.iter().zip(new).any(|(text, new)| {
            let is_fixed = || text.pieces.iter().any(|piece| piece.is_fixed);
            new.as_ref().is_some_and(|new| *new != text.text) && self.judges(text) && is_fixed()
        })
    }

    /// What stands in the judged part of a request and could not be read.
    pub(super) fn unread(&self) -> Option<&str> {
        let earlier = || self.unread_earlier.as_deref().filter(|_| self.selection.scope == JudgedScope::All);
        self.unread.as_deref().or_else(earlier)
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

    /// What the model is to answer: of what is judged, the last text that is a user's or an input.
    pub(crate) fn question(&self) -> Option<&str> {
        let is_question = |text: &&Text| matches!(text.part, Part::User | Part::Input) && self.judges(text);
        self.texts.iter().rev().find(is_question).map(|text| text.text.as_str())
    }

    /// The text without what no reader reads as one (arguments, names, declarations), if it is not empty.
    pub(crate) fn prose(&self) -> Option<Cow<'_, str>> {
        let text = self.text()?;
        let judged = || self.texts.iter().filter(|text| self.judges(text));
        if judged().all(|text| text.part.is_prose()) {
            return Some(Cow::Borrowed(text));
        }
        let prose = joined(judged().filter(|text| text.part.is_prose()));
        prose.filter(|prose| !prose.is_empty()).map(Cow::Owned)
    }

    /// The body that is judged: the request's, or the response's.
    fn body(&self) -> &Value {
        match self.phase {
            HookPhase::Before => self.request.get(),
            HookPhase::After => self.response.get(),
        }
    }

    /// Has both bodies read, for checks that cannot wait for it where they look at them.
    pub(super) async fn read_trees(&self, large_work: &LargeWork) {
        for tree in [&self.request, &self.response] {
            let read = || {
                tree.get();
            };
            large_work.run(translation(tree.bytes_to_read()), read).await;
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
                    let source = Arc::clone(&self.source);
                    self.read(&rewrite::rewritten(&surrogates::replaced(&source), body));
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
                let changed = BodyTexts::read(&source, self.reading(), self.selection).replace(&source, new);
                if let Some(changed) = &changed {
                    self.read(changed);
                }
                changed.is_some()
            }
        }
    }
}
