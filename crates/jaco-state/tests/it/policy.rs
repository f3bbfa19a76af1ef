//! What deployments may reach of the nodes: granted, refused, taken back, and bounded (R-IN-6).

use std::collections::BTreeSet;

use jaco_state::command::{
    DeploymentApply, DeploymentRollback, NamedContentPut, PolicyAllow, PolicyRevoke, PolicySet,
};
use jaco_state::contents::{ContentUsers, Form, Piece, PieceBytes};
use jaco_state::policy::{GRANTS_MAX, GRANTS_PER_DEPLOYMENT_MAX, PolicyMode};
use jaco_state::token::OperatorToken;
use jaco_state::{Command, Entry, Outcome};
use jaco_types::spec::{DeploymentSpec, Reach, ReachKind, ServiceSpec};
use jaco_types::{
    ContentId, ContentName, ErrorCode, Identity, NamedKey, NamedKind, Revision, Rights,
    ServiceName, TokenId,
};

use crate::history::{History, deployment, service, spec};

fn reaches(texts: &[&str]) -> BTreeSet<Reach> {
    texts.iter().map(|text| Reach::parse(text).unwrap()).collect()
}

fn allow(texts: &[&str]) -> Command {
    PolicyAllow::new(deployment("shop"), reaches(texts)).into()
}

fn revoke(texts: &[&str]) -> Command {
    PolicyRevoke::new(deployment("shop"), reaches(texts)).into()
}

fn apply(db: ServiceSpec, texts: &[&str]) -> Command {
    let all = [(ServiceName::new("db").unwrap(), reaches(texts))];
    let spec = spec(&[db, service("web", "web:1")]);
    DeploymentApply::new(deployment("shop"), spec).reaches(all.into()).into()
}

fn db(image: &str, container: &str) -> ServiceSpec {
    ServiceSpec { container: container.into(), ..service("db", image) }
}

fn refusing() -> History {
    let mut history = History::founded();
    assert_eq!(history.apply(PolicySet::new(PolicyMode::Refuse).into()), Outcome::Done);
    assert_eq!(history.last_event(), "policy_set from=warn to=refuse");
    history
}

fn message(outcome: &Outcome) -> &str {
    let Outcome::Rejected(rejection) = outcome else { panic!("not refused: {outcome:?}") };
    assert_eq!(rejection.code, ErrorCode::PolicyRefused);
    &rejection.message
}

/// R-IN-6: a service is refused by name, with all that it reaches for and the command that grants it, wherever the
/// entry was admitted: the check is where entries are applied.
#[test]
fn what_is_not_granted_is_refused_with_the_command_that_grants_it() {
    let mut history = refusing();
    let wanted = ["host-path=/srv/media", "device=c 1:3 rwm", "privileged"];
    let refused = history.apply(apply(db("db:1", "{}"), &wanted));
    assert_eq!(
        message(&refused),
        "service db reaches the node it runs on by privileged, host-path=/srv/media, device=c 1:3 rwm, which is not \
         granted to shop; to grant it: jaco policy allow shop privileged host-path=/srv/media 'device=c 1:3 rwm'"
    );
    assert!(history.state.deployments.is_empty());
    history.apply(allow(&["privileged", "host-path=/srv"]));
    assert_eq!(
        history.last_event(),
        "policy_granted deployment=shop reaches=privileged, host-path=/srv"
    );
    let refused = history.apply(apply(db("db:1", "{}"), &wanted));
    assert!(message(&refused).ends_with("jaco policy allow shop 'device=c 1:3 rwm'"));
    history.apply(allow(&["device=c 1:3 rwm"]));
    assert!(matches!(history.apply(apply(db("db:1", "{}"), &wanted)), Outcome::Deployed { .. }));
}

/// R-IN-6: in a cluster that was never asked to refuse, everything is admitted.
#[test]
fn without_a_policy_nothing_is_refused() {
    let mut history = History::founded();
    assert!(matches!(
        history.apply(apply(db("db:1", "{}"), &["privileged"])),
        Outcome::Deployed { .. }
    ));
}

/// R-IN-6: a service that is as it was can be scaled and restarted without a grant; its next change is refused, and so is
/// a rollback to what it was before.
#[test]
fn what_is_as_it_was_goes_on() {
    let mut history = History::founded();
    let text = r#"{"service":{"image":"db:1","pid":"host"}}"#;
    let labelled = |rest: &str| format!(r#"{{"service":{{"image":"db:1",{rest}"pid":"host"}}}}"#);
    let wanted = ["host-namespace=pid"];
    history.apply(apply(db("db:1", "{}"), &wanted));
    history.apply(apply(db("db:1", text), &wanted));
    history.apply(PolicySet::new(PolicyMode::Refuse).into());
    let scaled = ServiceSpec { replicas: 3, ..db("db:1", text) };
    let first = labelled(r#""labels":{"jaco.restart":"1"},"#);
    let second = labelled(r#""labels":{"jaco.restart":"12"},"#);
    for (number, kept) in [scaled, db("db:1", &first), db("db:1", &second)].into_iter().enumerate()
    {
        let outcome = history.apply(apply(kept, &wanted));
        assert!(matches!(outcome, Outcome::Deployed { .. }), "{number}: {outcome:?}");
    }
    let labels = labelled(r#""labels":{"jaco.restart":"12","team":"a"},"#);
    for changed in [db("db:2", &second), db("db:1", &labels)] {
        assert_eq!(history.refused(apply(changed, &wanted)), ErrorCode::PolicyRefused);
    }
    let back = DeploymentRollback::new(deployment("shop")).to(Some(Revision(1)));
    let all = [(ServiceName::new("db").unwrap(), reaches(&wanted))];
    let back: Command = back.reaches(all.into()).into();
    assert_eq!(history.refused(back.clone()), ErrorCode::PolicyRefused);
    history.apply(allow(&wanted));
    assert!(matches!(history.apply(back), Outcome::Deployed { .. }));
}

/// R-IN-6: a revoked grant leaves nothing, and is not there for the next change.
#[test]
fn grants_are_revoked() {
    let mut history = refusing();
    history.apply(allow(&["host-path=/srv", "runtime=kata"]));
    let known = history.state.audit.events.len();
    history.apply(allow(&["runtime=kata"]));
    history.apply(revoke(&["host-path=/srv/media"]));
    assert_eq!(history.state.audit.events.len(), known, "nothing changed");
    history.apply(revoke(&["host-path=/srv"]));
    assert_eq!(history.last_event(), "policy_revoked deployment=shop reaches=host-path=/srv");
    assert_eq!(
        history.refused(apply(db("db:1", "{}"), &["host-path=/srv"])),
        ErrorCode::PolicyRefused
    );
    history.apply(revoke(&["runtime=kata"]));
    assert!(history.state.policy.grants.is_empty());
}

/// ST-17: grants are bounded, for each deployment and in all; what covers nothing is none.
#[test]
fn grants_are_bounded() {
    let mut history = refusing();
    let many = |name: &str, count: usize| -> Command {
        let all = (0..count).map(|number| Reach::new(ReachKind::Runtime, format!("r{number}")));
        PolicyAllow::new(deployment(name), all.collect()).into()
    };
    assert_eq!(history.refused(many("shop", GRANTS_PER_DEPLOYMENT_MAX + 1)), ErrorCode::TooLarge);
    let full = GRANTS_MAX / GRANTS_PER_DEPLOYMENT_MAX;
    for number in 0..full {
        history.apply(many(&format!("d{number}"), GRANTS_PER_DEPLOYMENT_MAX));
    }
    let left = GRANTS_MAX - full * GRANTS_PER_DEPLOYMENT_MAX;
    assert_eq!(history.refused(many("shop", left + 1)), ErrorCode::TooLarge);
    assert_eq!(history.apply(many("shop", left)), Outcome::Done);
    let unfit = [Reach::new(ReachKind::HostPath, "/srv/../etc")].into();
    let unfit = PolicyAllow::new(deployment("shop"), unfit).into();
    assert_eq!(history.refused(unfit), ErrorCode::InvalidRequest);
}

/// R-IN-6: a token for some deployments needs a grant where the policy only warns; one for all of them does not.
#[test]
fn a_deployer_needs_a_grant_whatever_the_policy_is() {
    let mut history = History::founded();
    let id = TokenId::new("ci").unwrap();
    let ask = |history: &mut History, command| {
        let by = Identity::Operator { token: id.clone() };
        let entry = Entry { by, ..history.entry(None, command) };
        jaco_state::apply(&mut history.state, &entry)
    };
    let rights = |history: &mut History, rights| {
        let bootstrap = history.state.operator_tokens.values().next().unwrap().clone();
        history.state.operator_tokens.insert(
            id.clone(),
            OperatorToken { id: id.clone(), rights: Some(rights), ..bootstrap },
        );
    };
    rights(&mut history, Rights::Deployer([deployment("shop")].into()));
    let wanted = || apply(db("db:1", "{}"), &["host-path=/srv/media"]);
    message(&ask(&mut history, wanted()));
    assert_eq!(history.apply(allow(&["host-path=/srv"])), Outcome::Done);
    assert!(matches!(ask(&mut history, wanted()), Outcome::Deployed { .. }));
    rights(&mut history, Rights::Operator);
    let more = apply(db("db:2", "{}"), &["privileged"]);
    assert!(matches!(ask(&mut history, more), Outcome::Deployed { .. }));
    rights(&mut history, Rights::Deployer([deployment("shop")].into()));
    let plain = apply(db("db:3", "{}"), &[]);
    assert!(matches!(ask(&mut history, plain), Outcome::Deployed { .. }));
    let back = DeploymentRollback::new(deployment("shop")).to(Some(Revision(2)));
    let restored = [(ServiceName::new("db").unwrap(), reaches(&["privileged"]))];
    message(&ask(&mut history, back.reaches(restored.into()).into()));
}

/// Stores the secret `db`, made of a piece, for these deployments.
fn secret(number: u8, users: Option<ContentUsers>) -> Command {
    let id = ContentId([number; 32]);
    let piece = Piece { id, form: Form::Sealed, bytes: PieceBytes([number; 8].into()) };
    let put = NamedContentPut::new(db_key(), id, vec![piece], 8);
    NamedContentPut { users, ..put }.into()
}

fn db_key() -> NamedKey {
    NamedKey { kind: NamedKind::Secret, name: ContentName::new("db").unwrap() }
}

fn listed(names: &[&str]) -> ContentUsers {
    ContentUsers::Listed(names.iter().map(|name| deployment(name)).collect())
}

/// An apply of a deployment that uses the secret `db`.
fn uses_secret(name: &str, image: &str) -> Command {
    let spec = DeploymentSpec { named: [db_key()].into(), ..spec(&[service("web", image)]) };
    DeploymentApply::new(deployment(name), spec).into()
}

/// R-IN-5, R-CLI-7: a deployer has a secret for a deployment that it lists only; others too where the policy refuses. What
/// has it keeps it.
#[test]
fn a_secret_is_for_the_deployments_that_it_lists() {
    let mut history = History::founded();
    let id = TokenId::new("ci").unwrap();
    let both = Rights::Deployer([deployment("shop"), deployment("blog")].into());
    let bootstrap = history.state.operator_tokens.values().next().unwrap().clone();
    let token = OperatorToken { id: id.clone(), rights: Some(both), ..bootstrap };
    history.state.operator_tokens.insert(id.clone(), token);
    let ask = |history: &mut History, command| {
        let by = Identity::Operator { token: id.clone() };
        let entry = Entry { by, ..history.entry(None, command) };
        jaco_state::apply(&mut history.state, &entry)
    };
    history.apply(secret(1, Some(listed(&["shop"]))));
    assert_eq!(
        history.last_event(),
        "content_stored deployments=shop kind=secret name=db version=1"
    );
    let refused = ask(&mut history, uses_secret("blog", "web:1"));
    let said = message(&refused);
    assert!(said.contains("is not for blog; to allow it: jaco secret allow db blog"), "{said}");
    assert!(matches!(ask(&mut history, uses_secret("shop", "web:1")), Outcome::Deployed { .. }));
    let by_others = history.apply(uses_secret("wiki", "web:1"));
    assert!(
        matches!(by_others, Outcome::Deployed { .. }),
        "an operator, and the policy only warns"
    );

    // A new version is for the same ones; the list is changed without one.
    history.apply(secret(2, None));
    assert_eq!(history.state.named.get(&db_key()).unwrap().users, listed(&["shop"]));
    let change = NamedContentPut::new(db_key(), ContentId([2; 32]), Vec::new(), 8);
    history.apply(change.for_users(listed(&["blog"])).into());
    let named = history.state.named.get(&db_key()).unwrap();
    assert_eq!((named.version, &named.users), (2, &listed(&["blog"])));
    assert!(matches!(ask(&mut history, uses_secret("blog", "web:1")), Outcome::Deployed { .. }));
    let kept = ask(&mut history, uses_secret("shop", "web:2"));
    assert!(matches!(kept, Outcome::Deployed { .. }), "it has the secret already");

    history.apply(PolicySet::new(PolicyMode::Refuse).into());
    assert_eq!(history.refused(uses_secret("docs", "web:1")), ErrorCode::PolicyRefused);
}

/// ST-3: what is stored without a list, as by earlier versions, is for all deployments.
#[test]
fn a_secret_without_a_list_is_for_all() {
    let mut history = History::founded();
    history.apply(secret(1, None));
    assert_eq!(history.last_event(), "content_stored kind=secret name=db version=1");
    history.apply(PolicySet::new(PolicyMode::Refuse).into());
    let applied = history.apply(uses_secret("docs", "web:1"));
    assert!(matches!(applied, Outcome::Deployed { .. }));
}
