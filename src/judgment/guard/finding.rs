//! What a check found. Not yet a verdict over the request: that is made of the findings of all checks of a hook.

use serde_json::Value;

/// The result of one check.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finding {
    /// Whether the subject passes.
    pub verdict: bool,
    /// What the client is shown of it.
    pub data: Option<Value>,
    /// Why the check could not decide. Such a check passes, unless its parameters or the settings say otherwise.
    pub error: Option<CheckError>,
    /// What it changes.
    pub change: Change,
    /// What goes with the log of a check that writes one.
    pub log: Option<Value>,
}

/// Why a check did not run to its end. Worded for the client: no credentials, no addresses inside the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckError {
    pub name: String,
    pub message: String,
}

/// What a check changes in its subject.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Change {
    #[default]
    None,
    /// New texts in the order of `Subject::texts`; `None`: unchanged. Nothing behind the last one given changes.
    Texts(Vec<Option<String>>),
    /// New texts as above, and what placeholders in them stand for that the subject has not had before: (placeholder, original), to be
    /// restored in the response.
    Placeholders(Vec<Option<String>>, Vec<(String, String)>),
    /// The whole body in place of the subject's.
    Body(Value),
}

impl Finding {
    /// The subject passes, or does not.
    pub fn of(verdict: bool, data: Value) -> Self {
        Self { verdict, data: Some(data), ..Self::default() }
    }

    /// The check could not decide.
    pub fn failed(name: &str, message: impl Into<String>) -> Self {
        let error = CheckError { name: name.to_owned(), message: message.into() };
        Self { error: Some(error), ..Self::default() }
    }

    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    #[must_use]
    pub(crate) fn with_change(mut self, change: Change) -> Self {
        self.change = change;
        self
    }

    #[cfg(test)]
    pub(crate) fn is_transformed(&self) -> bool {
        self.change != Change::None
    }
}
