//! Where the parts of a backup come from. What a file of them is: [`jaco_backup`].

mod source;

pub(crate) use source::{Source, SourceError, Stopped};
