//! `jaco backup schedule add`

use std::io::Read;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{BackupKeep, StoreBackupScheduleRequest};

use crate::commands::admin::keys::RecipientArgs;
use crate::error::CliError;
use crate::format::time;
use crate::session::{CommandResult, Session};
use crate::view::{Summary, backup_schedule};

/// The most bytes that are read of a file with a secret key.
const FILE_BYTES_MAX: u64 = 8 << 10;

#[derive(Debug, clap::Args)]
pub(in crate::commands::admin::backup) struct AddArgs {
    /// The name of the schedule
    #[arg(value_name = "NAME")]
    name: String,
    /// Where backups go: an absolute path of the node that leads, or s3://BUCKET/PREFIX
    #[arg(value_name = "DEST")]
    dest: String,
    #[command(flatten)]
    times: TimesArgs,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    recipients: RecipientArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Replace a schedule of this name
    #[arg(long)]
    replace: bool,
}

#[derive(Debug, clap::Args)]
struct TimesArgs {
    /// Take one each time that so much has passed, for example 6h; 1m at least
    #[arg(
        long,
        value_name = "TIME",
        value_parser = time::duration,
        required_unless_present = "cron",
        conflicts_with = "cron"
    )]
    every: Option<Duration>,
    /// Take one at these times, as `schedule:` of a job has them: '30 3 * * *', @daily
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// The time zone of the expression; UTC unless given
    #[arg(long, value_name = "ZONE", requires = "cron", conflicts_with = "every")]
    time_zone: Option<String>,
}

/// Which backups stay. One stays if one of the rules keeps it; all do without any.
#[derive(Debug, clap::Args)]
struct KeepArgs {
    /// Keep the newest N backups of this cluster in DEST and remove the others
    #[arg(long, value_name = "N")]
    keep: Option<NonZeroU32>,
    /// Keep the newest backup of each of the last N days that have one, in UTC
    #[arg(long, value_name = "N")]
    keep_daily: Option<NonZeroU32>,
    /// The same for weeks, which begin on Monday
    #[arg(long, value_name = "N")]
    keep_weekly: Option<NonZeroU32>,
    /// The same for months
    #[arg(long, value_name = "N")]
    keep_monthly: Option<NonZeroU32>,
}

/// What only an object store has.
#[derive(Debug, clap::Args)]
struct StoreArgs {
    /// The object store, https://HOST:PORT, if it is not that of AWS
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The region of the bucket; us-east-1 unless given, where there is an endpoint
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Whether the bucket is in the path of an address or in its host; `path` unless given, where there is an endpoint
    #[arg(long, value_name = "STYLE", value_parser = ["path", "host"])]
    address_style: Option<String>,
    /// The id of the key at the object store
    #[arg(long, value_name = "ID", requires = "secret_key_file")]
    access_key: Option<String>,
    /// Read the secret of the key from a file, or from stdin with `-`
    #[arg(long, value_name = "FILE", requires = "access_key")]
    secret_key_file: Option<PathBuf>,
    /// Store backups in clear text: whoever can read the bucket has all secrets
    #[arg(long, conflicts_with_all = ["recipient", "recipients_file"])]
    plain: bool,
    /// Take an endpoint without encryption that is not this machine's own: who is on the way reads and changes backups
    #[arg(long)]
    insecure_http: bool,
}

impl KeepArgs {
    fn rules(&self) -> BackupKeep {
        let number = |rule: Option<NonZeroU32>| rule.map_or(0, NonZeroU32::get);
        BackupKeep {
            newest: number(self.keep),
            daily: number(self.keep_daily),
            weekly: number(self.keep_weekly),
            monthly: number(self.keep_monthly),
        }
    }
}

pub(super) async fn add(session: &mut Session, args: AddArgs) -> CommandResult {
    let AddArgs { name, dest, times, keep, recipients, store, replace } = args;
    let recipients = recipients.read()?;
    let recipients = recipients.iter().flat_map(|all| all.iter());
    let is_bucket = dest.starts_with("s3://");
    if is_bucket && store.access_key.is_none() {
        return Err(CliError::usage(
            "a bucket needs a key",
            "give it with --access-key ID --secret-key-file FILE",
        ));
    }
    let secret = store.secret_key_file.as_deref().map(read).transpose()?;
    let every = times.every.map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
    let request = StoreBackupScheduleRequest {
        name,
        every_ms: every.unwrap_or_default(),
        cron: times.cron.unwrap_or_default(),
        time_zone: times.time_zone.unwrap_or_default(),
        target: dest,
        endpoint: store.endpoint.unwrap_or_default(),
        region: store.region.unwrap_or_default(),
        address_style: store.address_style.unwrap_or_default(),
        access_key_id: store.access_key.unwrap_or_default(),
        secret_access_key: secret.unwrap_or_default(),
        keep: Some(keep.rules()),
        recipients: recipients.map(ToString::to_string).collect(),
        plain: store.plain,
        insecure_http: store.insecure_http,
        replace,
        request_id: fresh_request_id(),
    };
    let stored = session.client()?.store_backup_schedule(request).await?;
    let schedule = stored.schedule.unwrap_or_default();
    let done = if stored.change == "updated" { "replaced" } else { "added" };
    let mut text = format!(
        "backup schedule {} {done}: {} to {}\n",
        schedule.name,
        backup_schedule::times_text(&schedule),
        schedule.target
    );
    if let Some(next) = time::rfc3339(schedule.next_due_ms).filter(|_| schedule.next_due_ms > 0) {
        text += &format!("the next one is due at {next}\n");
    }
    if !is_bucket {
        text +=
            "the path is one of the node that leads: it has to be the same disk on every node\n";
    }
    session.done(&Summary { json: backup_schedule::json(&schedule), text })
}

/// A file with one line.
fn read(file: &Path) -> Result<String, CliError> {
    let unreadable = |error| CliError::local(format!("cannot read {}", file.display()), error);
    let mut text = String::new();
    let done = match file == Path::new("-") {
        true => std::io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut text),
        false => std::fs::File::open(file)
            .and_then(|opened| opened.take(FILE_BYTES_MAX).read_to_string(&mut text)),
    };
    done.map_err(unreadable)?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
