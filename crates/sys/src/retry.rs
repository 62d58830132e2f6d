//! Doing something again while it fails for a reason that passes.

use std::time::Duration;

/// The pause before the next try.
const PAUSE: Duration = Duration::from_millis(20);

/// The result of the first try that does not fail for a reason that passes, or of the last one.
pub fn retry<T, E>(
    tries: u32,
    passes: impl Fn(&E) -> bool,
    mut act: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..tries {
        match act() {
            Err(error) if passes(&error) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    act()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passes_is_waited_for_and_not_for_ever() {
        let count = |tries, ends_at: u32| {
            let mut done = 0;
            let act = || {
                done += 1;
                if done < ends_at { Err("busy") } else { Err("lost") }
            };
            (retry(tries, |error| *error == "busy", act) as Result<(), _>, done)
        };
        assert_eq!(count(5, 3), (Err("lost"), 3));
        assert_eq!(count(2, 3), (Err("busy"), 2));
    }
}
