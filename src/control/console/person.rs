//! Whose session of the console it is where it began at the identity provider, and no key was shown.
//!
//! Not here: how the session began (`sign_in`), and what the claims mean (`auth::signed_in`).

use jiff::Timestamp;
use memory::auth::signed_in::SignedIn;
use memory::auth::{self, ClientIdentity};
use memory::state::snapshot::SettingsSnapshot;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use words::error::Error;

/// Somebody who has signed in. What the person may do is judged at each call, by the settings of that moment.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Person {
    /// As the audit log names the person at the sign-in.
    pub user: String,
    pub claims: SignedIn,
}

impl Person {
    /// The client that the person is.
    ///
    /// # Errors
    /// 401 where nobody signs in so any more, or the settings have another identity provider or client.
    pub fn identify(
        &self,
        snapshot: &SettingsSnapshot,
        now: Timestamp,
    ) -> Result<Arc<ClientIdentity>, Error> {
        let sign_in = snapshot.settings.console.sign_in.as_ref();
        auth::authenticate_person(&self.claims, sign_in, &snapshot.service_keys, now)
    }
}
