//! Constraints with a name.

use std::collections::BTreeMap;

use crate::facts::Constraints;

/// Constraints by the names they were given.
pub(crate) type Roles = BTreeMap<String, Constraints>;
