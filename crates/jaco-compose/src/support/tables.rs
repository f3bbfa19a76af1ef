//! The keys of everything but the service itself.

use super::Class::{Differently, Honoured, Rejected, Warned};
use super::service::SERVICE;
use super::{Extensions, Names, Object, Shape, Short, Unique, key, object};

pub(super) static STR: Shape = Shape::Str;
pub(super) static PAIRS: Shape = Shape::Label;
const LABELS: Shape = Shape::Pairs(&Shape::Label);
const OPTIONS: Shape = Shape::Map(&Shape::StrOrNum, Names::Any);
const STRINGS: Shape = Shape::Map(&STR, Names::Any);

/// The keys of a compose file.
pub static TOP_LEVEL: Object = object(&[
    key(
        "configs",
        Honoured,
        Shape::Map(&Shape::Object(&CONFIG), Names::Plain),
        "Stored in the cluster with the revision.",
    ),
    key(
        "include",
        Honoured,
        Shape::List(&Shape::Short(Short::Include, &Shape::Object(&INCLUDE)), Unique::Free),
        "Resolved by the client.",
    ),
    key(
        "models",
        Rejected,
        Shape::Map(&Shape::Object(&MODEL), Names::Plain),
        "Needs a plugin of the local Docker. Run the model server as a service.",
    ),
    key("name", Honoured, Shape::Str, "The deployment's name, unless jaco.yaml names it."),
    key(
        "networks",
        Honoured,
        Shape::MapOrNull(&Shape::Object(&NETWORK), Names::Plain),
        "Span all nodes; only members reach each other.",
    ),
    key(
        "secrets",
        Honoured,
        Shape::Map(&Shape::Object(&SECRET), Names::Plain),
        "Stored encrypted in the cluster with the revision; never printed.",
    ),
    key("services", Honoured, Shape::Map(&Shape::Object(&SERVICE), Names::Plain), "See below."),
    key("version", Warned, Shape::Str, "Obsolete: the specification has no versions."),
    key(
        "volumes",
        Honoured,
        Shape::MapOrNull(&Shape::Object(&VOLUME), Names::Plain),
        "Created on the nodes that need them.",
    ),
]);

static INCLUDE: Object = Object {
    keys: &[
        key("env_file", Honoured, Shape::OneOrList(&STR, Unique::Free), "Resolved by the client."),
        key("path", Honoured, Shape::OneOrList(&STR, Unique::Free), "Resolved by the client."),
        key("project_directory", Honoured, Shape::Str, "Resolved by the client."),
    ],
    extensions: Extensions::Refused,
    required: &[],
};

static MODEL: Object = Object {
    keys: &[
        key("context_size", Rejected, Shape::Int, "See `models`."),
        key("model", Rejected, Shape::Str, "See `models`."),
        key("name", Rejected, Shape::Str, "See `models`."),
        key("runtime_flags", Rejected, Shape::List(&STR, Unique::Free), "See `models`."),
    ],
    extensions: Extensions::Kept,
    required: &["model"],
};

static NETWORK: Object = object(&[
    key("attachable", Warned, Shape::Bool, "Only replicas are attached."),
    key(
        "driver",
        Differently,
        Shape::Str,
        "Every network is JACO's own, spanning all nodes; the driver is not used.",
    ),
    key("driver_opts", Warned, OPTIONS, "Options of a driver that is not used."),
    key("enable_ipv4", Warned, Shape::Bool, "Networks are IPv4."),
    key("enable_ipv6", Warned, Shape::Bool, "Networks are IPv4."),
    key(
        "external",
        Differently,
        Shape::Short(Short::External, &Shape::Bool),
        "The network of that name is shared by all deployments that name it.",
    ),
    key("internal", Honoured, Shape::Bool, "No way out of the network."),
    key(
        "ipam",
        Differently,
        Shape::Object(&IPAM),
        "Subnets are given by the cluster, one per node and network.",
    ),
    key("labels", Warned, LABELS, "Networks carry JACO's labels."),
    key("name", Honoured, Shape::Str, "Two deployments with the same name share the network."),
]);

static IPAM: Object = object(&[
    key(
        "config",
        Warned,
        Shape::List(&Shape::Object(&IPAM_CONFIG), Unique::Free),
        "Subnets are given by the cluster.",
    ),
    key("driver", Warned, Shape::Str, "Subnets are given by the cluster."),
    key("options", Warned, STRINGS, "Subnets are given by the cluster."),
]);

static IPAM_CONFIG: Object = object(&[
    key("aux_addresses", Warned, STRINGS, "Subnets are given by the cluster."),
    key("gateway", Warned, Shape::Str, "Subnets are given by the cluster."),
    key("ip_range", Warned, Shape::Str, "Subnets are given by the cluster."),
    key("subnet", Warned, Shape::Str, "Subnets are given by the cluster."),
]);

static VOLUME: Object = object(&[
    key("driver", Honoured, Shape::Str, "Every eligible node must have it."),
    key("driver_opts", Honoured, OPTIONS, "Passed to the engine."),
    key(
        "external",
        Honoured,
        Shape::Short(Short::External, &Shape::Bool),
        "The volume must exist on the node; JACO never creates or removes it.",
    ),
    key("labels", Honoured, LABELS, "Set on the volume."),
    key("name", Honoured, Shape::Str, "The volume's name on the node."),
]);

static SECRET: Object = object(&[
    key("driver", Warned, Shape::Str, "Secrets are JACO's own."),
    key("driver_opts", Warned, OPTIONS, "Secrets are JACO's own."),
    key("environment", Honoured, Shape::Str, "Read by the client."),
    key(
        "external",
        Honoured,
        Shape::Short(Short::External, &Shape::Bool),
        "The cluster keeps it: `jaco secret create`.",
    ),
    key("file", Honoured, Shape::Path, "Read and sent by the client."),
    key("labels", Warned, LABELS, "Secrets carry no labels."),
    key(
        "name",
        Honoured,
        Shape::Str,
        "Which of the cluster's it is, if `external`; else only kept in the model.",
    ),
    key("template_driver", Warned, Shape::Str, "Secrets are not templates."),
]);

static CONFIG: Object = object(&[
    key("content", Honoured, Shape::Str, "Stored with the revision."),
    key("environment", Honoured, Shape::Str, "Read by the client."),
    key(
        "external",
        Honoured,
        Shape::Short(Short::External, &Shape::Bool),
        "The cluster keeps it: `jaco configs create`.",
    ),
    key("file", Honoured, Shape::Path, "Read and sent by the client."),
    key("labels", Warned, LABELS, "Configs carry no labels."),
    key(
        "name",
        Honoured,
        Shape::Str,
        "Which of the cluster's it is, if `external`; else only kept in the model.",
    ),
    key("template_driver", Warned, Shape::Str, "Configs are not templates."),
]);

const BUILD_NOTE: &str = "See `build`.";

pub(super) static BUILD: Object = object(&[
    key("additional_contexts", Rejected, LABELS, BUILD_NOTE),
    key("args", Rejected, Shape::Pairs(&Shape::Text), BUILD_NOTE),
    key("cache_from", Rejected, Shape::List(&STR, Unique::Free), BUILD_NOTE),
    key("cache_to", Rejected, Shape::List(&STR, Unique::Free), BUILD_NOTE),
    key("context", Rejected, Shape::Str, BUILD_NOTE),
    key("dockerfile", Rejected, Shape::Str, BUILD_NOTE),
    key("dockerfile_inline", Rejected, Shape::Str, BUILD_NOTE),
    key("entitlements", Rejected, Shape::List(&STR, Unique::Free), BUILD_NOTE),
    key(
        "extra_hosts",
        Rejected,
        Shape::Short(Short::ExtraHosts, &Shape::List(&STR, Unique::Once)),
        BUILD_NOTE,
    ),
    key("isolation", Rejected, Shape::Str, BUILD_NOTE),
    key("labels", Rejected, LABELS, BUILD_NOTE),
    key("network", Rejected, Shape::Str, BUILD_NOTE),
    key("no_cache", Rejected, Shape::Bool, BUILD_NOTE),
    key("platforms", Rejected, Shape::List(&STR, Unique::Free), BUILD_NOTE),
    key("privileged", Rejected, Shape::Bool, BUILD_NOTE),
    key("provenance", Rejected, Shape::Label, BUILD_NOTE),
    key("pull", Rejected, Shape::Bool, BUILD_NOTE),
    key("sbom", Rejected, Shape::Label, BUILD_NOTE),
    key(
        "secrets",
        Rejected,
        Shape::List(
            &Shape::Short(Short::FileMount, &Shape::Object(&FILE_MOUNT)),
            Unique::ByMount("/run/secrets"),
        ),
        BUILD_NOTE,
    ),
    key("shm_size", Rejected, Shape::Bytes, BUILD_NOTE),
    key("ssh", Rejected, LABELS, BUILD_NOTE),
    key("tags", Rejected, Shape::List(&STR, Unique::Free), BUILD_NOTE),
    key("target", Rejected, Shape::Str, BUILD_NOTE),
    key("ulimits", Rejected, Shape::Map(&Shape::IntOr(&BUILD_ULIMIT), Names::Any), BUILD_NOTE),
]);

static BUILD_ULIMIT: Object = Object {
    keys: &[
        key("hard", Rejected, Shape::Int, BUILD_NOTE),
        key("soft", Rejected, Shape::Int, BUILD_NOTE),
    ],
    extensions: Extensions::Kept,
    required: &["soft", "hard"],
};

pub(super) static DEPENDENCY: Object = object(&[
    key(
        "condition",
        Honoured,
        Shape::OneOf(&["service_started", "service_healthy", "service_completed_successfully"]),
        "Checked cluster-wide before a replica starts.",
    ),
    key("required", Honoured, Shape::Bool, "`false` lifts the condition."),
    key(
        "restart",
        Warned,
        Shape::Bool,
        "A rollout of the dependency does not restart this service.",
    ),
]);

pub(super) static DEPLOY: Object = object(&[
    key(
        "endpoint_mode",
        Differently,
        Shape::Str,
        "Names resolve to the replicas' addresses, as `dnsrr` does.",
    ),
    key("labels", Warned, LABELS, "Swarm's service labels; container labels are `labels`."),
    key(
        "mode",
        Honoured,
        Shape::Str,
        "`global` runs one replica per ready node, `replicated` the given number.",
    ),
    key(
        "placement",
        Differently,
        Shape::Object(&PLACEMENT),
        "Mapped to JACO's constraints and spread.",
    ),
    key("replicas", Honoured, Shape::Int, "The number of replicas, unless jaco.yaml says another."),
    key("resources", Honoured, Shape::Object(&RESOURCES), "See the keys below it."),
    key(
        "restart_policy",
        Differently,
        Shape::Object(&RESTART_POLICY),
        "JACO restarts, with its own back-off.",
    ),
    key(
        "rollback_config",
        Differently,
        Shape::Object(&ROLLBACK),
        "How a failed rollout goes back; see the keys below it.",
    ),
    key(
        "update_config",
        Differently,
        Shape::Object(&UPDATE),
        "How a rollout goes; see the keys below it.",
    ),
]);

static PLACEMENT: Object = object(&[
    key(
        "constraints",
        Differently,
        Shape::List(&STR, Unique::Free),
        "`node.labels.KEY`, `node.hostname` and `node.platform.*` become JACO's constraints; \
         `node.role` has no effect.",
    ),
    key(
        "max_replicas_per_node",
        Honoured,
        Shape::Int,
        "No node gets more; the constraint `max` of the service in jaco.yaml wins over it.",
    ),
    key(
        "preferences",
        Differently,
        Shape::List(&Shape::Object(&PREFERENCE), Unique::Free),
        "Become spread criteria.",
    ),
]);

static PREFERENCE: Object =
    object(&[key("spread", Differently, Shape::Str, "Becomes a spread criterion.")]);

static RESOURCES: Object = object(&[
    key("limits", Honoured, Shape::Object(&LIMITS), "Enforced by the engine, per replica."),
    key(
        "reservations",
        Honoured,
        Shape::Object(&RESERVATIONS),
        "Never overbooked: the sum on a node stays below its capacity.",
    ),
]);

static LIMITS: Object = object(&[
    key("cpus", Honoured, Shape::Number, "Enforced by the engine."),
    key("memory", Honoured, Shape::BytesText, "Enforced by the engine."),
    key("pids", Honoured, Shape::Int, "Enforced by the engine."),
]);

static RESERVATIONS: Object = object(&[
    key("cpus", Honoured, Shape::Number, "Counted by the planner."),
    key(
        "devices",
        Honoured,
        Shape::List(&Shape::Object(&RESERVED_DEVICE), Unique::Free),
        "Requested from the engine; GPUs are matched with the nodes' inventory.",
    ),
    key(
        "generic_resources",
        Warned,
        Shape::List(&Shape::Object(&GENERIC), Unique::Free),
        "Use node labels and `selectors` in jaco.yaml.",
    ),
    key("memory", Honoured, Shape::BytesText, "Counted by the planner, passed to the engine."),
]);

static GENERIC: Object = object(&[key(
    "discrete_resource_spec",
    Warned,
    Shape::Object(&DISCRETE),
    "Use node labels and `selectors` in jaco.yaml.",
)]);

static DISCRETE: Object = object(&[
    key("kind", Warned, Shape::Str, "See `generic_resources`."),
    key("value", Warned, Shape::Number, "See `generic_resources`."),
]);

static RESERVED_DEVICE: Object = Object {
    keys: &[
        key("capabilities", Honoured, Shape::List(&STR, Unique::Strict), "Passed to the engine."),
        key("count", Honoured, Shape::Count, "Passed to the engine."),
        key("device_ids", Honoured, Shape::List(&STR, Unique::Strict), "Passed to the engine."),
        key("driver", Honoured, Shape::Str, "Passed to the engine."),
        key("options", Honoured, LABELS, "Passed to the engine."),
    ],
    extensions: Extensions::Kept,
    required: &["capabilities"],
};

pub(super) static GPU: Object = object(&[
    key("capabilities", Honoured, Shape::List(&STR, Unique::Strict), "Passed to the engine."),
    key("count", Honoured, Shape::Count, "Passed to the engine."),
    key("device_ids", Honoured, Shape::List(&STR, Unique::Strict), "Passed to the engine."),
    key("driver", Honoured, Shape::Str, "Passed to the engine."),
    key("options", Honoured, LABELS, "Passed to the engine."),
]);

static RESTART_POLICY: Object = object(&[
    key("condition", Differently, Shape::Str, "As `restart`."),
    key("delay", Differently, Shape::Duration, "JACO's back-off is used."),
    key("max_attempts", Differently, Shape::Int, "JACO's limit is used."),
    key("window", Differently, Shape::Duration, "JACO's window is used."),
]);

static UPDATE: Object = object(&[
    key("delay", Honoured, Shape::Duration, "Waited between steps."),
    key("failure_action", Honoured, Shape::Str, "`pause`, `continue` or `rollback`."),
    key("max_failure_ratio", Honoured, Shape::Number, "Kept as a share in thousandths."),
    key(
        "monitor",
        Honoured,
        Shape::Duration,
        "How long a new replica must last before the next one follows; without it steps wait for nothing, and what ends within 5 s fails its step.",
    ),
    key(
        "order",
        Differently,
        Shape::OneOf(&["start-first", "stop-first"]),
        "JACO starts first unless a host port or an exclusive volume forbids it.",
    ),
    key("parallelism", Honoured, Shape::Int, "How many replicas one step replaces."),
]);

static ROLLBACK: Object = object(&[
    key("delay", Honoured, Shape::Duration, "Waited between steps."),
    key(
        "failure_action",
        Honoured,
        Shape::Str,
        "`pause` or `continue`; without it what fails is left alone and the rest goes back.",
    ),
    key("max_failure_ratio", Honoured, Shape::Number, "Kept as a share in thousandths."),
    key(
        "monitor",
        Honoured,
        Shape::Duration,
        "How long what comes back is watched before the next one follows.",
    ),
    key(
        "order",
        Differently,
        Shape::OneOf(&["start-first", "stop-first"]),
        "JACO starts first unless a host port or an exclusive volume forbids it.",
    ),
    key("parallelism", Honoured, Shape::Int, "How many replicas one step replaces."),
]);

pub(super) static DEVELOP: Object = object(&[key(
    "watch",
    Warned,
    Shape::List(&Shape::Object(&WATCH), Unique::Free),
    "Nothing is watched on a cluster.",
)]);

const WATCH_NOTE: &str = "See `develop`.";

static WATCH: Object = Object {
    keys: &[
        key(
            "action",
            Warned,
            Shape::OneOf(&["rebuild", "sync", "restart", "sync+restart", "sync+exec"]),
            WATCH_NOTE,
        ),
        key("exec", Warned, Shape::Object(&HOOK), WATCH_NOTE),
        key("ignore", Warned, Shape::OneOrList(&STR, Unique::Free), WATCH_NOTE),
        key("include", Warned, Shape::OneOrList(&STR, Unique::Free), WATCH_NOTE),
        key("initial_sync", Warned, Shape::Bool, WATCH_NOTE),
        key("path", Warned, Shape::Path, WATCH_NOTE),
        key("target", Warned, Shape::Str, WATCH_NOTE),
    ],
    extensions: Extensions::Kept,
    required: &["path", "action"],
};

pub(super) static HOOK: Object = Object {
    keys: &[
        key("command", Warned, Shape::Command, "Hooks are not run."),
        key("environment", Warned, Shape::Pairs(&Shape::Text), "Hooks are not run."),
        key("privileged", Warned, Shape::Bool, "Hooks are not run."),
        key("user", Warned, Shape::Str, "Hooks are not run."),
        key("working_dir", Warned, Shape::Str, "Hooks are not run."),
    ],
    extensions: Extensions::Kept,
    required: &["command"],
};

pub(super) static ENV_FILE: Object = Object {
    keys: &[
        key("format", Honoured, Shape::Str, "`raw` takes the values as they are."),
        key("path", Honoured, Shape::Path, "Read by the client."),
        key("required", Honoured, Shape::Bool, "`false` lets the file be absent."),
    ],
    extensions: Extensions::Refused,
    required: &["path"],
};

pub(super) static EXTENDS: Object = Object {
    keys: &[
        key("file", Honoured, Shape::Str, "Resolved by the client."),
        key("service", Honoured, Shape::Str, "Resolved by the client."),
    ],
    extensions: Extensions::Refused,
    required: &["service"],
};

pub(super) static FILE_MOUNT: Object = object(&[
    key("gid", Honoured, Shape::Str, "The file's group."),
    key("mode", Honoured, Shape::Mode, "The file's mode."),
    key("source", Honoured, Shape::Str, "Which config or secret."),
    key("target", Honoured, Shape::Str, "Where the file appears."),
    key("uid", Honoured, Shape::Str, "The file's owner."),
]);

pub(super) static HEALTHCHECK: Object = object(&[
    key("disable", Honoured, Shape::Bool, "No check, not even the image's."),
    key("interval", Honoured, Shape::Duration, "Passed to the engine."),
    key("retries", Honoured, Shape::Int, "Passed to the engine."),
    key("start_interval", Honoured, Shape::Duration, "Passed to the engine, if it is new enough."),
    key("start_period", Honoured, Shape::Duration, "Passed to the engine."),
    key(
        "test",
        Honoured,
        Shape::Short(Short::Test, &Shape::List(&STR, Unique::Free)),
        "Passed to the engine.",
    ),
    key("timeout", Honoured, Shape::Duration, "Passed to the engine."),
]);

pub(super) static LOGGING: Object = object(&[
    key("driver", Honoured, Shape::Str, "Passed to the engine; `jaco logs` needs a readable one."),
    key(
        "options",
        Honoured,
        Shape::Map(&Shape::OrNull(&Shape::StrOrNum), Names::Any),
        "Passed to the engine.",
    ),
]);

pub(super) static MODEL_USE: Object = object(&[
    key("endpoint_var", Rejected, Shape::Str, "See `models`."),
    key("model_var", Rejected, Shape::Str, "See `models`."),
]);

pub(super) static PROVIDER: Object = Object {
    keys: &[
        key("options", Rejected, Shape::Map(&Shape::Any, Names::Any), "See `provider`."),
        key("type", Rejected, Shape::Str, "See `provider`."),
    ],
    extensions: Extensions::Kept,
    required: &["type"],
};

pub(super) static SERVICE_NETWORK: Object = object(&[
    key("aliases", Honoured, Shape::List(&STR, Unique::Once), "Resolve to the service."),
    key("driver_opts", Warned, OPTIONS, "Options of a driver that is not used."),
    key(
        "gw_priority",
        Honoured,
        Shape::Number,
        "Which network gives the default route, if the engine is new enough.",
    ),
    key("interface_name", Warned, Shape::Str, "The engine names interfaces."),
    key(
        "ipv4_address",
        Warned,
        Shape::Str,
        "Replicas cannot share an address; use the service's name.",
    ),
    key(
        "ipv6_address",
        Warned,
        Shape::Str,
        "Replicas cannot share an address; use the service's name.",
    ),
    key("link_local_ips", Warned, Shape::List(&STR, Unique::Once), "Networks are JACO's own."),
    key("mac_address", Warned, Shape::Str, "Replicas cannot share an address."),
    key("priority", Honoured, Shape::Number, "The order in which networks are attached."),
]);

pub(super) static BIND: Object = object(&[
    key(
        "create_host_path",
        Differently,
        Shape::Bool,
        "A missing host path is created on the node; a shipped path is always there.",
    ),
    key("propagation", Honoured, Shape::Str, "Passed to the engine."),
    key(
        "recursive",
        Honoured,
        Shape::OneOf(&["enabled", "disabled", "writable", "readonly"]),
        "Passed to the engine, which must be new enough.",
    ),
    key("selinux", Honoured, Shape::OneOf(&["z", "Z"]), "Passed to the engine."),
]);
