//! How fast the CPUs are: by frequency where the machine sets it, by a quota of CPU time where it does not.

use super::axis::{Axis, CellSetup, LevelCheck, lacking, unfit, wrong};
use super::load::parse_cpus;
use crate::error::Result;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::factor;
use fsarena_sys::kernel::{self, SysRoot};
use fsarena_sys::{Error, cgroup::Controller};
use std::path::{Path, PathBuf};

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::CPU_SPEED,
    "50%, powersave, 1200MHz",
    "speed of the CPUs: a share (`50%`: of the highest frequency where the machine sets it, else of CPU time by a cgroup quota), a governor, or a highest frequency; empty leaves it",
    |level| parse(level).map(drop),
)
.and_directories()
.checked(check)
.set_up(set_up);

/// The period of a quota, in microseconds: short, so that the load is slowed down and not stopped and started.
const PERIOD: u64 = 10_000;

/// Directories of the frequency settings of all CPUs.
fn policies(kernel: &SysRoot) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(kernel.path("sys/devices/system/cpu")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path().join("cpufreq")).collect();
    found.retain(|path| path.join("scaling_max_freq").exists());
    found.sort();
    found
}

fn controller(kernel: &SysRoot) -> Option<Controller> {
    Controller::find(kernel, "cpu", "cpu")
}

fn check(check: &LevelCheck) -> Result<()> {
    let level = check.variant.level(factor::CPU_SPEED);
    let speed = parse(level).map_err(|why| wrong(check, factor::CPU_SPEED, why))?;
    let policies = policies(check.kernel);
    let why = match (speed, policies.first()) {
        (None, _) => return Ok(()),
        (Some(Speed::Share(_)), None) if controller(check.kernel).is_none() => {
            "this machine sets no frequency and its kernel offers no CPU quota (cgroup)".into()
        }
        (Some(Speed::Share(_)), _) => return Ok(()),
        (Some(_), None) => {
            "this machine sets no frequency (no cpufreq); take a share of CPU time such as `50%`".into()
        }
        (Some(Speed::Governor(name)), Some(policy)) => {
            let known = read(policy, "scaling_available_governors");
            if known.split_whitespace().any(|known| known == name) {
                return Ok(());
            }
            format!("its governors are {known}")
        }
        (Some(Speed::Frequency(khz)), Some(policy)) => {
            let least = read(policy, "cpuinfo_min_freq").parse().unwrap_or(0);
            let most = read(policy, "cpuinfo_max_freq").parse().unwrap_or(u64::MAX);
            if (least..=most).contains(&khz) {
                return Ok(());
            }
            format!("its frequencies are from {} to {} MHz", least / 1000, most / 1000)
        }
    };
    Err(lacking(check, factor::CPU_SPEED, why))
}

fn read(policy: &Path, name: &str) -> String {
    std::fs::read_to_string(policy.join(name)).unwrap_or_default().trim().to_string()
}

fn set_up(stage: &mut CellSetup) -> Result<(), Error> {
    let speed = parse(stage.variant.level(factor::CPU_SPEED)).map_err(unfit(factor::CPU_SPEED))?;
    let policies = policies(stage.kernel);
    match speed {
        None => Ok(()),
        Some(Speed::Share(share)) if policies.is_empty() => quota(stage, share),
        Some(Speed::Share(share)) => each(stage, &policies, "scaling_max_freq", |policy| {
            let most: f64 = read(policy, "cpuinfo_max_freq").parse().unwrap_or(0.0);
            ((most * share) as u64).to_string()
        }),
        Some(Speed::Governor(name)) => each(stage, &policies, "scaling_governor", |_| name.clone()),
        Some(Speed::Frequency(khz)) => each(stage, &policies, "scaling_max_freq", |_| khz.to_string()),
    }
}

fn each(
    stage: &mut CellSetup,
    policies: &[PathBuf],
    name: &str,
    value: impl Fn(&Path) -> String,
) -> Result<(), Error> {
    for policy in policies {
        let (value, former) = (value(policy), read(policy, name));
        if value != former {
            stage.done.keep(kernel::set_attribute(stage.journal, &policy.join(name), &value, &former)?);
        }
    }
    Ok(())
}

fn quota(stage: &mut CellSetup, share: f64) -> Result<(), Error> {
    let Some(controller) = controller(stage.kernel) else { return Ok(()) };
    let bound = parse_cpus(stage.variant.level(factor::CPUS)).ok().flatten();
    let online = stage.kernel.fact("sys/devices/system/cpu/online");
    let all = || online.and_then(|online| parse_cpus(&online).ok().flatten());
    let count = bound.or_else(all).map_or(1, |cpus| cpus.len());
    let quota = (share * PERIOD as f64 * count as f64).max(1000.0) as u64;
    let group = controller.group(stage.journal)?;
    if controller.unified {
        group.set("cpu.max", &format!("{quota} {PERIOD}"))?;
    } else {
        group.set("cpu.cfs_period_us", &PERIOD.to_string())?;
        group.set("cpu.cfs_quota_us", &quota.to_string())?;
    }
    stage.done.join(group);
    let text = "this machine sets no frequency, so the CPUs are slowed by a quota of CPU time (cgroup): the load \
                stops and goes within 10 ms, and threads of the kernel are not slowed";
    stage.done.notes.push(Note::new(NoteKind::Remark, text));
    Ok(())
}

/// A speed.
#[derive(Debug, Clone, PartialEq)]
pub enum Speed {
    /// A share of full speed, above 0 and under 1.
    Share(f64),
    /// A frequency governor.
    Governor(String),
    /// A highest frequency, in kilohertz.
    Frequency(u64),
}

/// The meaning of a level. None leaves the CPUs as they are.
///
/// # Errors
/// What would be right.
pub fn parse(level: &str) -> Result<Option<Speed>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    let speed = if let Some(percent) = level.strip_suffix('%') {
        let percent = percent.parse().ok().filter(|percent| (1.0..100.0).contains(percent));
        percent.map(|percent: f64| Speed::Share(percent / 100.0))
    } else if let Some(megahertz) = level.strip_suffix("MHz") {
        let megahertz = megahertz.parse().ok().filter(|megahertz| (1..=100_000).contains(megahertz));
        megahertz.map(|megahertz: u64| Speed::Frequency(megahertz * 1000))
    } else {
        level.chars().all(|c| c.is_ascii_lowercase()).then(|| Speed::Governor(level.into()))
    };
    speed.map(Some).ok_or_else(|| {
        format!("invalid CPU speed `{level}`; write `50%`, a governor such as `powersave`, or `1200MHz`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_with_frequencies_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let cpu = dir.path().join("sys/devices/system/cpu");
        for name in ["cpu0/cpufreq", "cpu1/cpufreq", "cpuidle"] {
            std::fs::create_dir_all(cpu.join(name)).unwrap();
        }
        std::fs::write(cpu.join("cpu1/cpufreq/scaling_max_freq"), "2000000\n").unwrap();
        let found = policies(&SysRoot::at(dir.path()));
        assert_eq!(found, [cpu.join("cpu1/cpufreq")]);
        assert_eq!(read(&found[0], "scaling_max_freq"), "2000000");
    }

    #[test]
    fn shares_governors_and_frequencies() {
        assert_eq!(parse("50%").unwrap(), Some(Speed::Share(0.5)));
        assert_eq!(parse("powersave").unwrap(), Some(Speed::Governor("powersave".into())));
        assert_eq!(parse("1200MHz").unwrap(), Some(Speed::Frequency(1_200_000)));
        for wrong in ["0%", "100%", "-5%", "fastMHz", "0MHz", "Power Save"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
