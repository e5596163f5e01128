//! Sums by tuples of names: a map in memory, columns of bytes in the database.
//!
//! What the names mean is defined in `cells`: all dimensions of a combination, or one dimension and its value. The latencies of the entries are in bytes
//! of their own, because only percentiles need them.

use super::bytes::{Damaged, Reader, put_number, put_text};
use super::latencies::Latencies;
use super::measures::Measures;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

const VERSION: u8 = 1;

/// The sums of one tuple.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    pub measures: Measures,
    pub latencies: Latencies,
}

impl Cell {
    pub fn merge(&mut self, other: &Self) {
        self.measures.merge(&other.measures);
        self.latencies.merge(&other.latencies);
    }
}

/// Texts, each once.
#[derive(Debug, Default)]
struct Names {
    numbers: HashMap<Arc<str>, u32, RandomState>,
    texts: Vec<Arc<str>>,
}

/// Sums by tuples of `N` names. A name is a number: 0 for none.
#[derive(Debug)]
pub struct Table<const N: usize> {
    names: Names,
    cells: HashMap<[u32; N], Cell, RandomState>,
}

impl<const N: usize> Default for Table<N> {
    fn default() -> Self {
        Self { names: Names::default(), cells: HashMap::default() }
    }
}

/// A table as the database has it: the sums, and the latencies in the same order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RollupColumns {
    pub sums: Vec<u8>,
    pub latencies: Vec<u8>,
}

impl<const N: usize> Table<N> {
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The number of a name.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.names.numbers.get(text) {
            return *number;
        }
        let text: Arc<str> = text.into();
        self.names.texts.push(Arc::clone(&text));
        let number = u32::try_from(self.names.texts.len()).unwrap_or(0);
        self.names.numbers.insert(text, number);
        number
    }

    /// The name of a number.
    pub fn name(&self, number: u32) -> Option<&Arc<str>> {
        self.names.texts.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// The sums of a tuple, new ones where there are none.
    pub fn cell(&mut self, tuple: [u32; N]) -> &mut Cell {
        self.cells.entry(tuple).or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u32; N], &Cell)> {
        self.cells.iter()
    }

    /// Adds a table of the database. `start` as in `encode`.
    ///
    /// # Errors
    /// `Damaged` for bytes that are no table.
    pub fn merge(&mut self, start: i64, sums: &[u8], latencies: &[u8]) -> Result<(), Damaged> {
        let read = EncodedTable::<N>::new(start, sums, Some(latencies))?;
        let numbers: Vec<u32> = read.names().iter().map(|text| self.number(text)).collect();
        read.each(|cell| {
            let mut tuple = cell.tuple;
            for name in tuple.iter_mut().filter(|name| **name > 0) {
                *name = numbers.get(*name as usize - 1).copied().ok_or(Damaged)?;
            }
            let cell = Cell { latencies: Latencies::read(cell.latencies)?, measures: cell.measures };
            self.cell(tuple).merge(&cell);
            Ok(())
        })
    }

    /// As bytes. `start`: milliseconds since 1970, not after the first request.
    pub fn encode(&self, start: i64) -> RollupColumns {
        let mut columns = RollupColumns::default();
        let out = &mut columns.sums;
        out.push(VERSION);
        put_number(out, self.names.texts.len() as u64);
        self.names.texts.iter().for_each(|text| put_text(out, text));
        // In one order, so that the same rows give the same bytes.
        let mut cells: Vec<(&[u32; N], &Cell)> = self.cells.iter().collect();
        cells.sort_unstable_by_key(|(tuple, _)| **tuple);
        for (tuple, cell) in cells {
            tuple.iter().for_each(|number| put_number(out, u64::from(*number)));
            cell.measures.put(out, start);
            cell.latencies.put(&mut columns.latencies);
        }
        columns
    }
}

/// An entry of a table in bytes.
pub(crate) struct EncodedCell<'a, const N: usize> {
    pub tuple: [u32; N],
    pub measures: Measures,
    /// Empty where they were not passed.
    pub latencies: &'a [u8],
}

/// A table in bytes, read without making a map of it.
pub(crate) struct EncodedTable<'a, const N: usize> {
    start: i64,
    names: Vec<&'a str>,
    sums: Reader<'a>,
    latencies: Option<Reader<'a>>,
}

impl<'a, const N: usize> EncodedTable<'a, N> {
    /// # Errors
    /// `Damaged` for bytes that are no table.
    pub fn new(start: i64, sums: &'a [u8], latencies: Option<&'a [u8]>) -> Result<Self, Damaged> {
        let (version, rest) = sums.split_first().ok_or(Damaged)?;
        if *version != VERSION {
            return Err(Damaged);
        }
        let mut sums = Reader::new(rest);
        let count = sums.small()?;
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(sums.text()?);
        }
        Ok(Self { start, names, sums, latencies: latencies.map(Reader::new) })
    }

    /// The text of number n is at n - 1.
    pub fn names(&self) -> &[&'a str] {
        &self.names
    }

    /// Calls `visit` with each entry.
    ///
    /// # Errors
    /// What `visit` returns; `Damaged`.
    pub fn each<E: From<Damaged>>(
        mut self,
        mut visit: impl FnMut(EncodedCell<'a, N>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !self.sums.is_empty() {
            let mut tuple = [0; N];
            for number in &mut tuple {
                *number = self.sums.small()?;
            }
            let measures = Measures::read(&mut self.sums, self.start)?;
            let latencies = match &mut self.latencies {
                Some(reader) => reader.bytes()?,
                None => &[],
            };
            visit(EncodedCell { tuple, measures, latencies })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_table_is_refused() {
        let mut table = Table::<2>::default();
        let tuple = [table.number("a"), 0];
        table.cell(tuple).measures.merge(&Measures {
            requests: 300,
            first: 5,
            last: 9,
            ..Measures::default()
        });
        table.cell(tuple).latencies.add(7);
        let good = table.encode(0);
        for cut in 0..good.sums.len() {
            let mut into = Table::<2>::default();
            let merged = into.merge(0, &good.sums[..cut], &good.latencies);
            assert!(merged == Err(Damaged) || into.is_empty(), "{cut}");
        }
        let mut back = Table::<2>::default();
        back.merge(0, &good.sums, &good.latencies).unwrap();
        assert_eq!(back.encode(0), good);
        assert_eq!(back.merge(0, &good.sums, &[]), Err(Damaged));
        assert!(EncodedTable::<2>::new(0, &[9, 0], None).is_err());
    }
}
