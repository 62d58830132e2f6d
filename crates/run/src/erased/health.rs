//! The health of a disk: its firmware, wear and temperature, as far as the kernel and smartctl(8) tell them.

use fsarena_sys::{argv::Argv, device::BlockDevice};
use serde_json::Value;

/// The known facts of a disk at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Health {
    firmware: Option<String>,
    /// Degrees Celsius.
    temperature: Option<i64>,
    /// Per cent of the life that its maker rates it for.
    worn: Option<u64>,
    /// Minutes above the temperatures from which it slows down, in its whole life.
    hot_minutes: Option<u64>,
    /// Whether it says that it is too hot now.
    too_hot: bool,
}

/// The bit of NVMe's critical warning that says "above a temperature threshold" (NVM Express Base Specification 2.0, 5.16.1.3).
const TEMPERATURE_BIT: u64 = 2;

impl Health {
    /// Reads it; what cannot be read is left out.
    pub fn read(device: &BlockDevice) -> Health {
        let asked = Argv::new("smartctl").args(["--json", "--all"]).arg(&device.path).run();
        // Its exit status is a set of bits, most of them about the disk, not about the reading.
        let smart = asked.map(|ended| serde_json::from_str(&ended.stdout).unwrap_or_default());
        Health::of(smart.unwrap_or_default(), device.firmware())
    }

    /// What `smartctl --json --all` says.
    fn of(smart: Value, firmware: Option<String>) -> Health {
        let nvme = |name| smart["nvme_smart_health_information_log"][name].as_u64();
        let minutes = nvme("warning_temp_time").zip(nvme("critical_comp_time"));
        Health {
            firmware: smart["firmware_version"].as_str().map(String::from).or(firmware),
            temperature: smart["temperature"]["current"].as_i64(),
            worn: smart["endurance_used"]["current_percent"].as_u64().or(nvme("percentage_used")),
            hot_minutes: minutes.map(|(warning, critical)| warning + critical),
            too_hot: nvme("critical_warning").unwrap_or_default() & TEMPERATURE_BIT != 0,
        }
    }

    /// For people, one fact each.
    pub fn facts(&self) -> Vec<String> {
        let facts = [
            self.firmware.as_ref().map(|version| format!("firmware {version}")),
            self.worn.map(|percent| format!("{percent}% of its rated life used")),
            self.temperature.map(|degrees| format!("{degrees} °C at the start")),
        ];
        facts.into_iter().flatten().collect()
    }

    /// Why the device was slower than it can be since an earlier moment, if it says that it was.
    pub fn throttled_since(&self, before: &Health) -> Option<String> {
        let minutes = self.hot_minutes?.saturating_sub(before.hot_minutes?);
        let degrees = self.temperature.map_or(String::new(), |degrees| format!("{degrees} °C, "));
        match (minutes, self.too_hot) {
            (0, false) => None,
            (0, true) => Some(format!("{degrees}above its threshold")),
            (minutes, _) => Some(format!("{degrees}{minutes} more minutes above its warning temperature")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(json: &str) -> Health {
        Health::of(serde_json::from_str(json).unwrap(), Some("of the kernel".into()))
    }

    #[test]
    fn an_nvme_disk_tells_its_wear_and_its_heat() {
        let at = |minutes: u64, warning: u64| {
            health(&format!(
                r#"{{"firmware_version": "2B2QEXM7", "temperature": {{"current": 71}}, "power_on_time": {{"hours": 1}},
                "nvme_smart_health_information_log": {{"critical_warning": {warning}, "percentage_used": 3,
                "warning_temp_time": {minutes}, "critical_comp_time": 1}}}}"#
            ))
        };
        assert_eq!(
            at(5, 0).facts(),
            ["firmware 2B2QEXM7", "3% of its rated life used", "71 °C at the start"]
        );
        assert_eq!(at(5, 0).throttled_since(&at(5, 0)), None);
        let hot = at(7, 0).throttled_since(&at(5, 0)).unwrap();
        assert_eq!(hot, "71 °C, 2 more minutes above its warning temperature");
        assert_eq!(at(5, 2).throttled_since(&at(5, 0)).unwrap(), "71 °C, above its threshold");
    }

    #[test]
    fn without_smart_the_kernel_knows_the_firmware() {
        let plain = health("{}");
        assert_eq!(plain.facts(), ["firmware of the kernel"]);
        assert_eq!(plain.throttled_since(&plain), None);
    }
}
