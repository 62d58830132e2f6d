//! What a figure is made of.

use super::Cell;

/// The samples and commands behind a figure, which a page shows at a click.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The step, by its number in the run; none where it is all of them.
    pub step: Option<usize>,
    /// The arms, by their numbers in the run: that of the figure, and of a ratio then the one it is compared with.
    pub arms: Vec<usize>,
}

impl Source {
    /// Of these arms each once; none where there is no arm.
    pub fn of(step: Option<usize>, arms: impl IntoIterator<Item = usize>) -> Option<Source> {
        let mut once: Vec<usize> = vec![];
        arms.into_iter().for_each(|arm| {
            if !once.contains(&arm) {
                once.push(arm);
            }
        });
        (!once.is_empty()).then_some(Source { step, arms: once })
    }

    /// The arms as an attribute of an element holds them: `2 0`.
    pub fn arms(&self) -> String {
        self.arms.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
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
    fn an_arm_compared_with_itself_is_one() {
        assert_eq!(Source::of(None, [2, 0, 2]).unwrap().arms(), "2 0");
        assert_eq!(Source::of(Some(1), []), None);
    }

    #[test]
    fn the_label_of_a_row_is_made_of_nothing() {
        let made = row(Source::of(Some(3), [1]).as_ref(), vec!["untar".into(), "1.00".into()]);
        assert_eq!(made[0].source, None);
        assert_eq!(made[1].source, Source::of(Some(3), [1]));
    }
}
