//! What is in volumes, on its way between the cluster and files.

mod file;
#[cfg(test)]
mod tests;

pub(crate) use file::{Facts, FileError, Writer, plain_archive, verify};
