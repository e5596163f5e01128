//! What is wrong with a line of a batch's input file, as `errors.data` of the batch shows it.
//!
//! Not here: errors of a request or of a line's response (`error`, `line_result`).

use serde::Serialize;

/// How many errors of one file are kept.
const MAX_ERRORS: usize = 100;

/// An item of a batch's `errors.data`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineError {
    /// The codes are OpenAI's and Azure's, where they have one.
    pub code: &'static str,
    pub message: String,
    /// The member of the line that is wrong.
    pub param: Option<&'static str>,
    /// From 1; `None` for the whole file.
    pub line: Option<u32>,
}

/// The errors of one file: the first hundred, and how many there are beyond.
#[derive(Debug, Default)]
pub(crate) struct LineErrors {
    kept: Vec<LineError>,
    dropped: u64,
}

impl LineErrors {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, error: LineError) {
        if self.kept.len() < MAX_ERRORS {
            self.kept.push(error);
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// At most 101 items; the last one gives the number of those that are left out.
    pub fn into_vec(mut self) -> Vec<LineError> {
        if self.dropped > 0 {
            let lines = if self.dropped == 1 { "line has" } else { "lines have" };
            let message = format!(
                "{} more {lines} errors. Correct the first {MAX_ERRORS} and try again.",
                self.dropped
            );
            self.kept.push(LineError { code: "too_many_errors", message, param: None, line: None });
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(count: u32) -> Vec<LineError> {
        let mut errors = LineErrors::new();
        assert!(errors.is_empty());
        for line in 1..=count {
            errors.push(LineError {
                code: "invalid_json_line",
                message: "x".to_owned(),
                param: None,
                line: Some(line),
            });
        }
        errors.into_vec()
    }

    #[test]
    fn the_first_hundred_are_kept_and_the_others_counted() {
        assert_eq!(errors(100).len(), 100);
        let many = errors(50_000);
        assert_eq!(many.len(), 101);
        assert_eq!(many[99].line, Some(100));
        assert_eq!((many[100].code, many[100].line), ("too_many_errors", None));
        assert!(many[100].message.starts_with("49900 more lines"), "{}", many[100].message);
    }

    #[test]
    fn an_item_has_openai_s_members() {
        let item = serde_json::to_string(&errors(1)[0]).unwrap();
        assert_eq!(item, r#"{"code":"invalid_json_line","message":"x","param":null,"line":1}"#);
    }
}
