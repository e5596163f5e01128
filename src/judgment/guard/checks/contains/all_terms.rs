//! Finds many words in one pass over a text (the automaton of Aho and Corasick), made in time and space linear in the words, whatever they
//! are: a place has its longest word alone, and a link to the next shorter one.
//!
//! Not here: what follows from the words that are found (`contains`).

use std::collections::HashSet;
use std::ops::Range;

/// The beginning of all words.
const ROOT: u32 = 0;

/// What words begin with: a tree of all their beginnings, level by level, so that what follows one stands together.
#[derive(Debug)]
pub(super) struct AllTerms {
    nodes: Vec<Node>,
    /// The words' places in the list, those of equal words together.
    places: Vec<usize>,
}

/// A beginning of words.
#[derive(Debug, Clone, Default)]
struct Node {
    /// Its last byte.
    byte: u8,
    /// Its bytes.
    len: u32,
    /// The beginnings that have one byte more.
    next: Range<u32>,
    /// The longest other beginning that it ends with.
    fail: u32,
    /// The longest word that it ends with and that is shorter; the root: there is none.
    shorter: u32,
    /// The words that it is, in `places`.
    words: Range<u32>,
}

impl AllTerms {
    /// Words that are empty are not looked for.
    pub fn new(terms: &[String]) -> Self {
        let mut listed: Vec<(&[u8], usize)> = terms
            .iter()
            .enumerate()
            .filter(|(_, term)| !term.is_empty())
            .map(|(place, term)| (term.as_bytes(), place))
            .collect();
        listed.sort_unstable();
        let mut terms = Self { nodes: Self::tree(&listed), places: Vec::new() };
        terms.places = listed.into_iter().map(|(_, place)| place).collect();
        // What follows the root is linked to it already.
        for parent in 1..number(terms.nodes.len()) {
            terms.link(parent);
        }
        terms
    }

    /// The tree without its links. `listed`: in order.
    fn tree(listed: &[(&[u8], usize)]) -> Vec<Node> {
        let mut nodes = vec![Node::default()];
        // The words that begin with a node.
        let mut ranges: Vec<_> = std::iter::once(0..listed.len()).collect();
        let mut at = 0;
        while let Some(range) = ranges.get(at).cloned() {
            let len = nodes.get(at).map_or(0, |node| node.len);
            let of_range = listed.get(range.clone()).unwrap_or_default();
            let ended = of_range.iter().take_while(|(term, _)| term.len() == len as usize).count();
            let first = nodes.len();
            let mut from = range.start + ended;
            let rest = of_range.get(ended..).unwrap_or_default();
            let next_byte = |term: &(&[u8], usize)| term.0.get(len as usize).copied().unwrap_or_default();
            for group in rest.chunk_by(|one, other| next_byte(one) == next_byte(other)) {
                let byte = group.first().map(next_byte).unwrap_or_default();
                nodes.push(Node { byte, len: len + 1, ..Node::default() });
                ranges.push(from..from + group.len());
                from += group.len();
            }
            let next = number(first)..number(nodes.len());
            if let Some(node) = nodes.get_mut(at) {
                node.next = next;
                node.words = number(range.start)..number(range.start + ended);
            }
            at += 1;
        }
        nodes
    }

    /// Links what follows a node to what its text ends with: nodes before it are linked.
    fn link(&mut self, parent: u32) {
        let Some(parent) = self.node(parent).cloned() else { return };
        for at in parent.next.clone() {
            let byte = self.node(at).map_or(0, |node| node.byte);
            let fail = self.step(parent.fail, byte);
            let shorter = match self.node(fail) {
                Some(node) if !node.words.is_empty() => fail,
                Some(node) => node.shorter,
                None => ROOT,
            };
            if let Some(node) = self.nodes.get_mut(at as usize) {
                (node.fail, node.shorter) = (fail, shorter);
            }
        }
    }

    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    /// The longest beginning that a text ends with when a byte comes behind one.
    fn step(&self, mut from: u32, byte: u8) -> u32 {
        while let Some(node) = self.node(from) {
            let next = self.nodes.get(node.next.start as usize..node.next.end as usize).unwrap_or_default();
            if let Ok(found) = next.binary_search_by_key(&byte, |node| node.byte) {
                return node.next.start + number(found);
            }
            if from == ROOT {
                break;
            }
            from = node.fail;
        }
        ROOT
    }

    /// The node of the longest word that a text ends with; `None`: there is none.
    fn longest_word(&self, at: u32) -> Option<u32> {
        let node = self.node(at)?;
        let found = if node.words.is_empty() { node.shorter } else { at };
        (found != ROOT).then_some(found)
    }

    fn places_at(&self, at: u32) -> &[usize] {
        let words = self.node(at).map(|node| node.words.start as usize..node.words.end as usize);
        words.and_then(|words| self.places.get(words)).unwrap_or_default()
    }

    /// How many words there are that are not empty.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The places of the words that a text has. In time linear in the text and the words: each is taken once.
    pub fn found_in(&self, text: &str) -> HashSet<usize> {
        let mut found = HashSet::new();
        let mut visited = HashSet::new();
        let mut state = ROOT;
        for byte in text.bytes() {
            state = self.step(state, byte);
            let mut word = self.longest_word(state);
            while let Some(at) = word.filter(|at| visited.insert(*at)) {
                found.extend(self.places_at(at));
                word = self.node(at).map(|node| node.shorter).filter(|shorter| *shorter != ROOT);
            }
        }
        found
    }

    /// The word that ends first, and of those the longest.
    pub fn first_in(&self, text: &str) -> Option<(usize, Range<usize>)> {
        let mut state = ROOT;
        for (at, byte) in text.bytes().enumerate() {
            state = self.step(state, byte);
            if let Some(word) = self.longest_word(state) {
                let len = self.node(word)?.len as usize;
                return Some((*self.places_at(word).first()?, at + 1 - len..at + 1));
            }
        }
        None
    }
}

/// A place in a list that is not longer than the bytes of all words.
fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_found_is_what_single_searches_find(
            terms in prop::collection::vec("[abé]{0,4}", 0..12),
            text in "[abcé]{0,20}",
        ) {
            let all = AllTerms::new(&terms);
            let listed: Vec<(usize, &String)> =
                terms.iter().enumerate().filter(|(_, term)| !term.is_empty()).collect();
            let wanted: HashSet<usize> =
                listed.iter().filter(|(_, term)| text.contains(*term)).map(|(place, _)| *place).collect();
            prop_assert_eq!(all.found_in(&text), wanted);
            let ends = listed.iter().filter_map(|(_, term)| {
                let start = text.find(*term)?;
                Some((start + term.len(), start))
            });
            let found = all.first_in(&text);
            prop_assert_eq!(found.as_ref().map(|(_, range)| (range.end, range.start)), ends.min());
            if let Some((place, range)) = found {
                prop_assert_eq!(text.get(range), Some(terms[place].as_str()));
            }
        }
    }

    /// Words whose beginnings are words, and a long one that ends with all of them at each place.
    #[test]
    fn the_automaton_grows_with_the_terms_alone() {
        let mut terms: Vec<String> = (0..10_000).map(|number| format!("w{number}")).collect();
        assert!(AllTerms::new(&terms).nodes.len() < 12_000);
        terms = (1..1_000).map(|count| "a".repeat(count)).collect();
        terms.push("a".repeat(400_000));
        let all = AllTerms::new(&terms);
        assert_eq!(all.nodes.len(), 400_001);
        assert_eq!(all.found_in(&"a".repeat(100_000)).len(), 999);
    }
}
