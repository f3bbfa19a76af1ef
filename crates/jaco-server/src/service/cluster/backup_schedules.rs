//! Schedules of backups (R-CLI-6): stored, run, listed. A key is sealed on the leader and never returned.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jaco_backup::Recipient;
use jaco_proto::v1;
use jaco_s3::{AccessKey, Addressing, Place, PlainHttp, bucket_and_prefix};
use jaco_scheduler::backup_times::backup_due_next;
use jaco_scheduler::schedule::Calendar;
use jaco_state::ClusterState;
use jaco_state::backup::{
    BackupBucket, BackupKeep, BackupSchedule, BackupTarget, BackupTimes, BucketStyle,
};
use jaco_state::command::{BackupBegin, BackupScheduleRemove, BackupScheduleStore, Existing};
use jaco_state::view::backup_tried_at;
use jaco_store::Store;
use jaco_types::spec::{Cron, ZoneName};
use jaco_types::{Author, BackupScheduleName, Millis, Rejection, Timestamp};

use crate::backups::seal_access_key;
use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded::backup_schedules_may_begin;
use crate::status::invalid;
use crate::view;

/// The region of stores that have none.
const REGION: &str = "us-east-1";

#[async_trait]
impl Write for v1::StoreBackupScheduleRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::StoreBackupScheduleResponse, Rejection> {
        let name = BackupScheduleName::new(&self.name).map_err(invalid)?;
        let times = times(&self)?;
        let (target, key) = target(&self)?;
        let recipients = recipients(&self, &target)?;
        member.store.read(backup_schedules_may_begin)?;
        let is_there = member.store.read(|state| state.backups.contains(&name));
        let sealer = member.sealer().await?;
        let credentials = key.map(|key| seal_access_key(&sealer, &name, &key));
        let command = BackupScheduleStore::new(name.clone(), times, target)
            .credentials(credentials)
            .keep(keep(self.keep.unwrap_or_default()))
            .recipients(recipients)
            .existing(if self.replace { Existing::Replace } else { Existing::Refuse });
        member.commit(by, &self.request_id, command.into()).await?;
        drop(sealer);
        Ok(v1::StoreBackupScheduleResponse {
            schedule: listed(member, &name),
            change: if is_there { "updated" } else { "created" }.to_owned(),
        })
    }
}

#[async_trait]
impl Write for v1::RemoveBackupScheduleRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveBackupScheduleResponse, Rejection> {
        let name = BackupScheduleName::new(&self.name).map_err(invalid)?;
        let target =
            |state: &ClusterState| state.backups.get(&name).map(|it| it.target.to_string());
        // Without one there is nothing to do, nor a command that an older member may not know.
        let Some(target) = member.store.read(target) else {
            return Ok(v1::RemoveBackupScheduleResponse::default());
        };
        member.commit(by, &self.request_id, BackupScheduleRemove::new(name).into()).await?;
        Ok(v1::RemoveBackupScheduleResponse { target })
    }
}

#[async_trait]
impl Write for v1::RunBackupScheduleRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RunBackupScheduleResponse, Rejection> {
        let state = member.store.snapshot();
        let (name, schedule) = known(&state, &self.name)?;
        let goes_on = schedule.run.is_some() && schedule.failing.is_none();
        if !goes_on {
            let command = BackupBegin::new(name.clone(), schedule.id, None).into();
            member.commit(by, &self.request_id, command).await?;
        }
        Ok(v1::RunBackupScheduleResponse {
            schedule: listed(member, &name),
            change: if goes_on { "going_on" } else { "begun" }.to_owned(),
        })
    }
}

/// The schedules.
pub(super) fn list(state: &ClusterState, now: Timestamp) -> Vec<v1::BackupScheduleInfo> {
    state.backups.iter().map(|(name, schedule)| info(name, schedule, now)).collect()
}

fn listed(member: &Member, name: &BackupScheduleName) -> Option<v1::BackupScheduleInfo> {
    let now = member.clock.now();
    member.store.read(|state| state.backups.get(name).map(|schedule| info(name, schedule, now)))
}

fn known<'s>(
    state: &'s ClusterState,
    name: &str,
) -> Result<(BackupScheduleName, &'s BackupSchedule), Rejection> {
    let name = BackupScheduleName::new(name).map_err(invalid)?;
    if let Some(schedule) = state.backups.get(&name) {
        return Ok((name, schedule));
    }
    let all: Vec<&str> = state.backups.keys().map(BackupScheduleName::as_str).collect();
    let others = match all.is_empty() {
        true => "there is none".to_owned(),
        false => format!("the schedules are {}", all.join(", ")),
    };
    Err(invalid(format!("there is no backup schedule {name}: {others}")))
}

fn times(request: &v1::StoreBackupScheduleRequest) -> Result<BackupTimes, Rejection> {
    let v1::StoreBackupScheduleRequest { every_ms, cron, time_zone, .. } = request;
    match (every_ms, cron.as_str()) {
        (0, "") => Err(invalid("a backup schedule needs an interval or a cron expression")),
        (1.., "") if time_zone.is_empty() => Ok(BackupTimes::Every(Millis(*every_ms))),
        (1.., "") => Err(invalid("an interval has no time zone: it follows hours that pass")),
        (0, expression) => {
            let cron = Cron::parse(expression).map_err(invalid)?;
            let zone = if time_zone.is_empty() { "UTC" } else { time_zone };
            let zone = ZoneName::new(zone).map_err(invalid)?;
            match Calendar::by(&cron, &zone) {
                Some(_) => Ok(BackupTimes::Cron { cron, time_zone: zone }),
                None => Err(invalid(format!(
                    "there is no time zone {zone}: use a name such as UTC or Europe/Berlin"
                ))),
            }
        }
        (1.., _) => {
            Err(invalid("a backup schedule has an interval or a cron expression, and not both"))
        }
    }
}

fn target(
    request: &v1::StoreBackupScheduleRequest,
) -> Result<(BackupTarget, Option<AccessKey>), Rejection> {
    let v1::StoreBackupScheduleRequest { target, endpoint, region, access_key_id, .. } = request;
    let style = request.address_style.as_str();
    if target.starts_with('/') {
        if [endpoint, region, &request.address_style, access_key_id].iter().any(|it| !it.is_empty())
        {
            return Err(invalid("endpoint, region, address style and key are for s3://…"));
        }
        return Ok((BackupTarget::Folder(folder(target)?.into()), None));
    }
    let (bucket, prefix) = bucket_and_prefix(target).map_err(invalid)?;
    if endpoint.is_empty() && region.is_empty() {
        return Err(invalid("an object store needs a region, or an endpoint if it is not of AWS"));
    }
    let style = match (style, endpoint.is_empty()) {
        ("path", _) | ("", false) => BucketStyle::Path,
        ("host", _) | ("", true) => BucketStyle::Host,
        (_, _) => return Err(invalid("the style of addresses is path or host")),
    };
    let region = if region.is_empty() { REGION } else { region };
    let endpoint = match endpoint.is_empty() {
        true => format!("https://s3.{region}.amazonaws.com"),
        false => endpoint.trim_end_matches('/').to_owned(),
    };
    let addressing = match style {
        BucketStyle::Path => Addressing::Path,
        BucketStyle::Host => Addressing::Host,
    };
    let plain = match request.insecure_http {
        true => PlainHttp::Anywhere,
        false => PlainHttp::LoopbackOnly,
    };
    Place::new(&endpoint, region, (bucket, prefix), addressing, plain).map_err(invalid)?;
    let key = AccessKey::new(access_key_id, &request.secret_access_key).map_err(invalid)?;
    let bucket = BackupBucket {
        endpoint: endpoint.into(),
        region: region.into(),
        bucket: bucket.into(),
        prefix: prefix.into(),
        style,
    };
    Ok((BackupTarget::Bucket(bucket), Some(key)))
}

/// A path that is written in one way, so that two schedules cannot share a folder by accident.
fn folder(path: &str) -> Result<&str, Rejection> {
    let path = path.trim_end_matches('/');
    let parts = || path.split('/').skip(1);
    let is_plain = parts().all(|part| !matches!(part, "" | "." | ".."));
    match is_plain && parts().next().is_some() && !path.contains(char::is_control) {
        true => Ok(path),
        false => Err(invalid(
            "the folder of backups is an absolute path below /, without empty parts, `.` and `..`",
        )),
    }
}

fn recipients(
    request: &v1::StoreBackupScheduleRequest,
    target: &BackupTarget,
) -> Result<BTreeSet<String>, Rejection> {
    for recipient in &request.recipients {
        Recipient::parse(recipient).map_err(invalid)?;
    }
    let is_bucket = matches!(target, BackupTarget::Bucket(_));
    match (request.recipients.is_empty(), is_bucket, request.plain) {
        (true, true, false) => Err(invalid(
            "a backup holds all secrets, and whoever can read the bucket would have them: give recipients with --recipient, or ask for clear text with --plain",
        )),
        (false, _, true) => {
            Err(invalid("what has recipients is not in clear text: leave out one of the two"))
        }
        (_, _, _) => Ok(request.recipients.iter().cloned().collect()),
    }
}

fn keep(keep: v1::BackupKeep) -> BackupKeep {
    let v1::BackupKeep { newest, daily, weekly, monthly } = keep;
    BackupKeep { newest, days: daily, weeks: weekly, months: monthly }
}

fn info(
    name: &BackupScheduleName,
    schedule: &BackupSchedule,
    now: Timestamp,
) -> v1::BackupScheduleInfo {
    let BackupKeep { newest, days, weeks, months } = schedule.keep;
    let mut info = v1::BackupScheduleInfo {
        name: name.to_string(),
        target: schedule.target.to_string(),
        keep: Some(v1::BackupKeep { newest, daily: days, weekly: weeks, monthly: months }),
        recipients: schedule.recipients.iter().cloned().collect(),
        stored_at_ms: view::millis(schedule.stored_at),
        by: schedule.by.to_string(),
        next_due_ms: backup_due_next(schedule, now).map(view::millis).unwrap_or_default(),
        ..v1::BackupScheduleInfo::default()
    };
    match &schedule.times {
        BackupTimes::Every(every) => info.every_ms = every.0,
        BackupTimes::Cron { cron, time_zone } => {
            info.cron = cron.as_str().to_owned();
            info.time_zone = time_zone.to_string();
        }
    }
    if let BackupTarget::Bucket(bucket) = &schedule.target {
        info.endpoint = bucket.endpoint.to_string();
        info.region = bucket.region.to_string();
        info.address_style = match bucket.style {
            BucketStyle::Path => "path".to_owned(),
            BucketStyle::Host => "host".to_owned(),
        };
    }
    if let Some(run) = schedule.run {
        info.run = run.id.0;
        info.run_begun_at_ms = view::millis(run.begun_at);
    }
    if let Some(last) = &schedule.last {
        info.last_at_ms = view::millis(last.at);
        info.last_index = last.index.0;
        info.last_bytes = last.bytes;
        info.last_name = last.name.clone();
        info.last_node = last.node.clone();
    }
    if let Some(failing) = &schedule.failing {
        info.failing_since_ms = view::millis(failing.since);
        info.failing_reason = failing.reason.clone();
        info.failing_attempts = failing.attempts;
        info.next_try_ms = backup_tried_at(schedule).map(view::millis).unwrap_or_default();
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket() -> v1::StoreBackupScheduleRequest {
        v1::StoreBackupScheduleRequest {
            target: "s3://sun/prod/".to_owned(),
            region: "eu-west-1".to_owned(),
            access_key_id: "AKIA1".to_owned(),
            secret_access_key: "hunter2".to_owned(),
            ..v1::StoreBackupScheduleRequest::default()
        }
    }

    fn place(request: &v1::StoreBackupScheduleRequest) -> BackupBucket {
        match target(request).unwrap() {
            (BackupTarget::Bucket(bucket), Some(_)) => bucket,
            other => panic!("{other:?}"),
        }
    }

    /// R-CLI-6: a target is checked before it is stored, and what is not said is what its store needs.
    #[test]
    fn targets_are_checked() {
        let aws = place(&bucket());
        assert_eq!(&*aws.endpoint, "https://s3.eu-west-1.amazonaws.com");
        assert_eq!((&*aws.bucket, &*aws.prefix, aws.style), ("sun", "prod", BucketStyle::Host));
        let (endpoint, region) = ("http://127.0.0.1:9000/".to_owned(), String::new());
        let other = place(&v1::StoreBackupScheduleRequest { endpoint, region, ..bucket() });
        assert_eq!((&*other.endpoint, other.style), ("http://127.0.0.1:9000", BucketStyle::Path));
        assert_eq!(&*other.region, "us-east-1");
        let refused = |request| target(&request).unwrap_err().message;
        let of = |target: &str| v1::StoreBackupScheduleRequest {
            target: target.to_owned(),
            ..v1::StoreBackupScheduleRequest::default()
        };
        for path in ["/", "//", "/a//b", "/a/../b", "/a/.", "/a\nb"] {
            assert!(refused(of(path)).contains("absolute path"), "{path:?}");
        }
        assert_eq!(target(&of("/a/b/")).unwrap().0, BackupTarget::Folder("/a/b".into()));
        assert!(refused(of("backups")).contains("write /PATH, s3://BUCKET"));
        assert!(refused(of("s3://sun")).contains("needs a region"));
        let request = v1::StoreBackupScheduleRequest { target: "/a".to_owned(), ..bucket() };
        assert!(refused(request).contains("are for s3://"));
        let endpoint = "http://a.example".to_owned();
        let request = v1::StoreBackupScheduleRequest { endpoint, ..bucket() };
        assert!(refused(request).contains("not encrypted"));
        let secret_access_key = String::new();
        let request = v1::StoreBackupScheduleRequest { secret_access_key, ..bucket() };
        assert!(refused(request).contains("an id and a secret"));
    }

    /// R-CLI-6, R-IN-5: secrets go to an object store encrypted, unless clear text is asked for.
    #[test]
    fn a_bucket_gets_nothing_in_clear_text_by_accident() {
        let (of_bucket, of_folder) =
            (target(&bucket()).unwrap().0, BackupTarget::Folder("/a".into()));
        let refused = recipients(&bucket(), &of_bucket).unwrap_err().message;
        assert!(refused.contains("--recipient") && refused.contains("--plain"), "{refused}");
        let plain = v1::StoreBackupScheduleRequest { plain: true, ..bucket() };
        assert_eq!(recipients(&plain, &of_bucket), Ok(BTreeSet::new()));
        assert_eq!(recipients(&bucket(), &of_folder), Ok(BTreeSet::new()));
        let odd = vec!["age1x".to_owned()];
        let odd = v1::StoreBackupScheduleRequest { recipients: odd, ..bucket() };
        assert!(recipients(&odd, &of_bucket).is_err());
    }

    /// R-CLI-6: times are an interval or an expression, in a zone that there is.
    #[test]
    fn times_are_checked() {
        let of = |every_ms, cron: &str, zone: &str| {
            times(&v1::StoreBackupScheduleRequest {
                every_ms,
                cron: cron.to_owned(),
                time_zone: zone.to_owned(),
                ..v1::StoreBackupScheduleRequest::default()
            })
        };
        assert_eq!(of(60_000, "", "").unwrap().to_string(), "every 60s");
        assert_eq!(of(0, "30 3 * * *", "").unwrap().to_string(), "30 3 * * * UTC");
        let berlin = of(0, "@daily", "Europe/Berlin").unwrap();
        assert_eq!(berlin.to_string(), "@daily Europe/Berlin");
        for (every, cron, zone) in [
            (0, "", ""),
            (1, "@daily", ""),
            (1, "", "UTC"),
            (0, "x", ""),
            (0, "@daily", "Mars/Base"),
        ] {
            assert!(of(every, cron, zone).is_err(), "{every} {cron} {zone}");
        }
    }
}
