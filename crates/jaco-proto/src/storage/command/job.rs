//! Commands about runs of jobs.

use jaco_state::command::{EarlierDues, JobDue, JobRewind, JobStart};
use jaco_types::{StateIndex, Timestamp};

use crate::storage::convert::{Wire, optional, required};
use crate::storage::error::Problem;
use crate::storage::wire;

impl Wire for JobDue {
    type Message = wire::JobDue;

    fn to_wire(&self) -> wire::JobDue {
        let Self { service, based_on, due, earlier } = self;
        wire::JobDue {
            service: Some(service.to_wire()),
            based_on: based_on.0,
            due_ms: due.0,
            earlier: earlier.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(message: wire::JobDue) -> Result<Self, Problem> {
        let service = required("service", message.service)?;
        let due = Self::new(service, StateIndex(message.based_on), Timestamp(message.due_ms));
        Ok(due.earlier(optional(message.earlier)?))
    }
}

impl Wire for EarlierDues {
    type Message = wire::EarlierDues;

    fn to_wire(&self) -> wire::EarlierDues {
        let Self { first, last, count } = *self;
        wire::EarlierDues { first_ms: first.0, last_ms: last.0, count }
    }

    fn from_wire(message: wire::EarlierDues) -> Result<Self, Problem> {
        Ok(Self {
            first: Timestamp(message.first_ms),
            last: Timestamp(message.last_ms),
            count: message.count,
        })
    }
}

impl Wire for JobRewind {
    type Message = wire::JobRewind;

    fn to_wire(&self) -> wire::JobRewind {
        let Self { service, to } = self;
        wire::JobRewind { service: Some(service.to_wire()), to_ms: to.0 }
    }

    fn from_wire(message: wire::JobRewind) -> Result<Self, Problem> {
        Ok(Self::new(required("service", message.service)?, Timestamp(message.to_ms)))
    }
}

impl Wire for JobStart {
    type Message = wire::JobStart;

    fn to_wire(&self) -> wire::JobStart {
        wire::JobStart { service: Some(self.service.to_wire()) }
    }

    fn from_wire(message: wire::JobStart) -> Result<Self, Problem> {
        Ok(Self::new(required("service", message.service)?))
    }
}
