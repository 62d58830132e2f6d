//! Compact letter display: variants with a letter in common do not differ significantly.
//!
//! Insert-and-absorb, Piepho (2004), "An algorithm for a letter-based representation of all-pairwise
//! comparisons". A common letter does not mean "same"; it means "no significant difference here".

/// The letters of each variant. `differs[i][j]` is whether variants i and j differ significantly; it must be symmetric. `order`
/// lists the variants that get letters, best first: the first of them has an `a`. Other variants get no letter.
pub fn compact_letter_display(differs: &[Vec<bool>], order: &[usize]) -> Vec<String> {
    // A column is a letter: for each place in `order`, whether the variant there has the letter.
    let mut columns: Vec<Vec<bool>> = vec![vec![true; order.len()]];
    for i in 0..order.len() {
        for j in i + 1..order.len() {
            if differs[order[i]][order[j]] {
                columns = remove_contained_columns(split_columns(columns, i, j));
            }
        }
    }
    // Sort by the first member, then by the second, and so on, so that the best variant is in the first column.
    columns.sort_by(|a, b| b.cmp(a));
    let mut letters = vec![String::new(); differs.len()];
    for (number, column) in columns.iter().enumerate() {
        for (place, _) in column.iter().enumerate().filter(|(_, has_letter)| **has_letter) {
            letters[order[place]].push_str(&letter(number));
        }
    }
    letters
}

/// Splits each column that has both places i and j into one without i and one without j.
fn split_columns(columns: Vec<Vec<bool>>, i: usize, j: usize) -> Vec<Vec<bool>> {
    let mut next = Vec::with_capacity(columns.len() + 1);
    for mut column in columns {
        if column[i] && column[j] {
            let mut without_i = column.clone();
            without_i[i] = false;
            next.push(without_i);
            column[j] = false;
        }
        next.push(column);
    }
    next
}

/// Drops each column whose members are all in another one.
fn remove_contained_columns(columns: Vec<Vec<bool>>) -> Vec<Vec<bool>> {
    let is_within = |a: &[bool], b: &[bool]| a.iter().zip(b).all(|(a, b)| !a || *b);
    let stays = |index: usize| {
        columns.iter().enumerate().all(|(other, column)| {
            // Of equal columns the first stays.
            other == index || !is_within(&columns[index], column) || (column == &columns[index] && other > index)
        })
    };
    (0..columns.len()).filter(|index| stays(*index)).map(|index| columns[index].clone()).collect()
}

/// The letter of a column: a … z, then a1 … z1, a2 …
fn letter(number: usize) -> String {
    let letter = char::from(b'a' + (number % 26) as u8);
    match number / 26 {
        0 => letter.to_string(),
        repeat => format!("{letter}{repeat}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matrix in which only these pairs of variants differ.
    fn symmetric_matrix(variants: usize, pairs: &[(usize, usize)]) -> Vec<Vec<bool>> {
        let mut matrix = vec![vec![false; variants]; variants];
        for &(i, j) in pairs {
            (matrix[i][j], matrix[j][i]) = (true, true);
        }
        matrix
    }

    #[test]
    fn variants_that_do_not_differ_have_one_letter() {
        assert_eq!(compact_letter_display(&symmetric_matrix(3, &[]), &[2, 0, 1]), ["a", "a", "a"]);
    }

    #[test]
    fn variants_that_all_differ_have_a_letter_each_in_order() {
        assert_eq!(
            compact_letter_display(&symmetric_matrix(3, &[(0, 1), (0, 2), (1, 2)]), &[2, 0, 1]),
            ["b", "c", "a"]
        );
    }

    #[test]
    fn a_chain_shares_letters() {
        // Only the ends differ significantly: not transitive.
        assert_eq!(compact_letter_display(&symmetric_matrix(3, &[(0, 2)]), &[0, 1, 2]), ["a", "ab", "b"]);
    }

    #[test]
    fn each_pair_without_a_difference_shares_a_letter() {
        // The pairs without a difference are 0-2, 2-3 and 3-1, and have a letter each.
        let differs = symmetric_matrix(4, &[(0, 1), (0, 3), (1, 2)]);
        assert_eq!(compact_letter_display(&differs, &[0, 1, 2, 3]), ["a", "b", "ac", "bc"]);
    }

    #[test]
    fn two_variants_share_a_letter_if_and_only_if_they_do_not_differ() {
        // Every graph on five variants: two variants share a letter if and only if they do not differ.
        let pairs: Vec<_> = (0..5).flat_map(|i| (i + 1..5).map(move |j| (i, j))).collect();
        for bits in 0u32..1 << pairs.len() {
            let chosen: Vec<_> =
                pairs.iter().enumerate().filter(|(k, _)| bits >> k & 1 == 1).map(|(_, p)| *p).collect();
            let differs = symmetric_matrix(5, &chosen);
            let letters = compact_letter_display(&differs, &[4, 2, 0, 1, 3]);
            assert!(letters[4].starts_with('a'), "{chosen:?} {letters:?}");
            for &(i, j) in &pairs {
                let share = letters[i].chars().any(|c| letters[j].contains(c));
                assert_eq!(share, !differs[i][j], "{chosen:?} {letters:?}");
            }
        }
    }

    #[test]
    fn variants_that_are_not_listed_have_no_letter() {
        assert_eq!(compact_letter_display(&symmetric_matrix(3, &[(0, 2)]), &[2, 0]), ["b", "", "a"]);
    }
}
