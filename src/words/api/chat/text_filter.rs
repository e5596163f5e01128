//! Filters over the decoded text of a response, on its way from a decoder to an encoder.
//!
//! A filter sees the text alone, the same whether the response is whole or streamed and whatever its dialect is. It
//! does not see reasoning: the text of a choice is one text, whatever stands between its parts. The arguments of a call are
//! no part of it: a filter that reads calls sees each of them when it is complete.
//!
//! Example: a filter that replaces a word must see all of it, and a stream may cut it anywhere.
//!
//! | text of the response | sent on | because |
//! |---|---|---|
//! | "the se" | "the " | "se" may be the beginning of "secret": it is held back |
//! | "cret is 7" | "*** is 7" | the word is complete |
//! | (the end of the choice) | what is still held back | [`TextFilter::finish`] |
//!
//! Filters are applied in the rewriter, before a resumed response is aligned with the first, so that what is compared, kept and
//! counted is what the client gets. A chat or message that would pass unchanged is decoded and encoded again in its own dialect
//! for a filter. Responses and completions that would pass unchanged keep their provider's shape (`rewriter/own_dialect`): each
//! text is replaced where it stands. What is no chat has no text: the attempt is refused with 501 before it is sent. A denial
//! before anything was sent is an outcome that the plan sees; later it ends the stream with an error event, stops the provider,
//! and is not resumed. Events between two texts of a choice wait behind text that is held back (`text_filters/waiting`), up to 1
//! MiB.

use crate::error::Error;
use std::fmt::Debug;

/// Added to the number of a choice of a decoded chat: the number of its refusal, where the client gets that in a place of its own. The text
/// of choice 2 has the number 2, its refusal 130. A client that gets refusals as text has them in the text of the choice.
pub const REFUSALS: u32 = 128;

/// One filter over the text of one response.
pub trait TextFilter: Send + Sync + Debug {
    /// Takes the next text of a choice, which is never empty, and appends to `out` what goes on to the client. What it
    /// does not append is held back or left out.
    fn text(&mut self, choice: u32, text: &str, out: &mut String) -> FilterFlow;

    /// How many bytes of the text that it was given it holds back: what follows that text in the response waits for it.
    fn held(&self, choice: u32) -> usize;

    /// The text of a choice ends: appends what was held back. Called once for every choice that ends, also for one that has no
    /// text. A provider may send more text of the same choice all the same. Not called when a response breaks: held text is
    /// then lost, as if the provider had not sent it.
    fn finish(&mut self, choice: u32, out: &mut String) -> FilterFlow;

    /// The text of `choice`, which is new, goes on where that of `before` stands: both are parts of one text.
    fn follow(&mut self, choice: u32, before: u32);

    /// Whether it looks at the arguments of calls. They are held back then until the call is complete.
    fn reads_calls(&self) -> bool {
        false
    }

    /// Takes the arguments of one call, which are complete: JSON, or the text of a freeform tool. It may change them.
    fn arguments(&mut self, _choice: u32, _arguments: &mut String) -> FilterFlow {
        FilterFlow::Continue
    }
}

/// What follows a filter.
#[derive(Debug)]
pub enum FilterFlow {
    Continue,
    /// The client gets no more of the response, and this error. What the filter appended to `out` in the same call is
    /// not sent.
    Deny(Error),
}
