//! What an apply says of each field that it changes: its name, and its values where they can hold no
//! secret (R-CLI-5).

use jaco_types::spec::{
    Dependency, DependencyCondition, DependencyRequirement, Healthcheck, HostPort, OnNodeLoss,
    Placement, Protocol, PullPolicy, ServiceSpec, Storage,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{GpuChoice, GpuDemand, Millis, Revision, SpecHash, VolumeDemand};

use crate::history::{History, deploy, deployment, key, service};

/// What the event of an apply says about this change of `shop/web`.
fn changes(edit: impl FnOnce(&mut ServiceSpec)) -> String {
    let mut history = History::founded();
    let mut web = service("web", "web:1");
    history.apply(deploy("shop", &[web.clone()]));
    edit(&mut web);
    history.apply(deploy("shop", &[web]));
    let (_, event) = history.state.audit.events.iter().next_back().unwrap();
    assert_eq!(event.kind.as_str(), "apply");
    event.payload["changes"].clone()
}

type Edit = fn(&mut ServiceSpec);

/// Every field by itself is a change of its own, with a new revision.
#[test]
fn each_field_is_named() {
    let edits: [(&str, Edit); 16] = [
        ("image web:1 -> web:2", |web| web.image = "web:2".into()),
        ("replicas 1 -> 4", |web| web.replicas = 4),
        ("pull", |web| web.pull = PullPolicy::Always),
        ("placement", |web| web.placement = Placement::Pack),
        ("host_ports", |web| {
            web.host_ports.push(HostPort { port: 80, protocol: Protocol::Tcp });
        }),
        ("depends_on", |web| {
            web.depends_on.push(Dependency {
                service: "db".parse().unwrap(),
                condition: DependencyCondition::Healthy,
                required: DependencyRequirement::Optional,
            });
        }),
        ("reservation", |web| {
            web.reservation = Resources { cpu: MilliCores(1), memory: Bytes(0) };
        }),
        ("limit", |web| web.limit = Resources { cpu: MilliCores(0), memory: Bytes(1) }),
        ("gpus", |web| {
            web.gpus = Some(GpuDemand { driver: "nvidia".to_owned(), choice: GpuChoice::All });
        }),
        ("volumes", |web| {
            web.volumes.push(VolumeDemand {
                volume: "shop_data".into(),
                class: "ssd".parse().unwrap(),
                size: Bytes(1),
            });
        }),
        ("storage", |web| web.storage = Storage::Stateful),
        ("healthcheck", |web| web.healthcheck = Healthcheck::Declared),
        ("update", |web| web.update.delay = Millis(1)),
        ("scheduling", |web| {
            web.scheduling.selectors = ["ssd".to_owned()].into();
        }),
        ("on_node_loss", |web| web.on_node_loss = OnNodeLoss::Wait),
        ("container", |web| web.container = "{\"password\":\"hunter2\"}".into()),
    ];
    for (expected, edit) in edits {
        assert_eq!(changes(edit), format!("web: {expected}"));
    }
}

/// Several are listed in one order, whatever changed first; the hash follows from the container.
#[test]
fn several_fields_are_listed() {
    let all = changes(|web| {
        web.on_node_loss = OnNodeLoss::Wait;
        web.storage = Storage::Stateful;
        web.replicas = 0;
        web.image = "web:9".into();
    });
    assert_eq!(all, "web: image web:1 -> web:9, replicas 1 -> 0, storage, on_node_loss");
    assert_eq!(changes(|web| web.hash = SpecHash([1; 32])), "web: ");
}

/// Services that go are named first, then those that come and change, by name.
#[test]
fn services_that_come_and_go_are_named() {
    let mut history = History::founded();
    let services = ["cache", "db", "web"].map(|name| service(name, "i:1"));
    history.apply(deploy("shop", &services));
    assert_eq!(history.last_event(), "apply deployment=shop revision=1 services=cache, db, web");
    let web = ServiceSpec { replicas: 2, ..service("web", "i:1") };
    history.apply(deploy("shop", &[service("api", "i:1"), service("zoo", "i:1"), web]));
    assert_eq!(
        history.last_event(),
        "apply changes=-cache; -db; +api; web: replicas 1 -> 2; +zoo deployment=shop revision=2 \
         services=api, web, zoo"
    );
}

/// R-HEAL-2: each apply gives spent budgets back, also one that changes nothing, and of its own
/// deployment only.
#[test]
fn every_apply_resets_restarts() {
    use jaco_state::command::Change;
    use jaco_types::slot::Exhausted;
    let mut history = History::founded();
    for name in ["blog", "shop"] {
        history.apply(deploy(name, &[service("web", "web:1")]));
        let placed = crate::history::create(&key(name, "web"), 0, jaco_types::NodeId::FIRST);
        let Change::SlotCreate { id, .. } = placed.clone() else { panic!() };
        let (consecutive, exhausted) = (3, Exhausted::Yes);
        history.batch(vec![placed]);
        history.batch(vec![Change::SlotSetRestarts { id, consecutive, exhausted }]);
    }
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let restarts = |id: &str| {
        let slot = history.state.slots.get(&crate::history::replica(id)).unwrap();
        (slot.restarts.consecutive, slot.restarts.exhausted, slot.modified)
    };
    assert_eq!(restarts("shop-web-0"), (0, Exhausted::No, history.state.index));
    assert_eq!(restarts("blog-web-0").0, 3);
    let shop = history.state.deployments.get(&deployment("shop")).unwrap();
    assert_eq!(shop.revision, Revision(1), "nothing else changed");
}
