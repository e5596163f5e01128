//! An alert as a signed request: by the Standard Webhooks specification, so that its libraries verify it.
//!
//! `webhook-signature` is `v1,` and the base64 of HMAC-SHA-256 over `id.timestamp.body`. Not here: repeats (`mod`).

use super::Failure;
use super::alert::Alert;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use jiff::Timestamp;
use memory::net::outbound::custom_host::HostRules;
use memory::net::outbound::dns::Dns;
use memory::net::outbound::side_http::{SideHttpClient, SideRequest};
use ring::hmac;
use std::time::Duration;
use words::settings::alerts::{AlertFormat, Webhook};

/// For one try.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The most bytes of a response that are read. Its content is not used.
const MAX_BODY: usize = 64 << 10;

/// The prefix of secrets that are base64.
const BASE64_PREFIX: &str = "whsec_";

pub async fn send(
    http: &SideHttpClient,
    webhook: &Webhook,
    alert: &Alert,
    dns: &Dns,
    hosts: &HostRules,
) -> Result<(), Failure> {
    let body = match webhook.format {
        AlertFormat::Json => alert.json(),
        AlertFormat::Slack => alert.slack(),
    };
    let body = body.to_string();
    let headers = headers(webhook, &alert.id.to_string(), Timestamp::now().as_second(), &body);
    let request = SideRequest {
        method: Method::POST,
        url: &webhook.url,
        headers,
        body: body.into_bytes(),
        timeout: TIMEOUT,
        max_body: MAX_BODY,
        trusted: true,
    };
    let response = http.send(request, dns, hosts).await;
    let response = response.map_err(|why| Failure::Temporary(why.to_string()))?;
    match response.status {
        200..=299 => Ok(()),
        status @ (408 | 425 | 429 | 500..=599) => Err(Failure::Temporary(format!("status {status}"))),
        status => Err(Failure::Permanent(format!("status {status}"))),
    }
}

fn headers(webhook: &Webhook, id: &str, second: i64, body: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let signature = webhook.secret.as_ref().map(|secret| sign(secret.expose(), id, second, body));
    let own = [
        ("webhook-id", Some(id.to_owned())),
        ("webhook-timestamp", Some(second.to_string())),
        ("webhook-signature", signature),
    ];
    for (name, value) in own {
        // Identifiers, digits and base64 are always a header's value.
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            headers.insert(name, value);
        }
    }
    headers
}

fn sign(secret: &str, id: &str, second: i64, body: &str) -> String {
    let decoded = secret.strip_prefix(BASE64_PREFIX).and_then(|text| STANDARD.decode(text).ok());
    let key = decoded.unwrap_or_else(|| secret.as_bytes().to_vec());
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let tag = hmac::sign(&key, format!("{id}.{second}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference libraries.
    #[test]
    fn it_is_signed_as_the_specification_has_it() {
        let signature = sign(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
