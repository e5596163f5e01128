//! Calls to the control API of a running gateway, for commands.
//!
//! Not the gateway's own client of providers: these calls come from a shell.

use super::object_line::Connection;
use reqwest::blocking::{Client, Response};
use reqwest::{Certificate, Method, Url, redirect};
use serde_json::Value;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use words::config::secret::Secret;

/// Where the shipped settings have the control port.
const DEFAULT_URL: &str = "http://127.0.0.1:8788";
/// Of one call.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A gateway that is called.
pub struct ObjectApi {
    client: Client,
    base: Url,
    key: Option<Secret>,
}

impl ObjectApi {
    /// # Errors
    /// An address, a file of a key or of certificates that cannot be used.
    pub fn new(connection: &Connection) -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let url = connection.url.clone().or_else(|| variable("TURNPIKE_URL"));
        let url = url.unwrap_or_else(|| DEFAULT_URL.to_owned());
        let base = Url::parse(&url).map_err(|why| format!("{url}: {why}"))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(format!("{url}: must begin with http:// or https://"));
        }
        let key = match (&connection.key, &connection.key_file) {
            (Some(key), _) => Some(key.clone()),
            (None, Some(file)) => Some(Secret::new(text(file)?.trim())),
            (None, None) => variable("TURNPIKE_KEY").map(Secret::new),
        };
        // No redirect that would take the key along.
        let mut client = Client::builder().timeout(TIMEOUT).redirect(redirect::Policy::none());
        // A proxy has another loopback, and no need of the key.
        if is_loopback(&base) {
            client = client.no_proxy();
        }
        if let Some(file) = &connection.ca_file {
            let found = Certificate::from_pem_bundle(text(file)?.as_bytes());
            let found = found.map_err(|why| format!("{}: {why}", file.display()))?;
            client = found.into_iter().fold(client, reqwest::blocking::ClientBuilder::add_root_certificate);
        }
        let client = client.build().map_err(|why| caused(&why))?;
        Ok(Self { client, base, key })
    }

    /// The response to a call.
    ///
    /// # Errors
    /// The gateway cannot be reached, or refuses the call: with all that it says.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        query: &[(String, String)],
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let response = self.send(method, path, query, body)?;
        self.read(response)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        query: &[(String, String)],
        body: Option<&Value>,
    ) -> Result<Response, String> {
        let mut url = self.base.clone();
        url.set_path(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let method = Method::from_bytes(method.as_bytes()).map_err(|why| why.to_string())?;
        let mut call = self.client.request(method, url);
        if let Some(key) = &self.key {
            call = call.header("x-gateway-api-key", key.expose());
        }
        if let Some(body) = body {
            call = call.json(body);
        }
        let unreachable = |why: &reqwest::Error| {
            format!("{}: {}. --url names another control port", self.origin(), caused(why))
        };
        call.send().map_err(|why| unreachable(&why))
    }

    /// The address for messages: without a password that it may have.
    fn origin(&self) -> String {
        self.base.origin().ascii_serialization()
    }

    fn read(&self, response: Response) -> Result<Value, String> {
        let status = response.status();
        let text = response.text().map_err(|why| caused(&why))?;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return if body.is_null() {
                Err(format!("{}: {status}, without JSON", self.origin()))
            } else {
                Ok(body)
            };
        }
        let mut why = match body.pointer("/error/message").and_then(Value::as_str) {
            Some(message) => format!("{}: {message}", status.as_u16()),
            None => format!("{}: {status}; is this the control port?", self.origin()),
        };
        let details = body.pointer("/error/details").and_then(Value::as_array);
        // One is the message.
        for detail in details.filter(|details| details.len() > 1).into_iter().flatten() {
            let part = |name: &str| detail.get(name).and_then(Value::as_str).unwrap_or_default();
            // Writing into a String cannot fail.
            let _ = write!(why, "\n  {}: {}", part("path"), part("message"));
        }
        if status.as_u16() == 401 && self.key.is_none() {
            why.push_str(" The key is taken from TURNPIKE_KEY, --key-file or --key.");
        }
        Err(why)
    }
}

fn text(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|why| format!("{}: {why}", file.display()))
}

/// The innermost cause of an error: "connection refused", and not that an error occurred.
fn caused(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Whether an address is one of this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    address.map_or(host.trim_end_matches('.') == "localhost", |address| address.is_loopback())
}
