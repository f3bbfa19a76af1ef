//! Images in archives, as container engines save them: what is in one, and which blobs an image consists of.
//!
//! Names in an archive are looked up in it, and never become a path of this machine.

mod engine;
mod error;
mod parse;
mod push;
mod scan;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use engine::{Build, build, program as engine_program};
pub(crate) use push::{Push, Pushed, Source, on_thread, push};

use engine::{inspect, save};
pub(crate) use error::ImageError;
pub(crate) use parse::{Blob, Image, parse};
pub(crate) use scan::scan;
