//! `POST /v1/messages/count_tokens`: Bedrock counts the tokens of a Converse request.
//!
//! Source: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html>.
//! Only some foundation models support it (Claude); for others the client gets Bedrock's refusal.

use super::converse::{Converse, RequestPurpose, write};
use crate::provider::adapter::{CallTarget, JsonAdapter};
use crate::provider::fitting::fit;
use crate::provider::translation_notes::TranslationNotes;
use serde::Deserialize;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::messages;
use words::api::operation::Operation;
use words::error::Error;

/// The token counting adapter.
#[derive(Debug)]
pub struct CountTokens;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenCount {
    input_tokens: Option<u64>,
}

impl JsonAdapter for CountTokens {
    fn write(
        &self,
        body: Option<&Body>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        let body = body.ok_or_else(|| Error::bad_request("The request body must be a JSON object."))?;
        let mut request = messages::read(body)?;
        fit(&mut request, Operation::CountTokens, &Converse, target.model, notes)?;
        write(request, target, RequestPurpose::TokenCount, notes).map(Some)
    }

    fn read(&self, response: &[u8], _: Option<&Body>, _: &str) -> Result<Vec<u8>, ProviderError> {
        let counted =
            serde_json::from_slice::<TokenCount>(response).ok().and_then(|counted| counted.input_tokens);
        counted
            .map(messages::count_response)
            .ok_or_else(|| ProviderError::unreadable("it holds no number of tokens"))
    }
}
