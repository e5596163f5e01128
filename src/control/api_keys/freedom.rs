//! What binds a key besides its scopes: when it ends, the models it may use, the metadata and the config that its requests have. No key
//! makes, changes or rotates another one that is bound by less, nor changes what binds itself.
//!
//! Not here: scopes and the sight of requests (`giving`), and limits (`limit_owner`): a key without limits is bound by its workspace's.

use memory::auth::key_body::KeyBody;
use memory::auth::{ClientIdentity, IdentityKind};
use words::config::policies::Priority;
use words::error::Error;

/// # Errors
/// 403 for a key that is freer than the client. It names the member.
pub(super) fn check(client: &ClientIdentity, key: &KeyBody) -> Result<(), Error> {
    match freer(client, key) {
        None => Ok(()),
        Some((member, why)) => {
            let message = format!(
                "The calling key cannot give, and not change, a key that is freer than itself: {why}"
            );
            Err(Error::forbidden(message).with_param(member))
        }
    }
}

/// In which member a key is freer than the client, and what would have to be so.
fn freer(client: &ClientIdentity, key: &KeyBody) -> Option<(&'static str, String)> {
    let own = &client.defaults;
    if let Some(allowed) = &own.allowed_models {
        // A pattern that fits into another one, as it is written, means no name that the other does not.
        let fits = |wanted: &[String]| wanted.iter().all(|name| allowed.allows(name));
        if !key.allowed_models.as_deref().is_some_and(fits) {
            return Some(("allowed_models", "it may use only some models.".to_owned()));
        }
    }
    // A token ends within hours, and says nothing of the keys that its holder makes.
    if let Some(end) = client.expires_at.filter(|_| client.kind != IdentityKind::Jwt)
        && key.expires_at.is_none_or(|other| other > end)
    {
        return Some(("expires_at", format!("it ends at {end}.")));
    }
    let has = |name: &str, value: &str| key.defaults.metadata.get(name).is_some_and(|other| other == value);
    if let Some((name, _)) = own.metadata.iter().find(|(name, value)| !has(name, value)) {
        return Some(("defaults.metadata", format!("the member {name:?} of its metadata must be the same.")));
    }
    // Without one, a saved config may say the highest.
    let priority = key.defaults.priority.as_deref().and_then(Priority::parse).unwrap_or(Priority::High);
    if let Some(most) = own.priority.filter(|most| priority > *most) {
        return Some((
            "defaults.priority",
            format!("the priority of its requests is {} at most.", most.as_str()),
        ));
    }
    let has_own_config =
        !key.defaults.allow_config_override && key.defaults.config_id.as_deref() == own.config_id.as_deref();
    if !own.allow_config_override && !has_own_config {
        let why = "its requests have the config of its defaults (config_id) and no other (allow_config_override: false).";
        return Some(("defaults.allow_config_override", why.to_owned()));
    }
    None
}

/// # Errors
/// 403 for a change of what binds the key that the client is.
pub(super) fn check_own(before: &KeyBody, after: &KeyBody) -> Result<(), Error> {
    let changed = [
        ("expires_at", before.expires_at != after.expires_at),
        ("defaults", before.defaults != after.defaults),
        ("allowed_models", before.allowed_models != after.allowed_models),
        ("scopes", before.scope_set() != after.scope_set()),
        ("usage_limits", before.usage_limits != after.usage_limits),
        ("rate_limits", before.rate_limits != after.rate_limits),
        ("reset_usage", before.usage_resets != after.usage_resets),
    ];
    match changed.into_iter().find(|(_, is_changed)| *is_changed) {
        None => Ok(()),
        Some((member, _)) => {
            let message = format!(
                "A key does not change {member} of its own. Another key of the workspace that is bound by no less, or one of the \
                 organisation, does."
            );
            Err(Error::forbidden(message).with_param(member))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use memory::auth::identity::KeyDefaults;
    use words::settings::AllowedNames;
    use words::settings::scopes::KeyType;

    type KeyChange = (&'static str, bool, fn(&mut KeyBody));

    const END: i64 = 2_000_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A key that is bound in every way, and the client that it is.
    fn bound() -> (KeyBody, ClientIdentity) {
        let mut key = KeyBody::new("bound", KeyType::WorkspaceService);
        key.scopes = vec!["completions.write".to_owned()];
        key.expires_at = Some(at(END));
        key.allowed_models = Some(vec!["cheap*".to_owned(), "small".to_owned()]);
        key.defaults.config_id = Some("main".to_owned());
        key.defaults.allow_config_override = false;
        key.defaults.priority = Some("normal".to_owned());
        key.defaults.metadata =
            [("_user", "ann"), ("team", "a")].map(|(name, value)| (name.into(), value.into())).into();
        (key.clone(), client_of(&key))
    }

    fn client_of(key: &KeyBody) -> ClientIdentity {
        let names = key.allowed_models.as_ref();
        let allowed_models = names.map(|names| AllowedNames::new(names.iter().map(String::as_str)));
        ClientIdentity {
            kind: IdentityKind::Stored(key.kind),
            expires_at: key.expires_at,
            defaults: KeyDefaults { allowed_models, ..KeyDefaults::from(&key.defaults) },
            ..ClientIdentity::anonymous(None)
        }
    }

    /// What may be changed of a key, what it is called in a refusal, and whether it makes the key freer.
    fn changes() -> Vec<KeyChange> {
        vec![
            ("expires_at", true, |key| key.expires_at = None),
            ("expires_at", true, |key| key.expires_at = Some(at(END + 1))),
            ("expires_at", false, |key| key.expires_at = Some(at(END - 1))),
            ("allowed_models", true, |key| key.allowed_models = None),
            ("allowed_models", true, |key| {
                key.allowed_models = Some(vec!["small".to_owned(), "*".to_owned()]);
            }),
            ("allowed_models", false, |key| key.allowed_models = Some(vec!["cheap-1".to_owned()])),
            ("allowed_models", false, |key| key.allowed_models = Some(Vec::new())),
            ("defaults.metadata", true, |key| key.defaults.metadata.clear()),
            ("defaults.metadata", true, |key| drop(key.defaults.metadata.remove("_user"))),
            ("defaults.metadata", true, |key| {
                drop(key.defaults.metadata.insert("_user".into(), "bob".into()));
            }),
            ("defaults.metadata", false, |key| drop(key.defaults.metadata.insert("more".into(), "b".into()))),
            ("defaults.allow_config_override", true, |key| key.defaults.allow_config_override = true),
            ("defaults.allow_config_override", true, |key| key.defaults.config_id = None),
            ("defaults.priority", true, |key| key.defaults.priority = None),
            ("defaults.priority", true, |key| key.defaults.priority = Some("high".to_owned())),
            ("defaults.priority", false, |key| key.defaults.priority = Some("low".to_owned())),
            ("defaults.allow_config_override", true, |key| key.defaults.config_id = Some("other".to_owned())),
            ("defaults.allow_config_override", true, |key| {
                key.defaults.metadata.insert("more".into(), "b".into());
                key.defaults.allow_config_override = true;
            }),
        ]
    }

    #[test]
    fn no_key_gives_one_that_is_freer_in_any_member() {
        let (key, client) = bound();
        assert!(check(&client, &key).is_ok());
        let unbound = KeyBody::new("unbound", KeyType::WorkspaceService);
        assert!(check(&client_of(&unbound), &key).is_ok() && check(&client_of(&unbound), &unbound).is_ok());
        for (member, is_freer, change) in changes() {
            let mut other = key.clone();
            change(&mut other);
            let found = check(&client, &other).err();
            assert_eq!(
                found.as_ref().map(|error| error.status()),
                is_freer.then_some(403),
                "{member} {other:?}"
            );
            assert_eq!(found.and_then(|error| error.param), is_freer.then(|| member.to_owned()), "{other:?}");
            assert!(check(&client_of(&unbound), &other).is_ok());
        }
        let token = ClientIdentity { kind: IdentityKind::Jwt, ..client_of(&unbound) };
        let token = ClientIdentity { expires_at: Some(at(END)), ..token };
        assert!(check(&token, &unbound).is_ok(), "a token ends sooner than what it makes");
    }

    #[test]
    fn no_key_changes_what_binds_itself() {
        let (key, _) = bound();
        let others: Vec<KeyChange> = vec![
            ("scopes", true, |key| key.scopes.clear()),
            ("scopes", true, |key| key.scopes.push("logs.view".to_owned())),
            ("usage_limits", true, |key| key.usage_limits = serde_json::json!({"credit_limit": 5})),
            ("rate_limits", true, |key| key.rate_limits = serde_json::json!([])),
            ("reset_usage", true, |key| key.usage_resets += 1),
        ];
        assert!(check_own(&key, &key).is_ok());
        for (member, _, change) in changes().into_iter().chain(others) {
            let mut after = key.clone();
            change(&mut after);
            let refusal = check_own(&key, &after).unwrap_err();
            let member = member.split('.').next();
            assert_eq!((refusal.status(), refusal.param.as_deref()), (403, member), "{after:?}");
        }
        let mut renamed = key.clone();
        renamed.name = "other".to_owned();
        renamed.description = Some("mine".to_owned());
        renamed.alert_emails = vec!["ann@example.com".to_owned()];
        assert!(check_own(&key, &renamed).is_ok());
    }
}
