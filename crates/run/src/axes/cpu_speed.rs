//! The axis of the CPU speed: sets the frequency if the machine can, else limits the CPU time by a cgroup quota.

use super::axis::{Axis, CellSetup, LevelCheck};
use super::load::parse_cpus;
use crate::error::Result;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::factor;
use fsarena_sys::{Error, attribute, cgroup::Controller, kernel::SysRoot};
use std::path::{Path, PathBuf};

/// The axis.
pub const AXIS: Axis = Axis::new(
    factor::CPU_SPEED,
    "50%, powersave, 1200MHz",
    "speed of the CPUs: a share (`50%`: of the highest frequency where the machine sets it, else of CPU time by a cgroup quota), a governor, or a highest frequency; empty leaves it",
    |level| parse(level).map(drop),
)
.also_for_directories()
.with_check(check)
.with_set_up(set_up);

/// The usual period of a quota, in microseconds. It is short, so that the pauses of the load are short too.
const PERIOD_US: f64 = 10_000.0;
/// The smallest quota that the kernel accepts, in microseconds. Smaller shares of CPU time get a longer period.
const MIN_QUOTA_US: f64 = 1000.0;

/// The name of the lock that a run holds as long as its frequencies or governors are set.
const LOCK_NAME: &str = "cpu-speed";

/// The `cpufreq` directories of all CPUs whose frequency can be set.
fn find_policies(kernel: &SysRoot) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(kernel.path("sys/devices/system/cpu")).into_iter().flatten().flatten();
    let mut policies: Vec<PathBuf> = entries.map(|entry| entry.path().join("cpufreq")).collect();
    policies.retain(|path| path.join("scaling_max_freq").exists());
    policies.sort();
    policies
}

fn check(check: &LevelCheck) -> Result<()> {
    let Some(speed) = parse(check.level()).map_err(|why| check.plan_error(why))? else { return Ok(()) };
    let policies = find_policies(check.kernel);
    if policies.is_empty() {
        let why = match speed {
            Speed::Share(_) if Controller::find(check.kernel, "cpu", "cpu").is_some() => return Ok(()),
            Speed::Share(_) => "this machine cannot set CPU frequencies, and its kernel has no CPU quota (cgroup)",
            _ => "this machine cannot set CPU frequencies (no cpufreq); use a share of CPU time such as `50%`",
        };
        return Err(check.missing_error(why));
    }
    match policies.iter().find_map(|policy| why_unsupported(&speed, policy)) {
        Some(why) => Err(check.missing_error(why)),
        None => Ok(()),
    }
}

/// The reason why the CPUs of a `cpufreq` directory cannot have this speed; None if they can. The kernel would accept a
/// frequency that is too low or too high, and set the nearest one instead.
fn why_unsupported(speed: &Speed, policy: &Path) -> Option<String> {
    let khz = match speed {
        Speed::Governor(name) => {
            let available = read_setting(policy, "scaling_available_governors");
            let is_available = available.split_whitespace().any(|governor| governor == name);
            return (!is_available).then(|| format!("the governors of this machine are {available}"));
        }
        Speed::Frequency(khz) => *khz,
        Speed::Share(share) => khz_of_share(*share, policy),
    };
    let limits = ["cpuinfo_min_freq", "cpuinfo_max_freq"].map(|name| read_setting(policy, name).parse::<u64>());
    let [Ok(lowest), Ok(highest)] = limits else {
        return Some(format!("{} does not show the frequencies of this machine", policy.display()));
    };
    (!(lowest..=highest).contains(&khz)).then(|| {
        let [khz, lowest, highest] = [khz, lowest, highest].map(|khz| khz / 1000);
        format!("that is {khz} MHz, and the frequencies of this machine are from {lowest} to {highest} MHz")
    })
}

/// A share of the highest frequency of the CPUs of a `cpufreq` directory, in kilohertz; 0 if that cannot be read.
fn khz_of_share(share: f64, policy: &Path) -> u64 {
    let highest: f64 = read_setting(policy, "cpuinfo_max_freq").parse().unwrap_or(0.0);
    (highest * share) as u64
}

/// The value of a setting in a `cpufreq` directory; empty if it cannot be read.
fn read_setting(policy: &Path, name: &str) -> String {
    std::fs::read_to_string(policy.join(name)).unwrap_or_default().trim().to_string()
}

fn set_up(setup: &mut CellSetup) -> Result<(), Error> {
    match setup.parse_level(parse)? {
        None => Ok(()),
        Some(Speed::Share(share)) if find_policies(setup.kernel).is_empty() => set_quota(setup, share),
        Some(Speed::Share(share)) => {
            set_all_policies(setup, "scaling_max_freq", |policy| khz_of_share(share, policy).to_string())
        }
        Some(Speed::Governor(name)) => set_all_policies(setup, "scaling_governor", |_| name.clone()),
        Some(Speed::Frequency(khz)) => set_all_policies(setup, "scaling_max_freq", |_| khz.to_string()),
    }
}

/// Sets a setting of each `cpufreq` directory to the value that `value` computes for it. First waits until every other
/// run that has changed the speed of the CPUs has restored it.
fn set_all_policies(setup: &mut CellSetup, name: &str, value: impl Fn(&Path) -> String) -> Result<(), Error> {
    setup.conditions.add_lock(attribute::lock(setup.journal, LOCK_NAME)?);
    for policy in find_policies(setup.kernel) {
        let (value, former) = (value(&policy), read_setting(&policy, name));
        if value != former {
            setup.conditions.add_guard(attribute::set(setup.journal, &policy.join(name), &value, &former)?);
        }
    }
    Ok(())
}

/// Limits the CPU time to a share of all CPUs that the load may use, by a cgroup quota.
fn set_quota(setup: &mut CellSetup, share: f64) -> Result<(), Error> {
    let controller = setup.find_controller("cpu", "cpu")?;
    let bound_cpus = parse_cpus(setup.variant.level(factor::CPUS)).ok().flatten();
    let online = setup.kernel.read_trimmed("sys/devices/system/cpu/online");
    let online_cpus = || online.and_then(|online| parse_cpus(&online).ok().flatten());
    let cpu_count = bound_cpus.or_else(online_cpus).map_or(1, |cpus| cpus.len());
    let (quota_us, period_us) = quota_and_period_us(share, cpu_count);
    let group = controller.make_group(setup.journal)?;
    if controller.is_v2 {
        group.set("cpu.max", &format!("{quota_us} {period_us}"))?;
    } else {
        group.set("cpu.cfs_period_us", &period_us.to_string())?;
        group.set("cpu.cfs_quota_us", &quota_us.to_string())?;
    }
    setup.conditions.add_group(group);
    let text = format!(
        "this machine cannot set CPU frequencies, so a quota of CPU time (cgroup) slows the CPUs: the load pauses in \
         each period of {} ms, and threads of the kernel are not slowed",
        period_us.div_ceil(1000)
    );
    setup.conditions.notes.push(Note::new(NoteKind::Remark, text));
    Ok(())
}

/// The quota that is this share of the CPU time of `cpu_count` CPUs, and its period, both in microseconds.
fn quota_and_period_us(share: f64, cpu_count: usize) -> (u64, u64) {
    let cpus = share * cpu_count as f64;
    let period_us = PERIOD_US.max(MIN_QUOTA_US / cpus);
    ((cpus * period_us).round() as u64, period_us.round() as u64)
}

/// The speed of the CPUs in a level.
#[derive(Debug, Clone, PartialEq)]
enum Speed {
    /// A share of full speed, above 0 and below 1.
    Share(f64),
    /// A frequency governor.
    Governor(String),
    /// The highest frequency, in kilohertz.
    Frequency(u64),
}

/// Parses a level. None, for an empty level, leaves the CPUs as they are.
///
/// # Errors
/// An invalid level; the message shows how to write one.
fn parse(level: &str) -> Result<Option<Speed>, String> {
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
    fn cpus_whose_frequency_can_be_set_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let cpu = dir.path().join("sys/devices/system/cpu");
        for name in ["cpu0/cpufreq", "cpu1/cpufreq", "cpuidle"] {
            std::fs::create_dir_all(cpu.join(name)).unwrap();
        }
        std::fs::write(cpu.join("cpu1/cpufreq/scaling_max_freq"), "2000000\n").unwrap();
        let policies = find_policies(&SysRoot::at(dir.path()));
        assert_eq!(policies, [cpu.join("cpu1/cpufreq")]);
        assert_eq!(read_setting(&policies[0], "scaling_max_freq"), "2000000");
    }

    #[test]
    fn speeds_that_the_cpus_do_not_have_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let why = |level: &str| why_unsupported(&parse(level).unwrap().unwrap(), dir.path());
        assert!(why("50%").is_some(), "the frequencies are unknown");
        for (name, value) in [
            ("cpuinfo_min_freq", "800000\n"),
            ("cpuinfo_max_freq", "4000000\n"),
            ("scaling_available_governors", "powersave performance \n"),
        ] {
            std::fs::write(dir.path().join(name), value).unwrap();
        }
        assert_eq!(["50%", "20%", "800MHz", "4000MHz", "powersave"].map(why), [const { None }; 5]);
        for level in ["19%", "799MHz", "4001MHz", "ondemand"] {
            assert!(why(level).is_some(), "{level}");
        }
    }

    #[test]
    fn a_small_share_of_cpu_time_gets_a_longer_period() {
        assert_eq!(quota_and_period_us(0.5, 1), (5000, 10_000));
        assert_eq!(quota_and_period_us(0.5, 4), (20_000, 10_000));
        assert_eq!(quota_and_period_us(0.05, 1), (1000, 20_000));
        assert_eq!(quota_and_period_us(0.01, 1), (1000, 100_000));
    }

    #[test]
    fn a_level_is_a_share_a_governor_or_a_frequency() {
        assert_eq!(parse("50%").unwrap(), Some(Speed::Share(0.5)));
        assert_eq!(parse("powersave").unwrap(), Some(Speed::Governor("powersave".into())));
        assert_eq!(parse("1200MHz").unwrap(), Some(Speed::Frequency(1_200_000)));
        for wrong in ["0%", "100%", "-5%", "fastMHz", "0MHz", "Power Save"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
