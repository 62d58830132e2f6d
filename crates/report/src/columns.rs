//! The widths of the columns of a table.

/// Widths that fit into `room` together where the least of each allow it: of the texts themselves, or the widest columns give
/// way, down to their least.
pub fn widths(natural: &[usize], least: &[usize], room: usize) -> Vec<usize> {
    let mut widths = natural.to_vec();
    while widths.iter().sum::<usize>() > room {
        let can_give = (0..widths.len()).filter(|at| widths[*at] > least[*at]);
        let Some(widest) = can_give.max_by_key(|at| widths[*at]) else { break };
        widths[widest] -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_column_gives_way_down_to_its_longest_word() {
        assert_eq!(widths(&[8, 40, 10], &[8, 12, 5], 100), [8, 40, 10]);
        assert_eq!(widths(&[8, 40, 10], &[8, 12, 5], 40), [8, 22, 10]);
        assert_eq!(widths(&[8, 40, 10], &[8, 12, 5], 27), [8, 12, 7]);
        assert_eq!(widths(&[8, 40, 10], &[8, 12, 5], 20), [8, 12, 5]);
    }
}
