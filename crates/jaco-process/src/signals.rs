//! The signals that stop a process.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// The first signal stops the process cleanly, the second one immediately. Must be called within a tokio runtime.
///
/// # Errors
/// If the system does not allow to wait for signals.
pub fn stop_on_signal(shutdown: &CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if shutdown.is_cancelled() {
                std::process::exit(130);
            }
            info!("stopping");
            shutdown.cancel();
        }
    });
    Ok(())
}
