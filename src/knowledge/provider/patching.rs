//! Applies a [`ResponsePatch`] to a response: to each stream event, or to the whole body. What the patch
//! leaves alone keeps every byte, including comments and unusual line ends.

use super::adapter::ResponsePatch;
use super::openai_chat::restore_names;
use super::tool_names::ToolNames;
use std::sync::Arc;
use words::api::sse::{Event, SseParser, write_event};

/// The largest whole response held, in bytes; a larger one passes unpatched.
const MAX_HELD: usize = 64 << 20;

/// Changes nothing: for a response in which only names of tools are changed back.
#[derive(Debug)]
pub(super) struct Unpatched;

impl ResponsePatch for Unpatched {
    fn patch(&self, _data: &[u8], _streamed: bool) -> Option<Vec<u8>> {
        None
    }
}

/// The patching of one response.
#[derive(Debug)]
pub(super) struct Patcher {
    patches: Patches,
    form: Form,
}

/// What is changed: the provider's deviations, then the names of tools.
#[derive(Debug)]
struct Patches {
    patch: &'static dyn ResponsePatch,
    /// Of a chat.
    tool_names: Option<Arc<ToolNames>>,
}

impl Patches {
    fn apply(&self, data: &[u8], streamed: bool) -> Option<Vec<u8>> {
        let patched = self.patch.patch(data, streamed);
        let names = self.tool_names.as_deref();
        names.and_then(|names| restore_names(patched.as_deref().unwrap_or(data), names)).or(patched)
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
        Self { patches: Patches { patch, tool_names }, form }
    }

    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &mut self.form {
            Form::Stream(parser) => {
                let run = parser.push(bytes);
                if run.is_oversized() {
                    out.extend_from_slice(run.bytes());
                } else {
                    run.events().for_each(|event| write(&self.patches, &event, out));
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
                parser.finish().events().for_each(|event| write(&self.patches, &event, out));
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
fn write(patches: &Patches, event: &Event<'_>, out: &mut Vec<u8>) {
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
