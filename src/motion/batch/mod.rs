//! Files and batches of the gateway itself: uploads, batches whose lines run through the engine at any provider, and batches that a provider
//! runs in jobs of its own (`jobs`).
//!
//! A batch runs until every line has one result, whatever process is killed: its state is in the store, files and results are blobs.
//! Not the batches of providers with OpenAI's API, which pass to them as any request.

pub mod batches;
pub mod blobs;
mod budget;
mod create;
mod dispatch;
mod job_calls;
mod job_cutter;
mod job_end;
mod job_rules;
mod job_state;
mod job_target;
mod jobs;
mod kept_results;
mod line;
mod line_error;
mod line_queue;
mod line_result;
mod lines;
mod lines_in_flight;
mod makers;
pub mod metrics;
mod pace;
mod parts;
mod passed_upload;
mod record;
mod run;
mod state;
mod stop;
mod sweep;
mod training;
mod turns;
mod upload;
mod validation;
mod worker;

pub use batches::{Batches, Output, Uploaded};
pub use blobs::{BlobLocation, BlobReader, Blobs};
pub use makers::Makers;
pub use metrics::BatchMetrics;
pub use record::{cancelled, view};
pub use training::read_training;
pub use worker::work;
