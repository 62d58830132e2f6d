//! How throughput scales with clients, in sentences, a table, and JSON.

pub mod curves;
pub mod file;
pub(crate) mod words;

use crate::document::{Document, Table, row};
use crate::{number::three, page::Page};
use fsarena_stats::scaling::laws::Law;
use fsarena_stats::scaling::laws::{Fit, MISFIT};
use fsarena_stats::scaling::{Doubling, Scaling};
use fsarena_stats::table::FIRST_LOOK;
use serde_json::{Value, json};
use words::{grounds, overview};

/// The findings about several series, each a curve of throughput over clients. With `tables` the document shows the
/// figures too; the JSON always has them.
pub fn page(source: &str, all: &[Scaling], tables: bool) -> Page {
    let mut document = Document::default();
    document.heading(1, format!("Scaling in {source}"));
    document.text(grounds(all.iter()));
    let replicates = |one: &Scaling| one.series.rounds() > 1 && one.series.fewest() < FIRST_LOOK;
    if all.iter().any(replicates) {
        document.loud("PROVISIONAL: fewer than 8 rounds, or values per point, give no exact interval.");
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

fn figures(one: &Scaling) -> Table {
    let rows = one.series.n.iter().zip(one.series.means());
    let rows = rows.map(|(n, mean)| row![n.to_string(), three(mean.exp())]);
    Table::figures(["clients", &one.series.name]).with(rows)
}

fn json(source: &str, all: &[Scaling]) -> Value {
    json!({ "format": 1, "source": source, "series": all.iter().map(series).collect::<Vec<_>>() })
}

fn series(one: &Scaling) -> Value {
    let finite = |x: &f64| x.is_finite().then_some(*x);
    let saturation = one.saturation.as_ref().map(|saturation| {
        let doubling = |d: &Doubling| json!({ "clients": d.n, "gain_of_double": d.gain });
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
    let point = |(n, x): (&f64, &Vec<f64>)| json!({ "clients": n, "throughput": x.iter().map(finite).collect::<Vec<_>>() });
    json!({
        "name": one.series.name,
        "paired": one.series.paired,
        "sentences": words::sentences(one),
        "winner": one.choice.as_ref().and_then(|choice| choice.winner()).map(|fit| fit.law.name()),
        "fits": one.choice.iter().flat_map(|choice| choice.fits.iter().map(fit)).collect::<Vec<_>>(),
        "saturation": saturation,
        "peak": peak,
        "points": one.series.n.iter().zip(&one.series.x).map(point).collect::<Vec<_>>(),
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
