//! The URL of a PostgreSQL database: what libpq reads, with its `sslmode` and `sslrootcert`.
//!
//! `tokio_postgres` reads the rest. Nothing here repeats a password.

use std::path::PathBuf;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use url::Url;

/// How the server's certificate is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verification {
    /// `disable`, `prefer`, `require`: not at all, as in libpq.
    None,
    /// `verify-full`: chain and name, against the system's authorities or the PEM file of `sslrootcert`.
    Full { authorities: Option<PathBuf> },
}

/// Reads a URL.
///
/// # Errors
/// What is wrong with it, without repeating values.
pub(super) fn parse(text: &str) -> Result<(Config, Verification), String> {
    let mut url = Url::parse(text).map_err(|error| format!("must be a URL ({error})"))?;
    let mut mode = None;
    let mut authorities = None;
    let mut rest = Vec::new();
    for (name, value) in url.query_pairs() {
        match &*name {
            "sslmode" => mode = Some(value.into_owned()),
            "sslrootcert" => authorities = Some(PathBuf::from(value.into_owned())),
            _ => rest.push((name.into_owned(), value.into_owned())),
        }
    }
    url.set_query(None);
    let query: Vec<String> =
        rest.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    if !query.is_empty() {
        url.set_query(Some(&query.join("&")));
    }
    let mut config: Config = url.as_str().parse().map_err(|error| cause(&error))?;
    let (ssl, verification) = match mode.as_deref() {
        Some("disable") => (SslMode::Disable, Verification::None),
        None | Some("prefer") => (SslMode::Prefer, Verification::None),
        Some("require") => (SslMode::Require, Verification::None),
        Some("verify-full") => (SslMode::Require, Verification::Full { authorities: authorities.take() }),
        Some(_) => return Err("sslmode must be disable, prefer, require or verify-full".to_owned()),
    };
    if authorities.is_some() {
        return Err("sslrootcert needs sslmode=verify-full".to_owned());
    }
    if config.get_hosts().is_empty() {
        return Err("must name a host".to_owned());
    }
    if config.get_application_name().is_none() {
        config.application_name("turnpike");
    }
    config.ssl_mode(ssl);
    Ok((config, verification))
}

/// A query without spaces: `tokio_postgres` takes a plus for a plus.
fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// What is wrong, which the library keeps as the cause of its error.
fn cause(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| "cannot be read".to_owned(), ToString::to_string)
}

/// The URL without its password and parameters.
pub(super) fn describe(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else { return "postgres".to_owned() };
    url.set_query(None);
    url.set_fragment(None);
    let _ = url.set_password(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tls_parameters_are_those_of_libpq() {
        let read = |query: &str| parse(&format!("postgres://u:p@h/d?{query}"));
        let found = |query: &str| {
            let (config, verification) = read(query).unwrap();
            (config.get_ssl_mode(), verification)
        };
        assert_eq!(found(""), (SslMode::Prefer, Verification::None));
        assert_eq!(found("sslmode=disable"), (SslMode::Disable, Verification::None));
        assert_eq!(found("sslmode=require"), (SslMode::Require, Verification::None));
        let authorities = Some(PathBuf::from("/a b.pem"));
        let full = (SslMode::Require, Verification::Full { authorities });
        assert_eq!(found("sslmode=verify-full&sslrootcert=/a%20b.pem"), full);
        for bad in ["sslmode=verify-ca", "sslmode=", "sslrootcert=/a.pem", "unheard=1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let (config, _) = read("application_name=a%20b&connect_timeout=3").unwrap();
        assert_eq!(config.get_application_name(), Some("a b"));
        assert!(parse("postgres:///d").is_err());
    }
}
