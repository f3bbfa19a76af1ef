//! Users and passwords of a route (RFC 7617).
//!
//! A hash of a password is slow on purpose. So what was right is remembered, by a keyed digest that is of no use
//! outside of this process, and what has to be computed is computed beside the loops, a few at a time.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderValue, header};
use jaco_types::route::{AllowedUsers, PasswordHash, UserName};
use ring::rand::SystemRandom;
use ring::{hmac, pbkdf2};
use tokio::sync::Semaphore;

/// So many pairs of a user and a password are remembered per route.
const REMEMBERED_MAX: usize = 64;

/// So many passwords are computed at a time, per route.
const COMPUTED_MAX: usize = 2;

/// What a browser shows when it asks for a password.
const CHALLENGE: HeaderValue =
    HeaderValue::from_static("Basic realm=\"restricted\", charset=\"UTF-8\"");

/// Lets in who knows a password.
#[derive(Debug)]
pub(crate) struct Guard {
    users: Arc<AllowedUsers>,
    key: hmac::Key,
    remembered: Mutex<HashMap<[u8; 32], ()>>,
    computing: Semaphore,
}

impl Guard {
    /// # Errors
    /// Why it cannot tell who is let in.
    pub(crate) fn new(users: &AllowedUsers) -> Result<Self, String> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| "the system gives no random numbers".to_owned())?;
        Ok(Self::with(users.clone(), key))
    }

    /// Lets nobody in.
    pub(crate) fn closed() -> Self {
        Self::with(AllowedUsers::default(), hmac::Key::new(hmac::HMAC_SHA256, &[]))
    }

    fn with(users: AllowedUsers, key: hmac::Key) -> Self {
        Self {
            users: Arc::new(users),
            key,
            remembered: Mutex::default(),
            computing: Semaphore::new(COMPUTED_MAX),
        }
    }

    /// The field `WWW-Authenticate` for who is not let in.
    pub(crate) fn challenge() -> HeaderValue {
        CHALLENGE
    }

    /// Whether a request with this header is let in.
    pub(crate) async fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(given) = headers.get(header::AUTHORIZATION) else { return false };
        let digest = self.digest(given.as_bytes());
        if self.remembered().contains_key(&digest) {
            return true;
        }
        let Some((user, password)) = credentials(given) else { return false };
        let Ok(_permit) = self.computing.acquire().await else { return false };
        let users = Arc::clone(&self.users);
        let computed = tokio::task::spawn_blocking(move || is_right(&users, &user, &password));
        let is_right = computed.await.unwrap_or(false);
        if is_right {
            let mut remembered = self.remembered();
            if remembered.len() >= REMEMBERED_MAX {
                remembered.clear();
            }
            remembered.insert(digest, ());
        }
        is_right
    }

    fn digest(&self, given: &[u8]) -> [u8; 32] {
        let tag = hmac::sign(&self.key, given);
        tag.as_ref().try_into().expect("HMAC-SHA-256 has 32 bytes")
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], ()>> {
        self.remembered.lock().expect("nothing panics while it holds the lock")
    }
}

/// User and password of the field `Authorization`.
fn credentials(given: &HeaderValue) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = given.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = data_encoding::BASE64.decode(encoded.trim().as_bytes()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((user, decoded[colon + 1..].to_vec()))
}

/// Takes the same time whether there is such a user or not.
fn is_right(users: &AllowedUsers, user: &str, password: &[u8]) -> bool {
    let users = users.as_map();
    let known = UserName::new(user).ok().and_then(|user| users.get(&user));
    let (hash, exists) = match (known, users.values().next()) {
        (Some(hash), _) => (hash, true),
        (None, Some(other)) => (other, false),
        (None, None) => return false,
    };
    verify(hash, password) && exists
}

fn verify(hash: &PasswordHash, password: &[u8]) -> bool {
    let Some(rounds) = NonZeroU32::new(hash.rounds()) else { return false };
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::verify(algorithm, rounds, hash.salt(), password, &hash.hash()).is_ok()
}
