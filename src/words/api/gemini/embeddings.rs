//! `embedContent` and `batchEmbedContents` as OpenAI's `/v1/embeddings`, for providers that have only that.

use super::names::camel;
use crate::api::body::Body;
use crate::api::chat::ProviderError;
use crate::api::chat::read::{missing, parse, reread};
use crate::api::embedding_list::EmbeddingList;
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::{Deserialize, Serialize};

/// The two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embedding {
    /// `embedContent`: one content.
    One,
    /// `batchEmbedContents`: a request for each content.
    Batch,
}

#[derive(Deserialize)]
struct ContentIn<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Json<'a>>>,
}

#[derive(Deserialize)]
struct TextPart<'a> {
    #[serde(borrow)]
    text: Option<JsonStr<'a>>,
}

/// The members of one request that are translated.
#[derive(Default)]
struct RequestIn<'a> {
    content: Option<Json<'a>>,
    dimensions: Option<Json<'a>>,
    task_type: Option<Json<'a>>,
    title: Option<Json<'a>>,
}

impl<'a> RequestIn<'a> {
    fn read<'n>(members: &mut dyn Iterator<Item = (&'n str, &'a str)>) -> Self {
        let mut request = Self::default();
        for (name, text) in members {
            let value = Json::parse(text).filter(|value| !value.is_null());
            match camel(name).as_ref() {
                "content" => request.content = value,
                "outputDimensionality" => request.dimensions = value,
                "taskType" => request.task_type = value,
                "title" => request.title = value,
                // The SDKs' newer place for the options.
                "embedContentConfig" => {
                    let inner =
                        value.and_then(|value| value.source()).and_then(Json::members).unwrap_or_default();
                    let mut inner =
                        inner.iter().filter_map(|(name, json)| Some((name.as_ref(), json.source()?)));
                    let inner = Self::read(&mut inner);
                    request.dimensions = request.dimensions.or(inner.dimensions);
                    request.task_type = request.task_type.or(inner.task_type);
                    request.title = request.title.or(inner.title);
                }
                _ => {}
            }
        }
        request
    }
}

/// The body of OpenAI's request. `is_google`: the provider takes contents that are not only text, and Google's options.
/// Returns what was left out, as messages for the client.
///
/// # Errors
/// 400 that names the `param`.
pub fn embeddings_request(
    kind: Embedding,
    body: &Body,
    model: &str,
    is_google: bool,
) -> Result<(Vec<u8>, Vec<String>), Error> {
    let requests = match kind {
        Embedding::One => vec![RequestIn::read(&mut body.members())],
        Embedding::Batch => {
            let text = body.raw("requests").ok_or_else(|| missing("requests"))?;
            let list: Vec<Json<'_>> = parse(text, "requests", "a list of requests")?;
            let mut requests = Vec::with_capacity(list.len());
            for (index, json) in list.iter().enumerate() {
                let at = format!("requests[{index}]");
                let members = json.source().and_then(Json::members);
                let members = members
                    .ok_or_else(|| Error::invalid_request(at.as_str(), format!("{at} must be an object.")))?;
                let mut members =
                    members.iter().filter_map(|(name, json)| Some((name.as_ref(), json.source()?)));
                requests.push(RequestIn::read(&mut members));
            }
            requests
        }
    };
    let Some(first) = requests.first() else {
        return Err(Error::invalid_request("requests", "requests must not be empty."));
    };
    let options = |request: &RequestIn<'_>| {
        [&request.dimensions, &request.task_type, &request.title]
            .map(|json| json.as_ref().map(|json| json.get().to_owned()))
    };
    if let Some(at) = requests.iter().position(|request| options(request) != options(first)) {
        let at = format!("requests[{at}]");
        let message =
            format!("{at} has other options than the first. Send requests with other options on their own.");
        return Err(Error::invalid_request(at, message));
    }
    let mut inputs = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        let at = match kind {
            Embedding::One => "content".to_owned(),
            Embedding::Batch => format!("requests[{index}].content"),
        };
        inputs.push(input(request.content.as_ref().ok_or_else(|| missing(&at))?, is_google, &at)?);
    }
    let mut members = vec![("model", Json::from_value(model)), ("input", Json::from_value(&inputs))];
    members.extend(first.dimensions.clone().map(|json| ("dimensions", json)));
    let mut warnings = Vec::new();
    for (name, own, json) in [("task_type", "taskType", &first.task_type), ("title", "title", &first.title)] {
        match json {
            Some(json) if is_google => members.push((name, json.clone())),
            Some(_) => warnings.push(format!("{own}: dropped, only Google has it")),
            None => {}
        }
    }
    Ok((Json::object(&members).get().as_bytes().to_vec(), warnings))
}

/// A content as an input: its text, or for Google all of it.
fn input(content: &Json<'_>, is_google: bool, at: &str) -> Result<Json<'static>, Error> {
    let parsed: ContentIn<'_> = if content.is_object() {
        reread(content, at, "a content: an object with parts")?
    } else {
        return Err(Error::invalid_request(at, format!("{at} must be an object with parts.")));
    };
    let mut text = String::new();
    for part in parsed.parts.unwrap_or_default() {
        match part.read::<TextPart<'_>>().and_then(|part| part.text) {
            Some(piece) => text.push_str(&piece),
            None if is_google => return Ok(Json::owned(content.get().to_owned()).unwrap_or_else(Json::null)),
            None => {
                let message = format!("{at} must be text: this provider embeds nothing else.");
                return Err(Error::invalid_request(at, message));
            }
        }
    }
    Ok(Json::from_value(&text))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<Values<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embeddings: Option<Vec<Values<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<UsageOut>,
}

#[derive(Serialize)]
struct Values<'a> {
    values: Json<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UsageOut {
    prompt_token_count: u64,
}

/// OpenAI's list in Gemini's shape. Numbers keep their digits.
///
/// # Errors
/// 502 for a response that is no such list.
pub fn embeddings_response(kind: Embedding, response: &[u8]) -> Result<Vec<u8>, ProviderError> {
    let wrong = || ProviderError::unreadable("it holds no embeddings");
    let mut list: EmbeddingList<'_> = serde_json::from_slice(response).map_err(|_| wrong())?;
    list.data.sort_by_key(|embedding| embedding.index);
    let mut values = list.data.into_iter().map(|embedding| Values { values: embedding.embedding });
    let (embedding, embeddings) = match kind {
        Embedding::One => (Some(values.next().ok_or_else(wrong)?), None),
        Embedding::Batch => (None, Some(values.collect())),
    };
    let tokens = list.usage.and_then(|usage| usage.prompt_tokens);
    let usage_metadata = tokens.map(|prompt_token_count| UsageOut { prompt_token_count });
    serde_json::to_vec(&ResponseOut { embedding, embeddings, usage_metadata }).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: Embedding, body: &str, is_google: bool) -> Result<(String, usize), String> {
        let body = Body::parse(body.to_owned().into()).unwrap();
        let made = embeddings_request(kind, &body, "m", is_google);
        made.map(|(bytes, warnings)| (String::from_utf8(bytes).unwrap(), warnings.len()))
            .map_err(|error| error.param.unwrap_or_default())
    }

    #[test]
    fn requests_become_openais() {
        let one =
            r#"{"content":{"parts":[{"text":"a"},{"text":"b"}]},"output_dimensionality":8,"taskType":"X"}"#;
        assert_eq!(
            request(Embedding::One, one, false).unwrap(),
            (r#"{"model":"m","input":["ab"],"dimensions":8}"#.to_owned(), 1)
        );
        assert_eq!(
            request(Embedding::One, one, true).unwrap(),
            (r#"{"model":"m","input":["ab"],"dimensions":8,"task_type":"X"}"#.to_owned(), 0)
        );
        let batch = r#"{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]}}]}"#;
        assert_eq!(
            request(Embedding::Batch, batch, false).unwrap(),
            (r#"{"model":"m","input":["a","b"]}"#.to_owned(), 0)
        );
        for (kind, body, param) in [
            (Embedding::One, "{}", "content"),
            (Embedding::One, r#"{"content":"x"}"#, "content"),
            (Embedding::One, r#"{"content":{"parts":[{"inlineData":{}}]}}"#, "content"),
            (Embedding::Batch, "{}", "requests"),
            (Embedding::Batch, r#"{"requests":[]}"#, "requests"),
            (Embedding::Batch, r#"{"requests":[3]}"#, "requests[0]"),
            (Embedding::Batch, r#"{"requests":[{}]}"#, "requests[0].content"),
            (
                Embedding::Batch,
                r#"{"requests":[{"content":{"parts":[]}},{"content":{"parts":[]},"outputDimensionality":8}]}"#,
                "requests[1]",
            ),
        ] {
            assert_eq!(request(kind, body, false).unwrap_err(), param, "{body}");
        }
    }

    #[test]
    fn responses_become_geminis() {
        let list = br#"{"object":"list","data":[{"index":1,"embedding":[2.0]},{"index":0,"embedding":[1.10]}],"usage":{"prompt_tokens":3}}"#;
        let text = |kind| String::from_utf8(embeddings_response(kind, list).unwrap()).unwrap();
        assert_eq!(
            text(Embedding::Batch),
            r#"{"embeddings":[{"values":[1.10]},{"values":[2.0]}],"usageMetadata":{"promptTokenCount":3}}"#
        );
        assert_eq!(
            text(Embedding::One),
            r#"{"embedding":{"values":[1.10]},"usageMetadata":{"promptTokenCount":3}}"#
        );
        for odd in ["", "{}", r#"{"data":[]}"#] {
            assert_eq!(embeddings_response(Embedding::One, odd.as_bytes()).unwrap_err().status, 502);
        }
    }
}
