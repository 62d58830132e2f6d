//! The order in which people read tasks.

use fsarena_core::cell::TaskId;
use std::{cmp::Ordering, collections::HashMap};

/// Tasks of one name next to each other, where the first of them was, by their parameters: `clients=5` before
/// `clients=10`. A run has them in the random order in which its first cell took them.
pub fn siblings_together<T>(mut tasks: Vec<T>, id: impl Fn(&T) -> &TaskId) -> Vec<T> {
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, task) in tasks.iter().enumerate() {
        places.entry(id(task).name.clone()).or_insert(place);
    }
    tasks.sort_by(|a, b| {
        let (a, b) = (id(a), id(b));
        places[&a.name].cmp(&places[&b.name]).then_with(|| parameters(a, b))
    });
    tasks
}

/// Parameter by parameter; numbers by their value.
fn parameters(a: &TaskId, b: &TaskId) -> Ordering {
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

    fn ordered(tasks: &[(&str, &[(&str, &str)])]) -> Vec<String> {
        let ids = tasks.iter().map(|(name, params)| TaskId {
            name: (*name).into(),
            params: params.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        });
        siblings_together(ids.collect(), |id| id).iter().map(TaskId::to_string).collect()
    }

    #[test]
    fn numbers_ascend_within_a_name_and_names_stay() {
        let clients = |n| ("dbench", [("clients", n)]);
        let [ten, five] = [clients("10"), clients("5")];
        let tasks: Vec<(&str, &[(&str, &str)])> =
            vec![("mkfs", &[]), (ten.0, &ten.1), ("untar", &[]), (five.0, &five.1), ("copy", &[])];
        assert_eq!(ordered(&tasks), ["mkfs", "dbench[clients=5]", "dbench[clients=10]", "untar", "copy"]);
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
            sample.task.id.params.insert("clients".into(), clients.into());
            let what = CellEvent::Sample(sample);
            writer.apply(&Event::Cell { cell: cell.id(), what }).unwrap();
        }
        writer.apply(&Event::CellFinished { cell: cell.id(), outcome: Outcome::Done }).unwrap();
        let record = crate::read(&run).unwrap();
        let shown: Vec<String> = record.tasks.iter().map(|task| task.id.to_string()).collect();
        assert_eq!(shown, ["dbench[clients=5]", "dbench[clients=10]", "dbench[clients=20]"]);
        assert_eq!(record.samples.task, [2, 0, 1]);
    }

    #[test]
    fn the_first_parameter_that_differs_decides() {
        let tasks: Vec<(&str, &[(&str, &str)])> = vec![
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
        assert_eq!(ordered(&tasks), shown);
    }
}
