//! The slots of one service, with a version that counts their edits.

use std::ops::Deref;

use super::slot::{Search, SlotDraft};

/// The slots of a service in the order of their ids. Reading them is free; each edit moves the
/// version, so that whatever was derived from them is known to be stale.
#[derive(Default)]
pub(crate) struct Slots<'a> {
    list: Vec<SlotDraft<'a>>,
    version: u32,
    /// Whether some slot has been searched a node for in vain.
    has_failed_searches: bool,
}

impl<'a> Slots<'a> {
    /// How often they were edited.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// The slot, to be edited.
    pub(crate) fn edit(&mut self, at: usize) -> &mut SlotDraft<'a> {
        self.version += 1;
        &mut self.list[at]
    }

    /// Adds a slot.
    pub(crate) fn push(&mut self, slot: SlotDraft<'a>) {
        self.version += 1;
        self.list.push(slot);
    }

    /// Keeps the slots that `keep` says, which edits those that go.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&mut SlotDraft<'a>) -> bool) {
        self.version += 1;
        self.list.retain_mut(keep);
    }

    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.list.reserve_exact(more);
    }

    /// Notes that no node takes a slot. It is not an edit: nothing of the slot is different.
    pub(super) fn set_no_node(&mut self, at: usize) {
        self.list[at].search = Search::NoNode;
        self.has_failed_searches = true;
    }

    /// Forgets which slots no node takes, because there may be room now; whether there were any.
    pub(super) fn search_again(&mut self) -> bool {
        if std::mem::take(&mut self.has_failed_searches) {
            self.list.iter_mut().for_each(|slot| slot.search = Search::Open);
            return true;
        }
        false
    }

    /// Notes that an earlier instance of a slot is still terminating.
    pub(super) fn set_terminating(&mut self, at: usize) {
        self.list[at].is_terminating = true;
    }
}

impl<'a> Deref for Slots<'a> {
    type Target = [SlotDraft<'a>];

    fn deref(&self) -> &[SlotDraft<'a>] {
        &self.list
    }
}
