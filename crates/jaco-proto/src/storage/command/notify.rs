//! Commands about notifications.

use jaco_state::command::{
    Beginning, Existing, GivenUp, NotifyPause, NotifyProgress, NotifyRemove, NotifyStore,
    PauseChange, Retried, RetryEnd, TargetProgress, UndeliveredChange, UndeliveredSettle,
};
use jaco_types::StateIndex;

use crate::storage::convert::{Wire, list, optional, required, to_list, wire_enum};
use crate::storage::error::Problem;
use crate::storage::notify::set;
use crate::storage::wire;

wire_enum!(Existing, "what becomes of an existing target", [Refuse, Replace]);
wire_enum!(PauseChange, "change of a pause", [Pause, Resume, CatchUp]);
wire_enum!(UndeliveredChange, "change of what was not delivered", [Retry, Clear]);

impl Wire for NotifyStore {
    type Message = wire::NotifyStore;

    fn to_wire(&self) -> wire::NotifyStore {
        let Self { name, form, shown, endpoint, filter, existing, beginning } = self;
        wire::NotifyStore {
            name: name.to_wire(),
            form: form.to_wire(),
            shown: shown.to_string(),
            endpoint: endpoint.to_wire(),
            filter: Some(filter.to_wire()),
            existing: existing.to_wire(),
            paused: *beginning == Beginning::Paused,
        }
    }

    fn from_wire(message: wire::NotifyStore) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            form: Wire::from_wire(message.form)?,
            shown: message.shown.into(),
            endpoint: Wire::from_wire(message.endpoint)?,
            filter: required("filter", message.filter)?,
            existing: Wire::from_wire(message.existing)?,
            beginning: if message.paused { Beginning::Paused } else { Beginning::Now },
        })
    }
}

impl Wire for NotifyRemove {
    type Message = wire::NotifyRemove;

    fn to_wire(&self) -> wire::NotifyRemove {
        let Self { name } = self;
        wire::NotifyRemove { name: name.to_wire() }
    }

    fn from_wire(message: wire::NotifyRemove) -> Result<Self, Problem> {
        Ok(Self { name: Wire::from_wire(message.name)? })
    }
}

impl Wire for NotifyPause {
    type Message = wire::NotifyPause;

    fn to_wire(&self) -> wire::NotifyPause {
        let Self { name, change } = self;
        wire::NotifyPause { name: name.to_wire(), change: change.to_wire() }
    }

    fn from_wire(message: wire::NotifyPause) -> Result<Self, Problem> {
        Ok(Self { name: Wire::from_wire(message.name)?, change: Wire::from_wire(message.change)? })
    }
}

impl Wire for NotifyProgress {
    type Message = wire::NotifyProgress;

    fn to_wire(&self) -> wire::NotifyProgress {
        let Self { targets } = self;
        wire::NotifyProgress { targets: to_list(targets) }
    }

    fn from_wire(message: wire::NotifyProgress) -> Result<Self, Problem> {
        Ok(Self { targets: list(message.targets)? })
    }
}

impl Wire for TargetProgress {
    type Message = wire::TargetProgress;

    fn to_wire(&self) -> wire::TargetProgress {
        let Self { name, id, cursor, delivered, failing, given_up, retried } = self;
        wire::TargetProgress {
            name: name.to_wire(),
            id: id.0,
            cursor: Some(cursor.to_wire()),
            delivered: delivered.as_ref().map(Wire::to_wire),
            failing: failing.as_ref().map(Wire::to_wire),
            given_up: to_list(given_up),
            retried: to_list(retried),
        }
    }

    fn from_wire(message: wire::TargetProgress) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            id: StateIndex(message.id),
            cursor: required("cursor", message.cursor)?,
            delivered: optional(message.delivered)?,
            failing: optional(message.failing)?,
            given_up: list(message.given_up)?,
            retried: list(message.retried)?,
        })
    }
}

impl Wire for GivenUp {
    type Message = wire::NotifyGivenUp;

    fn to_wire(&self) -> wire::NotifyGivenUp {
        let Self { event, attempts, reason } = self;
        wire::NotifyGivenUp {
            event: Some(event.to_wire()),
            attempts: *attempts,
            reason: reason.clone(),
        }
    }

    fn from_wire(message: wire::NotifyGivenUp) -> Result<Self, Problem> {
        let event = required("event that was given up", message.event)?;
        Ok(Self { event, attempts: message.attempts, reason: message.reason })
    }
}

impl Wire for Retried {
    type Message = wire::NotifyRetried;

    fn to_wire(&self) -> wire::NotifyRetried {
        let Self { event, asked, end } = self;
        let failure = match end {
            RetryEnd::Delivered => None,
            RetryEnd::Failed { reason } => Some(reason.clone()),
        };
        wire::NotifyRetried { event: Some(event.to_wire()), asked: asked.0, failure }
    }

    fn from_wire(message: wire::NotifyRetried) -> Result<Self, Problem> {
        let end = match message.failure {
            None => RetryEnd::Delivered,
            Some(reason) => RetryEnd::Failed { reason },
        };
        let event = required("event that was sent again", message.event)?;
        Ok(Self { event, asked: StateIndex(message.asked), end })
    }
}

impl Wire for UndeliveredSettle {
    type Message = wire::UndeliveredSettle;

    fn to_wire(&self) -> wire::UndeliveredSettle {
        let Self { target, events, change } = self;
        wire::UndeliveredSettle {
            target: target.to_wire(),
            events: events.iter().map(Wire::to_wire).collect(),
            change: change.to_wire(),
        }
    }

    fn from_wire(message: wire::UndeliveredSettle) -> Result<Self, Problem> {
        Ok(Self {
            target: Wire::from_wire(message.target)?,
            events: set("undelivered events", message.events)?,
            change: Wire::from_wire(message.change)?,
        })
    }
}
