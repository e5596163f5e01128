//! Which tool call a fragment of a stream belongs to, however the vendor numbers and names its calls.
//!
//! Vendors disagree: indices (OpenAI), ids with every index 0 (some Gemini proxies), texts as indices, one id for all calls, or
//! nothing at all. Some send the id first and the name later, some repeat both in every fragment. For example:
//!
//! ```text
//! {"index":0,"id":"a","function":{"arguments":"{"}}               call 0, without a name so far
//! {"index":0,"function":{"name":"f","arguments":"}"}}             call 0
//! {"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}   same index, other id: call 1
//! {"index":0,"function":{"name":"g","arguments":"{}"}}            call 1 is complete: call 2
//! ```
//!
//! Not here: what becomes of a fragment (`calls`, `stream_assembly`).

use words::json::Json;

/// More calls than any model makes in one response.
pub(super) const MAX_CALLS: usize = 256;

/// The calls of one choice so far.
#[derive(Debug, Default)]
pub(super) struct CallIdentity(Vec<CallSoFar>);

#[derive(Debug)]
struct CallSoFar {
    /// The vendor's index.
    key: Option<u64>,
    id: String,
    name: String,
    arguments: Balance,
}

/// What a fragment says of its call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment<'a> {
    pub key: Option<u64>,
    /// Empty for none, as the others.
    pub id: &'a str,
    pub name: &'a str,
    pub arguments: &'a str,
    /// Its place among several fragments of one delta.
    pub place: Option<usize>,
}

/// The call of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identified {
    /// Its position among the calls of the choice.
    pub at: usize,
    /// It is the first fragment of the call.
    pub is_new: bool,
    /// Another call has its id.
    pub is_repeated_id: bool,
    /// An earlier fragment has named its tool.
    pub is_named: bool,
}

/// A vendor's index: a number, or the text of one.
pub(super) fn key(index: Option<&Json<'_>>) -> Option<u64> {
    let index = index?;
    index.read::<u64>().or_else(|| index.text()?.trim().parse().ok())
}

impl CallIdentity {
    /// Finds the call of a fragment, or begins one. `streamed`: it may continue a call. `None`: there are too many.
    pub fn take(&mut self, fragment: Fragment<'_>, streamed: bool) -> Option<Identified> {
        let found = if streamed { self.find(fragment) } else { None };
        let is_new = found.is_none();
        let is_repeated_id =
            is_new && !fragment.id.is_empty() && self.0.iter().any(|call| call.id == fragment.id);
        let at = match found {
            Some(at) => at,
            None if self.0.len() >= MAX_CALLS => return None,
            None => {
                let Fragment { key, id, name, .. } = fragment;
                let arguments = Balance::default();
                self.0.push(CallSoFar { key, id: id.to_owned(), name: name.to_owned(), arguments });
                self.0.len() - 1
            }
        };
        let call = self.0.get_mut(at)?;
        let is_named = !is_new && !call.name.is_empty();
        call.arguments.push(fragment.arguments);
        for (kept, given) in [(&mut call.id, fragment.id), (&mut call.name, fragment.name)] {
            if kept.is_empty() {
                given.clone_into(kept);
            }
        }
        Some(Identified { at, is_new, is_repeated_id, is_named })
    }

    /// Whether there is no call so far.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, fragment: Fragment<'_>) -> Option<usize> {
        let Fragment { key, id, name, place, .. } = fragment;
        let last_with = |is_it: &dyn Fn(&CallSoFar) -> bool| self.0.iter().rposition(is_it);
        let by_id = || last_with(&|call| !id.is_empty() && call.id == id);
        let candidate = match key {
            Some(_) => last_with(&|call| call.key == key && !id.is_empty() && call.id == id)
                .or_else(|| last_with(&|call| call.key == key))
                .or_else(|| last_with(&|call| call.key.is_none() && !id.is_empty() && call.id == id))?,
            None if !id.is_empty() => by_id().or_else(|| self.nameless_last(fragment))?,
            // A name alone begins a call, unless it is repeated while the arguments go on.
            None => match place {
                Some(place) if place < self.0.len() => place,
                Some(_) if !name.is_empty() => return None,
                _ => self.0.len().checked_sub(1)?,
            },
        };
        self.0.get(candidate).filter(|call| call.goes_on_with(fragment)).map(|_| candidate)
    }

    /// The last call, where an id that arrives late may be its own.
    fn nameless_last(&self, fragment: Fragment<'_>) -> Option<usize> {
        let last = self.0.len().checked_sub(1)?;
        let call = self.0.get(last)?;
        (call.id.is_empty() && fragment.name.is_empty()).then_some(last)
    }
}

impl CallSoFar {
    /// Whether a fragment that may be this call's is not the beginning of another one.
    fn goes_on_with(&self, fragment: Fragment<'_>) -> bool {
        let Fragment { key, id, name, arguments, .. } = fragment;
        if name.is_empty() || self.name.is_empty() {
            return true;
        }
        let has_ids = !id.is_empty() && !self.id.is_empty();
        if name != self.name || (has_ids && id != self.id) {
            return false;
        }
        // The same name again: repeated, or a second call of the same tool.
        let may_begin = arguments.trim_start().starts_with('{') || key.is_none();
        has_ids || !(self.arguments.is_complete() && may_begin)
    }
}

/// Whether a JSON object that arrives in pieces is complete.
#[derive(Debug, Default)]
pub(in crate::provider) struct Balance {
    has_begun: bool,
    depth: u32,
    is_in_text: bool,
    is_escaped: bool,
}

impl Balance {
    pub fn push(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_text => self.is_escaped = true,
                b'"' => self.is_in_text = !self.is_in_text,
                _ if self.is_in_text => {}
                b'{' | b'[' => {
                    self.has_begun = true;
                    self.depth = self.depth.saturating_add(1);
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    pub fn is_complete(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.is_in_text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls of fragments given as index, id, name and arguments.
    fn calls(fragments: &[(Option<u64>, &str, &str, &str)]) -> Vec<usize> {
        let mut identity = CallIdentity::default();
        let mut found = Vec::new();
        for &(key, id, name, arguments) in fragments {
            let fragment = Fragment { key, id, name, arguments, place: None };
            found.push(identity.take(fragment, true).unwrap().at);
        }
        found
    }

    #[test]
    fn every_way_of_numbering_keeps_two_calls_apart() {
        let zero = Some(0);
        for (what, fragments, wanted) in [
            (
                "OpenAI",
                vec![
                    (zero, "a", "f", ""),
                    (Some(1), "b", "g", ""),
                    (zero, "", "", "{}"),
                    (Some(1), "", "", "{}"),
                ],
                vec![0, 1, 0, 1],
            ),
            ("all 0", vec![(zero, "a", "f", "{}"), (zero, "b", "f", "{}")], vec![0, 1]),
            (
                "all 0, ids in every fragment",
                vec![
                    (zero, "a", "f", "{"),
                    (zero, "b", "g", "{"),
                    (zero, "a", "", "}"),
                    (zero, "b", "", "}"),
                ],
                vec![0, 1, 0, 1],
            ),
            ("all 0, one id", vec![(zero, "a", "f", "{}"), (zero, "a", "g", "{}")], vec![0, 1]),
            (
                "all 0, no ids",
                vec![(zero, "", "f", "{}"), (zero, "", "g", "{}"), (zero, "", "g", "{}")],
                vec![0, 1, 2],
            ),
            (
                "all repeated",
                vec![(zero, "a", "f", "{"), (zero, "a", "f", "}"), (Some(1), "b", "f", "{}")],
                vec![0, 0, 1],
            ),
            ("the name repeated", vec![(zero, "", "f", "{"), (zero, "", "f", "}")], vec![0, 0]),
        ] {
            assert_eq!(calls(&fragments), wanted, "{what}");
        }
    }

    #[test]
    fn calls_without_a_number_of_their_own_are_kept_apart() {
        let zero = Some(0);
        for (what, fragments, wanted) in [
            (
                "one id, other indices",
                vec![
                    (zero, "a", "f", "{"),
                    (Some(1), "a", "f", "{"),
                    (zero, "", "", "}"),
                    (Some(1), "a", "", "}"),
                ],
                vec![0, 1, 0, 1],
            ),
            (
                "no index",
                vec![
                    (None, "a", "f", "{"),
                    (None, "", "", "}"),
                    (None, "b", "f", "{}"),
                    (None, "a", "", " "),
                ],
                vec![0, 0, 1, 0],
            ),
            (
                "nothing but names",
                vec![(None, "", "f", "{"), (None, "", "", "}"), (None, "", "f", "{}")],
                vec![0, 0, 1],
            ),
            (
                "names repeated, no index",
                vec![(None, "", "f", "{"), (None, "", "f", "}"), (None, "", "g", "{}")],
                vec![0, 0, 1],
            ),
            ("no index, one id", vec![(None, "a", "f", "{}"), (None, "a", "g", "{}")], vec![0, 1]),
            ("the id late", vec![(None, "", "f", "{"), (None, "a", "", "}")], vec![0, 0]),
            ("other ids in every fragment", vec![(zero, "a", "f", "{"), (zero, "b", "", "}")], vec![0, 0]),
        ] {
            assert_eq!(calls(&fragments), wanted, "{what}");
        }
    }

    #[test]
    fn fragments_of_one_delta_are_apart_by_their_place() {
        let mut identity = CallIdentity::default();
        let mut take = |name, arguments, place| {
            identity.take(Fragment { key: None, id: "", name, arguments, place: Some(place) }, true).unwrap()
        };
        assert_eq!([take("f", "", 0).at, take("g", "", 1).at], [0, 1]);
        assert_eq!([take("", "{}", 0).at, take("", "{}", 1).at], [0, 1]);
    }

    #[test]
    fn an_id_that_another_call_has_is_noticed_and_a_text_may_be_an_index() {
        let mut identity = CallIdentity::default();
        let mut take = |key, id| {
            identity.take(Fragment { key, id, name: "f", arguments: "{}", place: None }, true).unwrap()
        };
        let new = Identified { at: 0, is_new: true, is_repeated_id: false, is_named: false };
        assert_eq!(take(Some(0), "a"), new);
        assert_eq!(take(Some(1), "a"), Identified { at: 1, is_repeated_id: true, ..new });
        for (index, number) in [("1", Some(1)), ("\"1\"", Some(1)), ("\"x\"", None), ("null", None)] {
            assert_eq!(key(Json::parse(index).as_ref()), number, "{index}");
        }
    }

    #[test]
    fn braces_in_texts_do_not_count() {
        for (pieces, complete) in [
            (vec!["{\"a\":\"}", "\\\"", "\"", "}"], true),
            (vec!["{\"a\":\"}"], false),
            (vec!["{\"a\":[{}", "]"], false),
            (vec![""], false),
            (vec!["{}"], true),
        ] {
            let mut balance = Balance::default();
            pieces.iter().for_each(|piece| balance.push(piece));
            assert_eq!(balance.is_complete(), complete, "{pieces:?}");
        }
    }
}
