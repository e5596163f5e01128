//! The account a target uses: credentials and addressing at the provider.
//!
//! The same fields occur in a config object, in `providers.<slug>` of the settings and in request headers;
//! this module reads them for all three. Not here: how a provider uses them (`provider`).

mod clouds;
pub mod names;

pub use clouds::{AuthModeC, AuthTypeA, AuthTypeB, CloudA, CloudB, CloudC, DeploymentType};

use super::read::{Cursor, ObjectReader};
use super::secret::Secret;
use super::sparse::Sparse;
use crate::error::Error;
use names::Names;

/// A source of account fields: a config object or request headers. Empty values count as absent.
pub(crate) trait AccountSource {
    fn text(&mut self, names: Names) -> Option<String>;
    fn secret(&mut self, names: Names) -> Option<Secret>;
    /// The JSON text of an object.
    fn object(&mut self, names: Names) -> Option<Secret>;
    fn one_of<T: Copy>(&mut self, names: Names, variants: &[(&str, T)]) -> Option<T>;
}

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
    /// This field and the next two are sent upstream as headers of the same names. Beta values are added to
    /// those the client sends; a version the client sends takes precedence over `anthropic_version`.
    pub openai_beta: Option<String>,
    pub anthropic_beta: Option<String>,
    pub anthropic_version: Option<String>,
    pub cloud_a: Sparse<CloudA>,
    pub cloud_b: Sparse<CloudB>,
    pub cloud_c: Sparse<CloudC>,
}

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

    /// Reads the account's fields of a larger object and leaves the other fields unread. Does not check
    /// whether a custom host is allowed: the operator's own hosts are trusted.
    pub fn read(fields: &mut ObjectReader<'_>) -> Self {
        Self {
            api_key: AccountSource::secret(fields, names::API_KEY),
            custom_host: AccountSource::text(fields, names::CUSTOM_HOST),
            api_version: AccountSource::text(fields, names::API_VERSION),
            deployments: fields.get(names::DEPLOYMENTS).map(|at| deployments(&at)).unwrap_or_default(),
            ..Self::from_source(fields)
        }
    }

    /// Reports a provider's error about the account at the key named by `error.param`. With `all`, errors
    /// about missing keys are reported too.
    pub fn report(error: &Error, fields: &ObjectReader<'_>, all: bool) {
        let param = error.param.as_deref().unwrap_or_default();
        match names::find(param).and_then(|names| fields.peek(names)) {
            Some(at) => at.problem(error.message.as_str()),
            None if all => fields.missing(param, error.message.as_str()),
            None => {}
        }
    }

    /// Reads the fields that request headers may carry as well.
    pub(super) fn from_source(source: &mut impl AccountSource) -> Self {
        Self {
            organization: source.text(names::ORGANIZATION),
            project: source.text(names::PROJECT),
            resource_name: source.text(names::RESOURCE_NAME),
            deployment_id: source.text(names::DEPLOYMENT_ID),
            openai_beta: source.text(names::OPENAI_BETA),
            anthropic_beta: source.text(names::ANTHROPIC_BETA),
            anthropic_version: source.text(names::ANTHROPIC_VERSION),
            cloud_a: CloudA::from_source(source).into(),
            cloud_b: CloudB::from_source(source).into(),
            cloud_c: CloudC::from_source(source).into(),
            ..Self::default()
        }
    }
}

impl AccountSource for ObjectReader<'_> {
    fn text(&mut self, names: Names) -> Option<String> {
        ObjectReader::text(self, names).filter(|text| !text.is_empty())
    }

    fn secret(&mut self, names: Names) -> Option<Secret> {
        ObjectReader::secret(self, names).filter(|secret| !secret.expose().is_empty())
    }

    fn object(&mut self, names: Names) -> Option<Secret> {
        let at = self.get(names)?;
        at.entries()?;
        Some(Secret::new(at.node.to_json()))
    }

    fn one_of<T: Copy>(&mut self, names: Names, variants: &[(&str, T)]) -> Option<T> {
        let at = self.get(names)?;
        if at.node.as_text() == Some("") { None } else { at.one_of(variants) }
    }
}

fn deployments(at: &Cursor<'_>) -> Vec<Deployment> {
    at.list().unwrap_or_default().iter().filter_map(deployment).collect()
}

fn deployment(at: &Cursor<'_>) -> Option<Deployment> {
    let mut fields = at.fields()?;
    let mut required = |name| fields.required(&[name]).and_then(|at| at.text().map(str::to_owned));
    let deployment_id = required("deployment_id");
    let alias = required("alias");
    let api_version = required("api_version");
    let is_default = fields.flag(&["is_default"]).unwrap_or_default();
    fields.reject_unknown(&["deployment_id", "alias", "api_version", "is_default"]);
    Some(Deployment { deployment_id: deployment_id?, alias: alias?, api_version: api_version?, is_default })
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
                name if name.ends_with("deployment_type") => r#""managed""#,
                name if name.ends_with("account_json") => r#"{"client_email":"x"}"#,
                name if name.ends_with("auth_type") => r#""apiKey""#,
                name if name.ends_with("auth_mode") => r#""managed""#,
                _ => r#""x""#,
            };
            let node = Node::from_json(format!("{{\"{name}\":{value}}}").as_bytes()).unwrap();
            let problems = Problems::default();
            let mut fields = Cursor::root(&node, &problems).fields().unwrap();
            let account = Account::read(&mut fields);
            fields.reject_unknown(&[]);
            assert_eq!(problems.into_vec(), [], "{name}");
            assert_ne!(account, Account::default(), "{name} sets no field");
        }
    }

    #[test]
    fn an_empty_string_counts_as_absent() {
        let node = Node::from_json(br#"{"api_key":"","aws_region":"","azure_auth_mode":""}"#).unwrap();
        let problems = Problems::default();
        let mut fields = Cursor::root(&node, &problems).fields().unwrap();
        assert_eq!(Account::read(&mut fields), Account::default());
        assert!(problems.is_empty());
    }
}
