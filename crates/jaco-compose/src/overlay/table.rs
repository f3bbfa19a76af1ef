//! The keys of jaco.yaml, as data: a closed schema.

use crate::support::Class::Honoured;
use crate::support::{Extensions, Key, Object, Shape, Unique, key};

const fn closed(keys: &'static [Key], required: &'static [&'static str]) -> Object {
    Object { keys, extensions: Extensions::Refused, required }
}

static STR: Shape = Shape::Str;
const STRINGS: Shape = Shape::List(&STR, Unique::Strict);

/// The keys at the top.
pub(super) static FILE: Object = closed(
    &[
        key("acme", Honoured, Shape::Any, "`on` or `off`: whether certificates are ordered."),
        key("acme_email", Honoured, Shape::Str, "The contact given to the certificate authority."),
        key("config_selector", Honoured, Shape::Str, "Which `jaco.services.<name>.toml` is read."),
        key(
            "constraints",
            Honoured,
            Shape::Any,
            "What nodes must have, for every service: a text, a mapping, or a list of rules.",
        ),
        key("deployment", Honoured, Shape::Str, "The deployment's name."),
        key("environment", Honoured, Shape::Str, "An env file for `${…}`, read by the client."),
        key(
            "max_files",
            Honoured,
            Shape::Bytes,
            "How much the files beside the compose file may be together, such as `64MB`.",
        ),
        key("roles", Honoured, Shape::Any, "Constraints with a name, for `roles=NAME` in others."),
        key(
            "routes",
            Honoured,
            Shape::List(&Shape::Object(&ROUTE), Unique::Free),
            "Domains and the services behind them.",
        ),
        key("scoring", Honoured, Shape::OneOf(&["jaco", "nomad"]), "How nodes are compared."),
        key(
            "services",
            Honoured,
            Shape::List(&Shape::Object(&SERVICE), Unique::Free),
            "Overrides for services of the compose file.",
        ),
        key("spread", Honoured, Shape::Any, "How every service spreads: a list of criteria."),
    ],
    &["deployment"],
);

static ROUTE: Object = closed(
    &[
        key("domain", Honoured, Shape::Str, "The host name of the request."),
        key("path", Honoured, Shape::Str, "A prefix of the path; none takes every path."),
        key("port", Honoured, Shape::Int, "The port in the container."),
        key("service", Honoured, Shape::Str, "The service that answers."),
        key("strip_path", Honoured, Shape::Bool, "Whether the prefix is taken off."),
        key("tls", Honoured, Shape::Any, "`auto` orders a certificate, `off` answers in clear."),
    ],
    &["domain", "service", "port"],
);

static SERVICE: Object = closed(
    &[
        key("affinities", Honoured, Shape::Any, "Rules with a weight that nodes should meet."),
        key("constraints", Honoured, Shape::Any, "What nodes must have."),
        key("hosts", Honoured, STRINGS, "The hosts of `placement: hosts`."),
        key("min_allocations_count", Honoured, Shape::Int, "The fewest replicas an apply accepts."),
        key("name", Honoured, Shape::Str, "The service of the compose file."),
        key("networks", Honoured, STRINGS, "Replaces the networks of the compose file."),
        key(
            "on_node_loss",
            Honoured,
            Shape::Str,
            "`replace after D`, `wait` or `stop_self after D`: what follows when a node is lost.",
        ),
        key(
            "placement",
            Honoured,
            Shape::OneOf(&["spread", "pack", "hosts", "global"]),
            "How nodes are chosen.",
        ),
        key("replicas", Honoured, Shape::Int, "How many; 0 keeps everything but runs nothing."),
        key("resources", Honoured, Shape::Object(&RESOURCES), "Bounds of the reservation."),
        key("rollback", Honoured, Shape::Object(&ROLLBACK), "How a failed rollout goes back."),
        key("scoring", Honoured, Shape::OneOf(&["jaco", "nomad"]), "How nodes are compared."),
        key(
            "selectors",
            Honoured,
            Shape::Any,
            "Labels a node must all have; `auto` is the service's own name.",
        ),
        key("spread", Honoured, Shape::Any, "How the service spreads: a list of criteria."),
        key("update", Honoured, Shape::Object(&UPDATE), "How a rollout goes."),
    ],
    &["name"],
);

static RESOURCES: Object = closed(
    &[
        key("cpu", Honoured, Shape::Object(&RANGE), "In MHz, GHz or THz; 1000 MHz are a core."),
        key("memory", Honoured, Shape::Object(&RANGE), "In MB, GB or TB."),
    ],
    &[],
);

static RANGE: Object = closed(
    &[
        key("max", Honoured, Shape::StrOrNum, "The most."),
        key("min", Honoured, Shape::StrOrNum, "The least."),
    ],
    &[],
);

/// All that a rollout asks for but the time of a step, which is the rollout's.
static ROLLBACK: Object = closed(
    &[
        key("delay", Honoured, Shape::Duration, "Waited between steps."),
        key(
            "failure_action",
            Honoured,
            Shape::OneOf(&["pause", "continue"]),
            "What a failed step of it leads to.",
        ),
        key("max_failure_ratio", Honoured, Shape::Number, "Which share of its steps may fail."),
        key("monitor", Honoured, Shape::Duration, "How long what comes back is watched."),
        key("order", Honoured, Shape::OneOf(&["start-first", "stop-first"]), "What comes first."),
        key("parallelism", Honoured, Shape::Int, "How many replicas one step replaces."),
    ],
    &[],
);

static UPDATE: Object = closed(
    &[
        key("delay", Honoured, Shape::Duration, "Waited between steps."),
        key(
            "failure_action",
            Honoured,
            Shape::OneOf(&["pause", "continue", "rollback"]),
            "What a failed step leads to.",
        ),
        key("max_failure_ratio", Honoured, Shape::Number, "Which share of steps may fail."),
        key("monitor", Honoured, Shape::Duration, "How long a new replica is watched."),
        key("order", Honoured, Shape::OneOf(&["start-first", "stop-first"]), "What comes first."),
        key("parallelism", Honoured, Shape::Int, "How many replicas one step replaces."),
        key("step_timeout", Honoured, Shape::Duration, "How long a step may take."),
    ],
    &[],
);

/// The keys of a service's overrides.
pub(super) fn service_keys() -> impl Iterator<Item = &'static str> {
    SERVICE.keys.iter().map(|key| key.name)
}
