//! The order in which people read steps.

use fsarena_core::cell::StepId;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Steps of one name next to each other, where the first of them was, by their parameters: `clients=5` before
/// `clients=10`. A run has them in the random order in which its first cell took them.
pub(crate) fn siblings_together<T>(mut steps: Vec<T>, id: impl Fn(&T) -> &StepId) -> Vec<T> {
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, step) in steps.iter().enumerate() {
        places.entry(id(step).name.clone()).or_insert(place);
    }
    steps.sort_by(|a, b| {
        let (a, b) = (id(a), id(b));
        places[&a.name].cmp(&places[&b.name]).then_with(|| parameters(a, b))
    });
    steps
}

/// Parameter by parameter; numbers by their value.
fn parameters(a: &StepId, b: &StepId) -> Ordering {
    let pairs = a.params.iter().zip(&b.params);
    let different = pairs.map(|((a_key, a), (b_key, b))| a_key.cmp(b_key).then_with(|| value(a, b)));
    different.fold(Ordering::Equal, Ordering::then).then(a.params.len().cmp(&b.params.len()))
}

fn value(a: &str, b: &str) -> Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.total_cmp(&b),
        // Numbers before words, so that the order has no circles.
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cells, plan, sample, writer};
    use fsarena_core::event::{CellEvent, Event, Outcome};

    fn ordered(steps: &[(&str, &[(&str, &str)])]) -> Vec<String> {
        let ids = steps.iter().map(|(name, params)| StepId {
            name: (*name).into(),
            params: params.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        });
        siblings_together(ids.collect(), |id| id).iter().map(StepId::to_string).collect()
    }

    #[test]
    fn numbers_ascend_within_a_name_and_names_stay() {
        let clients = |n| ("dbench", [("clients", n)]);
        let [ten, five] = [clients("10"), clients("5")];
        let steps: Vec<(&str, &[(&str, &str)])> =
            vec![("mkfs", &[]), (ten.0, &ten.1), ("untar", &[]), (five.0, &five.1), ("copy", &[])];
        assert_eq!(ordered(&steps), ["mkfs", "dbench[clients=5]", "dbench[clients=10]", "untar", "copy"]);
    }

    #[test]
    fn samples_keep_their_steps() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4"]);
        let (run, mut writer) = writer(root.path(), &plan);
        let cell = cells(&plan, 0).remove(0);
        writer.apply(&Event::CellStarted { cell: cell.clone() }).unwrap();
        for clients in ["20", "5", "10"] {
            let mut sample = sample("dbench", clients.parse().unwrap());
            sample.step.id.params.insert("clients".into(), clients.into());
            let what = CellEvent::Sample(sample);
            writer.apply(&Event::Cell { cell: cell.id(), what }).unwrap();
        }
        writer.apply(&Event::CellFinished { cell: cell.id(), outcome: Outcome::Done }).unwrap();
        let record = crate::read(&run).unwrap();
        let shown: Vec<String> = record.steps.iter().map(|step| step.id.to_string()).collect();
        assert_eq!(shown, ["dbench[clients=5]", "dbench[clients=10]", "dbench[clients=20]"]);
        assert_eq!(record.samples.step, [2, 0, 1]);
    }

    #[test]
    fn the_first_parameter_that_differs_decides() {
        let steps: Vec<(&str, &[(&str, &str)])> = vec![
            ("rnd", &[("bs", "4096"), ("threads", "1")]),
            ("rnd", &[("bs", "512"), ("threads", "16")]),
            ("rnd", &[("bs", "512"), ("threads", "2")]),
            ("rnd", &[("bs", "all")]),
            ("rnd", &[]),
        ];
        let shown = [
            "rnd",
            "rnd[bs=512,threads=2]",
            "rnd[bs=512,threads=16]",
            "rnd[bs=4096,threads=1]",
            "rnd[bs=all]",
        ];
        assert_eq!(ordered(&steps), shown);
    }
}
