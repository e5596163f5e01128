//! Embeddings through invoke: OpenAI's request in the shape of each model family, its vectors in OpenAI's
//! shape.
//!
//! Sources: <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-mm.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html>,
//! <https://docs.aws.amazon.com/nova/latest/userguide/embeddings-schema.html>.

use super::SPEC;
use super::model::{Family, Model};
use crate::provider::Call;
use crate::provider::adapter::{CallTarget, JsonAdapter};
use crate::provider::embeddings;
use crate::provider::translation_notes::TranslationNotes;
use serde::Deserialize;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::embedding_list::{EmbeddingList, EmbeddingUsage};
use words::config::account::Account;
use words::error::Error;
use words::json::write::{ObjectWriter, key};
use words::json::{Json, JsonStr};

/// The request shapes of the model families.
#[derive(Debug)]
enum Kind {
    /// Titan text: one text per request.
    Titan,
    /// Titan multimodal: one text, one picture or both per request.
    TitanMultimodal,
    /// Nova: one text per request.
    Nova,
    /// Cohere: up to 96 texts per request.
    Cohere,
}

impl JsonAdapter for Kind {
    fn write(
        &self,
        body: Option<&Body>,
        _target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        let body = body.ok_or_else(|| Error::bad_request("Embeddings need a JSON body."))?;
        let request = EmbeddingRequest::read(body)?;
        let mut out = Vec::new();
        let mut object = ObjectWriter::open(&mut out);
        let rest = match self {
            Self::Titan => titan(request, &mut object)?,
            Self::TitanMultimodal => titan_multimodal(request, &mut object)?,
            Self::Nova => nova(request, &mut object)?,
            Self::Cohere => cohere(request, &mut object, notes),
        };
        rest.into_iter().for_each(|(name, json)| object.raw(name, json));
        object.close();
        Ok(Some(out))
    }

    fn read(&self, response: &[u8], request: Option<&Body>, model: &str) -> Result<Vec<u8>, ProviderError> {
        read(response, request, model)
    }
}

/// The adapter for this model's embeddings.
///
/// # Errors
/// 400 for a model without embeddings, and for an ARN that does not name the model.
pub fn adapter(call: &Call<'_>, account: &Account) -> Result<&'static dyn JsonAdapter, Error> {
    let model = Model::resolve(call.model.unwrap_or_default(), account);
    match model.family {
        Family::Cohere => Ok(&Kind::Cohere),
        Family::Amazon if model.id.contains("nova") => Ok(&Kind::Nova),
        Family::Amazon if model.id.contains("embed-image") => Ok(&Kind::TitanMultimodal),
        Family::Amazon => Ok(&Kind::Titan),
        Family::Unknown => {
            let message = "bedrock's embeddings differ by model and this model's name does not tell which it is: \
                           say it in cloud_a_model_name.";
            Err(Error::invalid_request("model", message).with_provider(SPEC.id))
        }
        _ => {
            let message = "This gateway knows embeddings of Amazon's and Cohere's models on bedrock.";
            Err(Error::invalid_request("model", message).with_provider(SPEC.id))
        }
    }
}

/// The client's request.
struct EmbeddingRequest<'a> {
    inputs: Vec<Input<'a>>,
    dimensions: Option<&'a str>,
    /// Members that are not OpenAI's, in order: passed to the model.
    rest: Rest<'a>,
}

/// One input to embed.
struct Input<'a> {
    text: Option<Json<'a>>,
    /// Base64, as a JSON string.
    image: Option<Json<'a>>,
}

impl<'a> EmbeddingRequest<'a> {
    fn read(body: &'a Body) -> Result<Self, Error> {
        let mut request = Self { inputs: Vec::new(), dimensions: None, rest: Vec::new() };
        for (name, text) in body.members().filter(|(_, text)| *text != "null") {
            match name {
                "input" => request.inputs = inputs(text)?,
                "dimensions" => request.dimensions = Some(text),
                "model" | "encoding_format" | "user" => {}
                _ => request.rest.push((name, text)),
            }
        }
        if request.inputs.is_empty() {
            let message = "input is missing: a string or a list of strings.";
            return Err(Error::invalid_request("input", message));
        }
        Ok(request)
    }

    /// The single input of models that accept only one.
    fn only(&self) -> Result<&Input<'a>, Error> {
        match self.inputs.as_slice() {
            [only] => Ok(only),
            several => {
                let message = format!(
                    "This model on bedrock embeds one input a call, not {}. Send them one by one, or use a Cohere \
                     model.",
                    several.len()
                );
                Err(Error::invalid_request("input", message))
            }
        }
    }

    fn only_text(&self) -> Result<&Json<'a>, Error> {
        let only = self.only()?;
        only.text.as_ref().filter(|_| only.image.is_none()).ok_or_else(|| {
            Error::invalid_request("input", "This model on bedrock embeds text only: input must be a string.")
        })
    }

    /// Takes a member by any of its names.
    fn take(&mut self, names: &[&str]) -> Option<&'a str> {
        let at = self.rest.iter().position(|(name, _)| names.contains(name))?;
        Some(self.rest.remove(at).1)
    }
}

fn inputs(text: &str) -> Result<Vec<Input<'_>>, Error> {
    let wrong = || {
        let message = "input must be a string or a list of strings: bedrock takes no tokens.";
        Error::invalid_request("input", message)
    };
    let json = Json::parse(text).ok_or_else(wrong)?;
    if !text.starts_with('[') {
        return Ok(vec![input(json).ok_or_else(wrong)?]);
    }
    let list: Vec<Json<'_>> = serde_json::from_str(text).map_err(|_| wrong())?;
    list.into_iter().map(|json| input(json).ok_or_else(wrong)).collect()
}

/// A text, or `{"text": .., "image": {"base64": ..}}`.
fn input(json: Json<'_>) -> Option<Input<'_>> {
    #[derive(Deserialize)]
    struct Both<'a> {
        #[serde(borrow)]
        text: Option<Json<'a>>,
        image: Option<Json<'a>>,
    }
    #[derive(Deserialize)]
    struct Image<'a> {
        #[serde(borrow)]
        base64: Option<Json<'a>>,
        url: Option<Json<'a>>,
    }
    if json.get().starts_with('"') {
        return Some(Input { text: Some(json), image: None });
    }
    let both: Both<'_> = serde_json::from_str(json.source().filter(|text| text.starts_with('{'))?).ok()?;
    let image = both.image.and_then(|image| {
        let image = match image.source().filter(|text| text.starts_with('{')) {
            Some(text) => {
                let source: Image<'_> = serde_json::from_str(text).ok()?;
                source.base64.or(source.url)?
            }
            None => image,
        };
        // Only the base64 part of a data URL.
        let bytes = image.text()?.split_once(";base64,").map(|(_, bytes)| Json::from_value(bytes));
        Some(bytes.unwrap_or(image))
    });
    (both.text.is_some() || image.is_some()).then_some(Input { text: both.text, image })
}

/// Members of the request that go to the model as they are, behind those that are translated.
type Rest<'a> = Vec<(&'a str, &'a str)>;

fn titan<'a>(request: EmbeddingRequest<'a>, out: &mut ObjectWriter<'_>) -> Result<Rest<'a>, Error> {
    out.raw(key!("inputText"), request.only_text()?.get());
    // v1 has a fixed size of 1536 and refuses the parameter itself.
    out.optional_raw(key!("dimensions"), request.dimensions);
    Ok(request.rest)
}

fn titan_multimodal<'a>(
    mut request: EmbeddingRequest<'a>,
    out: &mut ObjectWriter<'_>,
) -> Result<Rest<'a>, Error> {
    let config = request.take(&["embeddingConfig", "embedding_config"]);
    let only = request.only()?;
    out.optional_raw(key!("inputText"), only.text.as_ref().map(Json::get));
    out.optional_raw(key!("inputImage"), only.image.as_ref().map(Json::get));
    match (config, request.dimensions) {
        (Some(config), _) => out.raw(key!("embeddingConfig"), config),
        (None, Some(size)) => {
            out.object(key!("embeddingConfig"), |config| config.raw(key!("outputEmbeddingLength"), size));
        }
        (None, None) => {}
    }
    Ok(request.rest)
}

fn nova<'a>(mut request: EmbeddingRequest<'a>, out: &mut ObjectWriter<'_>) -> Result<Rest<'a>, Error> {
    let purpose = request.take(&["embeddingPurpose", "embedding_purpose"]).unwrap_or(r#""GENERIC_INDEX""#);
    // As at OpenAI, too long a text is an error and not truncated.
    let truncation = request.take(&["truncationMode", "truncation_mode", "truncate"]).unwrap_or(r#""NONE""#);
    let value = request.only_text()?.get();
    out.text(key!("taskType"), "SINGLE_EMBEDDING");
    out.object(key!("singleEmbeddingParams"), |params| {
        params.raw(key!("embeddingPurpose"), purpose);
        params.optional_raw(key!("embeddingDimension"), request.dimensions);
        params.object(key!("text"), |text| {
            text.raw(key!("truncationMode"), truncation);
            text.raw(key!("value"), value);
        });
    });
    Ok(request.rest)
}

fn cohere<'a>(
    mut request: EmbeddingRequest<'a>,
    out: &mut ObjectWriter<'_>,
    notes: &mut TranslationNotes,
) -> Rest<'a> {
    let texts: Vec<&Json<'_>> = request.inputs.iter().filter_map(|input| input.text.as_ref()).collect();
    let images: Vec<&Json<'_>> = request.inputs.iter().filter_map(|input| input.image.as_ref()).collect();
    if !texts.is_empty() {
        out.raw(key!("texts"), Json::from_value(&texts).get());
    }
    if !images.is_empty() {
        out.raw(key!("images"), Json::from_value(&images).get());
    }
    let kind =
        request.rest.iter().position(|(name, _)| *name == "input_type").map(|at| request.rest.remove(at).1);
    if kind.is_none() {
        notes.warn(
            "input_type",
            "search_document was sent: the model needs one. For queries send search_query",
        );
    }
    out.raw(key!("input_type"), kind.unwrap_or(r#""search_document""#));
    out.optional_raw(key!("output_dimension"), request.dimensions);
    request.rest
}

/// The response of any of the families.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpstreamResponse<'a> {
    /// Titan's only vector.
    #[serde(borrow)]
    embedding: Option<Json<'a>>,
    embeddings_by_type: Option<Json<'a>>,
    input_text_token_count: Option<u64>,
    /// Cohere: a list of vectors, or lists by type. Nova: a list of objects.
    embeddings: Option<Json<'a>>,
    message: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct ByType<'a> {
    #[serde(borrow)]
    float: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct NovaEmbedding<'a> {
    #[serde(borrow)]
    embedding: Option<Json<'a>>,
}

fn read(response: &[u8], request: Option<&Body>, model: &str) -> Result<Vec<u8>, ProviderError> {
    let unreadable = || ProviderError::unreadable("it holds no embeddings");
    let text = std::str::from_utf8(response).map_err(|_| unreadable())?;
    let parsed: UpstreamResponse<'_> = serde_json::from_str(text).map_err(|_| unreadable())?;
    let vectors =
        vectors(&parsed).filter(|vectors| !vectors.is_empty()).ok_or_else(|| match parsed.message {
            // Titan multimodal reports errors like this, with status 200.
            Some(ref message) => ProviderError::new(502, message.0.clone()),
            None => unreadable(),
        })?;
    // Zero when the response body has no counts: Cohere and Nova have them in headers only.
    let usage = EmbeddingUsage::of_input(parsed.input_text_token_count);
    embeddings::written(EmbeddingList::new(vectors, model, usage), request)
}

fn vectors<'a>(parsed: &UpstreamResponse<'a>) -> Option<Vec<Json<'a>>> {
    if let Some(vector) = parsed.embedding.as_ref().filter(|vector| vector.get().starts_with('[')) {
        return Some(vec![vector.clone()]);
    }
    if let Some(by_type) = parsed.embeddings_by_type.as_ref().and_then(Json::source) {
        // The client requested another type than float by Titan's own parameter.
        let members = Json::members(by_type)?;
        return members.into_iter().next().map(|(_, vector)| vec![vector]);
    }
    let text = parsed.embeddings.as_ref()?.source()?;
    if text.starts_with('{') {
        let by_type: ByType<'a> = serde_json::from_str(text).ok()?;
        let list = match by_type.float {
            Some(float) => float,
            None => Json::members(text)?.into_iter().next()?.1,
        };
        return serde_json::from_str(list.source()?).ok();
    }
    let list: Vec<Json<'a>> = serde_json::from_str(text).ok()?;
    if list.first().is_some_and(Json::is_object) {
        let each =
            |json: &Json<'a>| serde_json::from_str::<NovaEmbedding<'a>>(json.source()?).ok()?.embedding;
        return list.iter().map(each).collect();
    }
    Some(list)
}

#[cfg(test)]
mod tests;
