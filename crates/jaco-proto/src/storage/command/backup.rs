//! Commands about schedules of backups.

use jaco_state::command::{
    AttemptEnd, BackupBegin, BackupReport, BackupScheduleRemove, BackupScheduleStore,
};
use jaco_types::{StateIndex, Timestamp};

use crate::storage::backup::{from_credentials, to_credentials, to_recipients};
use crate::storage::convert::{Wire, required};
use crate::storage::error::Problem;
use crate::storage::wire;

impl Wire for BackupScheduleStore {
    type Message = wire::BackupScheduleStore;

    fn to_wire(&self) -> wire::BackupScheduleStore {
        let Self { name, times, target, credentials, keep, recipients, existing } = self;
        wire::BackupScheduleStore {
            name: name.to_wire(),
            times: Some(times.to_wire()),
            target: Some(target.to_wire()),
            credentials: from_credentials(credentials.as_ref()),
            keep: Some(keep.to_wire()),
            recipients: recipients.iter().cloned().collect(),
            existing: existing.to_wire(),
        }
    }

    fn from_wire(message: wire::BackupScheduleStore) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            times: required("times of a backup schedule", message.times)?,
            target: required("target of a backup schedule", message.target)?,
            credentials: to_credentials(&message.credentials),
            keep: required("retention of a backup schedule", message.keep)?,
            recipients: to_recipients(message.recipients)?,
            existing: Wire::from_wire(message.existing)?,
        })
    }
}

impl Wire for BackupScheduleRemove {
    type Message = wire::BackupScheduleRemove;

    fn to_wire(&self) -> wire::BackupScheduleRemove {
        let Self { name } = self;
        wire::BackupScheduleRemove { name: name.to_wire() }
    }

    fn from_wire(message: wire::BackupScheduleRemove) -> Result<Self, Problem> {
        Ok(Self { name: Wire::from_wire(message.name)? })
    }
}

impl Wire for BackupBegin {
    type Message = wire::BackupBegin;

    fn to_wire(&self) -> wire::BackupBegin {
        let Self { name, id, due } = self;
        wire::BackupBegin { name: name.to_wire(), id: id.0, due_ms: due.map(|due| due.0) }
    }

    fn from_wire(message: wire::BackupBegin) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            id: StateIndex(message.id),
            due: message.due_ms.map(Timestamp),
        })
    }
}

impl Wire for BackupReport {
    type Message = wire::BackupReport;

    fn to_wire(&self) -> wire::BackupReport {
        use wire::backup_report::End;
        let Self { name, id, run, end } = self;
        let end = match end {
            AttemptEnd::Taken(taken) => End::Taken(taken.to_wire()),
            AttemptEnd::Failed { reason } => End::Failed(reason.clone()),
        };
        wire::BackupReport { name: name.to_wire(), id: id.0, run: run.0, end: Some(end) }
    }

    fn from_wire(message: wire::BackupReport) -> Result<Self, Problem> {
        use wire::backup_report::End;
        let end = match message.end.ok_or(Problem::Missing("end of an attempt"))? {
            End::Taken(taken) => AttemptEnd::Taken(Wire::from_wire(taken)?),
            End::Failed(reason) => AttemptEnd::Failed { reason },
        };
        let (id, run) = (StateIndex(message.id), StateIndex(message.run));
        Ok(Self { name: Wire::from_wire(message.name)?, id, run, end })
    }
}
