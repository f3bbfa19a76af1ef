//! Shapes of the values of a service: those that are written in several ways, and lists whose items are told apart.

use crate::support::build::BUILD;
use crate::support::common::STR;
use crate::support::mount::{FILE_MOUNT, VOLUME_MOUNT};
use crate::support::part::{
    DEPENDENCY, DEVICE, ENV_FILE, GPU, HOOK, MODEL_USE, PORT, PRE_STOP_HOOK, SERVICE_NETWORK,
    ULIMIT,
};
use crate::support::shape::{Names, Shape, Short, Unique};

/// Texts, of which equal ones count once.
pub(super) const ONCE: Shape = Shape::List(&STR, Unique::Once);

/// Texts, of which no two may be equal.
pub(super) const STRICT: Shape = Shape::List(&STR, Unique::Strict);

/// `build: DIR`, or its keys.
pub(super) const BUILD_SECTION: Shape = Shape::Short(Short::Build, &Shape::Object(&BUILD));

/// Names of configs or mounts; one that names no target is a file at the root.
pub(super) const CONFIGS: Shape =
    Shape::List(&Shape::Short(Short::FileMount, &Shape::Object(&FILE_MOUNT)), Unique::ByMount(""));

/// Names of secrets or mounts; one that names no target is below `/run/secrets`.
pub(super) const SECRETS: Shape = Shape::List(
    &Shape::Short(Short::FileMount, &Shape::Object(&FILE_MOUNT)),
    Unique::ByMount("/run/secrets"),
);

/// Names of services, or each with its condition.
pub(super) const DEPENDENCIES: Shape =
    Shape::Short(Short::DependsOn, &Shape::Map(&Shape::Object(&DEPENDENCY), Names::Any));

/// `SOURCE:TARGET:PERMISSIONS`, or the three as keys.
pub(super) const DEVICES: Shape =
    Shape::List(&Shape::Short(Short::Device, &Shape::Object(&DEVICE)), Unique::By("target"));

/// One path, several, or each with its format.
pub(super) const ENV_FILES: Shape =
    Shape::OneOrList(&Shape::Short(Short::EnvFile, &Shape::Object(&ENV_FILE)), Unique::By("path"));

/// `HOST=ADDRESS`, or hosts with their addresses.
pub(super) const EXTRA_HOSTS: Shape =
    Shape::Short(Short::ExtraHosts, &Shape::List(&STR, Unique::Once));

/// `all`, or requests.
pub(super) const GPUS: Shape =
    Shape::Short(Short::Gpus, &Shape::List(&Shape::Object(&GPU), Unique::Free));

/// Names of models, or each with its variables.
pub(super) const MODELS: Shape =
    Shape::Short(Short::Models, &Shape::MapOrNull(&Shape::Object(&MODEL_USE), Names::Any));

/// Names of networks, or each with how the service is attached.
pub(super) const NETWORKS: Shape =
    Shape::Short(Short::Networks, &Shape::MapOrNull(&Shape::Object(&SERVICE_NETWORK), Names::Any));

/// `PUBLISHED:TARGET`, or their keys; one text can be many ports.
pub(super) const PORTS: Shape =
    Shape::Short(Short::Ports, &Shape::List(&Shape::Object(&PORT), Unique::ByPort));

/// `SOURCE:TARGET:OPTIONS`, or their keys.
pub(super) const VOLUMES: Shape =
    Shape::List(&Shape::Short(Short::Volume, &Shape::Object(&VOLUME_MOUNT)), Unique::By("target"));

/// Commands with what they run with.
pub(super) const HOOKS: Shape = Shape::List(&Shape::Object(&HOOK), Unique::Free);

/// Commands before the stop signal, in the order in which they are run.
pub(super) const PRE_STOP: Shape = Shape::List(&Shape::Object(&PRE_STOP_HOOK), Unique::Free);

/// One text, or several, of which equal ones count once.
pub(super) const ONCE_OR_ONE: Shape = Shape::OneOrList(&STR, Unique::Once);

/// One number for both limits, or each of them.
pub(super) const ULIMITS: Shape = Shape::Map(&Shape::IntOr(&ULIMIT), Names::Any);
