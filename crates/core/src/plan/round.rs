//! Rounds: runs that a study makes one after another, the later ones of what an earlier one found best.

use super::file::{PlanFile, RoundFile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which round of a study a run is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Round {
    /// Its name: `saturation`.
    pub name: String,
    /// The runs of the rounds before it, by the names of these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub earlier: BTreeMap<String, String>,
}

impl PlanFile {
    /// The plan of one round: its factors, settings and scales before those of the whole.
    pub fn of_round(&self, round: &RoundFile) -> PlanFile {
        let mut file = self.clone();
        file.rounds.clear();
        if !round.question.is_empty() {
            file.question.clone_from(&round.question);
        }
        for (id, levels) in &round.factors {
            file.factors.remove(id);
            file.factors.insert(id.clone(), levels.clone());
        }
        for workload in &mut file.workloads {
            for (id, value) in &round.set {
                workload.remove(id);
                workload.insert(id.clone(), value.clone());
            }
        }
        for (scale, own) in &round.scales {
            let whole = file.scales.entry(*scale).or_default();
            whole.blocks = own.blocks.clone().or(whole.blocks.take());
            whole.budget = own.budget.clone().or(whole.budget.take());
            for (id, value) in &own.set {
                whole.set.remove(id);
                whole.set.insert(id.clone(), value.clone());
            }
        }
        file
    }

    /// What is wrong with the rounds, where anything is.
    pub fn rounds_fault(&self) -> Option<String> {
        for (at, round) in self.rounds.iter().enumerate() {
            let before = || self.rounds[..at].iter().map(|earlier| &earlier.name);
            if before().any(|name| *name == round.name) {
                return Some(format!("two rounds are called `{}`", round.name));
            }
            match (&round.best, &round.of) {
                (None, None) => {}
                (Some(_), Some(of)) if before().any(|name| name == of) => {}
                (Some(_), Some(of)) => {
                    return Some(format!("no round before `{}` is called `{of}`", round.name));
                }
                _ => return Some(format!("round `{}`: `best` and `of` go together", round.name)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;

    const TEXT: &str = "name = 'x'\n[factors]\nfs = ['ext4']\n[scales.quick]\nblocks = 3\n[[workload]]\nuse = 'w'\n\
        clients = 1\n[[round]]\nname = 'one'\nfactors = { scheduler = ['none'] }\nset = { clients = [5] }\n\
        [[round]]\nname = 'two'\nbest = 'scheduler'\nof = 'one'\nquestion = 'Then?'\n\
        [round.scales.quick]\nbudget = '9s'\nset = { seconds = 1 }\n";

    fn parsed(text: &str) -> PlanFile {
        PlanFile::parse("x", text.as_bytes()).unwrap().0
    }

    #[test]
    fn a_round_changes_what_it_names() {
        let file = parsed(TEXT);
        let (one, two) = (file.of_round(&file.rounds[0]), file.of_round(&file.rounds[1]));
        assert_eq!((one.factors.len(), two.factors.len()), (2, 1));
        let clients = |file: &PlanFile| {
            let pairs = &file.workloads[0];
            pairs.iter().find(|(id, _)| id.get_ref() == "clients").unwrap().1.get_ref().clone()
        };
        assert!(clients(&one).is_array() && clients(&two).is_integer());
        let quick = &two.scales[&Scale::Quick];
        assert_eq!((*quick.blocks.as_ref().unwrap().get_ref(), quick.set.len()), (3, 1));
        assert_eq!((two.question.as_str(), one.rounds.len()), ("Then?", 0));
        assert_eq!(file.rounds_fault(), None);
    }

    #[test]
    fn rounds_build_on_rounds_before_them() {
        let fault = |from: &str, to: &str| parsed(&TEXT.replace(from, to)).rounds_fault().unwrap();
        assert!(fault("of = 'one'", "of = 'two'").contains("no round before `two` is called `two`"));
        assert!(fault("of = 'one'", "").contains("go together"));
        assert!(fault("name = 'two'", "name = 'one'").contains("two rounds are called `one`"));
    }
}
