//! `POST /embeddings`: vectors made from the words of a text, so that similar texts have similar vectors.

use super::call::Call;
use super::completions::Prompt;
use super::reply::{ApiError, Dialect, Reply};
use super::sample_text::{self, quote, scramble};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Length of a vector if the request sets none.
const DIMENSIONS: usize = 256;

#[derive(Deserialize)]
struct Request {
    model: Option<String>,
    input: Option<Prompt>,
    dimensions: Option<usize>,
    encoding_format: Option<String>,
}

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request = call.read(Dialect::OpenAi)?;
    let (model, script) = call.model(request.model.as_deref(), Dialect::OpenAi)?;
    let texts = request.input.ok_or_else(|| ApiError::missing("input"))?.texts();
    if texts.is_empty() || texts.len() > 2048 {
        return Err(ApiError::invalid("input", "'input' must have from 1 to 2048 items."));
    }
    let dimensions = request.dimensions.unwrap_or(DIMENSIONS);
    if dimensions == 0 || dimensions > 4096 {
        return Err(ApiError::invalid("dimensions", "'dimensions' must be from 1 to 4096."));
    }
    let base64 = match request.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err(ApiError::invalid("encoding_format", "Expected 'float' or 'base64'.")),
    };
    let data: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let vector = vector(text, dimensions);
            let embedding = if base64 {
                let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                quote(&STANDARD.encode(bytes))
            } else {
                list(&vector)
            };
            format!(r#"{{"object":"embedding","index":{index},"embedding":{embedding}}}"#)
        })
        .collect();
    let tokens: u64 = texts.iter().map(|text| sample_text::count(text)).sum();
    let data = data.join(",");
    let model = quote(model);
    let reply = Reply::json(format!(
        r#"{{"object":"list","data":[{data}],"model":{model},"usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}}}"#
    ));
    Ok(reply.scripted(script))
}

/// The vector of a text, as a JSON list.
pub(super) fn numbers(text: &str, dimensions: usize) -> String {
    list(&vector(text, dimensions))
}

fn list(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("[{}]", numbers.join(","))
}

/// A unit vector: each word adds to or subtracts from eight components drawn from its hash.
fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut vector = vec![0.0_f32; dimensions];
    let terms = text.split(|letter: char| !letter.is_alphanumeric()).filter(|term| !term.is_empty());
    // A text without words gets a direction too, from the empty term.
    for term in terms.map(str::to_lowercase).chain(std::iter::once(String::new())) {
        let mut seed = term.bytes().fold(1, |seed, byte| scramble(seed ^ u64::from(byte)));
        let weight = if term.is_empty() { 0.01 } else { 1.0 };
        for _ in 0..8 {
            seed = scramble(seed);
            let sign = if seed >> 63 == 0 { weight } else { -weight };
            if let Some(place) = vector.get_mut((seed % dimensions as u64) as usize) {
                *place += sign;
            }
        }
    }
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|number| *number /= length);
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similarity(one: &str, other: &str) -> f32 {
        vector(one, 256).iter().zip(vector(other, 256)).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn similar_texts_have_similar_vectors() {
        assert!((similarity("a quick brown fox", "a quick brown fox") - 1.0).abs() < 1e-4);
        let near = similarity("what is the capital of France", "What's the capital city of France?");
        let far = similarity("what is the capital of France", "bake me an apple cake");
        assert!(near > 0.6 && far < 0.3, "{near} {far}");
    }
}
