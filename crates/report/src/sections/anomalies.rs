//! What stands out in a block-size × threads matrix, and which variant is in the way: what such a run was made to answer.

use super::{Chapter, Detail, Document, Report, Section};
use crate::findings::{grounds, summary, titled_sentences};
use crate::{matrix::matrix_of_run, number::plural, words::sentence};
use fsarena_stats::matrix::cells::Matrix;
use fsarena_stats::matrix::{Analysis, analyse};

/// The maximum number of findings in this section, to keep it readable.
const MAX_FINDINGS: usize = 6;
/// The same where a screen holds the report.
const MAX_BRIEF: usize = 3;

/// What stands out in a matrix of block sizes and threads.
pub const ANOMALIES: Section = Section::new(Chapter::Answer, add_anomalies);

/// Adds the findings; nothing where the run measured no matrix.
fn add_anomalies(document: &mut Document, report: &Report, detail: Detail) {
    let Ok(matrix) = matrix_of_run(&report.record) else { return };
    let analysis = analyse(&matrix, None);
    document.heading(3, "Anomalies");
    document.text(variants_with_anomalies(&matrix, &analysis));
    let findings = titled_sentences(&matrix, &analysis);
    let full = detail >= Detail::Full;
    let most = if full { MAX_FINDINGS } else { MAX_BRIEF };
    let rest = findings.len().saturating_sub(most);
    let item = |(title, words): (String, Vec<String>)| {
        if full { format!("{title}. {}", words.join(" ")) } else { title }
    };
    document.list(findings.into_iter().take(most).map(item).collect());
    if rest > 0 {
        let rest = plural(rest, "finding");
        document.text(format!("{rest} more: `fsarena analyse {}` tells them.", report.record.id));
    }
    if full {
        document.text(grounds(&analysis));
    }
}

/// `Filesystems with anomalies: xfs (2 findings), ext4 (1). …`: the variants by how many findings they have, the bare device aside.
fn variants_with_anomalies(matrix: &Matrix, analysis: &Analysis) -> String {
    let of_variant =
        |variant: usize| analysis.findings.iter().filter(|finding| finding.variant == variant).count();
    let mut variants: Vec<usize> = (0..matrix.variants.len())
        .filter(|variant| !matrix.variants[*variant].raw && of_variant(*variant) > 0)
        .collect();
    variants.sort_by_key(|variant| std::cmp::Reverse(of_variant(*variant)));
    let named = |variant: usize| {
        format!("{} ({})", matrix.variants[variant].name, plural(of_variant(variant), "finding"))
    };
    let named: Vec<String> = variants.into_iter().map(named).collect();
    let who = sentence("Filesystems with anomalies", &named);
    format!("{} {}", who.as_deref().unwrap_or("No filesystem limits the load."), summary(matrix, analysis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_stats::matrix::cells::Row;

    #[test]
    fn the_variant_with_findings_is_in_the_way_and_the_bare_device_never() {
        let row = |variant: &str, threads: u32, iops: f64| Row {
            variant: variant.into(),
            raw: variant == "raw",
            mode: "rndwr".into(),
            block_size: 4096,
            threads,
            iops: vec![Some(iops)],
            client_bound: false,
        };
        let told = |slow: f64| {
            let rows = [row("raw", 1, 100.0), row("raw", 2, 190.0), row("xfs", 1, 95.0), row("xfs", 2, slow)];
            let matrix = Matrix::new(&rows).unwrap();
            variants_with_anomalies(&matrix, &analyse(&matrix, None))
        };
        assert!(
            told(20.0)
                .starts_with("Filesystems with anomalies: xfs (1 finding). 1 finding in 2 cells of xfs"),
            "{}",
            told(20.0)
        );
        assert!(told(185.0).starts_with("No filesystem limits the load. No anomaly in"), "{}", told(185.0));
    }
}
