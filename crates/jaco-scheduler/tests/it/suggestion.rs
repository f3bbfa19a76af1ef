//! The smallest change for what waits: done, it places; no part of it does.

use std::num::NonZeroU32;

use jaco_scheduler::Ineligible;
use jaco_scheduler::NodeSignal;
use jaco_scheduler::explain::{NodeAnswer, explain};
use jaco_scheduler::input::EngineSignal;
use jaco_scheduler::suggestion::smallest_change;
use jaco_state::command::{Change, DeploymentDelete, NodeReport};
use jaco_types::spec::Operator;
use jaco_types::unit::{Bytes, MilliCores};
use jaco_types::{Availability, DeploymentName, Gpu, GpuChoice, Millis};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, constraint, hostname, key, resources, service};

const HOSTS: [&str; 3] = ["n1", "n2", "n3"];

/// A node: its capacity, its labels, whether it takes replicas, whether it is heard of.
type AnyNode = ((u64, u64), Vec<&'static str>, Availability, bool);

fn node() -> impl Strategy<Value = AnyNode> {
    let capacity = prop_oneof![Just((0, 0)), Just((500, 0)), Just((1000, 300)), Just((2000, 600))];
    let labels = prop::sample::subsequence(vec!["rack", "ssd", "gpu"], 0..=3);
    let availability = prop_oneof![
        3 => Just(Availability::Active),
        1 => Just(Availability::Cordoned),
        1 => Just(Availability::Draining),
    ];
    (capacity, labels, availability, prop::bool::weighted(0.8))
}

/// A service that many nodes have something against.
fn demanding() -> impl Strategy<Value = Service> {
    let reserves = prop_oneof![Just((0, 0)), Just((400, 100)), Just((1500, 400)), Just((3000, 0))];
    let minimum = prop_oneof![3 => Just((0, 0)), 1 => Just((300, 0)), 1 => Just((1800, 500))];
    let selectors = prop::sample::subsequence(vec!["rack", "ssd"], 0..=2);
    let needs = prop::sample::subsequence(
        vec![("gpu", Operator::IsSet), ("rack", Operator::IsNotSet), ("ssd", Operator::IsSet)],
        0..=2,
    );
    let with = prop::sample::subsequence(vec!["db", "cache"], 0..=2);
    let others = (with, any::<bool>(), 0..3u32, 0..3u64);
    (reserves, minimum, selectors, needs, others).prop_map(
        |((cpu, memory), minimum, selectors, needs, (with, has_port, gpus, size))| {
            let web = service("web", "w").replicas(1).reserves(cpu, memory).with(|spec| {
                spec.scheduling.minimum = resources(minimum.0, minimum.1);
                spec.scheduling.selectors = selectors.into_iter().map(str::to_owned).collect();
                for name in with {
                    let name = name.parse().unwrap();
                    spec.scheduling.place_with.insert(name);
                }
                let needs = needs.into_iter();
                spec.scheduling.constraints =
                    needs.map(|(label, operator)| constraint(label, operator, "")).collect();
            });
            let web = if has_port { web.host_port(80) } else { web };
            let web = if gpus > 0 { web.gpus(gpus) } else { web };
            if size > 0 { web.volume("shop_data", "ssd", size) } else { web }
        },
    )
}

fn cluster(nodes: &[AnyNode], blog: u32) -> Cluster {
    let mut cluster = Cluster::empty();
    for (host, (capacity, labels, ..)) in HOSTS.iter().zip(nodes) {
        let labels: Vec<_> = labels.iter().map(|label| (*label, "yes")).collect();
        cluster.join_as(host, resources(capacity.0, capacity.1), &labels);
        cluster.give_gpus(host, u32::try_from(labels.len()).unwrap());
        if !labels.is_empty() {
            cluster.offer_volumes(host, "ssd", u64::try_from(labels.len()).unwrap());
        }
        // Those that have much room take one.
        cluster.limit_instances(host, u32::from(capacity.1 == 600));
    }
    cluster.apply("blog", &[service("api", "a").replicas(blog).reserves(200, 0).host_port(80)]);
    cluster.settle();
    let with = HOSTS.iter().zip(nodes);
    let silent: Vec<_> = with.filter(|(_, node)| !node.3).map(|(host, _)| *host).collect();
    for (host, (_, _, availability, _)) in HOSTS.iter().zip(nodes) {
        cluster.set_availability(host, *availability);
    }
    cluster.advance(Millis::from_secs(20), &silent);
    cluster
}

/// Takes one reason away, and no more.
fn carry_out(cluster: &mut Cluster, web: &mut Service, answer: &NodeAnswer, step: &Ineligible) {
    let host = answer.hostname.as_str();
    let edit_facts = |cluster: &mut Cluster, edit: &dyn Fn(&mut jaco_types::NodeFacts)| {
        let node = cluster.state.nodes.get(&answer.node).unwrap();
        let (node, address, mut facts) = (node.id, node.address.clone(), node.facts.clone());
        edit(&mut facts);
        cluster.commit(NodeReport::new(node, address, facts).into());
    };
    match step {
        Ineligible::NotReady | Ineligible::EngineDown | Ineligible::DiskFull { .. } => {
            let signal = NodeSignal { heard_at: cluster.now, engine: EngineSignal::Up };
            cluster.signals.nodes.insert(answer.node, signal);
        }
        Ineligible::NoNetwork { .. } => cluster.report_router(host, None),
        Ineligible::Cordoned | Ineligible::Draining => {
            cluster.set_availability(host, Availability::Active);
        }
        Ineligible::MissingLabel { label } => {
            web.0.scheduling.selectors.remove(label);
        }
        Ineligible::ConstraintFails { constraint } => {
            web.0.scheduling.constraints.retain(|known| {
                let text = format!("{} {}", known.attribute, known.operator.as_str());
                text != *constraint
            });
        }
        Ineligible::BelowMinimum { .. } => {
            let (minimum, facts) = (&mut web.0.scheduling.minimum, &answer.facts);
            minimum.cpu = minimum.cpu.min(facts.cpu_left.unwrap_or_default());
            minimum.memory = minimum.memory.min(facts.memory_left.unwrap_or_default());
        }
        Ineligible::InsufficientCpu { available, required } => edit_facts(cluster, &|facts| {
            facts.capacity.cpu = MilliCores(facts.capacity.cpu.0 + required.0 - available.0);
        }),
        Ineligible::InsufficientMemory { available, required } => edit_facts(cluster, &|facts| {
            facts.capacity.memory = Bytes(facts.capacity.memory.0 + required.0 - available.0);
        }),
        Ineligible::InsufficientGpus { shortage, required } => edit_facts(cluster, &|facts| {
            let GpuChoice::Count(wanted) = required.choice else { panic!("{required}") };
            for number in 0..wanted.get() - shortage.free {
                let (driver, id) = (required.driver.clone(), format!("new-{number}").into());
                facts.gpus.push(Gpu { id, driver, model: String::new(), memory: Bytes(0) });
            }
        }),
        Ineligible::NoVolumeClass { class } => edit_facts(cluster, &|facts| {
            facts.volume_classes.insert(class.clone(), Bytes(0));
        }),
        Ineligible::InsufficientVolumeSpace { class, available, required } => {
            edit_facts(cluster, &|facts| {
                let capacity = facts.volume_classes.get_mut(class).unwrap();
                *capacity = Bytes(capacity.0 + required.0 - available.0);
            });
        }
        Ineligible::TooManyInstances { instances, .. } => edit_facts(cluster, &|facts| {
            facts.instances_max = NonZeroU32::new(instances + 1);
        }),
        Ineligible::HostPortTaken { .. } => {
            // Its holders go on without it; what they reserve stays theirs.
            let name = DeploymentName::new("blog").unwrap();
            let blog = cluster.state.deployments.get_mut(&name).expect("some replica holds it");
            let record = std::sync::Arc::make_mut(blog.revisions.values_mut().last().unwrap());
            for spec in record.spec.services.values_mut() {
                std::sync::Arc::make_mut(spec).host_ports.clear();
            }
        }
        Ineligible::PartnerMissing { service } => {
            web.0.scheduling.place_with.remove(service);
            web.0.scheduling.shares_namespaces_with.remove(service);
        }
        Ineligible::MaxPerNode { .. } => web.0.scheduling.max_per_node = None,
        Ineligible::Disabled
        | Ineligible::NotPinned
        | Ineligible::DataElsewhere
        | Ineligible::OnePerNode
        | Ineligible::PartnerPending { .. } => {
            panic!("no such reason here: {step:?}")
        }
    }
}

/// Whether a pass gives the waiting replica a node.
fn is_placed(cluster: &mut Cluster, web: &Service) -> bool {
    cluster.apply("shop", std::slice::from_ref(web));
    let of_shop = |change: &Change| matches!(change, Change::SlotCreate { service, .. } if *service == key("shop", "web"));
    cluster.plan().changes.iter().any(of_shop)
}

proptest! {
    /// PL-15: the smallest change, done, places what waits; and no strict part of it does.
    #[test]
    fn smallest_change_places_and_no_part_of_it_does(
        nodes in prop::collection::vec(node(), 1..=3),
        blog in 0..3u32,
        web in demanding(),
    ) {
        let mut cluster = cluster(&nodes, blog);
        cluster.settle();
        // Another service that waits would take the room that is made.
        if !cluster.reasons("blog", "api").is_empty() {
            cluster.commit(DeploymentDelete::new(DeploymentName::new("blog").unwrap()).into());
            cluster.settle();
        }
        if is_placed(&mut cluster, &web) {
            return Ok(());
        }
        let answers = explain(&cluster.input(), &key("shop", "web")).unwrap();
        let change = smallest_change(&answers).expect("no node takes it");
        prop_assert_eq!(change.describe().count(), change.steps.len());
        let answer = answers.iter().find(|answer| answer.hostname == change.node).unwrap();
        let all = (1_u32 << change.steps.len()) - 1;
        for part in 0..=all {
            let (mut cluster, mut web) = (cluster.clone(), web.clone());
            for (number, step) in change.steps.iter().enumerate() {
                if part & (1 << number) != 0 {
                    carry_out(&mut cluster, &mut web, answer, step);
                }
            }
            let steps = &change.steps;
            prop_assert_eq!(is_placed(&mut cluster, &web), part == all, "{:b} of {:?}", part, steps);
        }
    }
}

/// The node that is nearest is named, with all that has to change there.
#[test]
fn suggestion_names_the_nearest_node() {
    let mut cluster = Cluster::empty();
    cluster.join_as("n1", resources(1000, 0), &[]);
    cluster.join_as("n2", resources(2000, 0), &[("ssd", "yes")]);
    let web = service("web", "w").replicas(1).reserves(2500, 0);
    cluster.apply("shop", &[web.constrained("ssd", Operator::IsSet, "")]);
    let answers = explain(&cluster.input(), &key("shop", "web")).unwrap();
    let change = smallest_change(&answers).unwrap();
    assert_eq!(change.node, hostname("n2"));
    let steps: Vec<_> = change.describe().collect();
    assert_eq!(steps, ["free 500m of cpu on n2, or reserve that much less"]);
}
