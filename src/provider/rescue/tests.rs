//! Streams that broke and were gone on with, as the caller sees them: one whole answer, told once.

mod alignment;
mod requests;
mod samples;
mod streams;
