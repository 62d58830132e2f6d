//! Decks: a fixed count of each value, shuffled by the seed. Drawing without replacement keeps shares exact.

use rand::Rng;
use rand::RngExt;
use rand::seq::SliceRandom;

/// Things to be drawn once each.
#[derive(Debug, Clone)]
pub struct Deck<T>(Vec<T>);

impl<T: Clone> Deck<T> {
    /// A shuffled deck with the given count of each value.
    pub fn new(counts: &[(usize, T)], rng: &mut impl Rng) -> Deck<T> {
        let each = |(count, what): &(usize, T)| std::iter::repeat_n(what.clone(), *count);
        let mut all: Vec<T> = counts.iter().flat_map(each).collect();
        all.shuffle(rng);
        Deck(all)
    }

    /// The next one.
    ///
    /// # Panics
    /// If the deck is empty. The fixed counts of a cycle match, so this is a bug.
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
