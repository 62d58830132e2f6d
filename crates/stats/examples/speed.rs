//! How long the analysis takes: `cargo run --release -p fsarena-stats --example speed`.

use fsarena_core::claim::{Claim, Relation};
use fsarena_stats::ebh::e_bh;
use fsarena_stats::simulate::noise::{Noise, Order, differences};
use fsarena_stats::simulate::stream;
use fsarena_stats::simultaneous::simultaneous;
use fsarena_stats::verdict::judge;
use fsarena_stats::walsh::Walsh;
use fsarena_stats::{bca, evalue};
use std::hint::black_box;
use std::time::Instant;

const CLAIMS: usize = 1_000;
const BLOCKS: usize = 400;

fn main() {
    let data: Vec<Vec<f64>> = (0..CLAIMS as u64)
        .map(|claim| differences(Noise::Spikes, Order::Random, BLOCKS, &mut stream(1, claim)))
        .collect();
    time("1,000 claims x 400 blocks: parse, judge, e-BH", || {
        let verdicts = data.iter().map(|d| {
            let claim: Claim = black_box("untar.elapsed: xfs < ext4 by 1%").parse().expect("a claim");
            match claim.relation {
                Relation::Pair(pair) => judge(&pair, d, Some(0.01)).expect("blocks"),
                Relation::Extreme(_) => unreachable!("the claim is about a pair"),
            }
        });
        let e: Vec<f64> = verdicts.map(|verdict| verdict.e_value).collect();
        black_box(e_bh(&e, 0.05));
    });
    time("Hodges-Lehmann and its 95% interval, 400 blocks", || {
        let walsh = Walsh::new(data[0].clone()).expect("finite");
        black_box((walsh.estimate(), walsh.interval(33_790)));
    });
    time("e-value interval, 400 blocks", || {
        black_box(evalue::interval(&data[0], 0.05));
    });
    let values: Vec<Vec<f64>> = data[..6].iter().map(|d| d.iter().map(|d| d.exp()).collect()).collect();
    time("BCa interval, 400 blocks", || {
        black_box(bca::mean_ratio(&values[0], &values[1], 1));
    });
    time("simultaneous intervals of 6 arms, 400 blocks", || {
        black_box(simultaneous(&values, 1));
    });
}

fn time(what: &str, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    println!("{:50} {:9.3} ms", what, 1e3 * start.elapsed().as_secs_f64());
}
