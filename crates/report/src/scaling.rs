//! How throughput scales with clients, in sentences, a table, and JSON.

pub mod curves;
pub mod file;
pub(crate) mod words;

use crate::document::{Cell, Document, Part, Table, row};
use crate::number::{plural, three};
use crate::page::Page;
use fsarena_stats::scaling::Scaling;
use fsarena_stats::scaling::choice::{Fit, MISFIT};
use fsarena_stats::scaling::laws::Law;
use fsarena_stats::table::FIRST_LOOK;
use serde_json::{Value, json};

/// The findings about several series, each a curve of throughput over clients. With `tables` the document shows the
/// figures too; the JSON always has them.
pub fn page(source: &str, all: &[Scaling], tables: bool) -> Page {
    let mut document = Document::default();
    document.heading(1, format!("Scaling in {source}"));
    let rounds = all.iter().map(|one| one.series.rounds()).max().unwrap_or(0);
    document.text(grounds(rounds));
    if (2..FIRST_LOOK).contains(&rounds) {
        document.parts.push(Part::Loud("PROVISIONAL: fewer than 8 rounds give no exact interval.".into()));
    }
    if all.len() > 1 {
        document.table(overview(all.iter()));
    }
    for one in all {
        document.heading(2, one.series.name.clone());
        document.list(words::sentences(one));
    }
    if tables {
        document.heading(2, "Figures");
        all.iter().for_each(|one| document.table(figures(one)));
    }
    Page { document, json: json(source, all) }
}

/// What the intervals stand on.
pub(crate) fn grounds(rounds: usize) -> String {
    match rounds {
        0 | 1 => "There is only one value per point, so intervals are unknown.".into(),
        rounds => format!(
            "Up to {}. Laws are fitted to ln X of every replicate and chosen by AICc; saturation and what is left \
             at the end are within-round ratios with 95% intervals, the peak has that of round bootstrap.",
            plural(rounds, "round")
        ),
    }
}

/// A row for each series: its law, where it saturates and peaks, and what is left at the end.
pub(crate) fn overview<'s>(all: impl Iterator<Item = &'s Scaling>) -> Table {
    let header = ["series", "law", "saturates at", "peaks at", "left at the end"];
    let mut table = Table::words(header);
    let row = |one: &Scaling| {
        let (saturation, peak) = (words::saturation_range(one), words::peak_range(one));
        let cells = [one.series.name.clone(), words::law(one), saturation, peak, words::left(one)];
        cells.map(Cell::from).to_vec()
    };
    table.rows = all.map(row).collect();
    table
}

fn figures(one: &Scaling) -> Table {
    let mut table = Table::figures(["clients", &one.series.name]);
    let rows = one.series.n.iter().zip(one.series.means());
    table.rows = rows.map(|(n, mean)| row![n.to_string(), three(mean.exp())]).collect();
    table
}

fn json(source: &str, all: &[Scaling]) -> Value {
    json!({ "format": 1, "source": source, "series": all.iter().map(series).collect::<Vec<_>>() })
}

fn series(one: &Scaling) -> Value {
    let finite = |x: &f64| x.is_finite().then_some(*x);
    let saturation = one.saturation.as_ref().map(|saturation| {
        let doubling = |d: &fsarena_stats::scaling::saturation::Doubling| {
            json!({ "clients": d.n, "gain_of_double": d.gain })
        };
        let doublings: Vec<Value> = saturation.doublings.iter().map(doubling).collect();
        json!({ "clients": saturation.at, "from_clients": saturation.from, "doublings": doublings })
    });
    let peak = json!({
        "clients": one.peak.at,
        "interval": one.peak.interval.map(|(low, high)| [low, high]),
        "throughput": one.peak.throughput,
        "share_at_end": one.peak.at_end,
        "modelled": one.modelled_peak.map(|p| json!({
            "clients": p.value, "low": finite(&p.low), "high": finite(&p.high),
        })),
    });
    let points = one
        .series
        .n
        .iter()
        .zip(&one.series.x)
        .map(|(n, x)| json!({ "clients": n, "throughput": x.iter().map(finite).collect::<Vec<_>>() }));
    json!({
        "name": one.series.name,
        "sentences": words::sentences(one),
        "winner": one.choice.as_ref().and_then(|choice| choice.winner()).map(|fit| fit.law.name()),
        "fits": one.choice.iter().flat_map(|choice| choice.fits.iter().map(fit)).collect::<Vec<_>>(),
        "saturation": saturation,
        "peak": peak,
        "points": points.collect::<Vec<_>>(),
    })
}

fn fit(fit: &Fit) -> Value {
    let parameters = match fit.law {
        Law::Power { a, b } => json!({ "a": a, "b": b }),
        Law::Amdahl { lambda, sigma } => json!({ "lambda": lambda, "sigma": sigma }),
        Law::Usl { lambda, sigma, kappa } => json!({ "lambda": lambda, "sigma": sigma, "kappa": kappa }),
        Law::Hinge { a, b, knee } => json!({ "a": a, "b": b, "knee_clients": knee }),
    };
    json!({
        "law": fit.law.name(),
        "parameters": parameters,
        "aicc": fit.aicc,
        "r_squared": fit.r_squared,
        "lack_of_fit": fit.lack.map(|lack| json!({ "f": lack.f, "p": lack.p, "misfit": lack.p < MISFIT })),
    })
}
