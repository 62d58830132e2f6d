//! The comparison of published samples of services (proxies): the cost of a request on each service, and the author's
//! conclusions, checked on these samples.

use super::cost::{self, Resource, Service, all_pairs};
use crate::document::{Document, Table, row};
use crate::number::{self, three_digits};
use crate::published::{add_consistency_section, check_author_conclusions, recomputed_json, sample_table};
use crate::sections::claims::{add_published_conclusions, published_conclusions_json};
use crate::{error::Error, page::ComparisonReport, ratio_verdict::ratio_cell};
use fsarena_core::published::{PublishedQuotient, PublishedSet};
use fsarena_stats::cost::Estimate;
use fsarena_stats::published_values::{recompute, usable_figures};
use fsarena_stats::ratio::{Ratio, log_ratios};
use serde_json::{Value, json};

/// Compares the services of a published study: recomputes the author's table from its raw columns, estimates the cost of a
/// request with intervals, and checks the author's conclusions on the single samples.
///
/// # Errors
/// If the figures are not samples of services, or the study's file is invalid.
pub fn compare_published_samples(published: &PublishedSet) -> Result<ComparisonReport, Error> {
    if published.quotients.is_empty() {
        let name = published.name();
        return Err(Error::Usage(format!(
            "published:{name} has no samples of services; give a run to compare it with"
        )));
    }
    let mut report =
        ComparisonReport { title: format!("published:{}", published.name()), ..ComparisonReport::default() };
    // The study also has averages over samples, which are not samples.
    let single_samples = usable_figures(published);
    let services: Vec<Service> =
        single_samples.variants().into_iter().map(|variant| published_service(&single_samples, variant)).collect();
    let resources: Vec<Resource> = single_samples.quotients.iter().map(derived_resource).collect();
    let pairs = cost::service_pairs(&services, &resources);
    let sampled_pairs = sampled_pairs(&single_samples);
    let recomputed = recompute(published);
    let conclusions = check_author_conclusions(published)?;
    report.json = cost::service_costs_json(&services, &resources, &pairs);
    report.json["published"] = json!(published.name());
    report.json["recomputed"] = recomputed_json(&recomputed);
    report.json["paired"] = sampled_pairs.iter().map(SampledPair::to_json).collect();
    report.json["conclusions"] = published_conclusions_json(&conclusions);
    report.facts = services.iter().map(|service| service.name.clone()).collect();
    cost::set_cost_answer(&mut report, &pairs, first_sentences(&single_samples, &sampled_pairs));

    let document = &mut report.data;
    document.text("The author's table, computed again from its raw columns.");
    for derived in &published.quotients {
        add_recomputed_table(document, published, derived);
    }
    add_consistency_section(document, &recomputed);
    cost::add_cost_tables(document, &services, &resources);
    cost::add_pair_table(document, &pairs);
    add_sampled_pair_table(document, &sampled_pairs);
    add_published_conclusions(document, &conclusions);
    report.method.text(format!(
        "Each of the {} samples is a round: the services were sampled at the same times, so influences of the time of day \
         cancel. Averages over samples are left out. Each filesystem ran on another machine, so every figure includes the \
         differences between the machines.",
        single_samples.samples().len()
    ));
    Ok(report)
}

/// Adds one of the author's tables, recomputed: a row for each sample, a column for each service.
fn add_recomputed_table(document: &mut Document, published: &PublishedSet, derived: &PublishedQuotient) {
    document.heading(3, format!("{} = {} / {}", derived.metric, derived.numerator, derived.denominator));
    document.table(sample_table(published, |sample, variant| {
        let value = |metric: &str| published.figure_of_sample(sample, variant, metric).map(|figure| figure.value);
        let (above, below) = (value(&derived.numerator)?, value(&derived.denominator).filter(|below| *below > 0.0)?);
        Some(format!("{:.2}", above / below).into())
    }));
}

/// The values of a metric for a service, one for each sample; NaN without a figure.
fn metric_values(published: &PublishedSet, variant: &str, metric: &str) -> Vec<f64> {
    let value =
        |sample: &str| published.figure_of_sample(sample, variant, metric).map_or(f64::NAN, |figure| figure.value);
    published.samples().into_iter().map(value).collect()
}

/// The load and the consumption of a service. The denominator of the author's quotients is the load, and the numerators are the
/// consumption of the resources.
fn published_service(published: &PublishedSet, variant: &str) -> Service {
    let load_metric = published.quotients.first().map_or("", |derived| derived.denominator.as_str());
    let consumption =
        published.quotients.iter().map(|derived| metric_values(published, variant, &derived.numerator)).collect();
    Service { name: variant.into(), load: metric_values(published, variant, load_metric), consumption }
}

/// The resource in the numerator of a quotient of the author.
fn derived_resource(derived: &PublishedQuotient) -> Resource {
    Resource {
        id: format!("{}_percent", derived.numerator),
        title: format!("{}, %", derived.numerator),
        format_cost: three_digits,
        // Such studies read /proc/stat, which the kernel samples at clock ticks.
        is_tick_sampled: true,
    }
}

/// The first sentences of the answer. They name each service that is lower than all others by a metric, and the metrics by
/// which no two services differ significantly.
fn first_sentences(published: &PublishedSet, sampled_pairs: &[SampledPair]) -> Vec<String> {
    let (mut sentences, mut metrics_without_difference) = (vec![], vec![]);
    for derived in &published.quotients {
        let metric = derived.metric.replace('_', " ");
        let pairs: Vec<&SampledPair> = sampled_pairs.iter().filter(|pair| pair.metric == derived.metric).collect();
        if pairs.iter().all(|pair| !pair.ratio.is_significant()) {
            metrics_without_difference.push(metric.clone());
        }
        for name in published.variants() {
            let ratios: Vec<(&str, Ratio)> = pairs.iter().filter_map(|pair| pair.ratio_of(name)).collect();
            let others = published.variants().len() - 1;
            let is_lowest = ratios.iter().all(|(_, ratio)| ratio.high < 1.0);
            if ratios.is_empty() || ratios.len() != others || !is_lowest {
                continue;
            }
            let mut factors = vec![];
            for (other, Ratio { value, low, high, .. }) in ratios {
                factors.push(format!("{} times {other}", number::ratio_with_interval(value, low, high)));
            }
            sentences.push(format!("{name} is lower than all {others} others by {metric}: {}.", factors.join(", ")));
        }
    }
    if !metrics_without_difference.is_empty() {
        let metrics = metrics_without_difference.join(" or ");
        sentences.push(format!("No two services differ significantly by {metrics}, sample by sample."));
    }
    sentences
}

/// The comparison of two services by one metric, sample by sample.
struct SampledPair<'a> {
    metric: &'a str,
    a: &'a str,
    b: &'a str,
    /// B over A.
    ratio: Ratio,
}

/// Compares every two services by each derived metric, sample by sample.
fn sampled_pairs(published: &PublishedSet) -> Vec<SampledPair<'_>> {
    let mut pairs = vec![];
    for derived in &published.quotients {
        let per_request = |variant: &str| -> Vec<f64> {
            let above = metric_values(published, variant, &derived.numerator);
            let below = metric_values(published, variant, &derived.denominator);
            above.iter().zip(below).map(|(above, below)| above / below).collect()
        };
        for (a, b) in all_pairs(&published.variants()) {
            if let Some(ratio) = Ratio::from_log_ratios(log_ratios(&per_request(a), &per_request(b)).d) {
                pairs.push(SampledPair { metric: &derived.metric, a, b, ratio });
            }
        }
    }
    pairs
}

/// Adds the table of the comparisons sample by sample.
fn add_sampled_pair_table(document: &mut Document, sampled_pairs: &[SampledPair]) {
    document.heading(3, "Sample by sample");
    let row = |pair: &SampledPair| {
        let verdict = cost::describe_cost_verdict(pair.b, pair.ratio.into(), pair.ratio.is_significant());
        row![pair.metric, format!("{} over {}", pair.b, pair.a), ratio_cell(pair.ratio, ""), verdict]
    };
    document.table(
        Table::of_figures(["resource", "B over A", "ratio", "verdict"]).with_rows(sampled_pairs.iter().map(row)),
    );
    document.text("Hodges–Lehmann ratios within samples, with exact 95% intervals, not corrected for their number.");
}

impl<'a> SampledPair<'a> {
    /// The other service of the pair, and the ratio of the named service to it; `None` if the named service is not in the
    /// pair.
    fn ratio_of(&self, name: &str) -> Option<(&'a str, Ratio)> {
        if name == self.b {
            Some((self.a, self.ratio))
        } else if name == self.a {
            Some((self.b, self.ratio.inverse()))
        } else {
            None
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "metric": self.metric,
            "a": self.a,
            "b": self.b,
            "ratio_b_to_a": Estimate::from(self.ratio),
            "samples": self.ratio.rounds,
            "significantly_different": self.ratio.is_significant(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::study;

    #[test]
    fn the_study_of_proxies_gives_the_cost_pairs_and_conclusions_computed_by_hand() {
        let set = study::find("wilton").unwrap().published_sets().unwrap().remove(0);
        let report = compare_published_samples(&set).unwrap();
        // By awk over the ten samples: Σ iowait / Σ requests of xfs is 55.5/432.6.
        let xfs = &report.json["services"][1];
        assert_eq!(xfs["name"], "xfs");
        let iowait = xfs["costs"].as_array().unwrap().iter().find(|cost| cost["resource"] == "iowait_percent");
        let per_request = iowait.unwrap()["per_request"].as_f64().unwrap();
        assert!((per_request - 0.128_294).abs() < 1e-5, "{per_request}");
        let answer = report.json["answer"].to_string();
        assert!(answer.starts_with("[\"xfs is lower than all 3 others by iowait per request: 0.419 "), "{answer}");
        assert!(answer.contains("Of all 18 figures") && answer.contains("jfs over xfs, 3 figures"), "{answer}");
        assert_eq!(report.chart.as_ref().expect("a chart").panels.len(), 6, "one for each pair of four services");
        assert_eq!(report.json["recomputed"]["do_not_follow"].as_array().unwrap().len(), 2);
        let outcome = |words: &str| {
            let conclusions = report.json["conclusions"].as_array().unwrap();
            let conclusion =
                conclusions.iter().find(|conclusion| conclusion["says"].as_str().unwrap().contains(words)).unwrap();
            conclusion["then"]["outcome"].as_str().unwrap_or("none").to_string()
        };
        assert_eq!(outcome("xfs is lowest"), "held");
    }
}
