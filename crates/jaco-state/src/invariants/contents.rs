//! Which contents are kept, and their bounds (ST-12).

use super::{Law, Violations};
use crate::contents::{CONTENTS_BYTES_MAX, Hold, STAGED_BYTES_MAX, total};
use crate::state::ClusterState;
use crate::view::contents::referred;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    let referred = referred(state);
    for id in referred.iter().filter(|id| !state.contents.contains(id)) {
        found.add(Law::Contents, format!("content {id} is referred to and not kept"));
    }
    for (id, content) in state.contents.iter() {
        if (content.hold == Hold::Kept) != referred.contains(id) {
            found.add(Law::Contents, format!("content {id} is held as {:?}", content.hold));
        }
    }
    for (key, named) in state.named.iter() {
        let is_former = |version: u64, tree| version < named.version && referred.contains(tree);
        if !named.former.iter().all(|(version, former)| is_former(*version, &former.tree)) {
            found.add(Law::Contents, format!("{key} remembers a version that nothing has"));
        }
    }
    let staged = total(&state.contents, |content| content.hold != Hold::Kept);
    let all = total(&state.contents, |_| true);
    if staged > STAGED_BYTES_MAX || all > CONTENTS_BYTES_MAX {
        let subject = format!("contents take {all} bytes, {staged} of them staged");
        found.add(Law::Contents, subject);
    }
}
