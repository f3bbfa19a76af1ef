//! The keys of the objects inside of a service.

use super::shape::Class::{Honoured, Ignored, Rejected};
use crate::support::common::{LABELS, STR};
use crate::support::resource::OPTIONS;
use crate::support::shape::{Extensions, Names, Object, Shape, Short, Unique, key, object};

pub(crate) static DEPENDENCY: Object = object(&[
    key(
        "condition",
        Honoured,
        Shape::OneOf(&["service_started", "service_healthy", "service_completed_successfully"]),
        "Checked over the whole cluster before a replica starts.",
    ),
    key(
        "required",
        Honoured,
        Shape::Bool,
        "With `false` the service starts even if the dependency is not part of the deployment.",
    ),
    key(
        "restart",
        Ignored,
        Shape::Bool,
        "A rollout of the dependency does not restart this service.",
    ),
]);

pub(crate) static GPU: Object = object(&[
    key("capabilities", Honoured, Shape::List(&STR, Unique::Strict), "Passed to the engine."),
    key("count", Honoured, Shape::Count, "Passed to the engine."),
    key("device_ids", Honoured, Shape::List(&STR, Unique::Strict), "Passed to the engine."),
    key("driver", Honoured, Shape::Str, "Passed to the engine."),
    key("options", Honoured, LABELS, "Passed to the engine."),
]);

pub(crate) static DEVELOP: Object = object(&[key(
    "watch",
    Ignored,
    Shape::List(&Shape::Object(&WATCH), Unique::Free),
    "Source files are not watched on a cluster.",
)]);

const WATCH_NOTE: &str = "See `develop`.";

static WATCH: Object = Object {
    keys: &[
        key(
            "action",
            Ignored,
            Shape::OneOf(&["rebuild", "sync", "restart", "sync+restart", "sync+exec"]),
            WATCH_NOTE,
        ),
        key("exec", Ignored, Shape::Object(&HOOK), WATCH_NOTE),
        key("ignore", Ignored, Shape::OneOrList(&STR, Unique::Free), WATCH_NOTE),
        key("include", Ignored, Shape::OneOrList(&STR, Unique::Free), WATCH_NOTE),
        key("initial_sync", Ignored, Shape::Bool, WATCH_NOTE),
        key("path", Ignored, Shape::Path, WATCH_NOTE),
        key("target", Ignored, Shape::Str, WATCH_NOTE),
    ],
    extensions: Extensions::Kept,
    required: &["path", "action"],
};

pub(crate) static HOOK: Object = Object {
    keys: &[
        key("command", Ignored, Shape::Command, "It is not run."),
        key("environment", Ignored, Shape::Pairs(&Shape::Text), "It is not run."),
        key("privileged", Ignored, Shape::Bool, "It is not run."),
        key("user", Ignored, Shape::Str, "It is not run."),
        key("working_dir", Ignored, Shape::Str, "It is not run."),
    ],
    extensions: Extensions::Kept,
    required: &["command"],
};

pub(crate) static PRE_STOP_HOOK: Object = Object {
    keys: &[
        key(
            "command",
            Honoured,
            Shape::Command,
            "Run in the container; a text is split into words.",
        ),
        key("environment", Honoured, Shape::Pairs(&Shape::Text), "Set beside the container's."),
        key(
            "privileged",
            Honoured,
            Shape::Bool,
            "Passed to the engine, if the service has the label that allows it.",
        ),
        key("user", Honoured, Shape::Str, "Passed to the engine."),
        key("working_dir", Honoured, Shape::Str, "Passed to the engine."),
    ],
    extensions: Extensions::Kept,
    required: &["command"],
};

pub(crate) static ENV_FILE: Object = Object {
    keys: &[
        key("format", Honoured, Shape::Str, "`raw` takes the values literally."),
        key("path", Honoured, Shape::Path, "Read by the client."),
        key("required", Honoured, Shape::Bool, "With `false` the file may be missing."),
    ],
    extensions: Extensions::Refused,
    required: &["path"],
};

pub(crate) static EXTENDS: Object = Object {
    keys: &[
        key("file", Honoured, Shape::Str, "Resolved by the client."),
        key("service", Honoured, Shape::Str, "Resolved by the client."),
    ],
    extensions: Extensions::Refused,
    required: &["service"],
};

pub(crate) static HEALTHCHECK: Object = object(&[
    key("disable", Honoured, Shape::Bool, "No health check, not even the one of the image."),
    key("interval", Honoured, Shape::Duration, "Passed to the engine."),
    key("retries", Honoured, Shape::Int, "Passed to the engine."),
    key(
        "start_interval",
        Honoured,
        Shape::Duration,
        "Passed to the engine if its version supports it.",
    ),
    key("start_period", Honoured, Shape::Duration, "Passed to the engine."),
    key(
        "test",
        Honoured,
        Shape::Short(Short::Test, &Shape::List(&STR, Unique::Free)),
        "Passed to the engine.",
    ),
    key("timeout", Honoured, Shape::Duration, "Passed to the engine."),
]);

pub(crate) static LOGGING: Object = object(&[
    key(
        "driver",
        Honoured,
        Shape::Str,
        "Passed to the engine; `jaco logs` needs a driver whose logs can be read back.",
    ),
    key(
        "options",
        Honoured,
        Shape::Map(&Shape::OrNull(&Shape::StrOrNum), Names::Any),
        "Passed to the engine.",
    ),
]);

pub(crate) static MODEL_USE: Object = object(&[
    key("endpoint_var", Rejected, Shape::Str, "See `models`."),
    key("model_var", Rejected, Shape::Str, "See `models`."),
]);

pub(crate) static PROVIDER: Object = Object {
    keys: &[
        key(
            "options",
            Rejected,
            Shape::Map(&Shape::OneOrList(&Shape::Label, Unique::Free), Names::Any),
            "See `provider`.",
        ),
        key("type", Rejected, Shape::Str, "See `provider`."),
    ],
    extensions: Extensions::Kept,
    required: &["type"],
};

pub(crate) static SERVICE_NETWORK: Object = object(&[
    key("aliases", Honoured, Shape::List(&STR, Unique::Once), "Resolve to the service."),
    key("driver_opts", Ignored, OPTIONS, "The driver is not used, so its options have no effect."),
    key(
        "gw_priority",
        Honoured,
        Shape::Number,
        "Selects the network of the default route if the engine's version supports it.",
    ),
    key("interface_name", Ignored, Shape::Str, "The engine names the interfaces."),
    key(
        "ipv4_address",
        Ignored,
        Shape::Str,
        "Replicas cannot share an address; use the service's name.",
    ),
    key(
        "ipv6_address",
        Ignored,
        Shape::Str,
        "Replicas cannot share an address; use the service's name.",
    ),
    key("link_local_ips", Ignored, Shape::List(&STR, Unique::Once), "JACO creates the networks."),
    key("mac_address", Ignored, Shape::Str, "Replicas cannot share an address."),
    key("priority", Honoured, Shape::Number, "The order in which networks are attached."),
]);

pub(crate) static BLKIO: Object = Object {
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

pub(crate) static CREDENTIAL_SPEC: Object = object(&[
    key("config", Rejected, Shape::Str, "Windows only."),
    key("file", Rejected, Shape::Str, "Windows only."),
    key("registry", Rejected, Shape::Str, "Windows only."),
]);

pub(crate) static DEVICE: Object = Object {
    keys: &[
        key("permissions", Honoured, Shape::Str, "Passed to the engine."),
        key("source", Honoured, Shape::Str, "The device on the host."),
        key("target", Honoured, Shape::Str, "The device in the container."),
    ],
    extensions: Extensions::Kept,
    required: &["source"],
};

pub(crate) static PORT: Object = object(&[
    key("app_protocol", Ignored, Shape::Str, "Only information for other tools."),
    key("host_ip", Honoured, Shape::Str, "The node's address to publish on."),
    key(
        "mode",
        Honoured,
        Shape::Str,
        "`host`: on the node that runs the replica. `ingress`, the default: on every node, if the cluster has networks of its own and the service one of them; else as `host`.",
    ),
    key("name", Ignored, Shape::Str, "Only information for other tools."),
    key("protocol", Honoured, Shape::Str, "tcp, udp or, with `mode: host`, sctp."),
    key(
        "published",
        Honoured,
        Shape::StrOrNum,
        "The port on the node; one is chosen from a range, or any if none is given.",
    ),
    key("target", Honoured, Shape::Int, "The port in the container."),
    key("x-jaco", Honoured, Shape::Object(&PORT_EXTENSION), "How every node answers on the port."),
]);

static PORT_EXTENSION: Object = Object {
    keys: &[key(
        "proxy_protocol",
        Honoured,
        Shape::Str,
        "`v2` tells containers who the client is, by the header of the PROXY protocol.",
    )],
    extensions: Extensions::Refused,
    required: &[],
};

pub(crate) static ULIMIT: Object = Object {
    keys: &[
        key("hard", Honoured, Shape::Int, "Passed to the engine."),
        key("soft", Honoured, Shape::Int, "Passed to the engine."),
    ],
    extensions: Extensions::Kept,
    required: &["soft", "hard"],
};
