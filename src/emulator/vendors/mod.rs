//! What only the tests need: the vendors' own APIs for batches and fine-tuning, and the buckets that belong to them.
//!
//! In no binary that is shipped: the feature `vendors` is on where tests are compiled, and nowhere else. OpenAI's files, batches and
//! fine-tuning jobs are not here.

mod bedrock_batches;
mod buckets;
mod file_batches;
mod fireworks_batches;
pub(super) mod gemini_batches;
mod line_run;
mod message_batches;
mod tuning;
mod vertex_batches;

use crate::object_store::ObjectStore;
use crate::routes::Route;
use http::request::Parts;

/// The objects that these APIs keep.
#[derive(Debug, Default)]
pub(super) struct VendorObjects {
    /// Of vendors whose files are not OpenAI's: results of Anthropic's batches, files of Gemini.
    files: ObjectStore,
    /// Batches of Anthropic, Gemini, Mistral and Together.
    batches: ObjectStore,
    /// Of the vendors whose jobs have not OpenAI's shape.
    tuning_jobs: ObjectStore,
    /// Bedrock's batches.
    invocation_jobs: ObjectStore,
    /// Vertex AI's batches.
    prediction_jobs: ObjectStore,
    /// Fireworks' batches, and their input.
    inference_jobs: ObjectStore,
    datasets: ObjectStore,
    /// Objects in buckets, by `<bucket>/<key>`.
    objects: ObjectStore,
}

/// `None`: it is another request.
pub(super) fn route(parts: &Parts) -> Option<Route<'_>> {
    if let Some(route) = bucket_route(parts) {
        return Some(route);
    }
    let segments: Vec<&str> = parts.uri.path().split('/').collect();
    let json = |respond, id| Route::Json(respond, id);
    Some(match (parts.method.as_str(), segments.as_slice()) {
        ("POST", [.., "model-invocation-job"]) => json(bedrock_batches::create, ""),
        ("GET", [.., "model-invocation-jobs"]) => json(bedrock_batches::list, ""),
        ("GET", [.., "model-invocation-job", id]) => json(bedrock_batches::one, id),
        ("POST", [.., "model-invocation-job", id, "stop"]) => json(bedrock_batches::stop, id),
        ("POST", [.., "batchPredictionJobs"]) => json(vertex_batches::create, ""),
        ("GET", [.., "batchPredictionJobs"]) => json(vertex_batches::list, ""),
        ("GET", [.., "batchPredictionJobs", id]) => json(vertex_batches::one, id),
        ("POST", [.., "batchPredictionJobs", id]) => json(vertex_batches::cancel, id),
        ("POST", [.., "accounts", _, "datasets"]) => json(fireworks_batches::create_dataset, ""),
        ("POST", [.., "accounts", _, "datasets", _]) => Route::Form(fireworks_batches::upload),
        ("GET", [.., "accounts", _, "datasets", _]) => json(fireworks_batches::downloads, ""),
        ("POST", [.., "accounts", _, "batchInferenceJobs"]) => json(fireworks_batches::create, ""),
        ("GET", [.., "accounts", _, "batchInferenceJobs"]) => json(fireworks_batches::list, ""),
        ("GET", [.., "accounts", _, "batchInferenceJobs", _]) => json(fireworks_batches::one, ""),
        ("DELETE", [.., "accounts", _, "batchInferenceJobs", _]) => json(fireworks_batches::delete, ""),
        ("POST", [.., "messages", "batches"]) => json(message_batches::create, ""),
        ("GET", [.., "messages", "batches"]) => json(message_batches::list, ""),
        ("GET", [.., "messages", "batches", id]) => json(message_batches::one, id),
        ("POST", [.., "messages", "batches", id, "cancel"]) => json(message_batches::cancel, id),
        ("GET", [.., "messages", "batches", id, "results"]) => json(message_batches::results, id),
        ("POST", [.., "upload", "v1beta", "files"]) => json(gemini_batches::upload, ""),
        ("GET", [.., "download", "v1beta", "files", id]) => json(gemini_batches::download, id),
        ("GET", [.., "v1beta", "batches"]) => json(gemini_batches::list, ""),
        ("GET", [.., "v1beta", "batches", id]) => json(gemini_batches::one, id),
        ("POST", [.., "v1beta", "batches", id]) => json(gemini_batches::cancel, id),
        ("POST", [.., "batch", "jobs"]) => json(file_batches::create_mistral, ""),
        ("GET", [.., "batch", "jobs"]) => json(file_batches::list_mistral, ""),
        ("GET", [.., "batch", "jobs", id]) => json(file_batches::one_of_mistral, id),
        ("POST", [.., "batch", "jobs", id, "cancel"]) => json(file_batches::cancel, id),
        ("POST", [.., "together", "v1", "batches"]) => json(file_batches::create_together, ""),
        ("GET", [.., "together", "v1", "batches"]) => json(file_batches::list_together, ""),
        ("GET", [.., "together", "v1", "batches", id]) => json(file_batches::one_of_together, id),
        ("POST", [.., "together", "v1", "batches", id, "cancel"]) => json(file_batches::cancel, id),
        (method, segments) => {
            let (respond, id) = tuning::route(method, segments)?;
            json(respond, id)
        }
    })
}

/// The routes of objects: the key is the rest of the path, or an encoded segment. The id is what follows the API's own path.
fn bucket_route(parts: &Parts) -> Option<Route<'_>> {
    let path = parts.uri.path();
    let method = parts.method.as_str();
    if let Some((_, id)) = path.split_once("/s3/") {
        return match method {
            "PUT" => Some(Route::Json(buckets::put_s3, id)),
            "GET" => Some(Route::Json(buckets::get_s3, id)),
            _ => None,
        };
    }
    if let Some((_, id)) = path.split_once(fireworks_batches::STORAGE) {
        return (method == "GET").then_some(Route::Json(fireworks_batches::download, id));
    }
    let (before, id) = path.split_once("/storage/v1/b/")?;
    match (method, id.split_once("/o")) {
        ("POST", Some((_, ""))) if before.ends_with("/upload") => Some(Route::Json(buckets::upload, id)),
        ("GET", Some((_, ""))) => Some(Route::Json(buckets::list, id)),
        ("GET", Some(_)) => Some(Route::Json(buckets::get, id)),
        _ => None,
    }
}
