//! How a client's chat is read, and what is changed in it before a provider's adapter writes it: what no provider takes, and what this one does not.
//!
//! One list, so that whoever writes a chat for a provider (a call, a count of tokens, a test) sends the same.

use super::adapter::ChatAdapter;
use super::claude_code;
use super::conversation;
use super::deferred_tools;
use super::encrypted_thinking;
use super::tool_names::ToolNames;
use super::translation_notes::TranslationNotes;
use words::api::body::Body;
use words::api::chat::ChatRequest;
use words::api::operation::Operation;
use words::error::Error;

/// Reads a client's chat as it is judged and written; `None` for an operation that is no chat.
///
/// # Errors
/// 400 for a body that is no chat, or has too many values.
pub(super) fn read<'b>(
    operation: Operation,
    body: &'b Body,
    provider: &str,
    strict: bool,
) -> Option<Result<ChatRequest<'b>, Error>> {
    let read = operation.translator()?.read;
    Some(body.check_values(provider).and_then(|()| read(body)).map(|mut request| {
        // Thinking requires `strict_std_compliance` false (`docs/translation.md`).
        if strict && operation == Operation::ChatCompletions && request.reasoning.thinking.take().is_some() {
            request.warnings.push("thinking: dropped, it requires strict_std_compliance false".to_owned());
        }
        request
    }))
}

/// Fits a request of the client's operation for the adapter and the model. Returns the names of tools that were changed.
///
/// # Errors
/// 400 for a conversation that cannot be repaired.
pub(super) fn fit(
    request: &mut ChatRequest<'_>,
    operation: Operation,
    chat: &dyn ChatAdapter,
    model: &str,
    notes: &mut TranslationNotes,
) -> Result<Option<ToolNames>, Error> {
    if !chat.defers_tools() {
        deferred_tools::declare(request, chat.tool_names(), notes);
    }
    if matches!(operation, Operation::Messages | Operation::CountTokens) {
        claude_code::leave_out(&mut request.messages, notes);
    }
    conversation::repair(&mut request.messages, notes)?;
    if chat.operation() != Operation::Responses {
        encrypted_thinking::leave_out(&mut request.messages, notes);
    }
    chat.turn_order(model).apply(&mut request.messages, operation == Operation::ChatCompletions, notes);
    chat.call_ids().apply(&mut request.messages);
    Ok(ToolNames::shorten(request, chat.tool_names()))
}
