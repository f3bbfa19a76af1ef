//! `jacod net`, the process of the router.

use anyhow::Context;
use jaco_net::{ServiceOptions, serve};
use tokio_util::sync::CancellationToken;

use crate::process::error_file;
use crate::service_manager::notify_ready;

/// Runs as the process of the router, until `stop`.
pub(crate) async fn run(options: ServiceOptions, stop: CancellationToken) -> anyhow::Result<()> {
    let errors = error_file(&options.runtime_dir);
    // Nothing is there to remove but for what an earlier process left.
    drop(std::fs::remove_file(&errors));
    let served = serve(options, notify_ready, stop.cancelled_owned()).await;
    let served = served.context("the router has failed");
    if let Err(error) = &served {
        // Where not even this can be written, the log has it.
        drop(std::fs::write(&errors, format!("{error:#}")));
    }
    served
}
