//! The names that a client uses as `model`: which entry of `models` or which saved config one means, who may use it, and which names
//! are near an unknown one.
//!
//! A name counts where nothing else names a provider or a config: headers and the default config of a key take precedence. Then whole
//! names of `models` count before those with a `*`, those before `@config`, and that before `default_config`. Not here: what an entry
//! says (`words::settings::model_entry`), and the config that follows (`compile`).

use super::attempt::Request;
use super::request_mode::RequestMode;
use super::target::Target;
use crate::route::admission::{FormModel, meant};
use http::Method;
use memory::auth::ClientIdentity;
use memory::state::directory::{DefinedIn, Directory};
use memory::state::model_lists::ModelLists;
use memory::state::snapshot::SettingsSnapshot;
use std::borrow::Cow;
use std::sync::Arc;
use uuid::Uuid;
use words::api::body::Body;
use words::api::operation::{Billing, BodyKind, Operation};
use words::config::headers::GatewayHeaders;
use words::config::read::edit_distance;
use words::error::Error;
use words::settings::{ModelEntry, ModelRoute};

/// The most names that are suggested.
const MAX_NEAR: usize = 3;
/// How much of two names must be the same at their beginning, characters.
const MIN_PREFIX: usize = 4;

/// A name of `models` that a request uses.
#[derive(Debug)]
pub struct UsedName {
    /// As the client wrote it.
    pub(crate) name: String,
    pub(crate) entry: Arc<ModelEntry>,
    pub(crate) defined_in: DefinedIn,
}

/// A saved config that a model names: `@config`, or `@config/model`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelConfig<'a> {
    pub(crate) id: &'a str,
    /// A model follows the config's name.
    pub(crate) has_model: bool,
}

/// What the model of a request names.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelNaming<'a> {
    /// The entry of `models`.
    pub(crate) used: Option<&'a UsedName>,
    /// The saved config, where nothing else names a provider or a config.
    pub(crate) config: Option<ModelConfig<'a>>,
    /// A model that names nothing: it is unknown where nothing else names a provider.
    pub(crate) plain: Option<&'a str>,
    /// The names that are near it.
    pub(crate) near: Option<NearNames<'a>>,
}

/// Who names a model, and how.
#[derive(Debug, Clone, Copy)]
pub struct ModelNamer<'a> {
    pub snapshot: &'a SettingsSnapshot,
    pub client: &'a ClientIdentity,
    /// With the default config of the client's key.
    pub headers: &'a GatewayHeaders<'a>,
    /// The config of the headers is that default.
    pub has_key_default: bool,
}

/// Whether the headers of a request name its provider or config.
pub(crate) fn is_named(headers: &GatewayHeaders<'_>) -> bool {
    let GatewayHeaders { config, provider, virtual_key, custom_host, .. } = headers;
    config.is_some() || provider.is_some() || virtual_key.is_some() || custom_host.is_some()
}

/// Whether a client is among those that an entry is for.
pub fn is_for_client(entry: &ModelEntry, snapshot: &SettingsSnapshot, client: &ClientIdentity) -> bool {
    // The id of a key of the settings is its name. Other keys and tokens may have that name as well.
    let has_key =
        |names: &Vec<String>| client.id.as_deref().is_some_and(|id| names.iter().any(|name| name == id));
    entry.keys.as_ref().is_none_or(has_key) && is_for_workspace(entry, snapshot, client.workspace)
}

/// Whether an entry is for the clients of a workspace.
pub fn is_for_workspace(entry: &ModelEntry, snapshot: &SettingsSnapshot, workspace: Option<Uuid>) -> bool {
    let has_it = |names: &Vec<String>| {
        let stored = snapshot.service_keys.stored();
        workspace.is_some() && names.iter().any(|name| stored.workspace(name) == workspace)
    };
    entry.workspaces.as_ref().is_none_or(has_it)
}

/// Whether the key of a client lets it use a name, as clients write it, or the model that it stands for.
pub fn is_allowed(client: &ClientIdentity, name: &str, slug: Option<&str>, model: Option<&str>) -> bool {
    let Some(allowed) = &client.defaults.allowed_models else { return true };
    let of_slug = || slug.zip(model).is_some_and(|(slug, model)| allowed.allows(&format!("@{slug}/{model}")));
    allowed.allows(name) || model.is_some_and(|model| allowed.allows(model)) || of_slug()
}

impl Request {
    /// Takes what its model names, and which models its client may use. The second time it does nothing.
    ///
    /// # Errors
    /// 403 for a name that the client may not use, or not for this.
    pub fn take_names(&mut self, namer: &ModelNamer<'_>) -> Result<(), Error> {
        if self.is_own || self.used_name.is_some() {
            return Ok(());
        }
        let ModelNamer { snapshot, client, headers, has_key_default } = *namer;
        self.allowed_models.clone_from(&client.defaults.allowed_models);
        let directory = snapshot.directory(client.workspace);
        let by_prompt = self.prompt.as_ref().is_some_and(|call| call.found.version.virtual_key().is_some());
        let is_open = !is_named(headers) && self.slug.is_none() && !by_prompt;
        if is_open
            && let Some(name) = self.model.as_ref().filter(|name| !name.starts_with('@'))
            && let Some((entry, defined_in)) = directory.model(name)
        {
            if !is_for_client(entry, snapshot, client) {
                return Err(Error::model_forbidden(format!("This key may not use the model {name}.")));
            }
            if !entry.is_for(self.operation) {
                let operation = self.operation.label();
                let message = format!("The model {name} may not be used for the operation {operation}.");
                return Err(Error::model_forbidden(message));
            }
            let model = entry.model_for(name);
            self.slug = match &entry.route {
                ModelRoute::Provider(slug) => Some(slug.clone()),
                ModelRoute::Saved(_) | ModelRoute::Inline(_) => None,
            };
            let name = self.model.replace(model).unwrap_or_default();
            let entry = Arc::clone(entry);
            self.used_name = Some(Arc::new(UsedName { name, entry, defined_in }));
            return Ok(());
        }
        let names_config = || ModelConfig::find(directory, headers, self).is_some();
        let by_default = is_open && !names_config() && snapshot.settings.default_config.is_some();
        self.uses_default_config = has_key_default || by_default;
        Ok(())
    }

    /// The model as the client named it.
    pub fn requested_model(&self) -> Option<Cow<'_, str>> {
        match (&self.used_name, &self.slug, &self.model) {
            (Some(used), _, _) => Some(Cow::Borrowed(&used.name)),
            (None, Some(slug), model) => {
                Some(Cow::Owned(format!("@{slug}/{}", model.as_deref().unwrap_or_default())))
            }
            (None, None, model) => model.as_deref().map(Cow::Borrowed),
        }
    }

    /// Takes the model that a form names. One in the path counts before it, and is written into the form.
    pub fn set_form_model(&mut self, found: Option<FormModel>) {
        let Some(FormModel { name, place }) = found else { return };
        if self.model.is_none() {
            self.name_model(Some(name));
        }
        self.form_model = Some(place);
    }

    /// The form with the model that `target` is sent; `None`: it is no form, or its model stays as it is.
    pub(super) fn edited_form(&self, target: &Target) -> Option<Vec<u8>> {
        let place = self.form_model.clone()?;
        let form = self.body.as_ref()?.bytes();
        let model = target.model().map(str::to_owned).or_else(|| self.model_for(target))?;
        let edited = || Some([form.get(..place.start)?, model.as_bytes(), form.get(place.end..)?].concat());
        if form.get(place.clone()) == Some(model.as_bytes()) { None } else { edited() }
    }

    /// Whether the model of the body that `target` is sent is another than the client's: without its slug, or what a name stands for.
    pub(super) fn renames_for(&self, target: &Target) -> bool {
        self.slug_is(target) || (self.used_name.is_some() && self.slug.is_none())
    }

    /// # Errors
    /// 403 for a model that the client's key, or the stored provider, does not allow. `model`: as it is sent.
    pub(super) fn check_allowed(&self, target: &Target, model: Option<&str>) -> Result<(), Error> {
        if self.is_own || (self.allowed_models.is_none() && target.allowed.is_none()) {
            return Ok(());
        }
        if self.switches_unjudged() {
            let message = "The model of this socket cannot be judged, and only some may be used.";
            return Err(Error::model_forbidden(message));
        }
        // A form that was not read is sent with its own model, whatever `override_params` say.
        let is_form = self.operation.body_kind() == BodyKind::Opaque && self.mode == RequestMode::Api;
        let own = if is_form && self.form_model.is_none() {
            self.model_for(target)
        } else {
            model.map(str::to_owned)
        };
        let sent = self.sent_models(own.as_deref());
        let slug = target.slug.as_deref();
        if let Some(allowed) = &target.allowed {
            let slug = slug.unwrap_or_default();
            let refused = sent.iter().find(|model| !allowed.allows(model));
            let message = refused.map(|model| format!("The model {model} may not be used through @{slug}."));
            let unknown = || {
                self.calls_model().then(|| {
                    format!("The request names no model, and only some may be used through @{slug}.")
                })
            };
            if let Some(message) = message.or_else(|| sent.is_empty().then(unknown).flatten()) {
                return Err(Error::model_forbidden(message));
            }
        }
        let Some(allowed) = &self.allowed_models else { return Ok(()) };
        let by_name =
            target.by_model_name && self.requested_model().is_some_and(|name| allowed.allows(&name));
        let is_allowed = |model: &String| {
            (by_name && own.as_ref() == Some(model))
                || allowed.allows(model)
                || slug.is_some_and(|slug| allowed.allows(&format!("@{slug}/{model}")))
        };
        match sent.iter().find(|model| !is_allowed(model)) {
            Some(model) => Err(Error::model_forbidden(format!("This key may not use the model {model}."))),
            None if sent.is_empty() && self.calls_model() && !(by_name && own.is_none()) => {
                let message =
                    "The request names no model that can be judged, and this key may use only some.";
                Err(Error::model_forbidden(message))
            }
            None => Ok(()),
        }
    }

    /// Whether it becomes something in which the model is named later: only a socket of `/v1/realtime` has one model for good. An
    /// operation whose body was read is none, whatever its `Upgrade` header says: some clients offer HTTP/2 so.
    fn switches_unjudged(&self) -> bool {
        let is_read = self.mode == RequestMode::Api && self.body.is_some();
        self.switches_protocols && self.operation != Operation::Realtime && !is_read
    }

    /// The models that an attempt is sent with: `own` and those of its path. None where the provider may read another in a body that
    /// the gateway does not.
    fn sent_models(&self, own: Option<&str>) -> Vec<String> {
        let is_upgrade = self.operation.body_kind() == BodyKind::Upgrade;
        let is_proxied = self.mode == RequestMode::Passthrough;
        let is_unread = || is_proxied && self.sends() && !self.body.as_ref().is_some_and(Body::is_object);
        // The lines of a batch that its provider runs are in a file there, whatever the request names.
        if self.operation == Operation::BatchesCreate || (!is_upgrade && is_unread()) {
            return Vec::new();
        }
        let in_query = if is_upgrade { meant::models_in_query(&self.uri) } else { Vec::new() };
        let in_path = if is_upgrade || is_proxied { meant::model_in_path(&self.uri) } else { None };
        own.map(str::to_owned).into_iter().chain(in_path).chain(in_query).collect()
    }

    fn sends(&self) -> bool {
        self.method == Method::POST || self.method == Method::PUT
    }

    /// Whether a model is called, whether the request names it or not.
    fn calls_model(&self) -> bool {
        let is_upgrade = self.operation.body_kind() == BodyKind::Upgrade;
        let is_batch = self.operation == Operation::BatchesCreate;
        let is_billed = !matches!(self.operation.billing(), Billing::None | Billing::Later | Billing::Calls);
        is_upgrade || is_batch || (self.sends() && is_billed)
    }
}

impl<'a> ModelConfig<'a> {
    /// The config that the model of `request` names. A stored provider of the same name takes precedence.
    fn find(directory: Directory<'_>, headers: &GatewayHeaders<'_>, request: &'a Request) -> Option<Self> {
        let bare = || request.model.as_deref().and_then(|model| model.strip_prefix('@'));
        let (id, has_model) = match &request.slug {
            Some(slug) => (slug.as_str(), true),
            None => (bare()?, false),
        };
        let is_config = || directory.provider(id).is_none() && directory.config(id).is_some();
        (!is_named(headers) && is_config()).then_some(Self { id, has_model })
    }
}

impl<'a> ModelNaming<'a> {
    pub(super) fn find(directory: Directory<'_>, headers: &GatewayHeaders<'_>, request: &'a Request) -> Self {
        let used = request.used_name.as_deref();
        let config = if used.is_some() { None } else { ModelConfig::find(directory, headers, request) };
        let is_plain = used.is_none() && config.is_none() && request.slug.is_none();
        // The model of a prompt is not the client's.
        let is_api = request.mode == RequestMode::Api && headers.config.is_none() && request.prompt.is_none();
        let plain = request.model.as_deref().filter(|name| is_plain && is_api && !name.is_empty());
        Self { used, config, plain, near: None }
    }

    /// The saved config whose name stands before the model.
    pub(super) fn config_before_model(&self) -> Option<String> {
        self.config.filter(|config| config.has_model).map(|config| config.id.to_owned())
    }

    /// Whether the name of the model names the config.
    pub(super) fn is_config(&self) -> bool {
        self.used.is_some() || self.config.is_some()
    }
}

/// Longer names, in bytes, are near to none.
const MAX_WANTED: usize = 256;

/// The names that a client may use.
#[derive(Debug, Clone, Copy)]
pub struct NearNames<'a> {
    pub snapshot: &'a SettingsSnapshot,
    pub client: &'a ClientIdentity,
    /// What providers have listed lately.
    pub lists: &'a ModelLists,
}

impl NearNames<'_> {
    /// At most three names that might have been meant, the nearest first.
    pub(super) fn to(self, wanted: &str) -> Vec<String> {
        // No model has so long a name, and a client may send one of megabytes.
        if wanted.len() > MAX_WANTED {
            return Vec::new();
        }
        let wanted = wanted.trim_start_matches('@').to_lowercase();
        let mut found: Vec<(usize, String)> =
            self.all().into_iter().filter_map(|name| Some((distance(&wanted, &name)?, name))).collect();
        found.sort();
        found.dedup();
        found.into_iter().take(MAX_NEAR).map(|(_, name)| name).collect()
    }

    /// Each name in full.
    fn all(self) -> Vec<String> {
        let Self { snapshot, client, lists } = self;
        let directory = snapshot.directory(client.workspace);
        let entries = directory.models().filter(|entry| entry.name.is_exact());
        let entries = entries.filter(|entry| is_for_client(entry, snapshot, client));
        let entries = entries.filter(|entry| {
            let name = entry.name.as_str();
            let slug = match &entry.route {
                ModelRoute::Provider(slug) => Some(slug.as_str()),
                _ => None,
            };
            is_allowed(client, name, slug, slug.map(|_| entry.model_for(name)).as_deref())
        });
        let mut names: Vec<String> = entries.map(|entry| entry.name.as_str().to_owned()).collect();
        let configs = directory.configs().map(|(id, _)| format!("@{id}"));
        names.extend(configs.filter(|name| is_allowed(client, name, None, None)));
        for (slug, stored) in directory.providers() {
            for model in lists
                .last_list(client.workspace, slug, snapshot.routing_generation())
                .iter()
                .flat_map(|list| list.iter())
            {
                let name = format!("@{slug}/{}", model.id);
                if stored.allows(&model.id) && is_allowed(client, &name, Some(slug), Some(&model.id)) {
                    names.push(name);
                }
            }
        }
        names
    }
}

/// How far a name is from the wanted one, in edits; the beginning of the other is one edit away, and what only begins alike is far behind.
/// `None`: it is not near.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let full = name.trim_start_matches('@').to_lowercase();
    let bare = full.rsplit('/').next().unwrap_or_default();
    let most = wanted.chars().count().div_ceil(3).clamp(1, 4);
    let edits = edit_distance(&full, wanted).min(edit_distance(bare, wanted));
    let is_long = |text: &str| text.len() >= MIN_PREFIX;
    let begins = |other: &str| {
        (is_long(wanted) && other.starts_with(wanted)) || (is_long(other) && wanted.starts_with(other))
    };
    if begins(&full) || begins(bare) {
        return Some(edits.min(1));
    }
    if edits <= most {
        return Some(edits);
    }
    let common = |other: &str| other.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
    let same = common(&full).max(common(bare));
    (same >= MIN_PREFIX).then(|| 1000_usize.saturating_sub(same))
}

#[cfg(test)]
mod tests;
