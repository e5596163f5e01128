//! `POST /v1/images/generations` through Imagen's `predict`.
//! <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/imagen-api>

use super::ID;
use crate::provider::adapter::{CallTarget, JsonAdapter, ResponseContext};
use crate::provider::translation_notes::TranslationNotes;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use words::api::body::Body;
use words::api::chat::{Params, ProviderError};
use words::error::Error;
use words::json::{Json, JsonStr};

/// The adapter for Imagen.
#[derive(Debug)]
pub(super) struct Imagen;

#[derive(Serialize)]
struct RequestOut<'a> {
    instances: [Instance<'a>; 1],
    parameters: Members<'a>,
}

#[derive(Serialize)]
struct Instance<'a> {
    prompt: Json<'a>,
}

struct Members<'a>(Params<'a>);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, json) in self.0.iter() {
            map.serialize_entry(name, json)?;
        }
        map.end()
    }
}

impl JsonAdapter for Imagen {
    fn write(
        &self,
        body: Option<&Body>,
        _: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        let body = body.ok_or_else(|| Error::bad_request("The request body must be a JSON object."))?;
        let prompt = body.raw("prompt").and_then(Json::parse).filter(|prompt| prompt.text().is_some());
        let prompt = prompt
            .ok_or_else(|| Error::invalid_request("prompt", "prompt must be a text.").with_provider(ID))?;
        let mut parameters = Params::default();
        for (name, text) in body.members() {
            let Some(value) = Json::parse(text).filter(|value| !value.is_null()) else { continue };
            match name {
                "model" | "prompt" | "response_format" => {}
                "n" => parameters.set("sampleCount", value),
                "size" => size(&value, &mut parameters, notes),
                "output_format" => {
                    let format = value.text().unwrap_or_default().into_owned();
                    let kind = Json::object_with("mimeType", &format!("image/{format}"));
                    parameters.set("outputOptions", kind);
                }
                "stream" if value.is_true() => {
                    let message = "Imagen does not stream. Leave stream out.";
                    return Err(Error::invalid_request("stream", message).with_provider(ID));
                }
                "quality" | "style" | "user" | "background" | "moderation" | "output_compression"
                | "partial_images" | "stream" => notes.drop_param(name, ID),
                // Imagen's own parameters.
                _ => parameters.set(name, value),
            }
        }
        let out = RequestOut { instances: [Instance { prompt }], parameters: Members(parameters) };
        let bytes =
            serde_json::to_vec(&out).map_err(|_| Error::internal("an Imagen request cannot be written"))?;
        Ok(Some(bytes))
    }

    fn read(&self, response: &[u8], request: Option<&Body>, model: &str) -> Result<Vec<u8>, ProviderError> {
        self.read_in(response, &ResponseContext { request, model, place: None, now: 0 })
    }

    /// Google does not say when the pictures were made: `created` is when they arrived.
    fn read_in(&self, response: &[u8], context: &ResponseContext<'_>) -> Result<Vec<u8>, ProviderError> {
        let request = context.request;
        let created = context.now;
        let parsed: ImagenResponse<'_> = serde_json::from_slice(response)
            .map_err(|_| ProviderError::unreadable("it holds no pictures"))?;
        let wants_url = request.and_then(|body| body.text("response_format")).as_deref() == Some("url");
        let predictions = parsed.predictions.unwrap_or_default();
        let pictures = predictions.iter().filter_map(|prediction| prediction.picture(wants_url));
        let data: Vec<Picture<'_>> = pictures.collect();
        if data.is_empty() {
            let reason = predictions.iter().find_map(|prediction| prediction.rai_filtered_reason.as_deref());
            let reason = reason.unwrap_or("Google's filters held every picture back.");
            return Err(ProviderError::new(400, reason).with_kind("content_policy_violation"));
        }
        serde_json::to_vec(&ImagesResponse { created, data })
            .map_err(|_| ProviderError::unreadable("its pictures cannot be written"))
    }
}

/// Imagen has aspect ratios, not sizes.
fn size<'a>(value: &Json<'a>, parameters: &mut Params<'a>, notes: &mut TranslationNotes) {
    let size = value.text().unwrap_or_default().into_owned();
    let ratio = match size.as_str() {
        "auto" => return,
        "256x256" | "512x512" | "1024x1024" => "1:1",
        "1792x1024" => "16:9",
        "1024x1792" => "9:16",
        "1536x1024" => "4:3",
        "1024x1536" => "3:4",
        _ => return notes.warn("size", "dropped, Imagen has 1:1, 3:4, 4:3, 9:16 and 16:9 (aspectRatio)"),
    };
    parameters.set("aspectRatio", Json::from_value(ratio));
}

#[derive(Deserialize)]
struct ImagenResponse<'a> {
    #[serde(borrow)]
    predictions: Option<Vec<Prediction<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prediction<'a> {
    #[serde(borrow)]
    bytes_base64_encoded: Option<JsonStr<'a>>,
    mime_type: Option<JsonStr<'a>>,
    /// The prompt as Imagen revised it.
    prompt: Option<JsonStr<'a>>,
    rai_filtered_reason: Option<JsonStr<'a>>,
}

#[derive(Serialize)]
struct ImagesResponse<'a> {
    created: u64,
    data: Vec<Picture<'a>>,
}

#[derive(Serialize)]
struct Picture<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    b64_json: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revised_prompt: Option<&'a str>,
}

impl Prediction<'_> {
    fn picture(&self, wants_url: bool) -> Option<Picture<'_>> {
        let data = self.bytes_base64_encoded.as_deref()?;
        let media_type = self.mime_type.as_deref().unwrap_or("image/png");
        let url = wants_url.then(|| format!("data:{media_type};base64,{data}"));
        let b64_json = (!wants_url).then_some(data);
        Some(Picture { b64_json, url, revised_prompt: self.prompt.as_deref() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Call;
    use words::api::operation::Operation;
    use words::config::account::Account;

    #[test]
    fn images_are_requested_and_converted() {
        let text = r#"{"model":"imagen-4.0-generate-001","prompt":"a cat","n":2,"size":"1792x1024","quality":"hd","seed":7,"response_format":"url"}"#;
        let body = Body::parse(text.into()).unwrap();
        let method = http::Method::POST;
        let model = Some("imagen-4.0-generate-001");
        let path = "images/generations";
        let call =
            Call { operation: Operation::Images, method: &method, path, query: None, model, streamed: false };
        let target = CallTarget {
            call: &call,
            account: &Account::default(),
            model: "imagen-4.0-generate-001",
            client_betas: None,
        };
        let mut notes = TranslationNotes::default();
        let sent = Imagen.write(Some(&body), &target, &mut notes).unwrap().unwrap();
        assert_eq!(
            String::from_utf8(sent).unwrap(),
            r#"{"instances":[{"prompt":"a cat"}],"parameters":{"sampleCount":2,"aspectRatio":"16:9","seed":7}}"#
        );
        assert_eq!(notes.warnings.len(), 1);
        let response = br#"{"predictions":[{"bytesBase64Encoded":"AA==","mimeType":"image/png"},{"raiFilteredReason":"no"}]}"#;
        let converted = |request| {
            String::from_utf8(
                Imagen
                    .read_in(response, &ResponseContext { request, model: "", place: None, now: 5 })
                    .unwrap(),
            )
            .unwrap()
        };
        assert_eq!(converted(None), r#"{"created":5,"data":[{"b64_json":"AA=="}]}"#);
        assert_eq!(converted(Some(&body)), r#"{"created":5,"data":[{"url":"data:image/png;base64,AA=="}]}"#);
        let error = Imagen.read(br#"{"predictions":[{"raiFilteredReason":"no"}]}"#, None, "").unwrap_err();
        assert_eq!((error.status, error.message.as_str()), (400, "no"));
        assert_eq!(Imagen.read(b"<html>", None, "").unwrap_err().status, 502);
    }
}
