//! Outcomes and identities, as `sample.rs` has them.
//!
//! Bytes of format 1. Never edit, only add: what is here was written by a release.

/// Each kind, and each value of its enum.
pub(crate) const OUTCOMES: &[(&str, &str)] = &[
    ("done", "080112025200"),
    ("node_admitted", "08011205a201020807"),
    ("created", "08011207f201040801100a"),
    ("updated", "08011207f2010408021014"),
    ("unchanged", "08011207f201040802101e"),
    (
        "rejected",
        "08011232c2022f0a0c756e6b6e6f776e5f686f737412137468657265206973206e6f20686f737420\
         6e391a0a0a04686f737412026e39",
    ),
];

/// Each kind.
pub(crate) const IDENTITIES: &[(&str, &str)] = &[
    ("local", "08011205520308e807"),
    ("operator", "0801120aa201070a056f70732d31"),
    ("node", "08011205f201020807"),
    ("scheduler", "08011203c20200"),
    ("anonymous", "08011203920300"),
];

pub(crate) const AUTHORS: &[(&str, &str)] = &[
    ("socket", "0801120f520308e8079a02070a0508e8071007"),
    ("address", "0801121d520308e8079a021512130a0f3139322e302e322e373a34313233341007"),
    ("address_v6", "08011221520308e8079a021912170a135b323030313a6462383a3a315d3a34313233341007"),
    ("member", "0801120c520308e8079a02041a020807"),
];
