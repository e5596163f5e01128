//! Which paths belong to the control plane when they arrive at the data port.
//!
//! Plain data for both planes: `control` makes it from its route table, the data plane looks paths up. Contains no
//! routes.

/// The control plane's paths at the data port.
#[derive(Debug, Clone, Default)]
pub struct ControlPaths {
    /// First segments below `/v1`.
    pub segments: Vec<&'static str>,
    /// Whole paths outside `/v1`.
    pub paths: Vec<&'static str>,
}

impl ControlPaths {
    /// Whether this path outside the version segment is the control plane's.
    pub fn owns_path(&self, path: &str) -> bool {
        self.paths.contains(&path)
    }

    /// Whether this path below `/v1/` (without that prefix) is the control plane's.
    pub fn owns_relative(&self, relative: &str) -> bool {
        let first = relative.split('/').next().unwrap_or_default();
        self.segments.contains(&first)
    }
}
