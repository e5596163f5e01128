//! Requests (`reading`), and responses (`writing`): streamed and unstreamed ones have the same content for any events.

mod reading;
mod writing;
