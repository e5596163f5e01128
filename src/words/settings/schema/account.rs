//! The account of a config or stored provider in the schema: every name of `config::account::names`, aliases included.
//!
//! The types are those of `Account::read`.

use crate::config::account::names::{self, Names};
use crate::config::account::{AuthModeC, AuthTypeA, AuthTypeB, DeploymentType};
use crate::json::schema::{list, object, one_of, pattern, text};
use serde_json::{Value, json};

/// The values of a field that has only some.
fn choices(field: Names) -> Option<Vec<&'static str>> {
    match field {
        names::A_AUTH_TYPE => Some(AuthTypeA::VARIANTS.map(|(name, _)| name).to_vec()),
        names::B_AUTH_TYPE => Some(AuthTypeB::VARIANTS.map(|(name, _)| name).to_vec()),
        names::C_AUTH_MODE => Some(AuthModeC::VARIANTS.map(|(name, _)| name).to_vec()),
        names::C_DEPLOYMENT_TYPE => Some(DeploymentType::VARIANTS.map(|(name, _)| name).to_vec()),
        _ => None,
    }
}

/// What the fields are; a field without a line is described by its name.
const DESCRIPTIONS: [(Names, &str); 37] = [
    (names::API_KEY, "The provider's key."),
    (names::CUSTOM_HOST, "Base URL that replaces the provider's own: http(s)://host[:port][/path]."),
    (names::API_VERSION, "The version of the API, for azure-openai."),
    (names::DEPLOYMENTS, "Deployments of azure-openai."),
    (names::ORGANIZATION, "OpenAI's organization."),
    (names::PROJECT, "OpenAI's project."),
    (names::RESOURCE_NAME, "The resource, account or workspace in the provider's address."),
    (names::DEPLOYMENT_ID, "The deployment in the provider's path."),
    (names::OPENAI_BETA, "Sent as the header openai-beta."),
    (names::ANTHROPIC_BETA, "Sent as the header anthropic-beta, with those of the client."),
    (names::ANTHROPIC_VERSION, "Sent as the header anthropic-version, unless the client sends one."),
    (names::A_ACCESS_KEY_ID, "Cloud A: the id of the key to sign with."),
    (names::A_SECRET_ACCESS_KEY, "Cloud A: the key to sign with."),
    (names::A_SESSION_TOKEN, "Cloud A: the session token of temporary keys."),
    (names::A_REGION, "Cloud A: part of the address and of the signature."),
    (names::A_AUTH_TYPE, "Cloud A: how calls are authorized."),
    (names::A_ROLE_ARN, "Cloud A: the role to assume."),
    (names::A_EXTERNAL_ID, "Cloud A: the external id that the role's owner requires."),
    (names::A_BUCKET, "Cloud A: where files are stored."),
    (names::A_BATCH_ROLE, "Cloud A: the role with which Bedrock reads and writes the bucket of a batch."),
    (names::B_PROJECT_ID, "Cloud B: part of the address."),
    (names::B_REGION, "Cloud B: part of the address."),
    (names::B_SERVICE_ACCOUNT, "Cloud B: the service account's JSON file as it was downloaded."),
    (names::B_AUTH_TYPE, "Cloud B: how calls are authorized."),
    (names::B_BUCKET, "Cloud B: where files are stored."),
    (names::C_REGION, "Cloud C: part of the address."),
    (names::C_DEPLOYMENT_NAME, "Cloud C: part of the address."),
    (names::C_DEPLOYMENT_TYPE, "Cloud C: serverless or managed."),
    (names::C_ENDPOINT_NAME, "Cloud C: part of the address."),
    (names::C_API_VERSION, "Cloud C: the version of the API."),
    (names::C_MODEL_NAME, "Cloud C: the model, if the deployment's name does not identify it."),
    (names::C_EXTRA_PARAMETERS, "Cloud C: what to do with unknown parameters: pass-through, drop or error."),
    (names::C_AUTH_MODE, "Cloud C: how calls are authorized."),
    (names::C_AD_TOKEN, "Cloud C: a token instead of a key."),
    (names::C_ENTRA_TENANT_ID, "Cloud C: the tenant to sign in at."),
    (names::C_ENTRA_CLIENT_ID, "Cloud C: the application to sign in as."),
    (names::C_ENTRA_CLIENT_SECRET, "Cloud C: the application's secret."),
];

/// Every key of an account. `empty_host`: an empty custom host counts as absent.
pub(super) fn keys(empty_host: bool) -> Vec<(&'static str, Value)> {
    let key = |name: &'static str| {
        let all = names::find(name).unwrap_or_default();
        let first = all.first().copied().unwrap_or(name);
        let described = DESCRIPTIONS.iter().find(|(names, _)| *names == all);
        let mut description =
            described.map_or_else(|| first.replace('_', " "), |(_, text)| (*text).to_owned());
        if name != first {
            description = format!("The same as {first}. {description}");
        }
        (name, field(all, &description, empty_host))
    };
    names::keys().map(key).collect()
}

fn field(all: Names, description: &str, empty_host: bool) -> Value {
    if let Some(values) = choices(all) {
        // An empty text counts as absent.
        return one_of(description, values.into_iter().chain([""]));
    }
    if all == names::CUSTOM_HOST {
        let url = if empty_host { r"^$|^\s*[Hh][Tt][Tt][Pp][Ss]?:" } else { r"^\s*[Hh][Tt][Tt][Pp][Ss]?:" };
        return pattern(description, url, &["http://10.0.0.5:8000/v1"]);
    }
    if all == names::DEPLOYMENTS {
        return list(description, deployment());
    }
    if all == names::B_SERVICE_ACCOUNT {
        let text = json!({"type": "string", "pattern": r"\$\{|^credential:.|^\s*\{"});
        return json!({"anyOf": [{"type": "object"}, text], "description": description});
    }
    text(description)
}

fn deployment() -> Value {
    let required = ["deployment_id", "alias", "api_version"];
    let keys = vec![
        ("deployment_id", text("The deployment's id.")),
        ("alias", text("The model's name in requests.")),
        ("api_version", text("The version of the API.")),
        ("is_default", crate::json::schema::flag("For models without a deployment of their own.")),
    ];
    object("A deployment.", &required, keys)
}
