//! What is offered to whom, which command each action is, and what its form has.

use std::collections::BTreeSet;

use jaco_proto::v1::ClusterStatusResponse;
use jaco_types::{DeploymentName, Rights};
use jaco_ui::action::{Action, Allocation, BoundData, done};
use jaco_ui::{ActionPage, DeploymentPage, NodePage, Once, Outcome, Part, Refused};

use crate::document::Document;
use crate::planned;
use crate::samples::{self, Had};

/// One of each action, with the command that does the same.
fn every_action() -> Vec<(Action, &'static str)> {
    let (deployment, service, node) = ("shop".to_owned(), "web".to_owned(), "n1".to_owned());
    let of_service =
        || Allocation::Service { deployment: deployment.clone(), service: service.clone() };
    let names = || (deployment.clone(), service.clone());
    let scale = |replicas| {
        let (deployment, service) = names();
        Action::Scale { deployment, service, replicas }
    };
    let restart = |service| Action::Restart { deployment: deployment.clone(), service };
    let (of_run, run) = names();
    vec![
        (scale(Some(0)), "jaco scale shop/web 0"),
        (scale(None), "jaco scale shop/web N"),
        (restart(Some(service.clone())), "jaco restart shop/web"),
        (restart(None), "jaco restart shop"),
        (Action::Run { deployment: of_run, service: run }, "jaco run shop/web"),
        (Action::Disable(of_service()), "jaco disable shop/web"),
        (Action::Disable(Allocation::Node(node.clone())), "jaco disable --node n1"),
        (Action::Enable(of_service()), "jaco enable shop/web"),
        (Action::Enable(Allocation::Node(node.clone())), "jaco enable --node n1"),
        (Action::Rollback { deployment: deployment.clone(), to: 4 }, "jaco rollback shop --to 4"),
        (Action::Delete { deployment: deployment.clone() }, "jaco delete shop"),
        (Action::Cordon { node: node.clone() }, "jaco node cordon n1"),
        (Action::Uncordon { node: node.clone() }, "jaco node uncordon n1"),
        (planned::drain(BoundData::Refuses), "jaco node drain n1"),
        (planned::drain(BoundData::Stays), "jaco node drain n1 --leave-data"),
        (Action::Remove { node: node.clone() }, "jaco node rm n1"),
        (Action::RemoveLost { node }, "jaco node rm n1 --force"),
    ]
}

/// R-OPS-1: each action has its command, and is read back from its link and from its form.
#[test]
fn every_action_has_its_command_and_its_fields() {
    for (action, command) in every_action() {
        assert_eq!(action.command(), command);
        let fields = action.fields();
        let field = |name: &str| {
            fields.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
        };
        assert_eq!(Action::read(action.name(), &field), Ok(action.clone()));
        assert!(done(action.name()).is_some(), "{command}");
        assert!(action.link().to_string().starts_with("/ui/do/"), "{command}");
    }
}

/// R-OPS-1, R-IN-3: what is no name is no action, so nothing else comes into a command that is shown.
#[test]
fn names_of_links_are_checked() {
    let read = |name: &str, fields: &[(&str, &str)]| {
        Action::read(name, &|field| {
            fields.iter().find(|(key, _)| *key == field).map(|(_, value)| (*value).to_owned())
        })
    };
    for (name, fields) in [
        ("restart", &[("deployment", "shop; reboot")][..]),
        ("restart", &[("deployment", "shop"), ("service", "web $(reboot)")]),
        ("scale", &[("deployment", "shop"), ("service", "web"), ("replicas", "-1")]),
        ("scale", &[("deployment", "shop")]),
        ("drain", &[("node", "n1 --force")]),
        ("drain", &[("node", "n1"), ("data", "goes")]),
        ("rollback", &[("deployment", "shop")]),
        ("delete", &[]),
        ("reboot", &[("node", "n1")]),
        ("", &[]),
    ] {
        assert!(read(name, fields).is_err(), "{name} {fields:?}");
    }
    assert!(done("<script>").is_none());
}

fn offered(html: &str) -> BTreeSet<String> {
    let page = Document::read(html);
    let links = page.all("a").filter_map(|link| link.attribute("href"));
    let paths = links.filter_map(|link| link.strip_prefix("/ui/do/"));
    paths.map(|path| path.split('?').next().unwrap_or_default().to_owned()).collect()
}

fn pages_for(rights: Rights) -> (BTreeSet<String>, BTreeSet<String>) {
    let frame = jaco_ui::Frame { rights, ..samples::frame("x") };
    let cluster = samples::cluster("x", Had::Everything);
    let (mut status, history) = (samples::status("shop"), samples::history("shop"));
    status.replicas[0].code = "disabled".to_owned();
    let deployment = DeploymentPage {
        cluster: &cluster,
        deployment: &status.deployments[0],
        status: &status,
        history: Ok(history),
        routes: Ok(Vec::new()),
        around: None,
    };
    let node = NodePage {
        cluster: &cluster,
        name: "x",
        replicas: Ok(Vec::new()),
        facts: Ok(None),
        top: Ok(Default::default()),
        voters: Ok(Vec::new()),
    };
    (offered(&deployment.html(&frame)), offered(&node.html(&frame).expect("the cluster has it")))
}

/// R-OPS-1: a reader sees the actions that its role has, of its deployments, and no others; everybody sees what-if.
#[test]
fn actions_are_offered_to_who_may_do_them() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let of_deployment: BTreeSet<String> =
        set(&["scale", "restart", "disable", "enable", "delete", "rollback"]);
    let of_node: BTreeSet<String> = set(&["drain", "uncordon", "disable", "enable"]);
    let with_remove = of_node.iter().cloned().chain(["remove".to_owned()]).collect();
    let none = BTreeSet::new();
    let deployer = |name: &str| {
        Rights::Deployer([DeploymentName::new(name).expect("a name")].into_iter().collect())
    };
    for (rights, deployment, node) in [
        (Rights::Viewer, &none, &none),
        (deployer("blog"), &none, &none),
        (deployer("shop"), &of_deployment, &none),
        (Rights::Operator, &of_deployment, &of_node),
        (Rights::Admin, &of_deployment, &with_remove),
    ] {
        let found = pages_for(rights.clone());
        assert_eq!((&found.0, &found.1), (deployment, node), "{rights}");
    }
    let viewers = samples::node_page("x", Had::Everything);
    assert!(viewers.contains("/ui/whatif?lose=x") && viewers.contains("/ui/whatif?drain=x"));
    assert!(samples::deployment_page("x", Had::Everything).contains("/ui/whatif?scale=x%2Fx%3D3"));
}

fn page(action: &Action, rights: Rights, plan: Option<Part<jaco_proto::v1::Preview>>) -> String {
    let cluster: ClusterStatusResponse = samples::cluster("x", Had::Everything);
    let page = ActionPage {
        cluster: &cluster,
        action,
        plan: plan.map(|plan| (plan, Ok(samples::status("x")))),
        refused: None,
        once: Some(Once { request_id: "0a1b".to_owned(), based_on: 7 }),
    };
    page.html(&jaco_ui::Frame { rights, ..samples::frame("x") })
}

/// R-OPS-1: a form is sent by POST alone, is one request, says what it was made from, and asks for a name where that cannot be
/// undone.
#[test]
fn forms_are_one_request_and_confirmed() {
    for (action, command) in every_action() {
        let html = page(&action, Rights::Admin, None);
        let page = Document::read(&html);
        let to = format!("/ui/do/{}", action.name());
        let mut forms = page.all("form").filter(|it| it.attribute("action") == Some(&to));
        assert!(forms.any(|form| form.attribute("method") == Some("post")), "{command}");
        let value = |name: &str| {
            let mut inputs = page.all("input").filter(|it| it.attribute("name") == Some(name));
            inputs.next().and_then(|it| it.attribute("value")).map(str::to_owned)
        };
        assert_eq!(value("request_id").as_deref(), Some("0a1b"), "{command}");
        assert_eq!(value("based_on").as_deref(), Some("7"), "{command}");
        assert!(page.all("code").any(|code| code.text == command), "{command}");
        let typed = page.all("input").any(|it| it.attribute("name") == Some("typed"));
        let is_final = matches!(action.name(), "delete" | "remove" | "remove-lost");
        assert_eq!(typed, is_final, "{command}");
    }
}

/// R-OPS-1: who may not do it sees what it would do and what it takes, and no form.
#[test]
fn who_may_not_sees_no_form() {
    for (action, command) in every_action() {
        let html = page(&action, Rights::Viewer, None);
        assert!(!html.contains("action=\"/ui/do/") || action.name() == "scale", "{command}");
        assert!(!html.contains("request_id"), "{command}");
        assert!(html.contains("This needs role "), "{command}");
    }
}

/// R-OPS-1: a node that cannot be emptied is not drained by mistake: the page says why, and what can be done instead.
#[test]
fn a_drain_that_cannot_end_is_not_offered() {
    let plan = || Some(Ok(planned::preview("x")));
    let refuses = page(&planned::drain(BoundData::Refuses), Rights::Admin, plan());
    assert!(refuses.contains("It cannot be emptied") && !refuses.contains("request_id"));
    assert!(refuses.contains("/ui/do/drain?node=n1&amp;data=stays"), "{refuses}");
    assert!(refuses.contains("/ui/do/disable?node=n1"), "{refuses}");
    let stays = page(&planned::drain(BoundData::Stays), Rights::Admin, plan());
    assert!(stays.contains("request_id") && !stays.contains("It cannot be emptied"));
}

/// R-OPS-1: a plan is a map of before and after, with what moves and what has no place.
#[test]
fn plans_are_maps() {
    let html = page(&planned::scale(), Rights::Admin, Some(Ok(planned::preview("x"))));
    let page = Document::read(&html);
    let rows: Vec<&str> = page.all("tr").map(|row| row.text.as_str()).collect();
    // Six replicas on x: one moves, one stops, one is added; and one more has no place.
    for expected in
        ["x6 → 5", "other0 → 1", "not placed0 → 1", "x-runningmovex → otherx; stop first"]
    {
        assert!(rows.contains(&expected), "{expected}: {rows:?}");
    }
    let facts = page.one("main").text.as_str();
    assert!(facts.contains("1 replica of x/x could not be placed"), "{facts}");
    assert!(facts.contains("survives the loss of any one x: no: x"), "{facts}");
}

/// R-OPS-1: what may have been done can be asked for once more, by the same request; what was refused begins anew.
#[test]
fn a_refusal_says_whether_something_was_done() {
    let cluster = samples::cluster("x", Had::Everything);
    let action = planned::scale();
    let html = |outcome, once| {
        let refused = Refused { code: "no_leader".to_owned(), message: "there is none".to_owned() };
        let refused = Some((refused, outcome));
        let page = ActionPage { cluster: &cluster, action: &action, plan: None, refused, once };
        page.html(&samples::frame("x"))
    };
    let once = Once { request_id: "0a1b".to_owned(), based_on: 7 };
    let unknown = html(Outcome::Unknown, Some(once));
    assert!(unknown.contains("It may have been done") && unknown.contains("value=\"0a1b\""));
    let nothing = html(Outcome::Nothing, None);
    assert!(nothing.contains("Nothing was done") && !nothing.contains("request_id"));
    for html in [unknown, nothing] {
        assert!(html.contains("there is none (<code>no_leader</code>)"), "{html}");
        assert!(
            html.contains("href=\"/ui/do/scale?deployment=shop&amp;service=web&amp;replicas=3\"")
        );
    }
}
