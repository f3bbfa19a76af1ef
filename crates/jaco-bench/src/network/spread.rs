//! Times of several rounds.

use std::time::Duration;

use crate::figure::Figure;
use crate::load::{millis, quantile};

/// Medians and 99th percentiles, in milliseconds, of each round.
#[derive(Default)]
pub(super) struct Spread {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Spread {
    pub(super) fn add(&mut self, mut times: Vec<Duration>) {
        times.sort_unstable();
        self.p50.push(millis(quantile(&times, 50)));
        self.p99.push(millis(quantile(&times, 99)));
    }

    pub(super) fn figures(self, what: &str) -> Vec<Figure> {
        let figure =
            |which: &str, times| Figure::alone(format!("net, {what} {which}"), "ms", times);
        vec![figure("p50", self.p50), figure("p99", self.p99)]
    }
}
