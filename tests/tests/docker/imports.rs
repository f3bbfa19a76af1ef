//! A project of Docker Compose on the real engine, imported and run in a cluster with its data.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use jaco_testkit::docker::{IMAGE, containers, docker};
use jaco_testkit::{Cluster, Engine, eventually, succeeded};
use serde_json::Value;

const SECRET: &str = "s3cret-of-the-database";

/// A project of two services, with the labels that Docker Compose 2 gives: the tests need no Docker Compose.
struct Project {
    name: String,
    port: u16,
}

impl Project {
    fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let project = Self { name: format!("moved{}", std::process::id()), port };
        let (network, volume) = (project.of("default"), project.of("data"));
        let label = |key: &str, value: &str| format!("com.docker.compose.{key}={value}");
        let own = label("project", &project.name);
        let (default, data) = (label("network", "default"), label("volume", "data"));
        docker(&["network", "create", "--label", &own, "--label", &default, &network]);
        docker(&["volume", "create", "--label", &own, "--label", &data, &volume]);
        let mount = format!("{volume}:/data");
        let secret = format!("DB_PASSWORD={SECRET}");
        project.run("db", &["--volume", &mount, "--env", &secret]);
        let (published, after) =
            (format!("{port}:8080"), label("depends_on", "db:service_started:false"));
        project
            .run("web", &["--publish", &published, "--label", &after, "--env", "GREETING=$HOME"]);
        project
    }

    fn run(&self, service: &str, options: &[&str]) {
        let name = self.container(service);
        let labels = [
            ("project", self.name.as_str()),
            ("service", service),
            ("container-number", "1"),
            ("oneoff", "False"),
        ];
        let labels = labels.map(|(key, value)| format!("--label=com.docker.compose.{key}={value}"));
        let network = self.of("default");
        let mut args = vec![
            "run",
            "--detach",
            "--name",
            &name,
            "--network",
            &network,
            "--network-alias",
            service,
        ];
        args.extend(labels.iter().map(String::as_str));
        args.extend(options);
        args.extend([IMAGE, "serve"]);
        docker(&args);
    }

    fn of(&self, name: &str) -> String {
        format!("{}_{name}", self.name)
    }

    fn container(&self, service: &str) -> String {
        format!("{}-{service}-1", self.name)
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let (web, db) = (self.container("web"), self.container("db"));
        for args in [
            ["rm", "--force", &web],
            ["rm", "--force", &db],
            ["network", "rm", &self.of("default")],
            ["volume", "rm", &self.of("data")],
        ] {
            // Called while a test unwinds, too: what cannot be removed must not hide its failure.
            let _left_over = Command::new("docker").args(args).output().is_err();
        }
    }
}

fn said(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// What the published port answers.
fn answer(port: u16) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    let request = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    stream.write_all(request).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    if answer.starts_with("HTTP/1.1 200") { Ok(answer) } else { Err(answer) }
}

/// Runs a command of the report; `>` leads to a file of the folder.
fn step(cluster: &Cluster, here: &Path, line: &str) -> Output {
    let (line, file) = match line.split_once(" > ") {
        Some((line, file)) => (line, Some(here.join(file))),
        None => (line, None),
    };
    let words: Vec<String> = line
        .split_whitespace()
        .map(|word| {
            if word.ends_with(".tar") {
                here.join(word).display().to_string()
            } else {
                word.to_owned()
            }
        })
        .collect();
    let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    match words[0].as_str() {
        "jaco" => cluster.cli(0, &args),
        program => {
            let mut command = Command::new(program);
            command.args(&args);
            if let Some(file) = file {
                command.stdout(Stdio::from(fs::File::create(file).expect("it can be made")));
            }
            command.output().expect("it runs")
        }
    }
}

/// R-IN-1, R-IN-5: a running project becomes a folder that is applied as it is; after the printed steps the cluster answers on the
/// same port with the same data. No secret is printed, and nothing of the engine has changed by the import.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_of_docker_compose_moves_with_its_data() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let project = Project::start();
    let here = tempfile::tempdir().expect("a folder");
    fs::write(here.path().join("row"), "kept").expect("written");
    let row = here.path().join("row").display().to_string();
    docker(&["cp", &row, &format!("{}:/data/row", project.container("db"))]);
    eventually("the project answers", || async { answer(project.port) }).await;

    let seen = || docker(&["inspect", &project.container("web"), &project.container("db")]);
    let before = seen();
    let folder = here.path().join("moved").display().to_string();
    let listed = cluster.cli(0, &["compose-import"]);
    assert!(said(&listed).contains(&project.name), "{}", said(&listed));
    let import = ["compose-import", &project.name, "--folder", &folder];
    let told = cluster.cli(0, &import);
    succeeded(&told);
    assert!(
        !said(&told).contains(SECRET) && said(&told).contains("db: environment.DB_PASSWORD"),
        "{}",
        said(&told)
    );
    let refused = cluster.cli(0, &import);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let report = cluster.cli(0, &[&import[..], &["--force", "-o", "json"]].concat());
    assert!(report.status.success() && !said(&report).contains(SECRET), "{}", said(&report));
    assert_eq!(seen(), before, "the engine is as it was");
    let compose = fs::read_to_string(here.path().join("moved/compose.yaml")).expect("it is there");
    assert!(compose.contains(&format!("DB_PASSWORD: {SECRET}")), "{compose}");
    let report: Value = serde_json::from_slice(&report.stdout).expect("it is JSON");
    assert_eq!(report["valid"], true, "{report}");

    let steps = report["steps"].as_array().expect("steps").iter();
    let steps = steps.chain(report["data"][0]["steps"].as_array().expect("steps of the data"));
    for line in steps.filter_map(Value::as_str) {
        // Its nodes share the engine, which has the image.
        if line.starts_with("jaco image push") {
            continue;
        }
        if line.starts_with("jaco volume restore") {
            eventually("the database has stopped", || async {
                let left = containers(&cluster.id);
                if left.iter().any(|name| name.contains("-db-")) { Err(left) } else { Ok(()) }
            })
            .await;
        }
        let out = step(&cluster, here.path(), line);
        assert!(out.status.success(), "{line}: {}", said(&out));
    }
    cluster.converged(0, &project.name).await;
    eventually("the cluster answers", || async { answer(project.port) }).await;
    let back = here.path().join("back").display().to_string();
    succeeded(&cluster.cli(0, &["cp", &format!("{}/db:/data/row", project.name), &back]));
    assert_eq!(fs::read_to_string(&back).expect("it came back"), "kept");
    succeeded(&cluster.cli(0, &["delete", &project.name, "--yes"]));
    eventually("nothing of the deployment is left", || async {
        let told = cluster.cli(0, &["gc", "--yes"]);
        let own = format!("label=jaco.cluster_id={}", cluster.id);
        let left = docker(&["volume", "ls", "--quiet", "--filter", &own]);
        if left.is_empty() { Ok(()) } else { Err((left, said(&told))) }
    })
    .await;
}
