//! The planner's laws and its rules, on whole states. Each test names the row it proves.

mod cluster;
mod laws;
mod placing;
