//! A law about notifications (ST-31).

use super::{Law, Violations};
use crate::notify::{REASON_BYTES_MAX, TARGETS_MAX, UNDELIVERED_MAX};
use crate::state::ClusterState;
use crate::view::undelivered_of;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    let notify = &state.notify;
    let count = notify.targets.len();
    if count > TARGETS_MAX {
        found.add(Law::Notifications, format!("there are {count} notification targets"));
    }
    for (name, target) in notify.targets.iter() {
        if !target.endpoint.fits() || !target.filter.fits() {
            found.add(Law::Notifications, format!("the target {name} is too large"));
        }
        if target.cursor.index > state.index || target.id > state.index {
            found.add(Law::Notifications, format!("the target {name} is ahead of the log"));
        }
        let undelivered = undelivered_of(state, name).count();
        if undelivered > UNDELIVERED_MAX {
            found.add(Law::Notifications, format!("{undelivered} were not delivered to {name}"));
        }
    }
    for (key, row) in notify.undelivered.iter() {
        let Some(target) = notify.targets.get(&key.target) else {
            let subject = format!("a notification of {} is kept, which is gone", key.target);
            found.add(Law::Notifications, subject);
            continue;
        };
        if key.event > target.cursor {
            let subject = format!("{} has both given up and still to get an event", key.target);
            found.add(Law::Notifications, subject);
        }
        if row.reason.len() > REASON_BYTES_MAX {
            found.add(Law::Notifications, format!("a reason of {} is too long", key.target));
        }
    }
}
