//! The keys of a service.

use super::Class::{Differently, Honoured, Rejected, Warned};
use super::tables::{
    BIND, BUILD, DEPENDENCY, DEPLOY, DEVELOP, ENV_FILE, EXTENDS, FILE_MOUNT, GPU, HEALTHCHECK,
    HOOK, LOGGING, MODEL_USE, PAIRS, PROVIDER, SERVICE_NETWORK, STR,
};
use super::{Extensions, Names, Object, Shape, Short, Unique, key, object};

const ONCE: Shape = Shape::List(&STR, Unique::Once);
const STRICT: Shape = Shape::List(&STR, Unique::Strict);

pub(super) static SERVICE: Object = object(&[
    key("annotations", Honoured, Shape::Pairs(&PAIRS), "Set on the container."),
    key("attach", Warned, Shape::Bool, "There is no terminal to attach to; use `jaco logs`."),
    key("blkio_config", Honoured, Shape::Object(&BLKIO), "Passed to the engine."),
    key(
        "build",
        Rejected,
        Shape::Short(Short::Build, &Shape::Object(&BUILD)),
        "Nodes do not build images. Build and push the image, name it with `image`, remove `build`.",
    ),
    key("cap_add", Honoured, ONCE, "Passed to the engine."),
    key("cap_drop", Honoured, ONCE, "Passed to the engine."),
    key("cgroup", Honoured, Shape::OneOf(&["host", "private"]), "Passed to the engine."),
    key("cgroup_parent", Honoured, Shape::Str, "Passed to the engine."),
    key("command", Honoured, Shape::Command, "Replaces the image's command."),
    key(
        "configs",
        Honoured,
        Shape::List(
            &Shape::Short(Short::FileMount, &Shape::Object(&FILE_MOUNT)),
            Unique::ByMount(""),
        ),
        "Stored in the cluster, delivered as a file.",
    ),
    key(
        "container_name",
        Differently,
        Shape::Str,
        "Containers carry JACO's own names, because replicas and nodes would collide; the name \
         resolves as a network alias of the service.",
    ),
    key("cpu_count", Warned, Shape::Int, "Windows only."),
    key("cpu_percent", Warned, Shape::Number, "Windows only."),
    key("cpu_period", Honoured, Shape::Int, "Passed to the engine."),
    key("cpu_quota", Honoured, Shape::Int, "Passed to the engine."),
    key("cpu_rt_period", Honoured, Shape::Int, "Passed to the engine."),
    key("cpu_rt_runtime", Honoured, Shape::Int, "Passed to the engine."),
    key("cpu_shares", Honoured, Shape::Int, "Passed to the engine."),
    key(
        "cpus",
        Honoured,
        Shape::Number,
        "The limit per replica, if `deploy.resources.limits.cpus` is absent.",
    ),
    key("cpuset", Honoured, Shape::Str, "Passed to the engine."),
    key(
        "credential_spec",
        Rejected,
        Shape::Object(&CREDENTIAL_SPEC),
        "Windows only. Use `secrets` or `configs`.",
    ),
    key(
        "depends_on",
        Honoured,
        Shape::Short(Short::DependsOn, &Shape::Map(&Shape::Object(&DEPENDENCY), Names::Any)),
        "Conditions hold cluster-wide, at the start and in rollouts.",
    ),
    key("deploy", Honoured, Shape::OrNull(&Shape::Object(&DEPLOY)), "See the keys below it."),
    key(
        "develop",
        Warned,
        Shape::OrNull(&Shape::Object(&DEVELOP)),
        "Nothing is watched on a cluster.",
    ),
    key("device_cgroup_rules", Honoured, STRICT, "Passed to the engine."),
    key(
        "devices",
        Honoured,
        Shape::List(&Shape::Short(Short::Device, &Shape::Object(&DEVICE)), Unique::By("target")),
        "Passed to the engine; pin the service to a host that has the device.",
    ),
    key(
        "dns",
        Honoured,
        Shape::OneOrList(&STR, Unique::Once),
        "Replaces the cluster's resolver in the container.",
    ),
    key("dns_opt", Honoured, ONCE, "Passed to the engine."),
    key("dns_search", Honoured, Shape::OneOrList(&STR, Unique::Once), "Passed to the engine."),
    key("domainname", Honoured, Shape::Str, "Passed to the engine."),
    key("entrypoint", Honoured, Shape::Command, "Replaces the image's entrypoint."),
    key(
        "env_file",
        Honoured,
        Shape::OneOrList(
            &Shape::Short(Short::EnvFile, &Shape::Object(&ENV_FILE)),
            Unique::By("path"),
        ),
        "Read by the client and folded into `environment`.",
    ),
    key("environment", Honoured, Shape::Pairs(&Shape::Text), "Set in the container."),
    key(
        "expose",
        Differently,
        Shape::List(&Shape::StrOrNum, Unique::Once),
        "Containers of a network reach each other on every port; kept as information.",
    ),
    key(
        "extends",
        Honoured,
        Shape::Short(Short::Extends, &Shape::Object(&EXTENDS)),
        "Resolved by the client.",
    ),
    key(
        "external_links",
        Rejected,
        ONCE,
        "Containers outside of the cluster cannot be linked. Use `extra_hosts` or a shared network.",
    ),
    key(
        "extra_hosts",
        Honoured,
        Shape::Short(Short::ExtraHosts, &Shape::List(&STR, Unique::Once)),
        "Written into the container's hosts file.",
    ),
    key(
        "gpus",
        Honoured,
        Shape::Short(Short::Gpus, &Shape::List(&Shape::Object(&GPU), Unique::Free)),
        "Placed on nodes whose GPU inventory fits, and requested from the engine.",
    ),
    key(
        "group_add",
        Honoured,
        Shape::List(&Shape::StrOrNum, Unique::Strict),
        "Passed to the engine.",
    ),
    key(
        "healthcheck",
        Honoured,
        Shape::Object(&HEALTHCHECK),
        "Run by the engine, or else the image's; gates rollouts, routing, `depends_on`.",
    ),
    key("hostname", Honoured, Shape::Str, "Set in every replica."),
    key("image", Honoured, Shape::Str, "Pulled by every node that runs a replica."),
    key("init", Honoured, Shape::Bool, "Passed to the engine."),
    key(
        "ipc",
        Honoured,
        Shape::Str,
        "Passed to the engine; `service:NAME` puts the replica beside one of that service.",
    ),
    key("isolation", Warned, Shape::Str, "Windows only."),
    key(
        "label_file",
        Honoured,
        Shape::OneOrList(&Shape::Path, Unique::Once),
        "Read by the client and folded into `labels`.",
    ),
    key("labels", Honoured, Shape::Pairs(&Shape::Label), "Set on the container; JACO's own win."),
    key(
        "links",
        Differently,
        ONCE,
        "Every service of a network is reachable by name; the alias resolves to the service.",
    ),
    key("logging", Honoured, Shape::Object(&LOGGING), "Passed to the engine."),
    key(
        "mac_address",
        Warned,
        Shape::Str,
        "Replicas cannot share an address; the engine chooses one.",
    ),
    key(
        "mem_limit",
        Honoured,
        Shape::Bytes,
        "The limit per replica, if `deploy.resources.limits.memory` is absent.",
    ),
    key(
        "mem_reservation",
        Honoured,
        Shape::Bytes,
        "The reservation, if `deploy.resources.reservations.memory` is absent.",
    ),
    key("mem_swappiness", Honoured, Shape::Bytes, "Passed to the engine."),
    key("memswap_limit", Honoured, Shape::Bytes, "Passed to the engine."),
    key(
        "models",
        Rejected,
        Shape::Short(Short::Models, &Shape::MapOrNull(&Shape::Object(&MODEL_USE), Names::Any)),
        "Needs a plugin of the local Docker. Run the model server as a service.",
    ),
    key(
        "network_mode",
        Differently,
        Shape::Str,
        "`none`, `host` and `bridge` as on one host; `service:NAME` puts the replica beside \
         one of that service and starts it anew with it; `container:ID` is refused.",
    ),
    key(
        "networks",
        Honoured,
        Shape::Short(
            Short::Networks,
            &Shape::MapOrNull(&Shape::Object(&SERVICE_NETWORK), Names::Any),
        ),
        "Attached across nodes; members reach each other by service name.",
    ),
    key("oom_kill_disable", Honoured, Shape::Bool, "Passed to the engine."),
    key("oom_score_adj", Honoured, Shape::Int, "Passed to the engine."),
    key("pid", Honoured, Shape::OrNull(&STR), "Passed to the engine."),
    key(
        "pids_limit",
        Honoured,
        Shape::Int,
        "The limit per replica, if `deploy.resources.limits.pids` is absent.",
    ),
    key("platform", Honoured, Shape::Str, "Pulled for, and placed on nodes of, this platform."),
    key(
        "ports",
        Honoured,
        Shape::Short(Short::Ports, &Shape::List(&Shape::Object(&PORT), Unique::ByPort)),
        "Published on the node that runs the replica; two replicas with one host port never share \
         a node.",
    ),
    key(
        "post_start",
        Warned,
        Shape::List(&Shape::Object(&HOOK), Unique::Free),
        "Hooks are not run; put the work into the image's entrypoint.",
    ),
    key(
        "pre_stop",
        Warned,
        Shape::List(&Shape::Object(&HOOK), Unique::Free),
        "Hooks are not run; handle the stop signal.",
    ),
    key(
        "privileged",
        Honoured,
        Shape::Bool,
        "Passed to the engine, for callers that may and services that say so.",
    ),
    key("profiles", Honoured, ONCE, "Services of an inactive profile are left out."),
    key(
        "provider",
        Rejected,
        Shape::Object(&PROVIDER),
        "Runs a program on one machine. Deploy what it provides as a service.",
    ),
    key(
        "pull_policy",
        Differently,
        Shape::Str,
        "`never` uses what the node has; the others pull what is missing, and `always` asks the \
         registry at each start. A rollout settles the digest, and only `always` looks for a newer \
         one, when the containers change.",
    ),
    key(
        "pull_refresh_after",
        Warned,
        Shape::Str,
        "A rollout settles the digest; time alone moves nothing.",
    ),
    key("read_only", Honoured, Shape::Bool, "Passed to the engine."),
    key(
        "restart",
        Differently,
        Shape::Str,
        "JACO restarts, with back-off and a limit. `no` and `on-failure` describe tasks that may \
         end.",
    ),
    key("runtime", Honoured, Shape::Str, "Passed to the engine; every eligible node must have it."),
    key(
        "scale",
        Honoured,
        Shape::Int,
        "The number of replicas, if `deploy.replicas` and jaco.yaml say nothing.",
    ),
    key(
        "secrets",
        Honoured,
        Shape::List(
            &Shape::Short(Short::FileMount, &Shape::Object(&FILE_MOUNT)),
            Unique::ByMount("/run/secrets"),
        ),
        "Stored encrypted in the cluster, delivered as a file.",
    ),
    key(
        "security_opt",
        Honoured,
        STRICT,
        "Passed to the engine, for callers that may and services that say so.",
    ),
    key("shm_size", Honoured, Shape::Bytes, "Passed to the engine."),
    key("stdin_open", Honoured, Shape::Bool, "Passed to the engine."),
    key("stop_grace_period", Honoured, Shape::Duration, "Time between stop signal and kill."),
    key("stop_signal", Honoured, Shape::Str, "Passed to the engine."),
    key("storage_opt", Honoured, Shape::Map(&Shape::Text, Names::Any), "Passed to the engine."),
    key("sysctls", Honoured, Shape::Pairs(&Shape::Label), "Passed to the engine."),
    key("tmpfs", Honoured, Shape::OneOrList(&STR, Unique::Once), "Passed to the engine."),
    key("tty", Honoured, Shape::Bool, "Passed to the engine."),
    key(
        "ulimits",
        Honoured,
        Shape::Map(&Shape::IntOr(&ULIMIT), Names::Any),
        "Passed to the engine.",
    ),
    key(
        "use_api_socket",
        Rejected,
        Shape::Bool,
        "A container would control one node's Docker with the user's registry logins. Mount what \
         it needs explicitly.",
    ),
    key("user", Honoured, Shape::Str, "Passed to the engine."),
    key("userns_mode", Honoured, Shape::Str, "Passed to the engine."),
    key("uts", Honoured, Shape::Str, "Passed to the engine."),
    key(
        "volumes",
        Honoured,
        Shape::List(
            &Shape::Short(Short::Volume, &Shape::Object(&VOLUME_MOUNT)),
            Unique::By("target"),
        ),
        "Named volumes live on the replica's node and make it sticky; relative files are shipped.",
    ),
    key(
        "volumes_from",
        Differently,
        ONCE,
        "The mounts of the named service are added; a replica goes on a node that has one of it. \
         `container:` is refused.",
    ),
    key("working_dir", Honoured, Shape::Str, "Passed to the engine."),
]);

static BLKIO: Object = Object {
    keys: &[
        key(
            "device_read_bps",
            Honoured,
            Shape::List(&Shape::Object(&BLKIO_LIMIT), Unique::Free),
            "Passed to the engine.",
        ),
        key(
            "device_read_iops",
            Honoured,
            Shape::List(&Shape::Object(&BLKIO_LIMIT), Unique::Free),
            "Passed to the engine.",
        ),
        key(
            "device_write_bps",
            Honoured,
            Shape::List(&Shape::Object(&BLKIO_LIMIT), Unique::Free),
            "Passed to the engine.",
        ),
        key(
            "device_write_iops",
            Honoured,
            Shape::List(&Shape::Object(&BLKIO_LIMIT), Unique::Free),
            "Passed to the engine.",
        ),
        key("weight", Honoured, Shape::Int, "Passed to the engine."),
        key(
            "weight_device",
            Honoured,
            Shape::List(&Shape::Object(&BLKIO_WEIGHT), Unique::Free),
            "Passed to the engine.",
        ),
    ],
    extensions: Extensions::Refused,
    required: &[],
};

static BLKIO_LIMIT: Object = Object {
    keys: &[
        key("path", Honoured, Shape::Str, "The device."),
        key("rate", Honoured, Shape::Bytes, "The limit."),
    ],
    extensions: Extensions::Refused,
    required: &[],
};

static BLKIO_WEIGHT: Object = Object {
    keys: &[
        key("path", Honoured, Shape::Str, "The device."),
        key("weight", Honoured, Shape::Int, "The weight."),
    ],
    extensions: Extensions::Refused,
    required: &[],
};

static CREDENTIAL_SPEC: Object = object(&[
    key("config", Rejected, Shape::Str, "Windows only."),
    key("file", Rejected, Shape::Str, "Windows only."),
    key("registry", Rejected, Shape::Str, "Windows only."),
]);

static DEVICE: Object = Object {
    keys: &[
        key("permissions", Honoured, Shape::Str, "Passed to the engine."),
        key("source", Honoured, Shape::Str, "The device on the host."),
        key("target", Honoured, Shape::Str, "The device in the container."),
    ],
    extensions: Extensions::Kept,
    required: &["source"],
};

static PORT: Object = object(&[
    key("app_protocol", Warned, Shape::Str, "A hint for other tools."),
    key("host_ip", Honoured, Shape::Str, "The node's address to publish on."),
    key(
        "mode",
        Warned,
        Shape::Str,
        "`host` and `ingress` publish alike, on the node that runs the replica.",
    ),
    key("name", Warned, Shape::Str, "A hint for other tools."),
    key("protocol", Honoured, Shape::Str, "tcp, udp or sctp."),
    key(
        "published",
        Honoured,
        Shape::StrOrNum,
        "The port on the node; a range lets the engine choose; none lets it choose freely.",
    ),
    key("target", Honoured, Shape::Int, "The port in the container."),
]);

static ULIMIT: Object = Object {
    keys: &[
        key("hard", Honoured, Shape::Int, "Passed to the engine."),
        key("soft", Honoured, Shape::Int, "Passed to the engine."),
    ],
    extensions: Extensions::Kept,
    required: &["soft", "hard"],
};

static VOLUME_MOUNT: Object = Object {
    keys: &[
        key("bind", Honoured, Shape::Object(&BIND), "See the keys below it."),
        key("consistency", Warned, Shape::Str, "Docker Desktop only."),
        key("image", Honoured, Shape::Object(&MOUNT_IMAGE), "See the keys below it."),
        key("read_only", Honoured, Shape::Bool, "Passed to the engine."),
        key("source", Honoured, Shape::Str, "A volume, a path, or an image."),
        key("target", Honoured, Shape::Str, "The path in the container."),
        key("tmpfs", Honoured, Shape::Object(&MOUNT_TMPFS), "See the keys below it."),
        key(
            "type",
            Honoured,
            Shape::OneOf(&["bind", "volume", "tmpfs", "cluster", "npipe", "image"]),
            "`cluster` and `npipe` are refused by the engine.",
        ),
        key("volume", Honoured, Shape::Object(&MOUNT_VOLUME), "See the keys below it."),
    ],
    extensions: Extensions::Kept,
    required: &["type"],
};

static MOUNT_IMAGE: Object = object(&[key(
    "subpath",
    Honoured,
    Shape::Str,
    "Passed to the engine, which must be new enough.",
)]);

static MOUNT_TMPFS: Object = object(&[
    key("mode", Honoured, Shape::Int, "Passed to the engine."),
    key("size", Honoured, Shape::Bytes, "Passed to the engine."),
]);

static MOUNT_VOLUME: Object = object(&[
    key("labels", Honoured, Shape::Pairs(&Shape::Label), "Set on the volume."),
    key("nocopy", Honoured, Shape::Bool, "Passed to the engine."),
    key("subpath", Honoured, Shape::Str, "Passed to the engine."),
]);
