//! Membership and tokens.

use jaco_state::Command;
use jaco_types::{ErrorCode, NodeId, Timestamp};

use crate::history::{History, admit, init, join_token};

/// A cluster is created once.
#[test]
fn a_cluster_is_created_once() {
    let mut history = History::founded();
    assert_eq!(history.refused(init()), ErrorCode::ClusterAlreadyInitialized);
    assert_eq!(history.state.nodes.len(), 1);
}

/// Node ids are log indices: unique, rising, never reused.
#[test]
fn node_ids_are_never_reused() {
    let mut history = History::founded();
    let second = history.join("n2");
    history.apply(Command::NodeRemove { node: second });
    let again = history.join("n2");
    assert!(NodeId::FIRST < second && second < again, "{second} {again}");
}

/// A join token admits one node; used again, it is refused by its own code and leaves an event.
#[test]
fn a_join_token_works_once() {
    let mut history = History::founded();
    let token = join_token("once", history.now, 1);
    history.apply(Command::JoinTokenIssue { token });
    history.apply(admit("n2", "once"));
    assert_eq!(history.refused(admit("n3", "once")), ErrorCode::JoinTokenConsumed);
    assert!(history.last_event().starts_with("request_refused code=join_token_consumed"));
    assert_eq!(history.refused(admit("n3", "other")), ErrorCode::JoinTokenInvalid);
}

/// A joiner that lost the answer asks again with the same key, and gets the same id.
#[test]
fn a_joiner_that_asks_again_gets_the_same_id() {
    let mut history = History::founded();
    let token = join_token("once", history.now, 1);
    history.apply(Command::JoinTokenIssue { token });
    let first = history.apply(admit("n2", "once"));
    assert_eq!(history.apply(admit("n2", "once")), first);
}

/// Time comes with the entry: a token that expired by the leader's clock is refused.
#[test]
fn an_expired_join_token_is_refused() {
    let mut history = History::founded();
    let token = join_token("late", history.now, 1);
    history.now = Timestamp(token.expires_at.0);
    history.apply(Command::JoinTokenIssue { token });
    assert_eq!(history.refused(admit("n2", "late")), ErrorCode::JoinTokenExpired);
}

/// A revoked operator token stays revoked at the moment it first was.
#[test]
fn revoking_twice_keeps_the_first_moment() {
    let mut history = History::founded();
    let id = jaco_types::TokenId::new("bootstrap").unwrap();
    let first = history.now;
    history.apply(Command::OperatorTokenRevoke { id: id.clone() });
    history.now = Timestamp(first.0 + 1000);
    history.apply(Command::OperatorTokenRevoke { id: id.clone() });
    assert_eq!(history.state.operator_tokens.get(&id).unwrap().revoked_at, Some(first));
}
