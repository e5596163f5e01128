//! What the settings say of batches and files, as the room uses it.

use std::time::Duration;

/// Bounds of files and batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchOptions {
    /// Lines in flight in this process at most.
    pub concurrency: usize,
    /// Lines of one batch at most.
    pub max_lines: u32,
    /// Bytes of one line at most.
    pub max_line_bytes: usize,
    pub max_file_bytes: u64,
    /// Of all files of a workspace.
    pub max_workspace_bytes: u64,
    /// How long finished batches and the files that they made are kept.
    pub retention: Duration,
}
