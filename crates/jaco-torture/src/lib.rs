//! Crash images: what a power cut may leave of the files that a program writes.
//!
//! A program is run under `strace`; its calls become [`Step`]s: changes of files and folders, syncs, and the marks
//! that the program prints, such as what it has acknowledged. [`Recording::image`] builds what a disk may hold after
//! a power cut between any two steps: everything that was synced, and of the rest what a draw keeps. It must never
//! lose what a sync covered, nor keep what no call wrote.
//!
//! Linux only. The program may have threads, and must not hand its files to other processes.

mod disk;
mod folder;
mod image;
mod images;
mod random;
mod recording;
mod report;
mod trace;
mod tracer;
mod untold;

pub use disk::{Durability, Step, StepKind};
pub use folder::{Folder, Node};
pub use image::Draw;
pub use images::Images;
pub use random::Random;
pub use recording::Recording;
pub use report::{Report, Torture, Verdict};
pub use tracer::{Fault, Traced, trace};
