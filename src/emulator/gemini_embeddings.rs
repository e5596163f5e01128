//! Google's Gemini: `models/{model}:embedContent` and `:batchEmbedContents`. The vectors are those of `embeddings`.

use super::call::Call;
use super::embeddings::numbers;
use super::reply::{ApiError, Dialect, Reply};
use super::sample_text;
use serde::Deserialize;

const DIALECT: Dialect = Dialect::Gemini;
/// Length of a vector if the request sets none.
const DIMENSIONS: usize = 256;

#[derive(Deserialize)]
struct Batch {
    #[serde(default)]
    requests: Vec<Request>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    model: Option<String>,
    content: Content,
    #[serde(alias = "output_dimensionality")]
    output_dimensionality: Option<usize>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

/// `embedContent`.
pub(super) fn one(call: &Call<'_>, model: &str) -> Result<Reply, ApiError> {
    let request: Request = call.read(DIALECT)?;
    let (model, script) = call.model(Some(model), DIALECT)?;
    let (values, tokens) = values(&request, model)?;
    let usage = format!(r#""usageMetadata":{{"promptTokenCount":{tokens}}}"#);
    Ok(Reply::json(format!(r#"{{"embedding":{values},{usage}}}"#)).in_dialect(DIALECT).scripted(script))
}

/// `batchEmbedContents`.
pub(super) fn batch(call: &Call<'_>, model: &str) -> Result<Reply, ApiError> {
    let batch: Batch = call.read(DIALECT)?;
    let (model, script) = call.model(Some(model), DIALECT)?;
    let mut embeddings = Vec::with_capacity(batch.requests.len());
    let mut tokens = 0;
    for request in &batch.requests {
        let (values, counted) = values(request, model)?;
        embeddings.push(values);
        tokens += counted;
    }
    let usage = format!(r#""usageMetadata":{{"promptTokenCount":{tokens}}}"#);
    let embeddings = embeddings.join(",");
    Ok(Reply::json(format!(r#"{{"embeddings":[{embeddings}],{usage}}}"#))
        .in_dialect(DIALECT)
        .scripted(script))
}

/// `{"values":[..]}` of one request, and its tokens.
fn values(request: &Request, model: &str) -> Result<(String, u64), ApiError> {
    // Google refuses a request inside whose model is not that of the path.
    if request.model.as_deref().is_some_and(|named| named != format!("models/{model}")) {
        let why =
            "* BatchEmbedContentsRequest.requests[].model: model does not match the model in the path\n";
        return Err(ApiError::bad(why).in_dialect(DIALECT));
    }
    let text: String = request.content.parts.iter().map(|part| part.text.as_str()).collect();
    let dimensions = request.output_dimensionality.unwrap_or(DIMENSIONS).clamp(1, 4096);
    Ok((format!(r#"{{"values":{}}}"#, numbers(&text, dimensions)), sample_text::count(&text)))
}
