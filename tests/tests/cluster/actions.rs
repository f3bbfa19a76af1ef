//! Actions on the page of real daemons, by the forms that a browser would send to a follower.

use jaco_testkit::{Cluster, Engine, Node, eventually, v1};

use crate::curl::{Answer, Version, ask, token};
use crate::page::{see, sign_in};
use crate::scenario::{apply_request, containers, deploy};

/// A browser that is signed in at a node.
struct Browser<'c> {
    cluster: &'c Cluster,
    node: &'c Node,
    cookie: &'c str,
}

/// The form of an action: where it is sent, and its fields.
struct Form {
    path: String,
    fields: Vec<(String, String)>,
    /// The command that the page names beside it.
    command: String,
}

impl Browser<'_> {
    /// The form of the page of an action.
    async fn form(&self, action: &str) -> Form {
        let page = see(self.cluster, self.node, &format!("/ui/do/{action}"), self.cookie).await;
        assert_eq!(page.status, 200, "{action}: {}", page.body);
        let of = |text: &str, begin: &str, end: &str| -> String {
            let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{begin}: {text}"));
            rest.split_once(end).expect("it ends").0.to_owned()
        };
        let form = of(&page.body, "<form class=\"act\" method=\"post\" action=\"", "</form>");
        let inputs = form.split("<input type=\"hidden\" name=\"").skip(1);
        let fields = inputs.map(|input| {
            let (name, rest) = input.split_once("\" value=\"").expect("a value");
            (name.to_owned(), rest.split_once('"').expect("it ends").0.to_owned())
        });
        Form {
            path: form.split_once('"').expect("it ends").0.to_owned(),
            fields: fields.collect(),
            command: of(&page.body, "The same in a terminal: <code>", "</code>"),
        }
    }

    /// Sends it, as a page of this node does.
    async fn send(&self, form: &Form) -> Answer {
        let port = self.node.address.rsplit_once(':').expect("ip:port").1;
        let origin = format!("origin: https://{}.internal:{port}", self.cluster.id);
        let cookie = format!("cookie: {}", self.cookie);
        let mut arguments = vec!["--header".to_owned(), origin, "--header".to_owned(), cookie];
        for (name, value) in &form.fields {
            arguments.extend(["--data-urlencode".to_owned(), format!("{name}={value}")]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        ask(self.cluster, self.node, Version::Http2, &form.path, &arguments).await
    }

    /// Does an action, and expects to be led to this page.
    async fn act(&self, action: &str, leads_to: &str) -> Form {
        let form = self.form(action).await;
        let answer = self.send(&form).await;
        assert_eq!(answer.status, 303, "{action}: {answer:?}");
        assert!(answer.head.contains(&format!("location: {leads_to}\r\n")), "{}", answer.head);
        form
    }
}

/// Signs in at a node, which may learn of the token a moment later.
async fn cookie(cluster: &Cluster, node: &Node, role: &str) -> String {
    let (secret, header) = token(cluster, "ann", role).await;
    eventually("the node knows the token", || async {
        let asked = ask(cluster, node, Version::Http1, "/ui", &["--header", &header]).await;
        if asked.status == 200 { Ok(()) } else { Err(format!("{asked:?}")) }
    })
    .await;
    sign_in(cluster, node, &secret).await
}

async fn running(cluster: &Cluster, node: usize, wanted: usize) -> v1::StatusResponse {
    eventually("as many replicas run", || async {
        let status = cluster.overview(node).await?;
        let running = status.replicas.iter().filter(|it| it.state == "running").count();
        let is_there = running == wanted && status.replicas.len() == wanted;
        if is_there { Ok(status) } else { Err(format!("{running} of {wanted}")) }
    })
    .await
}

/// Who caused the events of this kind, with the ids of their requests.
async fn causes(cluster: &Cluster, node: usize, kind: &str) -> Vec<(String, String)> {
    let request = v1::AuditRequest { kinds: vec![kind.to_owned()], ..Default::default() };
    let mut events = cluster.nodes[node].client().events(request);
    let mut causes = Vec::new();
    while let Some(event) = events.next().await.expect("an event") {
        causes.push((event.by, event.request_id));
    }
    causes
}

/// R-OPS-1: a browser that is signed in at a follower scales, restarts, rolls back and drains by the forms of its pages; the
/// audit log names who did it, and the command that a page shows does the same.
#[tokio::test(flavor = "multi_thread")]
async fn forms_change_the_cluster_through_a_follower() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let leader = cluster.leader().await;
    let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let node = &cluster.nodes[follower];
    let cookie = &cookie(&cluster, node, "operator").await;
    let browser = Browser { cluster: &cluster, node, cookie };
    let shop = "/ui/deployments/shop";

    let scale = "scale?deployment=shop&service=web&replicas=3";
    let scaled = browser.act(scale, &format!("{shop}?did=scale")).await;
    let before = containers(&running(&cluster, follower, 3).await);
    let page = see(&cluster, node, &format!("{shop}?did=scale"), cookie).await;
    assert!(page.body.contains("The new number of replicas was accepted."), "{}", page.body);
    let applied = causes(&cluster, follower, "apply").await;
    let id = &scaled.fields.iter().find(|(name, _)| name == "request_id").expect("an id").1;
    assert_eq!(applied.last(), Some(&("operator:ann".to_owned(), id.clone())), "{applied:?}");
    // The command that the page shows is taken, and has nothing left to do.
    let words: Vec<&str> = scaled.command.split(' ').skip(1).collect();
    let said = cluster.cli(follower, &words);
    let said = format!("{said:?}");
    assert!(said.contains("unchanged"), "{}: {said}", scaled.command);

    browser.act("restart?deployment=shop&service=web", &format!("{shop}?did=restart")).await;
    eventually("each replica has another container", || async {
        let status = cluster.overview(follower).await?;
        let now = containers(&status);
        let is_new = now.len() == 3 && now.iter().all(|(id, of)| before.get(id) != Some(of));
        let runs = status.replicas.iter().all(|it| it.state == "running");
        if is_new && runs { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;

    let applied = cluster.client().apply(apply_request("shop", "web:2", 3)).await;
    applied.expect("it is admitted");
    cluster.converged(follower, "shop").await;
    browser.act("rollback?deployment=shop&to=1", &format!("{shop}?did=rollback")).await;
    eventually("the first revision runs again", || async {
        let status = cluster.overview(follower).await?;
        let images: Vec<&str> = status.replicas.iter().map(|it| it.image.as_str()).collect();
        let is_back = images.len() == 2 && images.iter().all(|image| image.contains("web:1"));
        if is_back { Ok(()) } else { Err(format!("{images:?}")) }
    })
    .await;
    cluster.converged(follower, "shop").await;

    let name = &cluster.nodes[other].name;
    let plan = see(&cluster, node, &format!("/ui/whatif?drain={name}"), cookie).await;
    assert!(plan.body.contains(&format!("jaco whatif --drain {name}")), "{}", plan.body);
    browser.act(&format!("drain?node={name}"), &format!("/ui/nodes/{name}?did=drain")).await;
    eventually("the node is empty", || async {
        let status = cluster.overview(follower).await?;
        let here = status.replicas.iter().filter(|it| it.node == *name).count();
        let drains =
            status.nodes.iter().any(|it| it.hostname == *name && it.availability == "draining");
        if here == 0 && drains { Ok(()) } else { Err(format!("{here} replicas, {drains}")) }
    })
    .await;
    running(&cluster, follower, 2).await;
    let uncordon = browser.form(&format!("uncordon?node={name}")).await;
    let words: Vec<&str> = uncordon.command.split(' ').skip(1).collect();
    let done = cluster.cli(follower, &words);
    assert!(done.status.success(), "{}: {done:?}", uncordon.command);
}

/// R-OPS-1: the leader dies between the page and its form: the form is done by the next one, once, however often it is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_done_once_though_the_leader_dies() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 1).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let cookie = cookie(&cluster, &cluster.nodes[follower], "operator").await;
    let browser = Browser { cluster: &cluster, node: &cluster.nodes[follower], cookie: &cookie };
    let form = browser.form("scale?deployment=shop&service=web&replicas=2").await;
    cluster.nodes[leader].kill();
    let browser = Browser { cluster: &cluster, node: &cluster.nodes[follower], cookie: &cookie };
    let answer = browser.send(&form).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let again = browser.send(&form).await;
    assert_eq!(again.status, 303, "{again:?}");
    let id = &form.fields.iter().find(|(name, _)| name == "request_id").expect("an id").1;
    let applied = causes(&cluster, follower, "apply").await;
    let of_form = applied.iter().filter(|(_, request)| request == id).count();
    assert_eq!(of_form, 1, "{applied:?}");
    eventually("the new number is stored", || async {
        let status = cluster.overview(follower).await?;
        let shop = status.deployments.iter().find(|it| it.name == "shop").ok_or("no shop")?;
        let now = (shop.revision, shop.services[0].desired);
        if now == (2, 2) { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

/// R-OPS-1: data keeps a node from being drained by mistake, also by a form that was not on the page; a job is run; and an
/// emptied node is removed once its name is typed.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_emptied_and_removed_by_forms() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let services = r#""db":{"image":"db:1","volumes":[{"type":"volume","source":"data","target":"/data"}]},
        "report":{"image":"job:1","restart":"no","deploy":{"mode":"replicated-job"},
        "labels":{"jaco.fake.exit_after_ms":"1000","jaco.fake.exit_code":"0"}}"#;
    let request = v1::ApplyRequest {
        compose_json: format!(
            r#"{{"name":"shop","services":{{{services}}},"volumes":{{"data":{{}}}}}}"#
        ),
        ..apply_request("shop", "db:1", 1)
    };
    cluster.client().apply(request).await.expect("it is admitted");
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let node = &cluster.nodes[follower];
    let cookie = &cookie(&cluster, node, "admin").await;
    let browser = Browser { cluster: &cluster, node, cookie };
    let home = eventually("the replica with data runs", || async {
        let status = cluster.overview(follower).await?;
        let db = status.replicas.iter().find(|it| it.service == "db" && it.state == "running");
        db.map(|db| db.node.clone()).ok_or_else(|| format!("{status:?}"))
    })
    .await;

    let runs = || async {
        let asked = v1::JobsRequest { deployment: "shop".to_owned(), service: String::new() };
        let jobs = node.client().jobs(asked).await.map_err(|error| error.to_string())?.jobs;
        Ok::<_, String>(jobs.first().map_or(0, |job| job.runs.len()))
    };
    eventually("the job has ended", || async {
        let status = cluster.overview(follower).await?;
        let goes_on =
            status.replicas.iter().any(|it| it.service == "report" && it.state != "completed");
        if goes_on { Err(format!("{:?}", status.replicas)) } else { Ok(()) }
    })
    .await;
    let before = runs().await.expect("jobs");
    browser.act("run?deployment=shop&service=report", "/ui/deployments/shop?did=run").await;
    eventually("a run has begun", || async {
        let now = runs().await?;
        if now == before + 1 { Ok(()) } else { Err(format!("{now} after {before}")) }
    })
    .await;

    let path = format!("/ui/do/drain?node={home}");
    let page = see(&cluster, node, &path, cookie).await;
    assert!(page.body.contains("It cannot be emptied"), "{}", page.body);
    let mut drain = browser.form(&format!("drain?node={home}&data=stays")).await;
    assert_eq!(drain.command, format!("jaco node drain {home} --leave-data"));
    drain.fields.retain(|(name, _)| name != "data");
    let refused = browser.send(&drain).await;
    assert!(refused.body.contains("<code>cannot_place</code>"), "{refused:?}");
    let status = cluster.overview(follower).await.expect("a status");
    let availability = status.nodes.iter().map(|it| it.availability.as_str());
    assert_eq!(availability.collect::<Vec<_>>(), ["active"; 3]);

    let is_free = |at: &&usize| cluster.nodes[**at].name != home && **at != follower;
    let free = *[leader, (leader + 2) % 3].iter().find(is_free).expect("one of them has no data");
    let name = &cluster.nodes[free].name;
    browser.act(&format!("drain?node={name}"), &format!("/ui/nodes/{name}?did=drain")).await;
    eventually("the node is empty", || async {
        let status = cluster.overview(follower).await?;
        let found = status.nodes.iter().find(|it| it.hostname == *name).ok_or("it is gone")?;
        let left = (found.replicas, found.stopping);
        if left == (0, 0) { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let mut remove = browser.form(&format!("remove?node={name}")).await;
    remove.fields.push(("typed".to_owned(), name.clone()));
    let removed = browser.send(&remove).await;
    assert!(removed.head.contains("location: /ui?did=remove\r\n"), "{removed:?}");
    eventually("it is no member any more", || async {
        let status = cluster.overview(follower).await?;
        let names: Vec<_> = status.nodes.iter().map(|it| it.hostname.clone()).collect();
        if names.contains(name) { Err(format!("{names:?}")) } else { Ok(()) }
    })
    .await;
}
