//! Orders the certificates of routes with `tls: auto` while this node leads (0112). What is ordered, when and how is for
//! `jaco-acme` to say: this shows it the records of the state, and writes down what it notes. It decides nothing.
//!
//! ```text
//! records  what the state says of domains, certificates and failed orders, with the key of the account opened
//! board    notes as entries of the log, with keys sealed
//! edges    waits until the edges answer a challenge
//! ```

mod board;
mod edges;
mod records;

use std::sync::Arc;

use jaco_acme::{Authority, CertificateController, Records};
use jaco_server::Member;
use jaco_store::Store;
use jaco_types::ClusterId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::leading::while_leading;

use board::StateBoard;
use records::RecordBook;

/// The loop around the leaderships of this node.
pub(crate) struct OrderLoop {
    member: Arc<Member>,
    cluster: ClusterId,
    authority: Authority,
}

impl OrderLoop {
    /// `authority` is whom this node orders from when it leads.
    pub(crate) fn new(member: Arc<Member>, cluster: ClusterId, authority: Authority) -> Self {
        Self { member, cluster, authority }
    }

    /// Runs until it is dropped. Orders of a leadership end with it: whoever leads next begins them again.
    pub(crate) async fn run(self) {
        while_leading(&self.member, || self.lead()).await;
    }

    /// Orders until it is dropped.
    async fn lead(&self) {
        if let Err(refusal) = self.member.key() {
            error!(code = %refusal.code, reason = %refusal.message, "no certificate is ordered");
            // This leadership is handed on.
            return std::future::pending().await;
        }
        let keks = self.member.cluster_key.ring().clone();
        let book = RecordBook::new(keks, self.cluster.clone());
        let board = Arc::new(StateBoard::new(Arc::clone(&self.member)));
        let clock = Arc::clone(&self.member.clock);
        let controller = CertificateController::new(board, self.authority.clone(), clock);
        let (records, seen) = watch::channel(Arc::default());
        tokio::select! {
            () = self.follow(book, &records) => {}
            () = controller.run(seen, CancellationToken::new()) => {}
        }
    }

    /// Shows each state's records, until the store has stopped.
    async fn follow(&self, mut book: RecordBook, records: &watch::Sender<Arc<Records>>) {
        let mut index = self.member.store.watch_index();
        loop {
            index.borrow_and_update();
            if let Some(news) = self.member.store.read(|state| book.next(state)) {
                records.send_replace(news);
            }
            if index.changed().await.is_err() {
                return;
            }
        }
    }
}
