//! Which partials a text includes, through other partials as well: those that do not exist, and circles.
//!
//! Checked when a prompt or partial is saved or published. The partials that variables name are known only to a request.

use super::library::PromptSet;
use super::node::Node;
use super::partial::{Partial, PartialRef, PartialVersion, Partials};
use super::renderer::MAX_PARTIALS;
use std::collections::HashSet;

/// The partials of a workspace with one version of one of them that is about to be saved or published.
pub struct WithVersion<'a> {
    pub set: &'a PromptSet,
    pub slug: &'a str,
    pub number: u32,
    pub partial: &'a Partial,
    pub is_published: bool,
    pub is_latest: bool,
}

impl Partials for WithVersion<'_> {
    fn find(&self, partial: &PartialRef) -> Option<&Partial> {
        let is_it = *partial.slug == *self.slug
            && match partial.version {
                PartialVersion::Published => self.is_published,
                PartialVersion::Latest => self.is_latest,
                PartialVersion::Number(number) => number == self.number,
            };
        if is_it { Some(self.partial) } else { Partials::find(self.set, partial) }
    }
}

/// What is wrong with the partials that a text includes by these names.
pub fn problems_of_names(names: &[String], partials: &dyn Partials) -> Vec<String> {
    let included: Vec<PartialRef> = names.iter().filter_map(|name| PartialRef::parse(name).ok()).collect();
    let mut walk = Walk { partials, open: Vec::new(), checked: HashSet::new(), problems: Vec::new() };
    included.iter().for_each(|partial| walk.enter(partial));
    walk.problems
}

/// What is wrong with the partials that a partial includes.
pub fn problems_of_partial(slug: &str, partial: &Partial, partials: &dyn Partials) -> Vec<String> {
    let mut walk = Walk {
        partials,
        open: vec![(slug.to_owned(), partial)],
        checked: HashSet::new(),
        problems: Vec::new(),
    };
    partial.included().into_iter().for_each(|included| walk.enter(included));
    walk.problems
}

struct Walk<'a> {
    partials: &'a dyn Partials,
    /// From the text to the partial that is looked at.
    open: Vec<(String, &'a Partial)>,
    /// Partials without problems.
    checked: HashSet<*const Partial>,
    problems: Vec<String>,
}

impl Walk<'_> {
    fn enter(&mut self, name: &PartialRef) {
        let path = || {
            let names = self.open.iter().map(|(name, _)| name.clone()).chain([name.to_string()]);
            names.collect::<Vec<_>>().join(" > ")
        };
        let problem = match self.partials.find(name) {
            None => {
                Some(format!("there is no partial {:?} in this workspace ({})", name.to_string(), path()))
            }
            Some(found) if self.open.iter().any(|(_, open)| std::ptr::eq(*open, found)) => {
                Some(format!("the partials include each other ({})", path()))
            }
            Some(_) if self.open.len() >= MAX_PARTIALS => {
                Some(format!("more than {MAX_PARTIALS} partials inside each other ({})", path()))
            }
            Some(found) if !self.checked.contains(&std::ptr::from_ref(found)) => {
                let before = self.problems.len();
                self.open.push((name.to_string(), found));
                found.included().into_iter().for_each(|included| self.enter(included));
                self.open.pop();
                // At another depth it may be too deep, so that only what includes nothing is not looked at again.
                if self.problems.len() == before && found.included().is_empty() {
                    self.checked.insert(std::ptr::from_ref(found));
                }
                None
            }
            Some(_) => None,
        };
        // A few say enough.
        if self.problems.len() < 10 {
            self.problems.extend(problem);
        }
    }
}

/// Adds the partials that `nodes` name.
pub(super) fn add_included<'n>(nodes: &'n [Node], included: &mut Vec<&'n PartialRef>) {
    for node in nodes {
        match node {
            Node::Partial { partial, .. } if !included.contains(&partial) => included.push(partial),
            Node::Section { nodes, .. } => add_included(nodes, included),
            Node::Partial { .. } | Node::Text(_) | Node::Value(_) | Node::VariablePartial { .. } => {}
        }
    }
}
