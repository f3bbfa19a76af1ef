//! Compose files of public projects on three machines, unchanged and all applied at the same time. The images are not
//! here: others have their names and listen where they do.

use std::collections::{BTreeMap, BTreeSet};

use jaco_testkit::v1::ReplicaInfo;
use serde_json::Value;
use tempfile::TempDir;

use super::corpus::{Corpus, done, model};
use super::stand_in::Root;
use super::talks::{PROJECTS, Project, host_of, members, names, share_a_network};
use jaco_testkit::engines::Machines;
use jaco_testkit::succeeded;

/// Prints what each place answers. What has no health check may still be starting.
const ASK: &str = "for place in $PLACES; do
  for try in 1 2 3 4 5 6 7 8 9 10; do
    answer=$(timeout 5 wget -qO- \"http://$place/\" 2>&1) && break
    sleep 0.3
  done
  echo \"$place $answer\"
done";

/// Prints the places that answer.
const TRY: &str = "for place in $PLACES; do
  (timeout 3 wget -qO /dev/null \"http://$place/\" 2> /dev/null && echo \"$place\") &
done
wait";

/// A project, and what its files come to.
struct Applied {
    project: &'static Project,
    arguments: Vec<String>,
    model: Value,
    /// Of its variables.
    _folder: TempDir,
}

/// The replicas of a project, and the machines that they are on.
struct Running<'a> {
    machines: &'a Machines,
    project: &'static Project,
    model: &'a Value,
    replicas: Vec<ReplicaInfo>,
}

/// What was looked at.
#[derive(Default)]
struct Counts {
    reached: usize,
    /// Of those, how often client and server were on different machines.
    over_machines: usize,
    out_of_reach: usize,
}

/// R-IN-1, NET-7, NET-8: projects as their authors wrote them work at their first apply, over all machines: what waits for
/// others to be healthy reaches them from its first moment; each service reaches the others by the names and ports that
/// the file gives it, and a service of the same name in another project never answers; what has no network in common
/// has neither name nor way.
#[tokio::test(flavor = "multi_thread")]
async fn public_projects_work_over_three_machines() {
    let Some(corpus) = Corpus::open() else { return };
    let root = tokio::task::spawn_blocking(Root::build);
    let path = std::env::var("PATH").expect("there is one");
    let mut machines = Machines::start(3, &format!("{path}:/usr/sbin:/sbin")).await;
    machines.found(&["--name", "field"]).await;
    let projects: Vec<Applied> =
        PROJECTS.iter().map(|project| Applied::read(&machines, &corpus, project)).collect();
    let left_out: Vec<String> =
        projects.iter().flat_map(|one| one.project.left_out(&one.model)).collect();
    assert!(left_out.is_empty(), "connections that are not checked: {left_out:#?}");
    let images = projects.iter().flat_map(|one| one.project.images(&one.model));
    let images: BTreeMap<_, _> = images.collect();
    root.await.expect("the image is built").import(&machines.engines, &images);

    std::thread::scope(|scope| {
        for one in &projects {
            let apply = ["apply", "--timeout", "120s"].map(String::from);
            let args = [&apply[..], &one.arguments].concat();
            let cluster = &machines.cluster;
            scope.spawn(move || done(cluster, &args));
        }
    });
    let all = machines.cluster.overview(0).await.expect("it answers").replicas;
    let checked: Vec<Counts> = std::thread::scope(|scope| {
        let checks = projects.iter().map(|one| {
            let running = one.running(&machines, &all);
            scope.spawn(move || running.check())
        });
        let checks: Vec<_> = checks.collect();
        checks.into_iter().map(|check| check.join().expect("the project works")).collect()
    });
    let over_machines = checked.iter().all(|one| one.over_machines > 0);
    assert!(over_machines, "each project is on more than one machine");
    let sum = |of: fn(&Counts) -> usize| checked.iter().map(of).sum::<usize>();
    assert_eq!((sum(|one| one.reached), sum(|one| one.out_of_reach)), (41, 26));
}

impl Applied {
    fn read(machines: &Machines, corpus: &Corpus, project: &'static Project) -> Self {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        let arguments = corpus.arguments(project.file, folder.path());
        let model = model(&machines.cluster, &arguments);
        Self { project, arguments, model, _folder: folder }
    }

    fn running<'a>(&'a self, machines: &'a Machines, all: &[ReplicaInfo]) -> Running<'a> {
        let name = self.model["name"].as_str().expect("a model has a name");
        let replicas = all.iter().filter(|replica| replica.deployment == name).cloned().collect();
        Running { machines, project: self.project, model: &self.model, replicas }
    }
}

impl Running<'_> {
    /// All of it.
    fn check(&self) -> Counts {
        let file = self.project.file;
        for (name, service) in members(&self.model["services"]) {
            let wanted = service["deploy"]["replicas"].as_u64().unwrap_or(1);
            assert_eq!(self.of(name).count() as u64, wanted, "{file}: {name}");
        }
        let mut counts = Counts::default();
        for replica in &self.replicas {
            let is_well = replica.state == "running" && replica.terminations.is_empty();
            assert!(is_well, "{file}: it works from its first moment: {replica:?}");
            self.reaches(replica, &mut counts);
            self.does_not_reach(replica, &mut counts);
        }
        counts
    }

    fn of<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a ReplicaInfo> {
        self.replicas.iter().filter(move |replica| replica.service == service)
    }

    /// What the file names is answered by the containers that it names.
    fn reaches(&self, client: &ReplicaInfo, counts: &mut Counts) {
        let names = names(self.model);
        let places = self.project.talks_of(&client.service);
        let said = self.run(client, ASK, places);
        for (place, line) in places.iter().zip(said.lines()) {
            let mut servers = self.of(&names[host_of(place)]);
            let answered = servers.find(|server| line == format!("{place} {}", host_name(server)));
            let server = answered.unwrap_or_else(|| {
                panic!("{}: {} reaches another or none: {line}", self.project.file, client.id)
            });
            counts.over_machines += usize::from(server.node != client.node);
            counts.reached += 1;
        }
        assert_eq!(said.lines().count(), places.len(), "{said}");
    }

    /// What has no network in common, by its names and addresses.
    fn does_not_reach(&self, client: &ReplicaInfo, counts: &mut Counts) {
        let apart = self
            .replicas
            .iter()
            .filter(|other| !share_a_network(self.model, &client.service, &other.service));
        let places: BTreeSet<String> = apart.flat_map(|other| self.places_of(other)).collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let answered = self.run(client, TRY, &places);
        assert_eq!(answered, "", "{}: {} reaches what is apart", self.project.file, client.id);
        counts.out_of_reach += places.len();
    }

    /// Where a replica listens, by all of its names and addresses.
    fn places_of(&self, replica: &ReplicaInfo) -> Vec<String> {
        let names =
            names(self.model).into_iter().filter(|(_, service)| *service == replica.service);
        let addresses = replica.addresses.iter().map(|one| one.address.clone());
        let hosts: Vec<String> = names.map(|(name, _)| name).chain(addresses).collect();
        let ports = self.project.ports_of(&replica.service).iter();
        ports.flat_map(|port| hosts.iter().map(move |host| format!("{host}:{port}"))).collect()
    }

    /// What a script prints in a container.
    fn run(&self, replica: &ReplicaInfo, script: &str, places: &[&str]) -> String {
        if places.is_empty() {
            return String::new();
        }
        let at = replica.node.strip_prefix('n').and_then(|number| number.parse::<usize>().ok());
        let engine = &self.machines.engines[at.expect("nodes are numbered") - 1];
        let places = format!("PLACES={}", places.join(" "));
        let args = ["exec", "--env", &places, &replica.container_id, "sh", "-c", script];
        succeeded(&engine.command(&args).output().expect("docker runs"))
    }
}

/// What a container calls itself.
fn host_name(replica: &ReplicaInfo) -> &str {
    replica.container_id.get(..12).unwrap_or(&replica.container_id)
}
