//! The sums that answer a query, by bucket and group, while they are read from pieces of rollups and from rows. Bounded in memory.

use super::super::rollup::bytes::Damaged;
use super::super::rollup::cells::{decimal, margin};
use super::super::rollup::latencies::Distribution;
use super::super::rollup::measures::Measures;
use super::super::rollup::sample::{DIMENSIONS, Dimension, Sample};
use super::super::rollup::statements::Part;
use super::super::rollup::table::{EncodedCell, EncodedTable};
use super::budget::{Budget, Held};
use super::feedback_tally::FeedbackSum;
use super::query::{By, Plan, Query};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use uuid::Uuid;

/// Sums of one bucket and group, at most; beyond, the query is refused.
pub const MAX_GROUPS: usize = 200_000;
/// What a group takes beside its value: in the tally, and in the lists that the answer is sorted in.
const GROUP_BYTES: usize = 4 * size_of::<Group>() + 192;
/// What a value takes beside its text.
const VALUE_BYTES: usize = 128;
/// Bytes of latencies, at most.
const MAX_LATENCIES: usize = 256 << 20;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// More groups than fit into memory.
    TooManyGroups,
    /// The process holds as much as it may of everything.
    NoMemory,
    /// A piece of a rollup cannot be read.
    Damaged,
}

impl From<Damaged> for Unanswered {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

/// The sums of one bucket and group.
#[derive(Debug, Clone, Default)]
pub struct Group {
    pub measures: Measures,
    pub latencies: Distribution,
    /// Only where requests are grouped by metadata.
    pub feedback: FeedbackSum,
}

impl Group {
    pub fn merge(&mut self, other: &Self) {
        self.measures.merge(&other.measures);
        self.latencies.merge(&other.latencies);
        self.feedback.merge(&other.feedback);
    }
}

/// The sums up to now.
#[derive(Debug)]
pub struct Tally {
    query: Query,
    plan: Plan,
    part: Part,
    numbers: HashMap<Arc<str>, u32>,
    /// By number; none for requests that have no value of the dimension.
    values: Vec<Option<Arc<str>>>,
    without_value: Option<u32>,
    groups: HashMap<(u32, u32), Group>,
    latencies: usize,
    budget: Budget,
}

impl Tally {
    pub fn new(query: Query) -> Self {
        let plan = query.plan();
        let part = query.part();
        Self {
            query,
            plan,
            part,
            numbers: HashMap::new(),
            values: Vec::new(),
            without_value: None,
            groups: HashMap::new(),
            latencies: 0,
            budget: Budget::default(),
        }
    }

    /// A tally that tells how many bytes it holds, and is refused more.
    pub fn within(query: Query, held: Held) -> Self {
        Self { budget: Budget::new(held), ..Self::new(query) }
    }

    pub fn query(&self) -> &Query {
        &self.query
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The part of each piece that is needed, and whether its latencies are.
    pub fn part(&self) -> (Part, bool) {
        (self.part, self.query.has_percentiles)
    }

    /// Adds one part of a piece, the one that [`Self::part`] names.
    ///
    /// # Errors
    /// `Damaged`, `TooManyGroups`.
    pub(crate) fn add_piece(
        &mut self,
        workspace: Uuid,
        start: i64,
        sums: &[u8],
        latencies: Option<&[u8]>,
    ) -> Result<(), Unanswered> {
        if self.plan.split_hours.binary_search(&start).is_ok() {
            return Ok(());
        }
        match self.part {
            Part::Total => self.add_table(workspace, EncodedTable::<0>::new(start, sums, latencies)?, start),
            Part::Margins => {
                self.add_table(workspace, EncodedTable::<2>::new(start, sums, latencies)?, start)
            }
            Part::Combinations => {
                self.add_table(workspace, EncodedTable::<DIMENSIONS>::new(start, sums, latencies)?, start)
            }
        }
    }

    fn add_table<const N: usize>(
        &mut self,
        workspace: Uuid,
        table: EncodedTable<'_, N>,
        start: i64,
    ) -> Result<(), Unanswered> {
        let names = table.names().to_vec();
        let matching = Matching::of(&self.query, self.part, &names);
        let bucket = self.query.bucket(start);
        let fixed = match self.query.by {
            By::Workspace => Some(self.workspace(workspace)),
            By::Dimension(_) => None,
            _ => Some(self.number(None)),
        };
        let position = match (&self.query.by, self.part) {
            (By::Dimension(dimension), Part::Combinations) => *dimension as usize,
            _ => 1,
        };
        // Maps the numbers of this piece to the numbers of groups.
        let mut groups: Vec<Option<u32>> = vec![None; names.len() + 1];
        table.each(|cell| {
            if !matching.is_met(&cell) {
                return Ok(());
            }
            let local = cell.tuple.get(position).copied().unwrap_or(0) as usize;
            let number = match (fixed, groups.get(local).copied().flatten()) {
                (Some(number), _) | (None, Some(number)) => number,
                (None, None) => {
                    let value = local.checked_sub(1).and_then(|at| names.get(at).copied());
                    let number = self.number(value);
                    *groups.get_mut(local).ok_or(Damaged)? = Some(number);
                    number
                }
            };
            self.add(bucket, number, &cell.measures, cell.latencies)
        })
    }

    /// Adds a request. `value`: its user, or its member of the metadata, where the query groups by that. `feedback`: of its trace.
    ///
    /// # Errors
    /// `TooManyGroups`.
    pub(crate) fn add_sample(
        &mut self,
        sample: &Sample<'_>,
        value: Option<&str>,
        feedback: &FeedbackSum,
    ) -> Result<(), Unanswered> {
        let number = match self.query.by {
            By::Nothing => self.number(None),
            By::Workspace => self.workspace(sample.workspace),
            By::Dimension(Dimension::StatusCode) => {
                let mut text = [0; 5];
                self.number(Some(decimal(sample.status, &mut text)))
            }
            By::Dimension(dimension) => self.number(sample.values.get(dimension as usize).copied().flatten()),
            By::User | By::RequestedModel | By::Metadata(_) => self.number(value),
        };
        let bucket = self.query.bucket(sample.at);
        let has_percentiles = self.query.has_percentiles;
        let group = self.group(bucket, number)?;
        sample.count(&mut group.measures);
        group.feedback.merge(feedback);
        if has_percentiles {
            let before = group.latencies.size();
            group.latencies.add(sample.latency_us);
            let grown = group.latencies.size() - before;
            self.grow(grown)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        bucket: u32,
        number: u32,
        measures: &Measures,
        latencies: &[u8],
    ) -> Result<(), Unanswered> {
        let has_percentiles = self.query.has_percentiles;
        let group = self.group(bucket, number)?;
        group.measures.merge(measures);
        if has_percentiles {
            let before = group.latencies.size();
            group.latencies.add_encoded(latencies)?;
            let grown = group.latencies.size() - before;
            self.grow(grown)?;
        }
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Unanswered> {
        self.latencies += bytes;
        self.budget.add(2 * bytes)?;
        if self.latencies > MAX_LATENCIES { Err(Unanswered::TooManyGroups) } else { Ok(()) }
    }

    fn group(&mut self, bucket: u32, number: u32) -> Result<&mut Group, Unanswered> {
        let has_room = self.groups.len() < MAX_GROUPS;
        match self.groups.entry((bucket, number)) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(_) if !has_room => Err(Unanswered::TooManyGroups),
            Entry::Vacant(place) => {
                let value = usize::try_from(number).ok().and_then(|at| self.values.get(at)?.as_deref());
                self.budget.add(GROUP_BYTES + value.map_or(0, |value| VALUE_BYTES + value.len()))?;
                Ok(place.insert(Group::default()))
            }
        }
    }

    fn workspace(&mut self, workspace: Uuid) -> u32 {
        if workspace.is_nil() {
            self.number(None)
        } else {
            let mut text = Uuid::encode_buffer();
            let text: &str = workspace.hyphenated().encode_lower(&mut text);
            self.number(Some(text))
        }
    }

    fn number(&mut self, value: Option<&str>) -> u32 {
        let next = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        match value {
            None => match self.without_value {
                Some(number) => number,
                None => {
                    self.without_value = Some(next);
                    self.values.push(None);
                    next
                }
            },
            Some(value) => {
                if let Some(number) = self.numbers.get(value) {
                    return *number;
                }
                let value: Arc<str> = value.into();
                self.values.push(Some(Arc::clone(&value)));
                self.numbers.insert(value, next);
                next
            }
        }
    }

    /// The sums by bucket and value, in no order. Buckets without a request are absent.
    pub fn into_groups(self) -> impl Iterator<Item = (u32, Option<Arc<str>>, Group)> {
        let values = self.values;
        self.groups.into_iter().map(move |((bucket, number), group)| {
            let value = usize::try_from(number).ok().and_then(|at| values.get(at).cloned()).flatten();
            (bucket, value, group)
        })
    }
}

/// The filter, translated to the numbers that one piece has for its names.
struct Matching {
    /// For each position of a tuple that is filtered: by number, whether the value passes.
    allowed: Vec<(usize, Vec<bool>)>,
    vendor_models: Option<Vec<(u32, u32)>>,
}

impl Matching {
    fn of(query: &Query, part: Part, names: &[&str]) -> Self {
        let passing = |is_allowed: &dyn Fn(&str) -> bool| {
            std::iter::once(false).chain(names.iter().map(|name| is_allowed(name))).collect::<Vec<bool>>()
        };
        let mut allowed = Vec::new();
        if part == Part::Margins {
            let dimension = query.dimension().map_or("", |dimension| margin(dimension as usize));
            allowed.push((0, passing(&|name| name == dimension)));
        }
        for (dimension, values) in query.filter.dimensions() {
            let position = if part == Part::Margins { 1 } else { dimension as usize };
            allowed.push((position, passing(&|name| values.iter().any(|value| value == name))));
        }
        let number = |text: &String| {
            let at = names.iter().position(|name| name == text)?;
            u32::try_from(at + 1).ok()
        };
        let pair = |(vendor, model): &(String, String)| Some((number(vendor)?, number(model)?));
        let pairs = &query.filter.vendor_models;
        let vendor_models = (!pairs.is_empty()).then(|| pairs.iter().filter_map(pair).collect());
        Self { allowed, vendor_models }
    }

    fn is_met<const N: usize>(&self, cell: &EncodedCell<'_, N>) -> bool {
        let value = |position: usize| cell.tuple.get(position).copied().unwrap_or(0);
        let passes = |(position, allowed): &(usize, Vec<bool>)| {
            allowed.get(value(*position) as usize).copied().unwrap_or(false)
        };
        let pair = || (value(Dimension::AiService as usize), value(Dimension::Model as usize));
        self.allowed.iter().all(passes)
            && self.vendor_models.as_ref().is_none_or(|pairs| pairs.contains(&pair()))
    }
}
