//! Resumed streams as the client sees them: one complete response without repetition.

mod alignment;
mod requests;
mod samples;
mod streams;
