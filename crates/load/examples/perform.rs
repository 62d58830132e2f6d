//! Performs the tasks of a workload in two empty directories and prints how long each took, for the development of
//! workloads and for strace. It does not wait until the machine is idle, so its times cannot be compared.
//!
//! `cargo run --release -p fsarena-load --example perform -- ROOT OTHER coreutils [SCALE] [SETTING=VALUE]...`

use fsarena_core::{scale::Scale, setting::Settings};
use fsarena_load::workload::{Job, Place};
use std::{error::Error, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [root, source_dir, workload_name, options @ ..] = args.as_slice() else {
        return Err("arguments: ROOT OTHER WORKLOAD [SCALE] [SETTING=VALUE]...".into());
    };
    let workload = fsarena_load::workloads::find_workload(workload_name).ok_or("unknown workload")?;
    let mut job = Job { settings: Settings::defaults(workload.def().settings), scale: Scale::Tiny, seed: 1 };
    for word in options {
        if let Some(scale) = Scale::ALL.into_iter().find(|scale| scale.name() == word) {
            job.scale = scale;
            continue;
        }
        let (id, value) = word.split_once('=').ok_or("neither a scale nor SETTING=VALUE")?;
        let def = workload.def().settings.iter().find(|def| def.id == id).ok_or("unknown setting")?;
        let value = def.kind.parse(value).ok_or_else(|| format!("{id} must be {}", def.kind))?;
        job.settings.0.insert(id.to_string(), value);
    }
    let place = Place { root: root.into(), source_dir: source_dir.into(), server_user: None };
    println!("{:?}", workload.survey(&job)?.room);
    let start = Instant::now();
    workload.make_inputs(&job, &place)?;
    println!("{:8.3} s inputs", start.elapsed().as_secs_f64());
    let (mut timed_s, mut untimed_s) = (0.0, 0.0);
    for task in workload.tasks(&job, &place)? {
        let start = Instant::now();
        for action in task.preparation {
            action.perform(&mut |_| {})?;
        }
        let preparation_s = start.elapsed().as_secs_f64();
        for action in task.work {
            action.perform(&mut |_| {})?;
        }
        let work_s = start.elapsed().as_secs_f64() - preparation_s;
        println!("{work_s:8.3} s {}", task.info.title);
        timed_s += work_s;
        untimed_s += preparation_s;
    }
    println!("{timed_s:8.3} s in all, {untimed_s:.3} s preparing");
    Ok(())
}
