//! The formulas of fitted laws, as text for people.

use crate::{number::three, words::grouped_digits};
use fsarena_stats::scaling::laws::Law;

/// The formula of a law with its parameters. N is the number of clients.
pub(super) fn formula_over_clients(law: &Law) -> String {
    match *law {
        Law::Power { a, b } => format!("{}·N^{}", three(a), three(b)),
        Law::Amdahl { lambda, sigma } => {
            let most = three(lambda / sigma);
            format!("{}·N/(1 + {}·(N−1)), never above {most}", three(lambda), three(sigma))
        }
        Law::Usl { lambda, sigma, kappa } => {
            format!("{}·N/(1 + {}·(N−1) + {}·N·(N−1))", three(lambda), three(sigma), three(kappa))
        }
        Law::Hinge { a, b, knee } => {
            format!("{}·N^{} up to {} clients, constant beyond", three(a), three(b), three(knee))
        }
        // The laws of growth, in the unit of the values.
        law => formula_of_growth(&law, three),
    }
}

/// The formula of a law of growth with its parameters; `value` formats a cost. N is the amount of work.
pub(super) fn formula_of_growth(law: &Law, value: impl Fn(f64) -> String) -> String {
    match *law {
        Law::Power { a, b } => format!("{}·N^{}", value(a), exponent(b)),
        Law::Constant { a } => value(a),
        Law::Fixed { a, c } => format!("{} + {}/N", value(a), value(c)),
        Law::Logarithm { a, b, first } => {
            format!("{}·(1 + {}·ln(N/{}))", value(a), three(b), count(first))
        }
        Law::Bend { a, b, knee, after } => {
            format!("{}·N^{} up to {}, then N^{}", value(a), exponent(b), count(knee), exponent(after))
        }
        law => law.name().into(),
    }
}

pub(super) fn exponent(value: f64) -> String {
    format!("{value:.2}").replace('-', "−")
}

/// An amount, rounded to three digits, with commas: `98,400`.
pub(super) fn count(value: f64) -> String {
    let unit = 10f64.powf((value.abs().max(1.0).log10().floor() - 2.0).max(0.0));
    let digits = ((value / unit).round() * unit).to_string();
    if digits.contains('.') { digits } else { grouped_digits(&digits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_commas() {
        assert_eq!([98_437.0, 1e6, 999.0, 22.4].map(count), ["98,400", "1,000,000", "999", "22"]);
    }
}
