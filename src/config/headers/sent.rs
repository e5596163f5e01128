//! The headers of ours that a request carries, each in its place, unread.
//!
//! Which name goes where, under which prefix, and what happens when one comes twice. What the values mean
//! is read one floor up.

use crate::error::Error;
use http::{HeaderName, HeaderValue};

/// A header that was sent, and the position of its prefix in the list.
#[derive(Clone, Copy)]
pub(super) struct Header<'a> {
    pub(super) name: &'a HeaderName,
    pub(super) value: &'a HeaderValue,
    pub(super) rank: usize,
}

/// Where a header goes.
pub(super) type Place<'a> = Option<Header<'a>>;

/// The headers of ours that were sent, unread.
#[derive(Default)]
pub(super) struct Sent<'a> {
    pub(super) service_key: Place<'a>,
    pub(super) config: Place<'a>,
    pub(super) provider: Place<'a>,
    pub(super) virtual_key: Place<'a>,
    pub(super) custom_host: Place<'a>,
    pub(super) request_timeout: Place<'a>,
    pub(super) forward_headers: Place<'a>,
    pub(super) trace_id: Place<'a>,
    pub(super) span_id: Place<'a>,
    pub(super) parent_span_id: Place<'a>,
    pub(super) span_name: Place<'a>,
    pub(super) metadata: Place<'a>,
    pub(super) cache_namespace: Place<'a>,
    pub(super) cache_force_refresh: Place<'a>,
    pub(super) strict: Place<'a>,
    pub(super) account: SentAccount<'a>,
    /// Whether any header of `account` was sent: few requests have one.
    pub(super) has_account: bool,
}

/// The headers of spec "Authentication" 4, unread.
#[derive(Default)]
pub(super) struct SentAccount<'a> {
    pub(super) organization: Place<'a>,
    pub(super) project: Place<'a>,
    pub(super) resource_name: Place<'a>,
    pub(super) deployment_id: Place<'a>,
    pub(super) a_access_key_id: Place<'a>,
    pub(super) a_secret_access_key: Place<'a>,
    pub(super) a_session_token: Place<'a>,
    pub(super) a_region: Place<'a>,
    pub(super) b_project_id: Place<'a>,
    pub(super) b_region: Place<'a>,
    pub(super) b_service_account: Place<'a>,
    pub(super) c_region: Place<'a>,
    pub(super) c_deployment_name: Place<'a>,
    pub(super) c_deployment_type: Place<'a>,
    pub(super) c_endpoint_name: Place<'a>,
    pub(super) c_api_version: Place<'a>,
    pub(super) c_entra_scope: Place<'a>,
    pub(super) c_model_name: Place<'a>,
}

impl<'a> Sent<'a> {
    /// The place of the header called `word` after its prefix.
    pub(super) fn place(&mut self, word: &str) -> Option<&mut Place<'a>> {
        Some(match word {
            "api-key" => &mut self.service_key,
            "config" => &mut self.config,
            "provider" => &mut self.provider,
            "virtual-key" => &mut self.virtual_key,
            "custom-host" => &mut self.custom_host,
            "request-timeout" => &mut self.request_timeout,
            "forward-headers" => &mut self.forward_headers,
            "trace-id" => &mut self.trace_id,
            "span-id" => &mut self.span_id,
            "parent-span-id" => &mut self.parent_span_id,
            "span-name" => &mut self.span_name,
            "metadata" => &mut self.metadata,
            "cache-namespace" => &mut self.cache_namespace,
            "cache-force-refresh" => &mut self.cache_force_refresh,
            "strict-std-compliance" | "strict-open-ai-compliance" => &mut self.strict,
            word => {
                let place = self.account.place(word)?;
                self.has_account = true;
                place
            }
        })
    }
}

impl<'a> SentAccount<'a> {
    pub(super) fn place(&mut self, word: &str) -> Option<&mut Place<'a>> {
        Some(match word {
            "provider-organization" | "openai-organization" => &mut self.organization,
            "provider-project" | "openai-project" => &mut self.project,
            "cloud-a-access-key-id" | "aws-access-key-id" => &mut self.a_access_key_id,
            "cloud-a-secret-access-key" | "aws-secret-access-key" => &mut self.a_secret_access_key,
            "cloud-a-session-token" | "aws-session-token" => &mut self.a_session_token,
            "cloud-a-region" | "aws-region" => &mut self.a_region,
            "cloud-b-project-id" | "vertex-project-id" => &mut self.b_project_id,
            "cloud-b-region" | "vertex-region" => &mut self.b_region,
            "cloud-b-service-account-json" | "vertex-service-account-json" => &mut self.b_service_account,
            "cloud-c-resource-name" | "azure-resource-name" => &mut self.resource_name,
            "cloud-c-deployment-id" | "azure-deployment-id" => &mut self.deployment_id,
            "cloud-c-api-version" | "azure-api-version" => &mut self.c_api_version,
            "cloud-c-model-name" | "azure-model-name" => &mut self.c_model_name,
            "cloud-c-region" | "azure-region" => &mut self.c_region,
            "cloud-c-deployment-name" | "azure-deployment-name" => &mut self.c_deployment_name,
            "cloud-c-deployment-type" | "azure-deployment-type" => &mut self.c_deployment_type,
            "cloud-c-endpoint-name" | "azure-endpoint-name" => &mut self.c_endpoint_name,
            "cloud-c-entra-scope" | "azure-entra-scope" => &mut self.c_entra_scope,
            _ => return None,
        })
    }
}

/// Puts a header in its place, unless one under an earlier prefix is there.
pub(super) fn put<'a>(place: &mut Place<'a>, header: Header<'a>) -> Result<(), Error> {
    match place {
        Some(there) if there.rank < header.rank => {}
        Some(there) if there.rank > header.rank => *there = header,
        // A list may come in several lines; they are joined when it is read.
        Some(there) if there.name == header.name && there.name.as_str().ends_with("-forward-headers") => {}
        // Which of two would count is a guess an attacker could use.
        Some(_) => return Err(header.error("is sent more than once, or under two of its names")),
        None => *place = Some(header),
    }
    Ok(())
}

impl<'a> Header<'a> {
    /// Visible ASCII and blanks.
    pub(super) fn text(self) -> Result<&'a str, Error> {
        self.value.to_str().map_err(|_| self.error("must be plain ASCII text"))
    }

    pub(super) fn utf8(self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.value.as_bytes()).map_err(|_| self.error("must be UTF-8 text"))
    }

    pub(super) fn error(self, what: &str) -> Error {
        Error::invalid_request(self.name.as_str(), format!("The header {} {what}.", self.name))
    }
}
