//! Compacting a conversation at a provider: which ones do it themselves, and what is different where the model writes the summary.
//!
//! What the request and the response look like is `words::api::responses`. On paths that are only passed on nothing is translated, so
//! there a provider without it gets nothing.

use super::adapter::Adapter;
use super::{Call, Provider};
use http::Method;
use words::api::body::{Body, Edit};
use words::api::chat::{Decoder, Event, EventSink, Finish, ProviderError};
use words::api::operation::Operation;
use words::api::responses;
use words::config::account::Account;
use words::error::Error;

/// The adapter for a call. A conversation whose input requests to compact it goes as a chat where the provider does not know such items.
pub(super) fn adapter(
    provider: &dyn Provider,
    call: &Call<'_>,
    account: &Account,
    body: Option<&Body>,
) -> Result<Adapter, Error> {
    let adapter = provider.adapter(call, account)?;
    let is_native = matches!(adapter, Adapter::Passthrough(_)) && call.operation == Operation::Responses;
    let triggers = |body: &Body| responses::compacts(Operation::Responses, body);
    if !is_native || provider.takes_compaction_triggers() || !body.is_some_and(triggers) {
        return Ok(adapter);
    }
    // No vendor with a Responses API has Gemini's too: this is how it chats.
    let chat = Call { operation: Operation::GenerateContent, ..*call };
    provider.adapter(&chat, account)
}

/// On a path that is only passed on, a provider that compacts nothing would get a conversation, with its key, at a path that it does
/// not have.
///
/// # Errors
/// 400 for a conversation that is to be compacted there.
pub fn check(provider: &dyn Provider, call: &Call<'_>, account: &Account) -> Result<(), Error> {
    if *call.method != Method::POST
        || call.path != "responses/compact"
        || has_compaction(provider, call, account)
    {
        return Ok(());
    }
    let id = provider.id();
    let message = format!(
        "{id} compacts no conversations. Send it to /v1/responses/compact, where the gateway has the model write the summary, or \
         choose a provider that compacts (openai, azure-openai)."
    );
    Err(Error::bad_request(message).with_provider(id))
}

/// Whether the provider compacts conversations itself.
fn has_compaction(provider: &dyn Provider, call: &Call<'_>, account: &Account) -> bool {
    let compact = Call { operation: Operation::ResponsesCompact, ..*call };
    matches!(provider.adapter(&compact, account), Ok(Adapter::Passthrough(_)))
}

/// Summaries that this gateway wrote, as messages: a provider with a Responses API of its own could not decrypt them.
pub(super) fn edit(operation: Operation, body: &Body) -> Option<Edit<'static>> {
    use Operation as O;
    let has_input = matches!(operation, O::Responses | O::ResponsesCompact | O::ResponsesInputTokens);
    let input = if has_input { responses::input_with_messages(body) } else { None };
    input.map(|input| Edit::Set("input", input.into()))
}

/// The decoder of a response. `request`: the client's, where it was translated. One without text is no summary but a failure.
pub(super) fn decoder(
    operation: Operation,
    request: Option<&Body>,
    decoder: Box<dyn Decoder>,
) -> Box<dyn Decoder> {
    if request.is_some_and(|request| responses::compacts(operation, request)) {
        let is_path = operation == Operation::ResponsesCompact;
        return Box::new(SummaryDecoder { decoder, state: State { is_path, ..State::default() } });
    }
    decoder
}

/// Another decoder, watched for text.
#[derive(Debug)]
struct SummaryDecoder {
    decoder: Box<dyn Decoder>,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    /// The response is that of the path, which has no status that could say that the summary is incomplete.
    is_path: bool,
    has_text: bool,
    has_failed: bool,
}

impl State {
    fn take(&mut self, event: Event<'_>, sink: EventSink<'_>) {
        match &event {
            _ if self.has_failed => return,
            Event::Text { choice: 0, text } => self.has_text |= !text.trim().is_empty(),
            Event::Finish { choice: 0, reason, .. } => {
                if let Some(message) = self.failure(*reason) {
                    self.has_failed = true;
                    return sink(Event::Error(&ProviderError::new(502, message)));
                }
            }
            _ => {}
        }
        sink(event);
    }

    /// Why what was written until the model finished is no summary. A client of the path drops the conversation for what it gets.
    fn failure(&self, reason: Finish) -> Option<&'static str> {
        match reason {
            _ if !self.has_text => {
                Some("The model wrote no summary of the conversation. Send the request again.")
            }
            Finish::Length if self.is_path => Some(
                "The summary of the conversation was cut off. Send the request again with more max_output_tokens.",
            ),
            Finish::ContentFilter if self.is_path => {
                Some("The summary of the conversation was cut off by the provider's content filter.")
            }
            _ => None,
        }
    }
}

impl Decoder for SummaryDecoder {
    fn push(&mut self, bytes: &[u8], sink: EventSink<'_>) {
        let state = &mut self.state;
        self.decoder.push(bytes, &mut |event| state.take(event, sink));
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        let state = &mut self.state;
        self.decoder.finish(&mut |event| state.take(event, sink));
    }

    fn has_finish_reason(&self) -> bool {
        !self.state.has_failed && self.decoder.has_finish_reason()
    }
}

#[cfg(test)]
mod tests {
    use super::super::adapter::Adapter;
    use super::super::find;
    use super::super::translation::{PrepareOptions, PreparedRequest, prepare};
    use super::super::translation_notes::TranslationNotes;
    use super::*;
    use serde_json::{Value, json};

    const OPTIONS: PrepareOptions<'static> = PrepareOptions {
        strict: false,
        stream_usage: false,
        client_betas: None,
        learned: None,
        prompt_cache: None,
    };

    fn call<'a>(operation: Operation, model: &'a str) -> Call<'a> {
        let path = if operation == Operation::Responses { "responses" } else { "responses/compact" };
        Call { operation, method: &Method::POST, path, query: None, model: Some(model), streamed: false }
    }

    fn prepared(operation: Operation, provider: &str, model: &str, input: Value) -> PreparedRequest {
        let body = json!({"model": model, "input": input});
        let body = Body::parse(body.to_string().into()).unwrap();
        let account = Account::default();
        let mut notes = TranslationNotes::default();
        prepare(find(provider).unwrap(), &call(operation, model), &account, Some(&body), OPTIONS, &mut notes)
            .unwrap()
    }

    #[test]
    fn only_those_that_compact_get_the_path_and_the_trigger() {
        let trigger = || json!([{"role": "user", "content": "tea"}, {"type": "compaction_trigger"}]);
        for (provider, has_path, has_trigger) in [
            ("openai", true, true),
            ("x-ai", true, false),
            ("openrouter", false, false),
            ("deepseek", false, false),
            ("anthropic", false, false),
            ("google", false, false),
            ("cohere", false, false),
            ("mistral-ai", false, false),
        ] {
            let compacted = prepared(Operation::ResponsesCompact, provider, "m", json!("tea"));
            assert_eq!(
                compacted.path.ends_with("responses/compact"),
                has_path,
                "{provider} {}",
                compacted.path
            );
            assert_eq!(compacted.body.is_none(), has_path, "{provider}");
            let triggered = prepared(Operation::Responses, provider, "m", trigger());
            assert_eq!(triggered.path.ends_with("responses"), has_trigger, "{provider} {}", triggered.path);
            let plain = prepared(Operation::Responses, provider, "m", json!("tea"));
            let is_native = matches!(
                find(provider).unwrap().adapter(&call(Operation::Responses, "m"), &Account::default()),
                Ok(Adapter::Passthrough(_))
            );
            assert_eq!(plain.body.is_none(), is_native, "{provider}");
        }
    }

    #[test]
    fn a_summary_of_ours_goes_to_openai_as_a_message() {
        let items =
            json!([{"type": "compaction", "id": "cmp_1", "encrypted_content": "turnpike:summary:tea"}]);
        let body = prepared(Operation::Responses, "openai", "gpt-5.5", items).body.unwrap();
        let sent: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(sent.pointer("/input/0/role"), Some(&json!("user")));
        assert!(sent.pointer("/input/0/content").and_then(Value::as_str).unwrap().ends_with("tea"));
        let theirs = json!([{"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAAB"}]);
        assert!(prepared(Operation::Responses, "openai", "gpt-5.5", theirs).body.is_none());
    }

    #[test]
    fn a_summary_without_text_or_end_is_a_failure() {
        let read = |operation, stop: &str, content: &Value| {
            let input = match operation {
                Operation::Responses => json!([{"type": "compaction_trigger"}]),
                _ => json!("tea"),
            };
            let translation = prepared(operation, "anthropic", "claude-sonnet-4-5", input).translation;
            let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "c", "stop_reason": stop,
                "content": content, "usage": {"input_tokens": 1, "output_tokens": 1}});
            let mut rewriter = translation.unwrap().rewriter(false, "1", 0);
            let mut out = Vec::new();
            rewriter.push(message.to_string().as_bytes(), &mut out);
            rewriter.finish(&mut out);
            let error = rewriter.error().map(|error| error.status);
            (serde_json::from_slice::<Value>(&out).unwrap_or_default(), error)
        };
        let path = Operation::ResponsesCompact;
        let text = json!([{"type": "text", "text": "They want tea."}]);
        let (response, error) = read(path, "end_turn", &text);
        assert_eq!((response["object"].as_str(), error), (Some("response.compaction"), None));
        assert_eq!(response["output"][1]["encrypted_content"], "turnpike:summary:They want tea.");
        let (_, error) =
            read(path, "end_turn", &json!([{"type": "tool_use", "id": "t", "name": "f", "input": {}}]));
        assert_eq!(error, Some(502));
        for stop in ["max_tokens", "refusal"] {
            assert_eq!(read(path, stop, &text).1, Some(502), "{stop}");
        }
        // A response has a status for it.
        let (response, error) = read(Operation::Responses, "max_tokens", &text);
        assert_eq!((response["status"].as_str(), error), (Some("incomplete"), None));
    }
}
