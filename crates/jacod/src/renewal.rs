//! Renews this node's certificate at half its lifetime, over the connection that it secures.

use std::sync::Arc;
use std::time::Duration;

use jaco_pki::{CertificateStore, Credentials, IdentityDir, TrustBundle, ca};
use jaco_proto::v1::RenewCertificateRequest;
use jaco_server::Member;
use jaco_types::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Interval of checks; half a lifetime is days.
const INTERVAL: Duration = Duration::from_secs(600);

/// Pause before a failed renewal is retried. After a start there is no leader yet, and an expired
/// certificate keeps operators out.
const RETRY: Duration = Duration::from_secs(2);

/// Runs until `shutdown`.
pub(crate) async fn run(
    member: Arc<Member>,
    store: Arc<CertificateStore>,
    identity: IdentityDir,
    shutdown: CancellationToken,
) {
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
        pause = match renew(&member, &store, &identity, now).await {
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

async fn renew(
    member: &Member,
    store: &CertificateStore,
    identity: &IdentityDir,
    now: Timestamp,
) -> anyhow::Result<()> {
    let key = identity.key_in_use()?;
    // The leader renews its own through the same checks, with the same audit event.
    let own =
        member.store.read(|state| state.nodes.get(&member.id).map(|node| node.address.clone()));
    let own = own.map(|address| (member.id, address));
    let leader = if member.store.leads() { own } else { member.store.leader_elsewhere() };
    let (node, address) = leader.ok_or_else(|| anyhow::anyhow!("there is no leader to ask"))?;
    let request = RenewCertificateRequest { csr_der: key.request().into() };
    let answer = member.peers.peer(node, &address).renew_certificate(request).await?.into_inner();
    let trust = TrustBundle::from_pem(&answer.ca_certificate_pem)?;
    let certificate = ca::certificate_from_pem(&answer.certificate_pem);
    let certificate =
        certificate.ok_or_else(|| anyhow::anyhow!("the answer holds no certificate"))?;
    identity.install(&certificate, &trust)?;
    store.swap(Credentials::new(key, certificate, trust, now)?)?;
    Ok(())
}
