//! The section about anomalies in a matrix of block sizes and threads: which filesystem limits the load, and where.

use crate::document::{Detail, Document};
use crate::findings::{describe_evidence, summarise_findings, titled_sentences};
use crate::{advice, matrix::matrix_of_run, number::plural, phrases::list_sentence, report::Report};
use fsarena_stats::matrix::cells::Matrix;
use fsarena_stats::matrix::{MatrixAnalysis, find_anomalies};

/// The maximum number of findings in a full report.
const MAX_FINDINGS: usize = 6;
/// The maximum number of findings in a brief report.
const MAX_BRIEF_FINDINGS: usize = 3;

/// Adds the findings about the matrix of the run; nothing if the run measured no matrix.
pub fn add_anomalies(document: &mut Document, report: &Report, detail: Detail) {
    let Ok(matrix) = matrix_of_run(&report.record) else { return };
    let analysis = find_anomalies(&matrix, None);
    document.heading(3, "Anomalies");
    document.text(anomalies_summary(&matrix, &analysis));
    let findings = titled_sentences(&matrix, &analysis);
    let is_full = detail >= Detail::Full;
    let max_findings = if is_full { MAX_FINDINGS } else { MAX_BRIEF_FINDINGS };
    let hidden_count = findings.len().saturating_sub(max_findings);
    let item = |(title, sentences): (String, Vec<String>)| {
        if is_full { format!("{title}. {}", sentences.join(" ")) } else { title }
    };
    document.list(findings.into_iter().take(max_findings).map(item).collect());
    if hidden_count > 0 {
        let hidden = plural(hidden_count, "finding");
        document.text(format!("{hidden} more: {} lists them.", advice::anomalies_command(&report.record.id)));
    }
    if is_full {
        document.text(describe_evidence(&analysis));
    }
}

/// The variants that have findings, those with the most findings first and without the bare device, then a summary of the
/// findings: `Filesystems with anomalies: xfs (2 findings), ext4 (1 finding). …`
fn anomalies_summary(matrix: &Matrix, analysis: &MatrixAnalysis) -> String {
    let mut counts = vec![];
    for (index, variant) in matrix.variants.iter().enumerate() {
        let count = analysis.findings.iter().filter(|finding| finding.variant == index).count();
        if !variant.is_bare_device && count > 0 {
            counts.push((&variant.name, count));
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let items: Vec<String> =
        counts.into_iter().map(|(name, count)| format!("{name} ({})", plural(count, "finding"))).collect();
    let variants = list_sentence("Filesystems with anomalies", &items);
    format!(
        "{} {}",
        variants.as_deref().unwrap_or("No filesystem limits the load."),
        summarise_findings(matrix, analysis)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_stats::matrix::cells::MatrixRow;

    #[test]
    fn variants_with_findings_are_listed_without_the_bare_device() {
        let row = |variant: &str, threads: u32, iops: f64| MatrixRow {
            variant: variant.into(),
            is_bare_device: variant == "raw",
            mode: "rndwr".into(),
            block_size: 4096,
            threads,
            iops: vec![Some(iops)],
            client_bound: false,
        };
        let summary_for = |slow: f64| {
            let rows = [row("raw", 1, 100.0), row("raw", 2, 190.0), row("xfs", 1, 95.0), row("xfs", 2, slow)];
            let matrix = Matrix::new(&rows).unwrap();
            anomalies_summary(&matrix, &find_anomalies(&matrix, None))
        };
        assert!(
            summary_for(20.0).starts_with("Filesystems with anomalies: xfs (1 finding). 1 finding in 2 cells of xfs"),
            "{}",
            summary_for(20.0)
        );
        assert!(
            summary_for(185.0).starts_with("No filesystem limits the load. No anomaly in"),
            "{}",
            summary_for(185.0)
        );
    }
}
