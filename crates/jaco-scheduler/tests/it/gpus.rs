//! GPUs: who gets which, and who waits for one.

use expect_test::expect;
use jaco_state::command::{DeploymentDelete, NodeReport};
use jaco_types::spec::UpdateOrder;
use jaco_types::{DeploymentName, GpuChoice, GpuDemand, NodeFacts};

use crate::cluster::{Cluster, Service, key, service};

fn cluster(gpus: &[(&str, u32)]) -> Cluster {
    let hosts: Vec<_> = gpus.iter().map(|(host, _)| *host).collect();
    let mut cluster = Cluster::of(&hosts);
    for (host, count) in gpus {
        cluster.give_gpus(host, *count);
    }
    cluster.pass();
    cluster
}

/// `shop-web-0@n1:GPU-n1-0`: who is where, with which GPUs.
fn show(cluster: &Cluster) -> String {
    let slots = cluster.state.slots.values().map(|slot| {
        let host = &cluster.state.nodes.get(&slot.current.node).unwrap().hostname;
        format!("{}@{host}:{}", slot.id, slot.current.gpus.join("+"))
    });
    slots.collect::<Vec<_>>().join(" ")
}

fn demands(choice: GpuChoice) -> Service {
    let demand = GpuDemand { driver: "nvidia".to_owned(), choice };
    service("web", "web:1").with(|spec| spec.gpus = Some(demand))
}

/// R-PLACE-8: each replica has its own, and what does not fit waits with a reason for every node.
#[test]
fn each_replica_has_gpus_of_its_own() {
    let mut cluster = cluster(&[("n1", 2), ("n2", 1), ("n3", 0)]);
    cluster.apply("shop", &[service("web", "web:1").gpus(1).replicas(4)]);
    cluster.settle();
    expect!["shop-web-0@n2:GPU-n2-0 shop-web-1@n1:GPU-n1-0 shop-web-2@n1:GPU-n1-1"]
        .assert_eq(&show(&cluster));
    let answers = jaco_scheduler::explain(&cluster.input(), &key("shop", "web")).unwrap();
    let answers_shown =
        answers.iter().map(|answer| format!("{}: {}", answer.hostname, answer.failed[0]));
    expect![[r#"
        n1: GPUs: 0 of 2 free, 1 of nvidia needed
        n2: GPUs: 0 of 1 free, 1 of nvidia needed
        n3: GPUs: it has none, 1 of nvidia needed"#]]
    .assert_eq(&answers_shown.collect::<Vec<_>>().join("\n"));
    expect!["1 no_eligible_node insufficient_gpus=3"].assert_eq(&cluster.reasons("shop", "web"));
}

/// R-PLACE-8: all of a node's, or certain ones, by id or by number.
#[test]
fn all_or_named_gpus_can_be_demanded() {
    let placed = |choice| {
        let mut cluster = cluster(&[("n1", 3), ("n2", 0)]);
        cluster.apply("blog", &[service("api", "a:1").gpus(1)]);
        cluster.settle();
        cluster.apply("shop", &[demands(choice)]);
        cluster.settle();
        let waits = cluster.reasons("shop", "web");
        if waits.is_empty() { show(&cluster) } else { waits }
    };
    let these = |ids: &[&str]| GpuChoice::These(ids.iter().map(|id| (*id).into()).collect());
    expect!["1 no_eligible_node insufficient_gpus=2"].assert_eq(&placed(GpuChoice::All));
    expect!["1 no_eligible_node insufficient_gpus=2"].assert_eq(&placed(these(&["0"])));
    expect!["1 no_eligible_node insufficient_gpus=2"].assert_eq(&placed(these(&["7"])));
    expect!["blog-api-0@n1:GPU-n1-0 shop-web-0@n1:GPU-n1-2"].assert_eq(&placed(these(&["2"])));
    expect!["blog-api-0@n1:GPU-n1-0 shop-web-0@n1:GPU-n1-1+GPU-n1-2"]
        .assert_eq(&placed(these(&["GPU-n1-1", "2"])));
    let mut cluster = cluster(&[("n1", 0), ("n2", 2)]);
    cluster.apply("shop", &[demands(GpuChoice::All)]);
    cluster.settle();
    expect!["shop-web-0@n2:GPU-n2-0+GPU-n2-1"].assert_eq(&show(&cluster));
}

/// R-PLACE-8: where every GPU is taken a rollout stops the old replica first, and its successor has
/// the one that it had; what is freed is given to who waits.
#[test]
fn rollout_hands_gpus_over() {
    let mut cluster = cluster(&[("n1", 1)]);
    cluster.apply("shop", &[service("web", "web:1").gpus(1).replicas(2)]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-web-0@n1:GPU-n1-0");
    let web = service("web", "web:2").gpus(1).replicas(1);
    assert_eq!(web.0.update.order, UpdateOrder::StartFirst);
    cluster.apply("shop", &[web]);
    cluster.settle();
    assert_eq!(show(&cluster), "shop-web-0@n1:GPU-n1-0");
    cluster.apply("blog", &[service("api", "a:1").gpus(1)]);
    cluster.settle();
    assert!(!cluster.reasons("blog", "api").is_empty());
    cluster.commit(DeploymentDelete::new(DeploymentName::new("shop").unwrap()).into());
    cluster.settle();
    assert_eq!(show(&cluster), "blog-api-0@n1:GPU-n1-0");
}

/// R-PLACE-8: a replica whose GPU is gone from its node keeps its name, so that the engine says what
/// is wrong; it is not given those of another replica.
#[test]
fn lost_gpu_is_not_replaced_by_one_of_another_replica() {
    let mut cluster = cluster(&[("n1", 1)]);
    cluster.apply("shop", &[service("web", "web:1").gpus(1)]);
    cluster.settle();
    let node = cluster.state.nodes.values().next().unwrap();
    let (id, address) = (node.id, node.address.clone());
    let facts = NodeFacts { gpus: Vec::new(), ..node.facts.clone() };
    cluster.commit(NodeReport::new(id, address, facts).into());
    cluster.see("shop-web-0", jaco_types::ReplicaState::Failed);
    cluster.pass();
    assert_eq!(show(&cluster), "shop-web-0@n1:GPU-n1-0");
}
