//! The plan of a watch, which the store keeps so that the watch can resume after a restart.

use crate::{Error, counters::CounterSpec, service::Known, target::Where};
use bytesize::ByteSize;
use fsarena_core::cell::{Cell, Variant, WorkloadPlan};
use fsarena_core::plan::{Backing, DevicePlan, IdlePlan, Plan, StopPlan, limits};
use fsarena_core::{factor, scale::Scale, setting::Settings};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The workload of a watch in the store. No runner knows it: a watch drives nothing.
const WORKLOAD: &str = "watch";

/// Everything that is watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// What it is called in comparisons.
    #[serde(skip)]
    pub name: String,
    /// What counts requests, where something does.
    #[serde(flatten)]
    pub counter: Option<CounterSpec>,
    /// The filesystem and the device.
    #[serde(flatten)]
    pub at: Where,
    /// The service's processes.
    pub service: Vec<Known>,
    /// The length of a window.
    #[serde(rename = "window_s", with = "seconds")]
    pub window: Duration,
    /// The time between two readings of the counter.
    #[serde(rename = "every_s", with = "seconds")]
    pub every: Duration,
}

impl Watch {
    /// This watch, if it can be made; readings are at most as far apart as windows.
    ///
    /// # Errors
    /// Windows or readings that are too short, or a name that cannot be printed.
    pub fn checked(self) -> Result<Watch, Error> {
        if self.name.trim().is_empty() || self.name.contains(char::is_control) {
            return Err(Error::Usage("a watch needs a name that can be printed".into()));
        }
        if self.window < Duration::from_millis(10) || self.every < Duration::from_millis(1) {
            return Err(Error::Usage(
                "a window has at least 10 ms, and readings at least 1 ms between them".into(),
            ));
        }
        Ok(Watch { every: self.every.min(self.window), ..self })
    }

    /// As a plan.
    ///
    /// # Errors
    /// Fails if a path is not valid UTF-8: a plan is text.
    pub fn plan(&self) -> Result<Plan, Error> {
        let settings: serde_json::Result<Settings> =
            serde_json::to_value(self).and_then(serde_json::from_value);
        let settings = settings.map_err(|error| Error::Usage(format!("cannot keep this watch: {error}")))?;
        let dir = self.at.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let variant = Variant { name: self.name.clone(), levels: [(factor::DIR.to_string(), dir)].into() };
        Ok(Plan {
            name: format!("watch-{}", self.name),
            title: format!("Watching {}", self.name),
            question: "What does a request cost?".into(),
            scale: Scale::Quick,
            seed: 0,
            claims: vec![],
            stage: None,
            omitted: vec![],
            vary: Default::default(),
            factors: Default::default(),
            device: DevicePlan {
                backing: Backing::Dir,
                size: None,
                direct_io: false,
                discard: false,
                precondition: false,
                other_fs: "ext4".into(),
                other_dir: None,
                other_device: None,
            },
            // A watch goes on until somebody ends it.
            stop: StopPlan { rounds: limits::LARGEST_ROUNDS, ..StopPlan::default() },
            idle: IdlePlan { timeout_s: 0.0, dirty: ByteSize::b(0), io_pressure_percent: 100.0 },
            variants: vec![variant],
            workloads: vec![WorkloadPlan { name: WORKLOAD.into(), settings }],
        })
    }

    /// From the plan of a stored watch.
    ///
    /// # Errors
    /// Where it is the plan of something else.
    pub fn of_plan(plan: &Plan) -> Result<Watch, Error> {
        let settings = plan.workloads.first().filter(|workload| workload.name == WORKLOAD);
        let watch = settings.and_then(|workload| {
            let watch =
                serde_json::to_value(&workload.settings).and_then(serde_json::from_value::<Watch>).ok()?;
            // A watch with a counter must not resume without it.
            let lost = watch.counter.is_none() && workload.settings.0.contains_key("counter");
            (!lost).then_some(watch)
        });
        let (Some(watch), Some(variant)) = (watch, plan.variants.first()) else {
            return Err(Error::Usage(format!(
                "cannot resume {}: it was not made by `fsarena watch`",
                plan.name
            )));
        };
        Watch { name: variant.name.clone(), ..watch }.checked()
    }

    /// The cell of a window.
    pub fn cell(&self, plan: &Plan, number: u32) -> Cell {
        Cell {
            round: number,
            position: 0,
            variant: plan.variants[0].clone(),
            workload: plan.workloads[0].clone(),
            scale: plan.scale,
            seed: plan.seed,
        }
    }
}

/// A length of time as seconds.
mod seconds {
    use fsarena_core::plan::limits;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        limits::time(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_comes_back_from_its_plan() {
        let counters = [
            None,
            Some(CounterSpec::Squid { address: "127.0.0.1:3128".into() }),
            Some(CounterSpec::Prometheus { address: "http://a/metrics".into(), metric: "x{y=\"z\"}".into() }),
            Some(CounterSpec::Log { file: "/var/log/a b".into(), word: Some("GET".into()) }),
            Some(CounterSpec::Log { file: "/var/log/a".into(), word: None }),
            Some(CounterSpec::Command { argv: vec!["cat".into(), "a b".into()] }),
            Some(CounterSpec::Device),
        ];
        for counter in counters {
            let service = ["squid", "17", "/sys/fs/cgroup/x"].map(Known::of).to_vec();
            let at = Where { path: Some("/srv".into()), device: Some("/dev/loop0".into()) };
            let (window, every) = (Duration::from_millis(1500), Duration::from_secs(1));
            let watch = Watch { name: "xfs".into(), counter, at, service, window, every }.checked().unwrap();
            let toml = toml_round_trip(&watch.plan().unwrap());
            assert_eq!(Watch::of_plan(&toml).unwrap(), watch);
        }
    }

    /// As the store does it.
    fn toml_round_trip(plan: &Plan) -> Plan {
        let dir = tempfile::tempdir().unwrap();
        fsarena_store::RunDir::create(dir.path(), plan, "0").unwrap().plan().unwrap()
    }

    #[test]
    fn nonsense_is_refused() {
        let second = Duration::from_secs(1);
        let make = |name: &str, window| {
            let (name, at) = (name.into(), Where::default());
            Watch { name, counter: None, at, service: vec![], window, every: second }.checked()
        };
        assert!(make("", second).is_err() && make("a\n", second).is_err());
        assert!(make("a", Duration::ZERO).is_err());
        let mut plan = make("a", second).unwrap().plan().unwrap();
        plan.workloads[0].name = "tree".into();
        assert!(Watch::of_plan(&plan).unwrap_err().to_string().contains("not made by `fsarena watch`"));
    }
}
