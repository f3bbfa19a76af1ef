//! The keys of networks, volumes, configs and secrets.

use super::shape::Class::{Differently, Honoured, Ignored};
use crate::support::common::{LABELS, STR};
use crate::support::shape::{Names, Object, Shape, Short, Unique, key, object};

pub(crate) const OPTIONS: Shape = Shape::Map(&Shape::StrOrNum, Names::Any);

const STRINGS: Shape = Shape::Map(&STR, Names::Any);

pub(crate) static NETWORK: Object = object(&[
    key("attachable", Ignored, Shape::Bool, "Only containers of the deployment are attached."),
    key(
        "driver",
        Differently,
        Shape::Str,
        "The driver is not used: each node has a bridge network, and the cluster joins them if it has networks of its own.",
    ),
    key("driver_opts", Ignored, OPTIONS, "The driver is not used, so its options have no effect."),
    key("enable_ipv4", Ignored, Shape::Bool, "Networks use IPv4."),
    key("enable_ipv6", Ignored, Shape::Bool, "Networks use IPv4."),
    key(
        "external",
        Differently,
        Shape::Short(Short::External, &Shape::Bool),
        "The shared network that `jaco network create` made; where the cluster has none of its own, the network of that name on each node.",
    ),
    key(
        "internal",
        Honoured,
        Shape::Bool,
        "Containers cannot reach anything outside of the network.",
    ),
    key(
        "ipam",
        Differently,
        Shape::Object(&IPAM),
        "Subnets are assigned by the engine of each node, or by the cluster.",
    ),
    key("labels", Ignored, LABELS, "Networks only carry JACO's own labels."),
    key(
        "name",
        Honoured,
        Shape::Str,
        "The shared network of that name if there is one, else the deployment's own; where the cluster has none of its own, deployments on a node that use the same name share it.",
    ),
]);

static IPAM: Object = object(&[
    key(
        "config",
        Honoured,
        Shape::List(&Shape::Object(&IPAM_CONFIG), Unique::Free),
        "As far as its keys are.",
    ),
    key("driver", Ignored, Shape::Str, "The cluster, or the engine of each node, assigns subnets."),
    key("options", Ignored, STRINGS, "The cluster, or the engine of each node, assigns subnets."),
]);

static IPAM_CONFIG: Object = object(&[
    key("aux_addresses", Ignored, STRINGS, "Addresses are assigned by JACO or by the engine."),
    key("gateway", Ignored, Shape::Str, "Addresses are assigned by JACO or by the engine."),
    key("ip_range", Ignored, Shape::Str, "Addresses are assigned by JACO or by the engine."),
    key(
        "subnet",
        Differently,
        Shape::Str,
        "In networks of the cluster its size is taken and its place is not; else the engine of each node assigns the subnet.",
    ),
]);

pub(crate) static VOLUME: Object = object(&[
    key("driver", Honoured, Shape::Str, "Every node that may run a replica must have the driver."),
    key("driver_opts", Honoured, OPTIONS, "Passed to the engine."),
    key(
        "external",
        Honoured,
        Shape::Short(Short::External, &Shape::Bool),
        "The volume has to exist on the node; JACO never creates or removes it.",
    ),
    key("labels", Honoured, LABELS, "Set on the volume."),
    key("name", Honoured, Shape::Str, "The volume's name on the node."),
]);

pub(crate) static SECRET: Object = object(&[
    key("driver", Ignored, Shape::Str, "JACO stores secrets itself."),
    key("driver_opts", Ignored, OPTIONS, "JACO stores secrets itself."),
    key("environment", Honoured, Shape::Str, "Read by the client."),
    key(
        "external",
        Honoured,
        Shape::Short(Short::External, &Shape::Bool),
        "Stored in the cluster beforehand: `jaco secret set`.",
    ),
    key("file", Honoured, Shape::Path, "Read and uploaded by the client."),
    key("labels", Ignored, LABELS, "Secrets carry no labels."),
    key(
        "name",
        Honoured,
        Shape::Str,
        "The name in the cluster, if `external`; otherwise only kept in the model.",
    ),
    key("template_driver", Ignored, Shape::Str, "Templates are not supported."),
]);

pub(crate) static CONFIG: Object = object(&[
    key("content", Honoured, Shape::Str, "Stored with each revision."),
    key("environment", Honoured, Shape::Str, "Read by the client."),
    key(
        "external",
        Honoured,
        Shape::Short(Short::External, &Shape::Bool),
        "Stored in the cluster beforehand: `jaco config set`.",
    ),
    key("file", Honoured, Shape::Path, "Read and uploaded by the client."),
    key("labels", Ignored, LABELS, "Configs carry no labels."),
    key(
        "name",
        Honoured,
        Shape::Str,
        "The name in the cluster, if `external`; otherwise only kept in the model.",
    ),
    key("template_driver", Ignored, Shape::Str, "Templates are not supported."),
]);
