//! Which services of a deployment run to their end (R-JOB-1).

use std::sync::Arc;

use jaco_types::spec::{
    Dependency, DependencyCondition, DependencyRequirement, DeploymentSpec, Healthcheck,
    OnNodeLoss, Placement, PullPolicy, RestartPolicy, SchedulingPolicy, ServiceMode, ServiceSpec,
    Storage, UpdatePolicy,
};
use jaco_types::unit::Resources;
use jaco_types::{ServiceName, SpecHash};

fn service(name: &str, mode: ServiceMode, after: &[(&str, DependencyCondition)]) -> ServiceSpec {
    let depends_on = after.iter().map(|(name, condition)| Dependency {
        service: ServiceName::new(name).unwrap(),
        condition: *condition,
        required: DependencyRequirement::Required,
    });
    ServiceSpec {
        name: ServiceName::new(name).unwrap(),
        image: "hello:1".into(),
        pull: PullPolicy::default(),
        placement: Placement::Spread,
        replicas: 1,
        host_ports: Vec::new(),
        ingress_ports: std::collections::BTreeSet::new(),
        resolvers: Vec::new(),
        restart: RestartPolicy::default(),
        mode,
        schedule: None,
        depends_on: depends_on.collect(),
        reservation: Resources::default(),
        limit: Resources::default(),
        gpus: None,
        volumes: Vec::new(),
        storage: Storage::Stateless,
        healthcheck: Healthcheck::None,
        update: UpdatePolicy::default(),
        scheduling: SchedulingPolicy::default(),
        on_node_loss: OnNodeLoss::default(),
        networks: Vec::new(),
        drain: None,
        container: "{}".into(),
        hash: SpecHash([0; 32]),
    }
}

fn jobs(services: Vec<ServiceSpec>) -> Vec<String> {
    let services = services.into_iter().map(|spec| (spec.name.clone(), Arc::new(spec)));
    let spec = DeploymentSpec { services: services.collect(), ..DeploymentSpec::default() };
    spec.jobs().into_iter().map(ToString::to_string).collect()
}

/// R-JOB-1: a service is a job because it says so, or because another one waits for it to complete; not because another
/// one waits for it to start or to be healthy.
#[test]
fn jobs_are_declared_or_awaited() {
    use DependencyCondition::{CompletedSuccessfully, Healthy, Started};
    let found = jobs(vec![
        service("migrate", ServiceMode::Service, &[("db", Healthy)]),
        service("db", ServiceMode::Service, &[]),
        service("cleanup", ServiceMode::Job, &[("cache", Started)]),
        service("cache", ServiceMode::Service, &[]),
        service("web", ServiceMode::Service, &[("migrate", CompletedSuccessfully)]),
    ]);
    assert_eq!(found, ["cleanup", "migrate"]);
}

/// R-JOB-1: one that is declared and awaited is one job; one that is awaited and not there counts too.
#[test]
fn jobs_are_counted_once() {
    use DependencyCondition::CompletedSuccessfully;
    let found = jobs(vec![
        service("migrate", ServiceMode::Job, &[]),
        service("web", ServiceMode::Service, &[("migrate", CompletedSuccessfully)]),
        service("api", ServiceMode::Service, &[("seed", CompletedSuccessfully)]),
    ]);
    assert_eq!(found, ["migrate", "seed"]);
    assert!(jobs(Vec::new()).is_empty());
}
