//! What hooks found that denied a request or a response, as its error body shows it.
//!
//! Not the results themselves (`guard`).

/// The results of hooks. A type of its own so that an error is a pointer longer, and not a text.
#[derive(Debug, Clone)]
pub struct HookResults {
    /// The JSON of `hook_results`.
    pub json: String,
}
