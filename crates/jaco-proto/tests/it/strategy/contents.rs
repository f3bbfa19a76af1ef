//! Contents, named contents and registry credentials.

use super::*;

pub(crate) fn content_id() -> impl Strategy<Value = ContentId> {
    any::<[u8; 32]>().prop_map(ContentId)
}

pub(crate) fn form() -> impl Strategy<Value = Form> {
    select(&[Form::Plain, Form::Sealed][..])
}

pub(crate) fn piece_bytes() -> impl Strategy<Value = PieceBytes> {
    vec(any::<u8>(), 0..5).prop_map(|bytes| PieceBytes(bytes.into()))
}

pub(crate) fn piece() -> impl Strategy<Value = Piece> {
    (content_id(), form(), piece_bytes()).prop_map(|(id, form, bytes)| Piece { id, form, bytes })
}

pub(crate) fn named_key() -> impl Strategy<Value = NamedKey> {
    let kind = select(vec![NamedKind::Config, NamedKind::Secret]);
    let name = "[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}";
    (kind, name).prop_map(|(kind, name)| NamedKey { kind, name: ContentName::new(&name).unwrap() })
}

pub(crate) fn named_content() -> impl Strategy<Value = NamedContent> {
    let pieces = btree_set(content_id(), 0..3);
    let content = (any::<u64>(), content_id(), pieces, any::<u64>(), any::<u64>());
    let former = btree_map(any::<u64>(), former_content(), 0..3);
    (content, content_users(), option::of(moment()), former).prop_map(
        |((version, tree, pieces, size, at), users, expires_at, former)| NamedContent {
            version,
            tree,
            pieces,
            size,
            stored_at: Timestamp(at),
            users,
            expires_at,
            former,
        },
    )
}

fn former_content() -> impl Strategy<Value = FormerContent> {
    (content_id(), moment()).prop_map(|(tree, stored_at)| FormerContent { tree, stored_at })
}

pub(crate) fn content_terms() -> impl Strategy<Value = ContentTerms> {
    let expiry = prop_oneof![Just(Expiry::Never), moment().prop_map(Expiry::At)];
    (option::of(any::<u64>()), option::of(expiry))
        .prop_map(|(based_on, expiry)| ContentTerms { based_on, expiry })
}

pub(crate) fn content_users() -> impl Strategy<Value = ContentUsers> {
    let listed = btree_set(deployment_name(), 0..3).prop_map(ContentUsers::Listed);
    prop_oneof![Just(ContentUsers::All), listed]
}

pub(crate) fn registry_name() -> impl Strategy<Value = RegistryName> {
    let host = prop_oneof![
        "[a-z0-9]{1,8}(\\.[a-z0-9]{1,8}){1,3}(:[1-9][0-9]{0,3})?",
        "(localhost|registry):[1-9][0-9]{0,3}",
        Just("docker.io".to_owned()),
    ];
    host.prop_map(|name| RegistryName::new(&name).unwrap())
}

pub(crate) fn registry_username() -> impl Strategy<Value = RegistryUsername> {
    "[a-zA-Z0-9 $@._-]{1,20}".prop_map(|name| RegistryUsername::new(&name).unwrap())
}

pub(crate) fn sealed_password() -> impl Strategy<Value = SealedPassword> {
    vec(any::<u8>(), 0..5).prop_map(|bytes| SealedPassword(bytes.into()))
}

pub(crate) fn registry_login() -> impl Strategy<Value = RegistryLogin> {
    (registry_username(), sealed_password(), moment(), identity()).prop_map(
        |(username, password, stored_at, by)| RegistryLogin { username, password, stored_at, by },
    )
}

pub(crate) fn content() -> impl Strategy<Value = Content> {
    let hold = prop_oneof![moment().prop_map(|since| Hold::Staged { since }), Just(Hold::Kept)];
    (piece_bytes(), form(), hold).prop_map(|(bytes, form, hold)| Content { bytes, form, hold })
}
