//! Errors of a container engine.

/// Error of the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The engine is unreachable; retry later.
    #[error("the container engine does not answer: {reason}")]
    Unreachable {
        /// Error of the connection.
        reason: String,
    },
    /// The engine refused the request.
    #[error("the container engine refused: {reason}")]
    Refused {
        /// Message of the engine or registry.
        reason: String,
    },
}

/// Why a pull failed. The message is shown to users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullError {
    /// The engine is unreachable.
    #[error("the container engine does not answer: {reason}")]
    Unreachable {
        /// Error of the connection.
        reason: String,
    },
    /// The registry could not be asked, or was too busy to answer: nothing is known of the image.
    #[error("{reason}")]
    Unanswered {
        /// Message of the engine.
        reason: String,
    },
    /// The registry or the engine refused.
    #[error("{reason}")]
    Refused {
        /// Message of the engine or registry.
        reason: String,
    },
}

/// Why a start failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The image is not on this node.
    #[error("image {image:?} is not on this node")]
    ImageAbsent {
        /// The image.
        image: String,
    },
    /// The engine is unreachable. The container may or may not have been started.
    #[error("the container engine does not answer: {reason}")]
    Unreachable {
        /// Error of the connection.
        reason: String,
    },
    /// No address range is left for another network.
    #[error(
        "no address range is left for network {network:?}: the engine's address pools are used up"
    )]
    AddressPoolExhausted {
        /// The network to be created.
        network: String,
    },
    /// A network of the cluster has addresses that another network of the engine has as well.
    #[error(
        "the engine of this node cannot have network {network} with subnet {subnet}, because another          network of it has addresses of that subnet or the same bridge: find it with `docker network ls`          and remove it ({reason})"
    )]
    SubnetInUse {
        /// The network to be created.
        network: String,
        /// Its subnet.
        subnet: String,
        /// Message of the engine.
        reason: String,
    },
    /// The router of this node does not hold the container's addresses.
    #[error("{reason}")]
    NetworkNotReady {
        /// Why.
        reason: String,
    },
    /// The engine has no runtime for the requested GPUs.
    #[error(
        "the engine cannot hand out GPUs: {reason}; install the container toolkit of their vendor on \
         the node (for nvidia: nvidia-container-toolkit), restart the engine, and apply again"
    )]
    GpuRuntimeMissing {
        /// Message of the engine.
        reason: String,
    },
    /// The spec requires a feature that this engine lacks.
    #[error("the spec cannot be carried out: {reason}")]
    Unsupported {
        /// The key and the reason.
        reason: String,
    },
    /// The engine refused to create or start the container.
    #[error("{reason}")]
    Refused {
        /// Message of the engine or registry.
        reason: String,
    },
    /// The start was cancelled.
    #[error("the start was cancelled")]
    Cancelled,
}

impl StartError {
    /// Classifies the message of a refusal.
    #[must_use]
    pub fn refused(reason: String) -> Self {
        match reason.contains("could not select device driver") {
            true => Self::GpuRuntimeMissing { reason },
            false => Self::Refused { reason },
        }
    }
}

impl From<EngineError> for StartError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unreachable { reason } => Self::Unreachable { reason },
            EngineError::Refused { reason } => Self::refused(reason),
        }
    }
}
