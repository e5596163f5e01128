//! The prompts of the store, compiled: from its records to the library that requests and the control plane render from.
//!
//! A prompt is compiled anew only when its record or a label changed. A version, whose content never changes, is compiled once, when a
//! request first uses it: a start and a change take no longer with long templates.
//!
//! A request to a prompt's completions becomes the chat or completion that it renders (`route::prompt_call`) before its config is
//! looked for, and is an ordinary request from there on. A target with a prompt of its own gets its body when the attempt is made
//! (`Request::for_target`).

use crate::store::{Catalog, Difference, Kind, Record, Status};
use knowledge::prompt::{LazyPartial, Prompt, PromptLibrary, PromptSet, PromptVersion, StoredPartial};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use uuid::Uuid;

/// The labels that every workspace has. They have no records.
pub const UNIVERSAL_LABELS: [(Uuid, &str); 3] = [
    (Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0011), "production"),
    (Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0012), "staging"),
    (Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0013), "development"),
];

/// What the body of a prompt's or partial's record says of its versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The number of the published version.
    pub published: u32,
    /// Ids of labels, and the number of the version that each stands for. Partials have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Uuid, u32>,
}

/// What the body of a partial version's record has.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PartialBody {
    pub string: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_description: Option<String>,
}

/// The library of a catalog, made from the one before: only what its changes concern is compiled.
pub(crate) struct PromptCompiler<'a> {
    catalog: &'a Catalog,
    before: &'a PromptLibrary,
    /// Of the sets that change.
    generation: u64,
    /// Prompts and partials to compile anew, with the slugs that they had until now.
    concerned: BTreeMap<(Kind, Uuid), Option<&'a Arc<Record>>>,
    /// Versions that have changed.
    versions: BTreeSet<Uuid>,
    /// Ids of labels that have changed, as text.
    labels: Vec<String>,
}

impl<'a> PromptCompiler<'a> {
    /// `generation`: differs from that of any library before.
    pub fn new(catalog: &'a Catalog, before: &'a PromptLibrary, generation: u64) -> Self {
        Self {
            catalog,
            before,
            generation,
            concerned: BTreeMap::new(),
            versions: BTreeSet::new(),
            labels: Vec::new(),
        }
    }

    /// Takes note of a difference between `catalog` and the one that the library before was made of.
    pub fn note(&mut self, change: &Difference<'a>) {
        let of_parent = |kind| {
            let parents =
                [change.before, change.now].into_iter().flatten().filter_map(|record| record.parent);
            parents.map(move |parent| (kind, parent)).collect::<Vec<_>>()
        };
        match change.kind {
            Kind::Prompt | Kind::Partial => {
                self.concerned.insert((change.kind, change.id), change.before);
            }
            Kind::PromptVersion | Kind::PartialVersion => {
                self.versions.insert(change.id);
                self.concern(of_parent(if change.kind == Kind::PromptVersion {
                    Kind::Prompt
                } else {
                    Kind::Partial
                }));
            }
            Kind::Label => self.labels.push(change.id.to_string()),
            _ => {}
        }
    }

    fn concern(&mut self, objects: Vec<(Kind, Uuid)>) {
        for (kind, id) in objects {
            let now = self.catalog.get(kind, id);
            self.concerned.entry((kind, id)).or_insert(now);
        }
    }

    /// The library with all that was noted.
    pub fn finish(mut self) -> PromptLibrary {
        if !self.labels.is_empty() {
            let has_one =
                |record: &&Arc<Record>| self.labels.iter().any(|id| record.body.contains(id.as_str()));
            let labelled = self.catalog.all(Kind::Prompt).filter(has_one);
            let labelled = labelled.map(|record| (record.kind, record.id)).collect();
            self.concern(labelled);
        }
        let mut sets: HashMap<Uuid, PromptSet> = HashMap::new();
        // All leave their places before any takes a new one: slugs may have been exchanged.
        for ((kind, id), before) in &self.concerned {
            let Some((workspace, slug)) = before.and_then(place) else { continue };
            let set = self.set(&mut sets, workspace);
            match kind {
                Kind::Prompt => set.remove(slug, *id),
                _ => set.remove_partial(slug, *id),
            }
        }
        for ((kind, id), before) in &self.concerned {
            let now = self.catalog.get(*kind, *id).filter(|record| record.status == Status::Active);
            let Some((record, (workspace, slug))) = now.and_then(|now| Some((now, place(now)?))) else {
                continue;
            };
            let before = before.and_then(place);
            match kind {
                Kind::Prompt => {
                    let prompt = self.prompt(record, slug, before);
                    self.set(&mut sets, workspace).put(prompt);
                }
                _ => {
                    let partial = self.partial(record, slug, before);
                    self.set(&mut sets, workspace).put_partial(partial);
                }
            }
        }
        let mut library = self.before.clone();
        for (workspace, set) in sets {
            library.put(workspace, set);
        }
        library
    }

    /// The set of a workspace, begun with what it has been.
    fn set<'s>(&self, sets: &'s mut HashMap<Uuid, PromptSet>, workspace: Uuid) -> &'s mut PromptSet {
        sets.entry(workspace).or_insert_with(|| {
            let before = self.before.set(workspace).map(|set| (**set).clone()).unwrap_or_default();
            before.changed(self.generation)
        })
    }

    fn prompt(&self, record: &Record, slug: &str, before: Option<(Uuid, &str)>) -> Arc<Prompt> {
        let before = before.and_then(|(workspace, slug)| self.before.set(workspace)?.prompt(slug));
        let before = before.filter(|before| before.id == record.id);
        let Published { published, labels } = read(record);
        let versions = self.catalog.children(Kind::PromptVersion, record.id).filter_map(|version| {
            let number = version.number?;
            let kept = before.and_then(|before| before.versions.get(&number)).cloned();
            let kept = kept.filter(|_| !self.versions.contains(&version.id));
            Some((number, kept.unwrap_or_else(|| stored_version(version, number))))
        });
        let name = |(id, number): (&Uuid, &u32)| {
            if let Some((_, name)) = UNIVERSAL_LABELS.iter().find(|(universal, _)| universal == id) {
                return Some(((*name).to_owned(), *number));
            }
            let label = self.catalog.get(Kind::Label, *id).filter(|label| label.status == Status::Active)?;
            Some((label.slug.clone()?, *number))
        };
        let labels = labels.iter().filter_map(name).collect();
        let slug = slug.to_owned();
        Arc::new(Prompt { id: record.id, slug, published, versions: versions.collect(), labels })
    }

    fn partial(&self, record: &Record, slug: &str, before: Option<(Uuid, &str)>) -> Arc<StoredPartial> {
        let before = before.and_then(|(workspace, slug)| self.before.set(workspace)?.partial(slug));
        let before = before.filter(|before| before.id == record.id);
        let versions = self.catalog.children(Kind::PartialVersion, record.id).filter_map(|version| {
            let number = version.number?;
            let kept = before.and_then(|before| before.versions.get(&number)).cloned();
            let kept = kept.filter(|_| !self.versions.contains(&version.id));
            let new = || Arc::new(LazyPartial::new(Arc::clone(&version.body), partial_text));
            Some((number, kept.unwrap_or_else(new)))
        });
        let Published { published, .. } = read(record);
        let slug = slug.to_owned();
        Arc::new(StoredPartial { id: record.id, slug, published, versions: versions.collect() })
    }
}

/// The workspace and the slug of a prompt or partial.
fn place(record: &Arc<Record>) -> Option<(Uuid, &str)> {
    Some((record.workspace?, record.slug.as_deref()?))
}

/// What a record's body says of its versions; version 1 where it cannot be read.
pub fn read(record: &Record) -> Published {
    serde_json::from_str(&record.body).unwrap_or(Published { published: 1, labels: BTreeMap::new() })
}

fn stored_version(record: &Record, number: u32) -> Arc<PromptVersion> {
    Arc::new(PromptVersion::stored(record.id, number, Arc::clone(&record.body)))
}

/// The text of a partial's version.
fn partial_text(body: &str) -> String {
    serde_json::from_str::<PartialBody>(body).unwrap_or_default().string
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn record(kind: Kind, parent: Option<&Record>, slug: &str, number: u32, body: Value) -> Arc<Record> {
        Arc::new(Record {
            kind,
            id: Uuid::now_v7(),
            parent: parent.map(|parent| parent.id),
            workspace: Some(Uuid::nil()),
            slug: (number == 0).then(|| slug.to_owned()),
            number: (number > 0).then_some(number),
            status: Status::Active,
            revision: 1,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            body: body.to_string().into(),
            sealed: None,
        })
    }

    fn numbers(library: &PromptLibrary, references: &[&str]) -> Vec<Option<u32>> {
        let set = library.set(Uuid::nil()).unwrap();
        references
            .iter()
            .map(|reference| set.find(reference).ok().map(|found| found.version.number))
            .collect()
    }

    fn compile(catalog: &Catalog, before: (&PromptLibrary, &Catalog)) -> PromptLibrary {
        let mut compiler = PromptCompiler::new(catalog, before.0, catalog.position);
        catalog.changed_since(before.1).for_each(|change| compiler.note(&change));
        compiler.finish()
    }

    #[test]
    fn records_become_prompts_and_only_changes_are_compiled() {
        let label = record(Kind::Label, None, "staging", 0, json!({}));
        let prompt = |published: u32| json!({"name": "x", "published": published, "labels": {label.id.to_string(): 1}});
        let first = record(Kind::Prompt, None, "pp-x", 0, prompt(1));
        let other = record(Kind::Prompt, None, "pp-y", 0, json!({"published": 1}));
        let text = |text: &str| json!({"string": text, "is_raw_template": false});
        let mut records = vec![Arc::clone(&label), Arc::clone(&first), Arc::clone(&other)];
        records.push(record(Kind::PromptVersion, Some(&*first), "", 1, text("one {{>p}}")));
        records.push(record(Kind::PromptVersion, Some(&*first), "", 2, text("two")));
        records.push(record(Kind::PromptVersion, Some(&*other), "", 1, text("y")));
        let partial = record(Kind::Partial, None, "p", 0, json!({"published": 1}));
        records.push(record(Kind::PartialVersion, Some(&*partial), "", 1, json!({"string": "hi"})));
        records.push(partial);
        let catalog = Catalog::new(records, 7);
        let empty = Catalog::default();
        let library = compile(&catalog, (&PromptLibrary::default(), &empty));
        let wanted = [Some(1), Some(1), Some(2), Some(1), None];
        assert_eq!(numbers(&library, &["pp-x", "pp-x@staging", "pp-x@latest", "pp-y", "pp-z"]), wanted);
        let set = library.set(Uuid::nil()).unwrap();
        assert_eq!(set.generation, 7);
        let versions = || set.prompts().flat_map(|prompt| prompt.versions.values());
        assert!(versions().count() == 3 && versions().all(|version| !version.is_compiled()));
        let rendered =
            set.find("pp-x").unwrap().version.render([("variables", "{}")].into_iter(), &**set).unwrap();
        assert_eq!(rendered.body, r#"{"prompt":"one hi"}"#);

        // Publishing another version changes its prompt alone, and compiles no version again.
        let changed = Record { body: prompt(2).to_string().into(), revision: 2, ..(*first).clone() };
        let put = crate::store::Change::Put(Arc::new(changed));
        let next_catalog = catalog.with(&[put], 8);
        let next = compile(&next_catalog, (&library, &catalog));
        assert_eq!(numbers(&next, &["pp-x", "pp-x@staging"]), [Some(2), Some(1)]);
        let same = |slug: &str| {
            let of =
                |library: &PromptLibrary| Arc::clone(library.set(Uuid::nil()).unwrap().prompt(slug).unwrap());
            let now = of(&next);
            let before = of(&library);
            (Arc::ptr_eq(&now, &before), Arc::ptr_eq(&now.versions[&1], &before.versions[&1]))
        };
        assert_eq!((same("pp-x"), same("pp-y")), ((false, true), (true, true)));

        // Without its label a reference finds nothing.
        let gone = crate::store::Change::Delete { kind: Kind::Label, id: label.id };
        let last = compile(&next_catalog.with(&[gone], 9), (&next, &next_catalog));
        assert_eq!(numbers(&last, &["pp-x@staging", "pp-x"]), [None, Some(2)]);
    }
}
