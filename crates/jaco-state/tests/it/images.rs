//! Images that users push: named once they are held, pinned to revisions, dropped when nothing uses them (R-OPS-1).

use jaco_state::command::{
    DeploymentDelete, ImagePush, ImageRemove, ImageTagSet, ImagesHeld, InUse, NodeReport,
    NodeSetAvailability,
};
use jaco_state::images::{COPIES_MAX, IMAGES_MAX, ImageBlob, LAYERS_MAX};
use jaco_state::invariants::violations;
use jaco_state::view::images::{keepers, pushed};
use jaco_state::{Change, Command, Outcome};
use jaco_types::spec::PullPolicy;
use jaco_types::{
    Availability, BlobDigest, ErrorCode, ImageTag, Millis, NodeFacts, NodeId, NodeStatus, Revision,
};

use crate::history::{History, create, deploy, deployment, key, service};

pub(crate) fn id(number: u8) -> BlobDigest {
    BlobDigest([number; 32])
}

pub(crate) fn name(text: &str) -> ImageTag {
    ImageTag::parse(text).unwrap()
}

pub(crate) fn push(number: u8) -> ImagePush {
    let layers = [1, number].map(|layer| ImageBlob { digest: id(100 + layer), bytes: 50 });
    ImagePush::new(id(number), 10, layers.into())
}

pub(crate) fn held(node: NodeId, numbers: &[u8]) -> Command {
    ImagesHeld::new(node, numbers.iter().copied().map(id).collect()).into()
}

pub(crate) fn tag(text: &str, number: u8) -> Command {
    ImageTagSet::new(name(text), id(number)).into()
}

/// Pushes, on the one node that there is.
fn pushed_image(history: &mut History, text: &str, number: u8) {
    assert_eq!(history.apply(push(number).into()), Outcome::Done);
    let all: Vec<u8> = history.state.images.rows.keys().map(|id| id.0[0]).collect();
    assert_eq!(history.apply(held(NodeId::FIRST, &all)), Outcome::Done);
    assert_eq!(history.apply(tag(text, number)), Outcome::Done);
}

fn digest_at(history: &History, revision: u64) -> Option<String> {
    let web = key("shop", "web");
    history.state.image_digest(&web, Revision(revision)).map(ToString::to_string)
}

/// R-OPS-1: a name leads to an image only once as many nodes hold it as are to keep it; then it is audited.
#[test]
fn a_name_waits_for_the_copies() {
    let mut history = History::founded();
    let second = history.join("n2");
    for node in [NodeId::FIRST, second] {
        history.batch(vec![Change::NodeStatusSet {
            node,
            status: NodeStatus::Ready,
            reason: String::new(),
        }]);
    }
    assert_eq!(history.refused(tag("app:1", 7)), ErrorCode::ImageNotFound);
    assert_eq!(history.apply(push(7).into()), Outcome::Done);
    assert_eq!(history.refused(tag("app:1", 7)), ErrorCode::ImageNotHeld);
    history.apply(held(second, &[7]));
    assert_eq!(history.refused(tag("app:1", 7)), ErrorCode::ImageNotHeld);
    history.apply(held(NodeId::FIRST, &[7, 9]));
    assert_eq!(history.apply(tag("app:1", 7)), Outcome::Done);
    assert_eq!(history.last_event(), format!("image_push bytes=110 id={} image=app:1", id(7)));
    assert!(pushed(&history.state, "docker.io/library/app:1").is_some());
    assert!(pushed(&history.state, &format!("other@{}", id(7))).is_some(), "by its id");
    assert!(pushed(&history.state, "app:2").is_none());
    assert_eq!(violations(&history.state), vec![]);
}

/// R-OPS-1: those who have a copy keep it; one that is drained is replaced by another.
#[test]
fn copies_stay_where_they_are() {
    let mut history = History::founded();
    let nodes = [NodeId::FIRST, history.join("n2"), history.join("n3")];
    let ready = nodes.map(|node| Change::NodeStatusSet {
        node,
        status: NodeStatus::Ready,
        reason: String::new(),
    });
    history.batch(ready.to_vec());
    history.apply(push(7).into());
    let keep = |history: &History| {
        let row = history.state.images.rows.get(&id(7)).unwrap();
        keepers(&history.state, id(7), row)
    };
    let planned = keep(&history);
    assert_eq!(planned.len(), 2);
    let other = *nodes.iter().find(|node| !planned.contains(node)).unwrap();
    history.apply(held(other, &[7]));
    assert_eq!(keep(&history), [other, planned[0]], "who has one goes first");
    history.apply(held(planned[0], &[7]));
    history.apply(NodeSetAvailability::new(other, Availability::Draining).into());
    assert_eq!(keep(&history), planned);
    history.apply(NodeReport::new(other, "new:1".into(), NodeFacts::default()).into());
    assert_eq!(violations(&history.state), vec![]);
}

/// R-OPS-1: the node that took a push keeps the first copy, also before it has said that it holds the image: otherwise others
/// would copy what is to be on one node only.
#[test]
fn who_took_a_push_keeps_it() {
    let mut history = History::founded();
    let nodes = [NodeId::FIRST, history.join("n2"), history.join("n3")];
    let ready = nodes.map(|node| Change::NodeStatusSet {
        node,
        status: NodeStatus::Ready,
        reason: String::new(),
    });
    history.batch(ready.to_vec());
    for number in 0..9 {
        for taken_by in nodes {
            history.apply(push(number).copies(1).taken_by(Some(taken_by)).into());
            let row = history.state.images.rows.get(&id(number)).unwrap();
            assert_eq!(keepers(&history.state, id(number), row), [taken_by]);
        }
    }
    history.apply(NodeSetAvailability::new(nodes[2], Availability::Draining).into());
    let row = history.state.images.rows.get(&id(8)).unwrap();
    assert_eq!(keepers(&history.state, id(8), row).len(), 1);
    assert_ne!(keepers(&history.state, id(8), row), [nodes[2]], "it is being drained");
}

/// R-OPS-1, R-ROLL-5: a revision is pinned to what the name leads to when it is applied; a later push changes nothing of it.
#[test]
fn a_revision_is_pinned_when_it_is_applied() {
    let mut history = History::founded();
    pushed_image(&mut history, "web:1", 7);
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let seven = format!("web@{}", id(7));
    assert_eq!(digest_at(&history, 1).as_deref(), Some(&*seven));
    history.batch(vec![create(&key("shop", "web"), 0, NodeId::FIRST)]);
    pushed_image(&mut history, "web:1", 8);
    let mut more = service("web", "web:1");
    more.replicas = 3;
    history.apply(deploy("shop", &[more]));
    assert_eq!(digest_at(&history, 2).as_deref(), Some(&*seven), "a count moves no image");
    pushed_image(&mut history, "web:2", 9);
    history.apply(deploy("shop", &[service("web", "web:2")]));
    assert_eq!(digest_at(&history, 3), Some(format!("web@{}", id(9))));
    let mut own = service("web", "web:2");
    own.pull = PullPolicy::Never;
    history.apply(deploy("blog", &[own]));
    assert!(history.state.image_digest(&key("blog", "web"), Revision(1)).is_none());
    assert_eq!(violations(&history.state), vec![]);
}

/// R-OPS-1: an image goes once no kept revision has run it for long enough, and not before.
#[test]
fn unused_images_expire() {
    let mut history = History::founded();
    let keep = Millis(1000);
    history.apply(push(7).keep_unused(keep).into());
    history.apply(push(8).keep_unused(keep).into());
    history.apply(held(NodeId::FIRST, &[7, 8]));
    history.apply(tag("web:1", 7));
    history.apply(tag("web:2", 8));
    history.apply(deploy("shop", &[service("web", "web:1")]));
    history.now = history.now.after(keep);
    history.apply(push(9).into());
    assert_eq!(history.state.images.rows.keys().collect::<Vec<_>>(), [&id(7), &id(9)]);
    assert_eq!(history.state.images.names.keys().collect::<Vec<_>>(), [&name("web:1")]);
    assert_eq!(history.last_event(), format!("images_expired count=1 ids={}", id(8)));
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    assert!(history.state.images.rows.contains(&id(7)), "its time begins now");
    let by_id = format!("web@{}", id(7));
    history.apply(deploy("shop", &[service("web", &by_id)]));
    history.now = history.now.after(keep);
    history.apply(push(9).into());
    assert!(history.state.images.rows.contains(&id(7)), "a service names it by its id");
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    history.now = history.now.after(keep);
    history.apply(push(9).into());
    assert_eq!(history.state.images.rows.keys().collect::<Vec<_>>(), [&id(9)]);
    assert!(history.state.images.held.is_empty());
    assert_eq!(violations(&history.state), vec![]);
}

/// R-OPS-1: a name in use is removed only where that is asked for, and what a kept revision runs stays.
#[test]
fn what_is_used_is_not_removed_by_mistake() {
    let mut history = History::founded();
    pushed_image(&mut history, "web:1", 7);
    pushed_image(&mut history, "web:2", 8);
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let remove = |text, in_use| Command::from(ImageRemove::new(name(text), in_use));
    assert_eq!(history.refused(remove("web:3", InUse::Refuse)), ErrorCode::ImageNotFound);
    assert_eq!(history.refused(remove("web:1", InUse::Refuse)), ErrorCode::ImageInUse);
    assert!(history.last_event().contains("shop/web"), "{}", history.last_event());
    assert_eq!(history.apply(remove("web:1", InUse::Remove)), Outcome::Done);
    assert!(history.state.images.rows.contains(&id(7)), "a revision runs it");
    assert_eq!(history.apply(remove("web:2", InUse::Refuse)), Outcome::Done);
    assert!(!history.state.images.rows.contains(&id(8)));
    assert_eq!(violations(&history.state), vec![]);
}

/// ST-30: there are bounds, and what is beyond them is refused by name and changes nothing.
#[test]
fn pushed_images_are_bounded() {
    let mut history = History::founded();
    let blob = ImageBlob { digest: id(1), bytes: 1 };
    let wide = ImagePush::new(id(1), 10, vec![blob; LAYERS_MAX + 1].into());
    assert_eq!(history.refused(wide.into()), ErrorCode::TooLarge);
    let config = ImagePush::new(id(1), (1 << 20) + 1, vec![blob].into());
    assert_eq!(history.refused(config.into()), ErrorCode::TooLarge);
    assert_eq!(history.refused(push(1).copies(COPIES_MAX + 1).into()), ErrorCode::InvalidRequest);
    assert_eq!(history.refused(push(1).copies(0).into()), ErrorCode::InvalidRequest);
    assert!(history.state.images.rows.is_empty());
    for number in 0..IMAGES_MAX {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let push = ImagePush::new(BlobDigest(id), 10, vec![blob].into());
        assert_eq!(history.apply(push.into()), Outcome::Done);
    }
    assert_eq!(history.refused(push(150).into()), ErrorCode::TooLarge);
    assert!(history.last_event().contains("jaco image rm"), "{}", history.last_event());
    assert_eq!(history.apply(held(NodeId(99), &[1])), history.apply(held(NodeId(99), &[])));
    assert_eq!(violations(&history.state), vec![]);
}
