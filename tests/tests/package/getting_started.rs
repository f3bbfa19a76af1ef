//! What `docs/getting-started.md` says is done, line by line, on three machines; then their packages are replaced under load.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use jaco_testkit::ran;

use crate::built::{Built, built};
use crate::clients::Clients;
use crate::debian::Debian;
use crate::guide::{Place, Step, steps};
use crate::image;
use crate::machine::{Machine, Network};
use crate::place::{COUNT, Places, carry, type_line};
use crate::scratch;

/// What is known of a line of the page.
struct Known {
    line: &'static str,
    purpose: Purpose,
    /// What is typed when it asks.
    answers: &'static str,
    /// What is seen then.
    shows: &'static [&'static str],
}

/// What a line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Without it nothing answers in the end.
    Needed,
    /// It looks at what was done, or does something else.
    Further,
}

const fn needed(
    line: &'static str,
    answers: &'static str,
    shows: &'static [&'static str],
) -> Known {
    Known { line, purpose: Purpose::Needed, answers, shows }
}

const fn further(line: &'static str, shows: &'static [&'static str]) -> Known {
    Known { line, purpose: Purpose::Further, answers: "", shows }
}

/// All lines of the page. One that is missing here is not known to work.
const KNOWN: [Known; 23] = [
    needed(
        "apt-get install --no-install-recommends docker.io nftables ./jaco_*_amd64.deb ./jacod_*_amd64.deb",
        "y\n",
        &["Setting up docker.io", "Setting up jacod"],
    ),
    needed("jacod setup", "\n\n\n", &["Started         jacod, jacod-net, jacod-edge"]),
    further(
        "jacod setup --advertise 10.0.0.1:7000 --label zone=a --start",
        &["Started         jacod, jacod-net, jacod-edge"],
    ),
    needed(
        "jaco cluster init --name home --save-token home.token --ca-file home.crt",
        "",
        &["the cluster's, pool 10.64.0.0/12", "in home.token", "JACO_JOIN_TOKEN=jt1."],
    ),
    needed("JACO_JOIN_TOKEN=jt1.… jaco cluster join 10.0.0.1:7000", "", &["joined cluster home"]),
    further("jaco node ls", &["n1 ", "n2 ", "n3 ", "10.0.0.3:7000"]),
    further("jaco cluster status", &["home (", "Leader      n1"]),
    needed("jaco apply compose.yaml", "", &["created: 3 replicas running"]),
    further("jaco status", &["hello/web", "*:8080→80/tcp"]),
    further("jaco logs hello/web", &["\"GET / HTTP/1.1\" 200"]),
    further("jaco exec hello/web -- nginx -v", &["nginx version"]),
    needed("curl http://10.0.0.2:8080/", "", &["Welcome to nginx!"]),
    further("jaco validate", &["hello is valid: 1 service"]),
    further("jaco apply --dry-run", &["hello-web-"]),
    further("jaco apply", &["2 replicas running"]),
    further("jaco compose support", &["healthcheck"]),
    further(
        "jaco token issue ann --role operator --save-token ann.token",
        &["the token is in ann.token"],
    ),
    further(
        "jaco --server 10.0.0.1:7000,10.0.0.2:7000 --ca-cert home.crt --token-file ann.token status",
        &["hello/web"],
    ),
    further(
        "jaco context set home --servers 10.0.0.1:7000,10.0.0.2:7000 --ca home.crt --token ann.token",
        &["home"],
    ),
    further("jaco context use home", &["home"]),
    further("tar -xzf jaco-*-linux-amd64.tar.gz -C /usr/local --strip-components=1", &[]),
    further("systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload", &[]),
    further("install -D -m 600 /usr/local/share/doc/jaco/jacod.yaml /etc/jaco/jacod.yaml", &[]),
];

/// From a fresh Debian to a service that answers on three machines.
const COMMANDS: usize = 6;
const TIME: Duration = Duration::from_secs(60);

/// How long a node may be without its daemon while its packages are replaced.
const AWAY: Duration = Duration::from_secs(2);

/// How long a completion may take.
const COMPLETION: Duration = Duration::from_millis(50);

/// What was measured may take so many times as long here: the programs are not optimised, other tests run beside it, and all
/// machines share the processors of one.
const ALLOWANCE: u32 = 2;

/// R-OPS-1, R-CLI-6: every line of the guide does what it says where it says so, on three machines under systemd with engines of
/// their own; six commands lead from a fresh Debian to a service that answers. Then the packages of all nodes are replaced one
/// after the other, and no request from outside fails.
#[tokio::test(flavor = "multi_thread")]
async fn the_guide_is_followed_line_by_line() {
    let scratch = scratch::folder();
    let (debian, image) = thread::scope(|scope| {
        let image = scope.spawn(|| image::archive(scratch.path()));
        let debian = Debian::of_this_run();
        (debian, image.join().expect("it is made"))
    });
    let built = built();
    let places = Places::start(&debian).await;
    let mut reader = Reader::new(&places, &debian);
    for machine in &places.machines {
        for file in [built.deb("first", "jaco"), built.deb("first", "jacod"), image.clone()] {
            machine.bring(&file);
        }
    }
    for step in steps() {
        reader.follow(&step, built);
    }
    reader.starts_without_packages();

    complete_words(&places.machines[0]);
    replace_packages(&places, built);
    for name in ["jaco", "jacod"] {
        let size = built.deb("first", name).metadata().expect("it is there").len();
        figure(&format!("package {name}, not optimised and quickly compressed: {size} bytes"));
    }
}

/// R-OPS-1: no line is on the page that is not tried, and none is tried that is not there.
#[test]
fn every_line_of_the_guide_is_known() {
    let lines: Vec<_> = steps().into_iter().filter_map(typed).collect();
    let known: Vec<_> = lines.iter().map(|line| known(line).line).collect();
    let gone = KNOWN.iter().map(|known| known.line).filter(|line| !known.contains(line));
    assert_eq!(gone.collect::<Vec<_>>(), [""; 0], "these are not on the page");
}

fn typed(step: Step) -> Option<String> {
    match step {
        Step::Type { line, .. } | Step::TypeInstead { line, .. } => Some(line),
        Step::Write { .. } => None,
    }
}

/// Who follows the page.
struct Reader<'a> {
    places: &'a Places,
    debian: &'a Debian,
    /// The machine of who has no packages, once there is one.
    without_packages: Option<Machine>,
    /// What the first machine printed last, of which a part is pasted elsewhere.
    printed: String,
    /// How many commands were needed, and how long all of them took, until something answers.
    commands: usize,
    took: Duration,
    answered: bool,
}

impl<'a> Reader<'a> {
    fn new(places: &'a Places, debian: &'a Debian) -> Self {
        Self {
            places,
            debian,
            without_packages: None,
            printed: String::new(),
            commands: 0,
            took: Duration::ZERO,
            answered: false,
        }
    }

    fn follow(&mut self, step: &Step, built: &Built) {
        match step {
            Step::Write { place, name, text } => {
                assert_eq!(*place, Place::AnyMachine, "{name} is written where it is read");
                std::fs::write(self.any().path("/root").join(name), text).expect("written");
            }
            Step::Type { place, line } => {
                self.prepare(*place, built);
                let known = known(line);
                let begun = Instant::now();
                self.type_at(*place, line, known);
                self.count(known, begun.elapsed());
                self.download(known);
            }
            // One is enough: the others have answered the questions.
            Step::TypeInstead { line, .. } => {
                see(self.places.machines[0].command(), line, known(line));
            }
        }
    }

    /// What the page says in words: files are carried, or a machine is there.
    fn prepare(&mut self, place: Place, built: &Built) {
        match place {
            Place::OwnMachine => {
                for name in ["ann.token", "home.crt"] {
                    carry(&self.places.machines[0], name, self.places);
                }
            }
            Place::WithoutPackages if self.without_packages.is_none() => {
                let machine = Machine::start(self.debian, "n4", &Network::None);
                let files = built.files("first").into_iter();
                for file in files.filter(|file| file.to_string_lossy().ends_with(".tar.gz")) {
                    machine.bring(&file);
                }
                self.without_packages = Some(machine);
            }
            Place::EachMachine
            | Place::FirstMachine
            | Place::EachOther
            | Place::AnyMachine
            | Place::Outside
            | Place::WithoutPackages => {}
        }
    }

    fn type_at(&mut self, place: Place, line: &str, known: &Known) {
        let line = self.with_what_was_printed(line);
        let machines = match place {
            Place::EachMachine => &self.places.machines[..],
            Place::FirstMachine => &self.places.machines[..1],
            Place::EachOther => &self.places.machines[1..],
            Place::AnyMachine => std::slice::from_ref(self.any()),
            Place::WithoutPackages => self.without_packages.as_slice(),
            Place::Outside | Place::OwnMachine => {
                see(self.places.outside(), &line, known);
                return;
            }
        };
        // As by a user with a terminal for each.
        let seen: Vec<_> = thread::scope(|scope| {
            let typing: Vec<_> = machines
                .iter()
                .map(|machine| scope.spawn(|| see(machine.command(), &line, known)))
                .collect();
            typing.into_iter().map(|each| each.join().expect("it does as the page says")).collect()
        });
        self.printed = seen.into_iter().next().unwrap_or_default();
    }

    /// The page leaves out two things: the secret of a token, and what kind of processor there is.
    fn with_what_was_printed(&self, line: &str) -> String {
        let architecture = ran(Command::new("dpkg").arg("--print-architecture"));
        let line = line.replace("amd64", &architecture);
        let Some((before, after)) = line.split_once('…') else { return line };
        let pasted = self
            .printed
            .lines()
            .map(str::trim)
            .find(|printed| printed.starts_with(before) && printed.ends_with(after));
        pasted.unwrap_or_else(|| panic!("{line} is in {}", self.printed)).to_owned()
    }

    /// A machine that is not the first, so that it makes a difference.
    fn any(&self) -> &Machine {
        &self.places.machines[1]
    }

    fn count(&mut self, known: &Known, took: Duration) {
        if self.answered {
            return;
        }
        self.took += took;
        self.commands += usize::from(known.purpose == Purpose::Needed);
        figure(&format!("{:.1} s for {}", took.as_secs_f64(), known.line));
        self.answered = known.line == ANSWERED;
        if self.answered {
            let seconds = self.took.as_secs_f64();
            figure(&format!(
                "{} commands and {seconds:.1} s from a fresh Debian to a service of {COUNT} nodes that answers",
                self.commands
            ));
            assert!(self.commands <= COMMANDS, "{} commands", self.commands);
            assert!(self.took <= TIME * ALLOWANCE, "{seconds} s");
        }
    }

    /// What a machine with a registry would do by itself, once there is an engine.
    fn download(&self, known: &Known) {
        if known.line.starts_with("apt-get install") {
            for machine in &self.places.machines {
                machine.run(&["docker", "load", "--quiet", "--input", "/root/nginx.tar"]);
            }
        }
    }

    /// What was unpacked in place of packages can be started.
    fn starts_without_packages(&self) {
        let machine = self.without_packages.as_ref().expect("the page has a part for it");
        machine.run(&["jacod", "setup", "--advertise", "10.0.0.4:7000", "--no-start"]);
        machine.run(&["systemctl", "start", "jacod"]);
        assert_eq!(machine.unit("jacod", "ActiveState"), "active");
        assert!(machine.unit("jacod", "ExecStart").contains("/usr/local/bin/jacod"));
    }
}

/// The line after which something has answered.
const ANSWERED: &str = "curl http://10.0.0.2:8080/";

fn known(line: &str) -> &'static Known {
    let known = KNOWN.iter().find(|known| known.line == line);
    known.unwrap_or_else(|| panic!("nobody has said what is seen after {line:?}"))
}

/// Types a line, and looks for what the page promises.
fn see(shell: Command, line: &str, known: &Known) -> String {
    let seen = type_line(shell, line, known.answers);
    for part in known.shows {
        assert!(seen.contains(part), "{part:?} is not seen after {line}:\n{seen}");
    }
    seen
}

/// Words are completed with what the cluster has, in the time that nobody notices.
fn complete_words(machine: &Machine) {
    let mut times: Vec<_> = (0..11)
        .map(|_| {
            let mut complete = machine.command();
            complete.args(["JACO_COMPLETE=fish", "jaco", "--", "jaco", "logs", "hel"]);
            let begun = Instant::now();
            let words = ran(&mut complete);
            let took = begun.elapsed();
            assert!(words.lines().any(|word| word.starts_with("hello/web")), "{words}");
            took
        })
        .collect();
    times.sort();
    let median = times[times.len() / 2];
    figure(&format!("a completion in {} ms, the median of {}", median.as_millis(), times.len()));
    assert!(median <= COMPLETION * ALLOWANCE, "{times:?}");
}

/// All nodes get other packages, one after the other, while the service is asked through each of them.
fn replace_packages(places: &Places, built: &Built) {
    let containers = || -> Vec<_> {
        let list = ["docker", "ps", "--quiet", "--no-trunc"];
        places.machines.iter().map(|machine| machine.run(&list)).collect()
    };
    let before = containers();
    let clients = Clients::start(&places.outside_namespace(), &places.published());
    for (at, machine) in places.machines.iter().enumerate() {
        let files = ["jaco", "jacod"].map(|name| machine.bring(&built.deb("second", name)));
        let former = ["jacod", "jacod-net", "jacod-edge"].map(|unit| machine.unit(unit, "MainPID"));
        machine.run(&["apt-get", "install", "--yes", &files[0], &files[1]]);
        let own = ["jacod", "jacod-net", "jacod-edge"].map(|unit| machine.unit(unit, "MainPID"));
        assert!(own.iter().zip(&former).all(|(own, former)| own != former), "{own:?} {former:?}");
        let away = away(machine);
        figure(&format!("n{} without its daemon for {} ms", at + 1, away.as_millis()));
        assert!(away <= AWAY * ALLOWANCE, "{away:?}");
        // The next one has to wait until this one does its part again.
        let all = "test \"$(jaco node ls | grep -c ' ready .* serves ')\" = 3";
        machine.await_success(&["sh", "-c", all]);
        let answered = clients.answered();
        machine.eventually("every client is answered", || {
            (clients.answered() >= answered + 100).then_some(())
        });
    }
    let outcome = clients.end();
    figure(&format!(
        "{} requests answered, {} failed, the slowest after {} ms",
        outcome.answered,
        outcome.failures.len(),
        outcome.slowest.as_millis()
    ));
    assert_eq!(outcome.failures, [""; 0], "of {}", outcome.answered);
    assert_eq!(containers(), before, "containers go on");
}

/// How long the daemon was away when it was last restarted: from when it was told to stop until it answers.
fn away(machine: &Machine) -> Duration {
    let at = |property: &str| -> u64 {
        machine.unit("jacod", property).parse().expect("a number of microseconds")
    };
    let (stopped, answers) =
        (at("ActiveExitTimestampMonotonic"), at("ActiveEnterTimestampMonotonic"));
    Duration::from_micros(answers.checked_sub(stopped).expect("it was restarted"))
}

#[expect(clippy::print_stdout, reason = "figures are for who runs it")]
fn figure(text: &str) {
    println!("figure: {text}");
}
