//! A database of the cluster, with clients outside that write rows to it through every edge and read them all.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::eventually_within;
use jaco_testkit::root::Root;

use crate::growing_set::GrowingSet;
use crate::outside::Outside;

const IMAGE: &str = "jaco-database:v1";

/// Where the image has the programs of the database.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Makes the table before the database is reached from outside. Rows are on disk before they are acknowledged.
const DATABASE: &str = "#!/bin/sh
set -e
if [ ! -e /data/ready ]; then
  rm -rf /data/db
  initdb -D /data/db -A trust --no-locale -E UTF8
  echo 'host all all 0.0.0.0/0 trust' >> /data/db/pg_hba.conf
  echo 'create table rows (number bigint primary key)' | postgres --single -D /data/db postgres
  touch /data/ready
fi
exec postgres -D /data/db -c listen_addresses='*' -c unix_socket_directories=/tmp
";

const COMPOSE: &str = "
name: store
services:
  db:
    image: jaco-database:v1
    command: [/bin/database]
    user: '70:70'
    volumes: ['rows:/data']
    ports: ['5432:5432']
volumes:
  rows: {}
";

/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(300);

/// How long a client waits for an answer, in seconds.
const ANSWERED: &str = "10";

/// Rows and reads that have to come after a fault before all is well again.
const FURTHER: usize = 3;

/// The database and its clients, which go on until they are ended.
pub(crate) struct Database {
    root: Arc<Root>,
    stop: Arc<AtomicBool>,
    set: Arc<Mutex<GrowingSet>>,
    clients: Vec<JoinHandle<Result<(), String>>>,
}

impl Database {
    /// Gives all machines the image, applies the deployment, and starts the clients.
    pub(crate) async fn start(outside: &Outside) -> Self {
        let root = Arc::new(image());
        let path = format!("{PROGRAMS}:/usr/bin:/bin");
        for engine in &outside.machines.engines {
            root.import(&mut engine.command(&[]), IMAGE, &path);
        }
        outside.machines.apply(COMPOSE, None);
        let (stop, set) = (Arc::default(), Arc::default());
        let mut database = Self { root, stop, set, clients: Vec::new() };
        for at in 0..outside.machines.engines.len() {
            let client = Client {
                root: Arc::clone(&database.root),
                namespace: outside.machines.switch(),
                host: Outside::address(at).ip().to_string(),
            };
            let (stop, set) = (Arc::clone(&database.stop), Arc::clone(&database.set));
            database.clients.push(thread::spawn(move || client.run(&stop, &set)));
        }
        database.goes_on().await;
        database
    }

    fn done(&self) -> (usize, usize) {
        self.set.lock().expect("nobody panics").done()
    }

    /// Waits until more rows were acknowledged and read.
    pub(crate) async fn goes_on(&self) {
        let before = self.done();
        eventually_within(PATIENCE, "the database takes rows and is read", || async {
            let now = self.done();
            let more = now.0 >= before.0 + FURTHER && now.1 >= before.1 + FURTHER;
            let broken = self.clients.iter().any(JoinHandle::is_finished);
            if more || broken { Ok(()) } else { Err(format!("{before:?} -> {now:?}")) }
        })
        .await;
    }

    /// Rows that were acknowledged, and reads of all of them.
    ///
    /// # Panics
    /// When the history is not linearizable: a row was lost, or was read before it was written.
    pub(crate) fn end(mut self) -> (usize, usize) {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients.drain(..) {
            client.join().expect("clients do not panic").unwrap_or_else(|law| panic!("{law}"));
        }
        self.done()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// One that asks the edge of a machine.
struct Client {
    root: Arc<Root>,
    namespace: u32,
    host: String,
}

impl Client {
    fn run(&self, stop: &AtomicBool, set: &Mutex<GrowingSet>) -> Result<(), String> {
        let set = || set.lock().expect("nobody panics");
        while !stop.load(Ordering::SeqCst) {
            let number = set().begin();
            // A row whose answer was lost may be there, or come later; nobody else writes this number.
            let insert = format!("insert into rows values ({number})");
            if self.asked(&insert).status.success() {
                set().acknowledge(number, Instant::now());
            }
            let from = Instant::now();
            let read = self.asked("select number from rows");
            if read.status.success() {
                let text = String::from_utf8_lossy(&read.stdout);
                let seen: Result<BTreeSet<u64>, _> = text.lines().map(str::parse).collect();
                let seen = seen.map_err(|error| format!("{error}: {text}"))?;
                let spent = (from, Instant::now());
                set().read(spent, &seen).map_err(|law| format!("at {}: {law}", self.host))?;
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn asked(&self, statement: &str) -> Output {
        let mut command = Command::new("timeout");
        command.arg(ANSWERED).arg("nsenter").arg(format!("--net=/proc/{}/ns/net", self.namespace));
        self.root.inside(&mut command);
        command.arg(format!("{PROGRAMS}/psql")).env("PGCONNECT_TIMEOUT", "5").env("LC_ALL", "C");
        command.args(["-h", &self.host, "-U", "postgres", "-XqtAc", statement]);
        command.output().expect("timeout is there")
    }
}

fn image() -> Root {
    let root = Root::of(&["postgresql-15", "busybox-static"]);
    root.trim("postgresql");
    // Not every version of the package has it.
    let _gone = fs::remove_dir_all(root.path("usr/lib/postgresql/15/lib/bitcode")).is_err();
    fs::create_dir_all(root.path("data")).expect("written");
    chown(root.path("data"), Some(70), Some(70)).expect("we are root");
    let users = "root:x:0:0:root:/:/bin/sh\npostgres:x:70:70:postgres:/:/bin/sh\n";
    fs::write(root.path("etc/passwd"), users).expect("written");
    fs::write(root.path("etc/group"), "root:x:0:\npostgres:x:70:\n").expect("written");
    root.script("bin/database", DATABASE);
    root.applets(&["sh", "echo", "rm", "touch"]);
    root
}
