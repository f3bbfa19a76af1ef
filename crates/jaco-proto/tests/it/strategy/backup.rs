//! Schedules of backups.

use jaco_state::backup::{
    BackupBucket, BackupFailing, BackupKeep, BackupRun, BackupSchedule, BackupTaken, BackupTarget,
    BackupTimes, BucketStyle, SealedCredentials,
};
use jaco_state::command::{
    AttemptEnd, BackupBegin, BackupReport, BackupScheduleRemove, BackupScheduleStore, Existing,
};
use jaco_types::BackupScheduleName;
use jaco_types::spec::{Cron, ZoneName};

use super::*;

pub(crate) fn backup_schedule_name() -> impl Strategy<Value = BackupScheduleName> {
    "[a-z0-9][a-z0-9.-]{0,10}".prop_map(|text| BackupScheduleName::new(&text).unwrap())
}

fn times() -> impl Strategy<Value = BackupTimes> {
    let zone = select(vec!["UTC", "Europe/Berlin"]);
    let cron = select(vec!["30 3 * * *", "@daily", "*/5 * * * 1-5"]);
    prop_oneof![
        any::<u64>().prop_map(|every| BackupTimes::Every(Millis(every))),
        (cron, zone).prop_map(|(cron, zone)| BackupTimes::Cron {
            cron: Cron::parse(cron).unwrap(),
            time_zone: ZoneName::new(zone).unwrap(),
        }),
    ]
}

fn target() -> impl Strategy<Value = BackupTarget> {
    let style = select(vec![BucketStyle::Path, BucketStyle::Host]);
    prop_oneof![
        text().prop_map(|path| BackupTarget::Folder(path.into())),
        (text(), text(), text(), text(), style).prop_map(
            |(endpoint, region, bucket, prefix, style)| BackupTarget::Bucket(BackupBucket {
                endpoint: endpoint.into(),
                region: region.into(),
                bucket: bucket.into(),
                prefix: prefix.into(),
                style,
            })
        ),
    ]
}

fn credentials() -> impl Strategy<Value = Option<SealedCredentials>> {
    let bytes = vec(any::<u8>(), 1..40);
    option::of(bytes.prop_map(|bytes| SealedCredentials(bytes.into())))
}

fn keep() -> impl Strategy<Value = BackupKeep> {
    any::<[u32; 4]>().prop_map(|[newest, days, weeks, months]| BackupKeep {
        newest,
        days,
        weeks,
        months,
    })
}

fn taken() -> impl Strategy<Value = BackupTaken> {
    (moment(), index(), any::<u64>(), text(), text())
        .prop_map(|(at, index, bytes, name, node)| BackupTaken { at, index, bytes, name, node })
}

pub(crate) fn backup_command() -> impl Strategy<Value = Command> {
    let existing = select(vec![Existing::Refuse, Existing::Replace]);
    let what = (credentials(), keep(), btree_set(text(), 0..3), existing);
    let end = prop_oneof![
        taken().prop_map(AttemptEnd::Taken),
        text().prop_map(|reason| AttemptEnd::Failed { reason }),
    ];
    prop_oneof![
        (backup_schedule_name(), times(), target(), what).prop_map(
            |(name, times, target, (credentials, keep, recipients, existing))| {
                let command = BackupScheduleStore::new(name, times, target);
                let command = command.credentials(credentials).keep(keep);
                command.recipients(recipients).existing(existing).into()
            }
        ),
        backup_schedule_name().prop_map(|name| BackupScheduleRemove::new(name).into()),
        (backup_schedule_name(), index(), option::of(moment()))
            .prop_map(|(name, id, due)| BackupBegin::new(name, id, due).into()),
        (backup_schedule_name(), index(), index(), end)
            .prop_map(|(name, id, run, end)| BackupReport::new(name, id, run, end).into()),
    ]
}

fn schedule() -> impl Strategy<Value = BackupSchedule> {
    let what = (times(), target(), credentials(), keep(), btree_set(text(), 0..3));
    let run = (index(), moment(), option::of(moment())).prop_map(|(id, begun_at, due)| BackupRun {
        id,
        begun_at,
        due,
    });
    let failing = (moment(), moment(), any::<u32>(), text())
        .prop_map(|(since, at, attempts, reason)| BackupFailing { since, at, attempts, reason });
    let far = (moment(), option::of(run), option::of(taken()), option::of(failing));
    (index(), what, moment(), identity(), far).prop_map(
        |(id, (times, target, credentials, keep, recipients), stored_at, by, far)| {
            let (seen, run, last, failing) = far;
            BackupSchedule {
                id,
                times,
                target,
                credentials,
                keep,
                recipients,
                stored_at,
                by,
                seen,
                run,
                last,
                failing,
            }
        },
    )
}

pub(crate) fn backups() -> impl Strategy<Value = Table<BackupScheduleName, BackupSchedule>> {
    let rows = btree_map(backup_schedule_name(), schedule(), 0..3);
    rows.prop_map(|rows| rows.into_iter().collect())
}
