//! What to do about certificates now, and when to look again: a pure function of what is recorded and what is in
//! progress. It orders nothing twice, few at a time, and no more than authorities allow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_state::acme::IssueAttempt;
use jaco_state::view::renew_at;
use jaco_types::route::RouteDomain;
use jaco_types::{ChallengeKind, Millis, Timestamp};

use crate::authority::Terms;
use crate::failure::Failure;
use crate::records::Records;

/// The most orders in progress.
pub const ORDERS_AT_ONCE: usize = 4;

/// The most orders in [`ORDERS_PERIOD`]. Let's Encrypt takes 300 of an account, and lets it order again bit by bit
/// once it was told so; the rest is left for people and for the leader before this one.
pub const ORDERS_MAX: usize = 250;

/// The time in which [`ORDERS_MAX`] orders are made at most.
pub const ORDERS_PERIOD: Millis = Millis::from_secs(3 * 60 * 60);

/// All that counts for what to do.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// What is recorded.
    pub records: &'a Records,
    /// The address of the directory of the authority.
    pub directory: &'a str,
    /// Whether its terms are agreed to.
    pub terms: Terms,
    /// The domains with an order in progress, or one whose end is not in the records yet.
    pub busy: &'a BTreeSet<RouteDomain>,
    /// When the orders of the last [`ORDERS_PERIOD`] began, the first one first.
    pub begun: &'a [Timestamp],
    /// Until when no order would come through.
    pub paused_until: Option<Timestamp>,
    /// When the authority is asked next when it wants a domain's certificate to be renewed; those that are missing
    /// were not asked about yet.
    pub ask_at: &'a BTreeMap<RouteDomain, Timestamp>,
    /// Whether it is being asked now.
    pub asking: Asking,
    /// The present moment.
    pub now: Timestamp,
}

/// Whether an authority is being asked about a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// It is.
    Yes,
    /// It is not.
    No,
}

/// What to do now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps, in the order of their urgency.
    pub steps: Vec<Step>,
    /// When to look again, if nothing happens before.
    pub wake_at: Option<Timestamp>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Order a certificate.
    Order(OrderStep),
    /// Note why nothing is ordered for the domain.
    Explain(RouteDomain, IssueAttempt),
    /// Ask when the authority wants the domain's certificate to be renewed.
    Ask(RouteDomain, Arc<str>),
}

/// An order to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderStep {
    /// The domain.
    pub domain: RouteDomain,
    /// How it is proven, if the settings leave that open.
    pub kind: ChallengeKind,
    /// What the orders before left behind, if they failed.
    pub before: Option<IssueAttempt>,
    /// The certificate that this one takes the place of, as PEM, if it is of the same authority.
    pub replaces: Option<Arc<str>>,
}

/// A domain that wants a certificate now. The order is that of the urgency.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due<'a> {
    /// When what it has expires; the begin of time if it has none.
    expires: Timestamp,
    since: Timestamp,
    domain: &'a RouteDomain,
}

/// What to do now. Same situation, same plan; carried out, it has nothing left to do before it wakes.
#[must_use]
pub fn plan(situation: &Situation<'_>) -> Plan {
    let mut plan = Plan::default();
    let due = due(situation, &mut plan);
    match situation.terms {
        Terms::Agreed => order(situation, &due, &mut plan),
        Terms::NotAgreed => explain(situation, &due, &mut plan),
    }
    ask(situation, &mut plan);
    plan
}

/// The domains whose time has come; of the others, when it comes.
fn due<'a>(situation: &Situation<'a>, plan: &mut Plan) -> Vec<Due<'a>> {
    let records = situation.records;
    let mut due = Vec::new();
    for domain in records.wanted.iter().filter(|domain| !situation.busy.contains(*domain)) {
        let issued = records.issued.get(domain);
        // What another authority issued, such as one for tries, is replaced at once.
        let own = issued.filter(|issued| *issued.directory == *situation.directory);
        let wanted_at = own.map_or(Timestamp(0), |issued| renew_at(domain, issued));
        let allowed_at = records.attempts.get(domain).map_or(Timestamp(0), |last| last.next_try);
        let since = wanted_at.max(allowed_at);
        if since > situation.now {
            plan.wake(since);
            continue;
        }
        let expires = issued.map_or(Timestamp(0), |issued| issued.not_after);
        due.push(Due { expires, since, domain });
    }
    due.sort_unstable();
    due
}

fn order(situation: &Situation<'_>, due: &[Due<'_>], plan: &mut Plan) {
    if due.is_empty() {
        return;
    }
    if let Some(until) = situation.paused_until.filter(|until| *until > situation.now) {
        plan.wake(until);
        return;
    }
    let recent = |begun: &&Timestamp| begun.after(ORDERS_PERIOD) > situation.now;
    let mut recent = situation.begun.iter().filter(recent).peekable();
    let first_recent = recent.peek().copied().copied();
    let left = ORDERS_MAX.saturating_sub(recent.count());
    let free = ORDERS_AT_ONCE.saturating_sub(situation.busy.len());
    // Without an account the first order makes it, and finds out for all others whether that can be done.
    let has_account = situation
        .records
        .account
        .as_ref()
        .is_some_and(|account| account.directory == situation.directory);
    let free = if has_account { free } else { free.min(1).saturating_sub(situation.busy.len()) };
    if left < due.len()
        && let Some(first) = first_recent
    {
        plan.wake(first.after(ORDERS_PERIOD));
    }
    plan.steps.extend(due.iter().take(free.min(left)).map(|due| order_of(situation, due.domain)));
}

fn order_of(situation: &Situation<'_>, domain: &RouteDomain) -> Step {
    let records = situation.records;
    let before = records.attempts.get(domain).cloned();
    let issued = records.issued.get(domain);
    let own = issued.filter(|issued| *issued.directory == *situation.directory);
    Step::Order(OrderStep {
        domain: domain.clone(),
        kind: before.as_ref().map(|before| before.kind).unwrap_or_default(),
        before,
        replaces: own.map(|issued| Arc::clone(&issued.chain)),
    })
}

/// Says once for each domain that the terms are not agreed to. They are ordered at once when that has changed.
fn explain(situation: &Situation<'_>, due: &[Due<'_>], plan: &mut Plan) {
    let reason = Failure::Terms.reason();
    for due in due {
        let before = situation.records.attempts.get(due.domain);
        if before.is_some_and(|before| *before.reason == *reason) {
            continue;
        }
        let attempt = IssueAttempt {
            failures: 0,
            reason: reason.as_str().into(),
            next_try: situation.now,
            kind: ChallengeKind::default(),
        };
        plan.steps.push(Step::Explain(due.domain.clone(), attempt));
    }
}

/// One question at a time: a thousand certificates are no reason to hurry.
fn ask(situation: &Situation<'_>, plan: &mut Plan) {
    let Situation { records, directory, ask_at, now, .. } = situation;
    if situation.asking == Asking::Yes || records.account.is_none() {
        return;
    }
    let of_this = records.issued.iter().filter(|(domain, issued)| {
        *issued.directory == **directory && records.wanted.contains(*domain)
    });
    let at = |domain| ask_at.get(domain).copied().unwrap_or_default();
    let next =
        of_this.map(|(domain, issued)| (at(domain), domain, issued)).min_by_key(|next| next.0);
    match next {
        Some((at, domain, issued)) if at <= *now => {
            plan.steps.push(Step::Ask(domain.clone(), Arc::clone(&issued.chain)));
        }
        Some((at, ..)) => plan.wake(at),
        None => {}
    }
}

impl Plan {
    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }
}

#[cfg(test)]
mod tests;
