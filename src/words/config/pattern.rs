//! Regular expressions from configs: what a pattern may cost is bounded when the config is read.
//!
//! A pattern becomes a table (an automaton without choices), so that each byte of a text costs one look into it,
//! whatever the pattern and the text are. What could grow without bound is the making of the table; it is counted in
//! steps, and a pattern that needs too many is refused. A [`Pattern`] finds out whether a text matches, a [`Searcher`] where.
//! Not here: where patterns may stand (`query`), and what their texts are (`query::fact`).
//!
//! Engines that decide at run time (lazily built tables, simulation of all states) were used before: patterns of a few
//! bytes made them take 30 µs a byte.

mod builder;
mod excerpt;
mod kind;
mod required;
mod search;
#[cfg(test)]
mod search_tests;
mod syntax;
mod table;
#[cfg(test)]
mod tests;

pub use excerpt::Excerpt;
pub use search::{Group, Searcher};

use builder::Purpose;
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_syntax::hir::Hir;
use std::cell::Cell;
use std::fmt;
use std::iter::Sum;
use std::sync::{Arc, OnceLock};
use table::Table;

/// Maximum bytes of a pattern.
const MAX_LEN: usize = 8 << 10;

/// Maximum steps for making the table of one pattern. A step takes 2 to 10 ns.
const MAX_STEPS: usize = 1_000_000;

/// Maximum steps for all patterns of a config together. It also bounds their tables, whose every entry is a step.
const MAX_STEPS_OF_CONFIG: usize = 2_000_000;

/// Maximum number of patterns in a config: together they look at most at this many times [`Excerpt::MAX_BYTES`].
pub const MAX_PATTERNS: usize = 128;

/// Maximum bytes of the intermediate form from which the table is made, with choices and without a table.
const MAX_NFA_BYTES: usize = 128 << 10;

/// A regular expression: unanchored, matched in time linear in the text's length.
#[derive(Clone)]
pub struct Pattern {
    text: Box<str>,
    /// Empty until it is made.
    made: Arc<OnceLock<Made>>,
}

/// A pattern that can be matched without work.
struct Made {
    table: Table,
    /// It reads a text from its end to its beginning.
    is_backwards: bool,
}

/// How many patterns there are, and the bytes they take.
#[derive(Debug, Clone, Copy, Default)]
pub struct PatternUse {
    pub count: usize,
    pub bytes: usize,
}

impl Sum for PatternUse {
    fn sum<I: Iterator<Item = Self>>(uses: I) -> Self {
        let add = |sum: Self, one: Self| Self { count: sum.count + one.count, bytes: sum.bytes + one.bytes };
        uses.fold(Self::default(), add)
    }
}

/// What the patterns of one config have used.
#[derive(Debug, Default)]
pub struct PatternBudget {
    steps: Cell<usize>,
    count: Cell<usize>,
    /// Patterns are read, and made later ([`Pattern::make`]).
    is_deferred: bool,
}

impl PatternBudget {
    /// `is_deferred`: patterns are read, and made later ([`Pattern::make`]).
    pub fn new(is_deferred: bool) -> Self {
        Self { is_deferred, ..Self::default() }
    }

    /// The bytes that all tables take, at most: an entry is a step.
    pub fn bytes(&self) -> usize {
        self.steps.get() * size_of::<u32>()
    }

    /// Makes what belongs to a pattern, and counts its steps.
    fn spend<T>(&self, text: &str, make: impl FnOnce(&mut Fuel) -> Result<T, Refusal>) -> Result<T, String> {
        self.count.set(self.count.get() + 1);
        if self.count.get() > MAX_PATTERNS {
            return Err(format!("is too much: a config may hold {MAX_PATTERNS} patterns"));
        }
        if text.len() > MAX_LEN {
            return Err(format!("is too large a pattern: at most {MAX_LEN} bytes"));
        }
        let rest = MAX_STEPS_OF_CONFIG.saturating_sub(self.steps.get());
        if rest == 0 {
            return Err("is too much: the patterns of the whole config take too many steps".to_owned());
        }
        let mut fuel = Fuel(rest.min(MAX_STEPS));
        let before = fuel.0;
        let outcome = make(&mut fuel);
        // What was refused has cost its steps as well.
        self.steps.set(self.steps.get() + before - fuel.0);
        match outcome {
            Ok(made) => Ok(made),
            Err(Refusal::Mistake(message)) => Err(message),
            Err(Refusal::TooLarge) if rest < MAX_STEPS => {
                Err("is too much: the patterns of the whole config take too many steps".to_owned())
            }
            Err(Refusal::TooLarge) => Err("is too large a pattern: its table of states would grow too much. Counted \
                 repetitions such as .{0,40} behind a part that may begin anywhere are the usual cause; .* takes \
                 few states"
                .to_owned()),
        }
    }
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with it, to be put behind its path. The message does not repeat the pattern, which may hold a
    /// secret.
    pub fn compile(text: &str, budget: &PatternBudget) -> Result<Self, String> {
        let pattern = Self { text: text.into(), made: Arc::default() };
        if !budget.is_deferred {
            pattern.make(budget)?;
        }
        Ok(pattern)
    }

    /// Makes its table, unless that was done before: it then counts nothing in the budget.
    ///
    /// # Errors
    /// As [`Pattern::compile`].
    pub fn make(&self, budget: &PatternBudget) -> Result<(), String> {
        if self.is_made() {
            return Ok(());
        }
        let made = budget.spend(&self.text, |fuel| Made::build(&self.text, fuel))?;
        let _ = self.made.set(made);
        Ok(())
    }

    /// Whether it can be matched without work.
    pub fn is_made(&self) -> bool {
        self.made.get().is_some()
    }

    /// Whether there is a match anywhere in the text. One that is not made matches nothing: a config is compiled before it is used.
    pub fn is_match(&self, text: &Excerpt<'_>) -> bool {
        self.made.get().is_some_and(|made| made.is_match(text))
    }

    /// Itself as one pattern, with its size in memory without the fixed part.
    pub fn usage(&self) -> PatternUse {
        let table = self.made.get().map_or(0, |made| made.table.bytes());
        PatternUse { count: 1, bytes: self.text.len() + table }
    }
}

impl Made {
    /// From a table that reads texts forwards or, where that one is too large, backwards: `4[0-9]{12}` has many states forwards, since
    /// a 4 may begin anywhere in a row of digits, and few backwards.
    fn build(text: &str, fuel: &mut Fuel) -> Result<Self, Refusal> {
        let hir = syntax::parse(text, fuel)?;
        let half = fuel.0 / 2;
        let forwards = fuel.lend(half, |fuel| {
            let nfa = nfa(&hir, WhichCaptures::None, fuel)?;
            builder::build(&nfa, Purpose::Exists, fuel)
        });
        let is_backwards = matches!(forwards, Err(Refusal::TooLarge));
        let table = match forwards {
            Err(Refusal::TooLarge) => builder::build(&reversed_nfa(&hir, fuel)?, Purpose::Exists, fuel),
            forwards => forwards,
        };
        Ok(Self { table: table?, is_backwards })
    }

    fn is_match(&self, text: &Excerpt<'_>) -> bool {
        let bytes = text.text().as_bytes();
        // A byte that follows counts as neither a letter nor a line end.
        let after = if text.is_whole() { None } else { Some(b' ') };
        if self.is_backwards {
            return self.table.has_position(after, bytes.iter().rev(), None);
        }
        self.table.has_position(None, bytes.iter(), after)
    }
}

/// Why there is no table.
enum Refusal {
    Mistake(String),
    TooLarge,
}

/// Steps that may still be made.
#[derive(Debug)]
struct Fuel(usize);

impl Fuel {
    fn burn(&mut self, steps: usize) -> Result<(), Refusal> {
        let rest = self.0.checked_sub(steps);
        self.0 = rest.unwrap_or(0);
        rest.map(|_| ()).ok_or(Refusal::TooLarge)
    }

    /// Makes something with at most so many of the steps.
    fn lend<T>(
        &mut self,
        most: usize,
        make: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut part = Self(self.0.min(most));
        self.0 -= part.0;
        let outcome = make(&mut part);
        self.0 += part.0;
        outcome
    }
}

fn nfa(hir: &Hir, captures: WhichCaptures, fuel: &mut Fuel) -> Result<NFA, Refusal> {
    build_nfa(hir, thompson::Config::new().which_captures(captures), fuel)
}

/// An NFA that reads backwards.
fn reversed_nfa(hir: &Hir, fuel: &mut Fuel) -> Result<NFA, Refusal> {
    build_nfa(hir, thompson::Config::new().which_captures(WhichCaptures::None).reverse(true), fuel)
}

fn build_nfa(hir: &Hir, config: thompson::Config, fuel: &mut Fuel) -> Result<NFA, Refusal> {
    let config = config.utf8(false).nfa_size_limit(Some(MAX_NFA_BYTES));
    match thompson::Compiler::new().configure(config).build_from_hir(hir) {
        Ok(nfa) => fuel.burn(nfa.memory_usage()).map(|()| nfa),
        Err(_) => fuel.burn(MAX_NFA_BYTES).and(Err(Refusal::TooLarge)),
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Does not show the pattern, which may hold a secret.
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
