//! The formulas of fitted laws, as text for people.

use crate::{number::three_digits, phrases::grouped_digits};
use fsarena_stats::scaling::laws::Law;

/// The formula of a law with its parameters. N is the number of clients.
pub(super) fn formula_over_clients(law: &Law) -> String {
    match *law {
        Law::Power { a, b } => format!("{}·N^{}", three_digits(a), three_digits(b)),
        Law::Amdahl { lambda, sigma } => {
            let limit = three_digits(lambda / sigma);
            format!("{}·N/(1 + {}·(N−1)), never above {limit}", three_digits(lambda), three_digits(sigma))
        }
        Law::Usl { lambda, sigma, kappa } => {
            format!("{}·N/(1 + {}·(N−1) + {}·N·(N−1))", three_digits(lambda), three_digits(sigma), three_digits(kappa))
        }
        Law::Hinge { a, b, knee } => {
            format!("{}·N^{} up to {} clients, constant beyond", three_digits(a), three_digits(b), three_digits(knee))
        }
        // The laws of growth, in the unit of the values.
        law => formula_of_growth(&law, three_digits),
    }
}

/// The formula of a law of growth with its parameters; `format_cost` formats a cost. N is the amount of work.
pub(super) fn formula_of_growth(law: &Law, format_cost: impl Fn(f64) -> String) -> String {
    match *law {
        Law::Power { a, b } => format!("{}·N^{}", format_cost(a), format_exponent(b)),
        Law::Constant { a } => format_cost(a),
        Law::Fixed { a, c } => format!("{} + {}/N", format_cost(a), format_cost(c)),
        Law::Logarithm { a, b, first } => {
            format!("{}·(1 + {}·ln(N/{}))", format_cost(a), three_digits(b), format_amount(first))
        }
        Law::Bend { a, b, knee, after } => {
            format!(
                "{}·N^{} up to {}, then N^{}",
                format_cost(a),
                format_exponent(b),
                format_amount(knee),
                format_exponent(after)
            )
        }
        law => law.name().into(),
    }
}

pub(super) fn format_exponent(value: f64) -> String {
    format!("{value:.2}").replace('-', "−")
}

/// An amount, rounded to three digits, with commas: `98,400`.
pub(crate) fn format_amount(value: f64) -> String {
    let step = 10f64.powf((value.abs().max(1.0).log10().floor() - 2.0).max(0.0));
    let digits = ((value / step).round() * step).to_string();
    if digits.contains('.') { digits } else { grouped_digits(&digits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_commas() {
        assert_eq!([98_437.0, 1e6, 999.0, 22.4].map(format_amount), ["98,400", "1,000,000", "999", "22"]);
    }
}
