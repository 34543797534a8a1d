//! Amounts of the last while, by window (Kafka's `SampledStat`). A window begins with the first amount behind the end
//! of the one before. There are no more windows than are asked for, and two.

use std::collections::VecDeque;

#[derive(Debug)]
pub struct Samples {
    windows: VecDeque<Window>,
    windows_max: i64,
    window_ms: i64,
}

#[derive(Debug)]
struct Window {
    start_ms: i64,
    last_ms: i64,
    amount: f64,
}

impl Samples {
    pub fn new(windows_max: i32, window_seconds: i32) -> Self {
        Self { windows: VecDeque::new(), windows_max: windows_max.into(), window_ms: i64::from(window_seconds) * 1000 }
    }

    pub fn windows_max(&self) -> i64 {
        self.windows_max
    }

    pub fn window_ms(&self) -> i64 {
        self.window_ms
    }

    pub fn record(&mut self, amount: f64, now_ms: i64) {
        self.forget(now_ms);
        match self.windows.back_mut().filter(|window| now_ms - window.start_ms < self.window_ms) {
            Some(window) => {
                window.amount += amount;
                window.last_ms = now_ms;
            }
            None => self.windows.push_back(Window { start_ms: now_ms, last_ms: now_ms, amount }),
        }
    }

    /// All that is not forgotten, and for how long its oldest window has been there.
    pub fn sum(&mut self, now_ms: i64) -> (f64, i64) {
        self.forget(now_ms);
        let elapsed_ms = self.windows.front().map_or(0, |oldest| (now_ms - oldest.start_ms).max(0));
        (self.windows.iter().map(|window| window.amount).sum(), elapsed_ms)
    }

    fn forget(&mut self, now_ms: i64) {
        let age_max_ms = self.windows_max * self.window_ms;
        while self.windows.pop_front_if(|window| now_ms - window.last_ms >= age_max_ms).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_all_windows_is_forgotten() {
        let mut samples = Samples::new(3, 1);
        samples.record(5.0, 1000);
        samples.record(7.0, 1999);
        samples.record(1.0, 2000);
        assert_eq!(samples.sum(4998), (13.0, 3998));
        assert_eq!(samples.sum(4999), (1.0, 2999));
        assert_eq!(samples.sum(5000), (0.0, 0));
        for second in 5..1000 {
            samples.record(1.0, second * 1000);
            assert!(samples.windows.len() <= 4);
        }
    }
}
