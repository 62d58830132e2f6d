//! The rules. A new one is one file here, its line below and its name in [`super::rule::Rule`].

mod monotone;
mod peers;
mod polish;
mod roofline;
mod scaling;
mod sequential;
mod serialised;

use super::screen::Screen;

/// The rules that look at one variant (and the bare device).
pub fn within(screen: &mut Screen) {
    roofline::apply(screen);
    sequential::apply(screen);
    monotone::apply(screen);
    scaling::apply(screen);
}

/// The rules that hold a variant against others. They come second: a cell that breaks a rule by itself is no
/// yardstick.
pub fn between(screen: &mut Screen) {
    serialised::apply(screen);
    peers::apply(screen);
    polish::apply(screen);
}
