//! What a validation by a schema may take, counted before it begins: how often places of the schema are compared with each value.
//!
//! A schema may refer to itself where each turn goes deeper into the value, so the count ends where the JSON ends. A place that is
//! reached on several ways counts for each: what the library remembers between them is not relied on. Nothing is validated here.

use super::schema_graph::{Graph, StepKind};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The places of a schema, what is applied to the same value behind what applies it.
#[derive(Debug)]
pub(super) struct SchemaWork {
    places: Vec<Place>,
    /// The schema itself.
    root: usize,
    /// The most places inside each other that are about one value.
    chain: u64,
}

#[derive(Debug, Default)]
struct Place {
    weight: u64,
    same: Vec<Edge>,
    any_item: Vec<Edge>,
    items: HashMap<usize, Vec<Edge>>,
    any_member: Vec<Edge>,
    members: HashMap<String, Edge>,
    /// Taken by members that are none of these (`additionalProperties`).
    others: Option<Others>,
}

/// Another place, and how often it is come to.
#[derive(Debug, Clone, Copy)]
struct Edge {
    to: usize,
    factor: u64,
}

#[derive(Debug)]
struct Others {
    names: HashSet<String>,
    edge: Edge,
}

/// How often places are compared with a value, by their numbers.
type Visits = BTreeMap<usize, u64>;

/// What it takes to compare one value with a schema.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ValueWork {
    /// The sizes of the places that its values are compared with, times their bytes.
    pub(super) visits: u64,
    /// How deep the calls of a validation are inside each other.
    pub(super) nesting: u64,
}

impl SchemaWork {
    /// # Errors
    /// What is wrong with the schema: it refers to itself without going into the value.
    pub(super) fn of(graph: &Graph<'_>) -> Result<Self, String> {
        let order = order(graph)?;
        let number: HashMap<usize, usize> =
            order.iter().enumerate().map(|(number, node)| (*node, number)).collect();
        let to = |node: usize| number.get(&node).copied().unwrap_or_default();
        let mut places: Vec<Place> =
            order.iter().map(|node| Place { weight: graph.weight(*node), ..Place::default() }).collect();
        for step in graph.same().iter().chain(graph.inner()) {
            let Some(place) = places.get_mut(to(step.from)) else { continue };
            let edge = Edge { to: to(step.to), factor: step.factor };
            match &step.kind {
                StepKind::Same => place.same.push(edge),
                StepKind::AnyItem => place.any_item.push(edge),
                StepKind::Item(index) => place.items.entry(*index).or_default().push(edge),
                StepKind::AnyMember => place.any_member.push(edge),
                StepKind::Member(name) => {
                    place.members.insert(name.clone(), edge);
                }
                StepKind::OtherMember(names) => {
                    place.others = Some(Others { names: names.iter().cloned().collect(), edge });
                }
            }
        }
        let mut chains = vec![1_u64; places.len()];
        for (number, place) in places.iter().enumerate() {
            let chain = chains.get(number).copied().unwrap_or_default();
            for edge in &place.same {
                if let Some(other) = chains.get_mut(edge.to) {
                    *other = (*other).max(chain + 1);
                }
            }
        }
        Ok(Self { places, root: to(0), chain: chains.into_iter().max().unwrap_or(1) })
    }

    /// The size of the largest place: what a value is compared with that comes to it.
    pub(super) fn largest(&self) -> u64 {
        let mut sizes = vec![0_u64; self.places.len()];
        for (number, place) in self.places.iter().enumerate().rev() {
            let behind = place
                .same
                .iter()
                .map(|edge| sizes.get(edge.to).copied().unwrap_or_default().saturating_mul(edge.factor));
            let size = behind.fold(place.weight, u64::saturating_add);
            if let Some(own) = sizes.get_mut(number) {
                *own = size;
            }
        }
        sizes.into_iter().max().unwrap_or_default()
    }

    /// What it takes to compare a value with the schema. Stops counting above `limit`, so that it takes no longer than a validation.
    pub(super) fn for_value(&self, value: &Value, limit: u64) -> ValueWork {
        let mut count = Count { work: ValueWork::default(), limit };
        self.count(value, &self.spread(Visits::from([(self.root, 1)])), 1, &mut count);
        count.work
    }

    /// `depth`: from 1. As deep as the JSON, which its parser bounds.
    fn count(&self, value: &Value, visits: &Visits, depth: u64, count: &mut Count) {
        let mut size: u64 = 0;
        for (number, times) in visits {
            let weight = self.places.get(*number).map_or(0, |place| place.weight);
            size = size.saturating_add(weight.saturating_mul(*times));
        }
        let work = &mut count.work;
        work.nesting = work.nesting.max(self.chain.saturating_mul(depth));
        work.visits = work.visits.saturating_add(size.saturating_mul(own_bytes(value)));
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if count.work.visits > count.limit {
                        return;
                    }
                    let inner = self.inside(visits, |place, add| {
                        let own = place.items.get(&index).into_iter().flatten();
                        place.any_item.iter().chain(own).for_each(add);
                    });
                    if let Some(inner) = inner {
                        self.count(item, &inner, depth + 1, count);
                    }
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    if count.work.visits > count.limit {
                        return;
                    }
                    let inner = self.inside(visits, |place, add| {
                        let others = place.others.as_ref().filter(|others| !others.names.contains(name));
                        let others = others.map(|others| &others.edge);
                        place.any_member.iter().chain(place.members.get(name)).chain(others).for_each(add);
                    });
                    if let Some(inner) = inner {
                        self.count(member, &inner, depth + 1, count);
                    }
                }
            }
            _ => {}
        }
    }

    /// The visits of a value inside one with these; `None`: nothing is compared with it.
    fn inside(&self, visits: &Visits, edges: impl Fn(&Place, &mut dyn FnMut(&Edge))) -> Option<Visits> {
        let mut inner = Visits::new();
        for (place, count) in visits {
            let Some(place) = self.places.get(*place) else { continue };
            edges(place, &mut |edge| add(&mut inner, *edge, *count));
        }
        (!inner.is_empty()).then(|| self.spread(inner))
    }

    /// With the places that are applied to the same value. They come later, so that one pass is enough.
    fn spread(&self, mut open: Visits) -> Visits {
        let mut all = Visits::new();
        while let Some((number, count)) = open.pop_first() {
            all.insert(number, count);
            for edge in self.places.get(number).into_iter().flat_map(|place| &place.same) {
                add(&mut open, *edge, count);
            }
        }
        all
    }
}

/// What was counted so far.
struct Count {
    work: ValueWork,
    limit: u64,
}

fn add(visits: &mut Visits, edge: Edge, count: u64) {
    let sum = visits.entry(edge.to).or_default();
    *sum = sum.saturating_add(count.saturating_mul(edge.factor));
}

/// The bytes of a value without those inside it; each of them counts 1.
fn own_bytes(value: &Value) -> u64 {
    1 + match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.len() as u64,
        Value::Object(members) => members.keys().map(|name| 1 + name.len() as u64).sum(),
        _ => 0,
    }
}

/// The places in an order in which what is applied to the same value comes later.
fn order(graph: &Graph<'_>) -> Result<Vec<usize>, String> {
    let mut before = vec![0_usize; graph.size()];
    for step in graph.same() {
        if let Some(count) = before.get_mut(step.to) {
            *count += 1;
        }
    }
    let mut free: Vec<usize> = (0..graph.size()).filter(|node| before.get(*node) == Some(&0)).collect();
    let mut places = Vec::with_capacity(graph.size());
    while let Some(node) = free.pop() {
        places.push(node);
        for step in graph.same_of(node) {
            if let Some(count) = before.get_mut(step.to) {
                *count -= 1;
                if *count == 0 {
                    free.push(step.to);
                }
            }
        }
    }
    match before.iter().position(|count| *count > 0) {
        None => Ok(places),
        Some(node) => {
            let reference = graph.reference_in_circle(node);
            Err(format!("refers to itself with {reference}, without going into the value"))
        }
    }
}
