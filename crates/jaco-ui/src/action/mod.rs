//! What can be done on the page: for each action its command, its sentence, who may do it and what confirms it.
//!
//! Pure names and texts.

mod read;
mod table;

pub use self::table::done;

/// An action with what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sets the number of replicas of a service; none is given before a user has filled it in.
    Scale {
        /// Of the service.
        deployment: String,
        /// The service.
        service: String,
        /// How many there shall be.
        replicas: Option<u32>,
    },
    /// Replaces each replica by one of the same spec.
    Restart {
        /// Of the service.
        deployment: String,
        /// The service; all of the deployment if there is none.
        service: Option<String>,
    },
    /// Begins a run of a job.
    Run {
        /// Of the job.
        deployment: String,
        /// The job.
        service: String,
    },
    /// Stops replicas and keeps their places.
    Disable(Allocation),
    /// Starts disabled replicas again.
    Enable(Allocation),
    /// Makes an earlier revision the desired one again.
    Rollback {
        /// What is rolled back.
        deployment: String,
        /// The revision.
        to: u64,
    },
    /// Deletes a deployment.
    Delete {
        /// What is deleted.
        deployment: String,
    },
    /// Keeps new replicas off a node.
    Cordon {
        /// The node.
        node: String,
    },
    /// Ends a cordon or a drain.
    Uncordon {
        /// The node.
        node: String,
    },
    /// Moves the replicas of a node to others.
    Drain {
        /// The node.
        node: String,
        /// What becomes of replicas that cannot move.
        data: BoundData,
    },
    /// Removes an empty node from the cluster.
    Remove {
        /// The node.
        node: String,
    },
    /// Removes a node that does not come back.
    RemoveLost {
        /// The node.
        node: String,
    },
}

/// What is stopped or started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocation {
    /// All replicas of a service.
    Service {
        /// Of the service.
        deployment: String,
        /// The service.
        service: String,
    },
    /// Everything on a node.
    Node(String),
}

/// What a drain does about replicas whose data is on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundData {
    /// It does not begin: the node could not be emptied.
    Refuses,
    /// They stay and run, and the others move.
    Stays,
}

impl Action {
    /// Its name, the end of its path.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Scale { .. } => "scale",
            Self::Restart { .. } => "restart",
            Self::Run { .. } => "run",
            Self::Disable(_) => "disable",
            Self::Enable(_) => "enable",
            Self::Rollback { .. } => "rollback",
            Self::Delete { .. } => "delete",
            Self::Cordon { .. } => "cordon",
            Self::Uncordon { .. } => "uncordon",
            Self::Drain { .. } => "drain",
            Self::Remove { .. } => "remove",
            Self::RemoveLost { .. } => "remove-lost",
        }
    }

    /// What it is about, as [`Action::read`] takes it.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let of_service = |deployment: &str, service: &str| {
            vec![("deployment", deployment.to_owned()), ("service", service.to_owned())]
        };
        match self {
            Self::Scale { deployment, service, replicas } => {
                let mut fields = of_service(deployment, service);
                fields.extend(replicas.map(|replicas| ("replicas", replicas.to_string())));
                fields
            }
            Self::Restart { deployment, service: None } | Self::Delete { deployment } => {
                vec![("deployment", deployment.clone())]
            }
            Self::Restart { deployment, service: Some(service) }
            | Self::Run { deployment, service }
            | Self::Disable(Allocation::Service { deployment, service })
            | Self::Enable(Allocation::Service { deployment, service }) => {
                of_service(deployment, service)
            }
            Self::Rollback { deployment, to } => {
                vec![("deployment", deployment.clone()), ("to", to.to_string())]
            }
            Self::Drain { node, data: BoundData::Stays } => {
                vec![("node", node.clone()), ("data", "stays".to_owned())]
            }
            Self::Disable(Allocation::Node(node))
            | Self::Enable(Allocation::Node(node))
            | Self::Cordon { node }
            | Self::Uncordon { node }
            | Self::Drain { node, data: BoundData::Refuses }
            | Self::Remove { node }
            | Self::RemoveLost { node } => vec![("node", node.clone())],
        }
    }
}
