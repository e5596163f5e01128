//! `POST /v1/embeddings` through Gemini's `batchEmbedContents` at Google and `predict` or `embedContent` on
//! Vertex AI. Numbers keep their digits, unless the client requests base64.

use crate::provider::adapter::{CallTarget, JsonAdapter};
use crate::provider::embeddings;
use crate::provider::translation_notes::TranslationNotes;
use serde::Deserialize;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::embedding_list::{EmbeddingList, EmbeddingUsage};
use words::error::Error;
use words::json::Json;

/// The three request shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embeddings {
    /// Google: a request for each input.
    Batch,
    /// Vertex AI: an instance for each input.
    Predict,
    /// Vertex AI, `gemini-embedding-2` and later: one input.
    Single,
}

impl Embeddings {
    /// The request shape of `model` on Vertex AI.
    /// <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings>
    pub(crate) fn on_vertex(model: &str) -> &'static Self {
        let number = model.strip_prefix("gemini-embedding-").and_then(|rest| rest.split('-').next());
        // The number in `gemini-embedding-001` is no generation: it is an older model.
        match number.filter(|number| !number.starts_with('0')).and_then(|number| number.parse::<u32>().ok()) {
            Some(2..) => &Self::Single,
            _ => &Self::Predict,
        }
    }

    /// The method at the end of the path.
    pub fn method(self) -> &'static str {
        match self {
            Self::Batch => ":batchEmbedContents",
            Self::Predict => ":predict",
            Self::Single => ":embedContent",
        }
    }

    fn provider(self) -> &'static str {
        if self == Self::Batch { "google" } else { "vertex-ai" }
    }
}

/// The inputs: texts, or objects in the provider's own form (`{"image":{..}}`).
fn inputs(body: &Body) -> Result<Vec<Json<'_>>, Error> {
    let wrong = || {
        let message = "input must be a text or a list of texts; Gemini takes no lists of tokens.";
        Error::invalid_request("input", message)
    };
    let input = body.raw("input").and_then(Json::parse).ok_or_else(wrong)?;
    if input.text().is_some() || input.is_object() {
        return Ok(vec![input]);
    }
    let list: Vec<Json<'_>> = body.read("input").ok_or_else(wrong)?;
    let fits = |item: &Json<'_>| item.get().starts_with('"') || item.is_object();
    if list.is_empty() || !list.iter().all(fits) { Err(wrong()) } else { Ok(list) }
}

/// A member by any of its spellings.
fn member<'a>(body: &'a Body, names: &[&str]) -> Option<Json<'a>> {
    let found = names.iter().find_map(|name| body.raw(name).and_then(Json::parse));
    found.filter(|json| !json.is_null())
}

/// A text as a content; an object is a part of one, or a whole one (with `parts`).
fn content<'a>(input: &Json<'a>) -> Json<'a> {
    if !input.is_object() {
        return Json::object(&[("parts", Json::from_value(&[Json::object(&[("text", input.clone())])]))]);
    }
    let members = Json::members(input.get()).unwrap_or_default();
    if members.iter().any(|(name, _)| name == "parts") {
        input.clone()
    } else {
        Json::object(&[("parts", Json::from_value(&[input]))])
    }
}

impl JsonAdapter for Embeddings {
    fn write(
        &self,
        body: Option<&Body>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        let body = body.ok_or_else(|| Error::bad_request("The request body must be a JSON object."))?;
        let inputs = inputs(body).map_err(|error| error.with_provider(self.provider()))?;
        let mut options: Vec<(&str, Json<'_>)> = Vec::new();
        let mut take =
            |name, spellings: &[&str]| options.extend(member(body, spellings).map(|json| (name, json)));
        take("taskType", &["task_type", "taskType"]);
        take("title", &["title"]);
        take("outputDimensionality", &["dimensions", "output_dimensionality", "outputDimensionality"]);
        if *self != Self::Batch {
            take("autoTruncate", &["auto_truncate", "autoTruncate"]);
        }
        if member(body, &["user"]).is_some() {
            notes.drop_param("user", self.provider());
        }
        let json = match self {
            Self::Batch => batch(&inputs, &options, target.model),
            Self::Predict => predict(&inputs, &options, target.model),
            Self::Single => single(&inputs, &options)?,
        };
        Ok(Some(json.get().as_bytes().to_vec()))
    }

    fn read(&self, response: &[u8], request: Option<&Body>, model: &str) -> Result<Vec<u8>, ProviderError> {
        let parsed: EmbeddingsResponse<'_> = serde_json::from_slice(response)
            .map_err(|_| ProviderError::unreadable("it holds no embeddings"))?;
        embeddings::written(parsed.into_openai(model)?, request)
    }
}

fn batch(inputs: &[Json<'_>], options: &[(&str, Json<'_>)], model: &str) -> Json<'static> {
    let name = format!("models/{}", model.rsplit('/').next().unwrap_or(model));
    let requests = inputs.iter().map(|input| {
        let mut request = vec![("model", Json::from_value(&name)), ("content", content(input))];
        request.extend(options.iter().cloned());
        Json::object(&request)
    });
    Json::object(&[("requests", Json::from_value(&requests.collect::<Vec<_>>()))])
}

fn predict(inputs: &[Json<'_>], options: &[(&str, Json<'_>)], model: &str) -> Json<'static> {
    let is_multimodal = model.contains("multimodal");
    let find = |name: &str| options.iter().find(|(member, _)| *member == name).map(|(_, json)| json.clone());
    let instances = inputs.iter().map(|input| {
        if input.is_object() {
            return input.clone();
        }
        let mut instance = vec![(if is_multimodal { "text" } else { "content" }, input.clone())];
        instance.extend(find("taskType").map(|task| ("task_type", task)));
        instance.extend(find("title").map(|title| ("title", title)));
        Json::object(&instance)
    });
    let mut members = vec![("instances", Json::from_value(&instances.collect::<Vec<_>>()))];
    let dimensions = if is_multimodal { "dimension" } else { "outputDimensionality" };
    let parameters: Vec<(&str, Json<'_>)> = [
        find("outputDimensionality").map(|json| (dimensions, json)),
        find("autoTruncate").map(|json| ("autoTruncate", json)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !parameters.is_empty() {
        members.push(("parameters", Json::object(&parameters)));
    }
    Json::object(&members)
}

fn single(inputs: &[Json<'_>], options: &[(&str, Json<'_>)]) -> Result<Json<'static>, Error> {
    let [input] = inputs else {
        let message = "This model embeds one input per request on Vertex AI. Send the inputs one by one.";
        return Err(Error::invalid_request("input", message).with_provider("vertex-ai"));
    };
    let mut members = vec![("content", content(input))];
    members.extend(options.iter().cloned());
    Ok(Json::object(&members))
}

/// Any of the three responses.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EmbeddingsResponse<'a> {
    #[serde(borrow)]
    embeddings: Option<Vec<Values<'a>>>,
    embedding: Option<Values<'a>>,
    predictions: Option<Vec<Prediction<'a>>>,
    usage_metadata: Option<TokenCount>,
}

#[derive(Deserialize)]
struct Values<'a> {
    #[serde(borrow)]
    values: Option<Json<'a>>,
    statistics: Option<Statistics>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prediction<'a> {
    #[serde(borrow)]
    embeddings: Option<Values<'a>>,
    text_embedding: Option<Json<'a>>,
    image_embedding: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct Statistics {
    token_count: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenCount {
    prompt_token_count: Option<u64>,
}

impl<'a> EmbeddingsResponse<'a> {
    fn into_openai(self, model: &'a str) -> Result<EmbeddingList<'a>, ProviderError> {
        let mut tokens = self.usage_metadata.and_then(|usage| usage.prompt_token_count).unwrap_or_default();
        let mut lists: Vec<Json<'a>> = Vec::new();
        let mut take = |values: Values<'a>| {
            let count = values.statistics.and_then(|statistics| statistics.token_count);
            // `as` saturates, and NaN becomes 0.
            tokens = tokens.saturating_add(count.unwrap_or_default() as u64);
            lists.extend(values.values);
        };
        self.embeddings.into_iter().flatten().chain(self.embedding).for_each(&mut take);
        let mut predicted = Vec::new();
        for prediction in self.predictions.into_iter().flatten() {
            prediction.embeddings.into_iter().for_each(&mut take);
            predicted.extend(prediction.text_embedding.into_iter().chain(prediction.image_embedding));
        }
        lists.append(&mut predicted);
        if lists.is_empty() {
            return Err(ProviderError::unreadable("it holds no embeddings"));
        }
        Ok(EmbeddingList::new(lists, model, EmbeddingUsage::of_input(Some(tokens))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Call;
    use words::api::operation::Operation;
    use words::config::account::Account;

    fn body(json: &str) -> Body {
        Body::parse(json.to_owned().into()).unwrap()
    }

    fn sent(embeddings: Embeddings, model: &str, json: &str) -> Result<String, Error> {
        let call = Call {
            operation: Operation::Embeddings,
            method: &http::Method::POST,
            path: "embeddings",
            query: None,
            model: Some(model),
            streamed: false,
        };
        let target = CallTarget { call: &call, account: &Account::default(), model, client_betas: None };
        let bytes = embeddings.write(Some(&body(json)), &target, &mut TranslationNotes::default())?;
        Ok(String::from_utf8(bytes.unwrap()).unwrap())
    }

    fn converted(embeddings: Embeddings, request: &str, response: &str) -> String {
        String::from_utf8(embeddings.read(response.as_bytes(), Some(&body(request)), "m").unwrap()).unwrap()
    }

    #[test]
    fn each_host_gets_its_own_request_shape() {
        let request = r#"{"model":"m","input":["a","b\n"],"dimensions":256,"task_type":"RETRIEVAL_QUERY"}"#;
        assert_eq!(
            sent(Embeddings::Batch, "models/m", request).unwrap(),
            r#"{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"taskType":"RETRIEVAL_QUERY","outputDimensionality":256},{"model":"models/m","content":{"parts":[{"text":"b\n"}]},"taskType":"RETRIEVAL_QUERY","outputDimensionality":256}]}"#
        );
        assert_eq!(
            sent(Embeddings::Predict, "text-embedding-005", request).unwrap(),
            r#"{"instances":[{"content":"a","task_type":"RETRIEVAL_QUERY"},{"content":"b\n","task_type":"RETRIEVAL_QUERY"}],"parameters":{"outputDimensionality":256}}"#
        );
        assert_eq!(
            sent(
                Embeddings::Predict,
                "multimodalembedding@001",
                r#"{"input":["a",{"image":{"gcsUri":"gs://x"}}],"dimensions":128}"#
            )
            .unwrap(),
            r#"{"instances":[{"text":"a"},{"image":{"gcsUri":"gs://x"}}],"parameters":{"dimension":128}}"#
        );
        assert_eq!(
            sent(Embeddings::Single, "gemini-embedding-2", r#"{"input":"a","auto_truncate":false}"#).unwrap(),
            r#"{"content":{"parts":[{"text":"a"}]},"autoTruncate":false}"#
        );
        for wrong in
            [r#"{"input":[1,2]}"#, r#"{"input":[]}"#, r#"{"input":[[1]]}"#, "{}", r#"{"input":null}"#]
        {
            let error = sent(Embeddings::Batch, "m", wrong).unwrap_err();
            assert_eq!((error.status(), error.param.as_deref()), (400, Some("input")), "{wrong}");
        }
        assert_eq!(sent(Embeddings::Single, "m", request).unwrap_err().param.as_deref(), Some("input"));
        for (model, method) in [
            ("gemini-embedding-001", Embeddings::Predict),
            ("text-embedding-005", Embeddings::Predict),
            ("gemini-embedding-2-preview", Embeddings::Single),
            ("gemini-embedding-2", Embeddings::Single),
        ] {
            assert_eq!(*Embeddings::on_vertex(model), method, "{model}");
        }
    }

    #[test]
    fn responses_become_openais_list() {
        assert_eq!(
            converted(
                Embeddings::Batch,
                "{}",
                r#"{"embeddings":[{"values":[0.10,-2]},{"values":[1e-5]}],"usageMetadata":{"promptTokenCount":7}}"#
            ),
            r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10,-2]},{"object":"embedding","index":1,"embedding":[1e-5]}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":7}}"#
        );
        assert_eq!(
            converted(
                Embeddings::Predict,
                r#"{"encoding_format":"base64"}"#,
                r#"{"predictions":[{"embeddings":{"values":[1,-0.5],"statistics":{"token_count":3,"truncated":false}}}]}"#
            ),
            r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AACAPwAAAL8="}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}"#
        );
        assert_eq!(
            converted(
                Embeddings::Single,
                r#"{"encoding_format":"float"}"#,
                r#"{"embedding":{"values":[1]},"usageMetadata":{"promptTokenCount":2}}"#
            ),
            r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]}],"model":"m","usage":{"prompt_tokens":2,"total_tokens":2}}"#
        );
        for odd in ["", "{}", "[]", r#"{"embeddings":[]}"#] {
            assert_eq!(Embeddings::Batch.read(odd.as_bytes(), None, "m").unwrap_err().status, 502, "{odd}");
        }
    }
}
