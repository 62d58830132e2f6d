//! Stages: runs that a study makes one after another, the later ones of what an earlier one found best.

use super::file::{Pairs, PlanFile, StageFile};
use std::collections::BTreeSet;
use toml::Spanned;

impl PlanFile {
    /// The plan of one stage: its factors, settings and scales before those of the whole.
    pub fn of_stage(&self, stage: &StageFile) -> PlanFile {
        let mut file = self.clone();
        file.stages.clear();
        if !stage.question.is_empty() {
            file.question.clone_from(&stage.question);
        }
        lay_over(&mut file.factors, &stage.factors);
        if let Some(workload) = &stage.workload {
            let named = Spanned::new(0..0, "use".to_string());
            file.workloads = vec![[(named, workload.clone())].into()];
        }
        for workload in &mut file.workloads {
            lay_over(workload, &stage.set);
        }
        for (scale, own) in &stage.scales {
            let whole = file.scales.entry(*scale).or_default();
            whole.rounds = own.rounds.clone().or(whole.rounds.take());
            whole.budget = own.budget.clone().or(whole.budget.take());
            lay_over(&mut whole.set, &own.set);
            lay_over(&mut whole.factors, &own.factors);
        }
        file
    }

    /// The first fault in the stages, if any.
    pub fn stages_fault(&self) -> Option<String> {
        let mut before = BTreeSet::new();
        for stage in &self.stages {
            if before.contains(&stage.name) {
                return Some(format!("two stages are called `{}`", stage.name));
            }
            match (&stage.best, &stage.of) {
                (None, None) => {}
                (Some(_), Some(of)) if before.contains(of) => {}
                (Some(_), Some(of)) => {
                    return Some(match self.circle(stage) {
                        Some(circle) => format!("stages need each other in a circle: {circle}"),
                        None => format!("no stage before `{}` is called `{of}`", stage.name),
                    });
                }
                _ => return Some(format!("stage `{}`: `best` and `of` go together", stage.name)),
            }
            before.insert(&stage.name);
        }
        None
    }

    /// The stages that lead from one back to itself, in words; none where they do not.
    fn circle(&self, from: &StageFile) -> Option<String> {
        let (mut words, mut at) = (format!("`{}`", from.name), from);
        for _ in &self.stages {
            let of = at.of.as_ref()?;
            words.push_str(&format!(" → `{of}`"));
            if *of == from.name {
                return Some(words);
            }
            at = self.stages.iter().find(|stage| stage.name == *of)?;
        }
        None
    }
}

/// Puts values over others, each with its own place in the text.
fn lay_over(whole: &mut Pairs, own: &Pairs) {
    for (id, value) in own {
        whole.remove(id);
        whole.insert(id.clone(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;

    const TEXT: &str = "name = 'x'\n[factors]\nfs = ['ext4']\n[scales.quick]\nrounds = 3\n[[workload]]\nuse = 'w'\n\
        clients = 1\n[[stage]]\nname = 'one'\nfactors = { scheduler = ['none'] }\nset = { clients = [5] }\n\
        [[stage]]\nname = 'two'\nbest = 'scheduler'\nof = 'one'\nquestion = 'Then?'\n\
        [stage.scales.quick]\nbudget = '9s'\nset = { seconds = 1 }\n";

    fn parsed(text: &str) -> PlanFile {
        PlanFile::parse("x", text.as_bytes()).unwrap().file
    }

    #[test]
    fn a_stage_changes_what_it_names() {
        let file = parsed(TEXT);
        let (one, two) = (file.of_stage(&file.stages[0]), file.of_stage(&file.stages[1]));
        assert_eq!((one.factors.len(), two.factors.len()), (2, 1));
        let clients = |file: &PlanFile| {
            let pairs = &file.workloads[0];
            pairs.iter().find(|(id, _)| id.get_ref() == "clients").unwrap().1.get_ref().clone()
        };
        assert!(clients(&one).is_array() && clients(&two).is_integer());
        let quick = &two.scales[&Scale::Quick];
        assert_eq!((*quick.rounds.as_ref().unwrap().get_ref(), quick.set.len()), (3, 1));
        assert_eq!((two.question.as_str(), one.stages.len()), ("Then?", 0));
        assert_eq!(file.stages_fault(), None);
    }

    #[test]
    fn stages_build_on_stages_before_them() {
        let fault = |from: &str, to: &str| {
            PlanFile::parse("x", TEXT.replace(from, to).as_bytes()).unwrap_err().to_string()
        };
        assert!(fault("of = 'one'", "of = 'two'").contains("in a circle: `two` → `two`"));
        assert!(fault("of = 'one'", "of = 'three'").contains("no stage before `two` is called `three`"));
        let round = "name = 'one'\nbest = 'fs'\nof = 'two'";
        assert!(fault("name = 'one'", round).contains("in a circle: `one` → `two` → `one`"));
        assert!(fault("of = 'one'", "").contains("go together"));
        assert!(fault("name = 'two'", "name = 'one'").contains("two stages are called `one`"));
    }
}
