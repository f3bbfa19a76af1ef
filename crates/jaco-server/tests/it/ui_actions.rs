//! Actions on the page of a member: done by forms of its own pages, in the name of who is signed in, once, and by nothing else.

use jaco_proto::v1;
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_proto::v1::query_client::QueryClient;
use jaco_server::permission::Needs;
use jaco_state::command::{Batch, Change};
use jaco_types::{
    Author, Identity, Revision, Role, Rollout, RolloutState, Scheduling, ServiceKey, Timestamp,
};
use jaco_ui::action::Action;
use jaco_ui::headers;
use tonic::codegen::http::{Method, StatusCode};

use crate::forms::{Form, form, signed_in};
use crate::served::Served;
use crate::ui::{get, request, send, sign_in, token, with_deployment};

/// The page of each action, by its path.
const ACTIONS: [&str; 13] = [
    "scale?deployment=shop&service=web&replicas=3",
    "restart?deployment=shop&service=web",
    "restart?deployment=shop",
    "run?deployment=shop&service=web",
    "disable?deployment=shop&service=web",
    "enable?deployment=shop&service=web",
    "rollback?deployment=shop&to=1",
    "delete?deployment=shop",
    "cordon?node=n1",
    "uncordon?node=n1",
    "drain?node=n1",
    "disable?node=n1",
    "remove?node=n1",
];

async fn stored(served: &Served) -> Option<v1::GetDeploymentResponse> {
    let request =
        v1::GetDeploymentRequest { name: "shop".to_owned(), revision: 0, ..Default::default() };
    let found = QueryClient::new(served.local.clone()).get_deployment(request).await;
    found.ok().map(tonic::Response::into_inner)
}

/// What actions change, as one text.
async fn facts(served: &Served) -> String {
    let mut cluster = ClusterClient::new(served.local.clone());
    let disabled = cluster.get_disabled(v1::GetDisabledRequest {}).await;
    let disabled = disabled.unwrap().into_inner().disabled;
    let status = cluster.status(v1::ClusterStatusRequest {}).await;
    let nodes = status.unwrap().into_inner().nodes;
    let availability: Vec<_> =
        nodes.iter().map(|node| (&node.hostname, &node.availability)).collect();
    let stored = stored(served).await.map(|it| (it.revision, it.compose_json));
    format!("{stored:?} {availability:?} {disabled:?}")
}

/// Events of this kind: by whom, and of which request.
async fn events(served: &Served, kind: &str) -> Vec<(String, String)> {
    let request = v1::AuditRequest { kinds: vec![kind.to_owned()], ..Default::default() };
    let mut found =
        QueryClient::new(served.local.clone()).audit(request).await.unwrap().into_inner();
    let mut events = Vec::new();
    while let Some(event) = found.message().await.unwrap() {
        events.push((event.by, event.request_id));
    }
    events
}

async fn apply(served: &Served, image: &str) {
    let compose_json = format!(r#"{{"name":"shop","services":{{"web":{{"image":"{image}"}}}}}}"#);
    let request = v1::ApplyRequest { compose_json, ..Default::default() };
    DeployClient::new(served.local.clone()).apply(request).await.unwrap();
}

async fn end(served: Served) {
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: a form does what its page says, in the name of who is signed in, as the audit log shows; and leads to the page of
/// its subject, which says so.
#[tokio::test(flavor = "multi_thread")]
async fn forms_do_what_their_pages_say() {
    let served = with_deployment().await;
    let cookie = signed_in(&served, "ann", Role::Operator).await;
    let page = get(&served.stranger, &format!("/ui/do/{}", ACTIONS[0]), &cookie).await;
    assert!(page.text.contains("<code>jaco scale shop/web 3</code>"), "{}", page.text);
    assert!(
        page.text.contains("would change") || page.text.contains("no replica"),
        "{}",
        page.text
    );

    let scale = Form::of(&page).send(&served, &cookie).await;
    assert_eq!(scale.status, StatusCode::SEE_OTHER, "{}", scale.text);
    assert_eq!(scale.header("location"), "/ui/deployments/shop?did=scale");
    let led_to = get(&served.stranger, scale.header("location"), &cookie).await;
    assert!(led_to.text.contains("The new number of replicas was accepted."), "{}", led_to.text);
    let model = stored(&served).await.unwrap();
    assert_eq!(model.revision, 2);
    assert!(model.compose_json.contains(r#""replicas":3"#), "{}", model.compose_json);
    let id = |form: &Form| {
        form.fields.iter().find(|(name, _)| name == "request_id").map(|(_, id)| id.clone()).unwrap()
    };
    let restart = form(&served, &cookie, ACTIONS[1]).await;
    assert_eq!(restart.send(&served, &cookie).await.status, StatusCode::SEE_OTHER);
    let model = stored(&served).await.unwrap();
    assert!(model.compose_json.contains(r#""jaco.restart":"1""#), "{}", model.compose_json);
    let applied = events(&served, "apply").await;
    assert_eq!(applied.last(), Some(&("operator:ann".to_owned(), id(&restart))), "{applied:?}");

    let back = form(&served, &cookie, ACTIONS[6]).await.send(&served, &cookie).await;
    assert_eq!(back.header("location"), "/ui/deployments/shop?did=rollback", "{}", back.text);
    assert!(!stored(&served).await.unwrap().compose_json.contains("jaco.restart"));

    for (action, kind, did) in [
        (ACTIONS[4], "allocations_disabled", "/ui/deployments/shop?did=disable"),
        (ACTIONS[5], "allocations_enabled", "/ui/deployments/shop?did=enable"),
        (ACTIONS[8], "node_availability", "/ui/nodes/n1?did=cordon"),
        (ACTIONS[9], "node_availability", "/ui/nodes/n1?did=uncordon"),
        (ACTIONS[10], "node_availability", "/ui/nodes/n1?did=drain"),
    ] {
        let before = facts(&served).await;
        let sent = form(&served, &cookie, action).await;
        let answer = sent.send(&served, &cookie).await;
        assert_eq!(answer.header("location"), did, "{action}: {}", answer.text);
        assert_ne!(facts(&served).await, before, "{action}");
        let led_to = get(&served.stranger, did, &cookie).await;
        assert!(led_to.text.contains("<p class=\"done\""), "{action}: {}", led_to.text);
        let found = events(&served, kind).await;
        let by = found.last().map(|(by, _)| by.as_str());
        assert_eq!(by, Some("operator:ann"), "{action}: {found:?}");
    }
    end(served).await;
}

/// Gives a revision of `shop/web` up for the first one, as the planner does.
async fn give_up(served: &Served, revision: u64) {
    let rollout = Rollout {
        target_revision: Revision(revision),
        previous_revision: Revision(1),
        total_steps: 1,
        current_step: 0,
        state: RolloutState::Aborted,
        failure_reason: "step_timeout".to_owned(),
        started_at: Timestamp(0),
        last_step_at: Timestamp(0),
        prepull: None,
        rollback_progress: None,
        in_flight: [].into(),
    };
    let record = Scheduling {
        planned_revision: Revision(revision),
        rollout: Some(rollout),
        ..Scheduling::default()
    };
    let (deployment, service) = ("shop".parse().unwrap(), "web".parse().unwrap());
    let service = ServiceKey { deployment, service };
    let change = Change::SchedulingSet { service, record: Box::new(record) };
    let based_on = served.node.store.read(|state| state.index);
    let by = Author { by: Identity::Scheduler, origin: None };
    let batch = Batch::new(based_on, vec![change]).into();
    served.node.commit(by, "", batch).await.unwrap();
}

/// R-OPS-1, R-ROLL-3: after a revision was given up, forms change what serves, not what failed.
#[tokio::test(flavor = "multi_thread")]
async fn forms_change_what_serves() {
    for (action, changed) in
        [(ACTIONS[0], r#""replicas":3"#), (ACTIONS[1], r#""jaco.restart":"1""#)]
    {
        let served = with_deployment().await;
        let cookie = signed_in(&served, "ann", Role::Operator).await;
        apply(&served, "web:2").await;
        give_up(&served, 2).await;
        let sent = form(&served, &cookie, action).await.send(&served, &cookie).await;
        assert_eq!(sent.status, StatusCode::SEE_OTHER, "{action}: {}", sent.text);
        let model = stored(&served).await.unwrap();
        assert_eq!(model.revision, 3, "{action}");
        assert!(model.compose_json.contains(r#""image":"web:1""#), "{}", model.compose_json);
        assert!(model.compose_json.contains(changed), "{}", model.compose_json);
        end(served).await;
    }
}

/// R-ROLL-3, R-CLI-6: after a restart was given up, a new number of replicas changes that alone; an apply of the files is
/// another attempt at the restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_was_given_up_stays_so() {
    let served = with_deployment().await;
    let cookie = signed_in(&served, "ann", Role::Operator).await;
    let restart = form(&served, &cookie, ACTIONS[1]).await.send(&served, &cookie).await;
    assert_eq!(restart.status, StatusCode::SEE_OTHER, "{}", restart.text);
    give_up(&served, 2).await;
    let before = stored(&served).await.unwrap();
    assert!(before.revision == 2 && before.compose_json.contains("jaco.restart"), "{before:?}");
    apply(&served, "web:1").await;
    let again = stored(&served).await.unwrap();
    assert_eq!((again.revision, &again.compose_json), (3, &before.compose_json));

    give_up(&served, 3).await;
    let scale = form(&served, &cookie, ACTIONS[0]).await.send(&served, &cookie).await;
    assert_eq!(scale.status, StatusCode::SEE_OTHER, "{}", scale.text);
    let after = stored(&served).await.unwrap();
    assert_eq!(after.revision, 4);
    assert!(after.compose_json.contains(r#""replicas":3"#), "{}", after.compose_json);
    assert!(!after.compose_json.contains("jaco.restart"), "{}", after.compose_json);
    end(served).await;
}

/// R-ROLL-3, R-CLI-6: a change that was made before its revision was given up does not bring that back.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_what_was_given_up_meanwhile_is_stale() {
    let served = with_deployment().await;
    apply(&served, "web:2").await;
    let name = "shop".to_owned();
    let serving = v1::GetDeploymentRequest { name, serving: true, ..Default::default() };
    let mut query = QueryClient::new(served.local.clone());
    let read = query.get_deployment(serving.clone()).await.unwrap().into_inner();
    assert_eq!((read.revision, read.instead_of), (2, 2));
    give_up(&served, 2).await;
    let change = |read: &v1::GetDeploymentResponse| v1::ApplyRequest {
        compose_json: read.compose_json.replace("\"image\"", "\"labels\":{\"a\":\"b\"},\"image\""),
        based_on: read.instead_of,
        made_from: read.revision,
        ..Default::default()
    };
    let mut deploy = DeployClient::new(served.local.clone());
    let refused = deploy.apply(change(&read)).await.unwrap_err();
    assert!(refused.message().contains("revision 2 of shop, which does not serve"), "{refused:?}");
    assert_eq!(stored(&served).await.unwrap().revision, 2);

    let read = query.get_deployment(serving).await.unwrap().into_inner();
    assert_eq!((read.revision, read.instead_of), (1, 2));
    assert_eq!(deploy.apply(change(&read)).await.unwrap().into_inner().revision, 3);
    end(served).await;
}

/// R-OPS-1: what cannot be undone is typed: without the name nothing is deleted, and the same form with it deletes.
#[tokio::test(flavor = "multi_thread")]
async fn deletion_is_confirmed_by_its_name() {
    let served = with_deployment().await;
    let cookie = signed_in(&served, "ann", Role::Admin).await;
    let mut delete = form(&served, &cookie, "delete?deployment=shop").await;
    for typed in ["", "shop2", "Shop"] {
        delete.set("typed", typed);
        let answer = delete.send(&served, &cookie).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
        assert!(answer.text.contains("what was typed is not the name"), "{}", answer.text);
        assert!(answer.text.contains("Nothing was done"), "{}", answer.text);
        assert!(stored(&served).await.is_some());
    }
    delete.set("typed", "shop");
    let answer = delete.send(&served, &cookie).await;
    assert_eq!(answer.header("location"), "/ui?did=delete", "{}", answer.text);
    let deleted = events(&served, "delete").await;
    assert_eq!(deleted.len(), 1, "{deleted:?}");

    let mut remove = form(&served, &cookie, "remove?node=n1").await;
    remove.set("typed", "n1");
    // The only member stays, whoever asks.
    let answer = remove.send(&served, &cookie).await;
    assert!(answer.status.is_client_error(), "{} {}", answer.status, answer.text);
    end(served).await;
}

/// R-OPS-1, R-IN-3: a form that a page of another site sends does nothing, whichever credential the browser adds to it.
#[tokio::test(flavor = "multi_thread")]
async fn forms_of_other_sites_do_nothing() {
    let served = with_deployment().await;
    let secret = token(&served, "ann", Role::Admin, 0).await;
    let cookie = sign_in(&served, &secret).await.cookie();
    let form = form(&served, &cookie, ACTIONS[0]).await;
    let before = facts(&served).await;
    let bearer = format!("Bearer {secret}");
    for headers in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "https://node.internal"), ("sec-fetch-site", "cross-site")],
        &[("origin", "https://node.internal"), ("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "none")],
        &[("origin", "null")],
        &[("origin", "http://node.internal")],
        &[],
    ] {
        for credential in [("cookie", cookie.as_str()), ("authorization", bearer.as_str())] {
            let answer = form.send_with(&served, &[headers, &[credential]].concat()).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}: {}", answer.text);
        }
        // A certificate and the socket come without being asked for as well.
        for channel in [&served.member, &served.local] {
            let sent = request(Method::POST, &form.path, headers, &form.text());
            let answer = send(channel, sent).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}: {}", answer.text);
        }
    }
    assert_eq!(facts(&served).await, before);
    // With its token, who says that it is a page of this node may.
    let own = [("authorization", bearer.as_str()), ("origin", "https://node.internal")];
    assert_eq!(form.send_with(&served, &own).await.status, StatusCode::SEE_OTHER);
    assert_ne!(facts(&served).await, before);
    end(served).await;
}

/// R-OPS-1: looking changes nothing: neither the page of an action nor a form that is sent by GET, or in the address.
#[tokio::test(flavor = "multi_thread")]
async fn looking_changes_nothing() {
    let served = with_deployment().await;
    apply(&served, "web:2").await;
    let cookie = signed_in(&served, "ann", Role::Admin).await;
    let before = facts(&served).await;
    for action in ACTIONS {
        let path = format!("/ui/do/{action}");
        assert_eq!(
            get(&served.stranger, &path, "").await.status,
            StatusCode::SEE_OTHER,
            "{action}"
        );
        let page = get(&served.stranger, &path, &cookie).await;
        assert_eq!(page.status, StatusCode::OK, "{action}: {}", page.text);
        for (name, value) in headers::ALWAYS {
            assert_eq!(page.header(name), value, "{action}: {name}");
        }
        let mut form = Form::of(&page);
        form.set("typed", if action.contains("shop") { "shop" } else { "n1" });
        let by_get = format!("{}?{}", form.path, form.text());
        let own = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE] {
            send(&served.stranger, request(method, &by_get, &own, "")).await;
        }
        // What is in the address is no form.
        let answer = send(&served.stranger, request(Method::POST, &by_get, &own, "")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{action}: {}", answer.text);
        for (name, value) in headers::ALWAYS {
            assert_eq!(answer.header(name), value, "{action}: {name}");
        }
    }
    assert_eq!(facts(&served).await, before);
    end(served).await;
}

/// R-OPS-1: who may not do it by its command may not by a form: each role has what the table of roles says, of its deployments,
/// and a refusal has its code. What is not refused is what is offered.
#[tokio::test(flavor = "multi_thread")]
async fn forms_are_admitted_by_the_table_of_roles() {
    let served = with_deployment().await;
    apply(&served, "web:2").await;
    let admin = signed_in(&served, "root", Role::Admin).await;
    let mut cookies = Vec::new();
    for role in Role::ALL {
        cookies.push((role, "shop", signed_in(&served, role.as_str(), role).await));
    }
    let of_another = v1::IssueOperatorTokenRequest {
        name: "of-blog".to_owned(),
        role: "deployer".to_owned(),
        deployments: vec!["blog".to_owned()],
        ..Default::default()
    };
    let issued = ClusterClient::new(served.local.clone()).issue_operator_token(of_another).await;
    let of_blog = sign_in(&served, &issued.unwrap().into_inner().token).await.cookie();
    cookies.push((Role::Deployer, "blog", of_blog));

    for path in ACTIONS {
        let of_node = path.contains("node=");
        for (role, deployment, cookie) in &cookies {
            let mut form = form(&served, &admin, path).await;
            form.set("typed", if of_node { "n1" } else { "shop" });
            let action = Action::read(form.path.trim_start_matches("/ui/do/"), &|name| {
                form.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
            });
            let action = action.unwrap();
            let needs = Needs::of(action.rpc());
            // What is about a node beside deployments is an operator's.
            let least = match of_node && matches!(needs, Needs::Deployment { .. }) {
                true => Role::Operator,
                false => needs.least_role().unwrap(),
            };
            assert_eq!(action.role(), least, "{path}");
            let may = *role >= least && (*role != Role::Deployer || *deployment == "shop");
            let page = get(&served.stranger, &format!("/ui/do/{path}"), cookie).await;
            assert_eq!(
                page.text.contains("name=\"request_id\""),
                may,
                "{path} {role} {deployment}"
            );
            let before = facts(&served).await;
            let answer = form.send(&served, cookie).await;
            if may {
                assert!(
                    !answer.text.contains("permission_denied"),
                    "{path} {role}: {}",
                    answer.text
                );
                if facts(&served).await.starts_with("None") {
                    apply(&served, "web:1").await;
                    apply(&served, "web:2").await;
                }
            } else {
                assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path} {role}: {}", answer.text);
                assert!(answer.text.contains("<code>permission_denied</code>"), "{}", answer.text);
                assert_eq!(facts(&served).await, before, "{path} {role} {deployment}");
            }
        }
    }
    end(served).await;
}

/// R-OPS-1: a form that is sent again, by a reload or from the history, is answered as before and changes nothing, also when
/// others have changed it since.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_done_once() {
    let served = with_deployment().await;
    let cookie = signed_in(&served, "ann", Role::Admin).await;
    for path in [ACTIONS[0], ACTIONS[1], ACTIONS[4], ACTIONS[8], ACTIONS[10]] {
        let sent = form(&served, &cookie, path).await;
        let first = sent.send(&served, &cookie).await;
        assert_eq!(first.status, StatusCode::SEE_OTHER, "{path}: {}", first.text);
        let after = facts(&served).await;
        let second = sent.send(&served, &cookie).await;
        assert_eq!(second.header("location"), first.header("location"), "{path}: {}", second.text);
        assert_eq!(facts(&served).await, after, "{path}");
        // Undone by another user: it stays undone.
        if path.contains("node=") {
            let undo = form(&served, &cookie, "uncordon?node=n1").await;
            assert_eq!(undo.send(&served, &cookie).await.status, StatusCode::SEE_OTHER);
        } else {
            apply(&served, "web:7").await;
        }
        let undone = facts(&served).await;
        sent.send(&served, &cookie).await;
        assert_eq!(facts(&served).await, undone, "{path}");
    }
    end(served).await;
}

/// R-OPS-1: a page that is older than the deployment, or the node, that it shows is refused by name and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_page_is_refused() {
    let served = with_deployment().await;
    let cookie = signed_in(&served, "ann", Role::Admin).await;
    let forms =
        [form(&served, &cookie, ACTIONS[0]).await, form(&served, &cookie, ACTIONS[1]).await];
    apply(&served, "web:2").await;
    let before = facts(&served).await;
    for sent in &forms {
        let answer = sent.send(&served, &cookie).await;
        assert!(answer.status.is_client_error(), "{} {}", answer.status, answer.text);
        assert!(answer.text.contains("<code>stale_plan</code>"), "{}", answer.text);
        assert!(answer.text.contains("Nothing was done"), "{}", answer.text);
        assert!(!answer.text.contains("name=\"request_id\""), "{}", answer.text);
    }
    let mut remove = form(&served, &cookie, "remove-lost?node=n1").await;
    remove.set("typed", "n1");
    remove.set("based_on", "99");
    let answer = remove.send(&served, &cookie).await;
    assert!(answer.status.is_client_error(), "{} {}", answer.status, answer.text);
    assert_eq!(facts(&served).await, before);
    end(served).await;
}

/// R-OPS-1, R-IN-3: a form that is too large, or has not all that makes it one request, does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn malformed_forms_are_refused() {
    let served = with_deployment().await;
    let cookie = signed_in(&served, "ann", Role::Admin).await;
    let before = facts(&served).await;
    for (name, value, says) in [
        ("request_id", "", "the form has no request id"),
        ("based_on", "0", "the form does not say what its page was made from"),
        ("based_on", "x", "based_on is a number"),
        ("replicas", "", "the field replicas is missing"),
        ("replicas", "many", "replicas is &quot;many&quot;: it is a number"),
        ("deployment", "", "the field deployment is missing"),
        ("service", "web%20x", "service name"),
        ("more", &"x".repeat(5000), "the form has at most 4096 bytes"),
    ] {
        let mut sent = form(&served, &cookie, ACTIONS[0]).await;
        sent.set(name, value);
        let answer = sent.send(&served, &cookie).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}: {}", answer.text);
        assert!(answer.text.contains(says), "{name}: {}", answer.text);
    }
    let mut unknown = form(&served, &cookie, ACTIONS[0]).await;
    unknown.path = "/ui/do/reboot".to_owned();
    let answer = unknown.send(&served, &cookie).await;
    assert!(answer.text.contains("there is no action &quot;reboot&quot;"), "{}", answer.text);
    assert_eq!(facts(&served).await, before);
    end(served).await;
}

/// R-OPS-1, R-FAULT-3: a form does nothing once its session has ended or its token is revoked, and of strangers never.
#[tokio::test(flavor = "multi_thread")]
async fn forms_end_with_their_session() {
    let served = with_deployment().await;
    let revoked = signed_in(&served, "revoked", Role::Admin).await;
    let out = signed_in(&served, "out", Role::Admin).await;
    let form_of_revoked = form(&served, &revoked, ACTIONS[0]).await;
    let form_of_out = form(&served, &out, ACTIONS[0]).await;
    let before = facts(&served).await;
    let revoke = v1::RevokeTokenRequest { name: "revoked".to_owned(), ..Default::default() };
    ClusterClient::new(served.local.clone()).revoke_token(revoke).await.unwrap();
    let leave = [("cookie", out.as_str()), ("sec-fetch-site", "same-origin")];
    send(&served.stranger, request(Method::POST, "/ui/logout", &leave, "")).await;
    let answer = form_of_revoked.send(&served, &revoked).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{}", answer.text);
    assert!(answer.text.contains("token was revoked"), "{}", answer.text);
    assert!(answer.text.contains("name=\"next\" value=\"/ui\""), "{}", answer.text);
    for cookie in [out.as_str(), "__Host-jaco=00", ""] {
        let answer = form_of_out.send(&served, cookie).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{}", answer.text);
    }
    assert_eq!(facts(&served).await, before);
    end(served).await;
}

/// R-OPS-1: whoever may look may ask what if, and is told what cannot be asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_asks_what_if() {
    let served = with_deployment().await;
    let cookie = signed_in(&served, "ann", Role::Viewer).await;
    let before = facts(&served).await;
    for (asked, says) in [
        ("", "Nothing is changed."),
        ("?lose=n1", "<code>jaco whatif --lose n1</code>"),
        ("?drain=n1&scale=shop/web=2", "<code>jaco whatif --drain n1 --scale shop/web=2</code>"),
        ("?add=n2+cpu=2&add=n3", "<code>jaco whatif --add &#39;n2 cpu=2&#39; --add n3</code>"),
        ("?add=n2;n3", "survives the loss of any one node"),
        ("?scale=web", "give SERVICE=NUMBER, as in web=12 (<code>invalid_request</code>)"),
        ("?lose=n9", "(<code>node_not_found</code>)"),
    ] {
        let page = get(&served.stranger, &format!("/ui/whatif{asked}"), &cookie).await;
        assert_eq!(page.status, StatusCode::OK, "{asked}: {}", page.text);
        assert!(page.text.contains(says), "{asked}: {}", page.text);
    }
    assert_eq!(facts(&served).await, before);
    end(served).await;
}
