//! The parts of an account for the three clouds: credentials, addresses and file storage.
//!
//! Values as written. Not here: whether they are sufficient and how they are used (`provider`).

use super::AccountSource;
use super::names;
use crate::config::secret::Secret;
use crate::config::sparse::Empty;
use std::sync::LazyLock;

/// Cloud A (`aws_*`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CloudA {
    pub access_key_id: Option<Secret>,
    pub secret_access_key: Option<Secret>,
    pub session_token: Option<Secret>,
    pub region: Option<String>,
    /// `None`: the access keys, when given.
    pub auth_type: Option<AuthTypeA>,
    /// The role to assume.
    pub role_arn: Option<String>,
    pub external_id: Option<String>,
    /// Where files and batches are stored.
    pub bucket: Option<String>,
    /// The role that the cloud itself assumes to read and write the bucket of a batch.
    pub batch_role_arn: Option<String>,
    pub object_key: Option<String>,
    /// The model a file is meant for.
    pub model_name: Option<String>,
    pub encryption: Option<String>,
    pub encryption_key_id: Option<String>,
}

impl Empty for CloudA {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<CloudA> = LazyLock::new(CloudA::default);
        &EMPTY
    }
}

/// How calls to cloud A are authorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthTypeA {
    /// With `access_key_id` and `secret_access_key`.
    AccessKey,
    /// With `api_key` as bearer token.
    ApiKey,
    /// With the role `role_arn`, assumed with the account's keys or else with the machine's own credentials.
    AssumedRole,
    /// With the machine's own role.
    ServiceRole,
}

/// Cloud B (`vertex_*`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CloudB {
    pub project_id: Option<String>,
    pub region: Option<String>,
    /// The service account's JSON text.
    pub service_account_json: Option<Secret>,
    /// `None`: the service account when given, else `api_key` as bearer token.
    pub auth_type: Option<AuthTypeB>,
    /// Where files and batches are stored.
    pub bucket: Option<String>,
}

impl Empty for CloudB {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<CloudB> = LazyLock::new(CloudB::default);
        &EMPTY
    }
}

/// How calls to cloud B are authorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthTypeB {
    /// With `api_key` as bearer token.
    ApiKey,
    ServiceAccount,
    /// With the machine's own service account.
    WorkloadIdentity,
}

/// Cloud C (`azure_*`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CloudC {
    pub region: Option<String>,
    pub deployment_name: Option<String>,
    pub endpoint_name: Option<String>,
    pub api_version: Option<String>,
    pub deployment_type: Option<DeploymentType>,
    pub model_name: Option<String>,
    /// `pass-through`, `drop` or `error`: sent as `extra-parameters`.
    pub extra_parameters: Option<String>,
    /// `None`: `ad_token` when given, else `api_key`.
    pub auth_mode: Option<AuthModeC>,
    pub ad_token: Option<Secret>,
    pub entra_tenant_id: Option<String>,
    pub entra_client_id: Option<String>,
    pub entra_client_secret: Option<Secret>,
    pub entra_scope: Option<String>,
    /// Client id of a user-assigned identity of the machine; `None`: the system-assigned one.
    pub managed_client_id: Option<String>,
    pub workload_client_id: Option<String>,
}

impl Empty for CloudC {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<CloudC> = LazyLock::new(CloudC::default);
        &EMPTY
    }
}

/// `serverless` or `managed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeploymentType {
    Serverless,
    Managed,
}

/// How calls to cloud C are authorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthModeC {
    /// With `api_key`.
    Key,
    /// With an application's client secret.
    Entra,
    /// With a managed identity of the machine.
    Managed,
    /// With the workload's token file, exchanged for a token of the cloud.
    Workload,
}

impl CloudA {
    pub(super) fn from_source(source: &mut impl AccountSource) -> Self {
        Self {
            access_key_id: source.secret(names::A_ACCESS_KEY_ID, "Cloud A: the id of the key to sign with."),
            secret_access_key: source.secret(names::A_SECRET_ACCESS_KEY, "Cloud A: the key to sign with."),
            session_token: source
                .secret(names::A_SESSION_TOKEN, "Cloud A: the session token of temporary keys."),
            region: source.text(names::A_REGION, "Cloud A: part of the address and of the signature."),
            auth_type: source.one_of(
                names::A_AUTH_TYPE,
                &AuthTypeA::VARIANTS,
                "Cloud A: how calls are authorized.",
            ),
            role_arn: source.text(names::A_ROLE_ARN, "Cloud A: the role to assume."),
            external_id: source
                .text(names::A_EXTERNAL_ID, "Cloud A: the external id that the role's owner requires."),
            bucket: source.text(names::A_BUCKET, "Cloud A: where files are stored."),
            batch_role_arn: source.text(
                names::A_BATCH_ROLE,
                "Cloud A: the role with which Bedrock reads and writes the bucket of a batch.",
            ),
            object_key: source.text(names::A_OBJECT_KEY, "cloud a s3 object key"),
            model_name: source.text(names::A_MODEL, "cloud a model name"),
            encryption: source.text(names::A_ENCRYPTION, "cloud a server side encryption"),
            encryption_key_id: source
                .text(names::A_ENCRYPTION_KEY, "cloud a server side encryption kms key id"),
        }
    }

    pub(super) fn holds_secret(&self) -> bool {
        self.access_key_id.is_some() || self.secret_access_key.is_some() || self.session_token.is_some()
    }
}

impl AuthTypeA {
    /// The values clients write, each with its variant.
    pub const VARIANTS: [(&'static str, Self); 4] = [
        ("accessKey", Self::AccessKey),
        ("apiKey", Self::ApiKey),
        ("assumedRole", Self::AssumedRole),
        ("serviceRole", Self::ServiceRole),
    ];
}

impl CloudB {
    pub(super) fn from_source(source: &mut impl AccountSource) -> Self {
        Self {
            project_id: source.text(names::B_PROJECT_ID, "Cloud B: part of the address."),
            region: source.text(names::B_REGION, "Cloud B: part of the address."),
            service_account_json: source.object(
                names::B_SERVICE_ACCOUNT,
                "Cloud B: the service account's JSON file as it was downloaded.",
            ),
            auth_type: source.one_of(
                names::B_AUTH_TYPE,
                &AuthTypeB::VARIANTS,
                "Cloud B: how calls are authorized.",
            ),
            bucket: source.text(names::B_BUCKET, "Cloud B: where files are stored."),
        }
    }

    pub(super) fn holds_secret(&self) -> bool {
        self.service_account_json.is_some()
    }
}

impl AuthTypeB {
    /// The values clients write, each with its variant.
    pub const VARIANTS: [(&'static str, Self); 3] = [
        ("apiKey", Self::ApiKey),
        ("serviceAccount", Self::ServiceAccount),
        ("workloadIdentity", Self::WorkloadIdentity),
    ];
}

impl CloudC {
    pub(super) fn from_source(source: &mut impl AccountSource) -> Self {
        Self {
            region: source.text(names::C_REGION, "Cloud C: part of the address."),
            deployment_name: source.text(names::C_DEPLOYMENT_NAME, "Cloud C: part of the address."),
            endpoint_name: source.text(names::C_ENDPOINT_NAME, "Cloud C: part of the address."),
            api_version: source.text(names::C_API_VERSION, "Cloud C: the version of the API."),
            deployment_type: source.choice(
                names::C_DEPLOYMENT_TYPE,
                &DeploymentType::VARIANTS,
                "Cloud C: serverless or managed.",
            ),
            model_name: source.text(
                names::C_MODEL_NAME,
                "Cloud C: the model, if the deployment's name does not identify it.",
            ),
            extra_parameters: source.text(
                names::C_EXTRA_PARAMETERS,
                "Cloud C: what to do with unknown parameters: pass-through, drop or error.",
            ),
            auth_mode: source.one_of(
                names::C_AUTH_MODE,
                &AuthModeC::VARIANTS,
                "Cloud C: how calls are authorized.",
            ),
            ad_token: source.secret(names::C_AD_TOKEN, "Cloud C: a token instead of a key."),
            entra_tenant_id: source.text(names::C_ENTRA_TENANT_ID, "Cloud C: the tenant to sign in at."),
            entra_client_id: source.text(names::C_ENTRA_CLIENT_ID, "Cloud C: the application to sign in as."),
            entra_client_secret: source
                .secret(names::C_ENTRA_CLIENT_SECRET, "Cloud C: the application's secret."),
            entra_scope: source.text(names::C_ENTRA_SCOPE, "cloud c entra scope"),
            managed_client_id: source.text(names::C_MANAGED_CLIENT_ID, "cloud c managed client id"),
            workload_client_id: source.text(names::C_WORKLOAD_CLIENT_ID, "cloud c workload client id"),
        }
    }

    pub(super) fn holds_secret(&self) -> bool {
        self.ad_token.is_some() || self.entra_client_secret.is_some()
    }
}

impl DeploymentType {
    /// The values clients write, each with its variant.
    pub const VARIANTS: [(&'static str, Self); 2] =
        [("serverless", Self::Serverless), ("managed", Self::Managed)];
}

impl AuthModeC {
    /// The values clients write, each with its variant.
    pub const VARIANTS: [(&'static str, Self); 4] = [
        ("default", Self::Key),
        ("entra", Self::Entra),
        ("managed", Self::Managed),
        ("workload", Self::Workload),
    ];
}
