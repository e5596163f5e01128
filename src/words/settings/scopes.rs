//! What a key may do: the scopes of both planes, sets of them, and which type of key may hold which.
//!
//! The names are Portkey's; the last four are the gateway's own. Here and not in `auth`, because the
//! settings give keys scopes. Which route or operation needs which scope is decided where those are.

use std::fmt;

macro_rules! scopes {
    ($($name:ident = $text:literal,)*) => {
        /// One right. Its number is its place in a [`ScopeSet`], and means nothing outside the process.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Scope {
            $($name,)*
        }

        impl Scope {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// `RESOURCE.ACTION`, as in the API.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

scopes! {
    OrganisationUsersCreate = "organisation_users.create",
    OrganisationUsersList = "organisation_users.list",
    OrganisationUsersRead = "organisation_users.read",
    OrganisationUsersUpdate = "organisation_users.update",
    OrganisationUsersDelete = "organisation_users.delete",
    OrganisationServiceApiKeysCreate = "organisation_service_api_keys.create",
    OrganisationServiceApiKeysList = "organisation_service_api_keys.list",
    OrganisationServiceApiKeysRead = "organisation_service_api_keys.read",
    OrganisationServiceApiKeysUpdate = "organisation_service_api_keys.update",
    OrganisationServiceApiKeysDelete = "organisation_service_api_keys.delete",
    OrganisationServiceApiKeysRotate = "organisation_service_api_keys.rotate",
    WorkspaceServiceApiKeysCreate = "workspace_service_api_keys.create",
    WorkspaceServiceApiKeysList = "workspace_service_api_keys.list",
    WorkspaceServiceApiKeysRead = "workspace_service_api_keys.read",
    WorkspaceServiceApiKeysUpdate = "workspace_service_api_keys.update",
    WorkspaceServiceApiKeysDelete = "workspace_service_api_keys.delete",
    WorkspaceServiceApiKeysRotate = "workspace_service_api_keys.rotate",
    WorkspaceUserApiKeysCreate = "workspace_user_api_keys.create",
    WorkspaceUserApiKeysList = "workspace_user_api_keys.list",
    WorkspaceUserApiKeysRead = "workspace_user_api_keys.read",
    WorkspaceUserApiKeysUpdate = "workspace_user_api_keys.update",
    WorkspaceUserApiKeysDelete = "workspace_user_api_keys.delete",
    WorkspaceUserApiKeysRotate = "workspace_user_api_keys.rotate",
    WorkspacesCreate = "workspaces.create",
    WorkspacesList = "workspaces.list",
    WorkspacesRead = "workspaces.read",
    WorkspacesUpdate = "workspaces.update",
    WorkspacesDelete = "workspaces.delete",
    WorkspaceUsersCreate = "workspace_users.create",
    WorkspaceUsersList = "workspace_users.list",
    WorkspaceUsersRead = "workspace_users.read",
    WorkspaceUsersUpdate = "workspace_users.update",
    WorkspaceUsersDelete = "workspace_users.delete",
    PromptsCreate = "prompts.create",
    PromptsList = "prompts.list",
    PromptsRead = "prompts.read",
    PromptsUpdate = "prompts.update",
    PromptsDelete = "prompts.delete",
    PromptsPublish = "prompts.publish",
    PromptsRender = "prompts.render",
    ConfigsCreate = "configs.create",
    ConfigsList = "configs.list",
    ConfigsRead = "configs.read",
    ConfigsUpdate = "configs.update",
    ConfigsDelete = "configs.delete",
    GuardrailsCreate = "guardrails.create",
    GuardrailsList = "guardrails.list",
    GuardrailsRead = "guardrails.read",
    GuardrailsUpdate = "guardrails.update",
    GuardrailsDelete = "guardrails.delete",
    VirtualKeysCreate = "virtual_keys.create",
    VirtualKeysList = "virtual_keys.list",
    VirtualKeysRead = "virtual_keys.read",
    VirtualKeysUpdate = "virtual_keys.update",
    VirtualKeysDelete = "virtual_keys.delete",
    VirtualKeysDuplicate = "virtual_keys.duplicate",
    VirtualKeysCopy = "virtual_keys.copy",
    ProvidersCreate = "providers.create",
    ProvidersList = "providers.list",
    ProvidersRead = "providers.read",
    ProvidersUpdate = "providers.update",
    ProvidersDelete = "providers.delete",
    PoliciesCreate = "policies.create",
    PoliciesList = "policies.list",
    PoliciesRead = "policies.read",
    PoliciesUpdate = "policies.update",
    PoliciesDelete = "policies.delete",
    SecretReferencesCreate = "secret_references.create",
    SecretReferencesList = "secret_references.list",
    SecretReferencesRead = "secret_references.read",
    SecretReferencesUpdate = "secret_references.update",
    SecretReferencesDelete = "secret_references.delete",
    McpServersCreate = "mcp_servers.create",
    McpServersList = "mcp_servers.list",
    McpServersRead = "mcp_servers.read",
    McpServersUpdate = "mcp_servers.update",
    McpServersDelete = "mcp_servers.delete",
    OrganisationIntegrationsCreate = "organisation_integrations.create",
    OrganisationIntegrationsList = "organisation_integrations.list",
    OrganisationIntegrationsRead = "organisation_integrations.read",
    OrganisationIntegrationsUpdate = "organisation_integrations.update",
    OrganisationIntegrationsDelete = "organisation_integrations.delete",
    WorkspaceIntegrationsCreate = "workspace_integrations.create",
    WorkspaceIntegrationsList = "workspace_integrations.list",
    WorkspaceIntegrationsRead = "workspace_integrations.read",
    WorkspaceIntegrationsUpdate = "workspace_integrations.update",
    WorkspaceIntegrationsDelete = "workspace_integrations.delete",
    OrganisationMcpIntegrationsCreate = "organisation_mcp_integrations.create",
    OrganisationMcpIntegrationsList = "organisation_mcp_integrations.list",
    OrganisationMcpIntegrationsRead = "organisation_mcp_integrations.read",
    OrganisationMcpIntegrationsUpdate = "organisation_mcp_integrations.update",
    OrganisationMcpIntegrationsDelete = "organisation_mcp_integrations.delete",
    WorkspaceMcpIntegrationsCreate = "workspace_mcp_integrations.create",
    WorkspaceMcpIntegrationsList = "workspace_mcp_integrations.list",
    WorkspaceMcpIntegrationsRead = "workspace_mcp_integrations.read",
    WorkspaceMcpIntegrationsUpdate = "workspace_mcp_integrations.update",
    WorkspaceMcpIntegrationsDelete = "workspace_mcp_integrations.delete",
    OrganisationGuardrailsCreate = "organisation_guardrails.create",
    OrganisationGuardrailsList = "organisation_guardrails.list",
    OrganisationGuardrailsRead = "organisation_guardrails.read",
    OrganisationGuardrailsUpdate = "organisation_guardrails.update",
    OrganisationGuardrailsDelete = "organisation_guardrails.delete",
    CompletionsWrite = "completions.write",
    LogsList = "logs.list",
    LogsView = "logs.view",
    LogsWrite = "logs.write",
    LogsExport = "logs.export",
    AnalyticsView = "analytics.view",
    AuditLogsList = "audit_logs.list",
    FeedbacksRead = "feedbacks.read",
    FeedbacksWrite = "feedbacks.write",
    McpInvoke = "mcp.invoke",
    AgentsInvoke = "agents.invoke",
    GuardrailsInvoke = "guardrails.invoke",
    OrganisationSettingsRead = "organisation_settings.read",
    OrganisationSettingsUpdate = "organisation_settings.update",
    OrganisationExclusionsList = "organisation_exclusions.list",
    OrganisationExclusionsUpdate = "organisation_exclusions.update",
    TargetsRead = "targets.read",
    TargetsUpdate = "targets.update",
    ExplainRead = "explain.read",
    MetricsRead = "metrics.read",
}

impl Scope {
    /// The scope of this name. Portkey's gateway checks `logs.read` where its API has `logs.view`: they are one.
    pub fn parse(name: &str) -> Option<Self> {
        let name = if name == "logs.read" { "logs.view" } else { name };
        Self::ALL.iter().copied().find(|scope| scope.as_str() == name)
    }

    /// What it is a right to: `configs` of `configs.create`.
    pub fn resource(self) -> &'static str {
        self.as_str().split_once('.').map_or("", |(resource, _)| resource)
    }

    /// `create` of `configs.create`.
    pub fn action(self) -> &'static str {
        self.as_str().split_once('.').map_or("", |(_, action)| action)
    }

    /// Whether it is a right to change or to spend: neither reads nor lists.
    pub fn writes(self) -> bool {
        !matches!(self.action(), "list" | "read" | "view" | "export")
    }

    /// Whether a token of an identity provider may give it: what a key of this type may hold. Of policies, guardrails and what else
    /// operators set up only the reading, unless its role may write; of what belongs to the organisation the same.
    pub fn is_for_tokens(self, of: KeyType, may_write: bool) -> bool {
        let is_written = matches!(
            self.resource(),
            "logs"
                | "configs"
                | "providers"
                | "virtual_keys"
                | "workspaces"
                | "workspace_users"
                | "prompts"
                | "feedbacks"
        );
        let is_for_all = is_written && of.is_in_workspace();
        of.may_hold(self) && (may_write || !self.writes() || is_for_all || self.is_invocation())
    }

    /// Whether it is a right to call models and tools, or to write what calls leave behind.
    const fn is_invocation(self) -> bool {
        matches!(
            self,
            Self::CompletionsWrite
                | Self::PromptsRender
                | Self::McpInvoke
                | Self::AgentsInvoke
                | Self::GuardrailsInvoke
                | Self::LogsWrite
        )
    }

    /// Whether it concerns the organisation or the process as a whole, not one workspace.
    fn is_organisations(self) -> bool {
        self.resource().starts_with("organisation_")
            || matches!(self.resource(), "targets" | "explain" | "metrics" | "audit_logs")
            || matches!(self, Self::WorkspacesCreate | Self::WorkspacesDelete)
    }

    fn manages_keys(self) -> bool {
        self.resource().ends_with("_api_keys")
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The types of stored service keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyType {
    OrganisationService,
    WorkspaceService,
    WorkspaceUser,
}

impl KeyType {
    pub const ALL: [Self; 3] = [Self::OrganisationService, Self::WorkspaceService, Self::WorkspaceUser];

    /// As in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OrganisationService => "organisation-service",
            Self::WorkspaceService => "workspace-service",
            Self::WorkspaceUser => "workspace-user",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether a key of this type may hold `scope`: keys of the organisation administrate and call nothing, keys
    /// of a workspace stay in it, and keys of users manage no keys.
    pub(crate) fn may_hold(self, scope: Scope) -> bool {
        match self {
            Self::OrganisationService => !scope.is_invocation(),
            Self::WorkspaceService => !scope.is_organisations(),
            Self::WorkspaceUser => !scope.is_organisations() && !scope.manages_keys(),
        }
    }

    /// All that a key of this type may hold.
    pub fn scopes(self) -> ScopeSet {
        Scope::ALL.iter().copied().filter(|scope| self.may_hold(*scope)).collect()
    }

    /// Whether keys of this type belong to a workspace.
    pub const fn is_in_workspace(self) -> bool {
        !matches!(self, Self::OrganisationService)
    }
}

const SET_WORDS: usize = Scope::ALL.len().div_ceil(64);

/// A set of scopes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ScopeSet([u64; SET_WORDS]);

impl ScopeSet {
    pub fn all() -> Self {
        Scope::ALL.iter().copied().collect()
    }

    pub fn contains(&self, scope: Scope) -> bool {
        let (word, bit) = place(scope);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    pub fn insert(&mut self, scope: Scope) {
        let (word, bit) = place(scope);
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }

    /// Those that are in either.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
        self
    }

    /// Those that are here and not in `other`.
    #[must_use]
    pub fn without(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        self
    }

    /// In the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = Scope> + '_ {
        Scope::ALL.iter().copied().filter(|scope| self.contains(*scope))
    }

    /// The set of `names`, and the names that are no scopes, with their places in the list.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> (Self, Vec<(usize, &'a str)>) {
        let (mut scopes, mut unknown) = (Self::default(), Vec::new());
        for (at, name) in names.into_iter().enumerate() {
            match Scope::parse(name) {
                Some(scope) => scopes.insert(scope),
                None => unknown.push((at, name)),
            }
        }
        (scopes, unknown)
    }
}

impl FromIterator<Scope> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        let mut set = Self::default();
        scopes.into_iter().for_each(|scope| set.insert(scope));
        set
    }
}

/// The word and the bit of a scope.
const fn place(scope: Scope) -> (usize, u64) {
    (scope as usize / 64, 1 << (scope as usize % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_scope_has_a_name_and_a_place_of_its_own() {
        let names: HashSet<_> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        assert_eq!(names.len(), Scope::ALL.len());
        for scope in Scope::ALL.iter().copied() {
            assert_eq!(Scope::parse(scope.as_str()), Some(scope));
            assert!(!scope.resource().is_empty() && !scope.action().is_empty(), "{scope}");
            let alone: ScopeSet = [scope].into_iter().collect();
            assert_eq!(alone.iter().collect::<Vec<_>>(), [scope]);
            assert!(!ScopeSet::all().without(&alone).contains(scope), "{scope}");
        }
        assert_eq!(ScopeSet::all().iter().count(), Scope::ALL.len());
    }

    #[test]
    fn unknown_names_are_reported_with_their_places() {
        let (scopes, unknown) = ScopeSet::parse(["configs.list", "nope", "logs.read", "", "Configs.list"]);
        assert_eq!(scopes.iter().collect::<Vec<_>>(), [Scope::ConfigsList, Scope::LogsView]);
        assert_eq!(unknown, [(1, "nope"), (3, ""), (4, "Configs.list")]);
    }

    #[test]
    fn a_type_of_key_holds_what_the_reference_allows() {
        for (kind, holds, refuses) in [
            (
                KeyType::OrganisationService,
                &[
                    "workspaces.create",
                    "organisation_service_api_keys.rotate",
                    "configs.update",
                    "metrics.read",
                ][..],
                &["completions.write", "prompts.render", "mcp.invoke", "logs.write"][..],
            ),
            (
                KeyType::WorkspaceService,
                &["completions.write", "workspace_user_api_keys.create", "configs.update", "workspaces.read"],
                &["workspaces.create", "organisation_users.list", "audit_logs.list", "targets.read"],
            ),
            (
                KeyType::WorkspaceUser,
                &["completions.write", "prompts.render", "configs.update"],
                &["workspace_user_api_keys.create", "workspace_service_api_keys.list", "workspaces.delete"],
            ),
        ] {
            let held = kind.scopes();
            for (names, wanted) in [(holds, true), (refuses, false)] {
                for name in names {
                    assert_eq!(held.contains(Scope::parse(name).unwrap()), wanted, "{kind:?} {name}");
                }
            }
        }
    }
}
