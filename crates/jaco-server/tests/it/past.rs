//! The state as it was, made again of what a member keeps.

use std::time::Duration;

use jaco_proto::v1;
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_proto::v1::query_client::QueryClient;
use jaco_server::Past;
use jaco_state::ClusterState;
use jaco_types::ErrorCode;
use tonic::Code;
use tonic::transport::Channel;

use crate::served::Served;

/// splitmix64: the same changes for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// One of several changes; some are refused, which is an entry as well.
async fn change(local: &Channel, random: &mut Random, number: u64) {
    let name = format!("d{}", random.below(4));
    let mut deploy = DeployClient::new(local.clone());
    match random.below(4) {
        0 | 1 => {
            let replicas = 1 + random.below(5);
            let model = format!(
                r#"{{"name":"{name}","services":{{"web":{{"image":"web:{number}","deploy":{{"replicas":{replicas}}}}}}}}}"#
            );
            let request = v1::ApplyRequest { compose_json: model, ..Default::default() };
            deploy.apply(request).await.expect("it is admitted");
        }
        2 => {
            let request = v1::DeleteRequest { deployment: name, ..Default::default() };
            drop(deploy.delete(request).await);
        }
        _ => {
            let request = v1::IssueOperatorTokenRequest {
                name: format!("t{number}"),
                role: "viewer".to_owned(),
                ..Default::default()
            };
            let issued = ClusterClient::new(local.clone()).issue_operator_token(request).await;
            issued.expect("it is new");
        }
    }
}

/// R-OPS-1: whatever was done, and whether or not a snapshot lies between, the state at each index is the one that was there
/// when the index was applied: all of it, events included. The moments are asked for in any order.
#[tokio::test(flavor = "multi_thread")]
async fn states_are_those_that_were_recorded() {
    for seed in 1..=3 {
        let served = Served::start().await;
        served.found().await;
        let mut random = Random(seed);
        let mut recorded: Vec<ClusterState> = Vec::new();
        let snapshot_after = random.below(40);
        for number in 0..40 {
            change(&served.local, &mut random, number).await;
            recorded.push(served.node.store.read(ClusterState::clone));
            if number == snapshot_after {
                served.node.store.raft().trigger_snapshot().await.unwrap();
                let taken = |status: &jaco_raft::Status| status.snapshot.is_some();
                let waited = served.node.store.raft().wait_for(taken, Duration::from_secs(20));
                waited.await.expect("a snapshot is taken");
            }
        }
        for _ in 0..60 {
            let place = usize::try_from(random.below(recorded.len() as u64)).unwrap();
            let expected = &recorded[place];
            let then = served.node.state_at(expected.index.0).await.unwrap();
            assert_eq!(then.state, *expected, "index {}", expected.index);
            assert!(then.at.is_some());
            // Without what was kept of the one before.
            if random.below(3) == 0 {
                let then =
                    Past::default().at(served.node.past_source(), expected.index.0).await.unwrap();
                assert_eq!(then.state, *expected, "index {}", expected.index);
            }
        }
        served.node.store.raft().shutdown().await.unwrap();
    }
}

/// R-OPS-1, R-IN-3: an index that is not there yet is refused by name, with those that are; one that is being made again is
/// not waited for for ever; and a watch of a moment is refused.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_kept_is_refused() {
    let served = Served::start().await;
    served.found().await;
    let newest = served.node.store.read(|state| state.index.0);
    let refused = served.node.state_at(newest + 1000).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::IndexNotKept);
    assert_eq!(refused.details["kept_from"], "1");
    assert!(refused.message.contains("it has what is needed from index 1 to"), "{refused}");

    let mut query = QueryClient::new(served.local.clone());
    let request = v1::StatusRequest { at_index: newest + 1000, ..Default::default() };
    let status = query.overview(request.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status:?}");
    assert!(status.message().contains("cannot show the state at index"), "{status:?}");
    let watch = query.watch(v1::StatusRequest { at_index: newest, ..request }).await.unwrap_err();
    assert_eq!(watch.code(), Code::InvalidArgument, "{watch:?}");

    let asked = v1::StatusRequest { at_index: newest, ..Default::default() };
    let mut parts = query.overview(asked).await.unwrap().into_inner();
    let shown = parts.message().await.unwrap().unwrap();
    assert_eq!(shown.raft_index, newest);
    assert_eq!(shown.leader, "", "who led is not in the log");
    assert!(shown.nodes.iter().all(|node| node.suffrage == "unknown"), "{shown:?}");
    let past = shown.past.unwrap();
    assert!(past.at_ms > 0 && past.kept_from == 0 && past.kept_to >= newest, "{past:?}");
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1, R-IN-3: a request works on a state for a bounded time only; the next one goes on where it ended.
#[tokio::test(flavor = "multi_thread")]
async fn many_entries_are_applied_in_steps() {
    let served = Served::start().await;
    served.found().await;
    let mut deploy = DeployClient::new(served.local.clone());
    // Several reads of the log.
    for number in 0..24 {
        let text = "x".repeat(150_000);
        let model = format!(
            r#"{{"name":"shop","services":{{"web":{{"image":"web:{number}","labels":{{"a":"{text}"}}}}}}}}"#
        );
        let request = v1::ApplyRequest { compose_json: model, ..Default::default() };
        deploy.apply(request).await.expect("it is admitted");
    }
    let expected = served.node.store.read(ClusterState::clone);
    let past = Past::within(Duration::ZERO);
    let mut steps = Vec::new();
    let then = loop {
        match past.at(served.node.past_source(), expected.index.0).await {
            Ok(then) => break then,
            Err(refused) => {
                assert_eq!(refused.code, ErrorCode::Overloaded, "{refused}");
                steps.push(refused.message);
            }
        }
    };
    assert_eq!(then.state, expected);
    assert!((1..24).contains(&steps.len()), "{steps:?}");
    steps.dedup();
    assert!(steps.len() > 1, "each goes on where the one before it ended: {steps:?}");
    served.node.store.raft().shutdown().await.unwrap();
}
