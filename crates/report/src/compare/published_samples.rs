//! The comparison of published samples of services (proxies): the cost of a request on each service, and the author's
//! conclusions, checked on these samples.

use super::cost::{self, Resource, Service, every_two};
use crate::document::{Document, Table, row};
use crate::number::{self, three_digits};
use crate::published::{add_consistency, check_author_conclusions, recomputed_json, sample_table};
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
    if published.derived.is_empty() {
        let name = published.name();
        return Err(Error::Usage(format!(
            "published:{name} has no samples of services; give a run to compare it with"
        )));
    }
    let mut report =
        ComparisonReport { title: format!("published:{}", published.name()), ..ComparisonReport::default() };
    // Without the averages over samples, which the study also has.
    let single_samples = usable_figures(published);
    let services: Vec<Service> =
        single_samples.variants().into_iter().map(|variant| published_service(&single_samples, variant)).collect();
    let resources: Vec<Resource> = single_samples.derived.iter().map(derived_resource).collect();
    let pairs = cost::service_pairs(&services, &resources);
    let sampled = sampled_pairs(&single_samples);
    let recomputed = recompute(published);
    let conclusions = check_author_conclusions(published)?;
    report.json = cost::costs_json(&services, &resources, &pairs);
    report.json["published"] = json!(published.name());
    report.json["recomputed"] = recomputed_json(&recomputed);
    report.json["paired"] = sampled.iter().map(SampledPair::json).collect();
    report.json["conclusions"] = published_conclusions_json(&conclusions);
    report.facts = services.iter().map(|service| service.name.clone()).collect();
    cost::set_cost_answer(&mut report, &pairs, lead_sentences(&single_samples, &sampled));

    let document = &mut report.data;
    document.text("The author's table, computed again from its raw columns.");
    for derived in &published.derived {
        add_recomputed_table(document, published, derived);
    }
    add_consistency(document, &recomputed);
    cost::add_cost_tables(document, &services, &resources);
    cost::add_pair_table(document, &pairs);
    add_paired_table(document, &sampled);
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
    document.heading(3, format!("{} = {} / {}", derived.metric, derived.above, derived.below));
    document.table(sample_table(published, |sample, variant| {
        let value = |metric: &str| published.figure_of_sample(sample, variant, metric).map(|figure| figure.value);
        let (above, below) = (value(&derived.above)?, value(&derived.below).filter(|below| *below > 0.0)?);
        Some(format!("{:.2}", above / below).into())
    }));
}

/// The values of a metric for a service, one for each sample; NaN without a figure.
fn metric_values(published: &PublishedSet, variant: &str, metric: &str) -> Vec<f64> {
    let value =
        |sample: &str| published.figure_of_sample(sample, variant, metric).map_or(f64::NAN, |figure| figure.value);
    published.samples().into_iter().map(value).collect()
}

/// The load and the consumption of a service. The denominator of the author's quotients is the load, the numerators are the
/// consumption.
fn published_service(published: &PublishedSet, variant: &str) -> Service {
    let load = published.derived.first().map_or("", |derived| derived.below.as_str());
    let spent = published.derived.iter().map(|derived| metric_values(published, variant, &derived.above));
    Service { name: variant.into(), load: metric_values(published, variant, load), consumption: spent.collect() }
}

fn derived_resource(derived: &PublishedQuotient) -> Resource {
    Resource {
        id: format!("{}_percent", derived.above),
        title: format!("{}, %", derived.above),
        format: three_digits,
        // Such studies read /proc/stat, which the kernel samples at clock ticks.
        is_tick_sampled: true,
    }
}

/// The first sentences of the answer: which service is lower than all others by which metric, and by which metrics no two
/// services differ.
fn lead_sentences(published: &PublishedSet, sampled: &[SampledPair]) -> Vec<String> {
    let (mut sentences, mut same_metrics) = (vec![], vec![]);
    for derived in &published.derived {
        let metric = derived.metric.replace('_', " ");
        let pairs: Vec<&SampledPair> = sampled.iter().filter(|pair| pair.metric == derived.metric).collect();
        if pairs.iter().all(|pair| !pair.ratio.is_significant()) {
            same_metrics.push(metric.clone());
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
    if !same_metrics.is_empty() {
        let metrics = same_metrics.join(" or ");
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
    for derived in &published.derived {
        let per_request = |variant: &str| -> Vec<f64> {
            let above = metric_values(published, variant, &derived.above);
            let below = metric_values(published, variant, &derived.below);
            above.iter().zip(below).map(|(above, below)| above / below).collect()
        };
        for (a, b) in every_two(&published.variants()) {
            if let Some(ratio) = Ratio::of(log_ratios(&per_request(a), &per_request(b)).d) {
                pairs.push(SampledPair { metric: &derived.metric, a, b, ratio });
            }
        }
    }
    pairs
}

fn add_paired_table(document: &mut Document, sampled: &[SampledPair]) {
    document.heading(3, "Sample by sample");
    let row = |pair: &SampledPair| {
        let verdict = cost::cost_verdict(pair.b, pair.ratio.into(), pair.ratio.is_significant());
        row![pair.metric, format!("{} over {}", pair.b, pair.a), ratio_cell(pair.ratio, ""), verdict]
    };
    document.table(Table::of_figures(["resource", "B over A", "ratio", "verdict"]).with_rows(sampled.iter().map(row)));
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

    fn json(&self) -> Value {
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
        let set = study::find("wilton").unwrap().published().unwrap().remove(0);
        let page = compare_published_samples(&set).unwrap();
        // By awk over the ten samples: Σ iowait / Σ requests of xfs is 55.5/432.6.
        let xfs = &page.json["services"][1];
        assert_eq!(xfs["name"], "xfs");
        let iowait = xfs["costs"].as_array().unwrap().iter().find(|cost| cost["resource"] == "iowait_percent");
        let per_request = iowait.unwrap()["per_request"].as_f64().unwrap();
        assert!((per_request - 0.128_294).abs() < 1e-5, "{per_request}");
        let answer = page.json["answer"].to_string();
        assert!(answer.starts_with("[\"xfs is lower than all 3 others by iowait per request: 0.419 "), "{answer}");
        assert!(answer.contains("Of all 18 figures") && answer.contains("jfs over xfs, 3 figures"), "{answer}");
        assert_eq!(page.chart.as_ref().expect("a picture").panels.len(), 6, "one for each pair of four services");
        assert_eq!(page.json["recomputed"]["do_not_follow"].as_array().unwrap().len(), 2);
        let outcome = |words: &str| {
            let conclusions = page.json["conclusions"].as_array().unwrap();
            let conclusion = conclusions.iter().find(|one| one["says"].as_str().unwrap().contains(words)).unwrap();
            conclusion["then"]["outcome"].as_str().unwrap_or("none").to_string()
        };
        assert_eq!(outcome("xfs is lowest"), "held");
    }
}
