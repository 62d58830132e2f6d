//! Decks: so many of each, in an order that the seed decides. Drawing from one keeps shares exact.

use rand::Rng;
use rand::RngExt;
use rand::seq::SliceRandom;

/// Things to be drawn once each.
#[derive(Debug, Clone)]
pub struct Deck<T>(Vec<T>);

impl<T: Clone> Deck<T> {
    /// So many of each, shuffled.
    pub fn new(counts: &[(usize, T)], rng: &mut impl Rng) -> Deck<T> {
        let each = |(count, what): &(usize, T)| std::iter::repeat_n(what.clone(), *count);
        let mut all: Vec<T> = counts.iter().flat_map(each).collect();
        all.shuffle(rng);
        Deck(all)
    }

    /// The next one.
    ///
    /// # Panics
    /// Where there are no more: counts of a cycle are fixed, and fit each other.
    pub fn draw(&mut self) -> T {
        self.0.pop().expect("a deck has as many as are drawn")
    }

    /// Whether all are drawn.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Something between two numbers, evenly over its logarithm.
pub fn between(low: f64, high: f64, rng: &mut impl Rng) -> i64 {
    (low.ln() + rng.random::<f64>() * (high / low).ln()).exp().round() as i64
}
