//! The keys of `deploy`.

use super::shape::Class::{Differently, Honoured, Ignored};
use crate::support::common::{LABELS, STR};
use crate::support::shape::{Extensions, Object, Shape, Unique, key, object};

pub(crate) static DEPLOY: Object = object(&[
    key(
        "endpoint_mode",
        Differently,
        Shape::Str,
        "Names resolve to the addresses of the replicas, as with `dnsrr`.",
    ),
    key("labels", Ignored, LABELS, "Labels of Swarm services; use `labels` for containers."),
    key(
        "mode",
        Honoured,
        Shape::Str,
        "`global` runs one replica on each ready node, `replicated` the given number of replicas. \
         Those of `replicated-job` and `global-job` run to their end once.",
    ),
    key(
        "placement",
        Differently,
        Shape::Object(&PLACEMENT),
        "Mapped to JACO's constraints and spread criteria.",
    ),
    key("replicas", Honoured, Shape::Int, "The number of replicas, unless jaco.yaml sets it."),
    key("resources", Honoured, Shape::Object(&RESOURCES), "See the keys below it."),
    key(
        "restart_policy",
        Differently,
        Shape::Object(&RESTART_POLICY),
        "JACO restarts containers, with its own back-off.",
    ),
    key(
        "rollback_config",
        Differently,
        Shape::Object(&ROLLBACK),
        "How a rollback is carried out; see the keys below it.",
    ),
    key(
        "update_config",
        Differently,
        Shape::Object(&UPDATE),
        "How a rollout is carried out; see the keys below it.",
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
        "The maximum number of replicas on a node; the constraint `max` of the service in jaco.yaml overrides it.",
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
        "Never overcommitted: the reservations on a node stay within its capacity.",
    ),
]);

static LIMITS: Object = object(&[
    key("cpus", Honoured, Shape::Number, "Enforced by the engine."),
    key("memory", Honoured, Shape::BytesText, "Enforced by the engine."),
    key("pids", Honoured, Shape::Int, "Enforced by the engine."),
]);

static RESERVATIONS: Object = object(&[
    key("cpus", Honoured, Shape::Number, "Used by the planner."),
    key(
        "devices",
        Honoured,
        Shape::List(&Shape::Object(&RESERVED_DEVICE), Unique::Free),
        "Requested from the engine; GPUs are matched with the GPU inventory of the nodes.",
    ),
    key(
        "generic_resources",
        Ignored,
        Shape::List(&Shape::Object(&GENERIC), Unique::Free),
        "Use node labels and `selectors` in jaco.yaml.",
    ),
    key("memory", Honoured, Shape::BytesText, "Used by the planner and passed to the engine."),
]);

static GENERIC: Object = object(&[key(
    "discrete_resource_spec",
    Ignored,
    Shape::Object(&DISCRETE),
    "Use node labels and `selectors` in jaco.yaml.",
)]);

static DISCRETE: Object = object(&[
    key("kind", Ignored, Shape::Str, "See `generic_resources`."),
    key("value", Ignored, Shape::Number, "See `generic_resources`."),
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

static RESTART_POLICY: Object = object(&[
    key("condition", Differently, Shape::Str, "As `restart`."),
    key("delay", Differently, Shape::Duration, "JACO uses its own back-off."),
    key("max_attempts", Differently, Shape::Int, "The number of retries, with `on-failure`."),
    key("window", Differently, Shape::Duration, "JACO uses its own window."),
]);

static UPDATE: Object = object(&[
    key("delay", Honoured, Shape::Duration, "The time between two steps."),
    key("failure_action", Honoured, Shape::Str, "`pause`, `continue` or `rollback`."),
    key(
        "max_failure_ratio",
        Honoured,
        Shape::Number,
        "The share of steps that may fail, rounded down to thousandths.",
    ),
    key(
        "monitor",
        Honoured,
        Shape::Duration,
        "How long a new replica must run before the next step. Without it a replica is watched for 5 s too: its predecessor serves meanwhile, and the next step starts if that can.",
    ),
    key(
        "order",
        Differently,
        Shape::OneOf(&["start-first", "stop-first"]),
        "The default is start-first, and stop-first for a service that writes to a named volume or a bind mount of the host's files. A host port always stops first.",
    ),
    key(
        "parallelism",
        Honoured,
        Shape::Int,
        "The number of replicas that are replaced at a time; 0 is all at once.",
    ),
]);

static ROLLBACK: Object = object(&[
    key("delay", Honoured, Shape::Duration, "The time between two steps."),
    key(
        "failure_action",
        Honoured,
        Shape::Str,
        "`pause` or `continue`; the default is `continue`.",
    ),
    key(
        "max_failure_ratio",
        Honoured,
        Shape::Number,
        "The share of steps that may fail, rounded down to thousandths.",
    ),
    key(
        "monitor",
        Honoured,
        Shape::Duration,
        "How long a restored replica must run before the next step.",
    ),
    key(
        "order",
        Differently,
        Shape::OneOf(&["start-first", "stop-first"]),
        "The default is start-first, and stop-first for a service that writes to a named volume or a bind mount of the host's files. A host port always stops first.",
    ),
    key(
        "parallelism",
        Honoured,
        Shape::Int,
        "The number of replicas that are replaced at a time; 0 is all at once.",
    ),
]);
