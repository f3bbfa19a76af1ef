//! The keys of a service.

use super::shape::Class::{Differently, Honoured, Ignored, Rejected};
use crate::support::common::{PAIRS, STR};
use crate::support::deploy::DEPLOY;
use crate::support::part::{
    BLKIO, CREDENTIAL_SPEC, DEVELOP, EXTENDS, HEALTHCHECK, LOGGING, PROVIDER,
};
use crate::support::shape::{Names, Object, Shape, Short, Unique, key, object};
use crate::support::value::{
    BUILD_SECTION, CONFIGS, DEPENDENCIES, DEVICES, ENV_FILES, EXTRA_HOSTS, GPUS, HOOKS, MODELS,
    NETWORKS, ONCE, ONCE_OR_ONE, PORTS, PRE_STOP, SECRETS, STRICT, ULIMITS, VOLUMES,
};

pub(crate) static SERVICE: Object = object(&[
    key("annotations", Honoured, Shape::Pairs(&PAIRS), "Set on the container."),
    key("attach", Ignored, Shape::Bool, "Nothing is attached to a terminal; use `jaco logs`."),
    key("blkio_config", Honoured, Shape::Object(&BLKIO), "Passed to the engine."),
    key(
        "build",
        Rejected,
        BUILD_SECTION,
        "Nodes do not build images: `jaco apply --build` does, on this machine, and pushes them. Without \
         it, the `image` beside it is run, with a warning.",
    ),
    key("cap_add", Honoured, ONCE, "Passed to the engine."),
    key("cap_drop", Honoured, ONCE, "Passed to the engine."),
    key("cgroup", Honoured, Shape::OneOf(&["host", "private"]), "Passed to the engine."),
    key("cgroup_parent", Honoured, Shape::Str, "Passed to the engine."),
    key("command", Honoured, Shape::Command, "Replaces the image's command."),
    key("configs", Honoured, CONFIGS, "Stored in the cluster and mounted as a file."),
    key(
        "container_name",
        Differently,
        Shape::Str,
        "JACO names containers itself, because replicas would have the same name; the given name \
         is a network alias of the service.",
    ),
    key("cpu_count", Ignored, Shape::Int, "Windows only."),
    key("cpu_percent", Ignored, Shape::Number, "Windows only."),
    key("cpu_period", Honoured, Shape::Int, "Passed to the engine."),
    key("cpu_quota", Honoured, Shape::Int, "Passed to the engine."),
    key("cpu_rt_period", Honoured, Shape::Int, "Passed to the engine."),
    key("cpu_rt_runtime", Honoured, Shape::Int, "Passed to the engine."),
    key("cpu_shares", Honoured, Shape::Int, "Passed to the engine."),
    key(
        "cpus",
        Honoured,
        Shape::Number,
        "The limit of each replica, if `deploy.resources.limits.cpus` is absent.",
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
        DEPENDENCIES,
        "Conditions are checked over the whole cluster, at the first start and in rollouts.",
    ),
    key("deploy", Honoured, Shape::OrNull(&Shape::Object(&DEPLOY)), "See the keys below it."),
    key(
        "develop",
        Ignored,
        Shape::OrNull(&Shape::Object(&DEVELOP)),
        "Source files are not watched on a cluster.",
    ),
    key("device_cgroup_rules", Honoured, STRICT, "Passed to the engine."),
    key(
        "devices",
        Honoured,
        DEVICES,
        "Passed to the engine; pin the service to a node that has the device.",
    ),
    key(
        "dns",
        Honoured,
        ONCE_OR_ONE,
        "Replaces the node's DNS servers for names that are not the cluster's.",
    ),
    key("dns_opt", Honoured, ONCE, "Passed to the engine."),
    key("dns_search", Honoured, ONCE_OR_ONE, "Passed to the engine."),
    key("domainname", Honoured, Shape::Str, "Passed to the engine."),
    key("entrypoint", Honoured, Shape::Command, "Replaces the image's entrypoint."),
    key("env_file", Honoured, ENV_FILES, "Read by the client and merged into `environment`."),
    key("environment", Honoured, Shape::Pairs(&Shape::Text), "Set in the container."),
    key(
        "expose",
        Differently,
        Shape::List(&Shape::StrOrNum, Unique::Once),
        "Containers of a network reach each other on every port, so it only documents the port.",
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
        "Containers outside of the deployment cannot be linked. Use `extra_hosts`.",
    ),
    key("extra_hosts", Honoured, EXTRA_HOSTS, "Written into the container's hosts file."),
    key(
        "gpus",
        Honoured,
        GPUS,
        "Replicas are placed on nodes with matching GPUs, which are requested from the engine.",
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
        "Run by the engine; rollouts, endpoints and `depends_on` wait for it. Without it the health check of the image applies.",
    ),
    key("hostname", Honoured, Shape::Str, "Set in every replica; other services find them by it."),
    key("image", Honoured, Shape::Str, "Pulled by every node that runs a replica."),
    key("init", Honoured, Shape::Bool, "Passed to the engine."),
    key(
        "ipc",
        Honoured,
        Shape::Str,
        "Passed to the engine; with `service:NAME` replicas are colocated with that service.",
    ),
    key("isolation", Ignored, Shape::Str, "Windows only."),
    key(
        "label_file",
        Honoured,
        Shape::OneOrList(&Shape::Path, Unique::Once),
        "Read by the client and merged into `labels`.",
    ),
    key(
        "labels",
        Honoured,
        Shape::Pairs(&Shape::Label),
        "Set on the container; JACO's own labels take precedence.",
    ),
    key(
        "links",
        Differently,
        ONCE,
        "The alias resolves to the service on the networks that both services share.",
    ),
    key("logging", Honoured, Shape::Object(&LOGGING), "Passed to the engine."),
    key(
        "mac_address",
        Ignored,
        Shape::Str,
        "Replicas cannot share an address; the engine chooses one.",
    ),
    key(
        "mem_limit",
        Honoured,
        Shape::Bytes,
        "The limit of each replica, if `deploy.resources.limits.memory` is absent.",
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
        MODELS,
        "Needs a plugin of the local Docker. Run the model server as a service.",
    ),
    key(
        "network_mode",
        Differently,
        Shape::Str,
        "`none`, `host` and `bridge` work as on a single host; with `service:NAME` replicas are \
         colocated with that service and restart with it; `container:ID` is refused.",
    ),
    key(
        "networks",
        Honoured,
        NETWORKS,
        "One network of the cluster: services reach each other by name on all nodes. Where the cluster has none of its own, a bridge network on each node.",
    ),
    key("oom_kill_disable", Honoured, Shape::Bool, "Passed to the engine."),
    key("oom_score_adj", Honoured, Shape::Int, "Passed to the engine."),
    key("pid", Honoured, Shape::OrNull(&STR), "Passed to the engine."),
    key(
        "pids_limit",
        Honoured,
        Shape::Int,
        "The limit of each replica, if `deploy.resources.limits.pids` is absent.",
    ),
    key(
        "platform",
        Honoured,
        Shape::Str,
        "The image is pulled for this platform, and replicas are placed on nodes that run it.",
    ),
    key(
        "ports",
        Honoured,
        PORTS,
        "Every node answers and forwards to ready replicas, if the cluster has networks of its own. Else, and with \
         `mode: host`: published on the node that runs the replica; replicas that publish the same host port are \
         placed on different nodes.",
    ),
    key("post_start", Ignored, HOOKS, "It is not run; use the entrypoint of the image."),
    key(
        "pre_stop",
        Honoured,
        PRE_STOP,
        "Run one after the other before the stop signal, once nothing is sent to the replica any more. Hooks and \
         signal share `stop_grace_period`. A hook that fails or takes too long is logged by the node, and the signal \
         is sent.",
    ),
    key(
        "privileged",
        Honoured,
        Shape::Bool,
        "Passed to the engine, if the service has the label that allows it.",
    ),
    key("profiles", Honoured, ONCE, "Services of inactive profiles are left out."),
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
        "`never` only uses images on the node; the others pull missing images, and `always` asks \
         the registry at each start. A rollout pins the digest; only `always` looks for a newer \
         one when the containers change.",
    ),
    key(
        "pull_refresh_after",
        Ignored,
        Shape::Str,
        "A rollout pins the digest; nothing is pulled because of its age.",
    ),
    key("read_only", Honoured, Shape::Bool, "Passed to the engine."),
    key(
        "restart",
        Differently,
        Shape::Str,
        "JACO restarts containers, with back-off and a restart budget. With `no` and `on-failure` an \
         exit with 0 is completion, and a failure is retried as often as they say.",
    ),
    key(
        "runtime",
        Honoured,
        Shape::Str,
        "Passed to the engine; every node that may run a replica must have it.",
    ),
    key(
        "scale",
        Honoured,
        Shape::Int,
        "The number of replicas, if neither `deploy.replicas` nor jaco.yaml sets it.",
    ),
    key("secrets", Honoured, SECRETS, "Stored encrypted in the cluster and mounted as a file."),
    key(
        "security_opt",
        Honoured,
        STRICT,
        "Passed to the engine, if the service has the label that allows it.",
    ),
    key("shm_size", Honoured, Shape::Bytes, "Passed to the engine."),
    key("stdin_open", Honoured, Shape::Bool, "Passed to the engine."),
    key(
        "stop_grace_period",
        Honoured,
        Shape::Duration,
        "The time between the stop signal and the kill.",
    ),
    key("stop_signal", Honoured, Shape::Str, "Passed to the engine."),
    key("storage_opt", Honoured, Shape::Map(&Shape::Label, Names::Any), "Passed to the engine."),
    key("sysctls", Honoured, Shape::Pairs(&Shape::Label), "Passed to the engine."),
    key("tmpfs", Honoured, ONCE_OR_ONE, "Passed to the engine."),
    key("tty", Honoured, Shape::Bool, "Passed to the engine."),
    key("ulimits", Honoured, ULIMITS, "Passed to the engine."),
    key(
        "use_api_socket",
        Rejected,
        Shape::Bool,
        "It would give the container control over the node's Docker and the user's registry \
         credentials. Mount what it needs explicitly.",
    ),
    key("user", Honoured, Shape::Str, "Passed to the engine."),
    key("userns_mode", Honoured, Shape::Str, "Passed to the engine."),
    key("uts", Honoured, Shape::Str, "Passed to the engine."),
    key(
        "volumes",
        Honoured,
        VOLUMES,
        "Named volumes stay on the node of the replica, which is not moved any more; files below the project folder are uploaded.",
    ),
    key(
        "volumes_from",
        Differently,
        ONCE,
        "The mounts of the named service are added, and replicas are placed on nodes that run one of \
         its replicas. `container:` is refused.",
    ),
    key("working_dir", Honoured, Shape::Str, "Passed to the engine."),
]);
