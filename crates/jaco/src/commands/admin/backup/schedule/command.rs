//! The actions of `jaco backup schedule`.

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ListBackupSchedulesRequest, RemoveBackupScheduleRequest};
use serde_json::json;

use super::add::{AddArgs, add};
use super::run::{RunArgs, run};
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, backup_schedule};

#[derive(Debug, clap::Subcommand)]
pub(in crate::commands::admin::backup) enum Action {
    /// Add a schedule
    ///
    /// DEST is a path or a bucket. A path is one of the node that leads when a backup is due, whichever that is: mount the
    /// same disk there on every node, or the backups are spread over the nodes. The folder has to exist. In a bucket the
    /// backups are below PREFIX, in a folder with the id of the cluster.
    ///
    /// Backups for a bucket need recipients (age), or --plain. The cluster has no identity that opens them: keep it elsewhere.
    #[command(after_long_help = "Examples:
  jaco backup schedule add nightly /mnt/backups --cron '30 3 * * *' --keep-daily 7 --keep-monthly 12
  jaco backup schedule add hourly s3://sun-backups/prod --every 1h --keep 24 --keep-daily 14 \\
      --region eu-west-1 --access-key AKIA… --secret-key-file secret.txt --recipient age1…
  jaco backup schedule add minio s3://backups --endpoint https://minio.example.com:9000 --cron @daily \\
      --time-zone Europe/Berlin --access-key jaco --secret-key-file - --recipients-file ops.txt
  jaco backup schedule run nightly      take the first one now, and see that it works")]
    Add(Box<AddArgs>),
    /// List the schedules: what they do, their last backup, and what fails
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco backup schedule ls
  jaco backup schedule ls -o json"
    )]
    Ls,
    /// Remove a schedule
    ///
    /// Its backups stay where they are.
    #[command(
        aliases = ["remove", "delete"],
        after_long_help = "Examples:
  jaco backup schedule rm nightly"
    )]
    Rm {
        /// The schedule
        #[arg(value_name = "SCHEDULE")]
        schedule: String,
    },
    /// Run a schedule now: the leader takes a backup, and this waits for it
    ///
    /// If it fails, the reason is shown, and the leader goes on trying. It counts for the retention as those that were due do.
    #[command(after_long_help = "Examples:
  jaco backup schedule run nightly
  jaco backup schedule run nightly --detach")]
    Run(RunArgs),
}

pub(in crate::commands::admin::backup) async fn dispatch(
    session: &mut Session,
    action: Action,
) -> CommandResult {
    match action {
        Action::Add(args) => add(session, *args).await,
        Action::Ls => {
            let request = ListBackupSchedulesRequest::default();
            let listed = session.client()?.list_backup_schedules(request).await?;
            let (json, text) = (backup_schedule::json, backup_schedule::table);
            session.done(&List { items: &listed.schedules, json, text })
        }
        Action::Rm { schedule } => remove(session, schedule).await,
        Action::Run(args) => run(session, args).await,
    }
}

async fn remove(session: &mut Session, name: String) -> CommandResult {
    let request =
        RemoveBackupScheduleRequest { name: name.clone(), request_id: fresh_request_id() };
    let target = session.client()?.remove_backup_schedule(request).await?.target;
    let summary = match target.as_str() {
        "" => {
            let json = json!({ "name": name, "outcome": "absent" });
            Summary { json, text: format!("there is no backup schedule {name}\n") }
        }
        target => {
            let json = json!({ "name": name, "target": target, "outcome": "removed" });
            let text = format!("backup schedule {name} removed; its backups stay in {target}\n");
            Summary { json, text }
        }
    };
    session.done(&summary)
}
