//! Asks the identity provider at which persons sign in for what it has, and for ID tokens.
//!
//! What is asked and what an answer means is `auth::sign_in_code`'s and `auth::signed_in`'s.

use super::Shared;
use crate::auth::sign_in_code::{ProviderDocument, SignInCode, id_token};
use crate::auth::signed_in::SignedIn;
use crate::auth::signed_token::TokenRefusal;
use crate::net::outbound::side_client::FetchError;
use crate::net::outbound::token_http::TokenHttpClient;
use crate::state::authentication::fetch_keys;
use jiff::Timestamp;
use knowledge::provider::token_exchange::{TokenRequest, TokenResponse};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use words::settings::SignInSettings;

/// How long the provider's own document counts.
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// Requests to the provider at once: anybody who reaches the control port begins sign-ins.
const MAX_AT_ONCE: usize = 8;
/// How long others wait for their turn.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The identity provider of `auth.jwt`, as persons sign in there.
pub struct IdentityProvider {
    http: TokenHttpClient,
    kept: Mutex<Option<KeptDocument>>,
    places: Semaphore,
}

/// What the provider with this issuer has.
struct KeptDocument {
    issuer: String,
    document: Arc<ProviderDocument>,
    since: Instant,
}

/// Why nobody was signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignInFailure {
    /// The provider does not respond as it must; for the log, and for whoever signs in.
    Provider(String),
    /// What it responds counts for nothing here.
    Token(TokenRefusal),
    /// As many sign in at once as may.
    Busy,
}

impl IdentityProvider {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        Self {
            http: TokenHttpClient::new(ca_file),
            kept: Mutex::default(),
            places: Semaphore::new(MAX_AT_ONCE),
        }
    }

    /// What the provider with this issuer has, kept for an hour.
    ///
    /// # Errors
    /// [`SignInFailure`].
    pub async fn document(
        &self,
        issuer: &str,
        shared: &Shared,
    ) -> Result<Arc<ProviderDocument>, SignInFailure> {
        let kept = self.kept.lock().as_ref().and_then(|kept| kept.of(issuer, Instant::now()));
        if let Some(document) = kept {
            return Ok(document);
        }
        let response = self.send(&ProviderDocument::request(issuer), shared).await?;
        let document = ProviderDocument::read(&response, issuer).map_err(SignInFailure::Provider)?;
        let document = Arc::new(document);
        let issuer = issuer.to_owned();
        *self.kept.lock() =
            Some(KeptDocument { issuer, document: Arc::clone(&document), since: Instant::now() });
        Ok(document)
    }

    /// The person who comes back with a code. `until`: when the session ends, seconds since 1970.
    ///
    /// # Errors
    /// [`SignInFailure`].
    pub async fn person(
        &self,
        code: &str,
        sign_in: &SignInCode,
        client: &SignInSettings,
        shared: &Shared,
        until: i64,
    ) -> Result<SignedIn, SignInFailure> {
        let snapshot = shared.settings_arc();
        let tokens = snapshot.service_keys.tokens().ok_or(SignInFailure::Token(TokenRefusal::Issuer))?;
        let provider = self.document(&tokens.settings().issuer, shared).await?;
        let request = sign_in.exchange(code, &provider, client).map_err(SignInFailure::Provider)?;
        let answered = self.send(&request, shared).await;
        let token = answered.and_then(|response| id_token(&response).map_err(SignInFailure::Provider));
        // Where its token endpoint has moved its document says so.
        let token = token.inspect_err(|why| {
            if matches!(why, SignInFailure::Provider(_)) {
                *self.kept.lock() = None;
            }
        })?;
        let read =
            || SignedIn::read(&token, tokens, &client.client_id, &sign_in.nonce, Timestamp::now(), until);
        let first = match read() {
            Err(TokenRefusal::KidUnknown) => {
                fetch_keys(shared).await;
                read()
            }
            first => first,
        };
        first.map_err(SignInFailure::Token)
    }

    async fn send(&self, request: &TokenRequest, shared: &Shared) -> Result<TokenResponse, SignInFailure> {
        let place = timeout(MAX_WAIT, self.places.acquire()).await;
        let _place = place.ok().and_then(Result::ok).ok_or(SignInFailure::Busy)?;
        let hosts = &shared.settings_arc().hosts;
        self.http.run(request, true, &shared.dns, hosts).await.map_err(|why| match why {
            FetchError::Refused(why) | FetchError::Broken(why) => SignInFailure::Provider(why),
        })
    }
}

impl KeptDocument {
    fn of(&self, issuer: &str, now: Instant) -> Option<Arc<ProviderDocument>> {
        let counts = self.issuer == issuer && now.duration_since(self.since) < KEPT_FOR;
        counts.then(|| Arc::clone(&self.document))
    }
}
