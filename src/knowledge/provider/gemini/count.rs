//! `POST /v1/messages/count_tokens` through Gemini's `countTokens`.

use super::{Gemini, request};
use crate::provider::adapter::{CallTarget, JsonAdapter};
use crate::provider::conversation;
use crate::provider::tool_names::{NameRule, ToolNames};
use crate::provider::translation_notes::TranslationNotes;
use serde::Deserialize;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::messages;
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
        conversation::repair(&mut request.messages, notes)?;
        ToolNames::shorten(&mut request, NameRule::GEMINI);
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
    use words::api::operation::Operation;
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
}
