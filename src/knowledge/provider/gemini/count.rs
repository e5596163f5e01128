//! `POST /v1/messages/count_tokens` through Gemini's `countTokens`.

use super::{Gemini, request};
use crate::provider::adapter::{CallTarget, JsonAdapter};
use crate::provider::fitting::fit;
use crate::provider::translation_notes::TranslationNotes;
use serde::Deserialize;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::messages;
use words::api::operation::Operation;
use words::error::Error;

/// The token counting adapter for one of Gemini's hosts.
#[derive(Debug)]
pub struct Count(pub Gemini);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenCount {
    total_tokens: Option<u64>,
}

impl JsonAdapter for Count {
    fn write(
        &self,
        body: Option<&Body>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        let body = body.ok_or_else(|| Error::bad_request("The request body must be a JSON object."))?;
        let mut request = messages::read(body)?;
        fit(&mut request, Operation::CountTokens, &self.0, target.model, notes)?;
        request::write_count(request, self.0, target.model, notes).map(Some)
    }

    fn read(&self, response: &[u8], _: Option<&Body>, _: &str) -> Result<Vec<u8>, ProviderError> {
        let counted =
            serde_json::from_slice::<TokenCount>(response).ok().and_then(|counted| counted.total_tokens);
        counted
            .map(messages::count_response)
            .ok_or_else(|| ProviderError::unreadable("it holds no number of tokens"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Call;
    use words::config::account::Account;

    #[test]
    fn each_host_counts_the_request_it_would_get() {
        let body = r#"{"model":"gemini-2.5-flash","system":"Be brief.","messages":[{"role":"user","content":"Hi"}]}"#;
        let body = Body::parse(body.into()).unwrap();
        let call = Call {
            operation: Operation::CountTokens,
            method: &http::Method::POST,
            path: "messages/count_tokens",
            query: None,
            model: Some("gemini-2.5-flash"),
            streamed: false,
        };
        let target = CallTarget {
            call: &call,
            account: &Account::default(),
            model: "gemini-2.5-flash",
            client_betas: None,
        };
        let sent = |gemini| {
            let bytes =
                Count(gemini).write(Some(&body), &target, &mut TranslationNotes::default()).unwrap().unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let request = r#""contents":[{"role":"user","parts":[{"text":"Hi"}]}],"systemInstruction":{"parts":[{"text":"Be brief."}]}"#;
        assert_eq!(sent(Gemini::Vertex), format!("{{{request}}}"));
        let wanted =
            format!(r#"{{"generateContentRequest":{{{request},"model":"models/gemini-2.5-flash"}}}}"#);
        assert_eq!(sent(Gemini::Studio), wanted);
        let read = |response: &[u8]| Count(Gemini::Studio).read(response, None, "");
        assert_eq!(read(br#"{"totalTokens":12,"x":[]}"#).unwrap(), br#"{"input_tokens":12}"#);
        assert_eq!(read(b"{}").unwrap_err().status, 502);
    }

    #[test]
    fn what_is_counted_is_what_the_chat_sends() {
        let body = serde_json::json!({"model": "gemini-2.5-flash", "max_tokens": 9,
            "system": [{"type": "text", "text": "x-anthropic-billing-header: cch=1;"}, {"type": "text", "text": "Be brief."}],
            "tools": [{"name": "read", "input_schema": {"type": "object"}, "defer_loading": true}],
            "messages": [{"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "ToolSearch", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a",
                    "content": [{"type": "tool_reference", "tool_name": "read"}]}]}]});
        let body = Body::parse(body.to_string().into()).unwrap();
        let call = Call {
            operation: Operation::CountTokens,
            method: &http::Method::POST,
            path: "messages/count_tokens",
            query: None,
            model: Some("gemini-2.5-flash"),
            streamed: false,
        };
        let account = Account::default();
        let target =
            CallTarget { call: &call, account: &account, model: "gemini-2.5-flash", client_betas: None };
        for gemini in [Gemini::Vertex, Gemini::Studio] {
            let mut notes = TranslationNotes::default();
            let sent = Count(gemini).write(Some(&body), &target, &mut notes).unwrap().unwrap();
            let sent = String::from_utf8(sent).unwrap();
            assert!(sent.contains("Found, and can be called now: read."), "{sent}");
            assert!(sent.contains("Be brief.") && !sent.contains("billing-header"), "{sent}");
        }
    }
}
