//! This node's certificate and the authorities that it trusts: on disk first, then in use. Renews the certificate at half
//! its lifetime, over the connection that it secures.

use std::sync::Arc;
use std::time::Duration;

use jaco_pki::{CertificateStore, Credentials, IdentityDir, TrustBundle, ca};
use jaco_proto::v1::RenewCertificateRequest;
use jaco_server::Member;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Interval of checks; half a lifetime is days.
const INTERVAL: Duration = Duration::from_secs(600);

/// Pause before a failed renewal is retried. After a start there is no leader yet, and an expired
/// certificate keeps operators out.
const RETRY: Duration = Duration::from_secs(2);

/// Changes the credentials of this node. Clones are the same, and make one change at a time.
#[derive(Clone)]
pub(crate) struct Renewer {
    member: Arc<Member>,
    store: Arc<CertificateStore>,
    identity: IdentityDir,
    changing: Arc<Mutex<()>>,
}

impl Renewer {
    pub(crate) fn new(
        member: Arc<Member>,
        store: Arc<CertificateStore>,
        identity: IdentityDir,
    ) -> Self {
        Self { member, store, identity, changing: Arc::default() }
    }

    /// Has the leader sign a new certificate for the key in use, and trusts what the leader trusts.
    pub(crate) async fn renew(&self) -> anyhow::Result<()> {
        let _changing = self.changing.lock().await;
        let member = &self.member;
        let key = self.identity.key_in_use()?;
        // The leader renews its own through the same checks, with the same audit event.
        let own =
            member.store.read(|state| state.nodes.get(&member.id).map(|node| node.address.clone()));
        let own = own.map(|address| (member.id, address));
        let leader = if member.store.leads() { own } else { member.store.leader_elsewhere() };
        let (node, address) = leader.ok_or_else(|| anyhow::anyhow!("there is no leader to ask"))?;
        let request = RenewCertificateRequest { csr_der: key.request().into() };
        let peer = member.peers.peer(node, &address);
        let answer = peer.clone().renew_certificate(request).await?.into_inner();
        let trust = TrustBundle::from_pem(&answer.ca_certificate_pem)?;
        let certificate = ca::certificate_from_pem(&answer.certificate_pem);
        let certificate =
            certificate.ok_or_else(|| anyhow::anyhow!("the answer holds no certificate"))?;
        // Checked before it is stored: what this node would not believe itself must not replace what it has.
        let now = member.clock.now();
        let credentials = Credentials::new(key, certificate.clone(), trust.clone(), now)?;
        self.identity.install(&certificate, &trust)?;
        self.store.swap(credentials)?;
        Ok(())
    }

    /// Trusts these authorities and no other, with the certificate in use.
    pub(crate) async fn trust(&self, pem: &str) -> anyhow::Result<()> {
        let _changing = self.changing.lock().await;
        let key = self.identity.key_in_use()?;
        let trust = TrustBundle::from_pem(pem)?;
        let certificate = self.store.certificate().der().clone();
        let now = self.member.clock.now();
        let credentials = Credentials::new(key, certificate.clone(), trust.clone(), now)?;
        self.identity.install(&certificate, &trust)?;
        self.store.swap(credentials)?;
        Ok(())
    }
}

/// Runs until `shutdown`.
pub(crate) async fn run(renewer: Renewer, shutdown: CancellationToken) {
    let Renewer { member, store, .. } = &renewer;
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let now = member.clock.now();
        let validity = store.certificate().validity();
        if validity.contains(now) && now < validity.renew_at(member.id) {
            pause = INTERVAL;
            continue;
        }
        pause = match renewer.renew().await {
            Ok(()) => {
                info!("certificate renewed");
                INTERVAL
            }
            Err(error) => {
                warn!(error = format!("{error:#}"), "certificate renewal failed, will retry");
                (2 * pause).clamp(RETRY, INTERVAL)
            }
        };
    }
}
