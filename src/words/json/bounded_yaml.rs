//! The bounds within which YAML is read: depth, values, aliases. Text beyond them is refused before it takes memory.
//!
//! YAML 1.2 core types, without tags of one's own. Not here: what is read, and the settings' places of mistakes (`settings::yaml`).

use serde_saphyr::Options;
use serde_saphyr::options::DuplicateKeyPolicy;

/// Values and names of members of a text together, aliases counted each time: they are read in a third of a second.
pub(crate) const MAX_NODES: usize = 250_000;

/// The options of a reader. `max_depth`: the deepest nesting, which a thread's stack must have room for.
pub(crate) fn options(duplicate_keys: DuplicateKeyPolicy, max_depth: usize) -> Options {
    serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 20_000,
            max_replay_stack_depth: 16,
        },
        budget: serde_saphyr::budget! {
            max_depth: max_depth,
            max_nodes: MAX_NODES,
            flow_nesting_limit: max_depth,
            max_documents: 1,
        },
    }
}
