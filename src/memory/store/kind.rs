//! The kinds of stored objects. To add one, add a line to [`Kind::ALL`] and a file to `control`.
//!
//! Not here: what an object of a kind has as its body.

/// A kind of stored object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Workspace,
    /// A user's membership of a workspace; `parent` is the workspace.
    Member,
    User,
    Invite,
    ApiKey,
    /// A credential with a provider: what integrations, providers and virtual keys are views of.
    Provider,
    Config,
    /// `parent` is the config.
    ConfigVersion,
    Guardrail,
    Prompt,
    /// `parent` is the prompt.
    PromptVersion,
    Partial,
    /// `parent` is the partial.
    PartialVersion,
    Label,
    Collection,
    McpServer,
    UsagePolicy,
    RatePolicy,
    /// A saved question to the log store.
    LogExport,
    /// A file that was uploaded to the gateway, or that a batch made.
    File,
    /// A batch that the gateway runs.
    Batch,
    /// The process's own: the secret with which service keys are hashed.
    Pepper,
}

impl Kind {
    pub const ALL: [Self; 22] = [
        Self::Workspace,
        Self::Member,
        Self::User,
        Self::Invite,
        Self::ApiKey,
        Self::Provider,
        Self::Config,
        Self::ConfigVersion,
        Self::Guardrail,
        Self::Prompt,
        Self::PromptVersion,
        Self::Partial,
        Self::PartialVersion,
        Self::Label,
        Self::Collection,
        Self::McpServer,
        Self::UsagePolicy,
        Self::RatePolicy,
        Self::LogExport,
        Self::File,
        Self::Batch,
        Self::Pepper,
    ];

    /// The name in the database. Never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Member => "member",
            Self::User => "user",
            Self::Invite => "invite",
            Self::ApiKey => "api_key",
            Self::Provider => "provider",
            Self::Config => "config",
            Self::ConfigVersion => "config_version",
            Self::Guardrail => "guardrail",
            Self::Prompt => "prompt",
            Self::PromptVersion => "prompt_version",
            Self::Partial => "partial",
            Self::PartialVersion => "partial_version",
            Self::Label => "label",
            Self::Collection => "collection",
            Self::McpServer => "mcp_server",
            Self::UsagePolicy => "usage_limits_policy",
            Self::RatePolicy => "rate_limits_policy",
            Self::LogExport => "log_export",
            Self::File => "file",
            Self::Batch => "batch",
            Self::Pepper => "pepper",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether records of this kind are kept in memory. The others are read from the database with
    /// [`Backend::children`](super::Backend::children).
    pub const fn is_in_memory(self) -> bool {
        !matches!(self, Self::ConfigVersion)
    }
}
