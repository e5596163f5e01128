//! The requests of one workspace in one span of time, in cells: one for each combination of dimensions that occurred.
//!
//! In the database they are written three times: summed up to one total, by each value of each dimension (margins), and by combination. So a
//! question about one dimension reads as much as the dimension has values, however many combinations there are.

use super::bytes::Damaged;
use super::sample::{DIMENSIONS, Dimension, Sample};
use super::table::{RollupColumns, Table};

/// One combination: a name for each dimension.
pub(crate) type Combinations = Table<DIMENSIONS>;
/// One value of one dimension: the dimension's number as text, and the value.
pub(crate) type Margins = Table<2>;
/// One entry without names.
pub type Total = Table<0>;

/// The cells of one workspace and span. A part that would be too large is absent, and is read from shorter spans instead.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    total: Total,
    margins: Option<Margins>,
    combinations: Option<Combinations>,
}

/// Cells as the database has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    pub total: RollupColumns,
    pub margins: Option<RollupColumns>,
    pub combinations: Option<RollupColumns>,
    /// How many combinations there are.
    pub size: i64,
}

/// Makes cells of requests.
#[derive(Debug, Default)]
pub(crate) struct CellsOfRequests(Combinations);

impl CellsOfRequests {
    /// Adds a request.
    pub(crate) fn absorb(&mut self, sample: &Sample<'_>) {
        let mut text = [0; 5];
        let mut values = sample.values;
        if let Some(value) = values.get_mut(Dimension::StatusCode as usize) {
            *value = Some(decimal(sample.status, &mut text));
        }
        let tuple = values.map(|value| value.map_or(0, |text| self.0.number(text)));
        let cell = self.0.cell(tuple);
        sample.count(&mut cell.measures);
        cell.latencies.add(sample.latency_us);
    }

    pub fn finish(self) -> Cells {
        let mut total = Total::default();
        let mut margins = Margins::default();
        let numbers: [u32; DIMENSIONS] = std::array::from_fn(|at| margins.number(margin(at)));
        for (tuple, cell) in self.0.iter() {
            total.cell([]).merge(cell);
            for (number, value) in numbers.iter().zip(tuple) {
                let value = self.0.name(*value).map_or(0, |text| margins.number(text));
                margins.cell([*number, value]).merge(cell);
            }
        }
        Cells { total, margins: Some(margins), combinations: Some(self.0) }
    }
}

/// The name of a dimension in margins.
pub(crate) fn margin(dimension: usize) -> &'static str {
    ["0", "1", "2", "3", "4", "5", "6", "7"].get(dimension).copied().unwrap_or_default()
}

impl Cells {
    /// Without requests, to merge others into.
    pub fn empty() -> Self {
        Self {
            total: Total::default(),
            margins: Some(Table::default()),
            combinations: Some(Table::default()),
        }
    }

    /// Adds cells of the database. Margins and combinations are absent from the result where a piece has none, or where they
    /// are more than `limit`.
    ///
    /// # Errors
    /// `Damaged` for bytes that are no cells.
    pub fn merge(&mut self, start: i64, other: &Encoded, limit: usize) -> Result<(), Damaged> {
        self.total.merge(start, &other.total.sums, &other.total.latencies)?;
        merge_part(&mut self.margins, start, other.margins.as_ref(), limit)?;
        merge_part(&mut self.combinations, start, other.combinations.as_ref(), limit)
    }

    /// As bytes. `start`: milliseconds since 1970 at the beginning of the span.
    pub fn encode(&self, start: i64) -> Encoded {
        Encoded {
            total: self.total.encode(start),
            margins: self.margins.as_ref().map(|margins| margins.encode(start)),
            combinations: self.combinations.as_ref().map(|combinations| combinations.encode(start)),
            size: self.combinations.as_ref().and_then(|of| i64::try_from(of.len()).ok()).unwrap_or(0),
        }
    }
}

fn merge_part<const N: usize>(
    part: &mut Option<Table<N>>,
    start: i64,
    other: Option<&RollupColumns>,
    limit: usize,
) -> Result<(), Damaged> {
    let (Some(table), Some(other)) = (part.as_mut(), other) else {
        *part = None;
        return Ok(());
    };
    table.merge(start, &other.sums, &other.latencies)?;
    if table.len() > limit {
        *part = None;
    }
    Ok(())
}

/// A number in decimal, without allocating.
pub fn decimal(number: u16, text: &mut [u8; 5]) -> &str {
    let mut rest = number;
    let mut start = text.len();
    for (at, digit) in text.iter_mut().enumerate().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        start = at;
        if rest == 0 {
            break;
        }
    }
    text.get(start..).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 7, 10, 200, 599, 65_535] {
            assert_eq!(decimal(number, &mut [0; 5]), number.to_string());
        }
    }
}
