//! `jaco backup schedule run`

use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{BackupScheduleInfo, ListBackupSchedulesRequest, RunBackupScheduleRequest};
use jaco_types::ErrorCode;
use tokio::time::{Instant, sleep};

use crate::error::CliError;
use crate::format::time;
use crate::session::{CommandResult, Session};
use crate::view::{Summary, backup_schedule};

/// How often it is asked whether the backup is there.
const ASK_EVERY: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Args)]
pub(in crate::commands::admin::backup) struct RunArgs {
    /// The schedule
    #[arg(value_name = "SCHEDULE")]
    schedule: String,
    /// Do not wait for the backup
    #[arg(long)]
    detach: bool,
    /// Maximum time to wait; the leader goes on without
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time::duration)]
    timeout: Duration,
}

pub(super) async fn run(session: &mut Session, args: RunArgs) -> CommandResult {
    let RunArgs { schedule: name, detach, timeout } = args;
    let request = RunBackupScheduleRequest { name: name.clone(), request_id: fresh_request_id() };
    let begun = session.client()?.run_backup_schedule(request).await?;
    let going_on = begun.schedule.unwrap_or_default();
    if detach {
        let words = if begun.change == "begun" { "begun" } else { "is being taken already" };
        let text = format!("backup of {name} {words}\n");
        return session.done(&Summary { json: backup_schedule::json(&going_on), text });
    }
    // It may be over already.
    if going_on.run == 0 {
        return show(session, &going_on);
    }
    let until = Instant::now() + timeout;
    loop {
        // The run is the entry that began it: a node that does not know it yet would show the backup before.
        let request = ListBackupSchedulesRequest { min_index: going_on.run };
        let listed = session.client()?.list_backup_schedules(request).await?;
        let now = listed.schedules.into_iter().find(|one| one.name == name);
        let Some(now) = now else {
            return Err(failed(&name, "the schedule was removed meanwhile", &[]));
        };
        if now.run != going_on.run {
            return show(session, &now);
        }
        // A failure from before this run is none of it.
        if now.failing_attempts > 0 && now.next_try_ms > now.run_begun_at_ms {
            let help = "the leader goes on trying; `jaco backup schedule ls` says when";
            return Err(failed(&name, &now.failing_reason, &[help]));
        }
        if Instant::now() >= until {
            let help = "the leader goes on; `jaco backup schedule ls` shows what became of it";
            return Err(failed(&name, "it was not done in time", &[help]));
        }
        sleep(ASK_EVERY).await;
    }
}

fn show(session: &mut Session, now: &BackupScheduleInfo) -> CommandResult {
    let BackupScheduleInfo { name, last_name, last_node, target, last_bytes, .. } = now;
    let text = format!(
        "backup of {name} stored by {last_node}: {target}, {last_name}, {last_bytes} bytes\n"
    );
    session.done(&Summary { json: backup_schedule::json(now), text })
}

fn failed(name: &str, reason: &str, help: &[&str]) -> CliError {
    CliError::Outcome {
        code: ErrorCode::Unavailable,
        message: format!("no backup of {name} was stored: {reason}"),
        because: Vec::new(),
        help: help.iter().map(|help| (*help).to_owned()).collect(),
    }
}
