//! Published samples of services: what a request cost on each, and what its author concluded from that.

use super::comparison_report::ComparisonReport;
use super::cost::{self, Resource, Service, every_two};
use crate::document::{Document, Table, row};
use crate::number::{self, three};
use crate::published::{add_consistency, conclusions_then, recomputed_json, sample_table};
use crate::sections::claims::{add_published_conclusions, published_conclusions_json};
use crate::{difference::ratio_cell, error::Error};
use fsarena_core::published::{Derived, Published};
use fsarena_stats::conclusion::{evidence, recompute};
use fsarena_stats::cost::Estimate;
use fsarena_stats::ratio::{Ratio, log_ratios};
use serde_json::{Value, json};

/// The study's own table from its raw columns, the cost of a request with intervals, and the author's
/// conclusions held against the samples alone.
///
/// # Errors
/// If the figures are not samples of services, or the study has a fault.
pub fn compare_services(published: &Published) -> Result<ComparisonReport, Error> {
    if published.derived.is_empty() {
        let name = published.name();
        return Err(Error::Usage(format!(
            "published:{name} has no samples of services; give a run to compare it with"
        )));
    }
    let mut compared =
        ComparisonReport { title: format!("published:{}", published.name()), ..ComparisonReport::default() };
    let alone = evidence(published);
    let services: Vec<Service> =
        alone.variants().into_iter().map(|variant| service(&alone, variant)).collect();
    let resources: Vec<Resource> = alone.derived.iter().map(resource).collect();
    let (pairs, paired) = (cost::service_pairs(&services, &resources), paired(&alone));
    let (recomputed, concluded) = (recompute(published), conclusions_then(published)?);
    compared.json = cost::costs_json(&services, &resources, &pairs);
    compared.json["published"] = json!(published.name());
    compared.json["recomputed"] = recomputed_json(&recomputed);
    compared.json["paired"] = paired.iter().map(SampledPair::json).collect();
    compared.json["conclusions"] = published_conclusions_json(&concluded);
    compared.facts = services.iter().map(|service| service.name.clone()).collect();
    cost::set_cost_answer(&mut compared, &pairs, lead(&alone, &paired));

    let document = &mut compared.data;
    document.text("The author's table, worked out again from its raw columns.");
    for made in &published.derived {
        add_recomputed_table(document, published, made);
    }
    add_consistency(document, &recomputed);
    cost::add_cost_tables(document, &services, &resources);
    cost::add_pair_table(document, &pairs);
    paired_table(document, &paired);
    add_published_conclusions(document, &concluded);
    compared.method.text(format!(
        "Each of the {} samples is a round: the services were sampled at the same times, so what the time of day did \
         to all of them cancels. Averages over other samples are left out. It was one machine for each filesystem: \
         what the machines themselves differed by is in every figure.",
        alone.samples().len()
    ));
    Ok(compared)
}

/// One of the author's tables: sample by service.
fn add_recomputed_table(document: &mut Document, published: &Published, made: &Derived) {
    document.heading(3, format!("{} = {} / {}", made.metric, made.above, made.below));
    document.table(sample_table(published, |sample, variant| {
        let value = |metric: &str| published.sampled(sample, variant, metric).map(|figure| figure.value);
        let (above, below) = (value(&made.above)?, value(&made.below).filter(|below| *below > 0.0)?);
        Some(format!("{:.2}", above / below).into())
    }));
}

fn series(published: &Published, variant: &str, metric: &str) -> Vec<f64> {
    let value =
        |sample: &str| published.sampled(sample, variant, metric).map_or(f64::NAN, |figure| figure.value);
    published.samples().into_iter().map(value).collect()
}

fn service(published: &Published, variant: &str) -> Service {
    let below = published.derived.first().map_or("", |made| made.below.as_str());
    Service {
        name: variant.into(),
        load: series(published, variant, below),
        spent: published.derived.iter().map(|made| series(published, variant, &made.above)).collect(),
    }
}

fn resource(made: &Derived) -> Resource {
    Resource {
        id: format!("{}_percent", made.above),
        title: format!("{}, %", made.above),
        shown: three,
        // What such studies had was /proc/stat.
        tick_sampled: true,
    }
}

/// The first sentences: which service is lower than all others, and by what none differs, sample by sample.
fn lead(published: &Published, paired: &[SampledPair]) -> Vec<String> {
    let (mut lowest, mut same) = (vec![], vec![]);
    for made in &published.derived {
        let words = made.metric.replace('_', " ");
        let of_metric: Vec<&SampledPair> = paired.iter().filter(|pair| pair.metric == made.metric).collect();
        if of_metric.iter().all(|pair| !pair.ratio.separated()) {
            same.push(words.clone());
        }
        for name in published.variants() {
            let times = |(other, Ratio { value, low, high, .. }): (&str, Ratio)| {
                (high < 1.0).then(|| format!("{} times {other}", number::ratio(value, low, high)))
            };
            let own = of_metric.iter().filter_map(|pair| pair.of(name));
            let over: Option<Vec<String>> = own.map(times).collect();
            let all = |over: &Vec<String>| !over.is_empty() && over.len() + 1 == published.variants().len();
            lowest.extend(over.filter(all).map(|over| {
                let count = over.len();
                format!("{name} is lower than all {count} others by {words}: {}.", over.join(", "))
            }));
        }
    }
    lowest.extend((!same.is_empty()).then(|| {
        format!("No two services differ significantly by {}, sample by sample.", same.join(" or "))
    }));
    lowest
}

/// Two services on one resource, sample by sample.
struct SampledPair<'a> {
    metric: &'a str,
    a: &'a str,
    b: &'a str,
    ratio: Ratio,
}

fn paired(published: &Published) -> Vec<SampledPair<'_>> {
    let mut all = vec![];
    for made in &published.derived {
        let per_request = |variant: &str| -> Vec<f64> {
            let of = |metric: &str| series(published, variant, metric).into_iter();
            of(&made.above).zip(of(&made.below)).map(|(above, below)| above / below).collect()
        };
        all.extend(every_two(&published.variants()).filter_map(|(a, b)| {
            let ratio = Ratio::of(log_ratios(&per_request(a), &per_request(b)).d)?;
            Some(SampledPair { metric: &made.metric, a, b, ratio })
        }));
    }
    all
}

fn paired_table(document: &mut Document, paired: &[SampledPair]) {
    document.heading(3, "Sample by sample");
    let row = |one: &SampledPair| {
        let verdict = cost::cost_verdict(one.b, one.ratio.into(), one.ratio.separated());
        row![one.metric, format!("{} over {}", one.b, one.a), ratio_cell(one.ratio, ""), verdict]
    };
    document.table(Table::figures(["resource", "B over A", "ratio", "verdict"]).with(paired.iter().map(row)));
    document.text(
        "Hodges–Lehmann ratios within samples, with exact 95% intervals, not corrected for their number.",
    );
}

impl<'a> SampledPair<'a> {
    /// The other service, and the ratio of this one over it; `None` if the pair is of others.
    fn of(&self, name: &str) -> Option<(&'a str, Ratio)> {
        match name {
            name if name == self.b => Some((self.a, self.ratio)),
            name if name == self.a => Some((self.b, self.ratio.inverse())),
            _ => None,
        }
    }

    fn json(&self) -> Value {
        json!({
            "metric": self.metric,
            "a": self.a,
            "b": self.b,
            "ratio_b_to_a": Estimate::from(self.ratio),
            "samples": self.ratio.rounds,
            "significantly_different": self.ratio.separated(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::study;

    #[test]
    fn the_proxies_of_the_study() {
        let set = study::find("wilton").unwrap().published().unwrap().remove(0);
        let page = compare_services(&set).unwrap();
        // By awk over the ten samples: Σ iowait / Σ requests of xfs is 55.5/432.6.
        let xfs = &page.json["services"][1];
        assert_eq!(xfs["name"], "xfs");
        let iowait =
            xfs["costs"].as_array().unwrap().iter().find(|cost| cost["resource"] == "iowait_percent");
        let per_request = iowait.unwrap()["per_request"].as_f64().unwrap();
        assert!((per_request - 0.128_294).abs() < 1e-5, "{per_request}");
        let answer = page.json["answer"].to_string();
        assert!(
            answer.starts_with("[\"xfs is lower than all 3 others by iowait per request: 0.419 "),
            "{answer}"
        );
        assert!(
            answer.contains("Of all 18 figures") && answer.contains("jfs over xfs, 3 figures"),
            "{answer}"
        );
        assert_eq!(
            page.chart.as_ref().expect("a picture").panels.len(),
            6,
            "one for each pair of four services"
        );
        assert_eq!(page.json["recomputed"]["do_not_follow"].as_array().unwrap().len(), 2);
        let outcome = |words: &str| {
            let all = page.json["conclusions"].as_array().unwrap();
            let one = all.iter().find(|one| one["says"].as_str().unwrap().contains(words)).unwrap();
            one["then"]["outcome"].as_str().unwrap_or("none").to_string()
        };
        assert_eq!(outcome("xfs is lowest"), "held");
    }
}
