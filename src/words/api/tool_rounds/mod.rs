//! Chats and responses whose MCP tools the gateway calls: what their bodies ask for, what each round with the model is sent, and what the
//! client gets of it.
//!
//! `tools: [{"type": "mcp", "server_label": "…"}]` without a `server_url`. Only text: `motion::tools` sends the rounds and calls the tools.
//! [`Rounds`] are fed with responses and results in turn, and make of them the next request and the client's one response.

mod chat;
mod chat_delta;
mod entry;
mod input_items;
mod responses;
mod responses_stream;
mod result_text;
mod tool;
mod usage_sum;

pub use chat::ChatConversation;
pub use entry::{McpEntries, McpEntry};
pub use responses::ResponsesConversation;
pub use result_text::RoundResult;
pub use tool::{ListedServer, RoundTool, RoundTools, without_entries};

use crate::error::Error;
use crate::json::Json;
use bytes::Bytes;

/// A call that the model makes of a tool of the gateway's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundCall {
    /// The model's id of the call.
    pub id: String,
    /// The place of the tool in [`RoundTools`].
    pub tool: usize,
    /// As the model wrote them: JSON text, if it is one.
    pub arguments: String,
    /// The id of the item by which the client was asked for its approval.
    pub approval: Option<String>,
}

/// What a provider that keeps responses goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseIds {
    /// Of the first round: the id that the client gets.
    pub shown: String,
    /// Of the last round, which has the whole conversation.
    pub last: String,
    /// What came after it: outputs of calls, as items separated by commas.
    pub unsent: String,
}

impl ResponseIds {
    /// As it is kept for the next request: JSON text (`responses::with_kept_items`).
    pub fn kept(&self) -> String {
        format!(
            "{{\"previous_response_id\":{},\"items\":[{}]}}",
            Json::from_value(&self.last).get(),
            self.unsent
        )
    }
}

/// One request of a client, round by round with the model.
pub trait Rounds: Send {
    /// What is to be called now: before the first round, what the client has approved; after a round, what the model has called.
    fn take_calls(&mut self) -> Vec<RoundCall>;

    /// Takes what a tool has responded. `out` gets what a streaming client gets of it.
    fn take_result(&mut self, call: &RoundCall, result: &RoundResult, out: &mut Vec<u8>);

    /// The body of the next round. `is_last`: the model may call nothing any more.
    fn request(&mut self, is_last: bool) -> Bytes;

    /// Takes the whole response of a round.
    ///
    /// # Errors
    /// It cannot be read.
    fn take_response(&mut self, body: &[u8]) -> Result<(), Error>;

    /// Takes an event of the stream of a round. `out` gets what the client gets of it.
    fn take_event(&mut self, name: Option<&str>, data: &[u8], out: &mut Vec<u8>);

    /// The stream of a round is complete.
    fn end_stream(&mut self);

    /// Whether no other round follows once the calls are done.
    fn is_over(&self) -> bool;

    /// The end of the client's stream.
    fn close_stream(&mut self, out: &mut Vec<u8>);

    /// A later round has no response: the error that ends the client's stream. `body`: the error as a response has it.
    fn fail_stream(&mut self, body: &[u8], out: &mut Vec<u8>);

    /// The client's whole response.
    fn take_whole(&mut self) -> Vec<u8>;

    /// The ids of a response of several rounds.
    fn response_ids(&self) -> Option<ResponseIds> {
        None
    }

    /// How much memory the texts of all rounds take, bytes.
    fn size(&self) -> usize;
}
