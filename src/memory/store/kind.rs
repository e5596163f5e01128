//! The kinds of stored objects. To add one, add a row to the table and a file to `control`.
//!
//! Not here: what an object of a kind has as its body.

/// What holds for all objects of a kind.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    is_in_memory: bool,
    is_for_administrators: bool,
}

/// `name`: in the database. It never changes.
const fn row(name: &'static str) -> Row {
    Row { name, is_in_memory: true, is_for_administrators: false }
}

impl Row {
    const fn in_database_only(self) -> Self {
        Self { is_in_memory: false, ..self }
    }

    const fn for_administrators(self) -> Self {
        Self { is_for_administrators: true, ..self }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $row:expr,)*) => {
        /// A kind of stored object.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            pub const ALL: [Self; [$(Self::$kind),*].len()] = [$(Self::$kind),*];

            const fn row(self) -> Row {
                match self {
                    $(Self::$kind => $row,)*
                }
            }
        }
    };
}

kinds! {
    Workspace = row("workspace"),
    /// A user's membership of a workspace; `parent` is the workspace.
    Member = row("member"),
    User = row("user").for_administrators(),
    Invite = row("invite").for_administrators(),
    ApiKey = row("api_key").for_administrators(),
    /// A credential with a provider: what integrations, providers and virtual keys are views of.
    Provider = row("provider"),
    Config = row("config"),
    /// `parent` is the config.
    ConfigVersion = row("config_version").in_database_only(),
    /// A name that works as `model`.
    ModelName = row("model_name"),
    Guardrail = row("guardrail"),
    Prompt = row("prompt"),
    /// `parent` is the prompt.
    PromptVersion = row("prompt_version"),
    Partial = row("partial"),
    /// `parent` is the partial.
    PartialVersion = row("partial_version"),
    Label = row("label"),
    Collection = row("collection"),
    McpServer = row("mcp_server"),
    McpBundle = row("mcp_bundle"),
    UsagePolicy = row("usage_limits_policy"),
    RatePolicy = row("rate_limits_policy"),
    /// A saved question to the log store.
    LogExport = row("log_export").for_administrators(),
    /// A file that was uploaded to the gateway, or that a batch made.
    File = row("file").for_administrators(),
    /// A batch that the gateway runs.
    Batch = row("batch").for_administrators(),
    /// A session of the console that ended before its time, or all of a person's.
    SessionEnd = row("console_session_end").for_administrators(),
    /// Used by the gateway itself: the secret with which service keys are hashed.
    Pepper = row("pepper").for_administrators(),
}

impl Kind {
    /// The name in the database.
    pub const fn as_str(self) -> &'static str {
        self.row().name
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether records of this kind are kept in memory. The others are read from the database with
    /// [`Backend::children`](super::Backend::children).
    pub const fn is_in_memory(self) -> bool {
        self.row().is_in_memory
    }

    /// Whether the organisation's own objects of this kind are for its administrators alone, and not for clients of a workspace.
    pub const fn is_for_administrators(self) -> bool {
        self.row().is_for_administrators
    }
}
