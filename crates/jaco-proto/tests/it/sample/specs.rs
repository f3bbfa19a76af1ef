//! Specs of deployments.

use super::*;

pub(crate) fn spec_with_monitor() -> DeploymentSpec {
    let service = |name, monitor, rollback| {
        let name = ServiceName::new(name).unwrap();
        let mut web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
        web.name = name.clone();
        web.update = UpdatePolicy { monitor, rollback, ..web.update };
        (name, Arc::new(web))
    };
    let pauses = RollbackPolicy {
        monitor: Some(Millis(9_000)),
        failure_action: RollbackFailureAction::Pause,
        max_failure_permille: 250,
        ..RollbackPolicy::default()
    };
    let blind = RollbackPolicy { monitor: Some(Millis(0)), ..RollbackPolicy::default() };
    let services = [
        service("blind", Some(Millis(0)), blind),
        service("careful", Some(Millis(5_000)), pauses),
        service("usual", None, RollbackPolicy::default()),
    ];
    DeploymentSpec { services: services.into(), ..spec() }
}

pub(crate) fn spec_with_loss_policies() -> DeploymentSpec {
    let service = |name, on_node_loss| {
        let name = ServiceName::new(name).unwrap();
        let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
        (name.clone(), Arc::new(ServiceSpec { name, on_node_loss, ..web }))
    };
    let (after, grace) = (Millis(30_000), Millis(10_000));
    let services = [
        service("moves", OnNodeLoss::Replace { after }),
        service("single", OnNodeLoss::StopSelf { after, grace }),
        service("waits", OnNodeLoss::Wait),
    ];
    DeploymentSpec { services: services.into(), ..spec() }
}

pub(crate) fn spec_that_may_fail() -> DeploymentSpec {
    let (order, delay) = (UpdateOrder::StopFirst, Millis(7));
    let rollback = RollbackPolicy { parallelism: 3, order, delay, ..RollbackPolicy::default() };
    let service = |name, failure_action| {
        let name = ServiceName::new(name).unwrap();
        let mut web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
        web.name = name.clone();
        web.update =
            UpdatePolicy { failure_action, max_failure_permille: 250, rollback, ..web.update };
        (name, Arc::new(web))
    };
    let services =
        [service("continues", FailureAction::Continue), service("pauses", FailureAction::Pause)];
    DeploymentSpec { services: services.into(), ..spec() }
}

pub(crate) fn other_spec() -> DeploymentSpec {
    let port = |protocol| HostPort { port: 53, protocol };
    let after = |condition| Dependency {
        service: ServiceName::new("web").unwrap(),
        condition,
        required: DependencyRequirement::Optional,
    };
    let service = |name, placement| {
        let name = ServiceName::new(name).unwrap();
        let host_ports = vec![port(Protocol::Udp), port(Protocol::Sctp)];
        let depends_on = vec![
            after(DependencyCondition::Started),
            after(DependencyCondition::CompletedSuccessfully),
        ];
        let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
        (name.clone(), Arc::new(ServiceSpec { name, placement, host_ports, depends_on, ..web }))
    };
    let services = [service("global", Placement::Global), service("pack", Placement::Pack)];
    DeploymentSpec { services: services.into(), ..spec() }
}

pub(crate) fn spec_with_colocation() -> DeploymentSpec {
    let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
    let names = |names: &[&str]| names.iter().map(|name| ServiceName::new(name).unwrap()).collect();
    let scheduling = SchedulingPolicy {
        max_per_node: NonZeroU32::new(2),
        place_with: names(&["cache", "db"]),
        shares_namespaces_with: names(&["net"]),
        ..SchedulingPolicy::default()
    };
    let services = [(web.name.clone(), Arc::new(ServiceSpec { scheduling, ..web }))];
    DeploymentSpec { services: services.into(), ..spec() }
}

pub(crate) fn reaches() -> BTreeMap<ServiceName, BTreeSet<Reach>> {
    let all = ReachKind::ALL.iter().map(|kind| Reach::new(*kind, kind.as_str()));
    let db = BTreeSet::from([Reach::new(ReachKind::Privileged, "")]);
    [(ServiceName::new("db").unwrap(), db), (service_key().service, all.collect())].into()
}

pub(crate) fn grants() -> BTreeSet<Reach> {
    let path = Reach::new(ReachKind::HostPath, "/srv/media");
    [Reach::new(ReachKind::Privileged, ""), path].into()
}

pub(crate) fn privileges() -> BTreeMap<ServiceName, BTreeSet<Privilege>> {
    let db = BTreeSet::from([Privilege::HostPath]);
    let all = Privilege::ALL.iter().copied().collect();
    [(ServiceName::new("db").unwrap(), db), (ServiceName::new("web").unwrap(), all)].into()
}

pub(crate) fn spec_scored_by_nomad() -> DeploymentSpec {
    let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
    let scheduling = SchedulingPolicy { scoring: Scoring::Nomad, ..SchedulingPolicy::default() };
    let services = [(web.name.clone(), Arc::new(ServiceSpec { scheduling, ..web }))];
    DeploymentSpec { services: services.into(), ..spec() }
}

pub(crate) fn spec_with_gpus() -> DeploymentSpec {
    let service = |name, choice| {
        let name = ServiceName::new(name).unwrap();
        let web = spec().services[&ServiceName::new("web").unwrap()].as_ref().clone();
        let gpus = Some(GpuDemand { driver: "nvidia".into(), choice });
        (name.clone(), Arc::new(ServiceSpec { name, gpus, ..web }))
    };
    let services = [
        service("all", GpuChoice::All),
        service("some", GpuChoice::Count(NonZeroU32::new(2).unwrap())),
        service("these", GpuChoice::These(vec!["GPU-6f9c".into(), "1".into()])),
    ];
    DeploymentSpec { services: services.into(), ..spec() }
}

/// Two services: what is an alternative in one is the other one in the other.
pub(crate) fn spec() -> DeploymentSpec {
    let web = ServiceSpec {
        name: ServiceName::new("web").unwrap(),
        image: "nginx:1.29".into(),
        pull: PullPolicy::Always,
        placement: Placement::Hosts(BTreeSet::from([hostname(), Hostname::new("n8").unwrap()])),
        replicas: 3,
        host_ports: vec![HostPort { port: 8080, protocol: Protocol::Tcp }],
        ingress_ports: BTreeSet::new(),
        resolvers: Vec::new(),
        restart: RestartPolicy::Always,
        mode: ServiceMode::Service,
        schedule: None,
        depends_on: vec![Dependency {
            service: ServiceName::new("db").unwrap(),
            condition: DependencyCondition::Healthy,
            required: DependencyRequirement::Required,
        }],
        reservation: resources(),
        limit: resources(),
        gpus: None,
        volumes: Vec::new(),
        storage: Storage::Stateless,
        healthcheck: Healthcheck::Declared,
        update: UpdatePolicy {
            parallelism: 2,
            order: UpdateOrder::StopFirst,
            step_timeout: Millis(60_000),
            monitor: Some(Millis(5_000)),
            delay: Millis(100),
            ..UpdatePolicy::default()
        },
        scheduling: SchedulingPolicy::default(),
        on_node_loss: OnNodeLoss::default(),
        networks: Vec::new(),
        drain: None,
        container: r#"{"image":"nginx:1.29"}"#.into(),
        hash: hash(),
    };
    let db = ServiceSpec {
        name: ServiceName::new("db").unwrap(),
        placement: Placement::Spread,
        host_ports: vec![],
        ingress_ports: BTreeSet::new(),
        resolvers: Vec::new(),
        restart: RestartPolicy::Always,
        mode: ServiceMode::Service,
        schedule: None,
        depends_on: vec![],
        reservation: Resources::default(),
        storage: Storage::Stateful,
        healthcheck: Healthcheck::None,
        pull: PullPolicy::Never,
        update: UpdatePolicy::default(),
        ..web.clone()
    };
    DeploymentSpec {
        services: [db, web].map(|service| (service.name.clone(), Arc::new(service))).into(),
        networks: BTreeMap::new(),
        routes: BTreeMap::new(),
        compose: r#"{"services":{}}"#.into(),
        overlay: "services: {}".into(),
        environment: "[web]".into(),
        contents: BTreeSet::new(),
        named: BTreeSet::new(),
        privileges: BTreeMap::new(),
    }
}
