//! What a check is: its description, from which validation and documentation are made, and how it runs.
//!
//! Not here: the checks themselves (`checks`), and who runs them and for how long.

use super::finding::Finding;
use super::outside::Outside;
use super::parameters::{Parameter, Parameters, Unusable};
use super::subject::Subject;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::fmt;
use std::ops::Range;
use std::time::Duration;
use words::config::hooks::HookPhase;

/// A kind of check, as configs name it.
pub struct CheckKind {
    /// With the family it belongs to: `default.contains`.
    pub id: &'static str,
    /// Other spellings that configs use, whole.
    pub aliases: &'static [&'static str],
    /// When it may run.
    pub phases: &'static [HookPhase],
    /// For the documentation: what passes, in one sentence or two.
    pub about: &'static str,
    /// Where its rules come from: the address of a partner's public documentation; empty for the gateway's own.
    pub source: &'static str,
    pub parameters: &'static [Parameter],
    /// Makes a check with parameters whose types were judged already.
    pub prepare: fn(&Parameters<'_>) -> Result<Prepared, Unusable>,
}

/// A check with its parameters, ready to run any number of times.
#[derive(Debug)]
pub enum Prepared {
    /// It decides at once, from what it is given.
    Local(Box<dyn LocalCheck>),
    /// It needs the response of another server.
    Remote(Box<dyn RemoteCheck>),
}

/// A check without I/O. It must take time linear in the text.
pub trait LocalCheck: Send + Sync + fmt::Debug {
    fn run(&self, subject: &Subject) -> Finding;

    /// Whether it may change its subject. Such checks run one after another, each on what the one before it left.
    fn may_change(&self) -> bool {
        false
    }

    /// How it sees a stream. `None`: it must see the whole text, so a streamed response is held back until it is complete.
    fn finder(&self) -> Option<&dyn Finder> {
        None
    }
}

/// A check that calls another server, or a model. It is given up at its time limit.
pub trait RemoteCheck: Send + Sync + fmt::Debug {
    fn run<'a>(&'a self, subject: &'a Subject, outside: &'a dyn Outside) -> BoxFuture<'a, Finding>;

    /// As [`LocalCheck::may_change`].
    fn may_change(&self) -> bool {
        false
    }

    /// What its parameters say it may take; `None`: the limit of the settings.
    fn time_limit(&self) -> Option<Duration> {
        None
    }
}

/// A check that fails exactly where something is found in a text, or that replaces what it finds: it can look at a stream
/// through a window that moves over the text.
pub trait Finder: Send + Sync {
    /// What begins and ends within `range`, from left to right and without overlaps. Text before and after the range is context
    /// for `\b`, `^` and `$`: `text` begins at the beginning of the whole text only where `range.start` is 0.
    fn find(&self, text: &str, range: Range<usize>) -> Vec<Match>;

    /// The longest match in bytes; `None` where there is no bound.
    fn longest(&self) -> Option<usize>;

    /// The finding of [`LocalCheck::run`] for what was found in the text so far.
    fn finding(&self, found: &[Match]) -> Finding;
}

/// One place that a [`Finder`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    pub range: Range<usize>,
    /// What stands there instead; `None`: the text stays, and the check fails.
    pub replacement: Option<String>,
    /// What the finding says of it: never the text itself where that is a secret.
    pub detail: Value,
}

impl fmt::Debug for CheckKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckKind").field("id", &self.id).finish_non_exhaustive()
    }
}
