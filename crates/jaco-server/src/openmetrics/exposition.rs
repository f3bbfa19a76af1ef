//! Writes families in the text format of OpenMetrics.

use std::collections::HashMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::histogram::Histogram;

use super::family::Family;

/// The families that are being written.
pub(super) struct Exposition<'e>(DescriptorEncoder<'e>);

/// A value of a gauge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

/// A histogram that was counted elsewhere.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counted {
    /// The sum of all observations.
    pub(super) sum: f64,
    /// The upper bound of each bucket, and the observations in it alone; the last is unbounded.
    pub(super) buckets: Vec<(f64, u64)>,
}

/// None of our metrics has exemplars.
const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, u64>> = None;
const NO_EXEMPLARS: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;

impl<'e> Exposition<'e> {
    pub(super) fn new(encoder: DescriptorEncoder<'e>) -> Self {
        Self(encoder)
    }

    /// A gauge without labels.
    pub(super) fn gauge(&mut self, family: &Family, value: impl Into<Number>) -> fmt::Result {
        self.gauges(family, [([""; 0], value.into())])
    }

    /// A counter without labels.
    pub(super) fn counter(&mut self, family: &Family, value: u64) -> fmt::Result {
        self.counters(family, [([""; 0], value)])
    }

    /// A gauge for each combination of labels, in the order of the family's.
    pub(super) fn gauges<S: AsRef<str>, N: Into<Number>, const K: usize>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([S; K], N)>,
    ) -> fmt::Result {
        self.each(family, samples, |mut metric, value| match value.into() {
            Number::Whole(whole) => metric.encode_gauge(&whole),
            Number::Real(real) => metric.encode_gauge(&real),
        })
    }

    /// As [`Exposition::gauges`], of counters.
    pub(super) fn counters<S: AsRef<str>, const K: usize>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([S; K], u64)>,
    ) -> fmt::Result {
        self.each(family, samples, |mut metric, count| metric.encode_counter(&count, NO_EXEMPLAR))
    }

    /// A counter of a quantity that is no whole number.
    pub(super) fn real_counter(&mut self, family: &Family, value: f64) -> fmt::Result {
        self.each(family, [([""; 0], value)], |mut metric, value| {
            metric.encode_counter(&value, NO_EXEMPLAR)
        })
    }

    /// As [`Exposition::gauges`], of histograms that this process counts.
    pub(super) fn histograms<'h, S: AsRef<str>, const K: usize>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([S; K], &'h Histogram)>,
    ) -> fmt::Result {
        self.each(family, samples, |metric, histogram| histogram.encode(metric))
    }

    /// As [`Exposition::gauges`], of histograms that were counted elsewhere.
    pub(super) fn counted<S: AsRef<str>, const K: usize>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([S; K], Counted)>,
    ) -> fmt::Result {
        self.each(family, samples, |mut metric, Counted { sum, buckets }| {
            let count = buckets.iter().map(|(_, count)| count).sum();
            metric.encode_histogram(sum, count, &buckets, NO_EXEMPLARS)
        })
    }

    /// What does not change as long as the process runs.
    pub(super) fn info<const K: usize>(
        &mut self,
        family: &Family,
        labels: [(&str, &str); K],
    ) -> fmt::Result {
        let (name, kind) = (family.name(), family.metric_type());
        let mut metric = self.0.encode_descriptor(name, family.help, None, kind)?;
        metric.encode_info(&labels)
    }

    fn each<S: AsRef<str>, V, const K: usize>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([S; K], V)>,
        write: impl Fn(prometheus_client::encoding::MetricEncoder<'_>, V) -> fmt::Result,
    ) -> fmt::Result {
        debug_assert_eq!(family.labels.len(), K, "{}", family.name());
        let (name, unit, kind) = (family.name(), family.unit(), family.metric_type());
        let mut metric = self.0.encode_descriptor(name, family.help, unit, kind)?;
        for (values, value) in samples {
            if K == 0 {
                return write(metric, value);
            }
            let labels = family.labels.iter().zip(&values);
            let labels: Vec<_> = labels.map(|(name, value)| (*name, value.as_ref())).collect();
            write(metric.encode_family(&labels)?, value)?;
        }
        Ok(())
    }
}

impl From<u64> for Number {
    fn from(whole: u64) -> Self {
        Self::Whole(whole)
    }
}

impl From<usize> for Number {
    fn from(whole: usize) -> Self {
        Self::Whole(u64::try_from(whole).unwrap_or(u64::MAX))
    }
}

impl From<bool> for Number {
    fn from(whether: bool) -> Self {
        Self::Whole(u64::from(whether))
    }
}

impl From<f64> for Number {
    fn from(real: f64) -> Self {
        Self::Real(real)
    }
}
