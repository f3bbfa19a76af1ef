//! The edge's end: it listens for the router, hands back what it has, and takes what it gets.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use jaco_dataplane::edge::ListenerKey;
use rustix::net::{SocketAddrUnix, bind, listen};
use tokio::net::{UnixListener, UnixStream};
use tracing::{info, warn};

use super::record::{Channel, Record, unix_socket};

/// Routers that wait: there is one, and perhaps its successor.
const BACKLOG: i32 = 4;

/// After an error that is not about one connection.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// Where an edge gets its listeners from the router of its site.
///
/// It keeps a copy of each, to hand it back to a router that was started again. Whoever stops using a socket before
/// [`Event::Drop`] says so leaves connections waiting in it.
#[derive(Debug)]
pub struct Inbox {
    listener: UnixListener,
    router: Option<Router>,
    held: BTreeMap<ListenerKey, OwnedFd>,
}

/// What the router says.
#[derive(Debug)]
pub enum Event {
    /// A listening socket to use from now on, which does not block. One of the same key that was used before is
    /// replaced by it.
    Take(ListenerKey, OwnedFd),
    /// The plan has this listener no more: it is to be closed, with all copies.
    Drop(ListenerKey),
}

/// A connection of a router.
#[derive(Debug)]
struct Router {
    channel: Channel,
    /// What is not handed back yet; afterwards that this was all.
    to_hand_back: VecDeque<Record>,
}

impl Inbox {
    /// Listens at a path, in the place of an edge that did before: from then on the router speaks with this one. To be
    /// called in a tokio runtime. The folder must be open to the router's user, as `0711` is.
    ///
    /// # Errors
    /// If no socket can be made in the folder.
    pub fn listen(path: &Path) -> io::Result<Self> {
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let socket = unix_socket()?;
        bind(&socket, &SocketAddrUnix::new(&new)?)?;
        // The router's process may be root without the right to pass by permissions. Who connects is asked below.
        fs::set_permissions(&new, Permissions::from_mode(0o666))?;
        listen(&socket, BACKLOG)?;
        let listener = UnixListener::from_std(socket.into())?;
        // At once: at no moment is there none.
        fs::rename(&new, path)?;
        Ok(Self { listener, router: None, held: BTreeMap::new() })
    }

    /// Has these handed back to the router that comes, as this process uses them already.
    #[must_use]
    pub fn holding(mut self, sockets: impl IntoIterator<Item = (ListenerKey, OwnedFd)>) -> Self {
        self.held.extend(sockets);
        self
    }

    /// Whether there is a router that was handed back all sockets: it has copies for an edge that takes the place of this
    /// one.
    pub fn is_in_step(&self) -> bool {
        self.router.as_ref().is_some_and(|router| router.to_hand_back.is_empty())
    }

    /// The next thing that the router says. It can be given up at any time, and nothing is lost.
    pub async fn next(&mut self) -> Event {
        loop {
            let Some(router) = &mut self.router else {
                self.router = Some(accept(&self.listener, &self.held).await);
                continue;
            };
            let happened = tokio::select! {
                new = accept(&self.listener, &self.held) => Happened::Came(new),
                sent = hand_back(router, &self.held) => Happened::HandedBack(sent),
                heard = router.channel.receive() => Happened::Said(heard),
            };
            match happened {
                // There is one router at a time: the one before has ended.
                Happened::Came(new) => self.router = Some(new),
                Happened::HandedBack(Ok(())) => drop(router.to_hand_back.pop_front()),
                Happened::Said(Ok(Some((Record::Take(key), Some(socket))))) => {
                    self.keep(key, &socket);
                    return Event::Take(key, socket);
                }
                Happened::Said(Ok(Some((Record::Drop(key), None)))) => {
                    self.held.remove(&key);
                    return Event::Drop(key);
                }
                Happened::Said(Ok(None)) => {
                    info!("router is gone: its sockets stay in use");
                    self.router = None;
                }
                Happened::Said(Ok(Some((record, _)))) => {
                    warn!(?record, "router said something out of turn: connection ended");
                    self.router = None;
                }
                Happened::HandedBack(Err(error)) | Happened::Said(Err(error)) => {
                    warn!(%error, "connection to the router ended");
                    self.router = None;
                }
            }
        }
    }

    /// Without a copy there is nothing to hand back, and the router opens the port again once this edge has ended.
    fn keep(&mut self, key: ListenerKey, socket: &OwnedFd) {
        match socket.try_clone() {
            Ok(copy) => drop(self.held.insert(key, copy)),
            Err(error) => warn!(%error, listener = %key, "no copy of a listener is kept"),
        }
    }
}

/// What ends a wait.
enum Happened {
    Came(Router),
    HandedBack(io::Result<()>),
    Said(io::Result<Option<(Record, Option<OwnedFd>)>>),
}

/// The next connection of a router.
async fn accept(listener: &UnixListener, held: &BTreeMap<ListenerKey, OwnedFd>) -> Router {
    loop {
        let accepted = listener.accept().await;
        match accepted.and_then(|(socket, _)| may_connect(&socket).map(|may| (socket, may))) {
            Ok((socket, true)) => {
                let records = held.keys().map(|key| Record::HandBack(*key));
                let to_hand_back = records.chain([Record::End]).collect();
                return Router { channel: Channel::new(socket), to_hand_back };
            }
            Ok((_, false)) => warn!("connection of another user refused"),
            Err(error) => {
                warn!(%error, "connection not accepted");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

/// Root and the edge's own user may say what it listens on.
fn may_connect(socket: &UnixStream) -> io::Result<bool> {
    let own = rustix::process::geteuid().as_raw();
    Ok([0, own].contains(&socket.peer_cred()?.uid()))
}

/// Hands back what is next; never ends once there is nothing left.
async fn hand_back(router: &Router, held: &BTreeMap<ListenerKey, OwnedFd>) -> io::Result<()> {
    let Some(record) = router.to_hand_back.front() else { return std::future::pending().await };
    let socket = match record {
        Record::HandBack(key) => match held.get(key) {
            Some(socket) => Some(socket.as_fd()),
            // It was dropped meanwhile.
            None => return Ok(()),
        },
        Record::Take(_) | Record::Drop(_) | Record::End => None,
    };
    router.channel.send(*record, socket).await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;
    use std::sync::Arc;

    use jaco_dataplane::edge::Transport;
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::super::listeners::Listeners;
    use super::super::outbox::hand_over;
    use super::super::socket;
    use super::super::socket::tests::key;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A path in a folder that ends with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let folder = format!("jaco-inbox-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn path(&self) -> PathBuf {
            self.0.join("listeners")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    /// A router with its connection to the edge, which ends with it.
    struct TestRouter {
        listeners: Arc<Listeners>,
        task: JoinHandle<()>,
    }

    impl TestRouter {
        /// It has spoken with an edge, if there is one.
        async fn start(path: PathBuf) -> Self {
            let listeners = Arc::new(Listeners::default());
            let own = Arc::clone(&listeners);
            let (first, spoken) = oneshot::channel();
            let task = tokio::spawn(async move { hand_over(&path, &own, first).await });
            spoken.await.unwrap();
            Self { listeners, task }
        }

        fn hold(&self, keys: &[ListenerKey]) {
            let (planned, open) =
                (BTreeSet::from_iter(keys.iter().copied()), self.listeners.opened());
            self.listeners.plan(&planned);
            self.listeners.close(&open.difference(&planned).copied().collect());
            self.listeners.open(&planned);
            assert_eq!(self.listeners.opened(), planned);
        }
    }

    impl Drop for TestRouter {
        fn drop(&mut self) {
            self.task.abort();
        }
    }

    async fn taken(inbox: &mut Inbox) -> (ListenerKey, OwnedFd) {
        match timeout(PATIENCE, inbox.next()).await.unwrap() {
            Event::Take(key, socket) => (key, socket),
            Event::Drop(key) => panic!("{key} was dropped"),
        }
    }

    async fn dropped(inbox: &mut Inbox) -> ListenerKey {
        match timeout(PATIENCE, inbox.next()).await.unwrap() {
            Event::Take(key, _) => panic!("{key} was handed over"),
            Event::Drop(key) => key,
        }
    }

    /// What is said within a time that is long for a socket.
    async fn silence(inbox: &mut Inbox) {
        let said = timeout(Duration::from_millis(500), inbox.next()).await;
        assert!(said.is_err(), "{said:?}");
    }

    /// From the first plan to its end: what comes is handed over, what goes is dropped, and closed at both ends.
    #[tokio::test]
    async fn listeners_follow_the_plan() {
        let place = Place::new("plan");
        let mut inbox = Inbox::listen(&place.path()).unwrap();
        let (router, [first, second]) =
            (TestRouter::start(place.path()), [key(Transport::Tcp), key(Transport::Udp)]);
        let (router, ()) = tokio::join!(router, silence(&mut inbox));
        router.hold(&[first]);
        let (key, socket) = taken(&mut inbox).await;
        assert_eq!(key, first);
        assert!(socket::verify(first, &socket).is_ok());
        router.hold(&[first, second]);
        assert_eq!(taken(&mut inbox).await.0, second);
        router.hold(&[second]);
        assert_eq!(dropped(&mut inbox).await, first);
        drop(socket);
        socket::open(first).expect("it is closed at both ends");
        silence(&mut inbox).await;
    }

    /// A router that starts again has the sockets of the edge, and closes what its plan has no more.
    #[tokio::test]
    async fn a_router_takes_over_what_the_edge_has() {
        let place = Place::new("router");
        let mut inbox = Inbox::listen(&place.path()).unwrap();
        let keys = [key(Transport::Tcp), key(Transport::Udp), key(Transport::Tcp)];
        let (router, ()) = tokio::join!(TestRouter::start(place.path()), silence(&mut inbox));
        router.hold(&keys);
        let mut numbers = BTreeMap::new();
        for _ in keys {
            let (key, socket) = taken(&mut inbox).await;
            numbers.insert(key, socket::number(&socket).unwrap());
        }
        drop(router);
        let (router, ()) = tokio::join!(TestRouter::start(place.path()), silence(&mut inbox));
        let open = router.listeners.sockets();
        let again: BTreeMap<_, _> = open.iter().map(|(key, open)| (*key, open.number)).collect();
        assert_eq!(again, numbers);
        drop(open);
        router.hold(&keys[..2]);
        assert_eq!(dropped(&mut inbox).await, keys[2]);
        silence(&mut inbox).await;
    }

    /// An edge that listens once more, as nobody came to take its place, hands back what it uses to a router that came
    /// meanwhile.
    #[tokio::test]
    async fn an_edge_that_listens_again_has_what_it_uses() {
        let place = Place::new("again");
        let keys = [key(Transport::Tcp)];
        let mut first = Inbox::listen(&place.path()).unwrap();
        let (router, ()) = tokio::join!(TestRouter::start(place.path()), silence(&mut first));
        router.hold(&keys);
        let (key, socket) = taken(&mut first).await;
        let used = socket::number(&socket).unwrap();
        drop((router, first));
        let mut second = Inbox::listen(&place.path()).unwrap().holding([(key, socket)]);
        let (router, ()) = tokio::join!(TestRouter::start(place.path()), silence(&mut second));
        assert_eq!(router.listeners.sockets()[&key].number, used);
        assert!(second.is_in_step());
    }

    /// Before an edge has what a router opens, it waits; the next edge gets all of it at once, and the one before hears
    /// nothing more.
    #[tokio::test]
    async fn each_new_edge_gets_everything() {
        let place = Place::new("edge");
        let keys = [key(Transport::Tcp), key(Transport::Udp)];
        let router = TestRouter::start(place.path()).await;
        router.hold(&keys);
        let mut first = Inbox::listen(&place.path()).unwrap();
        let got = [taken(&mut first).await, taken(&mut first).await];
        let mut second = Inbox::listen(&place.path()).unwrap();
        let (again, ()) = tokio::join!(
            async { [taken(&mut second).await, taken(&mut second).await] },
            silence(&mut first),
        );
        for ((key, one), (same, other)) in got.iter().zip(&again) {
            assert_eq!(key, same);
            assert_eq!(socket::number(one).unwrap(), socket::number(other).unwrap());
        }
        router.hold(&keys[..1]);
        assert_eq!(dropped(&mut second).await, keys[1]);
        silence(&mut first).await;
    }

    /// A socket that is not what its key says is taken from the edge, which gets another one.
    #[tokio::test]
    async fn a_wrong_socket_is_replaced() {
        let place = Place::new("wrong");
        let mut inbox = Inbox::listen(&place.path()).unwrap();
        let [planned, other] = [key(Transport::Tcp), key(Transport::Tcp)];
        inbox.held.insert(planned, socket::open(other).unwrap());
        let start = async {
            let router = TestRouter::start(place.path()).await;
            router.hold(&[planned]);
            router
        };
        let (router, gone) = tokio::join!(start, dropped(&mut inbox));
        assert_eq!((gone, router.listeners.missing()), (planned, BTreeMap::new()));
        let (key, socket) = taken(&mut inbox).await;
        assert_eq!(key, planned);
        assert!(socket::verify(planned, &socket).is_ok());
    }
}
