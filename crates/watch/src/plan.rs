//! The plan of a watch, which the store keeps so that the watch can resume after a restart.

use crate::counter::Spec;
use crate::error::Error;
use crate::service::Known;
use crate::target::Where;
use bytesize::ByteSize;
use fsarena_core::cell::{Cell, Variant, WorkloadPlan};
use fsarena_core::factor;
use fsarena_core::plan::{Backing, DevicePlan, IdlePlan, Plan, StopPlan};
use fsarena_core::scale::Scale;
use fsarena_core::setting::{Settings, Value};
use std::path::PathBuf;
use std::time::Duration;

/// The workload of a watch in the store. No runner knows it: a watch drives nothing.
const WORKLOAD: &str = "watch";

/// Everything that is watched.
#[derive(Debug, Clone, PartialEq)]
pub struct Watch {
    /// What it is called in comparisons.
    pub name: String,
    /// What counts requests, where something does.
    pub counter: Option<Spec>,
    /// The filesystem and the device.
    pub at: Where,
    /// The service's processes.
    pub service: Vec<Known>,
    /// The length of a window.
    pub window: Duration,
    /// The time between two readings of the counter.
    pub every: Duration,
}

/// Makes a watch of what people write.
///
/// # Errors
/// Windows or readings of no length, or a name that is none.
pub fn named(
    name: String,
    counter: Option<Spec>,
    (path, device): (Option<PathBuf>, Option<PathBuf>),
    service: &[String],
    (window, every): (Duration, Duration),
) -> Result<Watch, Error> {
    if name.trim().is_empty() || name.contains(char::is_control) {
        return Err(Error::Usage("a watch needs a name that can be printed".into()));
    }
    if window < Duration::from_millis(10) || every < Duration::from_millis(1) {
        return Err(Error::Usage(
            "a window has at least 10 ms, and readings at least 1 ms between them".into(),
        ));
    }
    let at = Where { path, device };
    let service = service.iter().map(|text| Known::of(text)).collect();
    Ok(Watch { name, counter, at, service, window, every: every.min(window) })
}

impl Watch {
    /// As a plan.
    pub fn plan(&self) -> Plan {
        let dir = self.at.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let variant = Variant { name: self.name.clone(), levels: [(factor::DIR.to_string(), dir)].into() };
        Plan {
            name: format!("watch-{}", self.name),
            title: format!("Watching {}", self.name),
            question: "What does a request cost?".into(),
            scale: Scale::Quick,
            seed: 0,
            claims: vec![],
            stage: None,
            omitted: vec![],
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
            stop: StopPlan::default(),
            idle: IdlePlan { timeout_s: 0.0, dirty: ByteSize::b(0), io_pressure_percent: 100.0 },
            variants: vec![variant],
            workloads: vec![WorkloadPlan { name: WORKLOAD.into(), settings: self.settings() }],
        }
    }

    /// From the plan of a stored watch.
    ///
    /// # Errors
    /// Where it is the plan of something else.
    pub fn of_plan(plan: &Plan) -> Result<Watch, Error> {
        let other =
            || Error::Usage(format!("cannot resume {}: it was not made by `fsarena watch`", plan.name));
        let (Some(variant), Some(workload)) = (plan.variants.first(), plan.workloads.first()) else {
            return Err(other());
        };
        if workload.name != WORKLOAD {
            return Err(other());
        }
        let settings = &workload.settings.0;
        let text = |id: &str| match settings.get(id) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let list = |id: &str| match settings.get(id) {
            Some(Value::List(values)) => values.iter().map(Value::to_string).collect(),
            _ => vec![],
        };
        let seconds = |id: &str| match settings.get(id) {
            Some(Value::Float(seconds)) => Duration::try_from_secs_f64(*seconds).ok(),
            Some(Value::Int(seconds)) => u64::try_from(*seconds).ok().map(Duration::from_secs),
            _ => None,
        };
        let counter = match text("counter").as_deref() {
            Some("squid") => Some(Spec::Squid(text("address").ok_or_else(other)?)),
            Some("prometheus") => {
                Some(Spec::Prometheus(text("address").ok_or_else(other)?, text("metric").ok_or_else(other)?))
            }
            Some("log") => Some(Spec::Log(text("file").ok_or_else(other)?.into(), text("word"))),
            Some("command") => Some(Spec::Command(list("argv"))),
            Some("device") => Some(Spec::Device),
            _ => None,
        };
        let lengths = (seconds("window_s").ok_or_else(other)?, seconds("every_s").ok_or_else(other)?);
        let at = (text("path").map(PathBuf::from), text("device").map(PathBuf::from));
        named(variant.name.clone(), counter, at, &list("service"), lengths)
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

    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        let mut set = |id: &str, value: Value| drop(settings.0.insert(id.into(), value));
        let words = |words: &[String]| Value::List(words.iter().cloned().map(Value::Text).collect());
        let text = |path: &PathBuf| Value::Text(path.display().to_string());
        set("window_s", Value::Float(self.window.as_secs_f64()));
        set("every_s", Value::Float(self.every.as_secs_f64()));
        let mut counter = |kind: &str| set("counter", Value::Text(kind.into()));
        match &self.counter {
            None => {}
            Some(Spec::Squid(at)) => {
                counter("squid");
                set("address", Value::Text(at.clone()));
            }
            Some(Spec::Prometheus(url, metric)) => {
                counter("prometheus");
                set("address", Value::Text(url.clone()));
                set("metric", Value::Text(metric.clone()));
            }
            Some(Spec::Log(path, word)) => {
                counter("log");
                set("file", text(path));
                word.iter().for_each(|word| set("word", Value::Text(word.clone())));
            }
            Some(Spec::Command(argv)) => {
                counter("command");
                set("argv", words(argv));
            }
            Some(Spec::Device) => counter("device"),
        }
        self.at.path.iter().for_each(|path| set("path", text(path)));
        self.at.device.iter().for_each(|path| set("device", text(path)));
        let service: Vec<String> = self.service.iter().map(Known::text).collect();
        set("service", words(&service));
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_comes_back_from_its_plan() {
        let counters = [
            None,
            Some(Spec::Squid("127.0.0.1:3128".into())),
            Some(Spec::Prometheus("http://a/metrics".into(), "x{y=\"z\"}".into())),
            Some(Spec::Log("/var/log/a b".into(), Some("GET".into()))),
            Some(Spec::Log("/var/log/a".into(), None)),
            Some(Spec::Command(vec!["cat".into(), "a b".into()])),
            Some(Spec::Device),
        ];
        for counter in counters {
            let service = ["squid".to_string(), "17".into(), "/sys/fs/cgroup/x".into()];
            let lengths = (Duration::from_millis(1500), Duration::from_secs(1));
            let at = (Some("/srv".into()), Some("/dev/loop0".into()));
            let watch = named("xfs".into(), counter, at, &service, lengths).unwrap();
            let toml = toml_round_trip(&watch.plan());
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
        let make = |name: &str, window| named(name.into(), None, (None, None), &[], (window, second));
        assert!(make("", second).is_err() && make("a\n", second).is_err());
        assert!(make("a", Duration::ZERO).is_err());
        let mut plan = make("a", second).unwrap().plan();
        plan.workloads[0].name = "tree".into();
        assert!(Watch::of_plan(&plan).unwrap_err().to_string().contains("not made by `fsarena watch`"));
    }
}
