//! Where the other members are reached: by the membership, or by what a member says of itself when it campaigns.
//!
//! A member that was given another address while it was off is not reached by a leader that calls it where it was. The
//! membership has the new address only once a leader has committed that, which needs a quorum: where the member is needed
//! for one, it is found by its own request for a vote.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Longest address that is taken from a member: a DNS name of 253 bytes and a port.
const ADDRESS_BYTES_MAX: usize = 260;

/// Current addresses of members. Clones are the same. openraft sets the address once when it creates a client, and keeps
/// it when it changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressBook {
    known: Arc<RwLock<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// As of the newest membership in this node's log.
    members: BTreeMap<u64, String>,
    /// What members have said of themselves since, where that is another address.
    heard: BTreeMap<u64, String>,
}

impl AddressBook {
    /// Takes over a membership. What a member has said of itself holds until the membership has another address of it.
    pub(crate) fn replace(&self, members: &BTreeMap<u64, String>) {
        let mut known = self.write();
        let Known { members: former, heard } = &mut *known;
        heard.retain(|id, _| members.get(id).is_some_and(|now| former.get(id) == Some(now)));
        former.clone_from(members);
    }

    /// Notes what the member `id` says of itself, as its certificate has shown. Returns whether it is to be called
    /// elsewhere than before.
    pub(crate) fn heard(&self, id: u64, address: &str) -> bool {
        let mut known = self.write();
        let Some(member) = known.members.get(&id) else { return false };
        if address.is_empty() || address.len() > ADDRESS_BYTES_MAX {
            return false;
        }
        if member == address {
            return known.heard.remove(&id).is_some();
        }
        let former = known.heard.insert(id, address.to_owned());
        former.is_none_or(|former| former != address)
    }

    /// Where `id` is called; `None` if it is no member.
    pub(crate) fn get(&self, id: u64) -> Option<String> {
        let known = self.read();
        known.heard.get(&id).or_else(|| known.members.get(&id)).cloned()
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(members: &[(u64, &str)]) -> AddressBook {
        let book = AddressBook::default();
        book.replace(&members_of(members));
        book
    }

    fn members_of(members: &[(u64, &str)]) -> BTreeMap<u64, String> {
        members.iter().map(|(id, address)| (*id, (*address).to_owned())).collect()
    }

    /// R-NODE-2: what a member says of itself holds until the membership has another address of it.
    #[test]
    fn the_later_of_membership_and_member_counts() {
        let book = book(&[(1, "a:1"), (2, "b:1")]);
        assert!(book.heard(2, "c:1"), "it moved");
        assert!(!book.heard(2, "c:1"), "that is known");
        assert_eq!(book.get(2).as_deref(), Some("c:1"));
        book.replace(&members_of(&[(1, "a:1"), (2, "b:1"), (3, "d:1")]));
        assert_eq!(book.get(2).as_deref(), Some("c:1"), "this membership is no news of it");
        book.replace(&members_of(&[(1, "a:1"), (2, "e:1"), (3, "d:1")]));
        assert_eq!(book.get(2).as_deref(), Some("e:1"), "and this one is");
        assert!(book.heard(2, "f:1"));
        assert!(book.heard(2, "e:1"), "back to where the membership has it");
        assert_eq!(book.get(2).as_deref(), Some("e:1"));
        assert!(book.heard(2, "f:1"));
        book.replace(&members_of(&[(1, "a:1")]));
        assert_eq!(book.get(2), None, "it was removed");
        book.replace(&members_of(&[(1, "a:1"), (2, "e:1")]));
        assert_eq!(book.get(2).as_deref(), Some("e:1"));
    }

    /// A member of an earlier version says nothing, a stranger is not called, and nothing is kept without a limit.
    #[test]
    fn what_is_no_address_of_a_member_is_not_kept() {
        let book = book(&[(1, "a:1")]);
        for (id, address) in [(1, String::new()), (1, "x".repeat(261)), (9, "z:1".to_owned())] {
            assert!(!book.heard(id, &address), "{id} {address}");
        }
        assert_eq!((book.get(1).as_deref(), book.get(9)), (Some("a:1"), None));
    }
}
