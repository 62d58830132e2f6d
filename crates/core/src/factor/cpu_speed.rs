//! The speed of the CPUs.

use super::{CPU_SPEED, FactorDef};

/// The factor.
pub const DEF: FactorDef = FactorDef {
    id: CPU_SPEED,
    default: "",
    example: "50%, powersave, 1200MHz",
    help: "speed of the CPUs: a share (`50%`: of the highest frequency where the machine sets it, else of CPU time by a cgroup quota), a governor, or a highest frequency; empty leaves it",
    check: |level| parse(level).map(drop),
};

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
    let wrong =
        || format!("invalid CPU speed `{level}`; write `50%`, a governor such as `powersave`, or `1200MHz`");
    if let Some(percent) = level.strip_suffix('%') {
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        return if (1.0..100.0).contains(&percent) {
            Ok(Some(Speed::Share(percent / 100.0)))
        } else {
            Err(wrong())
        };
    }
    if let Some(megahertz) = level.strip_suffix("MHz") {
        let megahertz: u64 = megahertz.parse().map_err(|_| wrong())?;
        return if (1..=100_000).contains(&megahertz) {
            Ok(Some(Speed::Frequency(megahertz * 1000)))
        } else {
            Err(wrong())
        };
    }
    match level.chars().all(|c| c.is_ascii_lowercase()) {
        true => Ok(Some(Speed::Governor(level.into()))),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
