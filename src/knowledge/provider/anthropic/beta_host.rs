//! Which betas of Anthropic's API are taken where its models are served, and which members and tools leave with them.
//!
//! A host refuses a request with a beta that it does not have ("Unexpected value(s) … for the `anthropic-beta` header", "invalid
//! beta flag"), and Claude Code names those of Anthropic's own API in every request. A member or a tool that needs a beta is
//! refused without it, so it is left out with it. Data and its questions; what an account names itself is not judged.

use super::betas::feature;
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::vendor_members::ANTHROPIC_AT_HOME;
use crate::provider::{Call, Provider};
use http::{HeaderMap, HeaderName, HeaderValue};
use words::api::operation::Operation;

/// Where Anthropic's models are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BetaHost {
    /// Anthropic's own API, and Microsoft Foundry.
    Own,
    Vertex,
    /// Vertex AI's counting of tokens: it takes no beta at all
    /// (<https://github.com/anthropics/claude-code/issues/11154>).
    VertexCount,
    Bedrock,
}

/// Sources: <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html>,
/// and for the last
/// three `bedrock_converse` in `litellm/anthropic_beta_headers_config.json` of <https://github.com/BerriAI/litellm>. Task budgets were
/// sent before there was this list.
const BEDROCK: [&str; 15] = [
    "compact",
    "computer-use",
    "context-1m",
    "context-management",
    "dev-full-thinking",
    "effort",
    "interleaved-thinking",
    "output-128k",
    "task-budgets",
    "token-efficient-tools",
    "tool-examples",
    "tool-search-tool",
    "fine-grained-tool-streaming",
    "thinking-binding-controls",
    "thinking-display-updates",
];

/// Source: `vertex_ai` in the same file. Refused there by report: `effort`
/// (<https://github.com/anthropics/claude-code/issues/34802>), `prompt-caching-scope`
/// (<https://github.com/anthropics/claude-code/issues/21625>), `structured-outputs` (<https://github.com/vercel/ai/issues/10981>).
/// Task budgets were sent before there was this list.
const VERTEX: [&str; 12] = [
    "compact",
    "computer-use",
    "context-1m",
    "context-management",
    "dangerous-tool-use",
    "interleaved-thinking",
    "per-turn-control",
    "task-budgets",
    "thinking-binding-controls",
    "thinking-display-updates",
    "tool-search-tool",
    "web-search",
];

/// One feature that Anthropic's own API and the clouds name differently
/// (<https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool>).
const OWN_TOOL_SEARCH: &str = "advanced-tool-use-2025-11-20";
const CLOUDS_TOOL_SEARCH: &str = "tool-search-tool-2025-10-19";

/// Beginnings of the types of tools that a feature adds, for features that a cloud lacks.
const TOOLS: [(&str, &str); 4] = [
    ("advisor_", "advisor-tool"),
    ("code_execution_", "code-execution"),
    ("mcp_toolset", "mcp-client"),
    ("web_fetch_", "web-fetch"),
];

const HEADER: HeaderName = HeaderName::from_static("anthropic-beta");

impl BetaHost {
    pub(in crate::provider) fn at_vertex(operation: Operation) -> Self {
        if operation == Operation::CountTokens { Self::VertexCount } else { Self::Vertex }
    }

    fn features(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Own => None,
            Self::Vertex => Some(&VERTEX),
            Self::VertexCount => Some(&[]),
            Self::Bedrock => Some(&BEDROCK),
        }
    }

    /// The beta to send for one that a client names; `None` if there is none here.
    pub(in crate::provider) fn taken(self, beta: &str) -> Option<&str> {
        match (self.features(), feature(beta)) {
            (None, "tool-search-tool" | "tool-examples") => Some(OWN_TOOL_SEARCH),
            (None, _) => Some(beta),
            (Some(features), "advanced-tool-use") if features.contains(&feature(CLOUDS_TOOL_SEARCH)) => {
                Some(CLOUDS_TOOL_SEARCH)
            }
            (Some(features), named) => features.contains(&named).then_some(beta),
        }
    }

    /// Of a list of betas, those to send. The others are left out with a warning.
    pub(in crate::provider) fn kept(
        self,
        named: Vec<String>,
        provider: &str,
        notes: &mut TranslationNotes,
    ) -> Vec<String> {
        let mut kept: Vec<String> = Vec::with_capacity(named.len());
        let mut left: Vec<&str> = Vec::new();
        for beta in &named {
            match self.taken(beta) {
                Some(beta) if kept.iter().any(|other| other == beta) => {}
                Some(beta) => kept.push(beta.to_owned()),
                None => left.push(beta),
            }
        }
        if !left.is_empty() {
            notes.warn("anthropic-beta", format!("{} dropped, {provider} has no such betas", left.join(" ")));
        }
        kept
    }

    /// Leaves only betas that are taken here in the headers of a client.
    pub fn filter(self, headers: &mut HeaderMap) {
        let values = headers.get_all(&HEADER).iter().map(HeaderValue::to_str);
        let Ok(values) = values.collect::<Result<Vec<&str>, _>>() else { return };
        let named: Vec<String> = values.into_iter().flat_map(items).map(str::to_owned).collect();
        let kept = self.kept(named.clone(), "", &mut TranslationNotes::default());
        if kept == named {
            return;
        }
        headers.remove(&HEADER);
        if let (false, Ok(value)) = (kept.is_empty(), HeaderValue::try_from(kept.join(","))) {
            headers.insert(HEADER, value);
        }
    }

    /// The members of a request that are not taken here, because their betas are not.
    pub(in crate::provider) fn missing_members(self) -> &'static [&'static str] {
        match self {
            Self::Own => &[],
            _ => ANTHROPIC_AT_HOME,
        }
    }

    /// Whether there are tools of this type here.
    pub(in crate::provider) fn takes_tool(self, kind: &str) -> bool {
        let needed = TOOLS.iter().find(|(begin, _)| kind.starts_with(begin)).map(|(_, feature)| *feature);
        match (self.features(), needed) {
            (Some(features), Some(needed)) => features.contains(&needed),
            _ => true,
        }
    }

    /// Whether a list of tools may have one that is not taken here: a quick check.
    pub(in crate::provider) fn may_lack(self, tools: &[u8]) -> bool {
        self != Self::Own
            && TOOLS.iter().any(|(begin, _)| memchr::memmem::find(tools, begin.as_bytes()).is_some())
    }
}

/// The betas of one header's text.
pub(in crate::provider) fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|beta| !beta.is_empty())
}

/// The betas that a client names in its header, as they are sent.
pub(in crate::provider) fn from_header(
    host: BetaHost,
    header: Option<&str>,
    provider: &str,
    notes: &mut TranslationNotes,
) -> Vec<String> {
    let named = items(header.unwrap_or_default()).map(str::to_owned).collect();
    host.kept(named, provider, notes)
}

/// Warns of the betas of a client's header that do not go along with a call.
pub(in crate::provider) fn warn_of_header(
    provider: &dyn Provider,
    call: &Call<'_>,
    header: Option<&str>,
    notes: &mut TranslationNotes,
) {
    if let Some(host) = provider.beta_host(call.operation, call.model.unwrap_or_default()) {
        from_header(host, header, provider.id(), notes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::anthropic::betas;

    #[test]
    fn each_host_gets_the_betas_that_it_has() {
        for (host, beta, sent) in [
            (BetaHost::Own, "claude-code-20250219", Some("claude-code-20250219")),
            (BetaHost::Own, "some-new-2027-01-01", Some("some-new-2027-01-01")),
            (BetaHost::Own, CLOUDS_TOOL_SEARCH, Some(OWN_TOOL_SEARCH)),
            (BetaHost::Vertex, "claude-code-20250219", None),
            (BetaHost::Vertex, "effort-2025-11-24", None),
            (BetaHost::Vertex, "web-search-2025-03-05", Some("web-search-2025-03-05")),
            (BetaHost::Vertex, "context-1m-2025-08-07", Some("context-1m-2025-08-07")),
            (BetaHost::Vertex, OWN_TOOL_SEARCH, Some(CLOUDS_TOOL_SEARCH)),
            (BetaHost::VertexCount, "context-1m-2025-08-07", None),
            (BetaHost::VertexCount, OWN_TOOL_SEARCH, None),
            (BetaHost::Bedrock, "oauth-2025-04-20", None),
            (BetaHost::Bedrock, "effort-2025-11-24", Some("effort-2025-11-24")),
            (BetaHost::Bedrock, OWN_TOOL_SEARCH, Some(CLOUDS_TOOL_SEARCH)),
            (BetaHost::Bedrock, "web-search-2025-03-05", None),
        ] {
            assert_eq!(host.taken(beta), sent, "{host:?} {beta}");
        }
    }

    #[test]
    fn a_member_is_missing_where_its_beta_is() {
        let taken_somewhere =
            |beta: &str| [BetaHost::Vertex, BetaHost::Bedrock].iter().any(|host| host.taken(beta).is_some());
        for (member, beta) in betas::MEMBERS {
            assert_eq!(ANTHROPIC_AT_HOME.contains(&member), !taken_somewhere(beta), "{member} {beta}");
        }
        for host in [BetaHost::Vertex, BetaHost::Bedrock, BetaHost::VertexCount] {
            for (member, beta) in
                betas::MEMBERS.iter().filter(|(member, _)| host.missing_members().contains(member))
            {
                assert_eq!(host.taken(beta), None, "{host:?} {member}");
            }
        }
        assert!(BetaHost::Own.takes_tool("mcp_toolset") && !BetaHost::Vertex.takes_tool("mcp_toolset"));
        assert!(BetaHost::Vertex.takes_tool("web_search_20250305") && BetaHost::Vertex.takes_tool("custom"));
        assert!(BetaHost::Vertex.may_lack(br#"[{"type":"web_fetch_20250910"}]"#));
    }

    #[test]
    fn a_header_keeps_its_bytes_unless_something_leaves_it() {
        let filtered = |host: BetaHost, values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HEADER, HeaderValue::from_static(value));
            }
            host.filter(&mut headers);
            let sent = headers.get_all(HEADER).iter().map(|value| value.to_str().unwrap().to_owned());
            sent.collect::<Vec<_>>()
        };
        assert_eq!(filtered(BetaHost::Own, &["a-1, b-2", "c-3"]), ["a-1, b-2", "c-3"]);
        let claude_code = "claude-code-20250219,context-1m-2025-08-07, interleaved-thinking-2025-05-14,advanced-tool-use-2025-11-20";
        assert_eq!(
            filtered(BetaHost::Vertex, &[claude_code]),
            ["context-1m-2025-08-07,interleaved-thinking-2025-05-14,tool-search-tool-2025-10-19"]
        );
        assert_eq!(filtered(BetaHost::VertexCount, &[claude_code]), [""; 0]);
    }
}
