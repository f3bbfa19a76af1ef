//! The only place that prints: results on stdout, everything else on stderr.

mod painted;
mod show;
pub(crate) mod terminal;
mod ui;

pub use show::{Detail, Format, Frame, JsonLayout, Show};
pub use ui::Ui;
pub(crate) use ui::{Confirmation, Stream, Verbosity};
