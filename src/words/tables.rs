//! Tables of constants, put together by the compiler.

/// The rows of two tables, one after the other. `ALL`: how many these are.
#[allow(clippy::indexing_slicing, reason = "computed by the compiler, which refuses what is out of bounds")]
pub const fn concat<T: Copy, const ALL: usize>(first: &[T], then: &[T]) -> [T; ALL] {
    assert!(first.len() + then.len() == ALL, "ALL is the number of rows");
    let mut all = [first[0]; ALL];
    let mut index = 0;
    while index < ALL {
        all[index] = if index < first.len() { first[index] } else { then[index - first.len()] };
        index += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_their_order() {
        const ALL: [u8; 3] = concat(&[1, 2], &[3]);
        assert_eq!(ALL, [1, 2, 3]);
        assert_eq!(concat::<u8, 2>(&[1, 2], &[]), [1, 2]);
    }
}
