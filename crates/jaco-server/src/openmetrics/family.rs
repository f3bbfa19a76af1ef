//! What a family of metrics is, as a value: what is exposed, what is documented and what is tested come from the same
//! table.

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// A family of metrics.
#[derive(Debug)]
pub(super) struct Family {
    /// Without unit and suffix.
    name: &'static str,
    /// One sentence.
    pub(crate) help: &'static str,
    kind: Kind,
    unit: Option<Measure>,
    /// The names of its labels.
    pub(crate) labels: &'static [&'static str],
    from: From,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
    Histogram,
    Info,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Seconds,
    Bytes,
}

/// Which nodes expose a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// Each node, about itself.
    EachNode,
    /// The leader, about the cluster.
    Leader,
}

impl Family {
    const fn new(kind: Kind, name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind, unit: None, labels: &[], from: From::EachNode }
    }

    pub(crate) const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Gauge, name, help)
    }

    pub(crate) const fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Counter, name, help)
    }

    /// Of durations, in seconds.
    pub(crate) const fn durations(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Histogram, name, help).seconds()
    }

    pub(crate) const fn info(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Info, name, help)
    }

    pub(crate) const fn seconds(mut self) -> Self {
        self.unit = Some(Measure::Seconds);
        self
    }

    pub(crate) const fn bytes(mut self) -> Self {
        self.unit = Some(Measure::Bytes);
        self
    }

    pub(crate) const fn labels(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }

    /// Exposed by the leader alone: it is about the cluster, and each node would say the same.
    pub(crate) const fn of_leader(mut self) -> Self {
        self.from = From::Leader;
        self
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) const fn unit(&self) -> Option<&'static Unit> {
        match self.unit {
            None => None,
            Some(Measure::Seconds) => Some(&Unit::Seconds),
            Some(Measure::Bytes) => Some(&Unit::Bytes),
        }
    }

    pub(crate) const fn metric_type(&self) -> MetricType {
        match self.kind {
            Kind::Gauge => MetricType::Gauge,
            Kind::Counter => MetricType::Counter,
            Kind::Histogram => MetricType::Histogram,
            Kind::Info => MetricType::Info,
        }
    }

    /// The name as queries use it. That of a histogram goes on with `_bucket`, `_sum` or `_count`.
    #[must_use]
    pub(super) fn exposed(&self) -> String {
        let unit = self.unit().map(|unit| format!("_{}", unit.as_str())).unwrap_or_default();
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{unit}{suffix}", self.name)
    }

    /// Its row in the documents.
    pub(crate) fn row(&self) -> String {
        let kind = match self.kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        };
        let from = match self.from {
            From::EachNode => "each node",
            From::Leader => "the leader",
        };
        let labels: Vec<_> = self.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, labels) = (self.exposed(), labels.join(", "));
        format!("| `{name}` | {kind} | {labels} | {from} | {} |\n", self.help)
    }
}
