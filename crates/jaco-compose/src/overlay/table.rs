//! The keys of jaco.yaml, as data: a closed schema.

use crate::support::shape::Class::{Honoured, Ignored};
use crate::support::shape::key;
use crate::support::shape::{Extensions, Key, Names, Object, Shape, Unique};

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
            Honoured,
            Shape::List(&Shape::Object(&ROUTE), Unique::Free),
            "Domains and the services behind them, which the edge of every node answers.",
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
        key(
            "volumes",
            Honoured,
            Shape::Map(&Shape::Object(&VOLUME), Names::Any),
            "Class and size of volumes of the compose file.",
        ),
    ],
    &[],
);

/// The keys of a volume.
pub(super) static VOLUME: Object = closed(
    &[
        key(
            "class",
            Honoured,
            Shape::Str,
            "The class of storage that a node must offer (`volume_classes` of its jacod.yaml).",
        ),
        key(
            "size",
            Honoured,
            Shape::Bytes,
            "What the volume counts for in the capacity of the class on its node, such as `10G`. It is no quota.",
        ),
    ],
    &["class"],
);

pub(super) static ROUTE: Object = closed(
    &[
        key(
            "allow_from",
            Ignored,
            STRINGS,
            "Ranges of addresses from which requests may come, such as `10.0.0.0/8`; the default is all.",
        ),
        key(
            "basic_auth",
            Ignored,
            Shape::Map(&STR, Names::Any),
            "Users with the hashes of their passwords, as `jaco route password` prints them.",
        ),
        key("body_max", Ignored, Shape::Bytes, "The maximum size of a request's body."),
        key(
            "domain",
            Ignored,
            Shape::Str,
            "The host name of the request, or `*.x` for all names one label below `x`.",
        ),
        key("headers", Ignored, Shape::Object(&HEADERS), "Changes to headers."),
        key(
            "hsts",
            Ignored,
            Shape::Duration,
            "How long browsers are told to use HTTPS only; the default does not tell them.",
        ),
        key("path", Ignored, Shape::Str, "A prefix of the path; the default matches every path."),
        key("port", Ignored, Shape::Int, "The port in the container."),
        key(
            "protocol",
            Ignored,
            Shape::OneOf(&["http", "h2c", "https"]),
            "What the containers speak; `h2c` is gRPC without TLS, certificates for `https` are not checked.",
        ),
        key(
            "redirect",
            Ignored,
            Shape::Object(&REDIRECT),
            "Another address that clients are sent to, instead of a service.",
        ),
        key("service", Ignored, Shape::Str, "The service that handles the requests."),
        key(
            "sticky",
            Ignored,
            Shape::OneOf(&["cookie"]),
            "`cookie` keeps each client with one replica while that is ready.",
        ),
        key("strip_path", Ignored, Shape::Bool, "Whether the prefix is removed from the path."),
        key("timeout", Ignored, Shape::Duration, "How long a response may take to begin."),
        key(
            "tls",
            Ignored,
            Shape::Any,
            "`auto` requests a certificate, `off` answers without TLS; else the name of a certificate.",
        ),
    ],
    &["domain"],
);

static HEADERS: Object = closed(
    &[
        key("request", Ignored, Shape::Object(&HEADER_RULES), "In requests to the containers."),
        key("response", Ignored, Shape::Object(&HEADER_RULES), "In responses to clients."),
    ],
    &[],
);

static HEADER_RULES: Object = closed(
    &[
        key("remove", Ignored, STRINGS, "Headers that are removed."),
        key("set", Ignored, Shape::Map(&STR, Names::Any), "Headers that are set or replaced."),
    ],
    &[],
);

static REDIRECT: Object = closed(
    &[
        key(
            "rest",
            Ignored,
            Shape::OneOf(&["append", "drop"]),
            "Whether the rest of the path and the query are appended to the target; the default is `append`.",
        ),
        key("status", Ignored, Shape::Int, "The status of the response; the default is 308."),
        key("to", Ignored, Shape::Str, "A path or URL that replaces the prefix."),
    ],
    &["to"],
);

static SERVICE: Object = closed(
    &[
        key("affinities", Honoured, Shape::Any, "Weighted preferences for nodes."),
        key("constraints", Honoured, Shape::Any, "Placement constraints."),
        key(
            "drain",
            Honoured,
            Shape::Duration,
            "How long requests may go on at a replica that leaves the endpoints; the default is 10s.",
        ),
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
            "schedule",
            Honoured,
            Shape::Object(&SCHEDULE),
            "When the job is run; without it, once for each change of the service.",
        ),
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

static SCHEDULE: Object = closed(
    &[
        key(
            "concurrency",
            Honoured,
            Shape::Str,
            "While a run goes on, the next is missed (`forbid`, the default) or takes its place (`replace`).",
        ),
        key(
            "cron",
            Honoured,
            Shape::Str,
            "Minute, hour, day, month and weekday, such as `30 2 * * *`, or `@daily`.",
        ),
        key(
            "deadline",
            Honoured,
            Shape::Duration,
            "How late a run may begin; the default lets it begin however late.",
        ),
        key(
            "history",
            Honoured,
            Shape::Int,
            "The number of runs that are kept; the default is 10.",
        ),
        key(
            "time_zone",
            Honoured,
            Shape::Str,
            "The time zone of `cron`, such as `Europe/Berlin`; the default is UTC.",
        ),
    ],
    &["cron"],
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
