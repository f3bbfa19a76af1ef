//! Specs of deployments.

use std::net::IpAddr;

use super::*;

pub(crate) fn gpu_demand() -> impl Strategy<Value = GpuDemand> {
    let choice = prop_oneof![
        Just(GpuChoice::All),
        (1..=u32::MAX)
            .prop_filter_map("not zero", |count| { NonZeroU32::new(count).map(GpuChoice::Count) }),
        gpu_ids().prop_map(GpuChoice::These),
    ];
    (text(), choice).prop_map(|(driver, choice)| GpuDemand { driver, choice })
}

fn volume_demand() -> impl Strategy<Value = VolumeDemand> {
    let demand = |(volume, class, size): (String, _, _)| VolumeDemand {
        volume: volume.into(),
        class,
        size: Bytes(size),
    };
    (text(), volume_class(), any::<u64>()).prop_map(demand)
}

pub(crate) fn spec() -> impl Strategy<Value = DeploymentSpec> {
    let contents = (btree_set(content_id(), 0..3), btree_set(named_key(), 0..3));
    let privileges = btree_set(select(Privilege::ALL), 1..4);
    let privileges = btree_map(service_name(), privileges, 0..3);
    let networks = btree_map(network_name(), network_spec(), 0..3);
    let routes = btree_map(route_key(), route(), 0..3);
    let kept = (contents, networks, routes);
    let fields = (vec(service_spec(), 0..3), text(), text(), text(), kept, privileges);
    fields.prop_map(|(services, compose, overlay, environment, kept, privileges)| {
        let ((contents, named), networks, routes) = kept;
        let by_name = |service: ServiceSpec| (service.name.clone(), Arc::new(service));
        DeploymentSpec {
            services: services.into_iter().map(by_name).collect(),
            compose: compose.into(),
            overlay: overlay.into(),
            environment: environment.into(),
            contents,
            named,
            privileges,
            networks,
            routes,
        }
    })
}

pub(crate) fn service_spec() -> impl Strategy<Value = ServiceSpec> {
    let wanted = (service_name(), text(), placement(), any::<u32>());
    let needs = (vec(host_port(), 0..3), vec(dependency(), 0..3), resources(), resources());
    let kinds = (
        select(vec![Storage::Stateless, Storage::Stateful]),
        select(vec![Healthcheck::None, Healthcheck::Declared]),
        select(vec![PullPolicy::Missing, PullPolicy::Always, PullPolicy::Never]),
        restart_policy(),
        (select(vec![ServiceMode::Service, ServiceMode::Job]), option::of(schedule())),
    );
    let attachments = (vec(attachment(), 0..3), vec(any::<IpAddr>(), 0..3));
    let attachments = (attachments, drain_time(), btree_set(ingress_port(), 0..3));
    let devices = (option::of(gpu_demand()), vec(volume_demand(), 0..3));
    let hash = (text(), any::<[u8; 32]>(), devices, attachments);
    (wanted, needs, kinds, update_policy(), scheduling_policy(), on_node_loss(), hash).prop_map(
        |(wanted, needs, kinds, update, scheduling, on_node_loss, made)| {
            let (container, hash, (gpus, volumes), ((networks, resolvers), drain, ingress_ports)) =
                made;
            let (name, image, placement, replicas) = wanted;
            let (host_ports, depends_on, reservation, limit) = needs;
            let (storage, healthcheck, pull, restart, (mode, schedule)) = kinds;
            ServiceSpec {
                name,
                image: image.into(),
                pull,
                placement,
                replicas,
                host_ports,
                ingress_ports,
                resolvers,
                restart,
                mode,
                schedule,
                depends_on,
                reservation,
                limit,
                gpus,
                volumes,
                storage,
                healthcheck,
                update,
                scheduling,
                on_node_loss,
                networks,
                drain,
                container: container.into(),
                hash: SpecHash(hash),
            }
        },
    )
}

fn restart_policy() -> impl Strategy<Value = RestartPolicy> {
    prop_oneof![
        Just(RestartPolicy::Always),
        option::of(any::<u32>()).prop_map(|retries| RestartPolicy::OnFailure { retries }),
        Just(RestartPolicy::Never),
    ]
}

pub(crate) fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::Spread),
        Just(Placement::Pack),
        btree_set(hostname(), 0..4).prop_map(Placement::Hosts),
        Just(Placement::Global),
    ]
}

pub(crate) fn on_node_loss() -> impl Strategy<Value = OnNodeLoss> {
    prop_oneof![
        millis().prop_map(|after| OnNodeLoss::Replace { after }),
        Just(OnNodeLoss::default()),
        Just(OnNodeLoss::Wait),
        (millis(), millis()).prop_map(|(after, grace)| OnNodeLoss::StopSelf { after, grace }),
    ]
}

pub(crate) fn scheduling_policy() -> impl Strategy<Value = SchedulingPolicy> {
    let affinity = (constraint(), any::<i8>())
        .prop_map(|(constraint, weight)| Affinity { constraint, weight });
    let target = (text(), any::<u8>()).prop_map(|(value, percent)| SpreadTarget { value, percent });
    let criterion = (text(), any::<u8>(), vec(target, 0..3))
        .prop_map(|(attribute, weight, targets)| SpreadCriterion { attribute, weight, targets });
    let lists = (vec(constraint(), 0..3), vec(affinity, 0..3), vec(criterion, 0..3));
    let with = (any::<u32>(), btree_set(service_name(), 0..3), btree_set(service_name(), 0..3));
    let sets = (btree_set(text(), 0..3), btree_set(text(), 0..3));
    let scoring = select(vec![Scoring::Jaco, Scoring::Nomad]);
    let policy = (sets, lists, resources(), with, scoring).prop_map(
        |((selectors, own_keys), (constraints, affinities, spread), minimum, with, scoring)| {
            SchedulingPolicy {
                selectors,
                constraints,
                affinities,
                spread,
                minimum,
                own_keys,
                max_per_node: std::num::NonZeroU32::new(with.0),
                place_with: with.1,
                shares_namespaces_with: with.2,
                scoring,
            }
        },
    );
    prop_oneof![Just(SchedulingPolicy::default()), policy]
}

pub(crate) fn constraint() -> impl Strategy<Value = Constraint> {
    (text(), select(Operator::ALL), text()).prop_map(|(attribute, operator, value)| Constraint {
        attribute,
        operator,
        value,
    })
}

pub(crate) fn host_port() -> impl Strategy<Value = HostPort> {
    (any::<u16>(), select(vec![Protocol::Tcp, Protocol::Udp, Protocol::Sctp]))
        .prop_map(|(port, protocol)| HostPort { port, protocol })
}

pub(crate) fn dependency() -> impl Strategy<Value = Dependency> {
    let condition = select(vec![
        DependencyCondition::Started,
        DependencyCondition::Healthy,
        DependencyCondition::CompletedSuccessfully,
    ]);
    (
        service_name(),
        condition,
        select(vec![DependencyRequirement::Required, DependencyRequirement::Optional]),
    )
        .prop_map(|(service, condition, required)| Dependency { service, condition, required })
}

pub(crate) fn update_policy() -> impl Strategy<Value = UpdatePolicy> {
    let millis = || any::<u64>().prop_map(Millis);
    let order = select(vec![UpdateOrder::StartFirst, UpdateOrder::StopFirst]);
    let back_action = select(vec![RollbackFailureAction::Continue, RollbackFailureAction::Pause]);
    let back =
        (any::<u32>(), order.clone(), millis(), option::of(millis()), back_action, any::<u32>());
    let back = back.prop_map(
        |(parallelism, order, delay, monitor, failure_action, max_failure_permille)| {
            RollbackPolicy {
                parallelism,
                order,
                delay,
                monitor,
                failure_action,
                max_failure_permille,
            }
        },
    );
    let failure_action =
        select(vec![FailureAction::Rollback, FailureAction::Pause, FailureAction::Continue]);
    let failing = (failure_action, any::<u32>(), back);
    let monitor = option::of(millis());
    (any::<u32>(), order, millis(), monitor, millis(), failing).prop_map(
        |(
            parallelism,
            order,
            step_timeout,
            monitor,
            delay,
            (failure_action, max_failure_permille, rollback),
        )| UpdatePolicy {
            failure_action,
            max_failure_permille,
            rollback,
            parallelism,
            order,
            step_timeout,
            monitor,
            delay,
        },
    )
}

pub(crate) fn resources() -> impl Strategy<Value = Resources> {
    any::<(u64, u64)>()
        .prop_map(|(cpu, memory)| Resources { cpu: MilliCores(cpu), memory: Bytes(memory) })
}

pub(crate) fn reaches() -> impl Strategy<Value = BTreeMap<ServiceName, BTreeSet<Reach>>> {
    btree_map(service_name(), grants(), 0..3)
}

pub(crate) fn grants() -> impl Strategy<Value = BTreeSet<Reach>> {
    let reach = (select(ReachKind::ALL), text()).prop_map(|(kind, value)| Reach::new(kind, value));
    btree_set(reach, 1..4)
}

pub(crate) fn policy_mode() -> impl Strategy<Value = PolicyMode> {
    select(PolicyMode::ALL)
}
