//! What a key or token adds to the requests made with it, and what it forbids in them: its default config, its metadata, and
//! `auth.saved_only` for all.
//!
//! Which scopes a request needs is not here, but in [`RequestHead::check_scope`](super::RequestHead::check_scope).

use memory::auth::stored_keys::WorkspaceDefaults;
use memory::auth::{ClientIdentity, IdentityKind};
use memory::state::snapshot::SettingsSnapshot;
use serde_json::{Map, Value};
use std::borrow::Cow;
use words::config::headers::GatewayHeaders;
use words::error::{Error, Inline};
use words::settings::Auth;
use words::settings::scopes::KeyType;

/// The member of metadata that names the user.
const USER: &str = "_user";

/// What a key of a client is used under: the rules of the settings, and what its workspace sets.
#[derive(Debug, Clone, Copy)]
pub struct KeyRules<'a> {
    client: &'a ClientIdentity,
    auth: &'a Auth,
    workspace: Option<&'a WorkspaceDefaults>,
}

impl<'a> KeyRules<'a> {
    pub fn new(client: &'a ClientIdentity, snapshot: &'a SettingsSnapshot) -> Self {
        let workspace = snapshot.service_keys.stored().workspace_defaults(client.workspace);
        Self { client, auth: &snapshot.settings.auth, workspace }
    }

    /// Puts the key's default config in the place of the config that the request does not name; for keys of users, else that of
    /// the workspace. Returns whether it did.
    ///
    /// `is_config`: whether there is a config of this name. A token may speak of one that is gone: that is logged and passed over.
    ///
    /// # Errors
    /// 400 for what the settings or the key forbid; `param` is the header.
    pub fn apply(
        &self,
        headers: &mut GatewayHeaders<'a>,
        is_config: impl Fn(&str) -> bool,
    ) -> Result<bool, Error> {
        if self.auth.saved_only {
            check_saved(headers)?;
        }
        let defaults = &self.client.defaults;
        let is_user = self.client.kind == IdentityKind::Stored(KeyType::WorkspaceUser);
        let of_workspace = || self.workspace.filter(|_| is_user)?.user_api_key_config.as_deref();
        let Some(default) = defaults.config_id.as_deref().or_else(of_workspace) else { return Ok(false) };
        match headers.config {
            None if self.client.kind == IdentityKind::Jwt && !is_config(default) => {
                log::warn!(target: "turnpike", "a token names a default config that is not there; the request goes on without it");
                Ok(false)
            }
            None => {
                headers.config = Some(default);
                Ok(true)
            }
            Some(named) if !defaults.allow_config_override && named != default => {
                let message = "Cannot override default config set for this API key. Leave the config out of the request.";
                Err(Error::invalid_request("x-gateway-config", message))
            }
            Some(_) => Ok(false),
        }
    }

    /// The metadata of a request: the workspace's members before the key's, those before the request's, and a token's user before
    /// all, so that no client can speak for another one. Borrowed where nothing is added.
    pub fn metadata<'h>(&self, headers: &GatewayHeaders<'h>) -> Option<Cow<'h, str>> {
        let user = self.client.user.as_deref().filter(|_| self.client.kind == IdentityKind::Jwt);
        let of_workspace = self.workspace.map(|workspace| workspace.metadata.as_slice()).unwrap_or_default();
        let of_key = &self.client.defaults.metadata;
        if of_workspace.is_empty() && of_key.is_empty() && user.is_none() {
            return headers.metadata.map(Cow::Borrowed);
        }
        let sent = headers.metadata.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
        let mut members = sent.unwrap_or_default();
        members.extend(of_key.iter().map(|(name, value)| (name.to_string(), Value::from(&**value))));
        members.extend(of_workspace.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
        members.extend(user.map(|user| (USER.to_owned(), user.into())));
        Some(Cow::Owned(Value::Object(members).to_string()))
    }
}

/// # Errors
/// 400 for what is neither stored nor saved.
fn check_saved(headers: &GatewayHeaders<'_>) -> Result<(), Error> {
    let is_inline = |config: &str| config.trim_start().starts_with('{');
    let is_plain = |provider: &str| !provider.starts_with('@');
    let found = [
        (Inline::Config, headers.config.is_some_and(is_inline)),
        (Inline::Provider, headers.provider.is_some_and(is_plain)),
        (Inline::CustomHost, headers.custom_host.is_some()),
        (Inline::ProviderUrl, headers.account.is_some()),
    ];
    let found = found.into_iter().find(|(_, is_sent)| *is_sent).map(|(inline, _)| inline);
    match found.or(headers.inline_policy()) {
        Some(inline) => Err(Error::inline_blocked(inline)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};
    use memory::auth::KeyDefaults;

    fn client(kind: IdentityKind, config: Option<&str>, allow_config_override: bool) -> ClientIdentity {
        let metadata = vec![("team".into(), "a".into())];
        let defaults = KeyDefaults {
            config_id: config.map(Into::into),
            metadata,
            allow_config_override,
            ..KeyDefaults::default()
        };
        ClientIdentity { kind, defaults, user: Some("ann".into()), ..ClientIdentity::anonymous(None) }
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    fn applied(
        client: &ClientIdentity,
        saved_only: bool,
        lines: &[(&'static str, &'static str)],
    ) -> Result<Option<String>, (u16, String)> {
        let headers = headers(lines);
        let mut read = GatewayHeaders::read(&headers, &["x-gateway-"]).unwrap();
        let auth = Auth { saved_only, ..Auth::default() };
        let workspace =
            WorkspaceDefaults { user_api_key_config: Some("pc-users".into()), ..Default::default() };
        let rules = KeyRules { client, auth: &auth, workspace: Some(&workspace) };
        let done = rules.apply(&mut read, |name| name != "gone");
        let is_sent = GatewayHeaders::read(&headers, &["x-gateway-"]).unwrap().config.is_some();
        assert_eq!(done.as_ref().is_ok_and(|done| *done), !is_sent && read.config.is_some());
        done.map(|_| read.config.map(str::to_owned))
            .map_err(|error| (error.status(), error.kind.row().code.to_owned()))
    }

    #[test]
    fn the_default_config_stands_in_for_the_one_that_is_not_named() {
        let key = IdentityKind::Settings;
        let user = IdentityKind::Stored(KeyType::WorkspaceUser);
        let inline = [("x-gateway-config", r#"{"provider":"@a"}"#)];
        let other = Err((400, "invalid_request".to_owned()));
        for (kind, config, may_override, lines, wanted) in [
            (key, Some("pc-a"), true, &[][..], Ok(Some("pc-a"))),
            (key, Some("pc-a"), true, &inline, Ok(Some(inline[0].1))),
            (key, Some("pc-a"), false, &[], Ok(Some("pc-a"))),
            (key, Some("pc-a"), false, &inline, other.clone()),
            (key, Some("pc-a"), false, &[("x-gateway-config", "pc-a")], Ok(Some("pc-a"))),
            (key, None, false, &inline, Ok(Some(inline[0].1))),
            (user, None, true, &[], Ok(Some("pc-users"))),
            (user, Some("pc-a"), true, &[], Ok(Some("pc-a"))),
            (key, None, true, &[], Ok(None)),
            (IdentityKind::Jwt, Some("gone"), true, &[], Ok(None)),
            (key, Some("gone"), true, &[], Ok(Some("gone"))),
        ] {
            let found = applied(&client(kind, config, may_override), false, lines);
            assert_eq!(found, wanted.map(|config| config.map(str::to_owned)), "{config:?} {lines:?}");
        }
    }

    #[test]
    fn with_saved_only_each_inline_thing_has_its_code() {
        let client = client(IdentityKind::Settings, None, true);
        for (name, value, code) in [
            ("x-gateway-config", r#" {"provider":"@a"}"#, "inline_config_blocked"),
            ("x-gateway-provider", "openai", "inline_provider_blocked"),
            ("x-gateway-custom-host", "https://a.example.com", "inline_custom_host_blocked"),
            ("x-gateway-cloud-c-resource-name", "r", "inline_provider_url_blocked"),
            ("x-gateway-forward-headers", "x-a", "inline_forward_headers_blocked"),
        ] {
            assert_eq!(applied(&client, true, &[(name, value)]), Err((400, code.to_owned())), "{name}");
            assert!(applied(&client, false, &[(name, value)]).is_ok(), "{name}");
        }
        for (name, value) in [("x-gateway-config", "pc-a"), ("x-gateway-provider", "@a")] {
            assert!(applied(&client, true, &[(name, value)]).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_keys_metadata_and_a_tokens_user_come_first() {
        let lines = headers(&[("x-gateway-metadata", r#"{"team":"b","_user":"bob","x":1}"#)]);
        let read = GatewayHeaders::read(&lines, &["x-gateway-"]).unwrap();
        let auth = Auth::default();
        let workspace = WorkspaceDefaults { metadata: vec![("x".into(), "w".into())], ..Default::default() };
        let merged = |kind, workspace| {
            let client = client(kind, None, true);
            KeyRules { client: &client, auth: &auth, workspace }.metadata(&read).unwrap().into_owned()
        };
        assert_eq!(merged(IdentityKind::Settings, None), r#"{"_user":"bob","team":"a","x":1}"#);
        assert_eq!(merged(IdentityKind::Settings, Some(&workspace)), r#"{"_user":"bob","team":"a","x":"w"}"#);
        assert_eq!(merged(IdentityKind::Jwt, None), r#"{"_user":"ann","team":"a","x":1}"#);
        let plain = ClientIdentity::anonymous(None);
        let rules = KeyRules { client: &plain, auth: &auth, workspace: None };
        assert!(matches!(rules.metadata(&read), Some(Cow::Borrowed(_))), "nothing is copied");
        let empty = HeaderMap::new();
        let read = GatewayHeaders::read(&empty, &["x-gateway-"]).unwrap();
        assert_eq!(rules.metadata(&read), None);
        let jwt = client(IdentityKind::Jwt, None, true);
        let rules = KeyRules { client: &jwt, ..rules };
        assert_eq!(rules.metadata(&read).unwrap(), r#"{"_user":"ann","team":"a"}"#);
    }
}
