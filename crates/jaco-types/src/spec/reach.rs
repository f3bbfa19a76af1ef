//! What of its node a container reaches, past what isolates it: the one table of it.

use super::Privilege;

macro_rules! reaches {
    ($($(#[$doc:meta])* $variant:ident => $name:literal, $keys:literal, $free:literal;)*) => {
        /// A way by which a container reaches its node: a closed set whose names are part of the interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ReachKind {
            $($(#[$doc])* $variant,)*
        }

        impl ReachKind {
            /// All of them, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The way as users see it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The keys of a compose file that ask for it, as Markdown.
            #[must_use]
            pub const fn keys(self) -> &'static str {
                match self {
                    $(Self::$variant => $keys,)*
                }
            }

            /// Which values of these keys reach nothing, as Markdown.
            #[must_use]
            pub const fn free(self) -> &'static str {
                match self {
                    $(Self::$variant => $free,)*
                }
            }
        }
    };
}

reaches! {
    /// All devices and capabilities; no value.
    Privileged => "privileged", "`privileged: true`, also of a `pre_stop` hook", "`false`";
    /// The socket of a container engine; its path.
    EngineSocket => "engine-socket",
        "`volumes` with the socket of Docker, containerd, CRI-O or Podman", "–";
    /// The socket of the daemon of the cluster; its path.
    ClusterSocket => "cluster-socket", "`volumes` with `/run/jaco` or what is below it", "–";
    /// A directory or file; its path.
    HostPath => "host-path",
        "`volumes` of type `bind`; `driver_opts` of a volume with `o: bind`",
        "files beside the compose file, which are uploaded; named volumes";
    /// A namespace of the node; which one.
    HostNamespace => "host-namespace",
        "`network_mode`, `pid`, `ipc`, `uts`, `cgroup` or `userns_mode` with `host`",
        "`private`, `none`, `service:NAME`";
    /// A capability that containers do not have by themselves; its name.
    Capability => "capability", "`cap_add`",
        "`cap_drop`; the capabilities that Docker gives by default";
    /// A device, or a rule for devices; its path or the rule.
    Device => "device", "`devices`, `device_cgroup_rules`, reserved devices of the driver `cdi`",
        "GPUs, which nodes declare and the cluster assigns";
    /// An option that changes what isolates it; the option.
    SecurityOpt => "security-opt", "`security_opt`",
        "`no-new-privileges`, `apparmor=docker-default`, `seccomp=builtin`";
    /// A parameter of the kernel; its name.
    Sysctl => "sysctl", "`sysctls`",
        "those of namespaces of its own: `net.*`, `fs.mqueue.*`, `kernel.msg*`, `kernel.sem`, `kernel.shm*`";
    /// A control group outside of the engine's; its path.
    CgroupParent => "cgroup-parent", "`cgroup_parent`", "–";
    /// What starts the container; its name.
    Runtime => "runtime", "`runtime`", "–";
    /// That other processes are killed before it when memory is short; by what.
    Oom => "oom", "`oom_kill_disable: true`, a negative `oom_score_adj`",
        "`oom_score_adj` from 0 on";
    /// A group of the node; its name or number.
    Group => "group", "`group_add`", "–";
    /// A volume whose driver reaches the node; the driver, or the options of the local one.
    VolumeDriver => "volume-driver", "`driver` of a volume; its `driver_opts` with a device of the node",
        "the driver `local` without options, or with `type: nfs`, `cifs` or `tmpfs`";
}

/// One thing of its node that a container reaches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reach {
    /// By which way.
    pub kind: ReachKind,
    /// What it reaches; empty where the kind says all.
    pub value: String,
}

impl Reach {
    /// The reach of this kind and value.
    #[must_use]
    pub fn new(kind: ReachKind, value: impl Into<String>) -> Self {
        Self { kind, value: value.into() }
    }

    /// The privilege that a revision records for it, if there is one.
    #[must_use]
    pub fn privilege(&self) -> Option<Privilege> {
        match self.kind {
            ReachKind::Privileged => Some(Privilege::Privileged),
            ReachKind::EngineSocket => Some(Privilege::EngineSocket),
            ReachKind::ClusterSocket | ReachKind::HostPath => Some(Privilege::HostPath),
            ReachKind::Capability => Some(Privilege::Capabilities),
            ReachKind::Device => Some(Privilege::Devices),
            ReachKind::SecurityOpt => Some(Privilege::SecurityOpt),
            ReachKind::HostNamespace => match self.value.as_str() {
                "network" => Some(Privilege::HostNetwork),
                "pid" => Some(Privilege::HostPid),
                "ipc" => Some(Privilege::HostIpc),
                "user" => Some(Privilege::HostUsers),
                _ => None,
            },
            ReachKind::Sysctl
            | ReachKind::CgroupParent
            | ReachKind::Runtime
            | ReachKind::Oom
            | ReachKind::Group
            | ReachKind::VolumeDriver => None,
        }
    }
}

impl std::fmt::Display for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.value.as_str() {
            "" => f.write_str(self.kind.as_str()),
            value => write!(f, "{}={value}", self.kind.as_str()),
        }
    }
}
