//! Views: folds of the state into what users and nodes ask for. Nothing here is stored.

mod backup;
pub(crate) mod contents;
mod convergence;
mod desired;
pub(crate) mod disabled;
mod envelopes;
pub mod images;
mod kek;
mod moving;
mod needed;
mod notify;
mod ordered;
mod renewal;
mod replica;
mod rotation;
mod routing;
mod serving;

pub use backup::{BACKUP_PAUSE_MAX, backup_tried_at};
pub use contents::users;
pub use convergence::{Convergence, Convergences, convergence, convergences};
pub use desired::{
    AttachedNetwork, Attachment, DesiredInstance, Role, desired_on, prepull_on, stopping,
};
pub use disabled::describe;
pub use envelopes::{envelopes, envelopes_of};
pub use kek::{HeldKeys, KekDuty, kek_duty, key_holders, needed_keys, sealing_key};
pub use moving::is_apart;
pub use needed::{Needed, needed_on};
pub use notify::{
    NextNotification, is_notified, names_deployment, next_notification, notifications_behind,
    undelivered_of,
};
pub use ordered::ordered_domains;
pub use renewal::renew_at;
pub use replica::{ReplicaView, is_running, replica, restart_at, slots_of};
pub use rotation::{HeldConnections, HeldTrust, RotationDuty, rotation_duty};
pub use routing::{Endpoint, endpoints, in_routing};
pub use serving::{WentBackInPart, asks_differently, goes_back_to, held_spec, serving_revision};
