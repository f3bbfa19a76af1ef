//! Named configs and secrets (ADR 0042, ADR 0145): stored, listed and removed. Must never return a content.

use std::collections::BTreeSet;

use async_trait::async_trait;
use bytes::Bytes;
use jaco_compose::tree::FileTree;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::{NamedContentPut, NamedContentRemove};
use jaco_state::contents::{ContentTerms, ContentUsers, Expiry, NamedContent, PIECE_BYTES_MAX};
use jaco_state::view::users;
use jaco_store::Store;
use jaco_types::{
    Author, ContentName, DeploymentName, ErrorCode, NamedKey, NamedKind, Rejection, Rights, Role,
    Timestamp,
};

use super::contents::{plain_piece, sealed_piece};
use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded::{terms_may_begin, users_may_begin};
use crate::status::invalid;
use crate::view;
use crate::view::content;

/// The default mode of its file.
const PLAIN_MODE: u32 = 0o444;

#[async_trait]
impl Write for v1::StoreContentRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::StoreContentResponse, Rejection> {
        let key = key(&self.kind, &self.name)?;
        let users = member.store.read(|state| asked_users(state, &key, self.users.as_ref()))?;
        let terms = member.store.read(|state| asked_terms(state, &key, &self))?;
        if self.content.is_empty()
            && let Some(users) = &users
        {
            return share(member, by, (&key, users, terms), &self.request_id).await;
        }
        let size = self.content.len();
        if size > PIECE_BYTES_MAX {
            let message =
                format!("{key} has {size} bytes, more than the maximum of {PIECE_BYTES_MAX}");
            return Err(Rejection::new(ErrorCode::TooLarge, message));
        }
        let sealer = match key.kind {
            NamedKind::Config => None,
            NamedKind::Secret => Some(member.sealer().await?),
        };
        let piece = match &sealer {
            None => plain_piece(&self.content),
            Some(sealer) => sealed_piece(sealer, &self.content),
        };
        let size = size as u64;
        let tree = FileTree::of_file(PLAIN_MODE, size, vec![piece.id]);
        let list = plain_piece(&Bytes::from(tree.text()));
        let command = NamedContentPut::new(key.clone(), list.id, vec![list, piece], size);
        let command = NamedContentPut { users, terms, ..command };
        member.commit(by, &self.request_id, command.into()).await?;
        drop(sealer);
        Ok(response(&member.store.snapshot(), &key))
    }
}

/// A stored content as it is now.
fn response(state: &ClusterState, key: &NamedKey) -> v1::StoreContentResponse {
    let uses = content::uses(state, key.kind).remove(key).unwrap_or_default();
    let stored =
        state.named.get(key).map(|named| v1::ContentInfo { uses, ..info(state, key, named) });
    v1::StoreContentResponse {
        version: stored.as_ref().map(|stored| stored.version).unwrap_or_default(),
        stored,
    }
}

/// What a content is stored with; `None` as long as a member may not know that and nothing of it is asked for.
fn asked_terms(
    state: &ClusterState,
    key: &NamedKey,
    request: &v1::StoreContentRequest,
) -> Result<Option<ContentTerms>, Rejection> {
    let based_on = (request.based_on > 0).then_some(request.based_on);
    let expiry = match (&request.expiry, key.kind) {
        (Some(_), NamedKind::Config) => {
            return Err(invalid("a config does not expire: only secrets do"));
        }
        (Some(expiry), NamedKind::Secret) => Some(read_expiry(expiry)?),
        (None, NamedKind::Config | NamedKind::Secret) => None,
    };
    match terms_may_begin(state) {
        Ok(()) => Ok(Some(ContentTerms { based_on, expiry })),
        Err(_) if based_on.is_none() && expiry.is_none() => Ok(None),
        Err(rejection) => Err(rejection),
    }
}

fn read_expiry(expiry: &v1::ContentExpiry) -> Result<Expiry, Rejection> {
    match u64::try_from(expiry.at_ms) {
        Ok(0) => Ok(Expiry::Never),
        Ok(at) => Ok(Expiry::At(Timestamp(at))),
        Err(_) => Err(invalid("a secret cannot expire before 1970")),
    }
}

/// Which deployments may use a content from now on; `None` for those that might before.
///
/// What is new is for nobody until it is said for whom: a deployer could otherwise have every secret whose name it
/// guesses mounted into a container of its own.
fn asked_users(
    state: &ClusterState,
    key: &NamedKey,
    asked: Option<&v1::ContentUsers>,
) -> Result<Option<ContentUsers>, Rejection> {
    let is_new = !state.named.contains(key);
    let asked = match (asked, key.kind) {
        (Some(asked), NamedKind::Secret) => read_users(asked)?,
        (Some(_), NamedKind::Config) => {
            return Err(invalid("a config is for all deployments: only secrets have users"));
        }
        (None, NamedKind::Secret) if is_new && users_may_begin(state).is_ok() => {
            ContentUsers::Listed(BTreeSet::new())
        }
        (None, NamedKind::Secret | NamedKind::Config) => return Ok(None),
    };
    if asked == ContentUsers::All && state.named.get(key).is_none_or(|it| it.users == asked) {
        // As members of earlier versions know it.
        return Ok(None);
    }
    users_may_begin(state)?;
    Ok(Some(asked))
}

fn read_users(asked: &v1::ContentUsers) -> Result<ContentUsers, Rejection> {
    if asked.all && !asked.deployments.is_empty() {
        return Err(invalid("a secret is for all deployments or for some: give one of both"));
    }
    if asked.all {
        return Ok(ContentUsers::All);
    }
    let names = asked.deployments.iter().map(|name| DeploymentName::new(name).map_err(invalid));
    Ok(ContentUsers::Listed(names.collect::<Result<_, _>>()?))
}

fn shown(users: &ContentUsers) -> v1::ContentUsers {
    match users {
        ContentUsers::All => v1::ContentUsers { all: true, deployments: Vec::new() },
        ContentUsers::Listed(listed) => v1::ContentUsers {
            all: false,
            deployments: listed.iter().map(ToString::to_string).collect(),
        },
    }
}

/// Changes which deployments may use a content that is stored.
async fn share(
    member: &Member,
    by: Author,
    (key, users, terms): (&NamedKey, &ContentUsers, Option<ContentTerms>),
    request_id: &str,
) -> Result<v1::StoreContentResponse, Rejection> {
    let stored =
        member.store.read(|state| state.named.get(key).map(|named| (named.tree, named.size)));
    let (tree, size) = stored.ok_or_else(|| not_found(key))?;
    let command = NamedContentPut::new(key.clone(), tree, Vec::new(), size);
    let command = NamedContentPut { terms, ..command.for_users(users.clone()) };
    member.commit(by, request_id, command.into()).await?;
    Ok(response(&member.store.snapshot(), key))
}

/// The refusal of a name that the cluster does not keep.
pub(super) fn not_found(key: &NamedKey) -> Rejection {
    Rejection::new(ErrorCode::ContentNotFound, format!("the cluster keeps no {key}"))
}

#[async_trait]
impl Write for v1::RemoveContentRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveContentResponse, Rejection> {
        let key = key(&self.kind, &self.name)?;
        member.commit(by, &self.request_id, NamedContentRemove::new(key).into()).await?;
        Ok(v1::RemoveContentResponse {})
    }
}

/// Lists the configs or the secrets, by name; which contents secrets have for operators only, because whoever knows that
/// can have them mounted into a container.
///
/// # Errors
/// `invalid_request` for an unknown kind.
pub(super) fn list(
    state: &ClusterState,
    rights: &Rights,
    request: &v1::ListContentsRequest,
) -> Result<v1::ListContentsResponse, Rejection> {
    let kind = kind(&request.kind)?;
    let shows_tree = kind == NamedKind::Config || rights.role() >= Role::Operator;
    let mut uses = content::uses(state, kind);
    let of_kind = state.named.iter().filter(|(key, _)| key.kind == kind);
    let contents = of_kind.map(|(key, named)| v1::ContentInfo {
        tree: if shows_tree { named.tree.0.to_vec().into() } else { Bytes::new() },
        uses: uses.remove(key).unwrap_or_default(),
        ..info(state, key, named)
    });
    Ok(v1::ListContentsResponse { contents: contents.collect() })
}

/// What everybody may know of a content, without its uses.
fn info(state: &ClusterState, key: &NamedKey, named: &NamedContent) -> v1::ContentInfo {
    v1::ContentInfo {
        name: key.name.to_string(),
        version: named.version,
        bytes: named.size,
        stored_at_ms: view::millis(named.stored_at),
        expires_at_ms: named.expires_at.map(view::millis).unwrap_or_default(),
        used_by: users(state, key).map(ToString::to_string).collect(),
        users: (key.kind == NamedKind::Secret).then(|| shown(&named.users)),
        ..v1::ContentInfo::default()
    }
}

/// Reads kind and name of a request.
///
/// # Errors
/// `invalid_request` if one of them is none.
pub(super) fn key(kind_text: &str, name: &str) -> Result<NamedKey, Rejection> {
    let name = ContentName::new(name).map_err(invalid)?;
    Ok(NamedKey { kind: kind(kind_text)?, name })
}

fn kind(text: &str) -> Result<NamedKind, Rejection> {
    NamedKind::parse(text)
        .ok_or_else(|| invalid(format!("kind is {text:?}: write \"config\" or \"secret\"")))
}
