//! Contents of files: staged, kept for as long as a revision needs them, and dropped.

use std::collections::BTreeSet;

use jaco_state::command::{
    ContentPut, DeploymentApply, DeploymentDelete, NamedContentPut, NamedContentRemove,
};
use jaco_state::contents::{
    CONTENTS_BYTES_MAX, ContentTerms, Expiry, Form, Hold, PIECE_BYTES_MAX, Piece, PieceBytes,
    STAGED_BYTES_MAX, STAGED_LIFE,
};
use jaco_state::invariants::violations;
use jaco_state::{Command, Outcome};
use jaco_types::spec::DeploymentSpec;
use jaco_types::{ContentId, ContentName, ErrorCode, Millis, NamedKey, NamedKind, Timestamp};
use proptest::prelude::*;

use crate::history::{History, deployment, service, spec};

fn id(number: u32) -> ContentId {
    let mut id = [0; 32];
    id[..4].copy_from_slice(&number.to_be_bytes());
    ContentId(id)
}

fn piece(number: u32, size: usize) -> Piece {
    Piece { id: id(number), form: Form::Plain, bytes: PieceBytes(vec![7; size].into()) }
}

fn put(numbers: &[u32]) -> Command {
    ContentPut::new(numbers.iter().map(|number| piece(*number, 10)).collect()).into()
}

/// A deployment whose image says which revision it is.
fn deploy(name: &str, image: &str, numbers: &[u32]) -> Command {
    let contents = numbers.iter().copied().map(id).collect();
    let spec = DeploymentSpec { contents, ..spec(&[service("web", image)]) };
    DeploymentApply::new(deployment(name), spec).into()
}

fn held(history: &History) -> BTreeSet<(u32, bool)> {
    let rows = history.state.contents.iter();
    rows.map(|(id, row)| {
        let number = u32::from_be_bytes([id.0[0], id.0[1], id.0[2], id.0[3]]);
        (number, row.hold == Hold::Kept)
    })
    .collect()
}

/// ST-12, R-IN-4: staged until something refers to it, and kept then.
#[test]
fn what_an_apply_refers_to_is_kept() {
    let mut history = History::founded();
    assert_eq!(history.apply(put(&[1, 2])), Outcome::Done);
    assert_eq!(held(&history), [(1, false), (2, false)].into());
    history.apply(deploy("shop", "web:1", &[1]));
    assert_eq!(held(&history), [(1, true), (2, false)].into());
    assert_eq!(violations(&history.state), vec![]);
}

/// ST-12, R-IN-4: an apply whose files did not arrive is refused by name, and changes nothing.
#[test]
fn what_was_not_sent_is_refused() {
    let mut history = History::founded();
    history.apply(put(&[1]));
    assert_eq!(history.refused(deploy("shop", "web:1", &[1, 2])), ErrorCode::ContentMissing);
    assert!(history.last_event().contains(&id(2).to_string()), "{}", history.last_event());
    assert!(history.state.deployments.is_empty());
    assert_eq!(held(&history), [(1, false)].into());
}

/// ST-12: what two deployments share goes with the second; what a kept revision needs, stays.
#[test]
fn a_piece_goes_with_the_last_revision_that_needs_it() {
    let mut history = History::founded();
    history.apply(put(&[1, 2, 3]));
    history.apply(deploy("shop", "web:1", &[1, 2]));
    history.apply(deploy("blog", "web:1", &[2, 3]));
    history.apply(deploy("shop", "web:2", &[]));
    assert_eq!(held(&history), [(1, true), (2, true), (3, true)].into(), "for a rollback");
    for image in 3..=12 {
        history.apply(deploy("shop", &format!("web:{image}"), &[]));
    }
    assert_eq!(held(&history), [(2, true), (3, true)].into(), "revision 1 is forgotten");
    history.apply(DeploymentDelete::new(deployment("blog")).into());
    assert_eq!(held(&history), BTreeSet::new());
}

/// ST-12: what nobody refers to goes within the hour, by the time of the log.
#[test]
fn what_nobody_refers_to_goes() {
    let mut history = History::founded();
    history.apply(put(&[1]));
    history.now = history.now.after(Millis(STAGED_LIFE.0 - 1));
    history.apply(put(&[2]));
    assert_eq!(held(&history), [(1, false), (2, false)].into());
    history.now = history.now.after(Millis(1));
    history.apply(put(&[3]));
    assert_eq!(held(&history), [(2, false), (3, false)].into());
    // Put again, it waits anew.
    history.now = history.now.after(Millis(STAGED_LIFE.0 - 2));
    history.apply(put(&[2]));
    history.now = history.now.after(Millis(2));
    history.apply(put(&[4]));
    assert_eq!(held(&history), [(2, false), (4, false)].into());
}

/// ST-12: the oldest of what is staged makes room; what is kept never does.
#[test]
fn bounds_hold() {
    let mut history = History::founded();
    let large = ContentPut::new(vec![piece(0, PIECE_BYTES_MAX + 1)]).into();
    assert_eq!(history.refused(large), ErrorCode::TooLarge);
    // One allocation for all of them.
    let bytes = piece(0, PIECE_BYTES_MAX).bytes;
    let mebibyte = |number| {
        let piece = Piece { id: id(number), form: Form::Plain, bytes: bytes.clone() };
        ContentPut::new(vec![piece]).into()
    };
    let staged_max = u32::try_from(STAGED_BYTES_MAX >> 20).unwrap();
    for number in 0..=staged_max {
        history.now = history.now.after(Millis(1));
        assert_eq!(history.apply(mebibyte(number)), Outcome::Done);
        assert_eq!(violations(&history.state), vec![]);
    }
    assert!(!history.state.contents.contains(&id(0)), "the oldest went");
    assert!(history.state.contents.contains(&id(staged_max)));

    // Filled up with what is kept, nothing more is taken.
    let mut history = History::founded();
    let all = u32::try_from(CONTENTS_BYTES_MAX >> 20).unwrap() - 1;
    let numbers: Vec<u32> = (0..all).collect();
    for part in numbers.chunks(32) {
        for number in part {
            assert_eq!(history.apply(mebibyte(*number)), Outcome::Done);
        }
        let kept: Vec<u32> = (0..=*part.last().unwrap()).collect();
        history.apply(deploy("shop", &format!("web:{}", kept.len()), &kept));
    }
    let before = held(&history);
    assert_eq!(history.refused(mebibyte(all)), ErrorCode::TooLarge);
    assert_eq!(held(&history), before);
    assert_eq!(violations(&history.state), vec![]);
}

/// One step of a history.
#[derive(Debug, Clone)]
enum Step {
    Put(Vec<u32>),
    Deploy(bool, u8, Vec<u32>),
    Delete(bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let numbers = || proptest::collection::vec(0..6u32, 0..4);
    prop_oneof![
        numbers().prop_map(Step::Put),
        (any::<bool>(), 0..30u8, numbers()).prop_map(|(d, image, n)| Step::Deploy(d, image, n)),
        any::<bool>().prop_map(Step::Delete),
        (0..STAGED_LIFE.0).prop_map(Step::Wait),
    ]
}

proptest! {
    /// ST-12: after every entry, a piece is kept exactly if a kept revision refers to it.
    #[test]
    fn every_history_keeps_what_is_needed(steps in proptest::collection::vec(step(), 0..60)) {
        let mut history = History::founded();
        for step in steps {
            let name = |shop: bool| if shop { "shop" } else { "blog" };
            match step {
                Step::Put(numbers) => drop(history.apply(put(&numbers))),
                Step::Deploy(shop, image, numbers) => {
                    drop(history.apply(deploy(name(shop), &format!("web:{image}"), &numbers)));
                }
                Step::Delete(shop) => {
                    let name = deployment(name(shop));
                    drop(history.apply(DeploymentDelete::new(name).into()));
                }
                Step::Wait(millis) => history.now = history.now.after(Millis(millis)),
            }
            prop_assert_eq!(violations(&history.state), vec![]);
        }
    }
}

pub(crate) fn db() -> NamedKey {
    NamedKey { kind: NamedKind::Secret, name: ContentName::new("db").unwrap() }
}

/// A content of the secret `db`, made of these.
pub(crate) fn named(numbers: &[u32]) -> Command {
    let pieces = numbers.iter().map(|number| piece(*number, 10)).collect();
    NamedContentPut::new(db(), id(numbers[0]), pieces, 10).into()
}

/// A deployment that takes `db` from the cluster.
fn user(name: &str, numbers: &[u32]) -> Command {
    let contents = numbers.iter().copied().map(id).collect();
    let image = format!("web:{numbers:?}");
    let spec = DeploymentSpec { contents, named: [db()].into(), ..spec(&[service("web", &image)]) };
    DeploymentApply::new(deployment(name), spec).into()
}

/// ST-12, R-IN-5: what has a name stays without a deployment; what it was before stays as long as a
/// revision needs it.
#[test]
fn a_named_content_is_kept_and_counted() {
    let mut history = History::founded();
    assert_eq!(history.apply(named(&[1, 2])), Outcome::Done);
    assert_eq!(history.last_event(), "content_stored kind=secret name=db version=1");
    history.now = history.now.after(Millis(2 * STAGED_LIFE.0));
    assert_eq!(history.apply(named(&[1, 2])), Outcome::Done);
    assert_eq!(history.state.named.get(&db()).unwrap().version, 1, "the same is no new version");
    history.apply(user("shop", &[1, 2]));
    assert_eq!(history.apply(named(&[3, 4])), Outcome::Done);
    assert_eq!(history.state.named.get(&db()).unwrap().version, 2);
    let all = [(1, true), (2, true), (3, true), (4, true)];
    assert_eq!(held(&history), all.into(), "revision 1 has what it was applied with");
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    assert_eq!(held(&history), [(3, true), (4, true)].into());
    assert_eq!(violations(&history.state), vec![]);
}

/// R-IN-5: nobody can take a content away from under a deployment, and a refusal changes nothing.
#[test]
fn a_named_content_in_use_stays() {
    let mut history = History::founded();
    let remove = || NamedContentRemove::new(db()).into();
    assert_eq!(history.refused(remove()), ErrorCode::ContentNotFound);
    history.apply(named(&[1]));
    for name in ["shop", "blog"] {
        history.apply(user(name, &[1]));
    }
    assert_eq!(history.refused(remove()), ErrorCode::ContentInUse);
    assert!(history.last_event().contains("users=blog shop"), "{}", history.last_event());
    history.apply(DeploymentDelete::new(deployment("blog")).into());
    history.apply(deploy("shop", "web:9", &[]));
    assert_eq!(history.apply(remove()), Outcome::Done, "an earlier revision is no user");
    assert_eq!(history.last_event(), "content_removed kind=secret name=db version=1");
    assert_eq!(held(&history), [(1, true)].into(), "which can still be gone back to");
    assert_eq!(violations(&history.state), vec![]);
}

/// ST-1, R-IN-3: what does not fit, or is not what it says, changes nothing.
#[test]
fn a_named_content_is_checked() {
    let mut history = History::founded();
    history.apply(named(&[1]));
    let before = history.state.named.clone();
    let large = NamedContentPut::new(db(), id(2), vec![piece(2, PIECE_BYTES_MAX + 1)], 0).into();
    assert_eq!(history.refused(large), ErrorCode::TooLarge);
    let other = NamedContentPut::new(db(), id(9), vec![piece(2, 1)], 0).into();
    assert_eq!(history.refused(other), ErrorCode::InvalidRequest);
    assert_eq!(history.state.named, before);
    assert_eq!(held(&history), [(1, true)].into());
}

/// A content of the secret `db`, made of this and stored on these terms.
fn on_terms(number: u32, terms: ContentTerms) -> Command {
    NamedContentPut::new(db(), id(number), vec![piece(number, 10)], 10).on(terms).into()
}

fn plainly(number: u32) -> Command {
    on_terms(number, ContentTerms::default())
}

/// The remembered versions of `db`, with what they are made of.
fn remembered(history: &History) -> Vec<(u64, ContentId)> {
    let named = history.state.named.get(&db()).unwrap();
    named.former.iter().map(|(version, former)| (*version, former.tree)).collect()
}

/// R-IN-5, ST-12: an earlier version is remembered, with its content, until the last revision that has it is forgotten;
/// a content that comes back has its new number alone.
#[test]
fn former_versions_go_with_their_last_revision() {
    let mut history = History::founded();
    history.apply(plainly(1));
    history.apply(user("shop", &[1]));
    history.apply(plainly(2));
    assert_eq!(remembered(&history), [(1, id(1))]);
    let named = history.state.named.get(&db()).unwrap();
    assert_eq!((named.version_of(id(2)), named.version_of(id(1))), (Some(2), Some(1)));
    assert_eq!(named.version_of(id(3)), None);
    history.apply(plainly(3));
    assert_eq!(remembered(&history), [(1, id(1))], "nothing has had version 2");
    history.apply(plainly(1));
    assert!(remembered(&history).is_empty(), "it is version 4 now");
    assert_eq!(history.state.named.get(&db()).unwrap().version_of(id(1)), Some(4));
    history.apply(plainly(5));
    assert_eq!(remembered(&history), [(4, id(1))]);
    assert_eq!(violations(&history.state), vec![]);
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    assert_eq!(held(&history), [(5, true)].into());
    assert!(remembered(&history).is_empty());
    assert_eq!(violations(&history.state), vec![]);
}

/// R-IN-5: a content that was made from another version than the present one is refused, and changes nothing.
#[test]
fn a_content_overtakes_none() {
    let mut history = History::founded();
    let based_on = |version| ContentTerms { based_on: Some(version), expiry: None };
    assert_eq!(history.refused(on_terms(1, based_on(1))), ErrorCode::StalePlan, "it is gone");
    history.apply(plainly(1));
    assert_eq!(history.apply(on_terms(2, based_on(1))), Outcome::Done);
    let before = history.state.named.clone();
    assert_eq!(history.refused(on_terms(3, based_on(1))), ErrorCode::StalePlan);
    assert!(history.last_event().contains("at version 2"), "{}", history.last_event());
    assert_eq!(history.state.named, before);
    assert_eq!(violations(&history.state), vec![]);
}

/// R-IN-5: an expiry belongs to a version: the same content keeps it unless another one is said, which is audited, and
/// another content has none of its own accord. When it is over nothing happens.
#[test]
fn an_expiry_belongs_to_a_version() {
    let mut history = History::founded();
    let until = |expiry| ContentTerms { based_on: None, expiry: Some(expiry) };
    let end = history.now.after(Millis(1000));
    let stored = |history: &History| {
        let named = history.state.named.get(&db()).unwrap();
        (named.version, named.expires_at)
    };
    history.apply(on_terms(1, until(Expiry::At(end))));
    assert_eq!(stored(&history), (1, Some(end)));
    let event = format!("content_stored expires_at_ms={} kind=secret name=db version=1", end.0);
    assert_eq!(history.last_event(), event);
    history.apply(plainly(1));
    assert_eq!(stored(&history), (1, Some(end)), "as before");
    let later = Timestamp(end.0 + 1);
    history.apply(on_terms(1, until(Expiry::At(later))));
    assert_eq!(stored(&history), (1, Some(later)));
    history.apply(on_terms(1, until(Expiry::Never)));
    assert_eq!(stored(&history), (1, None));
    assert!(history.last_event().contains("expires_at_ms=never"), "{}", history.last_event());
    history.apply(on_terms(1, until(Expiry::At(later))));
    history.apply(user("shop", &[1]));
    history.now = later.after(Millis(1));
    history.apply(user("shop", &[1]));
    assert_eq!(stored(&history), (1, Some(later)), "it is used as before");
    history.apply(plainly(2));
    assert_eq!(stored(&history), (2, None));
}
