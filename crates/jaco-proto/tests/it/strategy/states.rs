//! Whole states.

use super::*;

pub(crate) fn disabled() -> impl Strategy<Value = DisabledAllocations> {
    let rest = (identity(), moment()).prop_map(|(by, at)| Disablement { by, at }).boxed();
    let waiting = btree_map(service_key(), rest.clone(), 0..3);
    (btree_map(scope(), rest, 0..4), waiting, index()).prop_map(|(scopes, waiting, modified)| {
        DisabledAllocations {
            scopes: scopes.into_iter().collect(),
            waiting: waiting.into_iter().collect(),
            modified,
        }
    })
}

pub(crate) fn state() -> impl Strategy<Value = ClusterState> {
    let tables = (
        table(node(), |node| node.id),
        table(deployment(), |deployment| deployment.name.clone()),
        btree_map(service_key(), scheduling(), 0..4).prop_map(|rows| rows.into_iter().collect()),
        table(slot(), |slot| slot.id.clone()),
        table(observed(), |observed| observed.id.clone()),
        table(consumer(), |consumer| consumer.name.clone()),
        table(terminating(), |terminating| terminating.id.clone()),
        table(operator_token(), |token| token.id.clone()),
        table(join_token(), |token| token.id.clone()),
    );
    let contents = btree_map(content_id(), content(), 0..4);
    let named = btree_map(named_key(), named_content(), 0..4);
    let registries = btree_map(registry_name(), registry_login(), 0..4);
    let others = (
        contents,
        named,
        registries,
        (networks(), edges(), images(), (notifications(), backups())),
    );
    let policy = (policy_mode(), btree_map(deployment_name(), grants(), 0..3));
    let policy =
        policy.prop_map(|(mode, grants)| Policy { mode, grants: grants.into_iter().collect() });
    let jobs = btree_map(service_key(), job_record(), 0..3);
    let rotations = (option::of(rotation()), sealing(), jobs);
    let one = (option::of(meta()), facts_by_name(), disabled(), (policy, rotations));
    (index(), one, tables, requests(), audit(), others).prop_map(
        |(
            index,
            (meta, constraints, disabled, (policy, (rotation, sealing, jobs))),
            tables,
            requests,
            audit,
            others,
        )| {
            let (contents, named, registries, (networks, edges, images, (notify, backups))) =
                others;
            let (
                nodes,
                deployments,
                scheduling,
                slots,
                observed,
                consumers,
                terminating,
                operator_tokens,
                join_tokens,
            ) = tables;
            ClusterState {
                index,
                meta,
                constraints,
                disabled,
                nodes,
                deployments,
                scheduling,
                slots,
                observed,
                consumers,
                terminating,
                operator_tokens,
                join_tokens,
                requests,
                audit,
                contents: contents.into_iter().collect(),
                named: named.into_iter().collect(),
                registries: registries.into_iter().collect(),
                networks,
                edges,
                policy,
                rotation,
                sealing,
                jobs: jobs.into_iter().collect(),
                images,
                notify,
                backups,
            }
        },
    )
}

pub(crate) fn table<K: Ord + Clone + std::fmt::Debug, V: Clone + std::fmt::Debug>(
    row: impl Strategy<Value = V>,
    key: impl Fn(&V) -> K,
) -> impl Strategy<Value = Table<K, V>> {
    vec(row, 0..4).prop_map(move |rows| rows.into_iter().map(|row| (key(&row), row)).collect())
}

pub(crate) fn pin() -> impl Strategy<Value = Pin> {
    select(vec![Pin::No, Pin::Yes])
}

pub(crate) fn trace() -> impl Strategy<Value = TraceContext> {
    let ids = (any::<[u8; 16]>(), any::<[u8; 8]>());
    (ids, select(vec![Sampled::No, Sampled::Yes]))
        .prop_filter_map("an id is zero", |((trace, span), sampled)| {
            TraceContext::new(trace, span, sampled)
        })
}

pub(crate) fn deployment() -> impl Strategy<Value = Deployment> {
    let digests = btree_map(service_name(), image_digest(), 0..3);
    let asked = (moment(), identity(), option::of(trace()));
    let record = (spec(), asked, option::of(revision()), pin(), text(), digests);
    let record = record.prop_map(|fields| {
        let (spec, (applied_at, applied_by, trace), restores, pin, failure, digests) = fields;
        Arc::new(RevisionRecord {
            spec,
            applied_at,
            applied_by,
            restores,
            pin,
            failure,
            digests,
            trace,
        })
    });
    let revisions = btree_map(revision(), record, 1..4);
    (deployment_name(), revisions, any::<prop::sample::Index>(), index()).prop_map(
        |(name, revisions, wanted, modified)| {
            let revision = *revisions.keys().nth(wanted.index(revisions.len())).unwrap();
            Deployment { name, revision, revisions, modified }
        },
    )
}

/// As `apply` builds it: each request once, by its age and by its id.
pub(crate) fn requests() -> impl Strategy<Value = RequestLog> {
    btree_map(request(), (index(), outcome()), 0..5).prop_map(|requests| {
        let mut log = RequestLog::default();
        for (request, (index, outcome)) in requests {
            if !log.order.contains(&index) {
                log.order.insert(index, request.clone());
                log.outcomes.insert(request, outcome);
            }
        }
        log
    })
}

pub(crate) fn audit() -> impl Strategy<Value = AuditLog> {
    let key = || (index(), any::<u32>()).prop_map(|(index, number)| AuditKey { index, number });
    let digest = || option::of(any::<[u8; 32]>().prop_map(Digest));
    let who = (identity(), option::of(origin()), option::of(request()));
    let said = (audit_kind(), moment(), who, facts_by_name());
    let event =
        (said, digest()).prop_map(|((kind, at, (by, origin, request), payload), previous)| {
            AuditEvent { kind, at, by, origin, request, payload, previous }
        });
    let clock = (moment(), option::of(moment()))
        .prop_map(|(believed, jumped)| AuditClock { believed, jumped });
    let retention = (millis(), option::of(key()), option::of(clock))
        .prop_map(|(age, cut, clock)| Retention { age, cut, clock });
    let refusals = btree_map(identity(), refusal_count(), 0..4);
    (btree_map(key(), event, 0..4), digest(), option::of(retention), refusals).prop_map(
        |(events, head, retention, refusals)| AuditLog {
            events: events.into_iter().collect(),
            head,
            retention,
            refusals: refusals.into_iter().collect(),
        },
    )
}

pub(crate) fn refusal_count() -> impl Strategy<Value = RefusalCount> {
    (moment(), any::<u32>(), any::<u64>()).prop_map(|(since, written, unreported)| RefusalCount {
        since,
        written,
        unreported,
    })
}

pub(crate) fn meta() -> impl Strategy<Value = ClusterMeta> {
    let id = "[0-9a-f]{32}".prop_map(|text| ClusterId::new(&text).unwrap());
    (id, text(), text(), vec(any::<u8>(), 0..40), moment()).prop_map(
        |(id, name, ca_certificate, sealed_ca_key, created_at)| ClusterMeta {
            id,
            name,
            ca_certificate,
            sealed_ca_key,
            created_at,
        },
    )
}

pub(crate) fn rotated() -> impl Strategy<Value = RotatedAuthority> {
    (text(), any::<[u8; 32]>(), vec(any::<u8>(), 0..40)).prop_map(
        |(certificate, fingerprint, sealed_key)| RotatedAuthority {
            certificate,
            fingerprint,
            sealed_key,
        },
    )
}

pub(crate) fn rotation_step() -> impl Strategy<Value = RotationStep> {
    select(RotationStep::ALL)
}

pub(crate) fn rotation() -> impl Strategy<Value = AuthorityRotation> {
    let reports = btree_map(node_id(), rotation_step(), 0..4);
    let when = (index(), moment(), moment());
    (when, select(RotationPhase::ALL), rotated(), rotated(), reports).prop_map(
        |((id, begun_at, since), phase, old, new, reports)| AuthorityRotation {
            id,
            begun_at,
            phase,
            since,
            old,
            new,
            reports,
        },
    )
}

pub(crate) fn operator_token() -> impl Strategy<Value = OperatorToken> {
    let times = (moment(), option::of(moment()), option::of(moment()), option::of(moment()));
    let rights = option::of(rights());
    (token_id(), proof(), identity(), times, rights).prop_map(
        |(id, proof, issued_by, (issued_at, revoked_at, expires_at, last_used_at), rights)| {
            OperatorToken {
                id,
                proof,
                issued_at,
                issued_by,
                revoked_at,
                expires_at,
                rights,
                last_used_at,
            }
        },
    )
}

fn proof() -> impl Strategy<Value = Proof> {
    let (secret, key) = (any::<[u8; 32]>(), any::<[u8; 32]>());
    let rotated = (any::<[u8; 32]>(), any::<[u8; 32]>(), moment());
    let rotated = rotated.prop_map(|(secret, former, former_until)| Proof::Rotated {
        secret,
        former,
        former_until,
    });
    prop_oneof![secret.prop_map(Proof::Secret), rotated, key.prop_map(Proof::Certificate)]
}

fn rights() -> impl Strategy<Value = Rights> {
    prop_oneof![
        Just(Rights::Viewer),
        btree_set(deployment_name(), 1..4).prop_map(Rights::Deployer),
        Just(Rights::Operator),
        Just(Rights::Admin),
    ]
}

pub(crate) fn join_token() -> impl Strategy<Value = JoinToken> {
    let times = (moment(), moment(), option::of(moment()));
    (token_id(), any::<[u8; 32]>(), identity(), times, any::<u32>()).prop_map(
        |(id, secret_hash, issued_by, (issued_at, expires_at, revoked_at), uses_left)| JoinToken {
            id,
            secret_hash,
            issued_at,
            issued_by,
            expires_at,
            uses_left,
            revoked_at,
        },
    )
}

pub(crate) fn audit_kind() -> impl Strategy<Value = AuditKind> {
    select(AuditKind::ALL)
}
