//! The kinds of tools that clients may send, as data: vendors' own tools besides functions.
//!
//! The list grows with what vendors publish. A kind that is not in it is refused as a mistake, the same at every target;
//! whether a provider has a listed kind is decided by the provider, or by its translation.

use std::iter;

/// The kinds without their versions, by the vendor whose published types or reference has them first.
const KINDS: &[&str] = &[
    // OpenAI: `ChatCompletionTool` and `Tool` of its API description.
    "function",
    "custom",
    "file_search",
    "computer",
    "computer_use",
    "computer_use_preview",
    "web_search",
    "web_search_preview",
    "mcp",
    "code_interpreter",
    "programmatic_tool_calling",
    "image_generation",
    "local_shell",
    "shell",
    "namespace",
    "tool_search",
    "apply_patch",
    // Anthropic: `ToolUnion` of its Python SDK.
    "advisor",
    "bash",
    "code_execution",
    "mcp_toolset",
    "memory",
    "text_editor",
    "tool_search_tool_bm25",
    "tool_search_tool_regex",
    "web_fetch",
    // Google: the tools of the Gemini API, under the names that clients use.
    "google_search",
    "googleSearch",
    "google_search_retrieval",
    "googleSearchRetrieval",
    "codeExecution",
    "url_context",
    "urlContext",
    "google_maps",
    "googleMaps",
    "google_file_search",
    "fileSearch",
    "google_computer_use",
    "computerUse",
    "enterprise_web_search",
    "enterpriseWebSearch",
    "retrieval",
    "mcp_servers",
    "mcpServers",
    // Amazon Nova: the system tools of Converse.
    "nova_grounding",
    "nova_code_interpreter",
    // xAI.
    "x_search",
    "live_search",
    "collections_search",
    // Mistral: the connectors of its agents.
    "web_search_premium",
    "document_library",
    "connector",
    // Groq.
    "browser_search",
    "browser_automation",
    "visit_website",
    "wolfram_alpha",
    // Moonshot, Z.ai.
    "builtin_function",
    "web_browser",
    "drawing_tool",
    // Perplexity.
    "fetch_url",
    "people_search",
    "finance_search",
    // Alibaba.
    "web_extractor",
    "t2i_search",
    "i2i_search",
    // Azure AI Foundry.
    "bing_grounding",
    "bing_custom_search",
    "azure_ai_search",
    "azure_function",
    "openapi",
    "sharepoint_grounding",
    "fabric_dataagent",
    "a2a",
    // Databricks, Snowflake.
    "uc_function",
    "unity_catalog_function",
    "cortex_search",
    "cortex_analyst_text_to_sql",
    "generic",
];

/// Whether a tool may be of this kind: a listed one, in any version (`web_search_20250305`, `web_search_preview_2025_03_11`),
/// or one in a router's namespace (`openrouter:web_search`).
pub(super) fn is_listed(kind: &str) -> bool {
    kind.contains(':')
        || iter::successors(Some(kind), |kind| unversioned(kind)).any(|kind| KINDS.contains(&kind))
}

/// A kind without the number it ends in; `None` if it ends in none.
fn unversioned(kind: &str) -> Option<&str> {
    let (base, version) = kind.rsplit_once('_')?;
    let is_number = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_listed_in_every_version() {
        let listed =
            ["function", "web_search_20250305", "web_search_preview_2025_03_11", "openrouter:web_search"];
        for kind in
            listed.into_iter().chain(["tool_search_tool_bm25_20251119", "computer_use_2030", "t2i_search"])
        {
            assert!(is_listed(kind), "{kind}");
        }
        for kind in
            ["", "_", "_20250305", "functions", "web_search_", "web_search_new", "who_knows", "Function"]
        {
            assert!(!is_listed(kind), "{kind}");
        }
    }

    #[test]
    fn no_kind_is_listed_twice_and_all_are_documented() {
        let page = include_str!("../../../../docs/request-rules.md");
        for (index, kind) in KINDS.iter().enumerate() {
            assert!(page.contains(&format!("`{kind}`")), "docs/request-rules.md lacks {kind}");
            assert!(!KINDS.iter().take(index).any(|earlier| earlier == kind), "{kind}");
        }
    }
}
