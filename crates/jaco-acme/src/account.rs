//! The account at the authority: the recorded one, or a new one where there is none or the authority has lost it.

use std::sync::Arc;

use instant_acme::{Account, NewAccount};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::sync::Mutex;
use tracing::{info, warn};
use zeroize::Zeroizing;

use crate::authority::Authority;
use crate::failure::Failure;
use crate::records::{AccountRecord, Board, Note};
use crate::wire::Wire;

/// The account that all orders share. One order at a time opens it, so that none makes a second one.
pub(crate) struct Accounts<B> {
    authority: Arc<Authority>,
    board: Arc<B>,
    open: Mutex<Option<Account>>,
}

/// Which account an order wants.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// Whichever there is.
    Any,
    /// Another than the one with this address: the authority does not know it.
    OtherThan(&'a str),
}

impl Wanted<'_> {
    fn admits(self, url: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OtherThan(lost) => lost != url,
        }
    }
}

impl<B: Board> Accounts<B> {
    pub(crate) fn new(authority: Arc<Authority>, board: Arc<B>) -> Self {
        Self { authority, board, open: Mutex::default() }
    }

    /// The account, opened by what is recorded of it, or made and recorded.
    pub(crate) async fn open(
        &self,
        record: Option<&AccountRecord>,
        wanted: Wanted<'_>,
    ) -> Result<Account, Failure> {
        let mut open = self.open.lock().await;
        if let Some(account) = open.as_ref().filter(|account| wanted.admits(account.id())) {
            return Ok(account.clone());
        }
        let is_usable = |record: &&AccountRecord| {
            record.directory == self.authority.directory && wanted.admits(&record.url)
        };
        let account = match record.filter(is_usable) {
            Some(record) => self.load(record).await?,
            None => self.create().await?,
        };
        *open = Some(account.clone());
        Ok(account)
    }

    /// Has the next order read the directory again.
    pub(crate) async fn close(&self) {
        *self.open.lock().await = None;
    }

    async fn load(&self, record: &AccountRecord) -> Result<Account, Failure> {
        let builder = Account::builder_with_http(Box::new(Wire::new(&self.authority.roots)?));
        let key = PrivatePkcs8KeyDer::from(record.key.as_slice());
        let directory = record.directory.clone();
        Ok(builder.from_parts(record.url.clone(), key, directory).await?)
    }

    async fn create(&self) -> Result<Account, Failure> {
        let builder = Account::builder_with_http(Box::new(Wire::new(&self.authority.roots)?));
        let contact: Vec<&str> = self.authority.contact.as_deref().into_iter().collect();
        let wanted = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let directory = self.authority.directory.clone();
        let (account, credentials) = builder.create(&wanted, directory.clone(), None).await?;
        let key = Zeroizing::new(credentials.private_key().secret_pkcs8_der().to_vec());
        let record = AccountRecord { directory, url: account.id().to_owned(), key };
        if let Err(error) = self.board.note(Note::Account(record)).await {
            warn!(account = account.id(), %error, "account at the authority was not recorded");
            return Err(error.into());
        }
        info!(account = account.id(), "account at the authority made");
        Ok(account)
    }
}
