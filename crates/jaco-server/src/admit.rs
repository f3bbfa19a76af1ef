//! Whether a sender may do what it asks for, by this node's state. What is refused is audited.

use jaco_types::{Author, ErrorCode, Origin, Rejection, Rights};

use crate::auth::permission::{self, Concern, Needs};
use crate::member::Member;

impl Member {
    /// Refuses a sender whose role does not include this rpc.
    ///
    /// # Errors
    /// `permission_denied`, or why its token does not count any more.
    pub(crate) fn admit_rpc(&self, author: &Author, method: &str) -> Result<(), Rejection> {
        match Needs::of(method).least_role() {
            Some(role) => self.admit(author, [Concern::Role(role)]),
            None => Ok(()),
        }
    }

    /// Refuses a sender whose rights do not include all of this. A refusal is audited.
    ///
    /// # Errors
    /// As [`Member::admit_rpc`].
    pub(crate) fn admit<'a>(
        &self,
        author: &Author,
        concerns: impl IntoIterator<Item = Concern<'a>>,
    ) -> Result<(), Rejection> {
        let checked = self.rights(author).and_then(|rights| {
            concerns
                .into_iter()
                .try_for_each(|concern| permission::check(&author.by, &rights, concern))
        });
        checked.inspect_err(|rejection| {
            if rejection.code == ErrorCode::PermissionDenied {
                self.refusals.note(&source(author), &author.by, rejection);
            }
        })
    }

    /// What a sender may do, by this node's state.
    ///
    /// # Errors
    /// Why its token does not count any more.
    pub(crate) fn rights(&self, author: &Author) -> Result<Rights, Rejection> {
        let now = self.clock.now();
        self.store.read(|state| permission::rights(state, &author.by, now))
    }
}

/// Where a request came from, as in events of refused access.
fn source(author: &Author) -> String {
    match author.origin {
        Some(Origin::Address { address, .. }) => address.ip().to_string(),
        Some(origin @ (Origin::Socket { .. } | Origin::Member { .. })) => origin.to_string(),
        None => author.by.to_string(),
    }
}
