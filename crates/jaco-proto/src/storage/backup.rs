//! Schedules of backups, their keys sealed as they are.

use std::collections::BTreeSet;

use bytes::Bytes;
use jaco_state::backup::{
    BackupBucket, BackupFailing, BackupKeep, BackupRun, BackupSchedule, BackupTaken, BackupTarget,
    BackupTimes, BucketStyle, SealedCredentials,
};
use jaco_types::spec::{Cron, ZoneName};
use jaco_types::{BackupScheduleName, Millis, StateIndex, Timestamp};

use super::convert::{Wire, ascending, optional, required, wire_enum};
use super::error::Problem;
use super::wire;

wire_enum!(BucketStyle, "style of a bucket's address", [Path, Host]);

impl Wire for BackupTimes {
    type Message = wire::BackupTimes;

    fn to_wire(&self) -> wire::BackupTimes {
        use wire::backup_times::Kind;
        let kind = match self {
            Self::Every(every) => Kind::EveryMs(every.0),
            Self::Cron { cron, time_zone } => Kind::Cron(wire::BackupCron {
                cron: cron.as_str().to_owned(),
                time_zone: time_zone.as_str().to_owned(),
            }),
        };
        wire::BackupTimes { kind: Some(kind) }
    }

    fn from_wire(message: wire::BackupTimes) -> Result<Self, Problem> {
        use wire::backup_times::Kind;
        Ok(match message.kind.ok_or(Problem::Missing("times of a backup schedule"))? {
            Kind::EveryMs(every) => Self::Every(Millis(every)),
            Kind::Cron(cron) => Self::Cron {
                cron: Cron::parse(&cron.cron)?,
                time_zone: ZoneName::new(&cron.time_zone)?,
            },
        })
    }
}

impl Wire for BackupTarget {
    type Message = wire::BackupTarget;

    fn to_wire(&self) -> wire::BackupTarget {
        use wire::backup_target::Kind;
        let kind = match self {
            Self::Folder(path) => Kind::Folder(path.to_string()),
            Self::Bucket(BackupBucket { endpoint, region, bucket, prefix, style }) => {
                Kind::Bucket(wire::BackupBucket {
                    endpoint: endpoint.to_string(),
                    region: region.to_string(),
                    bucket: bucket.to_string(),
                    prefix: prefix.to_string(),
                    style: style.to_wire(),
                })
            }
        };
        wire::BackupTarget { kind: Some(kind) }
    }

    fn from_wire(message: wire::BackupTarget) -> Result<Self, Problem> {
        use wire::backup_target::Kind;
        Ok(match message.kind.ok_or(Problem::Missing("target of a backup schedule"))? {
            Kind::Folder(path) => Self::Folder(path.into()),
            Kind::Bucket(bucket) => Self::Bucket(BackupBucket {
                endpoint: bucket.endpoint.into(),
                region: bucket.region.into(),
                bucket: bucket.bucket.into(),
                prefix: bucket.prefix.into(),
                style: Wire::from_wire(bucket.style)?,
            }),
        })
    }
}

impl Wire for BackupKeep {
    type Message = wire::BackupKeep;

    fn to_wire(&self) -> wire::BackupKeep {
        let Self { newest, days, weeks, months } = *self;
        wire::BackupKeep { newest, days, weeks, months }
    }

    fn from_wire(message: wire::BackupKeep) -> Result<Self, Problem> {
        let wire::BackupKeep { newest, days, weeks, months } = message;
        Ok(Self { newest, days, weeks, months })
    }
}

impl Wire for BackupTaken {
    type Message = wire::BackupTaken;

    fn to_wire(&self) -> wire::BackupTaken {
        let Self { at, index, bytes, name, node } = self;
        let (name, node) = (name.clone(), node.clone());
        wire::BackupTaken { at_ms: at.0, index: index.0, bytes: *bytes, name, node }
    }

    fn from_wire(message: wire::BackupTaken) -> Result<Self, Problem> {
        let wire::BackupTaken { at_ms, index, bytes, name, node } = message;
        Ok(Self { at: Timestamp(at_ms), index: StateIndex(index), bytes, name, node })
    }
}

impl Wire for BackupRun {
    type Message = wire::BackupRun;

    fn to_wire(&self) -> wire::BackupRun {
        let Self { id, begun_at, due } = self;
        wire::BackupRun { id: id.0, begun_at_ms: begun_at.0, due_ms: due.map(|due| due.0) }
    }

    fn from_wire(message: wire::BackupRun) -> Result<Self, Problem> {
        Ok(Self {
            id: StateIndex(message.id),
            begun_at: Timestamp(message.begun_at_ms),
            due: message.due_ms.map(Timestamp),
        })
    }
}

impl Wire for BackupFailing {
    type Message = wire::BackupFailing;

    fn to_wire(&self) -> wire::BackupFailing {
        let Self { since, at, attempts, reason } = self;
        wire::BackupFailing {
            since_ms: since.0,
            at_ms: at.0,
            attempts: *attempts,
            reason: reason.clone(),
        }
    }

    fn from_wire(message: wire::BackupFailing) -> Result<Self, Problem> {
        let wire::BackupFailing { since_ms, at_ms, attempts, reason } = message;
        Ok(Self { since: Timestamp(since_ms), at: Timestamp(at_ms), attempts, reason })
    }
}

/// No key is no bytes: there is none of that length.
pub(super) fn from_credentials(credentials: Option<&SealedCredentials>) -> Bytes {
    credentials.map(|sealed| Bytes::copy_from_slice(&sealed.0)).unwrap_or_default()
}

pub(super) fn to_credentials(bytes: &Bytes) -> Option<SealedCredentials> {
    (!bytes.is_empty()).then(|| SealedCredentials((&**bytes).into()))
}

pub(super) fn to_recipients(texts: Vec<String>) -> Result<BTreeSet<String>, Problem> {
    let entries = texts.into_iter().map(|text| Ok((text, ())));
    Ok(ascending("recipients of backups", entries)?.into_keys().collect())
}

pub(super) fn from_schedule(
    name: &BackupScheduleName,
    schedule: &BackupSchedule,
) -> wire::BackupSchedule {
    wire::BackupSchedule {
        name: name.to_wire(),
        id: schedule.id.0,
        times: Some(schedule.times.to_wire()),
        target: Some(schedule.target.to_wire()),
        credentials: from_credentials(schedule.credentials.as_ref()),
        keep: Some(schedule.keep.to_wire()),
        recipients: schedule.recipients.iter().cloned().collect(),
        stored_at_ms: schedule.stored_at.0,
        by: Some(schedule.by.to_wire()),
        seen_ms: schedule.seen.0,
        run: schedule.run.as_ref().map(Wire::to_wire),
        last: schedule.last.as_ref().map(Wire::to_wire),
        failing: schedule.failing.as_ref().map(Wire::to_wire),
    }
}

pub(super) fn to_schedule(
    message: wire::BackupSchedule,
) -> Result<(BackupScheduleName, BackupSchedule), Problem> {
    let schedule = BackupSchedule {
        id: StateIndex(message.id),
        times: required("times of a backup schedule", message.times)?,
        target: required("target of a backup schedule", message.target)?,
        credentials: to_credentials(&message.credentials),
        keep: required("retention of a backup schedule", message.keep)?,
        recipients: to_recipients(message.recipients)?,
        stored_at: Timestamp(message.stored_at_ms),
        by: required("author", message.by)?,
        seen: Timestamp(message.seen_ms),
        run: optional(message.run)?,
        last: optional(message.last)?,
        failing: optional(message.failing)?,
    };
    Ok((Wire::from_wire(message.name)?, schedule))
}
