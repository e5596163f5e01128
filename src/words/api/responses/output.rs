//! Builds the `output` of a response from chat events, item by item, and reports each step.
//!
//! Whole responses and streams both use this builder, so they cannot differ. Only choice 0 counts: the API
//! has no `n`.
//!
//! ```text
//! Text "Hi"              ItemAdded(message)  Part(0, Added)  Part(0, Text "Hi")
//! ToolCall f             Part(0, TextDone)  Part(0, Done)  ItemDone(message)  ItemAdded(call)
//! Arguments "{}", end    Arguments "{}"  ArgumentsDone  ItemDone(call)
//! ```

use super::client_tools::{ClientTools, Declared, ToolForm};
use super::freeform::FreeformInput;
use super::from_chat;
use super::item::{Content, Item, Kind, Status};
use super::reasoning_token::ReasoningToken;
use crate::api::chat::Event;
use crate::json::Json;

/// One step of building the output; a stream has an event for each.
#[derive(Debug)]
pub(super) enum Step<'a> {
    ItemAdded(&'a Item),
    ItemDone(&'a Item),
    /// A step of the message part with this index.
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
    /// Of a freeform call.
    Input(&'a str),
    InputDone(&'a str),
    /// Progress of a built-in tool: the full name of the event.
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

/// Receives a step, with the index of its item in the output and the item's id.
pub(super) type StepSink<'t> = &'t mut dyn FnMut(usize, &str, Step<'_>);

#[derive(Debug)]
pub(super) struct Output {
    /// The suffix shared by all item ids.
    id: String,
    items: Vec<Item>,
    /// Indexes of the items not done yet. Apart from tool calls, only the last item can be among them.
    open: Vec<usize>,
    /// Text held back until its logprobs arrive, which come after it. Only used if the request wants
    /// logprobs.
    held: Option<String>,
    holds_text: bool,
    /// The tools that the provider got as functions of another name or form.
    client_tools: ClientTools,
    /// Where the conversation is compacted: the summary so far, which becomes the only item.
    summary: Option<String>,
}

impl Output {
    pub fn new(id: String, holds_text: bool, client_tools: ClientTools) -> Self {
        Self { id, items: Vec::new(), open: Vec::new(), held: None, holds_text, client_tools, summary: None }
    }

    /// The output is a summary of the conversation.
    #[must_use]
    pub(super) fn with_summary(mut self) -> Self {
        self.summary = Some(String::new());
        self
    }

    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Adds one event.
    pub fn apply(&mut self, event: &Event<'_>, sink: StepSink<'_>) {
        if let Some(summary) = &mut self.summary {
            if let Event::Text { choice: 0, text } = *event {
                summary.push_str(text);
            }
            return;
        }
        if !matches!(event, Event::Logprobs { .. }) {
            self.flush_held(&[], sink);
        }
        match *event {
            Event::Text { choice: 0, text } if !text.is_empty() => self.append_text(text, sink),
            Event::Refusal { choice: 0, text } if !text.is_empty() => self.append_refusal(text, sink),
            Event::Reasoning { choice: 0, text } if !text.is_empty() => self.append_reasoning(text, sink),
            Event::Signature { choice: 0, signature } if !signature.is_empty() => {
                self.attach_signature(signature, sink);
            }
            Event::Redacted { choice: 0, data } => {
                self.add_token(ReasoningToken::Redacted(data.to_owned().into()), sink);
            }
            Event::ToolCall { choice: 0, index, id, name, signature } => {
                if let Some(signature) = signature {
                    self.add_token(ReasoningToken::Call(signature.to_owned().into()), sink);
                }
                let call = self.call(index, id, name);
                self.add(call, sink);
            }
            Event::Arguments { choice: 0, index, fragment } if !fragment.is_empty() => {
                self.append_arguments(index, fragment, sink);
            }
            Event::Media { choice: 0, media_type, data } => self.add_image(media_type, data, sink),
            Event::Annotation { choice: 0, json } => self.add_annotation(json, sink),
            Event::Logprobs { choice: 0, json } => self.attach_logprobs(json, sink),
            Event::Block { choice: 0, json } => self.add_block(json, sink),
            _ => {}
        }
    }

    /// Adds searches of the web that the provider reports at the end, an item for each query.
    pub fn add_searches(&mut self, queries: Vec<String>, sink: StepSink<'_>) {
        self.flush_held(&[], sink);
        if self.summary.is_none() {
            queries.into_iter().for_each(|query| self.add_search(query, sink));
        }
    }

    /// The response has ended; `truncated` if it was cut off.
    pub fn finish(&mut self, truncated: bool, sink: StepSink<'_>) {
        if let Some(summary) = self.summary.take() {
            self.add(Kind::Compaction { summary }, sink);
        }
        self.flush_held(&[], sink);
        for at in std::mem::take(&mut self.open) {
            let Some(item) = self.items.get_mut(at) else { continue };
            item.status =
                if truncated && !is_complete(item) { Status::Incomplete } else { Status::Completed };
            finish_item(at, item, sink);
        }
    }

    /// A call as the client declared its tool.
    fn call(&self, index: u32, id: &str, function: &str) -> Kind {
        let call_id = id.to_owned();
        match self.client_tools.declared(function).cloned() {
            None => Kind::Call {
                index,
                call_id,
                namespace: None,
                name: function.to_owned(),
                arguments: String::new(),
            },
            Some(Declared { namespace, name, form: ToolForm::Function }) => {
                Kind::Call { index, call_id, namespace, name, arguments: String::new() }
            }
            Some(Declared { form: ToolForm::Search, .. }) => {
                Kind::ToolSearchCall { index, call_id, arguments: String::new() }
            }
            Some(Declared { namespace, name, form: ToolForm::Freeform }) => {
                Kind::FreeformCall { index, call_id, namespace, name, input: FreeformInput::default() }
            }
        }
    }

    /// Starts an item. Open items are finished first, except tool calls with incomplete arguments, because
    /// several calls may be streamed at once.
    fn add(&mut self, kind: Kind, sink: StepSink<'_>) -> usize {
        let items = &mut self.items;
        self.open.retain(|&at| {
            let Some(item) = items.get_mut(at) else { return false };
            let is_call = matches!(
                item.kind,
                Kind::Call { .. } | Kind::FreeformCall { .. } | Kind::ToolSearchCall { .. }
            );
            if is_call && !is_complete(item) {
                return true;
            }
            item.status = Status::Completed;
            finish_item(at, item, sink);
            false
        });
        let at = self.items.len();
        let id = kind.id(&self.id, at);
        let item = Item { id, status: Status::InProgress, kind };
        sink(at, &item.id, Step::ItemAdded(&item));
        self.items.push(item);
        self.open.push(at);
        at
    }

    /// The last item, if it is still open.
    fn last(&mut self) -> Option<(usize, &mut Item)> {
        let at = self.open.last().copied()?;
        let last = at + 1 == self.items.len();
        self.items.get_mut(at).filter(|_| last).map(|item| (at, item))
    }

    /// The open message, or a new one, with a part of the wanted kind at its end.
    fn open_part(
        &mut self,
        wanted: fn(&Content) -> bool,
        new: Content,
        sink: StepSink<'_>,
    ) -> Option<OpenPart<'_>> {
        if !matches!(self.last(), Some((_, Item { kind: Kind::Message(_), .. }))) {
            self.add(Kind::Message(Vec::new()), sink);
        }
        let (at, item) = self.last()?;
        let Item { id, kind: Kind::Message(content), .. } = item else { return None };
        if !content.last().is_some_and(wanted) {
            if let Some(last) = content.last() {
                finish_part(at, id, content.len() - 1, last, sink);
            }
            sink(at, id, Step::Part(content.len(), PartStep::Added(&new)));
            content.push(new);
        }
        let part = content.len() - 1;
        Some(OpenPart { at, id, part, content: content.last_mut()? })
    }

    fn open_text_part(&mut self, sink: StepSink<'_>) -> Option<OpenPart<'_>> {
        self.open_part(|content| matches!(content, Content::Text { .. }), Content::text(), sink)
    }

    fn append_text(&mut self, delta: &str, sink: StepSink<'_>) {
        if self.holds_text {
            self.held = Some(delta.to_owned());
            return;
        }
        self.write_text(delta, &[], sink);
    }

    /// Writes the held text together with its logprobs.
    fn flush_held(&mut self, logprobs: &[Json<'static>], sink: StepSink<'_>) {
        if let Some(delta) = self.held.take() {
            self.write_text(&delta, logprobs, sink);
        }
    }

    fn write_text(&mut self, delta: &str, fresh: &[Json<'static>], sink: StepSink<'_>) {
        let Some(OpenPart { at, id, part, content: Content::Text { text, logprobs, .. } }) =
            self.open_text_part(sink)
        else {
            return;
        };
        text.push_str(delta);
        logprobs.extend_from_slice(fresh);
        sink(at, id, Step::Part(part, PartStep::Text { delta, logprobs: fresh }));
    }

    /// Logprobs that the request did not ask for are dropped, as OpenAI does; a refusal has no member for
    /// them.
    fn attach_logprobs(&mut self, json: &str, sink: StepSink<'_>) {
        if self.held.is_some() {
            self.flush_held(&from_chat::logprobs(json), sink);
        }
    }

    fn append_refusal(&mut self, delta: &str, sink: StepSink<'_>) {
        let wanted = |content: &Content| matches!(content, Content::Refusal(_));
        let open = self.open_part(wanted, Content::Refusal(String::new()), sink);
        let Some(OpenPart { at, id, part, content: Content::Refusal(refusal) }) = open else { return };
        refusal.push_str(delta);
        sink(at, id, Step::Part(part, PartStep::Refusal(delta)));
    }

    /// An annotation without text before it starts a message, because text may follow.
    fn add_annotation(&mut self, json: &str, sink: StepSink<'_>) {
        let Some(json) = from_chat::annotation(json) else { return };
        let Some(OpenPart { at, id, part, content: Content::Text { annotations, .. } }) =
            self.open_text_part(sink)
        else {
            return;
        };
        sink(at, id, Step::Part(part, PartStep::Annotation { number: annotations.len(), json: &json }));
        annotations.push(json);
    }

    fn append_reasoning(&mut self, delta: &str, sink: StepSink<'_>) {
        // A signature ends a reasoning item.
        if !matches!(self.last(), Some((_, Item { kind: Kind::Reasoning { token: None, .. }, .. }))) {
            self.add(Kind::Reasoning { text: None, token: None }, sink);
        }
        let Some((at, Item { id, kind: Kind::Reasoning { text, .. }, .. })) = self.last() else { return };
        if text.is_none() {
            sink(at, id, Step::SummaryAdded);
        }
        text.get_or_insert_default().push_str(delta);
        sink(at, id, Step::Summary(delta));
    }

    /// A signature belongs to the reasoning just before it; without any it stands for reasoning the provider
    /// did not show. It may arrive in several fragments.
    fn attach_signature(&mut self, fresh: &str, sink: StepSink<'_>) {
        let last = match self.last() {
            Some((_, Item { kind: Kind::Reasoning { token, .. }, .. })) => Some(token),
            _ => None,
        };
        match last {
            Some(Some(ReasoningToken::Signature(signature))) => signature.to_mut().push_str(fresh),
            Some(token @ None) => *token = Some(ReasoningToken::Signature(fresh.to_owned().into())),
            _ => self.add_token(ReasoningToken::Signature(fresh.to_owned().into()), sink),
        }
    }

    /// Adds a reasoning item that consists of a token only.
    fn add_token(&mut self, token: ReasoningToken<'static>, sink: StepSink<'_>) {
        self.add(Kind::Reasoning { text: None, token: Some(token) }, sink);
    }

    fn append_arguments(&mut self, wanted: u32, fragment: &str, sink: StepSink<'_>) {
        for &at in self.open.iter().rev() {
            let Some(Item { id, kind, .. }) = self.items.get_mut(at) else { continue };
            match kind {
                Kind::Call { index, arguments, .. } if *index == wanted => {
                    arguments.push_str(fragment);
                    return sink(at, id, Step::Arguments(fragment));
                }
                Kind::ToolSearchCall { index, arguments, .. } if *index == wanted => {
                    return arguments.push_str(fragment);
                }
                Kind::FreeformCall { index, input, .. } if *index == wanted => {
                    let text = input.push(fragment);
                    if !text.is_empty() {
                        sink(at, id, Step::Input(text));
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    fn add_image(&mut self, media_type: &str, fresh: &str, sink: StepSink<'_>) {
        let format = match media_type {
            "image/jpeg" | "image/jpg" => "jpeg",
            "image/webp" => "webp",
            kind if kind.starts_with("image/") => "png",
            // Audio: no item of this API holds any.
            _ => return,
        };
        let at = self.add(Kind::Image { format, data: None }, sink);
        let Some(Item { id, kind: Kind::Image { data, .. }, .. }) = self.items.get_mut(at) else { return };
        sink(at, id, Step::Progress("response.image_generation_call.in_progress"));
        sink(at, id, Step::Progress("response.image_generation_call.generating"));
        *data = Some(fresh.to_owned());
        sink(at, id, Step::Progress("response.image_generation_call.completed"));
    }

    /// A web search by the provider becomes an item; other blocks have none and are dropped.
    fn add_block(&mut self, json: &str, sink: StepSink<'_>) {
        if let Some(query) = from_chat::search(json) {
            self.add_search(query, sink);
        }
    }

    fn add_search(&mut self, query: String, sink: StepSink<'_>) {
        let at = self.add(Kind::Search { query }, sink);
        let Some(Item { id, .. }) = self.items.get(at) else { return };
        sink(at, id, Step::Progress("response.web_search_call.in_progress"));
        sink(at, id, Step::Progress("response.web_search_call.searching"));
        sink(at, id, Step::Progress("response.web_search_call.completed"));
    }
}

/// The open part of a message.
struct OpenPart<'a> {
    at: usize,
    id: &'a str,
    part: usize,
    content: &'a mut Content,
}

/// Whether the item has all its content. The arguments of a call are a JSON object, so nothing can follow
/// its end.
fn is_complete(item: &Item) -> bool {
    match &item.kind {
        Kind::Call { arguments, .. } | Kind::ToolSearchCall { arguments, .. } => {
            arguments.trim_ascii_end().ends_with('}')
                && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
        }
        Kind::FreeformCall { input, .. } => input.is_complete(),
        Kind::Message(_) | Kind::Reasoning { .. } => false,
        Kind::Image { .. } | Kind::Search { .. } | Kind::Compaction { .. } => true,
    }
}

/// Reports the steps that end an item.
fn finish_item(at: usize, item: &mut Item, sink: StepSink<'_>) {
    let id = item.id.as_str();
    match &mut item.kind {
        Kind::Message(content) => {
            if let Some(last) = content.last() {
                finish_part(at, id, content.len() - 1, last, sink);
            }
        }
        Kind::Reasoning { text: Some(text), .. } => {
            sink(at, id, Step::SummaryTextDone(text));
            sink(at, id, Step::SummaryDone(text));
        }
        Kind::Call { name, arguments, .. } => sink(at, id, Step::ArgumentsDone { name, arguments }),
        Kind::FreeformCall { input, .. } => {
            let rest = input.finish();
            if !rest.is_empty() {
                sink(at, id, Step::Input(rest));
            }
            sink(at, id, Step::InputDone(input.text()));
        }
        Kind::Reasoning { .. } | Kind::Image { .. } | Kind::Search { .. } => {}
        Kind::ToolSearchCall { .. } | Kind::Compaction { .. } => {}
    }
    sink(at, id, Step::ItemDone(item));
}

fn finish_part(at: usize, id: &str, part: usize, content: &Content, sink: StepSink<'_>) {
    let end = match content {
        Content::Text { text, logprobs, .. } => PartStep::TextDone { text, logprobs },
        Content::Refusal(refusal) => PartStep::RefusalDone(refusal),
    };
    sink(at, id, Step::Part(part, end));
    sink(at, id, Step::Part(part, PartStep::Done(content)));
}
