//! Ctrl-C and SIGTERM as a question that loops ask, so that clean-up always runs.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// A signal asked to stop. Travels up as an error, so that every guard on the way cleans up.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Starts to notice interrupts instead of dying from them.
///
/// # Errors
/// If the system refuses a handler.
pub(crate) fn watch() -> io::Result<()> {
    let flag = REQUESTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Fails once a signal asked to stop.
///
/// # Errors
/// [`Interrupted`].
pub(crate) fn check() -> Result<(), Interrupted> {
    let requested = REQUESTED.get().is_some_and(|flag| flag.load(Ordering::SeqCst));
    if requested { Err(Interrupted) } else { Ok(()) }
}
