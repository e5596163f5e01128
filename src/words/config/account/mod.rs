//! The account a target uses: credentials and addressing at the provider.
//!
//! The same fields occur in a config object, in `providers.<slug>` of the settings and in request headers;
//! this module reads them for all three. Not here: how a provider uses them (`provider`).

mod clouds;
mod members;
pub mod names;
mod responses_model;

pub use clouds::{AuthModeC, AuthTypeA, AuthTypeB, CloudA, CloudB, CloudC, DeploymentType};
pub(crate) use members::OPERATORS_HOST;
pub(super) use members::TARGETS_HOST;
pub use responses_model::{ResponsesModel, ResponsesWhen, is_model};

use super::members::{Form, MemberTable, list, object, read};
use super::read::Cursor;
use super::secret::Secret;
use super::sparse::Sparse;
use crate::error::Error;
use names::Names;

/// A source of account fields: the members of an object, or request headers. Empty values count as absent. `doc`: what the field is.
pub(crate) trait AccountSource {
    fn text(&mut self, names: Names, doc: &str) -> Option<String>;
    fn secret(&mut self, names: Names, doc: &str) -> Option<Secret>;
    /// The JSON text of an object.
    fn object(&mut self, names: Names, doc: &str) -> Option<Secret>;
    fn one_of<T: Copy>(&mut self, names: Names, variants: Variants<T>, doc: &str) -> Option<T>;
    /// As `one_of`; in an object an empty text is no choice.
    fn choice<T: Copy + PartialEq>(&mut self, names: Names, variants: Variants<T>, doc: &str) -> Option<T> {
        self.one_of(names, variants, doc)
    }
}

/// The names of values, and the values.
pub(crate) type Variants<T> = &'static [(&'static str, T)];

/// Credentials and addressing of one target. All optional: each provider checks which it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Account {
    pub api_key: Option<Secret>,
    /// Base URL that replaces the provider's own, as written.
    pub custom_host: Option<String>,
    /// `provider_organization`; `OpenAI-Organization` upstream.
    pub organization: Option<String>,
    /// `provider_project`; `OpenAI-Project` upstream.
    pub project: Option<String>,
    pub resource_name: Option<String>,
    pub deployment_id: Option<String>,
    pub api_version: Option<String>,
    pub deployments: Vec<Deployment>,
    /// Models whose chats go to the provider's Responses API, before what the gateway knows of them.
    pub responses_models: Vec<ResponsesModel>,
    /// This field and the next two are sent upstream as headers of the same names. Beta values are added to
    /// those the client sends; a version the client sends takes precedence over `anthropic_version`.
    pub openai_beta: Option<String>,
    pub anthropic_beta: Option<String>,
    pub anthropic_version: Option<String>,
    pub cloud_a: Sparse<CloudA>,
    pub cloud_b: Sparse<CloudB>,
    pub cloud_c: Sparse<CloudC>,
}

const RESPONSES_MODELS_DOC: &str =
    "Models whose chats openai and azure-openai take only at /v1/responses; before the gateway's own list.";

/// One item of `deployments`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Deployment {
    pub deployment_id: String,
    pub alias: String,
    pub api_version: String,
    pub is_default: bool,
}

impl Account {
    /// Whether it holds anything that must not be sent to an untrusted host.
    pub fn holds_secret(&self) -> bool {
        self.api_key.is_some()
            || self.cloud_a.holds_secret()
            || self.cloud_b.holds_secret()
            || self.cloud_c.holds_secret()
    }

    /// Reads an object that has the fields of an account and no others.
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        read(at, |table| Some(Self::members(table, &OPERATORS_HOST)))
    }

    /// Adds its fields to those of a larger object. Does not check whether a custom host is allowed: the operator's own hosts
    /// are trusted.
    pub(crate) fn members(table: &mut MemberTable<'_>, host: &Form<String>) -> Self {
        let host_doc = "Base URL that replaces the provider's own: http(s)://host[:port][/path].";
        let deployments = list(object(Deployment::members), "A deployment.");
        let responses_models = list(object(ResponsesModel::members), "A model.");
        Self {
            api_key: table.secret(names::API_KEY, "The provider's key."),
            custom_host: table.get(names::CUSTOM_HOST, host, host_doc).filter(|host| !host.is_empty()),
            api_version: table.text(names::API_VERSION, "The version of the API, for azure-openai."),
            deployments: table
                .get(names::DEPLOYMENTS, deployments, "Deployments of azure-openai.")
                .unwrap_or_default(),
            responses_models: table
                .get(names::RESPONSES_MODELS, responses_models, RESPONSES_MODELS_DOC)
                .unwrap_or_default(),
            ..Self::from_source(table)
        }
    }

    /// Reports a provider's error about the account at the key named by `error.param`. With `all`, errors
    /// about missing keys are reported too.
    pub(crate) fn report(error: &Error, table: &MemberTable<'_>, all: bool) {
        let param = error.param.as_deref().unwrap_or_default();
        match names::find(param).and_then(|names| table.at(names)) {
            Some(at) => at.problem(error.message.as_str()),
            None if all => table.missing(param, error.message.as_str()),
            None => {}
        }
    }

    /// Reads the fields that request headers may carry as well.
    pub(super) fn from_source(source: &mut impl AccountSource) -> Self {
        Self {
            organization: source.text(names::ORGANIZATION, "OpenAI's organization."),
            project: source.text(names::PROJECT, "OpenAI's project."),
            resource_name: source
                .text(names::RESOURCE_NAME, "The resource, account or workspace in the provider's address."),
            deployment_id: source.text(names::DEPLOYMENT_ID, "The deployment in the provider's path."),
            openai_beta: source.text(names::OPENAI_BETA, "Sent as the header openai-beta."),
            anthropic_beta: source
                .text(names::ANTHROPIC_BETA, "Sent as the header anthropic-beta, with those of the client."),
            anthropic_version: source.text(
                names::ANTHROPIC_VERSION,
                "Sent as the header anthropic-version, unless the client sends one.",
            ),
            cloud_a: CloudA::from_source(source).into(),
            cloud_b: CloudB::from_source(source).into(),
            cloud_c: CloudC::from_source(source).into(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::Node;
    use super::super::read::Problems;
    use super::*;

    #[test]
    fn every_listed_name_and_alias_is_read() {
        for name in names::keys() {
            let value = match name {
                "deployments" => r#"[{"deployment_id":"d","alias":"a","api_version":"v"}]"#,
                "responses_models" => r#"[{"model":"m"}]"#,
                name if name.ends_with("deployment_type") => r#""managed""#,
                name if name.ends_with("account_json") => r#"{"client_email":"x"}"#,
                name if name.ends_with("auth_type") => r#""apiKey""#,
                name if name.ends_with("auth_mode") => r#""managed""#,
                _ => r#""x""#,
            };
            let node = Node::from_json(format!("{{\"{name}\":{value}}}").as_bytes()).unwrap();
            let problems = Problems::default();
            let account = Account::read(&Cursor::root(&node, &problems)).unwrap();
            assert_eq!(problems.into_vec(), [], "{name}");
            assert_ne!(account, Account::default(), "{name} sets no field");
        }
    }

    #[test]
    fn an_empty_string_counts_as_absent() {
        let node = Node::from_json(br#"{"api_key":"","aws_region":"","azure_auth_mode":""}"#).unwrap();
        let problems = Problems::default();
        assert_eq!(Account::read(&Cursor::root(&node, &problems)), Some(Account::default()));
        assert!(problems.is_empty());
    }
}
