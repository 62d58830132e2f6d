//! How throughput scales with the number of clients: the scaling law that fits, the saturation and the peak, as sentences, as a
//! table and as JSON.

pub mod curves;
pub mod file;
pub mod growth;

use crate::document::{Document, Table, row};
use crate::number::{percent, plural, three_digits};
use crate::page::Page;
use crate::phrases::group_digits;
use fsarena_core::cell::Variant;
use fsarena_core::factor::sorted_for_names;
use fsarena_core::record::RunRecord;
use fsarena_stats::critical_values::FIRST_LOOK_ROUNDS;
use fsarena_stats::scaling::laws::{DECISIVE_LEAD, Law, LawChoice, MISFIT_P, ScoredFit};
use fsarena_stats::scaling::{Doubling, Scaling, Series};
use serde_json::{Value, json};
use std::fmt::Display;

/// The page about several curves of throughput over clients. `source` names the run or file in the title. If `shows_figures`,
/// the document contains the figures; the JSON always does.
pub fn scaling_page(source: &str, scalings: &[Scaling], shows_figures: bool) -> Page {
    let mut document = Document::default();
    document.heading(1, format!("Scaling in {source}"));
    document.text(method_paragraph(scalings.iter()));
    let has_too_few_rounds =
        |scaling: &Scaling| scaling.series.rounds() > 1 && scaling.series.fewest_values() < FIRST_LOOK_ROUNDS;
    if scalings.iter().any(has_too_few_rounds) {
        document.warning(format!(
            "PROVISIONAL: fewer than {FIRST_LOOK_ROUNDS} rounds (without rounds: fewer than {FIRST_LOOK_ROUNDS} values per \
             point) give no exact interval."
        ));
    }
    if scalings.len() > 1 {
        document.table(overview_table(scalings.iter()));
    }
    for scaling in scalings {
        document.heading(2, scaling.series.name.clone());
        document.list(curve_sentences(scaling));
    }
    if shows_figures {
        document.heading(2, "Figures");
        for scaling in scalings {
            document.table(figure_table(scaling));
        }
    }
    Page { document, json: page_json(source, scalings) }
}

/// A table with the geometric mean of the throughput of a curve for each number of clients, in the unit of the input.
fn figure_table(scaling: &Scaling) -> Table {
    let rows = scaling.series.n.iter().zip(scaling.series.log_means());
    let rows = rows.map(|(n, mean)| row![n.to_string(), three_digits(mean.exp())]);
    Table::of_figures(["clients", &scaling.series.name]).with_rows(rows)
}

fn page_json(source: &str, scalings: &[Scaling]) -> Value {
    json!({ "format": 1, "source": source, "series": scalings.iter().map(series_json).collect::<Vec<_>>() })
}

fn series_json(scaling: &Scaling) -> Value {
    let saturation = scaling.saturation.as_ref().map(|saturation| {
        let doubling_json =
            |doubling: &Doubling| json!({ "clients": doubling.clients, "gain_of_double": doubling.gain });
        let doublings: Vec<Value> = saturation.doublings.iter().map(doubling_json).collect();
        json!({ "clients": saturation.clients, "from_clients": saturation.possible_from, "doublings": doublings })
    });
    let peak = json!({
        "clients": scaling.peak.clients,
        "interval": scaling.peak.interval.map(|(low, high)| [low, high]),
        "throughput": scaling.peak.throughput,
        "share_at_end": scaling.peak.ratio_at_end,
        "modelled": scaling.modelled_peak.map(|peak| json!({
            "clients": peak.value, "low": finite_or_none(&peak.low), "high": finite_or_none(&peak.high),
        })),
    });
    json!({
        "name": scaling.series.name,
        "paired": scaling.series.paired,
        "sentences": curve_sentences(scaling),
        "winner": winner_name(scaling.choice.as_ref()),
        "fits": scaling.choice.iter().flat_map(|choice| choice.fits.iter().map(fit_json)).collect::<Vec<_>>(),
        "saturation": saturation,
        "peak": peak,
        "points": points_json(&scaling.series, "clients", "throughput"),
    })
}

/// A value for JSON, which has no infinity and no NaN; `None` for these.
fn finite_or_none(value: &f64) -> Option<f64> {
    value.is_finite().then_some(*value)
}

/// The name of the law that fits significantly better than the others; `None` if no law does.
fn winner_name(choice: Option<&LawChoice>) -> Option<&'static str> {
    Some(choice?.winner()?.law.name())
}

/// The points of a curve as JSON. `n_key` and `values_key` are the keys of the N of a point and of its values.
fn points_json(series: &Series, n_key: &str, values_key: &str) -> Vec<Value> {
    let point_json = |(n, values): (&f64, &Vec<f64>)| json!({ n_key: n, values_key: values.iter().map(finite_or_none).collect::<Vec<_>>() });
    series.n.iter().zip(&series.x).map(point_json).collect()
}

fn fit_json(fit: &ScoredFit) -> Value {
    let parameters = match fit.law {
        Law::Power { a, b } => json!({ "a": a, "b": b }),
        Law::Amdahl { lambda, sigma } => json!({ "lambda": lambda, "sigma": sigma }),
        Law::Usl { lambda, sigma, kappa } => json!({ "lambda": lambda, "sigma": sigma, "kappa": kappa }),
        Law::Hinge { a, b, knee } => json!({ "a": a, "b": b, "knee_clients": knee }),
        Law::Constant { a } => json!({ "a": a }),
        Law::Fixed { a, c } => json!({ "a": a, "c": c }),
        Law::Logarithm { a, b, first } => json!({ "a": a, "b": b, "first": first }),
        Law::Bend { a, b, c, knee } => json!({ "a": a, "b": b, "knee": knee, "after": c }),
    };
    json!({
        "law": fit.law.name(),
        "parameters": parameters,
        "aicc": fit.aicc,
        "r_squared": fit.r_squared,
        "lack_of_fit": fit.lack_of_fit.map(|lack| json!({ "f": lack.f, "p": lack.p, "misfit": lack.p < MISFIT_P })),
    })
}

/// A paragraph for people that explains how the intervals were computed, and from how many rounds.
pub fn method_paragraph<'s>(scalings: impl Iterator<Item = &'s Scaling>) -> String {
    // The largest number of rounds of a paired curve, and of values of an unpaired one.
    let (mut max_rounds, mut max_values) = (0, 0);
    for scaling in scalings {
        let max = if scaling.series.paired { &mut max_rounds } else { &mut max_values };
        *max = scaling.series.rounds().max(*max);
    }
    if max_rounds.max(max_values) < 2 {
        return "There is only one value per point, so intervals are unknown.".into();
    }
    let mut paragraph = "Laws are fitted to ln X of every replicate and chosen by AICc.".to_string();
    if max_rounds > 1 {
        paragraph += &format!(
            " There are up to {}. Saturation is found by the gain from twice as many clients. This gain, and the share of \
             the peak throughput at the largest number of clients, are ratios within rounds, with 95% intervals. The \
             interval of the peak is from a bootstrap of the rounds.",
            plural(max_rounds, "round")
        );
    }
    if max_values > 1 {
        paragraph += &format!(
            " UNPAIRED: not every value has a `round`, so the values of each number of clients count as an independent \
             sample of at most {}. The gain from twice as many clients, and the share of the peak throughput at the \
             largest number of clients, are ratios of two such samples, with 95% intervals. The interval of the peak is \
             from a bootstrap of each sample. Changes of the machine from one number of clients to the next distort the \
             ratios and their intervals.",
            plural(max_values, "value")
        );
    }
    paragraph
}

/// A table with a row for each curve: its law, its saturation, its peak, and the share of the peak left at the last number of
/// clients.
pub fn overview_table<'s>(scalings: impl Iterator<Item = &'s Scaling>) -> Table {
    let row = |scaling: &Scaling| {
        row![
            scaling.series.name.as_str(),
            describe_choice(scaling.choice.as_ref(), formula_over_clients),
            saturation_range(scaling),
            peak_range(scaling),
            share_left_at_end(scaling)
        ]
    };
    Table::of_words(["series", "law", "saturates at", "peaks at", "left at the end"]).with_rows(scalings.map(row))
}

/// All sentences about one curve.
fn curve_sentences(scaling: &Scaling) -> Vec<String> {
    let mut sentences = vec![law_sentence(scaling)];
    sentences.extend(misfit_sentence(scaling));
    sentences.push(saturation_sentence(scaling));
    sentences.push(peak_sentence(scaling));
    sentences
}

/// The formula of the law that fits significantly better than the others; if no law does, the names of the candidates; `–`
/// without a choice.
fn describe_choice(choice: Option<&LawChoice>, formula: impl Fn(&Law) -> String) -> String {
    let Some(choice) = choice else { return "–".into() };
    match choice.winner() {
        Some(fit) => formula(&fit.law),
        None => format!("inconclusive: {}", contender_names(choice)),
    }
}

/// The name of the law that fits best, with `inconclusive` if another law fits almost as well: `power law, inconclusive`.
pub fn best_law_label(scaling: &Scaling) -> String {
    let Some(choice) = &scaling.choice else { return "too few numbers for a law".into() };
    let doubt = if choice.winner().is_some() { "" } else { ", inconclusive" };
    format!("{}{doubt}", choice.fits[0].law.name())
}

fn law_sentence(scaling: &Scaling) -> String {
    let Some(choice) = &scaling.choice else {
        return format!("{} numbers of clients are too few to distinguish laws.", scaling.series.n.len());
    };
    let Some(fit) = choice.winner() else {
        return format!(
            "Throughput may follow {}: their AICc differs by less than {DECISIVE_LEAD}, so the choice is inconclusive. The \
             best is {}, R² {:.3}.",
            contender_names(choice),
            formula_over_clients(&choice.fits[0].law),
            choice.fits[0].r_squared
        );
    };
    let lead = choice.fits.get(1).map_or(String::new(), |next| {
        format!("; by AICc {} ahead of {}", three_digits(next.aicc - fit.aicc), name_with_article(&next.law))
    });
    let (name, formula) = (name_with_article(&fit.law), formula_over_clients(&fit.law));
    format!("Throughput follows {name}: {formula}, R² {:.3}{lead}.", fit.r_squared)
}

/// The laws that may be right, in words: `the power law or Amdahl's law`.
fn contender_names(choice: &LawChoice) -> String {
    choice.contenders().iter().map(|fit| name_with_article(&fit.law)).collect::<Vec<_>>().join(" or ")
}

/// The name of a law in a sentence: `the power law`, `Amdahl's law`.
fn name_with_article(law: &Law) -> String {
    let article = if matches!(law, Law::Amdahl { .. }) { "" } else { "the " };
    format!("{article}{}", law.name())
}

/// A warning that no law describes the curve; `None` if the best law fits.
pub fn misfit_sentence(scaling: &Scaling) -> Option<String> {
    let best: &ScoredFit = scaling.choice.as_ref()?.fits.first()?;
    let lack = best.lack_of_fit.filter(|lack| lack.p < MISFIT_P)?;
    let p = if lack.p < 1e-3 { "under 0.001".into() } else { format!("= {}", three_digits(lack.p)) };
    Some(format!(
        "Yet no law describes the curve: the residuals of even the best law are larger than the differences between \
         replicates (lack of fit F = {}, p {p}).",
        three_digits(lack.f)
    ))
}

/// The number of clients at which throughput saturates, or the range of this number: `4`, `2–4`, `not up to 8`; `from 4, or not` if
/// it may saturate from 4 clients on, or not at all.
pub fn saturation_range(scaling: &Scaling) -> String {
    let Some(saturation) = &scaling.saturation else { return "–".into() };
    let last_doubled_clients = saturation.doublings.last().map_or(f64::NAN, |doubling| doubling.clients);
    match (saturation.possible_from, saturation.clients) {
        (Some(from), Some(at)) if from < at => format!("{from}–{at}"),
        (_, Some(at)) => at.to_string(),
        (Some(from), None) => format!("from {from}, or not"),
        (None, None) => format!("not up to {last_doubled_clients}"),
    }
}

/// A sentence on the saturation. Its 5% are [`fsarena_stats::scaling::MIN_GAIN`].
fn saturation_sentence(scaling: &Scaling) -> String {
    let Some(saturation) = &scaling.saturation else {
        return "Saturation is unknown: no number of clients was measured together with its double.".into();
    };
    let last_doubled_clients = saturation.doublings.last().map_or(f64::NAN, |doubling| doubling.clients);
    let gains = "twice as many clients bring under 5%";
    match (saturation.possible_from, saturation.clients) {
        (Some(from), Some(at)) if from < at => {
            format!("It saturates at {}, perhaps from {from} on: {gains}.", count_clients(at))
        }
        (_, Some(at)) => format!("It saturates at {}: {gains}.", count_clients(at)),
        (Some(from), None) => format!(
            "Saturation is inconclusive: it may begin at {}, but up to {} the data do not show that {gains}.",
            count_clients(from),
            count_clients(last_doubled_clients)
        ),
        (None, None) => {
            format!("It is not saturated up to {}: twice as many bring over 5%.", count_clients(last_doubled_clients))
        }
    }
}

/// A number of clients, or its estimate with an interval, with the noun: `1 client`, `8 clients`, `8 (6–12) clients`.
fn count_clients(number: impl Display) -> String {
    let number = number.to_string();
    let noun = if number == "1" { "client" } else { "clients" };
    format!("{number} {noun}")
}

/// The number of clients at the peak, with its interval: `8`, `8 (6–12)`.
pub fn peak_range(scaling: &Scaling) -> String {
    match scaling.peak.interval {
        Some((low, high)) if low < high => format!("{} ({low}–{high})", scaling.peak.clients),
        _ => scaling.peak.clients.to_string(),
    }
}

/// The share of the peak that is left at the last number of clients: `33%`, `33% (30%–36%)`.
pub fn share_left_at_end(scaling: &Scaling) -> String {
    match &scaling.peak.ratio_at_end {
        None => "all: the peak is at the end".into(),
        Some(share) if share.rounds < 2 => percent(share.value),
        Some(share) => format!("{} ({}–{})", percent(share.value), percent(share.low), percent(share.high)),
    }
}

fn peak_sentence(scaling: &Scaling) -> String {
    let last_clients = scaling.series.n.last().copied().unwrap_or(f64::NAN);
    let peak_by_law = scaling.modelled_peak.map_or(String::new(), |peak| {
        let high = if peak.high.is_finite() { three_digits(peak.high) } else { "beyond what was measured".into() };
        let low = Some(peak.low).filter(|low| low.is_finite());
        let range = low.map_or(String::new(), |low| format!(" ({}–{high})", three_digits(low)));
        format!(", by the law at {}{range}", three_digits(peak.value))
    });
    let peak = format!(
        "It peaks at {} with {}{peak_by_law}",
        count_clients(peak_range(scaling)),
        three_digits(scaling.peak.throughput)
    );
    match &scaling.peak.ratio_at_end {
        None => format!("{peak}: that is the most that was measured."),
        Some(_) => {
            format!("{peak}; at {} {} of that is left.", count_clients(last_clients), share_left_at_end(scaling))
        }
    }
}

/// The formula of a law with its parameters. N is the number of clients.
fn formula_over_clients(law: &Law) -> String {
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
        // The other laws are laws of growth, whose parameters are in the unit of the values.
        law => formula_of_growth(&law, three_digits),
    }
}

/// The formula of a law of growth with its parameters; `format_cost` formats a cost. N is the amount of work.
fn formula_of_growth(law: &Law, format_cost: impl Fn(f64) -> String) -> String {
    match *law {
        Law::Power { a, b } => format!("{}·N^{}", format_cost(a), format_exponent(b)),
        Law::Constant { a } => format_cost(a),
        Law::Fixed { a, c } => format!("{} + {}/N", format_cost(a), format_cost(c)),
        Law::Logarithm { a, b, first } => {
            format!("{}·(1 + {}·ln(N/{}))", format_cost(a), three_digits(b), format_amount(first))
        }
        Law::Bend { a, b, c, knee } => {
            format!(
                "{}·N^{} up to {}, then N^{}",
                format_cost(a),
                format_exponent(b),
                format_amount(knee),
                format_exponent(c)
            )
        }
        law => law.name().into(),
    }
}

/// An exponent with two decimals: `0.29`, `−0.05`.
fn format_exponent(exponent: f64) -> String {
    format!("{exponent:.2}").replace('-', "−")
}

/// An estimated amount with commas, rounded to three digits and to a whole number: `98,400`, `22`. An amount below 1 keeps three
/// digits: `0.300`.
pub(crate) fn format_amount(amount: f64) -> String {
    if amount.abs() < 1.0 {
        return three_digits(amount);
    }
    let step = 10f64.powf((amount.abs().log10().floor() - 2.0).max(0.0));
    format_exact_amount((amount / step).round() * step)
}

/// An amount that was measured, not rounded, with commas: `4,096`.
fn format_exact_amount(amount: f64) -> String {
    let digits = amount.to_string();
    match digits.split_once('.') {
        Some((whole, decimals)) => format!("{}.{decimals}", group_digits(whole)),
        None => group_digits(&digits),
    }
}

/// The name of a variant of a run without its level of a factor, for a curve over the levels of this factor: `ext4/8` for the
/// variant `ext4/4/8` without its clients.
fn name_without_level(record: &RunRecord, variant: &Variant, factor: &str) -> String {
    let level = variant.level(factor);
    if level.is_empty() || !record.varies(factor) {
        return variant.name.clone();
    }
    // The name has the levels of the factors that vary, in the order of `sorted_for_names`. In a grid, earlier factors can have
    // equal levels (`ext4/4/4`): count these parts, to skip them.
    let factors = sorted_for_names(variant.levels.iter().collect(), |(id, _)| id).into_iter();
    let earlier_factors = factors.take_while(|(id, _)| *id != factor).filter(|(id, _)| record.varies(id));
    let equal_parts_before: usize =
        earlier_factors.map(|(_, other)| other.split('/').filter(|part| *part == level).count()).sum();
    // In a run that changes one factor at a time, the name has `FACTOR=LEVEL` instead of the level if several factors have this
    // level.
    let with_factor = format!("{factor}={level}");
    let mut parts: Vec<&str> = variant.name.split('/').collect();
    let candidates: Vec<usize> =
        (0..parts.len()).filter(|index| [level, &with_factor].contains(&parts[*index])).collect();
    if let Some(index) = candidates.get(equal_parts_before).or(candidates.last()) {
        parts.remove(*index);
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_stats::scaling::analyse_scaling;

    #[test]
    fn only_the_level_of_the_factor_is_removed_from_a_name() {
        let variants = [("4", "4"), ("4", "8"), ("8", "4"), ("8", "8")].map(|(clients, cpus)| Variant {
            name: format!("ext4/{clients}/{cpus}"),
            levels: [("clients", clients), ("cpus", cpus)]
                .map(|(id, level)| (id.to_string(), level.to_string()))
                .into(),
        });
        let record = RunRecord { variants: variants.into(), ..RunRecord::default() };
        let names = |factor: &str| -> Vec<String> {
            record.variants.iter().map(|variant| name_without_level(&record, variant, factor)).collect()
        };
        assert_eq!(names("clients"), ["ext4/4", "ext4/8", "ext4/4", "ext4/8"]);
        assert_eq!(names("cpus"), ["ext4/4", "ext4/4", "ext4/8", "ext4/8"]);
        assert_eq!(names("fs")[1], "ext4/4/8", "the filesystem does not vary");
    }

    #[test]
    fn estimated_amounts_have_three_digits_and_measured_ones_all() {
        assert_eq!([98_437.0, 1e6, 999.0, 22.4].map(format_amount), ["98,400", "1,000,000", "999", "22"]);
        assert_eq!([0.3, 0.0, 1.0].map(format_amount), ["0.300", "0", "1"]);
        assert_eq!([4096.0, 1e6, 0.5].map(format_exact_amount), ["4,096", "1,000,000", "0.5"]);
        assert_eq!(format_exact_amount(12345.5), "12,345.5");
    }

    fn sentences_about(points: &[(f64, f64)]) -> Vec<String> {
        const SEED: u64 = 1;
        let rows: Vec<(f64, u32, f64)> = points.iter().map(|(n, x)| (*n, 0, *x)).collect();
        curve_sentences(&analyse_scaling(Series::new("s", &rows).unwrap(), SEED))
    }

    #[test]
    fn two_points_have_a_peak_but_no_law() {
        assert_eq!(
            sentences_about(&[(3.0, 100.0), (10.0, 33.0)]),
            [
                "2 numbers of clients are too few to distinguish laws.",
                "Saturation is unknown: no number of clients was measured together with its double.",
                "It peaks at 3 clients with 100; at 10 clients 33% of that is left."
            ]
        );
    }

    #[test]
    fn one_client_is_in_the_singular() {
        let sentences = sentences_about(&[(1.0, 100.0), (2.0, 33.0)]);
        assert_eq!(sentences[2], "It peaks at 1 client with 100; at 2 clients 33% of that is left.");
    }

    #[test]
    fn the_sentences_name_the_law_the_saturation_and_the_peak() {
        let power: Vec<(f64, f64)> =
            [1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 20.0, 30.0, 40.0, 50.0].map(|n: f64| (n, 0.34 * n.powf(0.29))).into();
        let sentences = sentences_about(&power);
        assert!(sentences[0].starts_with("Throughput follows the power law: 0.340·N^0.290, R² 1.000"), "{sentences:?}");
        assert_eq!(sentences[1], "It is not saturated up to 20 clients: twice as many bring over 5%.");
        assert!(sentences[2].ends_with("that is the most that was measured."), "{sentences:?}");
    }

    #[test]
    fn laws_have_an_article_where_english_has_one() {
        let amdahl: Vec<(f64, f64)> =
            [1.0, 2.0, 3.0, 5.0, 8.0, 16.0].map(|n: f64| (n, n / (1.0 + 0.2 * (n - 1.0)))).into();
        let sentences = sentences_about(&amdahl);
        assert!(sentences[0].starts_with("Throughput follows Amdahl's law: "), "{sentences:?}");
        assert!(sentences[0].contains(" ahead of the "), "{sentences:?}");
    }

    #[test]
    fn the_method_is_explained_for_paired_and_for_unpaired_curves() {
        let curve = |paired| {
            let rows = [(1.0, 0, 1.0), (1.0, 1, 1.1), (2.0, 0, 1.9), (2.0, 1, 2.0)];
            let mut series = Series::new("s", &rows).unwrap();
            series.paired = paired;
            analyse_scaling(series, 1)
        };
        let text = method_paragraph([curve(true), curve(false)].iter());
        assert!(text.contains("up to 2 rounds") && text.contains("sample of at most 2 values"), "{text}");
    }
}
