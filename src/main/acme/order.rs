//! One order: account, names, proofs, key, chain. Ends with the PEM of a certificate, or with why there is none.
//!
//! Decides nothing about times (`schedule`). The protocol is `instant-acme`'s.

use super::files::{AcmeFiles, read_json, write_json};
use super::http_client::AcmeClient;
use super::proofs::{Proof, Proofs};
use super::schedule::OrderFailure;
use crate::certificate::{is_for, validity};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, Error, ExternalAccountKey, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use jiff::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::time::timeout;
use words::settings::AcmeSettings;

/// For all of an order. The authority looks at the names from several places.
const ORDER_TIMEOUT: Duration = Duration::from_secs(600);
/// For the authority to verify all names, and to issue.
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));
/// The authority does not have the account any more.
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Why there is no certificate.
#[derive(Debug)]
pub struct OrderError {
    pub failure: OrderFailure,
    pub why: String,
    /// The seconds that the authority wants to be left alone.
    pub retry_after: Option<i64>,
}

impl OrderError {
    /// This machine is at fault.
    pub const fn local(why: String) -> Self {
        Self { failure: OrderFailure::Local, why, retry_after: None }
    }
}

/// The file of the account.
#[derive(Serialize, Deserialize)]
struct KeptAccount {
    /// As the authority has them.
    contact: Vec<String>,
    credentials: AccountCredentials,
}

/// What goes wrong below: of the authority, or of this machine.
enum Wrong {
    Acme(Error),
    /// What the authority says of the names, or issues.
    Refused(String),
    Here(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Acme(error)
    }
}

/// Orders a certificate for these names. Returns the PEM of its key and chain.
///
/// # Errors
/// [`OrderError`].
pub async fn order(
    settings: &AcmeSettings,
    files: &AcmeFiles,
    client: &AcmeClient,
    proofs: &Proofs,
    names: &[String],
) -> Result<String, OrderError> {
    // Boxed: the states of the whole protocol take some KiB.
    let once = || Box::pin(order_once(settings, files, client, proofs, names));
    let ordering = async {
        match once().await {
            Err(Wrong::Acme(Error::Api(problem))) if problem.r#type.as_deref() == Some(NO_ACCOUNT) => {
                forget_account(files).map_err(Wrong::Here)?;
                once().await
            }
            ordered => ordered,
        }
    };
    let failed = |failure, why| OrderError { failure, why, retry_after: client.retry_after() };
    match timeout(ORDER_TIMEOUT, ordering).await {
        Ok(Ok(pem)) => Ok(pem),
        Ok(Err(Wrong::Here(why))) => Err(failed(OrderFailure::Local, why)),
        Ok(Err(Wrong::Refused(why))) => Err(failed(OrderFailure::Refused, why)),
        Ok(Err(Wrong::Acme(error))) => Err(failed(client.failure(), error.to_string())),
        Err(_) => Err(failed(OrderFailure::Refused, format!("no certificate within {ORDER_TIMEOUT:?}"))),
    }
}

async fn order_once(
    settings: &AcmeSettings,
    files: &AcmeFiles,
    client: &AcmeClient,
    proofs: &Proofs,
    names: &[String],
) -> Result<String, Wrong> {
    let account = account(settings, files, client).await?;
    let mut order = account.new_order(&NewOrder::new(&identifiers(names))).await?;
    // Taken back when the order ends, however it does.
    let given = prove(&mut order, proofs).await?;
    if order.state().status == OrderStatus::Pending {
        let polled = order.poll_ready(&POLLS).await;
        if !matches!(polled, Ok(OrderStatus::Ready)) {
            return Err(unproved(&mut order, polled.err()).await);
        }
    }
    drop(given);
    let key = KeyPair::generate().map_err(here("the key"))?;
    let request = request(names, &key)?;
    order.finalize_csr(&request).await?;
    let chain = order.poll_certificate(&POLLS).await?;
    usable(&key.serialize_pem(), &chain, names)
}

fn here<E: Display>(what: &'static str) -> impl Fn(E) -> Wrong {
    move |why| Wrong::Here(format!("{what}: {why}"))
}

fn refused<E: Display>(what: &'static str) -> impl Fn(E) -> Wrong {
    move |why| Wrong::Refused(format!("{what}: {why}"))
}

fn identifiers(names: &[String]) -> Vec<Identifier> {
    names.iter().map(|name| Identifier::Dns(name.clone())).collect()
}

/// The account of the file, or a new one.
async fn account(settings: &AcmeSettings, files: &AcmeFiles, client: &AcmeClient) -> Result<Account, Wrong> {
    let file = files.account();
    let contact: Vec<String> = settings.contact.iter().map(|address| format!("mailto:{address}")).collect();
    let addresses: Vec<&str> = contact.iter().map(String::as_str).collect();
    let builder = Account::builder_with_http(Box::new(client.clone()));
    let wrong = |why: io::Error| Wrong::Here(format!("{}: {why}", file.display()));
    let kept: Option<KeptAccount> = read_json(&file).map_err(|why| match why.kind() {
        ErrorKind::PermissionDenied => wrong(why),
        _ => Wrong::Here(format!("{}: {why}; remove it, another account is made", file.display())),
    })?;
    if let Some(KeptAccount { contact: had, credentials }) = kept {
        let account = builder.from_credentials(credentials).await?;
        if had != contact {
            account.update_contacts(&addresses).await?;
            // Read once more, to be written again: the type of credentials has no copies.
            let again: Option<KeptAccount> = read_json(&file).map_err(wrong)?;
            let kept = again.map(|again| KeptAccount { contact, ..again });
            kept.map_or(Ok(()), |kept| write_json(&file, &kept)).map_err(wrong)?;
        }
        return Ok(account);
    }
    let external = match &settings.external_account {
        Some(bound) => {
            let key = bound
                .key()
                .ok_or_else(|| Wrong::Here("acme.external_account.hmac_key is not base64url".to_owned()))?;
            Some(ExternalAccountKey::new(bound.key_id.clone(), &key))
        }
        None => None,
    };
    let new = NewAccount {
        contact: &addresses,
        terms_of_service_agreed: settings.terms_of_service_agreed,
        only_return_existing: false,
    };
    let created = builder.create(&new, settings.directory.clone(), external.as_ref()).await?;
    let (account, credentials) = created;
    log::info!(target: "turnpike", "certificates: made an account with {}", settings.directory);
    write_json(&file, &KeptAccount { contact, credentials }).map_err(wrong)?;
    Ok(account)
}

/// The next order makes another account.
fn forget_account(files: &AcmeFiles) -> Result<(), String> {
    let file = files.account();
    log::warn!(target: "turnpike", "certificates: the authority does not have the account any more, another one is made");
    std::fs::remove_file(&file).map_err(|why| format!("{}: {why}", file.display()))
}

/// Gives the proofs of all names that are not proved yet, and says so to the authority.
async fn prove(order: &mut Order, proofs: &Proofs) -> Result<Vec<Proof>, Wrong> {
    let mut given = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Pending => {}
            AuthorizationStatus::Valid => continue,
            other => {
                return Err(Wrong::Refused(format!(
                    "{}: the authorization is {other:?}",
                    authorization.identifier()
                )));
            }
        }
        let name = authorization.identifier().to_string();
        let mut challenge = authorization.challenge(proofs.kind()).ok_or_else(|| {
            Wrong::Refused(format!("the authority does not offer {:?} for {name}", proofs.challenge))
        })?;
        let text = challenge.key_authorization();
        given.push(proofs.give(&name, &challenge.token, &text).map_err(Wrong::Here)?);
        challenge.set_ready().await?;
    }
    Ok(given)
}

/// Why the authority did not see the proofs: what it says of each name.
async fn unproved(order: &mut Order, polled: Option<Error>) -> Wrong {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            break;
        }
        let name = authorization.identifier().to_string();
        let errors = authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        reasons.extend(errors.map(|error| format!("{name}: {error}")));
    }
    match (reasons.is_empty(), polled) {
        (false, _) => Wrong::Refused(reasons.join("; ")),
        (true, Some(error)) => Wrong::Acme(error),
        (true, None) => Wrong::Refused("the order is invalid, and the authority does not say why".to_owned()),
    }
}

/// The request of a certificate, DER. The names are alternative ones; there is no common name.
fn request(names: &[String], key: &KeyPair) -> Result<Vec<u8>, Wrong> {
    let mut params = CertificateParams::new(names.to_vec()).map_err(here("the request"))?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(key).map_err(here("the request"))?;
    Ok(request.der().to_vec())
}

/// The PEM of both, if a listener can use them.
fn usable(key: &str, chain: &str, names: &[String]) -> Result<String, Wrong> {
    let certificates = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(refused("the chain of the authority"))?;
    let first = certificates
        .first()
        .ok_or_else(|| Wrong::Refused("the chain of the authority is empty".to_owned()))?;
    let is_good = validity(first).is_some_and(|validity| validity.until > Timestamp::now().as_second());
    if !is_good {
        return Err(Wrong::Here(
            "the certificate of the authority has expired already; is the clock of this machine right?"
                .to_owned(),
        ));
    }
    if let Some(name) = names.iter().find(|name| !is_for(first, name)) {
        return Err(Wrong::Refused(format!("the certificate of the authority is not for {name}")));
    }
    let private = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(here("the key"))?;
    CertifiedKey::from_der(certificates, private, &default_provider())
        .map_err(refused("the certificate of the authority does not go with its key"))?;
    Ok(format!("{key}{chain}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issued(names: &[&str], expired: bool) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = rcgen::date_time_ymd(if expired { 2020 } else { 4000 }, 1, 1);
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        let key = KeyPair::generate().unwrap();
        (key.serialize_pem(), params.self_signed(&key).unwrap().pem())
    }

    #[test]
    fn what_a_listener_cannot_use_is_not_kept() {
        let names = ["a.x".to_owned(), "b.x".to_owned()];
        let why = |key: &str, chain: &str| match usable(key, chain, &names) {
            Ok(_) => String::new(),
            Err(Wrong::Here(why) | Wrong::Refused(why)) => why,
            Err(Wrong::Acme(error)) => error.to_string(),
        };
        let (key, chain) = issued(&["b.x", "A.x"], false);
        assert_eq!(why(&key, &chain), "");
        let (other_key, expired) = issued(&["a.x", "b.x"], true);
        assert!(why(&other_key, &expired).contains("expired"));
        assert!(why(&other_key, &chain).contains("does not go with its key"));
        let (lone_key, lone) = issued(&["a.x"], false);
        assert!(why(&lone_key, &lone).contains("not for b.x"));
        assert!(why(&key, "").contains("empty"));
    }
}
