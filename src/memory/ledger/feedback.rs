//! What clients think of responses: one value for a trace id.

use uuid::Uuid;

/// One piece of feedback.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    pub id: Uuid,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// The request may not be there yet, or never.
    pub trace_id: String,
    pub workspace: Option<Uuid>,
    /// From -10 to 10.
    pub value: i64,
    /// From 0 to 1.
    pub weight: f64,
    /// A JSON object.
    pub metadata: Option<String>,
}
