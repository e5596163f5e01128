//! The prompts and partials of all workspaces. A copy shares everything with its original, and a change of the copy replaces only what
//! it concerns: the next library takes no more time with many prompts than with few.
//!
//! Versions are found here by number, label or `@latest`. Not how they are stored: whoever builds it knows the store.

use super::partial::{LazyPartial, Partial, PartialRef, PartialVersion, Partials};
use super::reference::{PromptReference, VersionReference};
use super::version::{PromptVersion, RenderedPrompt};
use imbl::HashMap as SharedMap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;

/// A prompt and its versions.
#[derive(Debug)]
pub struct Prompt {
    pub id: Uuid,
    pub slug: String,
    /// The number of the version that is used where none is named.
    pub published: u32,
    pub versions: BTreeMap<u32, Arc<PromptVersion>>,
    /// Names of labels, and the number of the version that each stands for.
    pub labels: HashMap<String, u32>,
}

impl Prompt {
    /// The published version, the newest one, and those with labels.
    fn versions_in_use(&self) -> impl Iterator<Item = &Arc<PromptVersion>> {
        let newest = self.versions.values().next_back();
        let numbers = self.labels.values().chain([&self.published]);
        numbers.filter_map(|number| self.versions.get(number)).chain(newest)
    }

    fn version(&self, version: &VersionReference<'_>) -> Option<&Arc<PromptVersion>> {
        match version {
            VersionReference::Published => self.versions.get(&self.published),
            VersionReference::Latest => self.versions.values().next_back(),
            VersionReference::Number(number) => self.versions.get(number),
            VersionReference::Label(label) => self.versions.get(self.labels.get(*label)?),
        }
    }
}

/// A partial and its versions.
#[derive(Debug)]
pub struct StoredPartial {
    pub id: Uuid,
    pub slug: String,
    pub published: u32,
    pub versions: BTreeMap<u32, Arc<LazyPartial>>,
}

/// The version of a prompt that a request names.
#[derive(Debug, Clone)]
pub struct FoundPrompt {
    pub prompt: Arc<Prompt>,
    pub version: Arc<PromptVersion>,
}

/// The prompts and partials of one workspace.
#[derive(Debug, Clone, Default)]
pub struct PromptSet {
    /// By slug.
    prompts: SharedMap<String, Arc<Prompt>>,
    slugs: SharedMap<Uuid, String>,
    /// By slug.
    partials: SharedMap<String, Arc<StoredPartial>>,
    /// Differs from that of any other set of the workspace.
    pub generation: u64,
}

impl PromptSet {
    /// A set of another generation, with the same content.
    #[must_use]
    pub fn changed(self, generation: u64) -> Self {
        Self { generation, ..self }
    }

    /// Without prompts and partials.
    pub fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.partials.is_empty()
    }

    /// All prompts, in no order.
    pub fn prompts(&self) -> impl Iterator<Item = &Arc<Prompt>> {
        self.prompts.values()
    }

    /// All partials, in no order.
    pub fn partials(&self) -> impl Iterator<Item = &Arc<StoredPartial>> {
        self.partials.values()
    }

    /// Removes the prompt with this id, unless another one has taken its slug.
    pub fn remove(&mut self, slug: &str, id: Uuid) {
        if self.prompts.get(slug).is_some_and(|prompt| prompt.id == id) {
            self.prompts.remove(slug);
        }
        self.slugs.remove(&id);
    }

    /// As [`PromptSet::remove`].
    pub fn remove_partial(&mut self, slug: &str, id: Uuid) {
        if self.partials.get(slug).is_some_and(|partial| partial.id == id) {
            self.partials.remove(slug);
        }
    }

    /// Adds a prompt, or replaces the one with the same slug.
    pub fn put(&mut self, prompt: Arc<Prompt>) {
        self.slugs.insert(prompt.id, prompt.slug.clone());
        self.prompts.insert(prompt.slug.clone(), prompt);
    }

    /// Adds a partial, or replaces the one with the same slug.
    pub fn put_partial(&mut self, partial: Arc<StoredPartial>) {
        self.partials.insert(partial.slug.clone(), partial);
    }

    /// The prompts and partials that include any version of this partial where they are published, labelled or newest; at most `limit`,
    /// in order.
    pub fn users_of_partial(&self, slug: &str, limit: usize) -> Vec<String> {
        let includes = |name: &str| name.split('@').next() == Some(slug);
        let by_prompts = self.prompts.values().filter(|prompt| {
            let in_use = prompt.versions_in_use();
            in_use.filter(|version| version.mentions(slug)).any(|version| {
                version.components().is_some_and(|needs| needs.partials.iter().any(|name| includes(name)))
            })
        });
        let by_partials = self.partials.values().filter(|partial| {
            let newest = partial.versions.values().next_back();
            let in_use = partial.versions.get(&partial.published).into_iter().chain(newest);
            let mut included = in_use
                .filter(|version| version.mentions(slug))
                .filter_map(|version| version.partial().ok())
                .flat_map(Partial::included);
            &*partial.slug != slug && included.any(|name| &*name.slug == slug)
        });
        let mut users: Vec<String> = by_prompts
            .map(|prompt| prompt.slug.clone())
            .chain(by_partials.map(|partial| partial.slug.clone()))
            .collect();
        users.sort();
        users.truncate(limit);
        users
    }

    /// The prompt with this id, else the one with this slug: no slug takes the calls of another prompt.
    pub fn prompt(&self, slug_or_id: &str) -> Option<&Arc<Prompt>> {
        let by_id = Uuid::try_parse(slug_or_id).ok().and_then(|id| self.slugs.get(&id));
        self.prompts.get(by_id.map_or(slug_or_id, String::as_str))
    }

    pub fn partial(&self, slug: &str) -> Option<&Arc<StoredPartial>> {
        self.partials.get(slug)
    }

    /// The version that `reference` names (`slug`, `slug@12`, `slug@latest`, `slug@label`).
    ///
    /// # Errors
    /// 404 that says what does not exist.
    pub fn find(&self, reference: &str) -> Result<FoundPrompt, Error> {
        let PromptReference { prompt, version } = PromptReference::parse(reference);
        let not_found = |what: String, name: &str| {
            Err(Error::not_found(format!("Invalid prompt id: {what}.")).with_unknown_name(name))
        };
        let Some(found) = self.prompt(prompt) else {
            return not_found(format!("there is no prompt {prompt:?} in this workspace"), prompt);
        };
        match (found.version(&version), version) {
            (Some(version), _) => Ok(FoundPrompt { prompt: Arc::clone(found), version: Arc::clone(version) }),
            (None, VersionReference::Label(label)) => {
                not_found(format!("no version of {:?} has the label {label:?}", found.slug), label)
            }
            (None, VersionReference::Number(number)) => {
                not_found(format!("{:?} has no version {number}", found.slug), "")
            }
            (None, VersionReference::Published | VersionReference::Latest) => {
                not_found(format!("{:?} has no version that could be used", found.slug), "")
            }
        }
    }
}

impl FoundPrompt {
    /// As [`PromptVersion::render`], with the partials of the prompt's workspace.
    ///
    /// # Errors
    /// As [`PromptVersion::render`].
    pub fn render<'m>(
        &self,
        request: impl Iterator<Item = (&'m str, &'m str)>,
        set: &PromptSet,
    ) -> Result<RenderedPrompt, Error> {
        self.version.render(request, set)
    }
}

impl Partials for PromptSet {
    fn find(&self, partial: &PartialRef) -> Option<&Partial> {
        let stored = self.partials.get(&*partial.slug)?;
        let version = match partial.version {
            PartialVersion::Published => stored.versions.get(&stored.published),
            PartialVersion::Latest => stored.versions.values().rfind(|version| version.partial().is_ok()),
            PartialVersion::Number(number) => stored.versions.get(&number),
        };
        version?.partial().ok()
    }
}

/// The prompts of all workspaces, by the workspace's id.
#[derive(Debug, Clone, Default)]
pub struct PromptLibrary {
    sets: SharedMap<Uuid, Arc<PromptSet>>,
}

impl PromptLibrary {
    /// The prompts of a workspace; none where it has none.
    pub fn set(&self, workspace: Uuid) -> Option<&Arc<PromptSet>> {
        self.sets.get(&workspace)
    }

    /// The workspaces with prompts or partials, in no order.
    pub fn workspaces(&self) -> impl Iterator<Item = Uuid> {
        self.sets.keys().copied()
    }

    /// Replaces the prompts of a workspace.
    pub fn put(&mut self, workspace: Uuid, set: PromptSet) {
        if set.is_empty() {
            drop(self.sets.remove(&workspace));
        } else {
            drop(self.sets.insert(workspace, Arc::new(set)));
        }
    }
}
