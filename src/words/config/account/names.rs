//! The names of the fields of an account: the neutral name first, then the vendor's own.
//!
//! One list for config objects, stored providers and request headers (headers use dashes in place of
//! underscores). The meaning of a field is documented in [`super::Account`].

/// The names of one field, all equivalent.
pub type Names = &'static [&'static str];

pub const API_KEY: Names = &["api_key"];
pub const CUSTOM_HOST: Names =
    &["custom_host", "huggingface_base_url", "cloud_c_foundry_url", "azure_foundry_url"];
pub(crate) const ORGANIZATION: Names = &["provider_organization", "openai_organization"];
pub(crate) const PROJECT: Names = &["provider_project", "openai_project"];
pub(crate) const RESOURCE_NAME: Names = &[
    "resource_name",
    "cloud_c_resource_name",
    "azure_resource_name",
    "workers_ai_account_id",
    "databricks_workspace",
    "snowflake_account",
    "fireworks_account_id",
];
pub(crate) const DEPLOYMENT_ID: Names = &["deployment_id", "cloud_c_deployment_id", "azure_deployment_id"];
pub(crate) const API_VERSION: Names = &["api_version"];
pub(crate) const DEPLOYMENTS: Names = &["deployments"];
pub(crate) const RESPONSES_MODELS: Names = &["responses_models"];
pub(crate) const OPENAI_BETA: Names = &["openai_beta"];
pub const ANTHROPIC_BETA: Names = &["anthropic_beta"];
pub const ANTHROPIC_VERSION: Names = &["anthropic_version"];

pub(crate) const A_ACCESS_KEY_ID: Names = &["cloud_a_access_key_id", "aws_access_key_id"];
pub(crate) const A_SECRET_ACCESS_KEY: Names = &["cloud_a_secret_access_key", "aws_secret_access_key"];
pub(crate) const A_SESSION_TOKEN: Names = &["cloud_a_session_token", "aws_session_token"];
pub(crate) const A_REGION: Names = &["cloud_a_region", "aws_region"];
pub(crate) const A_AUTH_TYPE: Names = &["cloud_a_auth_type", "aws_auth_type"];
pub(crate) const A_ROLE_ARN: Names = &["cloud_a_role_arn", "aws_role_arn"];
pub(crate) const A_EXTERNAL_ID: Names = &["cloud_a_external_id", "aws_external_id"];
pub(crate) const A_BUCKET: Names = &["cloud_a_s3_bucket", "aws_s3_bucket"];
pub(crate) const A_BATCH_ROLE: Names = &["cloud_a_batch_role_arn", "aws_batch_role_arn"];
pub(crate) const A_OBJECT_KEY: Names = &["cloud_a_s3_object_key", "aws_s3_object_key"];
pub(crate) const A_MODEL: Names = &["cloud_a_model_name", "aws_bedrock_model"];
pub(crate) const A_ENCRYPTION: Names = &["cloud_a_server_side_encryption", "amz_server_side_encryption"];
pub(crate) const A_ENCRYPTION_KEY: Names =
    &["cloud_a_server_side_encryption_kms_key_id", "amz_server_side_encryption_aws_kms_key_id"];

pub(crate) const B_PROJECT_ID: Names = &["cloud_b_project_id", "vertex_project_id"];
pub(crate) const B_REGION: Names = &["cloud_b_region", "vertex_region"];
pub const B_SERVICE_ACCOUNT: Names = &["cloud_b_service_account_json", "vertex_service_account_json"];
pub(crate) const B_AUTH_TYPE: Names = &["cloud_b_auth_type", "vertex_auth_type"];
pub(crate) const B_BUCKET: Names = &["cloud_b_storage_bucket_name", "vertex_storage_bucket_name"];

pub(crate) const C_REGION: Names = &["cloud_c_region", "azure_region"];
pub(crate) const C_DEPLOYMENT_NAME: Names = &["cloud_c_deployment_name", "azure_deployment_name"];
pub(crate) const C_DEPLOYMENT_TYPE: Names = &["cloud_c_deployment_type", "azure_deployment_type"];
pub(crate) const C_ENDPOINT_NAME: Names = &["cloud_c_endpoint_name", "azure_endpoint_name"];
pub(crate) const C_API_VERSION: Names = &["cloud_c_api_version", "azure_api_version"];
pub(crate) const C_MODEL_NAME: Names = &["cloud_c_model_name", "azure_model_name"];
pub(crate) const C_EXTRA_PARAMETERS: Names =
    &["cloud_c_extra_parameters", "cloud_c_extra_params", "azure_extra_parameters", "azure_extra_params"];
pub(crate) const C_AUTH_MODE: Names = &["cloud_c_auth_mode", "azure_auth_mode"];
pub(crate) const C_AD_TOKEN: Names = &["cloud_c_ad_token", "azure_ad_token"];
pub(crate) const C_ENTRA_TENANT_ID: Names = &["cloud_c_entra_tenant_id", "azure_entra_tenant_id"];
pub(crate) const C_ENTRA_CLIENT_ID: Names = &["cloud_c_entra_client_id", "azure_entra_client_id"];
pub(crate) const C_ENTRA_CLIENT_SECRET: Names = &["cloud_c_entra_client_secret", "azure_entra_client_secret"];
pub(crate) const C_ENTRA_SCOPE: Names = &["cloud_c_entra_scope", "azure_entra_scope"];
pub(crate) const C_MANAGED_CLIENT_ID: Names = &["cloud_c_managed_client_id", "azure_managed_client_id"];
pub(crate) const C_WORKLOAD_CLIENT_ID: Names = &["cloud_c_workload_client_id", "azure_workload_client_id"];

/// The fields that request headers may carry as well as configs. Not `api_key` and `custom_host`: headers of
/// these names have another meaning.
pub(crate) const HEADER_FIELDS: &[Names] = &[
    ORGANIZATION,
    PROJECT,
    RESOURCE_NAME,
    DEPLOYMENT_ID,
    OPENAI_BETA,
    ANTHROPIC_BETA,
    ANTHROPIC_VERSION,
    A_ACCESS_KEY_ID,
    A_SECRET_ACCESS_KEY,
    A_SESSION_TOKEN,
    A_REGION,
    A_AUTH_TYPE,
    A_ROLE_ARN,
    A_EXTERNAL_ID,
    A_BUCKET,
    A_BATCH_ROLE,
    A_OBJECT_KEY,
    A_MODEL,
    A_ENCRYPTION,
    A_ENCRYPTION_KEY,
    B_PROJECT_ID,
    B_REGION,
    B_SERVICE_ACCOUNT,
    B_AUTH_TYPE,
    B_BUCKET,
    C_REGION,
    C_DEPLOYMENT_NAME,
    C_DEPLOYMENT_TYPE,
    C_ENDPOINT_NAME,
    C_API_VERSION,
    C_MODEL_NAME,
    C_EXTRA_PARAMETERS,
    C_AUTH_MODE,
    C_AD_TOKEN,
    C_ENTRA_TENANT_ID,
    C_ENTRA_CLIENT_ID,
    C_ENTRA_CLIENT_SECRET,
    C_ENTRA_SCOPE,
    C_MANAGED_CLIENT_ID,
    C_WORKLOAD_CLIENT_ID,
];

/// The fields that only configs and stored providers have.
const CONFIG_ONLY_FIELDS: &[Names] = &[API_KEY, CUSTOM_HOST, API_VERSION, DEPLOYMENTS, RESPONSES_MODELS];

/// All names of the field with this name.
pub fn find(name: &str) -> Option<Names> {
    CONFIG_ONLY_FIELDS.iter().chain(HEADER_FIELDS).copied().find(|names| names.contains(&name))
}

/// Every key of an account, for "did you mean" suggestions.
pub fn keys() -> impl Iterator<Item = &'static str> {
    CONFIG_ONLY_FIELDS.iter().chain(HEADER_FIELDS).copied().flatten().copied()
}
