//! Whether an account is enough for a plain call: a chat, as far as it gets without a connection.
//!
//! What a settings file is checked with, so that a missing region or a broken private key is found before the first
//! request. Not here: which accounts there are (`route::stored_calls`), and what a vendor thinks of the key.

use super::{Call, Provider, Signing};
use http::{HeaderMap, Method};
use std::time::SystemTime;
use words::api::operation::Operation;
use words::config::account::{Account, names};
use words::error::Error;

/// A field of an account that is wrong or missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountProblem {
    /// The field's neutral name; empty where the problem is not about one field.
    pub field: String,
    pub message: String,
}

/// What a plain call with this account would fail with before it is sent, each field once.
pub fn problems(provider: &dyn Provider, account: &Account, now: SystemTime) -> Vec<AccountProblem> {
    let call = Call {
        operation: Operation::ChatCompletions,
        method: &Method::POST,
        path: "chat/completions",
        query: None,
        model: Some("model"),
        streamed: false,
    };
    let mut found = Vec::new();
    if account.custom_host.is_none()
        && let Err(error) = provider.base_url(account)
    {
        note(&mut found, account, error);
    }
    // An error that is not about the account is about the made-up model.
    if let Err(error) = provider.path(&call, account)
        && error.param.as_deref().and_then(names::find).is_some()
    {
        note(&mut found, account, error);
    }
    let mut headers = HeaderMap::new();
    if let Err(error) = provider.authorize(&call, account, &mut headers) {
        note(&mut found, account, error);
    }
    match provider.token_exchange(account) {
        Ok(None) if provider.signs(account) => {
            let signing = Signing { method: &Method::POST, url: "https://host/path", body: b"{}", now };
            if let Err(error) = provider.sign(&signing, account, None, &mut headers) {
                note(&mut found, account, error);
            }
        }
        Ok(None) => {}
        Ok(Some(exchange)) => {
            // Writes the first request of the sign-in: a private key that is none is noticed here.
            if let Err(why) = exchange.next_step(&[], now) {
                let message = format!("{} cannot be prepared: {why}", exchange.description());
                found.push(AccountProblem { field: String::new(), message });
            }
        }
        Err(error) => note(&mut found, account, error),
    }
    found
}

fn note(found: &mut Vec<AccountProblem>, account: &Account, error: Error) {
    let field = error.param.unwrap_or_default();
    if found.iter().any(|other| other.field == field) {
        return;
    }
    // The error is worded for clients, which can send a key.
    let message = match (field.as_str(), &account.api_key) {
        ("api_key", None) => "is required: calls of this provider need a key".to_owned(),
        _ => error.message,
    };
    found.push(AccountProblem { field, message });
}
