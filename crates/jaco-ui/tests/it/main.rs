//! The pages as browsers, screen readers and slow lines get them.

mod accessibility;
mod actions;
mod assets;
mod document;
mod escaping;
mod palette;
mod planned;
mod reading;
mod samples;
mod size;
mod truth;
