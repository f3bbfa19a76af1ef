//! `jaco wait` on real daemons.

use std::process::Output;

use jaco_testkit::{Cluster, Engine, v1};

use crate::scenario::apply_request;

/// Applies `web` and a job that ends with this code, after a second.
async fn apply(cluster: &Cluster, node: usize, exit_code: u8) {
    let web = r#""web":{"image":"web:1","deploy":{"replicas":2}}"#;
    let labels = format!(
        r#""labels":{{"jaco.fake.exit_after_ms":"1000","jaco.fake.exit_code":"{exit_code}"}}"#
    );
    let job = format!(r#""job":{{"image":"job:1","restart":"no",{labels}}}"#);
    let compose_json = format!(r#"{{"name":"shop","services":{{{web},{job}}}}}"#);
    let request = v1::ApplyRequest { compose_json, ..apply_request("shop", "web:1", 1) };
    cluster.nodes[node].client().apply(request).await.expect("it is admitted");
}

fn says(out: &Output) -> String {
    let (stdout, stderr) = (&out.stdout, &out.stderr);
    format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr))
}

/// R-JOB-1, R-CLI-7: a job is waited for at any node, also at one that has just been told less than the one that was asked;
/// what serves beside it is healthy meanwhile; and what was deleted is waited for until nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_waited_for_at_any_node() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    apply(&cluster, 0, 0).await;
    let healthy = cluster.cli(1, &["wait", "shop/web", "--for", "healthy"]);
    assert!(healthy.status.success(), "{}", says(&healthy));
    let completed = cluster.cli(2, &["wait", "shop", "--for", "completed", "-o", "json"]);
    assert!(completed.status.success(), "{}", says(&completed));
    let status = cluster.overview(2).await.expect("it answers");
    let job = status.replicas.iter().find(|one| one.service == "job").expect("it is kept");
    assert_eq!(job.state, "completed");
    let kinds: Vec<_> = status.deployments[0].services.iter().collect();
    let kinds: Vec<_> =
        kinds.iter().map(|it| (it.name.as_str(), it.completes_as.as_str())).collect();
    assert_eq!(kinds, [("job", "policy"), ("web", "")]);
    let converged = cluster.cli(1, &["wait", "shop", "shop/web"]);
    assert!(converged.status.success(), "{}", says(&converged));
    let text = says(&converged);
    assert!(text.contains("shop converged: 2 of 3 replicas running, 1 completed"), "{text}");
    let delete = cluster.cli(0, &["delete", "shop", "--yes", "--detach"]);
    assert!(delete.status.success(), "{}", says(&delete));
    let gone = cluster.cli(1, &["wait", "shop", "--for", "gone"]);
    assert!(gone.status.success(), "{}", says(&gone));
    let status = cluster.overview(1).await.expect("it answers");
    assert_eq!((status.deployments, status.replicas), (vec![], vec![]));
}

/// R-CLI-7: what cannot succeed ends the wait, with its exit code and reason.
#[tokio::test(flavor = "multi_thread")]
async fn failed_jobs_end_the_wait() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    apply(&cluster, 0, 3).await;
    let failed = cluster.cli(0, &["wait", "shop/job", "--for", "completed"]);
    let text = says(&failed);
    assert_eq!(failed.status.code(), Some(1), "{text}");
    assert!(text.contains("error[restart_exhausted]") && text.contains("exit code 3"), "{text}");
    // The other service does not care.
    let healthy = cluster.cli(0, &["wait", "shop/web"]);
    assert!(healthy.status.success(), "{}", says(&healthy));
    let refused = cluster.cli(0, &["wait", "shop/web", "--for", "completed"]);
    assert_eq!(refused.status.code(), Some(3), "{}", says(&refused));
}
