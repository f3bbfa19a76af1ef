//! Commands about what deployments may reach of the nodes.

use jaco_state::command::{PolicyAllow, PolicyRevoke, PolicySet};

use crate::storage::convert::Wire;
use crate::storage::error::Problem;
use crate::storage::spec::{reach_set, reach_to_wire};
use crate::storage::wire;

impl Wire for PolicySet {
    type Message = wire::PolicySet;

    fn to_wire(&self) -> wire::PolicySet {
        let Self { mode } = self;
        wire::PolicySet { mode: mode.to_wire() }
    }

    fn from_wire(message: wire::PolicySet) -> Result<Self, Problem> {
        Ok(Self { mode: Wire::from_wire(message.mode)? })
    }
}

impl Wire for PolicyAllow {
    type Message = wire::PolicyAllow;

    fn to_wire(&self) -> wire::PolicyAllow {
        let Self { deployment, reaches } = self;
        wire::PolicyAllow {
            deployment: deployment.to_wire(),
            reaches: reaches.iter().map(reach_to_wire).collect(),
        }
    }

    fn from_wire(message: wire::PolicyAllow) -> Result<Self, Problem> {
        Ok(Self {
            deployment: Wire::from_wire(message.deployment)?,
            reaches: reach_set(message.reaches)?,
        })
    }
}

impl Wire for PolicyRevoke {
    type Message = wire::PolicyRevoke;

    fn to_wire(&self) -> wire::PolicyRevoke {
        let Self { deployment, reaches } = self;
        wire::PolicyRevoke {
            deployment: deployment.to_wire(),
            reaches: reaches.iter().map(reach_to_wire).collect(),
        }
    }

    fn from_wire(message: wire::PolicyRevoke) -> Result<Self, Problem> {
        Ok(Self {
            deployment: Wire::from_wire(message.deployment)?,
            reaches: reach_set(message.reaches)?,
        })
    }
}
