//! Which beta Anthropic demands for what a request contains.
//!
//! Data. A beta is a feature's name and a date; a client that names another date of the same feature has chosen its
//! version. Source: the beta members and tools of `types/beta/` that are not in `types/` of Anthropic's Python SDK
//! 2.12.0, and the names in `types/anthropic_beta_param.py`.

use words::json::Json;

/// The beta that references to stored files require.
pub(super) const FILES: &str = "files-api-2025-04-14";

/// Members of the body, and what they require.
pub(super) const MEMBERS: [(&str, &str); 9] = [
    ("compaction", "compact-2026-09-04"),
    ("context_management", "context-management-2025-06-27"),
    // https://github.com/experientiallabs/experiential/issues/679.
    ("diagnostics", "cache-diagnosis-2026-04-07"),
    ("fallback_credit_token", "fallback-credit-2026-07-01"),
    ("fallbacks", "server-side-fallback-2026-07-01"),
    ("mcp_servers", "mcp-client-2025-11-20"),
    // Part of the stable API only since version 2026-10-21.
    ("speed", "fast-mode-2026-02-01"),
    ("task_budget", "task-budgets-2026-03-13"),
    ("thread", "message-threads-2026-08-12"),
];

/// Types of tools, and what they require.
const TOOLS: [(&str, &str); 6] = [
    ("advisor_20260301", "advisor-tool-2026-03-01"),
    ("bash_20241022", "computer-use-2024-10-22"),
    ("computer_20241022", "computer-use-2024-10-22"),
    ("computer_20250124", "computer-use-2025-01-24"),
    ("computer_20251124", "computer-use-2025-11-24"),
    ("text_editor_20241022", "computer-use-2024-10-22"),
];

/// Edits of `context_management` that require one of their own.
const COMPACTION: (&str, &str) = ("compact_20260112", "compact-2026-01-12");

/// Adds the beta for a member of the body or of `output_config`.
pub(in crate::provider) fn for_member(name: &str, value: &Json<'_>, betas: &mut Vec<String>) {
    if let Some((_, beta)) = MEMBERS.iter().find(|(member, _)| *member == name) {
        add(beta, betas);
    }
    if name == "context_management" && value.get().contains(COMPACTION.0) {
        add(COMPACTION.1, betas);
    }
}

/// Adds the beta for a tool of Anthropic's.
pub(in crate::provider) fn for_tool(kind: &str, betas: &mut Vec<String>) {
    if let Some((_, beta)) = TOOLS.iter().find(|(tool, _)| *tool == kind) {
        add(beta, betas);
    }
}

/// Adds a beta, unless the list has one of the same feature.
pub(super) fn add(beta: &str, betas: &mut Vec<String>) {
    if !betas.iter().any(|other| feature(other) == feature(beta)) {
        betas.push(beta.to_owned());
    }
}

/// A beta without its date.
pub fn feature(beta: &str) -> &str {
    const DATE: usize = "-2025-01-24".len();
    match beta.split_at_checked(beta.len().saturating_sub(DATE)) {
        Some((feature, date)) if date.bytes().filter(u8::is_ascii_digit).count() == 8 => feature,
        _ => beta,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_version_of_a_feature_stays() {
        let mut betas = vec!["mcp-client-2025-04-04".to_owned(), "mine".to_owned()];
        let value = Json::parse(r#"{"edits":[{"type":"compact_20260112"}]}"#).unwrap();
        for name in ["mcp_servers", "context_management", "speed", "container"] {
            for_member(name, &value, &mut betas);
        }
        for_tool("computer_20250124", &mut betas);
        for_tool("bash_20250124", &mut betas);
        assert_eq!(
            betas,
            [
                "mcp-client-2025-04-04",
                "mine",
                "context-management-2025-06-27",
                "compact-2026-01-12",
                "fast-mode-2026-02-01",
                "computer-use-2025-01-24",
            ]
        );
    }
}
