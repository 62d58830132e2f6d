//! From readings of a counter to the requests of a window: no I/O, only what follows from what was read.

use crate::{counter::Trouble, window::Mark};

/// Counts the requests of the window that is open.
#[derive(Debug, Default)]
pub struct Tally {
    /// The last number that was had.
    last: Option<f64>,
    /// Whether the counter answered when the window began.
    whole: bool,
    /// What it grew by since then.
    grown: f64,
    silent: Option<(u32, String)>,
    back: Vec<Mark>,
}

impl Tally {
    /// Takes a reading.
    pub fn take(&mut self, reading: &Result<f64, Trouble>) {
        match (reading, self.last) {
            (Ok(now), Some(last)) if *now < last => {
                // The counter restarted from zero, so its value counts requests since then. Requests between the last
                // reading and the restart are unknown, hence the mark.
                self.back.push(Mark::CounterBack { from: last, to: *now });
                self.grown += now;
                self.last = Some(*now);
            }
            (Ok(now), last) => {
                self.grown += last.map_or(0.0, |last| now - last);
                self.last = Some(*now);
            }
            (Err(Trouble(why)), _) => {
                let (times, _) = self.silent.get_or_insert((0, why.clone()));
                *times += 1;
            }
        }
    }

    /// Ends the window with a reading and begins the next with it. The requests are not known where the counter
    /// did not answer at one of its ends.
    pub fn close(&mut self, reading: &Result<f64, Trouble>) -> (Option<f64>, Vec<Mark>) {
        let last_known = self.last.is_some();
        self.take(reading);
        let answered = reading.is_ok();
        let requests = (self.whole && answered && last_known).then_some(self.grown);
        let mut marks = std::mem::take(&mut self.back);
        if let Some((times, why)) = self.silent.take() {
            marks.push(Mark::CounterSilent { times, why });
        }
        if requests.is_none() {
            marks.push(Mark::RequestsUnknown);
        }
        (self.whole, self.grown) = (answered, 0.0);
        (requests, marks)
    }

    /// Begins the first window.
    pub fn begin(&mut self, reading: &Result<f64, Trouble>) {
        self.take(reading);
        (self.whole, self.grown) = (reading.is_ok(), 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> Result<f64, Trouble> {
        Err(Trouble::new("refused"))
    }

    fn silent(times: u32) -> Mark {
        Mark::CounterSilent { times, why: "refused".into() }
    }

    #[test]
    fn a_window_has_what_the_counter_grew_by() {
        let mut tally = Tally::default();
        tally.begin(&Ok(100.0));
        tally.take(&Ok(130.0));
        assert_eq!(tally.close(&Ok(150.0)), (Some(50.0), vec![]));
        // The next one begins where this one ended.
        assert_eq!(tally.close(&Ok(157.0)), (Some(7.0), vec![]));
    }

    #[test]
    fn a_counter_that_goes_back_is_counted_on_and_marked() {
        let mut tally = Tally::default();
        tally.begin(&Ok(1000.0));
        tally.take(&Ok(1010.0));
        tally.take(&Ok(4.0));
        let back = Mark::CounterBack { from: 1010.0, to: 4.0 };
        assert_eq!(tally.close(&Ok(6.0)), (Some(16.0), vec![back]));
    }

    #[test]
    fn silence_within_a_window_loses_nothing() {
        let mut tally = Tally::default();
        tally.begin(&Ok(10.0));
        tally.take(&down());
        tally.take(&down());
        assert_eq!(tally.close(&Ok(30.0)), (Some(20.0), vec![silent(2)]));
    }

    #[test]
    fn silence_at_an_end_leaves_both_windows_without_a_number() {
        let mut tally = Tally::default();
        tally.begin(&Ok(10.0));
        assert_eq!(tally.close(&down()), (None, vec![silent(1), Mark::RequestsUnknown]));
        assert_eq!(tally.close(&Ok(50.0)), (None, vec![Mark::RequestsUnknown]));
        assert_eq!(tally.close(&Ok(53.0)), (Some(3.0), vec![]));
    }

    #[test]
    fn a_counter_that_never_answered_is_waited_for() {
        let mut tally = Tally::default();
        tally.begin(&down());
        assert_eq!(tally.close(&down()).0, None);
        assert_eq!(tally.close(&Ok(5.0)).0, None);
        assert_eq!(tally.close(&Ok(9.0)).0, Some(4.0));
    }
}
