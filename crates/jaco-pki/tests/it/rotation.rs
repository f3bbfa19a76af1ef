//! Certificates and CAs replaced on live listeners, without a restart and without a failed dial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use jaco_pki::{CertificateStore, CredentialsError, DialError, Dialer, IdentityError, TrustBundle};

use jaco_types::NodeId;

use crate::support::{
    EchoServer, OTHER, OURS, authority, closes_cleanly, echoes, issue, now, store, trust, within,
};

#[tokio::test]
async fn a_renewed_certificate_serves_the_next_connection() {
    let ca = authority(OURS);
    let server_store = store(&ca, 1);
    let server = EchoServer::start(Arc::clone(&server_store)).await;
    let dialer = Dialer::peer(store(&ca, 2), NodeId(1));
    let mut before = dialer.connect(server.address).await.unwrap();

    server_store.swap(issue(&ca, 1, &trust(&ca), now())).unwrap();
    let after = dialer.connect(server.address).await.unwrap();
    assert_ne!(before.server().key_fingerprint(), after.server().key_fingerprint());
    assert_eq!(after.server().der(), server_store.certificate().der());
    assert!(echoes(&mut before).await, "a renewal disturbs nobody");
}

#[tokio::test]
async fn a_store_never_becomes_another_node() {
    let ca = authority(OURS);
    let own = store(&ca, 1);
    let error = own.swap(issue(&ca, 2, &trust(&ca), now())).unwrap_err();
    assert!(matches!(error, CredentialsError::AnotherNode { .. }), "{error:?}");
    let other = authority(OTHER);
    let error = own.swap(issue(&other, 1, &trust(&other), now())).unwrap_err();
    assert!(matches!(error, CredentialsError::AnotherNode { .. }), "{error:?}");
}

/// The three phases of a CA rotation while both sides dial without pause: trust both, re-issue
/// all, drop the old one. No dial fails in between, and at the end the old CA is worth nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ca_rotation_under_load_fails_no_dial() {
    let (old, new) = (authority(OURS), authority(OURS));
    let both =
        TrustBundle::new(vec![old.certificate().clone(), new.certificate().clone()]).unwrap();
    let stores = [store(&old, 1), store(&old, 2)];
    let left_behind = store(&old, 3);
    let servers = [
        EchoServer::start(Arc::clone(&stores[0])).await,
        EchoServer::start(Arc::clone(&stores[1])).await,
    ];
    let load = Load::start(&stores, &servers);
    let mut opened_before = Dialer::peer(Arc::clone(&left_behind), NodeId(1))
        .connect(servers[0].address)
        .await
        .unwrap();
    assert!(echoes(&mut opened_before).await);

    let phases = [(&old, &both), (&new, &both), (&new, &trust(&new))];
    for (authority, bundle) in phases {
        for (store, node) in stores.iter().zip([1, 2]) {
            load.wait_for_more(20).await;
            store.swap(issue(authority, node, bundle, now())).unwrap();
        }
    }
    load.wait_for_more(20).await;
    load.stop().await;

    let error = Dialer::peer(left_behind, NodeId(1)).connect(servers[0].address).await.unwrap_err();
    assert!(matches!(error, DialError::Server(IdentityError::ForeignAuthority)), "{error:?}");
    // What was opened under the old CA stays until it is closed; what was opened under the new one stays.
    assert!(echoes(&mut opened_before).await);
    let mut opened_after =
        Dialer::peer(Arc::clone(&stores[1]), NodeId(1)).connect(servers[0].address).await.unwrap();
    assert!(echoes(&mut opened_after).await);
    assert!(servers[0].connections.close_distrusted(&stores[0]) >= 1);
    closes_cleanly(&mut opened_before).await;
    assert!(echoes(&mut opened_after).await, "it is the new one's");
}

/// A dialer knows which of its connections were opened with a certificate of the old CA, at either end, and can end them.
#[tokio::test]
async fn a_dialer_knows_its_connections_of_the_old_ca() {
    let (old, new) = (authority(OURS), authority(OURS));
    let both =
        TrustBundle::new(vec![new.certificate().clone(), old.certificate().clone()]).unwrap();
    let stores = [store(&old, 1), store(&old, 2)];
    let server = EchoServer::start(Arc::clone(&stores[0])).await;
    for (store, node) in stores.iter().zip([1, 2]) {
        store.swap(issue(&old, node, &both, now())).unwrap();
    }
    let signer = new.certificate().fingerprint();
    let outdated = || stores[1].outgoing().not_of(signer);
    let dialer = Dialer::peer(Arc::clone(&stores[1]), NodeId(1));
    let dial = async || {
        let mut connection = dialer.connect(server.address).await.unwrap();
        assert!(echoes(&mut connection).await);
        connection
    };
    let both_old = dial().await;
    stores[1].swap(issue(&new, 2, &both, now())).unwrap();
    assert_eq!((stores[1].signer(), stores[0].signer()), (signer, old.certificate().fingerprint()));
    let mut to_old = dial().await;
    assert_eq!(outdated().len(), 2, "one end is enough");
    stores[0].swap(issue(&new, 1, &both, now())).unwrap();
    let mut new_ones = dial().await;
    assert_eq!(outdated().len(), 2);
    drop(both_old);
    let [left] = outdated()[..] else { panic!("{:?}", outdated()) };
    assert_eq!(left.node, Some(NodeId(1)));
    stores[1].outgoing().close(left);
    closes_cleanly(&mut to_old).await;
    drop(to_old);
    assert!(outdated().is_empty());
    assert!(echoes(&mut new_ones).await);
}

/// Dials in both directions, over and over, counting.
struct Load {
    done: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Result<(), DialError>>>,
}

impl Load {
    fn start(stores: &[Arc<CertificateStore>; 2], servers: &[EchoServer; 2]) -> Self {
        let done = Arc::new(AtomicUsize::new(0));
        let stopped = Arc::new(AtomicBool::new(false));
        let directions = [(0, 1, 2), (1, 0, 1)];
        let tasks = directions.map(|(from, to, target)| {
            let dialer = Dialer::peer(Arc::clone(&stores[from]), NodeId(target));
            let (address, done, stopped) =
                (servers[to].address, Arc::clone(&done), Arc::clone(&stopped));
            tokio::spawn(async move {
                while !stopped.load(Ordering::Relaxed) {
                    let mut connection = dialer.connect(address).await?;
                    assert!(echoes(&mut connection).await, "the server refused its peer");
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        });
        Self { done, stopped, tasks: tasks.into() }
    }

    async fn wait_for_more(&self, dials: usize) {
        let goal = self.done.load(Ordering::Relaxed) + dials;
        let reached = async {
            while self.done.load(Ordering::Relaxed) < goal {
                assert!(self.tasks.iter().all(|task| !task.is_finished()), "a dial failed");
                tokio::task::yield_now().await;
            }
        };
        within(reached).await;
    }

    async fn stop(self) {
        self.stopped.store(true, Ordering::Relaxed);
        for task in self.tasks {
            within(task).await.unwrap().unwrap();
        }
    }
}
