//! Whose session of the console it is where it began at the identity provider, and no key was shown.
//!
//! Not here: how the session began (`sign_in`), and what the claims mean (`auth::signed_in`).

use super::ends;
use jiff::Timestamp;
use memory::auth::ClientIdentity;
use memory::auth::signed_in::SignedIn;
use memory::state::snapshot::SettingsSnapshot;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use words::error::Error;

/// Somebody who has signed in. What the person may do is judged at each call, by the settings of that moment.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Person {
    /// As the audit log names the person at the sign-in.
    pub user: String,
    /// When, seconds since 1970.
    pub begun: i64,
    pub claims: SignedIn,
}

impl Person {
    /// Somebody who signs in now, and the client that the person is.
    ///
    /// # Errors
    /// As [`Person::identify`].
    pub fn new(
        claims: SignedIn,
        snapshot: &SettingsSnapshot,
        now: Timestamp,
    ) -> Result<(Self, Arc<ClientIdentity>), Error> {
        let mut person = Self { user: String::new(), begun: now.as_second(), claims };
        let client = person.identify(snapshot, now)?;
        person.user = client.user.as_deref().unwrap_or_default().to_owned();
        Ok((person, client))
    }

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
        let client = self.claims.authenticate(sign_in, &snapshot.service_keys, now)?;
        // All sessions may have been ended of the name that the person has by the settings of the moment.
        let user = client.user.as_deref().unwrap_or_default();
        if ends::has_ended_all(snapshot.stored.catalog(), user, self.begun) {
            return Err(Error::unauthorized("All sessions of this person were ended. Sign in again."));
        }
        Ok(client)
    }
}
