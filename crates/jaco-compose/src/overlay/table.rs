//! The keys of jaco.yaml, as data: a closed schema.

use crate::support::shape::Class::{Honoured, Ignored};
use crate::support::shape::key;
use crate::support::shape::{Extensions, Key, Object, Shape, Unique};

const fn closed(keys: &'static [Key], required: &'static [&'static str]) -> Object {
    Object { keys, extensions: Extensions::Refused, required }
}

static STR: Shape = Shape::Str;

const STRINGS: Shape = Shape::List(&STR, Unique::Strict);

/// The keys at the top.
pub(super) static FILE: Object = closed(
    &[
        key(
            "acme",
            Ignored,
            Shape::Any,
            "`on` or `off`: whether certificates are requested. Not implemented yet: it has no effect.",
        ),
        key(
            "acme_email",
            Ignored,
            Shape::Str,
            "The contact for the certificate authority. Not implemented yet: it has no effect.",
        ),
        key(
            "config_selector",
            Honoured,
            Shape::Str,
            "The name in `jaco.services.<name>.toml`, the file with the values of this environment.",
        ),
        key(
            "constraints",
            Honoured,
            Shape::Any,
            "Placement constraints of every service: a string, a mapping, or a list of rules.",
        ),
        key(
            "deployment",
            Honoured,
            Shape::Str,
            "The name of the deployment; the default is the project name of the compose file.",
        ),
        key(
            "environment",
            Honoured,
            Shape::Str,
            "An env file for the variables in `${…}`, read by the client.",
        ),
        key(
            "max_files",
            Honoured,
            Shape::Bytes,
            "The maximum total size of uploaded files, such as `64MB`.",
        ),
        key(
            "roles",
            Honoured,
            Shape::Any,
            "Named constraints, used with `roles=NAME` in other constraints.",
        ),
        key(
            "routes",
            Ignored,
            Shape::List(&Shape::Object(&ROUTE), Unique::Free),
            "Domains and the services behind them. Not implemented yet: routes have no effect.",
        ),
        key(
            "scoring",
            Honoured,
            Shape::OneOf(&["jaco", "nomad"]),
            "How eligible nodes are ranked.",
        ),
        key(
            "services",
            Honoured,
            Shape::List(&Shape::Object(&SERVICE), Unique::Free),
            "Overrides for services of the compose file.",
        ),
        key("spread", Honoured, Shape::Any, "Spread criteria of every service."),
    ],
    &[],
);

static ROUTE: Object = closed(
    &[
        key("domain", Ignored, Shape::Str, "The host name of the request."),
        key("path", Ignored, Shape::Str, "A prefix of the path; the default matches every path."),
        key("port", Ignored, Shape::Int, "The port in the container."),
        key("service", Ignored, Shape::Str, "The service that handles the requests."),
        key("strip_path", Ignored, Shape::Bool, "Whether the prefix is removed from the path."),
        key(
            "tls",
            Ignored,
            Shape::Any,
            "`auto` requests a certificate, `off` answers without TLS.",
        ),
    ],
    &["domain", "service", "port"],
);

static SERVICE: Object = closed(
    &[
        key("affinities", Honoured, Shape::Any, "Weighted preferences for nodes."),
        key("constraints", Honoured, Shape::Any, "Placement constraints."),
        key("hosts", Honoured, STRINGS, "The hosts of `placement: hosts`."),
        key(
            "min_allocations_count",
            Honoured,
            Shape::Int,
            "The minimum number of replicas; an apply with fewer is refused.",
        ),
        key("name", Honoured, Shape::Str, "The service of the compose file."),
        key("networks", Honoured, STRINGS, "Replaces the networks of the compose file."),
        key(
            "on_node_loss",
            Honoured,
            Shape::Str,
            "What happens to replicas of a lost node: `replace after D`, `wait` or `stop_self after D`.",
        ),
        key(
            "placement",
            Honoured,
            Shape::OneOf(&["spread", "pack", "hosts", "global"]),
            "How nodes are chosen.",
        ),
        key(
            "replicas",
            Honoured,
            Shape::Int,
            "The number of replicas; 0 runs none and keeps the deployment.",
        ),
        key("resources", Honoured, Shape::Object(&RESOURCES), "Bounds of the reservation."),
        key("rollback", Honoured, Shape::Object(&ROLLBACK), "How a rollback is carried out."),
        key(
            "scoring",
            Honoured,
            Shape::OneOf(&["jaco", "nomad"]),
            "How eligible nodes are ranked.",
        ),
        key(
            "selectors",
            Honoured,
            Shape::Any,
            "Labels that a node must all carry; `auto` is the name of the service.",
        ),
        key("spread", Honoured, Shape::Any, "Spread criteria of the service."),
        key("update", Honoured, Shape::Object(&UPDATE), "How a rollout is carried out."),
    ],
    &["name"],
);

static RESOURCES: Object = closed(
    &[
        key("cpu", Honoured, Shape::Object(&RANGE), "In MHz, GHz or THz; 1000 MHz are one core."),
        key("memory", Honoured, Shape::Object(&RANGE), "In MB, GB or TB."),
    ],
    &[],
);

static RANGE: Object = closed(
    &[
        key("max", Honoured, Shape::StrOrNum, "The maximum."),
        key("min", Honoured, Shape::StrOrNum, "The minimum."),
    ],
    &[],
);

/// The keys of a rollout without `step_timeout`, which applies to both directions.
static ROLLBACK: Object = closed(
    &[
        key("delay", Honoured, Shape::Duration, "The time between two steps."),
        key(
            "failure_action",
            Honoured,
            Shape::OneOf(&["pause", "continue"]),
            "What happens when more steps fail than may.",
        ),
        key("max_failure_ratio", Honoured, Shape::Number, "The share of steps that may fail."),
        key(
            "monitor",
            Honoured,
            Shape::Duration,
            "How long a restored replica must run before the next step.",
        ),
        key(
            "order",
            Honoured,
            Shape::OneOf(&["start-first", "stop-first"]),
            "Whether the new or the old instance goes first.",
        ),
        key(
            "parallelism",
            Honoured,
            Shape::Int,
            "The number of replicas that are replaced at a time; 0 is all at once.",
        ),
    ],
    &[],
);

static UPDATE: Object = closed(
    &[
        key("delay", Honoured, Shape::Duration, "The time between two steps."),
        key(
            "failure_action",
            Honoured,
            Shape::OneOf(&["pause", "continue", "rollback"]),
            "What happens when more steps fail than may.",
        ),
        key("max_failure_ratio", Honoured, Shape::Number, "The share of steps that may fail."),
        key(
            "monitor",
            Honoured,
            Shape::Duration,
            "How long a new replica must run before the next step.",
        ),
        key(
            "order",
            Honoured,
            Shape::OneOf(&["start-first", "stop-first"]),
            "Whether the new or the old instance goes first.",
        ),
        key(
            "parallelism",
            Honoured,
            Shape::Int,
            "The number of replicas that are replaced at a time; 0 is all at once.",
        ),
        key("step_timeout", Honoured, Shape::Duration, "The time limit of a step."),
    ],
    &[],
);

/// The keys of a service's overrides.
pub(super) fn service_keys() -> impl Iterator<Item = &'static str> {
    SERVICE.keys.iter().map(|key| key.name)
}
