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

/// A source of time stamps. Each hot loop is compiled for each clock.
pub trait Clock: Copy + Send + Sync + 'static {
    /// Now, in ticks of this clock.
    fn now(&self) -> u64;
}

/// The kernel's `CLOCK_MONOTONIC`. One tick is a nanosecond.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic;

/// The processor's time-stamp counter.
#[derive(Debug, Clone, Copy)]
pub struct Tsc(());

impl Clock for Monotonic {
    #[inline(always)]
    fn now(&self) -> u64 {
        monotonic_ns()
    }
}

impl Clock for Tsc {
    #[inline(always)]
    fn now(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: rdtsc has no preconditions on x86-64 unless the kernel forbids it to user space. A `Tsc` is only made if
        // the kernel's own vDSO uses the same instruction.
        unsafe {
            std::arch::x86_64::_rdtsc()
        }
        #[cfg(not(target_arch = "x86_64"))]
        monotonic_ns()
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Converts ticks to nanoseconds: multiply, then shift right by 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Nanoseconds of 2³² ticks.
    mult: u64,
}

impl Scale {
    pub(super) const NANOSECONDS: Scale = Scale { mult: 1 << 32 };

    fn from_ratio(ticks: u64, ns: u64) -> Scale {
        Scale { mult: ((u128::from(ns) << 32) / u128::from(ticks.max(1))) as u64 }
    }

    /// Converts ticks to nanoseconds.
    #[inline(always)]
    pub fn ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.mult)) >> 32) as u64
    }

    /// Converts nanoseconds to ticks.
    pub fn ticks(self, ns: u64) -> u64 {
        ((u128::from(ns) << 32) / u128::from(self.mult)).min(u128::from(u64::MAX)) as u64
    }
}

/// The best clock of this machine.
#[derive(Debug, Clone, Copy)]
pub struct BestClock {
    /// The time-stamp counter, if it is used; otherwise the clock is [`Monotonic`].
    pub tsc: Option<Tsc>,
    /// The rate of the clock.
    pub scale: Scale,
    /// Nanoseconds to take one time stamp.
    pub cost_ns: f64,
}

impl BestClock {
    /// `tsc` or `clock_monotonic`.
    pub fn name(&self) -> &'static str {
        if self.tsc.is_some() { "tsc" } else { "clock_monotonic" }
    }
}

/// Returns the best clock of this machine. It is chosen and calibrated once in a process.
pub fn best_clock() -> &'static BestClock {
    static BEST: OnceLock<BestClock> = OnceLock::new();
    BEST.get_or_init(|| {
        let source =
            std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        choose_by(source.as_deref().unwrap_or(""))
    })
}

fn choose_by(clocksource: &str) -> BestClock {
    let kernel = cost_ns(Monotonic);
    if cfg!(target_arch = "x86_64") && clocksource.trim() == "tsc" {
        let tsc = Tsc(());
        let cost = cost_ns(tsc);
        if cost < kernel
            && let Some(scale) = calibrate(tsc)
        {
            return BestClock { tsc: Some(tsc), scale, cost_ns: cost };
        }
    }
    BestClock { tsc: None, scale: Scale::NANOSECONDS, cost_ns: kernel }
}

/// Reads the counter and the kernel's clock at the same moment: of several tries, the one with the shortest duration. Returns
/// None if the counter stepped back in every try.
fn read_both_clocks(counter: impl Clock) -> Option<(u64, u64)> {
    let tries = (0..8).filter_map(|_| {
        let before = counter.now();
        let ns = monotonic_ns();
        let width = counter.now().checked_sub(before)?;
        Some((width, before + width / 2, ns))
    });
    tries.min_by_key(|(width, ..)| *width).map(|(_, ticks, ns)| (ticks, ns))
}

/// Measures the rate of a counter. Returns None if the counter is unusable, because it stepped back, stood still or jumped.
fn calibrate(counter: impl Clock) -> Option<Scale> {
    let (ticks_from, ns_from) = read_both_clocks(counter)?;
    while monotonic_ns() < ns_from + CALIBRATION_NS {
        std::hint::spin_loop();
    }
    let (ticks_to, ns_to) = read_both_clocks(counter)?;
    let ticks = ticks_to.checked_sub(ticks_from).filter(|ticks| *ticks > 0)?;
    Some(Scale::from_ratio(ticks, ns_to - ns_from)).filter(|scale| scale.mult > 0)
}

/// Nanoseconds to take one time stamp.
fn cost_ns<C: Clock>(clock: C) -> f64 {
    fastest_round_ns(5, 10_000, |_| {
        std::hint::black_box(clock.now());
    })
}

/// Measures the nanoseconds of one call of `call`, which receives the number of the call. Returns the mean of the fastest of
/// several rounds, because disturbances only make a round slower.
pub(crate) fn fastest_round_ns(rounds: u32, calls: u32, mut call: impl FnMut(u32)) -> f64 {
    let mut round = || {
        let begun = monotonic_ns();
        (0..calls).for_each(&mut call);
        (monotonic_ns() - begun) as f64 / f64::from(calls)
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
        let scale = Scale::from_ratio(2_100_000_000, 1_000_000_000);
        assert_eq!(scale.ns(2_100), 999);
        // The rate is rounded down by up to 2⁻³¹: 4 ns in 10 s here.
        assert_eq!(scale.ns(21_000_000_000), 9_999_999_995);
        assert!(scale.ticks(1_000_000).abs_diff(2_100_000) <= 1);
        assert_eq!(Scale::NANOSECONDS.ns(12_345), 12_345);
        assert_eq!(Scale::NANOSECONDS.ticks(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_kernels_clock_is_used_if_the_clocksource_is_not_the_counter() {
        let chosen = choose_by("hpet\n");
        assert!(chosen.tsc.is_none());
        assert_eq!(chosen.scale.ns(77), 77);
        assert_eq!(chosen.name(), "clock_monotonic");
    }

    /// A counter that adds a number to its value with each reading.
    #[derive(Clone, Copy)]
    struct Odd(&'static AtomicU64, u64);

    impl Clock for Odd {
        fn now(&self) -> u64 {
            self.0.fetch_add(self.1, Ordering::Relaxed)
        }
    }

    #[test]
    fn a_counter_that_steps_back_stands_still_or_jumps_is_rejected() {
        static BACK: AtomicU64 = AtomicU64::new(1 << 40);
        static STILL: AtomicU64 = AtomicU64::new(1 << 40);
        static JUMPS: AtomicU64 = AtomicU64::new(0);
        assert_eq!(read_both_clocks(Odd(&BACK, u64::MAX)), None);
        for odd in [Odd(&BACK, u64::MAX), Odd(&STILL, 0), Odd(&JUMPS, 1 << 58)] {
            assert_eq!(calibrate(odd), None);
        }
    }

    #[test]
    fn the_chosen_clock_agrees_with_the_kernel() {
        let chosen = best_clock();
        let Some(tsc) = chosen.tsc else {
            return fsarena_sys::testkit::skipped("no counter of the processor that the kernel trusts");
        };
        // If a hypervisor preempts the processor during a reading, one ratio is wrong, but not all.
        let ratio = |_| {
            let (ticks_from, ns_from) = read_both_clocks(tsc).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
            let (ticks_to, ns_to) = read_both_clocks(tsc).unwrap();
            chosen.scale.ns(ticks_to - ticks_from) as f64 / (ns_to - ns_from) as f64
        };
        let ratios: Vec<f64> = (0..5).map(ratio).collect();
        assert!(ratios.iter().any(|ratio| (ratio - 1.0).abs() < 1e-3), "{ratios:?}");
    }
}
