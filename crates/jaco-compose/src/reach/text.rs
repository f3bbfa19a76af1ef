//! The keys of a canonical text that can reach the node. What they are not made of is left in the text: a file
//! may name as many mounts as fit into it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::model::MountKind;

#[derive(Deserialize)]
pub(super) struct Container<'a> {
    #[serde(borrow)]
    pub(super) service: Service<'a>,
    #[serde(borrow, default)]
    pub(super) volumes: BTreeMap<Cow<'a, str>, Volume<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Service<'a> {
    #[serde(borrow)]
    pub(super) cap_add: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) cgroup: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) cgroup_parent: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) deploy: Option<Deploy<'a>>,
    #[serde(borrow)]
    pub(super) device_cgroup_rules: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) devices: Vec<Device<'a>>,
    #[serde(borrow)]
    pub(super) gpus: Vec<Request<'a>>,
    #[serde(borrow)]
    pub(super) group_add: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) ipc: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) network_mode: Option<Cow<'a, str>>,
    pub(super) oom_kill_disable: bool,
    pub(super) oom_score_adj: Option<i64>,
    #[serde(borrow)]
    pub(super) pid: Option<Cow<'a, str>>,
    pub(super) pre_stop: Vec<Hook>,
    pub(super) privileged: bool,
    #[serde(borrow)]
    pub(super) runtime: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) security_opt: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) sysctls: BTreeMap<Cow<'a, str>, IgnoredAny>,
    #[serde(borrow)]
    pub(super) userns_mode: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) uts: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) volumes: Vec<Mount<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Deploy<'a> {
    #[serde(borrow)]
    pub(super) resources: Resources<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources<'a> {
    #[serde(borrow)]
    pub(super) reservations: Reservations<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Reservations<'a> {
    #[serde(borrow)]
    pub(super) devices: Vec<Request<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Request<'a> {
    #[serde(borrow)]
    pub(super) device_ids: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) driver: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(super) struct Device<'a> {
    #[serde(borrow)]
    pub(super) source: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Hook {
    pub(super) privileged: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Mount<'a> {
    #[serde(rename = "type")]
    pub(super) kind: MountKind,
    #[serde(borrow)]
    pub(super) source: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Volume<'a> {
    pub(super) external: bool,
    #[serde(borrow)]
    pub(super) driver: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) driver_opts: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}
