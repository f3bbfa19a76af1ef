//! The planner's laws.
