//! Applies a [`ResponsePatch`] to a response: to each stream event, or to the whole body. What the patch
//! leaves alone keeps every byte, including comments and unusual line ends.

use super::adapter::{CallTarget, ResponsePatch};
use super::embeddings::Base64;
use super::openai_chat::{StreamAssembly, restore_names};
use super::tool_names::ToolNames;
use std::sync::Arc;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::sse::{SseEvent, SseParser, write_event};

/// The largest whole response held, in bytes; a larger one passes unpatched.
const MAX_HELD: usize = 64 << 20;

/// For a chat in which only names of tools are changed back, and its calls are numbered.
#[derive(Debug)]
struct CallsOnly;

impl ResponsePatch for CallsOnly {
    fn patch(&self, _data: &[u8], _streamed: bool) -> Option<Vec<u8>> {
        None
    }

    fn corrects_calls(&self) -> bool {
        true
    }
}

/// What corrects the response of a call that passes on, given the provider's own patch. `has_names`: names of tools are changed back.
pub(super) fn choose(
    patch: Option<&'static dyn ResponsePatch>,
    target: &CallTarget<'_>,
    body: Option<&Body>,
    has_names: bool,
) -> Option<&'static dyn ResponsePatch> {
    let call = target.call;
    let is_base64 = |body: &Body| body.text("encoding_format").as_deref() == Some("base64");
    if call.operation == Operation::Embeddings && body.is_some_and(is_base64) {
        return Some(Base64::before(patch));
    }
    // Some engine may run at a custom host of a provider whose own responses need no patch.
    let may_be_engine = call.operation == Operation::ChatCompletions
        && call.streamed
        && target.account.custom_host.is_some()
        && body.is_some_and(|body| body.raw("tools").is_some());
    patch.or_else(|| (has_names || may_be_engine).then_some(&CallsOnly as &'static dyn ResponsePatch))
}

/// The patching of one response.
#[derive(Debug)]
pub(super) struct Patcher {
    patches: Patches,
    form: Form,
}

/// What is changed: the provider's deviations, then what its stream is put together by, then the names of tools.
#[derive(Debug)]
struct Patches {
    patch: &'static dyn ResponsePatch,
    /// Of a chat's stream.
    assembly: Option<StreamAssembly>,
    /// Of a chat.
    tool_names: Option<Arc<ToolNames>>,
}

impl Patches {
    fn apply(&mut self, data: &[u8], streamed: bool) -> Option<Vec<u8>> {
        let mut changed = self.patch.patch(data, streamed);
        if let Some(assembly) = &mut self.assembly {
            changed = assembly.correct(changed.as_deref().unwrap_or(data)).or(changed);
        }
        if let Some(names) = &self.tool_names {
            changed = restore_names(changed.as_deref().unwrap_or(data), names).or(changed);
        }
        changed
    }
}

#[derive(Debug)]
enum Form {
    /// An event too large for the parser passes unpatched.
    Stream(SseParser),
    Whole(Vec<u8>),
    /// A whole response that is too large to hold: the rest passes.
    Passing,
}

impl Patcher {
    pub fn new(
        patch: &'static dyn ResponsePatch,
        tool_names: Option<Arc<ToolNames>>,
        streamed: bool,
    ) -> Self {
        let form = if streamed { Form::Stream(SseParser::default()) } else { Form::Whole(Vec::new()) };
        let assembly = (streamed && patch.corrects_calls()).then(StreamAssembly::default);
        Self { patches: Patches { patch, assembly, tool_names }, form }
    }

    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &mut self.form {
            Form::Stream(parser) => {
                let run = parser.push(bytes);
                if run.is_oversized() {
                    out.extend_from_slice(run.bytes());
                } else {
                    run.events().for_each(|event| write(&mut self.patches, &event, out));
                }
            }
            Form::Whole(held) => {
                held.extend_from_slice(bytes);
                if held.len() > MAX_HELD {
                    out.append(held);
                    self.form = Form::Passing;
                }
            }
            Form::Passing => out.extend_from_slice(bytes),
        }
    }

    pub fn finish(&mut self, out: &mut Vec<u8>) {
        match &mut self.form {
            Form::Stream(parser) => {
                parser.finish().events().for_each(|event| write(&mut self.patches, &event, out));
            }
            Form::Whole(held) => match self.patches.apply(held, false) {
                Some(patched) => out.extend_from_slice(&patched),
                None => out.append(held),
            },
            Form::Passing => {}
        }
    }
}

/// Writes one event, patched where the patch changes its data.
fn write(patches: &mut Patches, event: &SseEvent<'_>, out: &mut Vec<u8>) {
    match event.data.as_deref().and_then(|data| patches.apply(data, true)) {
        Some(patched) => write_event(out, event.name, &patched),
        None => out.extend_from_slice(event.raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Shout;

    impl ResponsePatch for Shout {
        fn patch(&self, data: &[u8], _streamed: bool) -> Option<Vec<u8>> {
            (data == b"low").then(|| b"LOW".to_vec())
        }
    }

    #[test]
    fn unpatched_events_keep_every_byte_at_any_chunk_size() {
        let text = ": hello\r\n\r\ndata: a\n\nevent: x\r\ndata:low\r\n\r\ndata: b\n\n\ndata: end";
        let wanted = ": hello\r\n\r\ndata: a\n\nevent: x\ndata: LOW\n\ndata: b\n\n\ndata: end";
        for size in 1..text.len() {
            let mut patcher = Patcher::new(&Shout, None, true);
            let mut out = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                patcher.push(chunk, &mut out);
            }
            patcher.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "{size}");
        }
        let mut patcher = Patcher::new(&Shout, None, false);
        let mut out = Vec::new();
        patcher.push(b"lo", &mut out);
        patcher.push(b"w", &mut out);
        patcher.finish(&mut out);
        assert_eq!(out, b"LOW");
    }
}
