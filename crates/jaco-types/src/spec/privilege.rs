//! By what a container reaches its node.

/// Something by which a container reaches its node, past what isolates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Privilege {
    /// `privileged: true`.
    Privileged,
    /// `security_opt`.
    SecurityOpt,
    /// The engine's socket is mounted.
    EngineSocket,
    /// The node's network.
    HostNetwork,
    /// The node's processes.
    HostPid,
    /// The node's shared memory.
    HostIpc,
    /// The node's users.
    HostUsers,
    /// A directory or file of the node is mounted.
    HostPath,
    /// Devices of the node.
    Devices,
    /// Capabilities of the kernel that containers do not have by themselves.
    Capabilities,
}

impl Privilege {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Privileged,
        Self::SecurityOpt,
        Self::EngineSocket,
        Self::HostNetwork,
        Self::HostPid,
        Self::HostIpc,
        Self::HostUsers,
        Self::HostPath,
        Self::Devices,
        Self::Capabilities,
    ];

    /// The privilege as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::SecurityOpt => "security_opt",
            Self::EngineSocket => "engine_socket",
            Self::HostNetwork => "host_network",
            Self::HostPid => "host_pid",
            Self::HostIpc => "host_ipc",
            Self::HostUsers => "host_users",
            Self::HostPath => "host_path",
            Self::Devices => "devices",
            Self::Capabilities => "capabilities",
        }
    }
}
