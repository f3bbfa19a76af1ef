//! What a node reports of its router, the process that joins the networks of its container engine to those
//! of other nodes, and of the edge in it.

/// The router of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRouter {
    /// How other routers reach it, as far as it is known. It stays while the router does not work: what
    /// is set up goes on without its process.
    pub link: Option<RouterLink>,
    /// Why it does not work; absent while it does.
    pub problem: Option<String>,
}

/// What a node reports of its edge: the process that takes requests from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeEdge {
    /// What of the routes it does not carry out, and why; absent while it carries out all of them.
    pub problem: Option<String>,
}

/// How a router is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterLink {
    /// Its WireGuard public key. Members with the same one share a container engine and its router.
    pub key: [u8; 32],
    /// The UDP port that it listens on, at the address of its node.
    pub port: u16,
    /// Where its tunnel runs.
    pub backend: TunnelBackend,
}

/// Where a WireGuard tunnel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TunnelBackend {
    /// In the kernel.
    Kernel,
    /// In the process of the router.
    Userspace,
}

impl NodeRouter {
    /// Whether replicas with networks of the cluster can run beside it.
    #[must_use]
    pub const fn works(&self) -> bool {
        self.link.is_some() && self.problem.is_none()
    }
}

impl TunnelBackend {
    /// Where it runs, as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Userspace => "userspace",
        }
    }
}
