//! Gemini's types, each once for all four directions: this dialect reads them in requests of clients and writes them
//! into responses, `provider::gemini` writes them into requests and reads them in responses.
//!
//! Absent members are not written. Both spellings of a member are read. What passes as it is stays [`Json`], with what
//! one side alone looks into (code, results of functions).
//! Sources: <https://ai.google.dev/api/caching#Content>, <https://ai.google.dev/api/generate-content>,
//! <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/Content#PartialArg>.

use crate::json::{Json, JsonStr};
use serde::{Deserialize, Serialize};

/// `Candidate`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiCandidate<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub content: Option<GeminiContent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<JsonStr<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_message: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_ratings: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub citation_metadata: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grounding_metadata: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_context_metadata: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs_result: Option<GeminiLogprobs<'a>>,
}

/// `Content` of a response.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct GeminiContent<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<GeminiPart<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<JsonStr<'a>>,
}

/// `Part`: one kind of data, with what it may have besides.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiPart<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub text: Option<JsonStr<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought: Option<bool>,
    #[serde(alias = "inline_data", skip_serializing_if = "Option::is_none")]
    pub inline_data: Option<GeminiBlob<'a>>,
    #[serde(alias = "function_call", skip_serializing_if = "Option::is_none")]
    pub function_call: Option<GeminiCall<'a>>,
    #[serde(alias = "function_response", skip_serializing_if = "Option::is_none")]
    pub function_response: Option<Json<'a>>,
    #[serde(alias = "executable_code", skip_serializing_if = "Option::is_none")]
    pub executable_code: Option<Json<'a>>,
    #[serde(alias = "code_execution_result", skip_serializing_if = "Option::is_none")]
    pub code_execution_result: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_response: Option<Json<'a>>,
    #[serde(alias = "file_data", skip_serializing_if = "Option::is_none")]
    pub file_data: Option<Json<'a>>,
    #[serde(alias = "thought_signature", skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<JsonStr<'a>>,
}

/// `Blob`, and `FileData`: a file, by its data or by its address.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiBlob<'a> {
    #[serde(borrow, alias = "mime_type", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<JsonStr<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<JsonStr<'a>>,
    #[serde(alias = "file_uri", skip_serializing_if = "Option::is_none")]
    pub file_uri: Option<JsonStr<'a>>,
    #[serde(alias = "display_name", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<JsonStr<'a>>,
}

/// `FunctionCall`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiCall<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub id: Option<JsonStr<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<JsonStr<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Json<'a>>,
    /// Pieces of the arguments, where they are streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_args: Option<Vec<GeminiPartialArg<'a>>>,
    /// More pieces of this call follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub will_continue: Option<bool>,
}

/// `PartialArg`: a piece of a call's arguments.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiPartialArg<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub json_path: Option<JsonStr<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string_value: Option<JsonStr<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_value: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bool_value: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub will_continue: Option<bool>,
}

/// `LogprobsResult`: the chosen tokens, and at each place those that the model considered.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiLogprobs<'a> {
    #[serde(borrow)]
    pub chosen_candidates: Option<Vec<GeminiToken<'a>>>,
    pub top_candidates: Option<Vec<GeminiTopTokens<'a>>>,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct GeminiTopTokens<'a> {
    #[serde(borrow)]
    pub candidates: Option<Vec<GeminiToken<'a>>>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiToken<'a> {
    #[serde(borrow)]
    pub token: Option<JsonStr<'a>>,
    pub log_probability: Option<Json<'a>>,
}

/// `GroundingMetadata`: pages, and what they support in the text.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiGrounding<'a> {
    #[serde(borrow)]
    pub grounding_chunks: Option<Vec<GeminiSource<'a>>>,
    pub grounding_supports: Option<Vec<GeminiSupport<'a>>>,
}

/// `GroundingChunk`: it has one of these.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiSource<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub web: Option<GeminiPage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieved_context: Option<GeminiPage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maps: Option<GeminiPage<'a>>,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct GeminiPage<'a> {
    #[serde(borrow)]
    pub uri: Option<JsonStr<'a>>,
    pub title: Option<JsonStr<'a>>,
}

/// `GroundingSupport`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiSupport<'a> {
    #[serde(borrow)]
    pub segment: Option<GeminiSegment<'a>>,
    pub grounding_chunk_indices: Option<Vec<usize>>,
}

/// `Segment`: a place in the text, in bytes.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiSegment<'a> {
    pub start_index: Option<usize>,
    pub end_index: Option<usize>,
    #[serde(borrow)]
    pub text: Option<JsonStr<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_read_back<'a, T: Deserialize<'a> + Serialize>(json: &'a str) {
        let value: T = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), json);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for part in [
            "{}",
            r#"{"text":"a\nb","thought":true,"thoughtSignature":"s"}"#,
            r#"{"inlineData":{"mimeType":"image/png","data":"AA==","displayName":"n"}}"#,
            r#"{"functionCall":{"id":"1","name":"f","args":{"a":1.0,"b":12345678901234567890}}}"#,
            r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"x","willContinue":true},{"jsonPath":"$.b","numberValue":-0.10},{"boolValue":false}],"willContinue":true}}"#,
            r#"{"functionResponse":{"name":"f","response":{"output":1.0}}}"#,
            r#"{"executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":""}"#,
            r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK","later":[ ]}}"#,
            r#"{"toolCall":{"toolType":"X"}}"#,
            r#"{"toolResponse":{"toolType":"X"}}"#,
            r#"{"fileData":{"mimeType":"video/mp4","fileUri":"gs://b/o"}}"#,
        ] {
            is_read_back::<GeminiPart<'_>>(part);
        }
        is_read_back::<GeminiCandidate<'_>>(
            r#"{"content":{"parts":[{"text":"a"}],"role":"model"},"finishReason":"STOP","finishMessage":"m\u0041","index":1,"safetyRatings":[{"p":0.10}],"citationMetadata":{},"groundingMetadata":{"x":1},"urlContextMetadata":{},"logprobsResult":{"chosenCandidates":[{"token":"a","logProbability":-0.10}],"topCandidates":[{"candidates":[]}]}}"#,
        );
        is_read_back::<GeminiGrounding<'_>>(
            r#"{"groundingChunks":[{"web":{"uri":"https://a","title":"A"}},{"retrievedContext":{"uri":"u","title":"t"}},{"maps":{"uri":"u","title":"t"}}],"groundingSupports":[{"segment":{"startIndex":0,"endIndex":7,"text":"Zürich"},"groundingChunkIndices":[0,2]}]}"#,
        );
    }

    #[test]
    fn both_spellings_are_read_and_one_is_written() {
        let snake = r#"{"inline_data":{"mime_type":"a/b","file_uri":"u","display_name":"n"},"thought_signature":"s"}"#;
        let part: GeminiPart<'_> = serde_json::from_str(snake).unwrap();
        assert_eq!(
            serde_json::to_string(&part).unwrap(),
            r#"{"inlineData":{"mimeType":"a/b","fileUri":"u","displayName":"n"},"thoughtSignature":"s"}"#
        );
    }
}
