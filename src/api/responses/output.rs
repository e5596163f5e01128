//! The output put together from an answer's events, item by item, and each step of it told.
//!
//! The whole answer and the stream come from this one course, so they cannot differ. Only choice 0 counts: the
//! API has no `n`.

use super::accent;
use super::item::{Content, Item, Kind, Status};
use super::seal::Seal;
use crate::api::chat::{Event, Json};

/// One step: what a stream has an event for.
#[derive(Debug)]
pub(super) enum Step<'a> {
    ItemAdded(&'a Item),
    ItemDone(&'a Item),
    /// Of a message's part with the given index.
    Part(usize, PartStep<'a>),
    SummaryAdded,
    Summary(&'a str),
    SummaryTextDone(&'a str),
    SummaryDone(&'a str),
    Arguments(&'a str),
    ArgumentsDone {
        name: &'a str,
        arguments: &'a str,
    },
    /// The provider's own tool at work: the event's whole name.
    Progress(&'static str),
}

#[derive(Debug)]
pub(super) enum PartStep<'a> {
    Added(&'a Content),
    Done(&'a Content),
    Text { delta: &'a str, logprobs: &'a [Json<'static>] },
    TextDone { text: &'a str, logprobs: &'a [Json<'static>] },
    Annotation { number: usize, json: &'a Json<'static> },
    Refusal(&'a str),
    RefusalDone(&'a str),
}

/// Takes a step of the item at the given place in the output, which has the given id.
pub(super) type Tell<'t> = &'t mut dyn FnMut(usize, &str, Step<'_>);

#[derive(Debug)]
pub(super) struct Output {
    /// What item ids are made from.
    id: String,
    items: Vec<Item>,
    /// Items not done yet, by their place. Beside the calls, only the last item can be one.
    open: Vec<usize>,
    /// Logprobs were asked for: a text waits here for those of its own, which come behind it.
    held: Option<String>,
    waits: bool,
}

impl Output {
    pub fn new(id: String, waits: bool) -> Self {
        Self { id, items: Vec::new(), open: Vec::new(), held: None, waits }
    }

    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Takes one event in.
    pub fn take(&mut self, event: &Event<'_>, tell: Tell<'_>) {
        if !matches!(event, Event::Logprobs { .. }) {
            self.release(&[], tell);
        }
        match *event {
            Event::Text { choice: 0, text } if !text.is_empty() => self.text(text, tell),
            Event::Refusal { choice: 0, text } if !text.is_empty() => self.refuse(text, tell),
            Event::Reasoning { choice: 0, text } if !text.is_empty() => self.think(text, tell),
            Event::Signature { choice: 0, signature } if !signature.is_empty() => {
                self.sign(signature, tell);
            }
            Event::Redacted { choice: 0, data } => self.sealed(Seal::Redacted(data.to_owned().into()), tell),
            Event::ToolCall { choice: 0, index, id, name, signature } => {
                if let Some(signature) = signature {
                    self.sealed(Seal::Call(signature.to_owned().into()), tell);
                }
                let (call_id, name) = (id.to_owned(), name.to_owned());
                self.add(Kind::Call { index, call_id, name, arguments: String::new() }, tell);
            }
            Event::Arguments { choice: 0, index, fragment } if !fragment.is_empty() => {
                self.argue(index, fragment, tell);
            }
            Event::Media { choice: 0, media_type, data } => self.picture(media_type, data, tell),
            Event::Annotation { choice: 0, json } => self.annotate(json, tell),
            Event::Logprobs { choice: 0, json } => self.weigh(json, tell),
            Event::Block { choice: 0, json } => self.block(json, tell),
            _ => {}
        }
    }

    /// The answer is over: `cut` when it was cut off.
    pub fn finish(&mut self, cut: bool, tell: Tell<'_>) {
        self.release(&[], tell);
        for at in std::mem::take(&mut self.open) {
            let Some(item) = self.items.get_mut(at) else { continue };
            item.status = if cut && !is_whole(item) { Status::Incomplete } else { Status::Completed };
            done(at, item, tell);
        }
    }

    /// Begins an item. What is open ends first, but for calls whose arguments are not all there: several
    /// calls may be told at once.
    fn add(&mut self, kind: Kind, tell: Tell<'_>) -> usize {
        let items = &mut self.items;
        self.open.retain(|&at| {
            let Some(item) = items.get_mut(at) else { return false };
            if matches!(item.kind, Kind::Call { .. }) && !is_whole(item) {
                return true;
            }
            item.status = Status::Completed;
            done(at, item, tell);
            false
        });
        let at = self.items.len();
        let id = format!("{}_{}_{at}", kind.prefix(), self.id);
        let item = Item { id, status: Status::InProgress, kind };
        tell(at, &item.id, Step::ItemAdded(&item));
        self.items.push(item);
        self.open.push(at);
        at
    }

    /// The last item, where it is still open.
    fn last(&mut self) -> Option<(usize, &mut Item)> {
        let at = self.open.last().copied()?;
        let last = at + 1 == self.items.len();
        self.items.get_mut(at).filter(|_| last).map(|item| (at, item))
    }

    /// The message being told, or a new one, with a part of the wanted kind at its end.
    fn message(&mut self, wanted: fn(&Content) -> bool, new: Content, tell: Tell<'_>) -> Option<Place<'_>> {
        if !matches!(self.last(), Some((_, Item { kind: Kind::Message(_), .. }))) {
            self.add(Kind::Message(Vec::new()), tell);
        }
        let (at, item) = self.last()?;
        let Item { id, kind: Kind::Message(content), .. } = item else { return None };
        if !content.last().is_some_and(wanted) {
            if let Some(last) = content.last() {
                part_done(at, id, content.len() - 1, last, tell);
            }
            tell(at, id, Step::Part(content.len(), PartStep::Added(&new)));
            content.push(new);
        }
        let part = content.len() - 1;
        Some(Place { at, id, part, content: content.last_mut()? })
    }

    fn text_place(&mut self, tell: Tell<'_>) -> Option<Place<'_>> {
        self.message(|content| matches!(content, Content::Text { .. }), Content::text(), tell)
    }

    fn text(&mut self, delta: &str, tell: Tell<'_>) {
        if self.waits {
            self.held = Some(delta.to_owned());
            return;
        }
        self.write_text(delta, &[], tell);
    }

    /// Tells the text that waited, with the logprobs that came for it.
    fn release(&mut self, logprobs: &[Json<'static>], tell: Tell<'_>) {
        if let Some(delta) = self.held.take() {
            self.write_text(&delta, logprobs, tell);
        }
    }

    fn write_text(&mut self, delta: &str, fresh: &[Json<'static>], tell: Tell<'_>) {
        let Some(Place { at, id, part, content: Content::Text { text, logprobs, .. } }) =
            self.text_place(tell)
        else {
            return;
        };
        text.push_str(delta);
        logprobs.extend_from_slice(fresh);
        tell(at, id, Step::Part(part, PartStep::Text { delta, logprobs: fresh }));
    }

    /// Logprobs nobody asked for are left out, as OpenAI does; those of a refusal have no place.
    fn weigh(&mut self, json: &str, tell: Tell<'_>) {
        if self.held.is_some() {
            self.release(&accent::logprobs(json), tell);
        }
    }

    fn refuse(&mut self, delta: &str, tell: Tell<'_>) {
        let wanted = |content: &Content| matches!(content, Content::Refusal(_));
        let place = self.message(wanted, Content::Refusal(String::new()), tell);
        let Some(Place { at, id, part, content: Content::Refusal(refusal) }) = place else { return };
        refusal.push_str(delta);
        tell(at, id, Step::Part(part, PartStep::Refusal(delta)));
    }

    /// An annotation with no text before it begins a message: text may follow.
    fn annotate(&mut self, json: &str, tell: Tell<'_>) {
        let Some(json) = accent::annotation(json) else { return };
        let Some(Place { at, id, part, content: Content::Text { annotations, .. } }) = self.text_place(tell)
        else {
            return;
        };
        tell(at, id, Step::Part(part, PartStep::Annotation { number: annotations.len(), json: &json }));
        annotations.push(json);
    }

    fn think(&mut self, delta: &str, tell: Tell<'_>) {
        // A seal ends a piece of thinking.
        if !matches!(self.last(), Some((_, Item { kind: Kind::Reasoning { seal: None, .. }, .. }))) {
            self.add(Kind::Reasoning { text: None, seal: None }, tell);
        }
        let Some((at, Item { id, kind: Kind::Reasoning { text, .. }, .. })) = self.last() else { return };
        if text.is_none() {
            tell(at, id, Step::SummaryAdded);
        }
        text.get_or_insert_default().push_str(delta);
        tell(at, id, Step::Summary(delta));
    }

    /// A signature belongs to the thinking just told; without any it stands for thinking kept back. It may
    /// come in several pieces.
    fn sign(&mut self, fresh: &str, tell: Tell<'_>) {
        let last = match self.last() {
            Some((_, Item { kind: Kind::Reasoning { seal, .. }, .. })) => Some(seal),
            _ => None,
        };
        match last {
            Some(Some(Seal::Signature(signature))) => signature.to_mut().push_str(fresh),
            Some(seal @ None) => *seal = Some(Seal::Signature(fresh.to_owned().into())),
            _ => self.sealed(Seal::Signature(fresh.to_owned().into()), tell),
        }
    }

    /// A reasoning item that is nothing but a seal.
    fn sealed(&mut self, seal: Seal<'static>, tell: Tell<'_>) {
        self.add(Kind::Reasoning { text: None, seal: Some(seal) }, tell);
    }

    fn argue(&mut self, wanted: u32, fragment: &str, tell: Tell<'_>) {
        for &at in self.open.iter().rev() {
            let Some(Item { id, kind: Kind::Call { index, arguments, .. }, .. }) = self.items.get_mut(at)
            else {
                continue;
            };
            if *index == wanted {
                arguments.push_str(fragment);
                return tell(at, id, Step::Arguments(fragment));
            }
        }
    }

    fn picture(&mut self, media_type: &str, fresh: &str, tell: Tell<'_>) {
        let format = match media_type {
            "image/jpeg" | "image/jpg" => "jpeg",
            "image/webp" => "webp",
            kind if kind.starts_with("image/") => "png",
            // Sound: no item of this API holds any.
            _ => return,
        };
        let at = self.add(Kind::Picture { format, data: None }, tell);
        let Some(Item { id, kind: Kind::Picture { data, .. }, .. }) = self.items.get_mut(at) else { return };
        tell(at, id, Step::Progress("response.image_generation_call.in_progress"));
        tell(at, id, Step::Progress("response.image_generation_call.generating"));
        *data = Some(fresh.to_owned());
        tell(at, id, Step::Progress("response.image_generation_call.completed"));
    }

    /// A web search the provider made has an item; of other blocks there is nothing to show.
    fn block(&mut self, json: &str, tell: Tell<'_>) {
        let Some(query) = accent::search(json) else { return };
        let at = self.add(Kind::Search { query }, tell);
        let Some(Item { id, .. }) = self.items.get(at) else { return };
        tell(at, id, Step::Progress("response.web_search_call.in_progress"));
        tell(at, id, Step::Progress("response.web_search_call.searching"));
        tell(at, id, Step::Progress("response.web_search_call.completed"));
    }
}

/// A part of a message being told.
struct Place<'a> {
    at: usize,
    id: &'a str,
    part: usize,
    content: &'a mut Content,
}

/// Whether nothing can follow in this item. Arguments are a JSON object: behind its end there is nothing.
fn is_whole(item: &Item) -> bool {
    match &item.kind {
        Kind::Call { arguments, .. } => {
            arguments.trim_ascii_end().ends_with('}')
                && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
        }
        Kind::Message(_) | Kind::Reasoning { .. } => false,
        Kind::Picture { .. } | Kind::Search { .. } => true,
    }
}

/// Tells the end of an item.
fn done(at: usize, item: &Item, tell: Tell<'_>) {
    let id = item.id.as_str();
    match &item.kind {
        Kind::Message(content) => {
            if let Some(last) = content.last() {
                part_done(at, id, content.len() - 1, last, tell);
            }
        }
        Kind::Reasoning { text: Some(text), .. } => {
            tell(at, id, Step::SummaryTextDone(text));
            tell(at, id, Step::SummaryDone(text));
        }
        Kind::Call { name, arguments, .. } => tell(at, id, Step::ArgumentsDone { name, arguments }),
        Kind::Reasoning { .. } | Kind::Picture { .. } | Kind::Search { .. } => {}
    }
    tell(at, id, Step::ItemDone(item));
}

fn part_done(at: usize, id: &str, part: usize, content: &Content, tell: Tell<'_>) {
    let end = match content {
        Content::Text { text, logprobs, .. } => PartStep::TextDone { text, logprobs },
        Content::Refusal(refusal) => PartStep::RefusalDone(refusal),
    };
    tell(at, id, Step::Part(part, end));
    tell(at, id, Step::Part(part, PartStep::Done(content)));
}
