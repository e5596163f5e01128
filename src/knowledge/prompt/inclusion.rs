//! Which partials a text includes, through other partials as well: those that do not exist, and circles.
//!
//! Checked when a prompt or partial is saved or published. The partials that variables name are known only to a request.

use super::library::PromptSet;
use super::node::Node;
use super::partial::{Partial, PartialRef, PartialVersion, Partials};
use super::renderer::MAX_PARTIALS;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most problems that are reported.
const MAX_PROBLEMS: usize = 10;

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
pub fn problems_of_names(names: &[Arc<str>], partials: &dyn Partials) -> Vec<String> {
    let included: Vec<PartialRef> = names.iter().filter_map(|name| PartialRef::parse(name).ok()).collect();
    let mut walk = Walk::new(partials, Vec::new());
    included.iter().for_each(|partial| {
        walk.enter(partial);
    });
    walk.problems
}

/// What is wrong with the partials that a partial includes.
pub fn problems_of_partial(slug: &str, partial: &Partial, partials: &dyn Partials) -> Vec<String> {
    let mut walk = Walk::new(partials, vec![(slug.to_owned(), partial)]);
    partial.included().into_iter().for_each(|included| {
        walk.enter(included);
    });
    walk.problems
}

struct Walk<'a> {
    partials: &'a dyn Partials,
    /// From the text to the partial that is looked at.
    open: Vec<(String, &'a Partial)>,
    /// Partials without problems, and how many are inside each other in each, with itself.
    heights: HashMap<*const Partial, usize>,
    problems: Vec<String>,
    /// Partials that were looked into.
    entered: usize,
}

impl<'a> Walk<'a> {
    fn new(partials: &'a dyn Partials, open: Vec<(String, &'a Partial)>) -> Self {
        Self { partials, open, heights: HashMap::new(), problems: Vec::new(), entered: 0 }
    }

    /// How many partials are inside each other in this one, with itself; `None` where something is wrong. What is known to be right is
    /// looked into again only where it is too deep: else partials that all include those of the next level would take years.
    fn enter(&mut self, name: &PartialRef) -> Option<usize> {
        // A few say enough.
        if self.problems.len() >= MAX_PROBLEMS {
            return None;
        }
        let Some(found) = self.partials.find(name) else {
            let path = self.path(name);
            let name = name.to_string();
            return self.refuse(format!("there is no partial {name:?} in this workspace ({path})"));
        };
        if self.open.iter().any(|(_, open)| std::ptr::eq(*open, found)) {
            let path = self.path(name);
            return self.refuse(format!("the partials include each other ({path})"));
        }
        if self.open.len() >= MAX_PARTIALS {
            let path = self.path(name);
            return self.refuse(format!("more than {MAX_PARTIALS} partials inside each other ({path})"));
        }
        if let Some(height) = self.heights.get(&std::ptr::from_ref(found))
            && self.open.len() + height <= MAX_PARTIALS
        {
            return Some(*height);
        }
        self.entered += 1;
        self.open.push((name.to_string(), found));
        let inside: Vec<Option<usize>> =
            found.included().into_iter().map(|included| self.enter(included)).collect();
        self.open.pop();
        let highest = inside.into_iter().try_fold(0, |highest, height| Some(height?.max(highest)))?;
        self.heights.insert(std::ptr::from_ref(found), highest + 1);
        Some(highest + 1)
    }

    fn path(&self, name: &PartialRef) -> String {
        let names = self.open.iter().map(|(name, _)| name.clone()).chain([name.to_string()]);
        names.collect::<Vec<_>>().join(" > ")
    }

    fn refuse(&mut self, problem: String) -> Option<usize> {
        self.problems.push(problem);
        None
    }
}

/// The partials that `nodes` name, each once, in order.
pub(super) fn included(nodes: &[Node]) -> Vec<&PartialRef> {
    let mut found = Vec::new();
    add_included(nodes, &mut found, &mut HashSet::new());
    found
}

fn add_included<'n>(
    nodes: &'n [Node],
    included: &mut Vec<&'n PartialRef>,
    listed: &mut HashSet<&'n PartialRef>,
) {
    for node in nodes {
        match node {
            Node::Partial { partial, .. } if listed.insert(partial) => included.push(partial),
            Node::Section { nodes, .. } => add_included(nodes, included, listed),
            Node::Partial { .. } | Node::Text(_) | Node::Value(_) | Node::VariablePartial { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Levels(HashMap<String, Partial>);

    impl Partials for Levels {
        fn find(&self, partial: &PartialRef) -> Option<&Partial> {
            self.0.get(&*partial.slug)
        }
    }

    /// `levels` levels of `width` partials, each of which includes all of the next level.
    fn levels(levels: usize, width: usize) -> Levels {
        let text = |level: usize| -> String {
            (0..width).map(|number| format!("{{{{>p-{}-{number}}}}}", level + 1)).collect()
        };
        let partial = |level: usize| {
            let text = if level + 1 < levels { text(level) } else { "end".to_owned() };
            Partial::compile(&text).unwrap()
        };
        let all = (0..levels)
            .flat_map(|level| (0..width).map(move |number| (format!("p-{level}-{number}"), partial(level))));
        Levels(all.collect())
    }

    #[test]
    fn each_partial_is_looked_into_once_where_it_is_not_too_deep() {
        let set = levels(MAX_PARTIALS, 60);
        let first = PartialRef::parse("p-0-0").unwrap();
        let mut walk = Walk::new(&set, Vec::new());
        assert_eq!(walk.enter(&first), Some(MAX_PARTIALS));
        assert_eq!((walk.entered, walk.problems.len()), (1 + (MAX_PARTIALS - 1) * 60, 0));
        // A level more: a few problems end it.
        let set = levels(MAX_PARTIALS + 1, 60);
        let mut walk = Walk::new(&set, Vec::new());
        assert_eq!(walk.enter(&first), None);
        assert_eq!(walk.problems.len(), MAX_PROBLEMS);
        assert!(walk.entered < 100, "{}", walk.entered);
    }

    #[test]
    fn what_is_right_at_one_depth_is_refused_at_another() {
        let texts = [
            ("a", "{{>b}}"),
            ("b", "{{>c}}"),
            ("c", "{{>d}}"),
            ("d", "end"),
            ("x", "{{>y}}"),
            ("y", "{{>a}}"),
        ];
        let all = texts.map(|(name, text)| (name.to_owned(), Partial::compile(text).unwrap()));
        let set = Levels(HashMap::from(all));
        let names = ["a", "x"].map(Arc::from);
        let problems = problems_of_names(&names, &set);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].ends_with("(x > y > a > b > c > d)"), "{problems:?}");
    }
}
