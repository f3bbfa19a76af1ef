//! Schedules of backups.

use jaco_state::backup::{
    BackupBucket, BackupFailing, BackupKeep, BackupRun, BackupSchedule, BackupTaken, BackupTarget,
    BackupTimes, BucketStyle, SealedCredentials,
};
use jaco_state::command::{
    AttemptEnd, BackupBegin, BackupReport, BackupScheduleRemove, BackupScheduleStore, Existing,
    KekReseal, Resealed,
};
use jaco_state::envelope::Place;
use jaco_types::BackupScheduleName;
use jaco_types::spec::{Cron, ZoneName};

use super::*;

/// One of each command.
pub(crate) fn backup_commands() -> Vec<Command> {
    vec![
        BackupScheduleStore::new(schedule_name(), nightly(), bucket(BucketStyle::Host))
            .credentials(Some(credentials()))
            .keep(BackupKeep { newest: 3, days: 7, weeks: 4, months: 12 })
            .recipients(["age1a".to_owned(), "age1b".to_owned()].into())
            .into(),
        BackupScheduleRemove::new(schedule_name()).into(),
        BackupBegin::new(schedule_name(), StateIndex(20), Some(Timestamp(1_700_000_000_000)))
            .into(),
        report(AttemptEnd::Taken(taken())),
    ]
}

/// Commands with the other values of their enums, without what may be absent, and the place of a key.
pub(crate) fn commands_of_backups() -> Vec<Command> {
    let every = BackupTimes::Every(Millis(3_600_000));
    let store = BackupScheduleStore::new(schedule_name(), every, folder());
    let resealed = Resealed {
        place: Place::BackupSchedule(schedule_name()),
        replaces: [0x66; 32],
        envelope: [9].as_slice().into(),
    };
    vec![
        store.existing(Existing::Replace).into(),
        BackupScheduleStore::new(schedule_name(), nightly(), bucket(BucketStyle::Path))
            .credentials(Some(credentials()))
            .into(),
        BackupBegin::new(schedule_name(), StateIndex(20), None).into(),
        report(AttemptEnd::Failed { reason: "disk full".to_owned() }),
        KekReseal::new(StateIndex(40), vec![resealed]).into(),
    ]
}

/// A state with two schedules, and nothing else.
pub(crate) fn state_of_backups() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    let new = BackupSchedule {
        id: StateIndex(20),
        times: BackupTimes::Every(Millis(3_600_000)),
        target: folder(),
        credentials: None,
        keep: BackupKeep::default(),
        recipients: Default::default(),
        stored_at: Timestamp(1_700_000_000_456),
        by: Identity::Local { uid: 1000 },
        seen: Timestamp(1_700_000_000_456),
        run: None,
        last: None,
        failing: None,
    };
    let used = BackupSchedule {
        id: StateIndex(21),
        times: nightly(),
        target: bucket(BucketStyle::Host),
        credentials: Some(credentials()),
        keep: BackupKeep { newest: 3, days: 7, weeks: 4, months: 12 },
        recipients: ["age1a".to_owned()].into(),
        seen: Timestamp(1_700_000_100_000),
        run: Some(BackupRun {
            id: StateIndex(41),
            begun_at: Timestamp(1_700_000_100_001),
            due: Some(Timestamp(1_700_000_100_000)),
        }),
        last: Some(taken()),
        failing: Some(BackupFailing {
            since: Timestamp(1_700_000_100_002),
            at: Timestamp(1_700_000_100_003),
            attempts: 2,
            reason: "disk full".to_owned(),
        }),
        ..new.clone()
    };
    state.backups.insert(BackupScheduleName::new("local").unwrap(), new);
    state.backups.insert(schedule_name(), used);
    state
}

fn report(end: AttemptEnd) -> Command {
    BackupReport::new(schedule_name(), StateIndex(20), StateIndex(41), end).into()
}

fn taken() -> BackupTaken {
    BackupTaken {
        at: Timestamp(1_700_000_000_789),
        index: StateIndex(41),
        bytes: 4096,
        name: "sun-20231114T221320Z-41.jacobak.age".to_owned(),
        node: "n1".to_owned(),
    }
}

fn nightly() -> BackupTimes {
    let (cron, time_zone) =
        (Cron::parse("30 3 * * *").unwrap(), ZoneName::new("Europe/Berlin").unwrap());
    BackupTimes::Cron { cron, time_zone }
}

fn folder() -> BackupTarget {
    BackupTarget::Folder("/mnt/backups".into())
}

fn bucket(style: BucketStyle) -> BackupTarget {
    BackupTarget::Bucket(BackupBucket {
        endpoint: "https://a.example".into(),
        region: "eu-west-1".into(),
        bucket: "sun".into(),
        prefix: "prod".into(),
        style,
    })
}

fn credentials() -> SealedCredentials {
    SealedCredentials([7; 40].into())
}

fn schedule_name() -> BackupScheduleName {
    BackupScheduleName::new("nightly").unwrap()
}
