//! What a figure is made of.

use super::Cell;

/// The samples and commands behind a figure, which a page shows at a click.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The task, by its number in the run; none where it is all of them.
    pub task: Option<usize>,
    /// The variants, by their numbers in the run: that of the figure, and of a ratio then the one it is compared with.
    pub variants: Vec<usize>,
}

impl Source {
    /// Each of these variants once; none without a variant.
    pub fn of(task: Option<usize>, variants: impl IntoIterator<Item = usize>) -> Option<Source> {
        let mut once: Vec<usize> = vec![];
        variants.into_iter().for_each(|variant| {
            if !once.contains(&variant) {
                once.push(variant);
            }
        });
        (!once.is_empty()).then_some(Source { task, variants: once })
    }

    /// The variants as an attribute of an element holds them: `2 0`.
    pub fn variants(&self) -> String {
        self.variants.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// A row whose figures, all cells but the label, are made of the same.
pub fn row(source: Option<&Source>, cells: Vec<Cell>) -> Vec<Cell> {
    let figure = |(at, cell): (usize, Cell)| if at == 0 { cell } else { cell.made_of(source.cloned()) };
    cells.into_iter().enumerate().map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_compared_with_itself_is_one() {
        assert_eq!(Source::of(None, [2, 0, 2]).unwrap().variants(), "2 0");
        assert_eq!(Source::of(Some(1), []), None);
    }

    #[test]
    fn the_label_of_a_row_is_made_of_nothing() {
        let made = row(Source::of(Some(3), [1]).as_ref(), vec!["untar".into(), "1.00".into()]);
        assert_eq!(made[0].source, None);
        assert_eq!(made[1].source, Source::of(Some(3), [1]));
    }
}
