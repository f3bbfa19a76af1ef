//! What is known of a node by name, and what services and the cluster demand of it: attributes,
//! labels, constraints, affinities and minimums.

mod check;
pub mod contradiction;
mod demands;
mod greatest;
mod version;

pub use check::{Attribute, Unusable, attributes, check, holds, is_built_in, label_key, value_of};
pub(crate) use check::{affinity, labels_satisfy, missing_label, missing_labels};
pub use demands::count_admitted;
pub(crate) use demands::{ClusterDemands, Gate};
pub(crate) use greatest::Greatest;
