//! Integration tests of the loader, one binary.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail and speak like tests"
)]

mod any_file;
mod bad_input;
mod bad_values;
mod bounds;
mod command_lines;
mod compose;
mod corpus;
mod decode;
mod decoders;
mod env_files;
mod expressions;
mod facts;
mod forms;
mod hash;
mod hash_keys;
mod hidden_lines;
mod ingress;
mod inherited;
mod laws;
mod layer_laws;
mod layers;
mod messages;
mod networks;
mod nodes;
mod nothing_silent;
mod numbers;
mod official;
mod overlay;
mod overlay_schema;
mod policy_levels;
mod port_conflicts;
mod precedence;
mod reach;
mod refusals;
mod reservation_units;
mod round_trip;
mod routes;
mod schema;
mod sections;
mod short_forms;
mod suggestions;
mod support_table;
mod trees;
mod uploads;
mod usage;
mod util;
mod variable_sources;
mod variables;
mod volumes;
