//! The plan of a watch, which the store keeps so that the watch can resume after a restart.

use crate::watch::{counter::WatchError, counters::CounterSpec, service::ServiceSpec, target::WatchedPlace};
use bytesize::ByteSize;
use fsarena_core::cell::{Cell, Variant, WorkloadPlan};
use fsarena_core::plan::{Backing, DevicePlan, IdlePlan, Plan, StopPlan, limits};
use fsarena_core::{factor, scale::Scale, setting::Settings};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The name of the workload in the plan of a watch. No workload of this name exists, because a watch runs none.
const WORKLOAD: &str = "watch";

/// The description of a watch: what it reads, and how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// The name of the watch in comparisons.
    #[serde(skip)]
    pub name: String,
    /// The counter of requests; `None` if the watch counts none.
    #[serde(flatten)]
    pub counter: Option<CounterSpec>,
    /// The filesystem and the device.
    #[serde(flatten)]
    pub place: WatchedPlace,
    /// The service's processes.
    #[serde(rename = "service")]
    pub services: Vec<ServiceSpec>,
    /// The length of a window.
    #[serde(rename = "window_s", with = "seconds")]
    pub window_length: Duration,
    /// The time between two readings of the counter.
    #[serde(rename = "every_s", with = "seconds")]
    pub reading_interval: Duration,
}

impl Watch {
    /// Checks the watch, and returns it with readings at least once in each window.
    ///
    /// # Errors
    /// The windows or the time between readings are too short, or the name cannot be printed.
    pub fn checked(self) -> Result<Watch, WatchError> {
        if self.name.trim().is_empty() || self.name.contains(char::is_control) {
            return Err(WatchError::Usage("a watch needs a name that can be printed".into()));
        }
        if self.window_length < Duration::from_millis(10) || self.reading_interval < Duration::from_millis(1) {
            return Err(WatchError::Usage(
                "a window has at least 10 ms, and readings at least 1 ms between them".into(),
            ));
        }
        Ok(Watch { reading_interval: self.reading_interval.min(self.window_length), ..self })
    }

    /// The plan that the store keeps for this watch.
    ///
    /// # Errors
    /// A path is not valid UTF-8. A plan is text and cannot keep such a path.
    pub fn plan(&self) -> Result<Plan, WatchError> {
        let settings: serde_json::Result<Settings> = serde_json::to_value(self).and_then(serde_json::from_value);
        let settings = settings.map_err(|error| WatchError::Usage(format!("cannot keep this watch: {error}")))?;
        let dir = self.place.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let variant = Variant { name: self.name.clone(), levels: [(factor::DIR.to_string(), dir)].into() };
        // A watch makes no filesystem and waits for nothing, so the scale, the device and the wait until idle are placeholders.
        Ok(Plan {
            name: format!("watch-{}", self.name),
            title: format!("Watching {}", self.name),
            question: "What does a request cost?".into(),
            scale: Scale::Quick,
            seed: 0,
            claims: vec![],
            stage: None,
            omitted: vec![],
            age: Default::default(),
            baseline: None,
            vary: Default::default(),
            factors: Default::default(),
            device: DevicePlan {
                backing: Backing::Dir,
                size: None,
                direct_io: false,
                discard: false,
                precondition: false,
                other_fs: "ext4".into(),
                source_dir: None,
                source_device: None,
            },
            // A watch has no number of rounds: it runs until the user ends it.
            stop: StopPlan { rounds: limits::MAX_ROUNDS, ..StopPlan::default() },
            idle: IdlePlan { timeout_s: 0.0, dirty: ByteSize::b(0), io_pressure_percent: 100.0 },
            variants: vec![variant],
            workloads: vec![WorkloadPlan { name: WORKLOAD.into(), settings, grid_settings: vec![] }],
        })
    }

    /// The watch of a plan that the store kept.
    ///
    /// # Errors
    /// The plan is not that of a watch, or another version of fsarena wrote settings that this one cannot read.
    pub fn from_plan(plan: &Plan) -> Result<Watch, WatchError> {
        let refusal = |why: &str| WatchError::Usage(format!("cannot resume {}: {why}", plan.name));
        let workload = plan.workloads.first().filter(|workload| workload.name == WORKLOAD);
        let (Some(workload), Some(variant)) = (workload, plan.variants.first()) else {
            return Err(refusal("it was not made by `fsarena watch`"));
        };
        let watch = serde_json::to_value(&workload.settings).and_then(serde_json::from_value::<Watch>);
        let watch = watch.map_err(|error| refusal(&format!("this fsarena cannot read its settings: {error}")))?;
        // If the counter cannot be parsed, serde leaves it out. Do not resume such a watch.
        if watch.counter.is_none() && workload.settings.0.contains_key("counter") {
            return Err(refusal("this fsarena cannot read its counter of requests"));
        }
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

/// Serializes a duration as seconds.
mod seconds {
    use fsarena_core::plan::limits;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        limits::checked_duration(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_plan_restores_the_watch() {
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
            let services = ["squid", "17", "/sys/fs/cgroup/x"].map(ServiceSpec::parse).to_vec();
            let place = WatchedPlace { path: Some("/srv".into()), device: Some("/dev/loop0".into()) };
            let (window_length, reading_interval) = (Duration::from_millis(1500), Duration::from_secs(1));
            let watch = Watch { name: "xfs".into(), counter, place, services, window_length, reading_interval }
                .checked()
                .unwrap();
            let toml = toml_round_trip(&watch.plan().unwrap());
            assert_eq!(Watch::from_plan(&toml).unwrap(), watch);
        }
    }

    /// Writes and reads a plan like the store.
    fn toml_round_trip(plan: &Plan) -> Plan {
        let dir = tempfile::tempdir().unwrap();
        fsarena_store::RunDir::create(dir.path(), plan, "0").unwrap().plan().unwrap()
    }

    #[test]
    fn invalid_watches_and_foreign_plans_are_refused() {
        let second = Duration::from_secs(1);
        let make = |name: &str, window_length| {
            let (name, place) = (name.into(), WatchedPlace::default());
            Watch { name, counter: None, place, services: vec![], window_length, reading_interval: second }.checked()
        };
        assert!(make("", second).is_err() && make("a\n", second).is_err());
        assert!(make("a", Duration::ZERO).is_err());
        let plan = make("a", second).unwrap().plan().unwrap();
        let error = |change: &dyn Fn(&mut WorkloadPlan)| {
            let mut plan = plan.clone();
            change(&mut plan.workloads[0]);
            Watch::from_plan(&plan).unwrap_err().to_string()
        };
        assert!(error(&|workload| workload.name = "tree".into()).contains("not made by `fsarena watch`"));
        let abacus = fsarena_core::setting::SettingValue::Text("abacus".into());
        let counter = error(&|workload| drop(workload.settings.0.insert("counter".into(), abacus.clone())));
        assert!(counter.contains("cannot read its counter"), "{counter}");
        let settings = error(&|workload| drop(workload.settings.0.remove("window_s")));
        assert!(settings.contains("cannot read its settings"), "{settings}");
    }
}
