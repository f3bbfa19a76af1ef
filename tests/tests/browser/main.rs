//! The page of a node in Chromium, on clusters of real daemons with the fake engine.

mod accessibility;
mod flows;
mod large;
mod looks;
mod site;
