//! An account of which nothing but the provider is known: what it needs are variables to fill.

use super::import::Import;
use super::moved::VariableUse;
use super::tree::Tree;

/// The account of a stored provider. `slug` is in the names of its variables.
pub fn of(import: &mut Import, slug: &str, vendor: &str) -> Tree {
    let account = Tree::of([("provider", Tree::text(vendor))]);
    let members: &[(&str, &str, VariableUse)] = match vendor {
        "azure-openai" | "azure-ai" | "workers-ai" | "databricks" | "snowflake" | "predibase" => &[
            ("resource_name", "RESOURCE_NAME", VariableUse::Text),
            ("api_key", "API_KEY", VariableUse::Secret),
        ],
        "bedrock" => &[
            ("cloud_a_region", "REGION", VariableUse::Text),
            ("cloud_a_access_key_id", "ACCESS_KEY_ID", VariableUse::Secret),
            ("cloud_a_secret_access_key", "SECRET_ACCESS_KEY", VariableUse::Secret),
        ],
        "vertex-ai" => &[
            ("cloud_b_project_id", "PROJECT_ID", VariableUse::Text),
            ("cloud_b_region", "REGION", VariableUse::Text),
            ("cloud_b_service_account_json", "SERVICE_ACCOUNT", VariableUse::ServiceAccount),
        ],
        "ollama" | "vllm" | "lmstudio" | "llamacpp" | "litellm" | "lepton" | "modal" | "triton"
        | "milvus" | "qdrant" => &[("custom_host", "BASE_URL", VariableUse::Url)],
        _ => &[("api_key", "API_KEY", VariableUse::Secret)],
    };
    members.iter().fold(account, |account, (member, ending, of)| {
        let name = format!("{}_{ending}", slug.to_uppercase());
        account.with(member, Tree::Text(import.moved.new_variable(&name, *of)))
    })
}
