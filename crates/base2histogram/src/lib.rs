//! What openraft needs of the crate of this name, without its tables.
//!
//! openraft keeps statistics about itself in histograms, which JACO never reads. The crate that it
//! takes them from computes, at the first use, the boundaries of histograms of sixteen widths: 25 MiB
//! of memory in every daemon, more than all the rest of it, for the one width of 2 KiB that is used.
//! Here a histogram only counts its samples. To drop with the first release of openraft, or of that
//! crate, that computes what it uses: remove this crate and its `[patch]`.

use std::fmt;
use std::marker::PhantomData;

/// Counts samples, and forgets how large they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    samples: u64,
    slots: PhantomData<T>,
}

impl<T> Histogram<T> {
    /// One without samples.
    #[must_use]
    pub const fn new() -> Self {
        Self { samples: 0, slots: PhantomData }
    }

    /// Counts a sample.
    pub const fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts `count` samples.
    pub const fn record_n(&mut self, _value: u64, count: u64) {
        self.samples = self.samples.saturating_add(count);
    }

    /// The number of samples; every percentile is zero.
    #[must_use]
    pub const fn percentile_stats(&self) -> PercentileStats {
        PercentileStats {
            samples: self.samples,
            p0_1: 0,
            p1: 0,
            p5: 0,
            p10: 0,
            p50: 0,
            p90: 0,
            p99: 0,
            p99_9: 0,
        }
    }
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The fields are openraft's to read; all but the first are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say which percentile each would be")]
pub struct PercentileStats {
    /// How many samples there were.
    pub samples: u64,
    pub p0_1: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples", self.samples)
    }
}

/// A chart of nothing.
#[derive(Debug, Clone, Default)]
pub struct AsciiChart;

impl AsciiChart {
    /// An empty one, as all of them.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    /// Takes a histogram that it does not draw.
    #[must_use]
    pub fn add(self, _name: &str, _histogram: Histogram) -> Self {
        self
    }

    /// The same.
    #[must_use]
    pub const fn detailed(&self) -> &Self {
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not recorded")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_counted_and_cost_nothing() {
        let mut histogram = Histogram::<()>::new();
        histogram.record(7);
        histogram.record_n(1 << 40, u64::MAX);
        assert_eq!(histogram.percentile_stats().samples, u64::MAX);
        assert_eq!(size_of_val(&histogram), size_of::<u64>());
    }
}
