//! Schedules of backups (R-CLI-6): when the leader takes one, where it goes, and which ones stay. The key of an object store
//! is here in sealed form only.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jaco_types::spec::{Cron, ZoneName};
use jaco_types::{Identity, Millis, StateIndex, Timestamp};

/// The most schedules: each of them has a backup written by one leader, one after the other.
pub const SCHEDULES_MAX: usize = 16;

/// The most bytes of a text of a target: of its path, endpoint or prefix.
pub const TARGET_BYTES_MAX: usize = 1 << 10;

/// The most recipients of a schedule, as of a backup that a user takes.
pub const RECIPIENTS_MAX: usize = 64;

/// The most bytes of a recipient.
pub const RECIPIENT_BYTES_MAX: usize = 128;

/// The most bytes of a key at an object store, as it is sealed.
pub const CREDENTIALS_BYTES_MAX: usize = 1 << 10;

/// The most bytes of the reason for a failure, and of the name of a backup.
pub const REPORT_BYTES_MAX: usize = 512;

/// The shortest time between two backups.
pub const EVERY_MIN: Millis = Millis(60 * 1000);

/// The longest time between two backups.
pub const EVERY_MAX: Millis = Millis(366 * 24 * 60 * 60 * 1000);

/// What sealing may add.
const SEAL_BYTES_MAX: usize = 256;

/// A schedule, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSchedule {
    /// The entry that stored it: what a leader reports of an earlier one of this name is not about it.
    pub id: StateIndex,
    /// When backups are due.
    pub times: BackupTimes,
    /// Where they go.
    pub target: BackupTarget,
    /// The key at an object store; absent for a folder.
    pub credentials: Option<SealedCredentials>,
    /// Which ones stay.
    pub keep: BackupKeep,
    /// Whom they are encrypted for; in clear text without any.
    pub recipients: BTreeSet<String>,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// Who stored it.
    pub by: Identity,
    /// Due times up to this one are dealt with.
    pub seen: Timestamp,
    /// The run that goes on; absent between two.
    pub run: Option<BackupRun>,
    /// The last backup; absent before the first.
    pub last: Option<BackupTaken>,
    /// Absent where the last attempt succeeded.
    pub failing: Option<BackupFailing>,
}

/// When backups are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupTimes {
    /// So long after the schedule was stored, and again and again.
    Every(Millis),
    /// By the clocks of a time zone.
    Cron {
        /// When.
        cron: Cron,
        /// By whose clocks.
        time_zone: ZoneName,
    },
}

/// Where backups go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupTarget {
    /// A folder of the node that leads, by its absolute path.
    Folder(Arc<str>),
    /// A bucket of an object store.
    Bucket(BackupBucket),
}

/// A bucket of an object store that speaks the S3 protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupBucket {
    /// Scheme, host and port of the store.
    pub endpoint: Arc<str>,
    /// What requests are signed for.
    pub region: Arc<str>,
    /// Its name.
    pub bucket: Arc<str>,
    /// What is before the names of backups, without a slash at either end; empty for none.
    pub prefix: Arc<str>,
    /// Whether its name is in the path of an address, or in the host.
    pub style: BucketStyle,
}

/// Where the name of a bucket is in an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketStyle {
    /// `https://HOST/BUCKET/…`
    Path,
    /// `https://BUCKET.HOST/…`
    Host,
}

/// Which backups stay. One stays if one of the rules keeps it; all do without any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupKeep {
    /// The newest ones.
    pub newest: u32,
    /// The newest one of each of the last days that have one, in UTC.
    pub days: u32,
    /// The same for weeks.
    pub weeks: u32,
    /// The same for months.
    pub months: u32,
}

/// A backup that is being taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupRun {
    /// The entry that began it. A backup of this state or a later one ends it.
    pub id: StateIndex,
    /// When it began.
    pub begun_at: Timestamp,
    /// When it was due; absent where a user asked for it.
    pub due: Option<Timestamp>,
}

/// A backup that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupTaken {
    /// When.
    pub at: Timestamp,
    /// Of which state.
    pub index: StateIndex,
    /// The size of the file.
    pub bytes: u64,
    /// The name of the file.
    pub name: String,
    /// The node that wrote it.
    pub node: String,
}

/// That backups fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFailing {
    /// When the first attempt failed since the last that succeeded.
    pub since: Timestamp,
    /// When the last one failed.
    pub at: Timestamp,
    /// How many failed in a row.
    pub attempts: u32,
    /// Why the last one failed, without anything secret.
    pub reason: String,
}

/// The key at an object store, sealed under the cluster's key for one schedule: cheap to copy, and not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedCredentials(pub Arc<[u8]>);

impl SealedCredentials {
    /// Whether a key of the allowed size can be in it.
    #[must_use]
    pub fn fits(&self) -> bool {
        (1..=CREDENTIALS_BYTES_MAX + SEAL_BYTES_MAX).contains(&self.0.len())
    }
}

impl fmt::Debug for SealedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sealed bytes", self.0.len())
    }
}

impl BackupTarget {
    /// Whether its texts are within bounds, and those that it needs are there.
    #[must_use]
    pub fn fits(&self) -> bool {
        let fits = |text: &str| (1..=TARGET_BYTES_MAX).contains(&text.len());
        match self {
            Self::Folder(path) => fits(path) && path.starts_with('/'),
            Self::Bucket(BackupBucket { endpoint, region, bucket, prefix, style: _ }) => {
                fits(endpoint) && fits(region) && fits(bucket) && prefix.len() <= TARGET_BYTES_MAX
            }
        }
    }

    /// Whether what is written to one of them is looked for, and removed, in the other.
    #[must_use]
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Folder(one), Self::Folder(other)) => one == other,
            (Self::Bucket(one), Self::Bucket(other)) => {
                (&one.endpoint, &one.bucket, &one.prefix)
                    == (&other.endpoint, &other.bucket, &other.prefix)
            }
            (Self::Folder(_), Self::Bucket(_)) | (Self::Bucket(_), Self::Folder(_)) => false,
        }
    }
}

impl fmt::Display for BackupTarget {
    /// As users write it: a path, or `s3://BUCKET/PREFIX`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => f.write_str(path),
            Self::Bucket(BackupBucket { bucket, prefix, .. }) if prefix.is_empty() => {
                write!(f, "s3://{bucket}")
            }
            Self::Bucket(BackupBucket { bucket, prefix, .. }) => {
                write!(f, "s3://{bucket}/{prefix}")
            }
        }
    }
}

impl BackupTimes {
    /// Whether it is within bounds.
    #[must_use]
    pub fn fits(&self) -> bool {
        match self {
            Self::Every(every) => (EVERY_MIN..=EVERY_MAX).contains(every),
            Self::Cron { .. } => true,
        }
    }
}

impl fmt::Display for BackupTimes {
    /// As the audit log has it: `every 21600s`, `30 3 * * * UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(every) => write!(f, "every {every}"),
            Self::Cron { cron, time_zone } => write!(f, "{} {time_zone}", cron.as_str()),
        }
    }
}

impl fmt::Display for BackupKeep {
    /// As the audit log has it: `newest=7 monthly=12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { newest, days, weeks, months } = *self;
        let rules = [("newest", newest), ("daily", days), ("weekly", weeks), ("monthly", months)];
        let given = rules.into_iter().filter(|(_, number)| *number > 0);
        let words: Vec<String> = given.map(|(name, number)| format!("{name}={number}")).collect();
        match words.is_empty() {
            true => f.write_str("all"),
            false => f.write_str(&words.join(" ")),
        }
    }
}
