//! Line numbers of a file, as a set of bits.
//!
//! Not here: what the lines are. It grows with the largest number, 1.2 MB for ten million.

/// A set of line numbers, one bit each.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineSet {
    bits: Vec<u64>,
}

impl LineSet {
    /// `true` if the line was not in the set.
    pub fn insert(&mut self, line: u32) -> bool {
        let (index, bit) = Self::place(line);
        if index >= self.bits.len() {
            self.bits.resize(index + 1, 0);
        }
        let Some(word) = self.bits.get_mut(index) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub fn contains(&self, line: u32) -> bool {
        let (index, bit) = Self::place(line);
        self.bits.get(index).is_some_and(|word| word & bit != 0)
    }

    const fn place(line: u32) -> (usize, u64) {
        ((line / 64) as usize, 1 << (line % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_set_is_a_set(lines in proptest::collection::vec(0u32..300, 0..100)) {
            let mut set = LineSet::default();
        let mut model = std::collections::BTreeSet::new();
            for line in lines {
                prop_assert_eq!(set.insert(line), model.insert(line));
            }
            prop_assert!((0..400).all(|line| set.contains(line) == model.contains(&line)));
        }
    }
}
