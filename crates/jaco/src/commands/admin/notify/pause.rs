//! `jaco notify pause` and `jaco notify resume`

use jaco_client::fresh_request_id;
use jaco_proto::v1::{PauseNotifyTargetRequest, PauseNotifyTargetResponse};

use crate::format::quantity::count;
use crate::session::{CommandResult, Session};
use crate::view::{Summary, notify};

#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// The target
    #[arg(value_name = "TARGET")]
    target: String,
    /// Send what happened in the pause as well
    #[arg(long)]
    catch_up: bool,
}

pub(super) async fn pause(session: &mut Session, name: String) -> CommandResult {
    let done = change(session, name, "pause").await?;
    show(session, &done, "is paused already")
}

pub(super) async fn resume(session: &mut Session, args: ResumeArgs) -> CommandResult {
    let how = if args.catch_up { "catch_up" } else { "resume" };
    let done = change(session, args.target, how).await?;
    show(session, &done, "is not paused")
}

async fn change(
    session: &mut Session,
    name: String,
    change: &str,
) -> Result<PauseNotifyTargetResponse, crate::error::CliError> {
    let change = change.to_owned();
    let request = PauseNotifyTargetRequest { name, change, request_id: fresh_request_id() };
    Ok(session.client()?.pause_notify_target(request).await?)
}

fn show(session: &mut Session, done: &PauseNotifyTargetResponse, unchanged: &str) -> CommandResult {
    let target = done.target.clone().unwrap_or_default();
    let mut json = notify::json(&target);
    json["change"] = done.change.as_str().into();
    json["skipped"] = done.skipped.into();
    let mut text = match done.change.as_str() {
        "unchanged" => format!("notification target {} {unchanged}\n", target.name),
        change => format!("notification target {} {change}\n", target.name),
    };
    if done.skipped > 0 {
        let skipped = count(usize::try_from(done.skipped).unwrap_or(usize::MAX), "event");
        text += &format!("{skipped} of the pause will not be sent; the audit log has them\n");
    }
    session.done(&Summary { json, text })
}
