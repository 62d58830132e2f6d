//! A run, analysed and ready to be exported.

use crate::commands::Commands;
use crate::error::Error;
use crate::sections::answer::sentences;
use fsarena_core::claim::Claim;
use fsarena_core::conclusion;
use fsarena_core::exit::ExitCode;
use fsarena_core::record::RunRecord;
use fsarena_core::study;
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::conclusion::{Checked, check};
use fsarena_stats::judge::{Judged, judge_all};
use fsarena_stats::verdict::{self, Outcome};

/// A run, analysed and ready to be exported.
#[derive(Debug)]
pub struct Report {
    /// The run.
    pub record: RunRecord,
    /// The analyses, the main one first.
    pub analyses: Vec<Analysis>,
    /// The difference that matters, as a fraction.
    pub margin: f64,
    /// How much tasks weigh in the ranking: by name or number; 1 for those not named.
    pub weights: Vec<(String, f64)>,
    /// What the machine can resolve by its own self-test, in words.
    pub resolution: Option<String>,
    /// The claims of the plan, and those added, judged.
    pub claims: Vec<Judged>,
    /// What the author of the study concluded, checked. It says nothing of how a program ends.
    pub conclusions: Vec<Checked>,
    /// The commands that were run, where the report is to show them.
    pub commands: Commands,
    /// The folder of its charts as SVG, as a link from where the report will lie; none where there are none.
    pub pictures: Option<String>,
    /// Columns of the terminal, where that is known.
    pub width: Option<u16>,
    /// Whether the terminal shows colours.
    pub colour: bool,
}

/// What answers for tasks, which end when they are done.
const TASKS: &[&str] = &["elapsed", "durable"];

fn conclusions(record: &RunRecord) -> Result<Vec<Checked>, Error> {
    let Some(study) = study::find(&record.plan.name) else { return Ok(vec![]) };
    let mut conclusions = conclusion::of(study)?;
    if let Some(stage) = &record.plan.stage {
        conclusions.list.retain(|one| one.stage.as_ref().is_none_or(|name| *name == stage.name));
    }
    Ok(check(&conclusions, &study.published()?, record))
}

impl Report {
    /// Analyses a run by these metrics, which the caller has of its workloads; where there are none, by the times of
    /// tasks.
    ///
    /// # Errors
    /// Where a metric is not known.
    pub fn new(record: RunRecord, metrics: &[&str]) -> Result<Report, Error> {
        let metrics = if metrics.is_empty() { TASKS } else { metrics };
        let mut analyses: Vec<Analysis> =
            metrics.iter().map(|metric| analyse(&record, metric)).collect::<Result<_, _>>()?;
        let claims = judge_all(&record, &record.plan.claims);
        let mut conclusions = conclusions(&record)?;
        if !record.plan.device.backing.ranks() {
            analyses = analyses.into_iter().map(Analysis::unranked).collect();
            conclusions.clear();
        }
        Ok(Report {
            margin: record.plan.stop.margin(),
            record,
            analyses,
            weights: vec![],
            resolution: None,
            claims,
            conclusions,
            commands: Commands::default(),
            pictures: None,
            width: None,
            colour: false,
        })
    }

    /// Whether it may say that one variant is better than another.
    pub fn ranks(&self) -> bool {
        self.record.plan.device.backing.ranks()
    }

    /// Judges further claims.
    ///
    /// # Errors
    /// Where the run cannot tell which variant is better.
    pub fn judge(&mut self, claims: &[Claim]) -> Result<(), Error> {
        if !self.ranks() && !claims.is_empty() {
            return Err(Error::RanksNothing(self.record.id.clone()));
        }
        self.claims.extend(judge_all(&self.record, claims));
        Ok(())
    }

    /// The answer in one line: how many claims stand how, and the first that is said of the main metric.
    pub fn in_a_line(&self) -> String {
        const OUTCOMES: [Outcome; 4] =
            [Outcome::Held, Outcome::Refuted, Outcome::Equivalent, Outcome::Inconclusive];
        let of = |outcome: &Outcome| self.claims.iter().filter(|judged| judged.outcome() == *outcome).count();
        let counts =
            OUTCOMES.iter().map(|outcome| (of(outcome), outcome.name())).filter(|(count, _)| *count > 0);
        let claims: Vec<String> = counts.map(|(count, name)| format!("{count} {name}")).collect();
        let names: Vec<&str> = self.record.variants.iter().map(|variant| variant.name.as_str()).collect();
        let sentences = self.analyses.first().map_or(vec![], |analysis| sentences(&names, analysis));
        let claims = (!claims.is_empty()).then(|| format!("{}.", claims.join(", ")));
        claims.into_iter().chain(sentences.into_iter().next()).collect::<Vec<_>>().join(" ")
    }

    /// How the claims end a program.
    pub fn exit_code(&self) -> ExitCode {
        verdict::exit_code(&self.claims.iter().map(Judged::outcome).collect::<Vec<Outcome>>())
    }
}
