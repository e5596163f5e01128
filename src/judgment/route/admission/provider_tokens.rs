//! The paths, besides those below `realtime/`, at which providers make a token or key of their own for whoever calls with the operator's.
//!
//! What is made there works beside the gateway, where no limit, guardrail or list of models holds. Found in every spelling, with any method,
//! at every place: which target a request goes to is not known here. Paths of the realtime API are in `realtime_paths`.

use super::meant;

/// A path at which something is made that its holder uses without the gateway. Where two rows fit, the first counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TokenPath {
    pub vendor: &'static str,
    /// The last segments before it, in small letters; `*` is any one.
    before: &'static str,
    /// The last segment; `*` alone is any one.
    last: &'static str,
    /// What is made there, for the message.
    pub makes: &'static str,
    /// Where the vendor says so.
    source: &'static str,
}

const fn row(
    vendor: &'static str,
    before: &'static str,
    last: &'static str,
    makes: &'static str,
    source: &'static str,
) -> TokenPath {
    TokenPath { vendor, before, last, makes, source }
}

static TABLE: [TokenPath; 18] = [
    row(
        "Google",
        "",
        "auth_tokens",
        "tokens of its Live API",
        "https://ai.google.dev/gemini-api/docs/ephemeral-tokens",
    ),
    row(
        "Google",
        "google.ai.generativelanguage.*.authtokenservice",
        "*",
        "tokens of its Live API",
        GOOGLE_RPC,
    ),
    row(
        "OpenAI",
        "chatkit",
        "sessions",
        "secrets of ChatKit sessions",
        "https://platform.openai.com/docs/api-reference/chatkit",
    ),
    row(
        "OpenAI",
        "organization",
        "admin_api_keys",
        "admin keys",
        "https://platform.openai.com/docs/api-reference/admin-api-keys",
    ),
    row(
        "OpenAI",
        "projects/*",
        "service_accounts",
        "keys of service accounts",
        "https://platform.openai.com/docs/api-reference/project-service-accounts",
    ),
    row("Azure", "sts/v1.0", "issuetoken", "tokens of a resource", AZURE_TOKEN),
    row("OpenRouter", "", "keys", "keys", "https://openrouter.ai/docs/api-reference/api-keys/create-api-key"),
    row(
        "Databricks",
        "api/2.0/token",
        "create",
        "personal access tokens",
        "https://docs.databricks.com/api/workspace/tokens/create",
    ),
    row(
        "Databricks",
        "token-management/on-behalf-of",
        "tokens",
        "access tokens of service principals",
        DATABRICKS_OTHERS,
    ),
    row(
        "Alibaba",
        "",
        "tokens",
        "temporary keys",
        "https://help.aliyun.com/zh/model-studio/obtain-temporary-authentication-token",
    ),
    row(
        "Cloudflare",
        "tokens/*",
        "value",
        "values of API tokens",
        "https://developers.cloudflare.com/api/resources/user/subresources/tokens/",
    ),
    row("Fireworks", "users/*", "apikeys", "keys", "https://docs.fireworks.ai/api-reference/create-api-key"),
    row("LiteLLM", "key", "generate", "keys", LITELLM_KEYS),
    row("LiteLLM", "key/service-account", "generate", "keys", LITELLM_KEYS),
    row("LiteLLM", "key", "regenerate", "keys", LITELLM_KEYS),
    row("LiteLLM", "key/*", "regenerate", "keys", LITELLM_KEYS),
    row("LiteLLM", "user", "new", "keys of users", "https://docs.litellm.ai/docs/proxy/users"),
    row(
        "Snowflake",
        "oauth",
        "token-request",
        "access tokens",
        "https://docs.snowflake.com/en/user-guide/oauth-custom",
    ),
];

const GOOGLE_RPC: &str = "https://ai.google.dev/api (the service of auth_tokens, as RPC)";
const AZURE_TOKEN: &str = "https://learn.microsoft.com/en-us/azure/ai-services/authentication";
const DATABRICKS_OTHERS: &str = "https://docs.databricks.com/api/workspace/tokenmanagement/createobotoken";
const LITELLM_KEYS: &str = "https://docs.litellm.ai/docs/proxy/virtual_keys";

impl TokenPath {
    pub fn find(path: &str) -> Option<&'static Self> {
        let plain = meant::plain_segments(path);
        let (before, last) = plain.rsplit_once('/')?;
        let last = name(last);
        let is_last = |row: &Self| row.last == last || row.last == "*" && !last.is_empty();
        TABLE.iter().find(|row| is_last(row) && row.is_behind(before))
    }

    /// Whether a path ends with the segments before the last one.
    fn is_behind(&self, path: &str) -> bool {
        let mut segments = path.rsplit('/');
        let mut wanted = self.before.rsplit('/').filter(|wanted| !wanted.is_empty());
        wanted.all(|wanted| segments.next().is_some_and(|segment| fits(name(segment), wanted)))
    }
}

/// A segment without a method of Google's (`name:method`).
fn name(segment: &str) -> &str {
    segment.split(':').next().unwrap_or_default()
}

/// Whether the name of a segment is this one.
fn fits(name: &str, wanted: &str) -> bool {
    match wanted.split_once('*') {
        None => name == wanted,
        Some((start, end)) => {
            let rest = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            rest.is_some_and(|rest| !rest.is_empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ways to write the same path, as servers read it.
    fn spellings(path: &str) -> Vec<String> {
        let (before, last) = path.rsplit_once('/').unwrap();
        let escaped: String = last.chars().map(|char| format!("%{:02x}", char as u32)).collect();
        let twice = escaped.replace('%', "%25");
        vec![
            path.to_owned(),
            format!("{path}/"),
            format!("{before}//{last}"),
            format!("{before}/./x/../{last}"),
            format!("{before}%2F{last}"),
            format!("{before}\\{last}"),
            format!("{before}/{}", last.to_uppercase()),
            format!("{before}/{escaped}"),
            format!("{before}/{twice}"),
            format!("{before}/{last};a=b"),
            format!("{before}/{last}:create"),
        ]
    }

    #[test]
    fn every_row_is_found_at_every_place_in_every_spelling() {
        for row in &TABLE {
            assert!(row.source.starts_with("https://") && !row.makes.is_empty(), "{row:?}");
            let ends = format!("{}/{}", row.before, row.last);
            assert_eq!(ends, ends.to_lowercase());
            assert!(row.last == "*" || !row.last.contains('*'), "{row:?}");
            let path = ends.trim_start_matches('/').replace('*', "x1");
            for place in [
                "/v1/",
                "/v1/v1/",
                "/v1/proxy/",
                "/v1/proxy/v1/",
                "/v1/proxy/../",
                "/v1beta/",
                "/v1alpha/",
                "/openai/",
            ] {
                for spelling in spellings(&format!("{place}{path}")) {
                    let found = TokenPath::find(&spelling);
                    assert!(
                        found.is_some_and(|found| found.makes == row.makes || found.vendor == row.vendor),
                        "{spelling}"
                    );
                }
            }
        }
    }

    #[test]
    fn other_paths_are_not() {
        for path in [
            "/v1/chat/completions",
            "/v1/messages/count_tokens",
            "/v1/chatkit/threads",
            "/v1/chatkit/sessions/s1/cancel",
            "/v1beta/models/m:countTokens",
            "/v1/organization/usage/completions",
            "/v1/organization/projects/p/service_accounts/s1",
            "/v1/key",
            "/v1/models/keys/x",
            "/v1/models",
            "/v1/user",
            "/",
            "",
        ] {
            assert_eq!(TokenPath::find(path), None, "{path}");
        }
    }
}
