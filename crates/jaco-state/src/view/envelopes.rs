//! Every envelope in the state. Each part of the state is named here, so that the compiler asks about a new one.

use jaco_types::{BackupScheduleName, KekId};

use crate::ClusterMeta;
use crate::acme::{Acme, AcmeAccount, IssuedCertificate};
use crate::backup::BackupSchedule;
use crate::contents::{Content, Form};
use crate::edge::{Certificate, Edges};
use crate::envelope::Place;
use crate::kek::Sealing;
use crate::notify::{Notifications, NotifyTarget};
use crate::registries::RegistryLogin;
use crate::rotation::{AuthorityRotation, RotatedAuthority};
use crate::state::ClusterState;
use crate::table::Table;

/// Every envelope in the state, with its place. The authority's key may be there twice.
pub fn envelopes(state: &ClusterState) -> impl Iterator<Item = (Place, &[u8])> {
    let ClusterState {
        index: _,
        meta,
        constraints: _,
        nodes: _,
        disabled: _,
        deployments: _,
        scheduling: _,
        slots: _,
        observed: _,
        consumers: _,
        terminating: _,
        operator_tokens: _,
        join_tokens: _,
        requests: _,
        audit: _,
        contents,
        named: _,
        registries,
        networks: _,
        edges,
        policy: _,
        rotation,
        sealing,
        jobs: _,
        images: _,
        notify,
        backups,
    } = state;
    let Sealing { naming_key, rotation: _ } = sealing;
    let naming = naming_key.iter().map(|key| (Place::NamingKey, &*key.0));
    let authorities = authority_keys(meta.as_ref(), rotation.as_ref());
    let authorities = authorities.into_iter().map(|key| (Place::AuthorityKey, key));
    let contents = contents.iter().filter_map(|(id, row)| {
        let Content { bytes, form, hold: _ } = row;
        match form {
            Form::Sealed => Some((Place::Content(*id), &*bytes.0)),
            Form::Plain => None,
        }
    });
    let registries = registries.iter().map(|(name, login)| {
        let RegistryLogin { username: _, password, stored_at: _, by: _ } = login;
        (Place::Registry(name.clone()), &*password.0)
    });
    let sealed = naming.chain(authorities).chain(contents).chain(registries);
    sealed.chain(served_keys(edges)).chain(endpoints(notify)).chain(store_keys(backups))
}

fn store_keys(
    backups: &Table<BackupScheduleName, BackupSchedule>,
) -> impl Iterator<Item = (Place, &[u8])> {
    backups.iter().filter_map(|(name, schedule)| {
        let BackupSchedule {
            id: _,
            times: _,
            target: _,
            credentials,
            keep: _,
            recipients: _,
            stored_at: _,
            by: _,
            seen: _,
            run: _,
            last: _,
            failing: _,
        } = schedule;
        Some((Place::BackupSchedule(name.clone()), &*credentials.as_ref()?.0))
    })
}

fn endpoints(notify: &Notifications) -> impl Iterator<Item = (Place, &[u8])> {
    let Notifications { targets, undelivered: _ } = notify;
    targets.iter().map(|(name, target)| {
        let NotifyTarget {
            id: _,
            form: _,
            shown: _,
            endpoint,
            filter: _,
            stored_at: _,
            by: _,
            cursor: _,
            delivered: _,
            failing: _,
            pruned: _,
            discarded: _,
            paused_at: _,
        } = target;
        (Place::NotifyTarget(name.clone()), &*endpoint.0)
    })
}

/// The sealed keys of the authorities, none of which is empty.
fn authority_keys<'s>(
    meta: Option<&'s ClusterMeta>,
    rotation: Option<&'s AuthorityRotation>,
) -> Vec<&'s [u8]> {
    let signing = meta.map(|meta| {
        let ClusterMeta { id: _, name: _, ca_certificate: _, sealed_ca_key, created_at: _ } = meta;
        sealed_ca_key.as_slice()
    });
    let rotated = rotation.map(|rotation| {
        let AuthorityRotation { id: _, begun_at: _, phase: _, since: _, old, new, reports: _ } =
            rotation;
        [old, new].map(|authority| {
            let RotatedAuthority { certificate: _, fingerprint: _, sealed_key } = authority;
            sealed_key.as_slice()
        })
    });
    let all = signing.into_iter().chain(rotated.into_iter().flatten());
    all.filter(|key| !key.is_empty()).collect()
}

fn served_keys(edges: &Edges) -> impl Iterator<Item = (Place, &[u8])> {
    let Edges { begun: _, claims: _, certificates, ports: _, acme } = edges;
    let Acme { account, issued, challenges: _, attempts: _ } = acme;
    let certificates = certificates.iter().map(|(name, row)| {
        let Certificate {
            chain: _,
            key,
            names: _,
            not_before: _,
            not_after: _,
            fingerprint: _,
            stored_at: _,
            by: _,
        } = row;
        (Place::Certificate(name.clone()), &*key.0)
    });
    let account = account.iter().map(|account| {
        let AcmeAccount { directory: _, url: _, key } = account;
        (Place::AcmeAccount, &*key.0)
    });
    let issued = issued.iter().map(|(domain, row)| {
        let IssuedCertificate {
            directory: _,
            chain: _,
            key,
            not_before: _,
            not_after: _,
            fingerprint: _,
            issued_at: _,
            window: _,
        } = row;
        (Place::Issued(domain.clone()), &*key.0)
    });
    certificates.chain(account).chain(issued)
}

/// The envelopes in the state that the key `of` has sealed.
pub fn envelopes_of(state: &ClusterState, of: KekId) -> impl Iterator<Item = (Place, &[u8])> {
    envelopes(state).filter(move |(_, envelope)| KekId::of_envelope(envelope) == Some(of))
}
