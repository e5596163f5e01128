//! A schema as places and steps between them: which part of it is applied by which, to the same value or to one inside it.
//!
//! Follows references as the library does, through `$id`, anchors and pointers, and goes no further than the schema itself. Knows
//! the keywords that apply schemas, of all drafts; all others only count.

use jsonschema::{Draft, Registry, Uri, uri};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where a schema without an `$id` is, as the library has it.
const BASE: &str = "json-schema:///";
/// The deepest place of a schema, in values inside each other.
const MAX_NESTING: usize = 200;
/// How much a property name's pattern counts: it is matched by another engine.
const NAME_PATTERN_SIZE: u64 = 500;
/// How often what is applied to the same value is compared anew for `unevaluatedProperties` and `unevaluatedItems` above it, and
/// below such a place (measured with version 0.60 of the library: 2.62 for a chain of them).
const UNEVALUATED: u64 = 3;
const BELOW_UNEVALUATED: u64 = 2;

/// How a step goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepKind {
    Same,
    AnyItem,
    Item(usize),
    AnyMember,
    /// Any but these.
    OtherMember(Vec<String>),
    Member(String),
}

/// A place applies another one.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: StepKind,
    pub(super) factor: u64,
    /// The reference that it is.
    reference: Option<String>,
    /// Whether it is taken again for unevaluated members.
    is_repeated: bool,
}

/// The places of a schema that a validation may come to; the first one is the schema.
#[derive(Debug)]
pub(super) struct Graph<'s> {
    places: Vec<Place<'s>>,
    same: Vec<Step>,
    inner: Vec<Step>,
    /// The indexes of `same`, by where they begin.
    same_of: Vec<Vec<usize>>,
    /// The texts that may be patterns.
    pub(super) patterns: HashSet<&'s str>,
}

#[derive(Debug)]
struct Place<'s> {
    schema: &'s Value,
    base: Arc<Uri<String>>,
    nesting: usize,
    weight: u64,
    has_unevaluated: bool,
}

impl<'s> Graph<'s> {
    /// # Errors
    /// What of the schema is not taken.
    pub(super) fn of(schema: &'s Value) -> Result<Self, String> {
        let outside = |why: jsonschema::ReferencingError| format!("refers to what is not in it: {why}");
        let registry = Registry::new().add(BASE, schema).map_err(outside)?.prepare().map_err(outside)?;
        let base = uri::from_str(BASE).map_err(outside)?;
        let mut reader = Reader {
            registry: &registry,
            draft: Draft::default().detect(schema),
            found: HashMap::new(),
            within: values(schema),
            graph: Self {
                places: Vec::new(),
                same: Vec::new(),
                inner: Vec::new(),
                same_of: Vec::new(),
                patterns: HashSet::new(),
            },
        };
        reader.place(schema, Arc::new(base), 0)?;
        let mut next = 0;
        while next < reader.graph.places.len() {
            reader.read(next)?;
            next += 1;
        }
        let mut graph = reader.graph;
        graph.same_of = vec![Vec::new(); graph.places.len()];
        for (index, step) in graph.same.iter().enumerate() {
            if let Some(steps) = graph.same_of.get_mut(step.from) {
                steps.push(index);
            }
        }
        graph.weigh_unevaluated();
        Ok(graph)
    }

    /// How many places there are.
    pub(super) fn size(&self) -> usize {
        self.places.len()
    }

    /// The values of a place that are no places themselves.
    pub(super) fn weight(&self, node: usize) -> u64 {
        self.places.get(node).map_or(0, |place| place.weight)
    }

    /// The steps that stay with a value.
    pub(super) fn same(&self) -> &[Step] {
        &self.same
    }

    pub(super) fn same_of(&self, node: usize) -> impl Iterator<Item = &Step> {
        self.same_of.get(node).into_iter().flatten().filter_map(|index| self.same.get(*index))
    }

    /// The steps into a value.
    pub(super) fn inner(&self) -> &[Step] {
        &self.inner
    }

    /// A reference on the circle that is behind a place.
    pub(super) fn reference_in_circle(&self, node: usize) -> &str {
        let mut reached = HashSet::new();
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            for step in self.same_of(node) {
                if let Some(reference) = &step.reference {
                    return reference;
                }
                if reached.insert(step.to) {
                    open.push(step.to);
                }
            }
        }
        "a reference"
    }

    fn weigh_unevaluated(&mut self) {
        let mut below = vec![false; self.places.len()];
        let mut open: Vec<usize> = (0..self.places.len())
            .filter(|node| self.places.get(*node).is_some_and(|place| place.has_unevaluated))
            .collect();
        while let Some(node) = open.pop() {
            let next: Vec<usize> = self.same_of(node).map(|step| step.to).collect();
            for other in next {
                if let Some(flag) = below.get_mut(other).filter(|flag| !**flag) {
                    *flag = true;
                    open.push(other);
                }
            }
        }
        let places = &self.places;
        let factor = |from: usize| match (places.get(from), below.get(from)) {
            (Some(Place { has_unevaluated: true, .. }), _) => UNEVALUATED,
            (_, Some(true)) => BELOW_UNEVALUATED,
            _ => 1,
        };
        for step in self.same.iter_mut().chain(&mut self.inner).filter(|step| step.is_repeated) {
            step.factor = factor(step.from);
        }
    }
}

/// All values of a schema by their addresses: a reference leads to one of them, or out of it.
fn values(schema: &Value) -> HashMap<*const Value, &Value> {
    let mut found = HashMap::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        found.insert(std::ptr::from_ref(value), value);
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
    }
    found
}

/// How many values there are.
fn count(value: &Value) -> u64 {
    let mut sum = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        sum += 1;
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
    }
    sum
}

struct Reader<'s, 'r> {
    registry: &'r Registry<'r>,
    draft: Draft,
    found: HashMap<*const Value, usize>,
    within: HashMap<*const Value, &'s Value>,
    graph: Graph<'s>,
}

/// A place while it is read.
#[derive(Clone, Copy)]
struct Here {
    node: usize,
    nesting: usize,
}

impl<'s> Reader<'s, '_> {
    /// The place of a schema, which is new where it was not come to before.
    fn place(&mut self, schema: &'s Value, base: Arc<Uri<String>>, nesting: usize) -> Result<usize, String> {
        if let Some(node) = self.found.get(&std::ptr::from_ref(schema)) {
            return Ok(*node);
        }
        if nesting > MAX_NESTING {
            return Err(format!("is nested too deep: at most {MAX_NESTING} values"));
        }
        let node = self.graph.places.len();
        self.found.insert(std::ptr::from_ref(schema), node);
        let base = self.base_of(schema, base)?;
        self.graph.places.push(Place { schema, base, nesting, weight: 1, has_unevaluated: false });
        Ok(node)
    }

    /// What references in a schema begin at.
    fn base_of(&self, schema: &Value, base: Arc<Uri<String>>) -> Result<Arc<Uri<String>>, String> {
        let is_old = matches!(self.draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
        let id = schema.get(self.draft.id_keyword()).and_then(Value::as_str);
        let id = id.filter(|id| !(id.starts_with('#') || is_old && schema.get("$ref").is_some()));
        match id {
            None => Ok(base),
            Some(id) => {
                let resolved = self.registry.resolve_uri(&base.borrow(), id.trim_end_matches('#'));
                resolved.map_err(|why| format!("has an $id that is none: {why}"))
            }
        }
    }

    fn read(&mut self, node: usize) -> Result<(), String> {
        let Some(place) = self.graph.places.get(node) else { return Ok(()) };
        let schema = place.schema;
        let here = Here { node, nesting: place.nesting };
        let Value::Object(members) = schema else { return Ok(()) };
        for (name, value) in members {
            let weight = self.keyword(here, members, name, value)?;
            if let Some(place) = self.graph.places.get_mut(node) {
                place.weight = place.weight.saturating_add(weight);
                place.has_unevaluated |=
                    matches!(name.as_str(), "unevaluatedProperties" | "unevaluatedItems");
            }
        }
        Ok(())
    }

    /// Takes a keyword, and returns what it counts itself.
    fn keyword(
        &mut self,
        here: Here,
        schema: &'s Map<String, Value>,
        name: &'s str,
        value: &'s Value,
    ) -> Result<u64, String> {
        match (name, value) {
            ("$ref", Value::String(reference)) => self.reference(here, reference)?,
            ("$dynamicRef" | "$recursiveRef", _) => return Err(format!("has a {name}, which is not taken")),
            ("pattern", Value::String(pattern)) => {
                self.graph.patterns.insert(pattern);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                for schema in list {
                    self.step(here, schema, StepKind::Same, true)?;
                }
            }
            ("not" | "if" | "then" | "else", _) => self.step(here, value, StepKind::Same, true)?,
            ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                for schema in schemas.values().filter(|schema| !schema.is_array()) {
                    self.step(here, schema, StepKind::Same, true)?;
                }
            }
            ("items" | "prefixItems", Value::Array(list)) => {
                for (index, schema) in list.iter().enumerate() {
                    self.step(here, schema, StepKind::Item(index), false)?;
                }
            }
            ("items" | "additionalItems", _) => self.step(here, value, StepKind::AnyItem, false)?,
            ("contains" | "unevaluatedItems", _) => self.step(here, value, StepKind::AnyItem, true)?,
            ("properties", Value::Object(schemas)) => {
                for (name, schema) in schemas {
                    self.step(here, schema, StepKind::Member(name.clone()), false)?;
                }
            }
            ("patternProperties", Value::Object(schemas)) => {
                for schema in schemas.values() {
                    self.step(here, schema, StepKind::AnyMember, false)?;
                }
                return Ok((schemas.len() as u64).saturating_mul(NAME_PATTERN_SIZE));
            }
            ("additionalProperties", _) => {
                let own = schema.get("properties").and_then(Value::as_object);
                let own = own.into_iter().flat_map(Map::keys).cloned().collect();
                self.step(here, value, StepKind::OtherMember(own), false)?;
            }
            ("propertyNames", _) => self.step(here, value, StepKind::AnyMember, false)?,
            ("unevaluatedProperties", _) => self.step(here, value, StepKind::AnyMember, true)?,
            // What only references lead to.
            ("$defs" | "definitions", _) => {}
            _ => return Ok(count(value)),
        }
        Ok(1)
    }

    fn step(
        &mut self,
        here: Here,
        schema: &'s Value,
        kind: StepKind,
        is_repeated: bool,
    ) -> Result<(), String> {
        let base = self.graph.places.get(here.node).map(|place| Arc::clone(&place.base));
        let Some(base) = base else { return Ok(()) };
        // What is between them is a list or an object of schemas.
        let to = self.place(schema, base, here.nesting + 1)?;
        let is_same = kind == StepKind::Same;
        let step = Step { from: here.node, to, kind, factor: 1, reference: None, is_repeated };
        if is_same {
            self.graph.same.push(step);
        } else {
            self.graph.inner.push(step);
        }
        Ok(())
    }

    fn reference(&mut self, here: Here, reference: &'s str) -> Result<(), String> {
        let base = self.graph.places.get(here.node).map(|place| Arc::clone(&place.base));
        let Some(base) = base else { return Ok(()) };
        let resolved = self.registry.resolver((*base).clone()).lookup(reference);
        let resolved = resolved.map_err(|why| format!("refers to {reference}, which is not in it: {why}"))?;
        let Some(target) = self.within.get(&std::ptr::from_ref(resolved.contents())) else {
            return Err(format!("refers to {reference}: only references within it are taken"));
        };
        let to = self.place(target, resolved.resolver().base_uri(), here.nesting + 1)?;
        let step = Step {
            from: here.node,
            to,
            kind: StepKind::Same,
            factor: 1,
            reference: Some(reference.to_owned()),
            is_repeated: true,
        };
        self.graph.same.push(step);
        Ok(())
    }
}
