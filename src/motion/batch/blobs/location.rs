//! Where blobs are kept: a directory, or a bucket of an S3-compatible object storage.
//!
//! Not here: how they are read and written (`blobs`).

use super::error::BlobError;
use memory::net::outbound::custom_host::OutboundRules;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::client::{HttpClient, HttpConnector};
use object_store::{ClientConfigKey, ClientOptions, RetryConfig};
use reqwest::redirect::Policy;
use std::path::PathBuf;
use std::time::Duration;
use url::{Host, Url};
use words::config::secret::Secret;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one request may take. A part of 5 MiB passes at 90 KB/s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// After this time no request is repeated.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_RETRIES: usize = 3;

/// Where blobs are kept.
#[derive(Debug, Clone)]
pub enum BlobLocation {
    /// Of one machine, or shared by a file system that has `flock` and `rename`.
    Directory(PathBuf),
    S3(S3Location),
}

/// A bucket, or a part of one.
#[derive(Debug, Clone, Default)]
pub struct S3Location {
    pub bucket: String,
    /// What every key begins with, `turnpike/batches`; empty for the whole bucket.
    pub prefix: String,
    /// us-east-1 when absent.
    pub region: Option<String>,
    /// Of a storage that is not Amazon's. `http` only for this machine.
    pub endpoint: Option<String>,
    /// Without keys the AWS environment has them: `AWS_*` variables, the container or the instance.
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<Secret>,
    /// Proxies and source address of its connections.
    pub outbound: OutboundRules,
}

impl S3Location {
    /// A client for the bucket. Sends nothing yet.
    pub(super) fn connect(&self) -> Result<AmazonS3, BlobError> {
        let is_http = self.is_http()?;
        let mut builder = match (&self.access_key_id, &self.secret_access_key) {
            (Some(id), Some(secret)) => {
                AmazonS3Builder::new().with_access_key_id(id.as_str()).with_secret_access_key(secret.expose())
            }
            (None, None) => AmazonS3Builder::from_env(),
            _ => {
                let text = "the access key id and the secret access key of the bucket go together: give both or none";
                return Err(BlobError::Other(text.to_owned()));
            }
        };
        let retry =
            RetryConfig { max_retries: MAX_RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
        builder = builder
            .with_bucket_name(self.bucket.as_str())
            .with_http_connector(Connector(self.outbound.clone()))
            .with_retry(retry)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            // Not every compatible storage deletes many at once.
            .with_disable_bulk_delete(true)
            .with_allow_http(is_http);
        if let Some(region) = &self.region {
            builder = builder.with_region(region.as_str());
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
        }
        builder.build().map_err(|error| BlobError::Other(format!("the bucket {}: {error}", self.bucket)))
    }

    /// Whether the endpoint has no TLS, which only this machine may have.
    fn is_http(&self) -> Result<bool, BlobError> {
        let Some(endpoint) = &self.endpoint else { return Ok(false) };
        let refused = |why: &str| BlobError::Other(format!("the endpoint {endpoint} of the bucket: {why}"));
        let url = Url::parse(endpoint).map_err(|_| refused("this is no URL; write https://<host>"))?;
        let is_local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => return Err(refused("it names no host")),
        };
        match url.scheme() {
            "https" => Ok(false),
            "http" if is_local => Ok(true),
            _ => Err(refused("only https is allowed, and http for this machine")),
        }
    }
}

/// Makes the HTTP client as those of other side calls: no redirects, the proxies of the settings, bounded times.
#[derive(Debug, Default)]
struct Connector(OutboundRules);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // The metadata of a cloud's instance have no TLS, and the endpoint need not have it on this machine.
        let is_http =
            options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let client = reqwest::Client::builder()
            .proxy(self.0.proxies.for_reqwest())
            .local_address(self.0.source.any())
            .https_only(!is_http)
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .user_agent(concat!("turnpike/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })?;
        Ok(HttpClient::new(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_endpoint(endpoint: &str) -> S3Location {
        S3Location { bucket: "b".to_owned(), endpoint: Some(endpoint.to_owned()), ..S3Location::default() }
    }

    #[test]
    fn an_endpoint_without_tls_is_on_this_machine() {
        for endpoint in ["http://127.0.0.1:9000", "http://[::1]:9000", "http://localhost:9000"] {
            assert_eq!(with_endpoint(endpoint).is_http(), Ok(true), "{endpoint}");
        }
        assert_eq!(with_endpoint("https://s3.example").is_http(), Ok(false));
        for endpoint in ["http://s3.example", "http://10.0.0.1", "ftp://127.0.0.1", "s3.example", "file:///x"]
        {
            let Err(BlobError::Other(text)) = with_endpoint(endpoint).is_http() else { panic!("{endpoint}") };
            assert!(text.contains(endpoint), "{text}");
        }
    }

    #[tokio::test]
    async fn a_client_for_tls_connects_to_nothing_else() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let request = || {
            let body = object_store::client::HttpRequestBody::empty();
            http::Request::get("http://127.0.0.1:9/").body(body).unwrap()
        };
        for (options, refused) in
            [(ClientOptions::new(), true), (ClientOptions::new().with_allow_http(true), false)]
        {
            let error = Connector::default().connect(&options).unwrap().execute(request()).await.unwrap_err();
            let text = format!("{error:?}");
            assert_eq!(text.contains("BadScheme"), refused, "{text}");
        }
    }

    #[test]
    fn half_a_key_is_refused_and_no_key_is_printed() {
        let mut location = with_endpoint("https://s3.example");
        location.secret_access_key = Some(Secret::new("a-secret-key"));
        let Err(BlobError::Other(text)) = location.connect() else { panic!("half a key") };
        assert!(text.contains("both or none"), "{text}");
        assert!(!format!("{:?}", BlobLocation::S3(location)).contains("a-secret-key"));
    }
}
