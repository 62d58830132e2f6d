//! The clock of the hot loops: the processor's time-stamp counter, or `CLOCK_MONOTONIC`.
//!
//! The engine reads the counter directly if the kernel uses it as its clocksource. The kernel's watchdog has then verified that
//! the counter is constant and equal on all processors. That is more reliable than a processor flag, which hypervisors hide and
//! firmware may report wrongly. The engine calibrates the counter with `CLOCK_MONOTONIC`, and uses it only if it is faster.

use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;

/// The length of the calibration in nanoseconds. Reading both clocks takes about 50 ns, so the error of the rate is a few
/// parts per million.
const CALIBRATION_NS: u64 = 20_000_000;

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Converts ticks to nanoseconds: multiply, then shift right by 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickScale {
    /// Nanoseconds of 2³² ticks.
    ns_per_2_pow_32_ticks: u64,
}

impl TickScale {
    pub(super) const NANOSECONDS: TickScale = TickScale { ns_per_2_pow_32_ticks: 1 << 32 };

    /// The scale of a clock that counts `ticks` in `ns` nanoseconds.
    fn from_ratio(ticks: u64, ns: u64) -> TickScale {
        TickScale { ns_per_2_pow_32_ticks: ((u128::from(ns) << 32) / u128::from(ticks.max(1))) as u64 }
    }

    /// Converts ticks to nanoseconds.
    #[inline(always)]
    pub fn ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_2_pow_32_ticks)) >> 32) as u64
    }

    /// Converts nanoseconds to ticks.
    pub fn ticks(self, ns: u64) -> u64 {
        ((u128::from(ns) << 32) / u128::from(self.ns_per_2_pow_32_ticks)).min(u128::from(u64::MAX)) as u64
    }
}

/// The clock of the hot loops.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Whether it is the time-stamp counter; otherwise it is `CLOCK_MONOTONIC`, whose tick is a nanosecond.
    is_counter: bool,
    /// Converts its ticks to nanoseconds.
    pub scale: TickScale,
    /// Nanoseconds to take one time stamp.
    pub cost_ns: f64,
}

impl Clock {
    /// Returns the best clock of this machine. It is chosen and calibrated once in a process.
    pub fn best() -> Clock {
        static BEST: OnceLock<Clock> = OnceLock::new();
        *BEST.get_or_init(|| {
            let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
            Clock::choose(&std::fs::read_to_string(path).unwrap_or_default())
        })
    }

    /// Returns the time-stamp counter if it is the kernel's clocksource, usable and faster, else `CLOCK_MONOTONIC`.
    fn choose(clocksource: &str) -> Clock {
        let monotonic = Clock::monotonic();
        if cfg!(target_arch = "x86_64") && clocksource.trim() == "tsc" {
            let cost_ns = measure_cost_ns(read_counter);
            if cost_ns < monotonic.cost_ns
                && let Some(scale) = measure_scale(read_counter)
            {
                return Clock { is_counter: true, scale, cost_ns };
            }
        }
        monotonic
    }

    /// The clock that reads `CLOCK_MONOTONIC`.
    pub(crate) fn monotonic() -> Clock {
        Clock { is_counter: false, scale: TickScale::NANOSECONDS, cost_ns: measure_cost_ns(monotonic_ns) }
    }

    /// Now, in ticks of this clock.
    #[inline(always)]
    pub fn now(self) -> u64 {
        if self.is_counter { read_counter() } else { monotonic_ns() }
    }

    /// `tsc` or `clock_monotonic`.
    pub fn name(self) -> &'static str {
        if self.is_counter { "tsc" } else { "clock_monotonic" }
    }
}

/// Reads the processor's time-stamp counter.
#[inline(always)]
fn read_counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rdtsc has no preconditions on x86-64 unless the kernel forbids it to user space. A clock only uses it if the
    // kernel's own vDSO does.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    monotonic_ns()
}

/// Reads the counter and the kernel's clock at the same moment: of several tries, the one with the shortest duration. Returns
/// None if the counter stepped back in every try.
fn read_both_clocks(counter: impl Fn() -> u64) -> Option<(u64, u64)> {
    let tries = (0..8).filter_map(|_| {
        let before = counter();
        let ns = monotonic_ns();
        let duration = counter().checked_sub(before)?;
        Some((duration, before + duration / 2, ns))
    });
    tries.min_by_key(|(duration, ..)| *duration).map(|(_, ticks, ns)| (ticks, ns))
}

/// Measures the rate of a counter against `CLOCK_MONOTONIC`. Returns None if the counter is unusable, because it stepped back,
/// stood still or jumped.
fn measure_scale(counter: impl Fn() -> u64) -> Option<TickScale> {
    let (start_ticks, start_ns) = read_both_clocks(&counter)?;
    while monotonic_ns() < start_ns + CALIBRATION_NS {
        std::hint::spin_loop();
    }
    let (end_ticks, end_ns) = read_both_clocks(&counter)?;
    let ticks = end_ticks.checked_sub(start_ticks).filter(|ticks| *ticks > 0)?;
    Some(TickScale::from_ratio(ticks, end_ns - start_ns)).filter(|scale| scale.ns_per_2_pow_32_ticks > 0)
}

/// Nanoseconds to take one time stamp.
fn measure_cost_ns(clock: fn() -> u64) -> f64 {
    fastest_ns_per_call(5, 10_000, |_| {
        std::hint::black_box(clock());
    })
}

/// Measures the nanoseconds of one call of `call`, which receives the number of the call. Returns the mean of the fastest of
/// several rounds, because disturbances only make a round slower.
pub(crate) fn fastest_ns_per_call(rounds: u32, calls: u32, mut call: impl FnMut(u32)) -> f64 {
    let mut round = || {
        let start = monotonic_ns();
        (0..calls).for_each(&mut call);
        (monotonic_ns() - start) as f64 / f64::from(calls)
    };
    (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn ticks_and_nanoseconds_convert_both_ways() {
        // 2.1 GHz: 2,100,000,000 ticks a second.
        let scale = TickScale::from_ratio(2_100_000_000, 1_000_000_000);
        assert_eq!(scale.ns(2_100), 999);
        // The rate is rounded down by up to 2⁻³¹: 4 ns in 10 s here.
        assert_eq!(scale.ns(21_000_000_000), 9_999_999_995);
        assert!(scale.ticks(1_000_000).abs_diff(2_100_000) <= 1);
        assert_eq!(TickScale::NANOSECONDS.ns(12_345), 12_345);
        assert_eq!(TickScale::NANOSECONDS.ticks(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_kernels_clock_is_used_if_the_clocksource_is_not_the_counter() {
        let chosen = Clock::choose("hpet\n");
        assert!(!chosen.is_counter);
        assert_eq!(chosen.scale.ns(77), 77);
        assert_eq!(chosen.name(), "clock_monotonic");
    }

    #[test]
    fn a_counter_that_steps_back_stands_still_or_jumps_is_rejected() {
        /// A counter that adds a number to its value with each reading.
        fn stepping_counter(start: u64, step: u64) -> impl Fn() -> u64 {
            let value = AtomicU64::new(start);
            move || value.fetch_add(step, Ordering::Relaxed)
        }
        assert_eq!(read_both_clocks(stepping_counter(1 << 40, u64::MAX)), None);
        for (start, step) in [(1 << 40, u64::MAX), (1 << 40, 0), (0, 1 << 58)] {
            assert_eq!(measure_scale(stepping_counter(start, step)), None);
        }
    }

    #[test]
    fn the_chosen_clock_agrees_with_the_kernel() {
        let chosen = Clock::best();
        if !chosen.is_counter {
            return fsarena_sys::testkit::record_skip("no counter of the processor that the kernel trusts");
        }
        // If a hypervisor preempts the processor during a reading, one ratio is wrong, but not all.
        let ratio = |_| {
            let (start_ticks, start_ns) = read_both_clocks(read_counter).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
            let (end_ticks, end_ns) = read_both_clocks(read_counter).unwrap();
            chosen.scale.ns(end_ticks - start_ticks) as f64 / (end_ns - start_ns) as f64
        };
        let ratios: Vec<f64> = (0..5).map(ratio).collect();
        assert!(ratios.iter().any(|ratio| (ratio - 1.0).abs() < 1e-3), "{ratios:?}");
    }
}
