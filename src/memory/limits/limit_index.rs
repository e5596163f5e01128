//! The limits of one phase, by what they belong to.
//!
//! Lists are shared with the index before, and replaced where one of their limits changes. Not here: all limits together, and what is counted
//! of them (`limit_set`).

use super::limit::{Limit, LimitScope, OnMissing};
use super::limit_set::{BucketHash, StartedHash};
use super::refusal::MissingFact;
use crate::auth::fact_key::Condition;
use crate::auth::facts::{Facts, Id, Named};
use imbl::OrdMap;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

type List = Arc<[Placed]>;
/// Trees, because nodes of maps by hashes would be mostly empty where there are many keys.
type Lists<K> = OrdMap<K, List>;

/// The limits of one phase.
#[derive(Debug, Clone, Default)]
pub(super) struct LimitIndex {
    /// Policies of all the organisation.
    organisation: List,
    /// Policies of one workspace.
    policies: Lists<Uuid>,
    /// Of keys of the settings, by their names.
    settings_keys: Lists<Arc<str>>,
    /// Of providers of the settings, by their slugs.
    settings_providers: Lists<Arc<str>>,
    others: Lists<(LimitScope, Uuid)>,
    /// What integrations have for one workspace: by integration and workspace.
    workspaces: Lists<(Uuid, Uuid)>,
}

/// What a list of limits belongs to: all that a limit has one of for all its life.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LimitOwner {
    Organisation,
    PoliciesOf(Uuid),
    SettingsKey(Arc<str>),
    SettingsProvider(Arc<str>),
    Record(LimitScope, Uuid),
    /// An integration and a workspace.
    IntegrationFor(Uuid, Uuid),
}

/// A limit, and what names its buckets.
#[derive(Clone)]
pub(super) struct Placed {
    pub limit: Arc<Limit>,
    /// Where it stands among all limits.
    pub place: u32,
    pub bucket: Bucket,
}

/// What names the buckets of a limit. Bytes, because a number of 128 bits takes more room.
#[derive(Clone)]
pub(super) enum Bucket {
    /// It has one.
    Only([u8; 16]),
    /// One for each combination of values, which are added to this.
    ByValues(Box<StartedHash>),
}

impl Bucket {
    pub(super) fn of(limit: &Limit, hash: BucketHash) -> Self {
        if limit.group_by.is_empty() {
            Self::Only(hash.only(limit).to_be_bytes())
        } else {
            Self::ByValues(Box::new(hash.start(limit)))
        }
    }
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.limit.fmt(f)
    }
}

impl LimitOwner {
    pub(super) fn of(limit: &Limit) -> Self {
        match (limit.scope, limit.workspace) {
            (LimitScope::Policy, Some(workspace)) => Self::PoliciesOf(workspace),
            (LimitScope::Policy, None) => Self::Organisation,
            // Of a key of the settings, which has no record.
            (LimitScope::Key, _) if !limit.conditions.is_empty() => match &limit.name {
                Some(name) => Self::SettingsKey(Arc::clone(name)),
                None => Self::Organisation,
            },
            (LimitScope::Provider, _) if !limit.conditions.is_empty() => match &limit.name {
                Some(slug) => Self::SettingsProvider(Arc::clone(slug)),
                None => Self::Organisation,
            },
            (LimitScope::Integration, Some(workspace)) => Self::IntegrationFor(limit.record, workspace),
            (scope, _) => Self::Record(scope, limit.record),
        }
    }
}

impl LimitIndex {
    pub(super) fn list(&self, owner: &LimitOwner) -> &[Placed] {
        let list = match owner {
            LimitOwner::Organisation => Some(&self.organisation),
            LimitOwner::PoliciesOf(workspace) => self.policies.get(workspace),
            LimitOwner::SettingsKey(name) => self.settings_keys.get(name),
            LimitOwner::SettingsProvider(slug) => self.settings_providers.get(slug),
            LimitOwner::Record(scope, id) => self.others.get(&(*scope, *id)),
            LimitOwner::IntegrationFor(id, workspace) => self.workspaces.get(&(*id, *workspace)),
        };
        list.map(|list| &**list).unwrap_or_default()
    }

    pub(super) fn set(&mut self, owner: LimitOwner, list: Vec<Placed>) {
        match owner {
            LimitOwner::Organisation => self.organisation = list.into(),
            LimitOwner::PoliciesOf(workspace) => put(&mut self.policies, workspace, list),
            LimitOwner::SettingsKey(name) => put(&mut self.settings_keys, name, list),
            LimitOwner::SettingsProvider(slug) => put(&mut self.settings_providers, slug, list),
            LimitOwner::Record(scope, id) => put(&mut self.others, (scope, id), list),
            LimitOwner::IntegrationFor(id, workspace) => put(&mut self.workspaces, (id, workspace), list),
        }
    }

    /// Those of the organisation, workspace, key and target of the request.
    pub(super) fn candidates<'a>(&'a self, facts: &'a Facts<'a>) -> impl Iterator<Item = &'a Placed> {
        let target = facts.target.as_ref();
        let record = |id: Option<Id<'_>>| match id {
            Some(Id::Record(id)) => Some(id),
            _ => None,
        };
        let settings_key = match facts.api_key {
            Some(Id::Settings(name)) if !self.settings_keys.is_empty() => self.settings_keys.get(name),
            _ => None,
        };
        let settings_provider = match target.and_then(|target| target.virtual_key) {
            Some(Named { id: Id::Settings(slug), .. }) if !self.settings_providers.is_empty() => {
                self.settings_providers.get(slug)
            }
            _ => None,
        };
        let others = [
            (LimitScope::Key, record(facts.api_key)),
            (LimitScope::Workspace, facts.workspace),
            (LimitScope::Provider, record(target.and_then(|target| target.virtual_key?.id.into()))),
            (LimitScope::Integration, target.and_then(|target| target.integration)),
        ];
        let others = others.into_iter().filter(|_| !self.others.is_empty());
        let others = others.filter_map(|(scope, id)| self.others.get(&(scope, id?)));
        let workspace = facts.workspace.filter(|_| !self.policies.is_empty());
        let policies = workspace.and_then(|workspace| self.policies.get(&workspace));
        let integration =
            target.and_then(|target| target.integration).filter(|_| !self.workspaces.is_empty());
        let of_workspace = integration.and_then(|id| self.workspaces.get(&(id, facts.workspace?)));
        let of_settings = settings_key.into_iter().chain(settings_provider);
        let of_owners = policies.into_iter().chain(of_settings).chain(others).chain(of_workspace);
        self.organisation.iter().chain(of_owners.flat_map(|list| list.iter()))
    }
}

fn put<K: Ord + Clone>(lists: &mut Lists<K>, owner: K, list: Vec<Placed>) {
    if list.is_empty() {
        lists.remove(&owner);
    } else {
        lists.insert(owner, list.into());
    }
}

impl Placed {
    /// The bucket that the request has of this limit, if the limit is for it.
    ///
    /// # Errors
    /// The request lacks a value that the limit insists on.
    pub(super) fn bucket(&self, facts: &Facts<'_>) -> Result<Option<u128>, MissingFact> {
        let limit = &self.limit;
        if !limit.conditions.iter().all(|condition| is_met(limit, condition, facts)) {
            return Ok(None);
        }
        let hash = match &self.bucket {
            Bucket::Only(bucket) => return Ok(Some(u128::from_be_bytes(*bucket))),
            Bucket::ByValues(hash) => hash,
        };
        let mut hash = StartedHash::clone(hash);
        for key in &limit.group_by {
            match (facts.group_value(key), limit.on_missing) {
                (Some(value), _) => value.hash(&mut |bytes| hash.add(bytes)),
                (None, OnMissing::Shared) => hash.add(&u32::MAX.to_be_bytes()),
                (None, OnMissing::Skip) => return Ok(None),
                (None, OnMissing::Deny) => {
                    return Err(MissingFact { limit: Arc::clone(limit), key: key.to_string().into() });
                }
            }
        }
        Ok(Some(hash.finish()))
    }
}

/// Whether the request meets a condition of a limit. A request without a value does not. Exception: if the limit groups by the same key and
/// has a rule for requests without it (`on_missing`), such a request meets a condition that takes any value, since that rule could never
/// apply otherwise.
fn is_met(limit: &Limit, condition: &Condition, facts: &Facts<'_>) -> bool {
    match facts.value(&condition.key) {
        None if limit.on_missing != OnMissing::Skip && limit.group_by.contains(&condition.key) => {
            condition.takes_any()
        }
        value => condition.matches(value),
    }
}
