//! The calls of the client's functions in one choice: whole ones, and ones that are streamed in pieces.
//!
//! Vertex AI streams the arguments of a call when the client asks for it. Only the first piece has the name;
//! the last one may be empty or may not come at all, so a call ends with the next part at the latest:
//!
//! ```text
//! {"functionCall":{"name":"f","willContinue":true}}                                       ToolCall f
//! {"functionCall":{"partialArgs":[{"jsonPath":"$.a","boolValue":true}],"willContinue":true}}
//! {"functionCall":{}}                                                                     Arguments {"a":true}
//! ```

use super::compact;
use super::partial_args::PartialArgs;
use words::api::chat::{Event, EventSink, ProviderError};
use words::api::gemini::wire::GeminiCall;

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    count: u32,
    open: Option<Open>,
}

/// A call whose arguments are not complete.
#[derive(Debug)]
struct Open {
    index: u32,
    args: PartialArgs,
    /// Arguments that came whole.
    whole: Option<String>,
    signature: Option<String>,
}

impl Calls {
    /// Takes one `functionCall` part.
    ///
    /// # Errors
    /// The call has no name, or its pieces cannot be put together.
    pub fn take(
        &mut self,
        choice: u32,
        call: &GeminiCall<'_>,
        signature: Option<&str>,
        sink: EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let args = call.args.as_ref().filter(|args| !args.is_null());
        let pieces = call.partial_args.as_deref().unwrap_or_default();
        let name = call.name.as_deref().filter(|name| !name.is_empty());
        match name {
            Some(name) => {
                self.close(choice, sink);
                let index = self.count;
                self.count = self.count.saturating_add(1);
                let id = call.id.as_deref().unwrap_or_default();
                sink(Event::ToolCall { choice, index, id, name, signature });
                self.open = Some(Open { index, args: PartialArgs::default(), whole: None, signature: None });
            }
            None if self.open.is_some() => {}
            // The empty last piece of a call that is closed already.
            None if args.is_none_or(|args| args.get() == "{}") && pieces.is_empty() => return Ok(()),
            None => return Err(ProviderError::unreadable("a function call has no name")),
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if name.is_none() {
            open.signature = open.signature.take().or(signature.map(str::to_owned));
        }
        if let Some(args) = args {
            open.whole = Some(compact(args.get()).into_owned());
        }
        if !pieces.iter().all(|piece| open.args.take(piece)) {
            return Err(ProviderError::unreadable("the streamed arguments of a function call are malformed"));
        }
        if call.will_continue != Some(true) {
            self.close(choice, sink);
        }
        Ok(())
    }

    /// Ends the open call: nothing more of it follows.
    pub fn close(&mut self, choice: u32, sink: EventSink<'_>) {
        let Some(open) = self.open.take() else { return };
        let streamed = open.args.json();
        let fragment = open.whole.filter(|_| streamed == "{}").unwrap_or(streamed);
        sink(Event::Arguments { choice, index: open.index, fragment: &fragment });
        if let Some(signature) = open.signature {
            sink(Event::Signature { choice, signature: &signature });
        }
    }
}
