//! Conditional queries (`docs/config.md`, "Conditions"), checked and compiled when the config is read.
//!
//! Every mistake is a problem of the config with its path; nothing can fail at run time. Unlike in the
//! reference, all keys of a query count, including those after `$or`, `$and` and `$regex`. Not here: where
//! the values come from (they are passed in as [`Facts`]), and what the result is used for.
//!
//! Example: `{"metadata.plan":"paid","params.n":{"$gt":1,"$lt":5}}` becomes two `Part`s that must both hold:
//! the value `metadata.plan` with the test `Is("paid")`, and the value `params.n` with the tests `Above(1)`
//! and `Below(5)`.

mod describe;
mod fact;
mod schema;
#[cfg(test)]
mod tests;

pub use fact::{Fact, Facts};

use super::headers;
use super::node::{Node, NodeKind};
use super::pattern::{Excerpt, Pattern, PatternBudget, PatternUse};
use super::read::Cursor;
use std::fmt;

/// Maximum nesting of `$and` and `$or`.
const MAX_DEPTH: usize = 16;

/// Maximum bytes of a text to compare with: of a longer value only so much is looked at.
const MAX_OPERAND: usize = Excerpt::MAX_BYTES;

/// A compiled query: all its parts must hold. An empty query always holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// `$and`; an empty list holds.
    All(Vec<Query>),
    /// `$or`; an empty list does not hold.
    Any(Vec<Query>),
    /// One value of the request and the tests it must pass.
    Value(Field, Vec<Test>),
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Metadata(Box<str>),
    Param(Box<str>),
    /// In lower case.
    Header(Box<str>),
    Pathname,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Is(Scalar),
    IsNot(Scalar),
    In(Vec<Scalar>),
    NotIn(Vec<Scalar>),
    Above(f64),
    AtLeast(f64),
    Below(f64),
    AtMost(f64),
    Matches(Pattern),
}

/// The operand of a strict comparison: type and value must be equal.
#[derive(Clone, PartialEq)]
enum Scalar {
    Null,
    Bool(bool),
    Number(f64),
    Text(Box<str>),
}

const OPERATORS: [&str; 9] = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$regex"];

impl Query {
    /// Reads a query. Returns `None` when there are problems, which are then recorded in `at`.
    pub fn read(at: &Cursor<'_>, patterns: &PatternBudget) -> Option<Self> {
        let before = at.problem_count();
        let query = query(at, patterns, 0)?;
        (at.problem_count() == before).then_some(query)
    }

    /// Whether the query holds for a request.
    pub fn holds(&self, facts: &dyn Facts) -> bool {
        self.parts.iter().all(|part| part.holds(facts))
    }

    /// Makes the tables of its patterns that are not made yet.
    ///
    /// # Errors
    /// Why one of them cannot be made.
    pub fn make(&self, budget: &PatternBudget) -> Result<(), String> {
        self.each_pattern(&mut |pattern| pattern.make(budget))
    }

    /// Whether all of its patterns can be matched without work.
    pub fn is_made(&self) -> bool {
        self.each_pattern(&mut |pattern| if pattern.is_made() { Ok(()) } else { Err(()) }).is_ok()
    }

    fn each_pattern<E>(&self, look: &mut impl FnMut(&Pattern) -> Result<(), E>) -> Result<(), E> {
        for part in &self.parts {
            match part {
                Part::All(queries) | Part::Any(queries) => {
                    queries.iter().try_for_each(|query| query.each_pattern(look))?;
                }
                Part::Value(_, tests) => {
                    for test in tests {
                        if let Test::Matches(pattern) = test {
                            look(pattern)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Its patterns: their number, and the memory they take.
    pub fn patterns(&self) -> PatternUse {
        let of_test = |test: &Test| match test {
            Test::Matches(pattern) => pattern.usage(),
            _ => PatternUse::default(),
        };
        let of_part = |part: &Part| match part {
            Part::All(queries) | Part::Any(queries) => queries.iter().map(Self::patterns).sum(),
            Part::Value(_, tests) => tests.iter().map(of_test).sum::<PatternUse>(),
        };
        self.parts.iter().map(of_part).sum()
    }
}

impl Part {
    fn holds(&self, facts: &dyn Facts) -> bool {
        match self {
            Self::All(queries) => queries.iter().all(|query| query.holds(facts)),
            Self::Any(queries) => queries.iter().any(|query| query.holds(facts)),
            Self::Value(field, tests) => {
                let value = field.value(facts);
                tests.iter().all(|test| test.holds(value.as_ref()))
            }
        }
    }
}

impl Field {
    fn value<'a>(&self, facts: &'a dyn Facts) -> Option<Fact<'a>> {
        match self {
            Self::Metadata(name) => facts.metadata(name),
            Self::Param(name) => facts.param(name),
            Self::Header(name) => facts.header(name).map(Fact::Text),
            Self::Pathname => Some(Fact::Text(facts.pathname().into())),
        }
    }
}

impl Test {
    fn holds(&self, value: Option<&Fact<'_>>) -> bool {
        let is = |wanted: &Scalar| value.is_some_and(|value| wanted.is(value));
        // Every comparison with NaN is false.
        let number = || value.map_or(f64::NAN, Fact::number);
        match self {
            Self::Is(wanted) => is(wanted),
            Self::IsNot(other) => !is(other),
            Self::In(wanted) => wanted.iter().any(is),
            Self::NotIn(others) => !others.iter().any(is),
            Self::Above(bound) => number() > *bound,
            Self::AtLeast(bound) => number() >= *bound,
            Self::Below(bound) => number() < *bound,
            Self::AtMost(bound) => number() <= *bound,
            Self::Matches(pattern) => match value {
                Some(value) => pattern.is_match(&value.excerpt()),
                // Portkey converts a missing value to this text, as JavaScript does; existing
                // conditions rely on it.
                None => pattern.is_match(&Excerpt::of("undefined")),
            },
        }
    }
}

impl Scalar {
    fn is(&self, value: &Fact<'_>) -> bool {
        match (self, value) {
            (Self::Null, Fact::Null) => true,
            (Self::Bool(wanted), Fact::Bool(flag)) => wanted == flag,
            (Self::Number(wanted), Fact::Number(number)) => wanted == number,
            (Self::Text(wanted), value) => value.is_text(wanted),
            _ => false,
        }
    }

    fn read(at: &Cursor<'_>) -> Option<Self> {
        Some(match &at.node.kind {
            NodeKind::Null => Self::Null,
            NodeKind::Bool(flag) => Self::Bool(*flag),
            NodeKind::Number(number) => Self::Number(number.as_f64()?),
            NodeKind::Text(text) if text.len() > MAX_OPERAND => {
                at.problem(format!("must be at most {MAX_OPERAND} bytes"));
                return None;
            }
            NodeKind::Text(text) => Self::Text(text.as_str().into()),
            NodeKind::List(_) | NodeKind::Map(_) => {
                at.problem(format!(
                    "must be a string, a number, a boolean or null, not {}",
                    at.node.type_name()
                ));
                return None;
            }
        })
    }

    fn list(at: &Cursor<'_>) -> Option<Vec<Self>> {
        Some(at.list()?.iter().filter_map(Self::read).collect())
    }
}

fn pattern(at: &Cursor<'_>, budget: &PatternBudget) -> Option<Pattern> {
    Pattern::compile(at.text()?, budget).map_err(|message| at.problem(message)).ok()
}

fn query(at: &Cursor<'_>, patterns: &PatternBudget, depth: usize) -> Option<Query> {
    if depth > MAX_DEPTH {
        at.problem(format!("stands too deep; $and and $or may nest {MAX_DEPTH} levels"));
        return None;
    }
    let part = |(name, at): (&str, Cursor<'_>)| match name {
        "$and" => queries(&at, patterns, depth + 1).map(Part::All),
        "$or" => queries(&at, patterns, depth + 1).map(Part::Any),
        _ => {
            let field = field(name, &at);
            // Read even when the key is wrong, so that all problems are reported at once.
            let tests = tests(&at, patterns);
            Some(Part::Value(field?, tests?))
        }
    };
    let entries = at.entries()?.into_iter().map(|(entry, at)| (entry.name.as_str(), at));
    Some(Query { parts: entries.filter_map(part).collect() })
}

fn queries(at: &Cursor<'_>, patterns: &PatternBudget, depth: usize) -> Option<Vec<Query>> {
    Some(at.list()?.iter().filter_map(|item| query(item, patterns, depth)).collect())
}

/// Reads a key such as `params.model`. Only its first two parts count; further parts are ignored, as in the
/// reference.
fn field(name: &str, at: &Cursor<'_>) -> Option<Field> {
    if name.starts_with('$') {
        let hint = if OPERATORS.contains(&name) {
            "; it stands in the object of a key"
        } else {
            "; $and and $or may stand here"
        };
        at.problem(format!("is no operator of queries{hint}"));
        return None;
    }
    let mut parts = name.split('.');
    let from = parts.next().unwrap_or_default();
    let name = parts.next().unwrap_or_default();
    match (from, name) {
        ("url", "pathname") => return Some(Field::Pathname),
        ("metadata" | "params" | "headers", "") => at.problem(format!("must name a field after {from}.")),
        ("metadata", name) => return Some(Field::Metadata(name.into())),
        ("params", name) => return Some(Field::Param(name.into())),
        ("headers", name) => match headers::observable(name) {
            Ok(name) => return Some(Field::Header(name.as_str().into())),
            Err(message) => at.problem(message),
        },
        _ => {
            at.problem(
                "is no value of a request; there are metadata.*, params.*, headers.* and url.pathname",
            );
        }
    }
    None
}

/// Reads the tests for a value: the operators of an object; anything else is an equality test.
fn tests(at: &Cursor<'_>, patterns: &PatternBudget) -> Option<Vec<Test>> {
    if !at.node.is_object() {
        return Some(vec![Test::Is(Scalar::read(at)?)]);
    }
    let entries = at.entries()?;
    Some(entries.iter().filter_map(|(entry, at)| test(&entry.name, at, patterns)).collect())
}

fn test(operator: &str, at: &Cursor<'_>, patterns: &PatternBudget) -> Option<Test> {
    Some(match operator {
        "$eq" => Test::Is(Scalar::read(at)?),
        "$ne" => Test::IsNot(Scalar::read(at)?),
        "$in" => Test::In(Scalar::list(at)?),
        "$nin" => Test::NotIn(Scalar::list(at)?),
        "$gt" => Test::Above(bound(at)?),
        "$gte" => Test::AtLeast(bound(at)?),
        "$lt" => Test::Below(bound(at)?),
        "$lte" => Test::AtMost(bound(at)?),
        "$regex" => Test::Matches(pattern(at, patterns)?),
        _ => {
            // No "did you mean" here: names this short all resemble each other.
            at.problem(format!("is no operator of a key; there are {}", OPERATORS.join(", ")));
            return None;
        }
    })
}

/// The number to compare with, given as a number or as a text that begins with one.
fn bound(at: &Cursor<'_>) -> Option<f64> {
    let number = number(at.node);
    if number.is_none() {
        at.problem("must be a number, or a text that begins with one");
    }
    number
}

fn number(node: &Node) -> Option<f64> {
    let number = match &node.kind {
        NodeKind::Number(number) => number.as_f64()?,
        NodeKind::Text(text) => fact::parse_float(text),
        _ => return None,
    };
    (!number.is_nan()).then_some(number)
}

/// Shows no strings: any of them may be a secret.
impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(_) => f.write_str("***"),
        }
    }
}
