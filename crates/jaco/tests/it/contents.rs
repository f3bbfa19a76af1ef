//! `jaco config` and `jaco secret`: where a content comes from, and that it is never printed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;

use crate::fixture::{Run, Session, shop};

/// A cluster that records the contents it stores.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<Vec<v1::StoreContentRequest>>>);

impl Script for Cluster {
    fn store_content(
        &self,
        request: v1::StoreContentRequest,
        _: Option<&str>,
    ) -> Answer<v1::StoreContentResponse> {
        let mut stored = self.0.lock().unwrap();
        stored.push(request);
        Ok(v1::StoreContentResponse { version: stored.len() as u64, stored: None })
    }

    fn remove_content(
        &self,
        _: v1::RemoveContentRequest,
        _: Option<&str>,
    ) -> Answer<v1::RemoveContentResponse> {
        Ok(v1::RemoveContentResponse {})
    }

    fn list_contents(
        &self,
        request: v1::ListContentsRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListContentsResponse> {
        let stored = self.0.lock().unwrap();
        let of_kind = stored.iter().filter(|content| content.kind == request.kind);
        let contents = of_kind.map(|content| v1::ContentInfo {
            name: content.name.clone(),
            version: 1,
            bytes: content.content.len() as u64,
            stored_at_ms: 0,
            used_by: vec!["shop".to_owned(), "blog".to_owned()],
            ..Default::default()
        });
        Ok(v1::ListContentsResponse { contents: contents.collect() })
    }
}

fn cluster() -> (Session, Cluster) {
    let cluster = Cluster::default();
    (Session::with(cluster.clone()), cluster)
}

/// R-IN-5: a content is read from a file or stdin, completely, and never printed.
#[test]
fn content_is_read_from_a_file_or_stdin() {
    let (session, cluster) = cluster();
    session.write("key.txt", "hunter2\n");
    let run = session.run("secret set db key.txt");
    assert_eq!(
        (run.code, run.out.as_str()),
        (Some(0), "secret db stored as version 1\n"),
        "{}",
        run.err
    );
    let mut piped = session.command("config set rates -o json");
    let mut child =
        piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"7 %").unwrap();
    let run = session.result(child.wait_with_output().unwrap());
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json, serde_json::json!({"kind": "config", "name": "rates", "version": 2}));
    {
        let stored = cluster.0.lock().unwrap();
        let sent: Vec<_> = stored
            .iter()
            .map(|one| (one.kind.as_str(), one.name.as_str(), &one.content[..]))
            .collect();
        assert_eq!(sent, [("secret", "db", &b"hunter2\n"[..]), ("config", "rates", b"7 %")]);
        assert!(stored.iter().all(|one| !one.request_id.is_empty()));
    }
    let listed = session.run("secret ls");
    let row: Vec<&str> = listed.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row[2]), ("db", "1", "8"), "{}", listed.out);
    assert!(listed.out.contains("shop, blog") && !listed.out.contains("hunter2"), "{}", listed.out);
    let removed = session.run("secret rm db");
    assert_eq!(removed.out, "secret db removed\n");
}

/// R-IN-5: an empty or too large content is refused before anything is sent; a content cannot be given on
/// the command line.
#[test]
fn invalid_content_is_refused() {
    let (session, cluster) = cluster();
    session.write("empty", "");
    session.write("large", &"x".repeat((1 << 20) + 1));
    for (line, expected) in [
        ("secret set db", "stdin is empty"),
        ("secret set db empty", "empty is empty"),
        ("secret set db large", "more than 1 MiB"),
        ("secret set db key.txt hunter2", "unexpected argument"),
    ] {
        let run = session.run(line);
        assert_eq!(run.code, Some(2), "{line}: {}", run.err);
        assert!(run.err.contains(expected), "{line}: {}", run.err);
    }
    let absent = session.run("secret set db absent.txt");
    assert!(absent.code != Some(0) && absent.err.contains("cannot read absent.txt"));
    assert!(cluster.0.lock().unwrap().is_empty());
}

/// R-IN-5: an external secret is stored in the cluster: nothing is uploaded, and nothing is missing.
#[test]
fn external_secret_is_not_uploaded() {
    let session = Session::alone();
    session.write(
        "compose.yaml",
        "services: {web: {image: i, secrets: [db]}}\nsecrets: {db: {external: true}}\n",
    );
    let run = session.run("validate");
    assert_eq!(run.code, Some(0), "{}", run.err);
}

/// R-CLI-6: configs and secrets have the same verbs, and earlier spellings still work.
#[test]
fn verbs_of_configs_and_secrets_are_the_same() {
    let (session, cluster) = cluster();
    session.write("a", "1");
    for group in ["config", "configs", "secret"] {
        for verb in ["set", "create", "store"] {
            assert_eq!(session.run(&format!("{group} {verb} a a")).code, Some(0), "{group} {verb}");
        }
        for verb in ["ls", "list"] {
            let listed = session.run(&format!("{group} {verb}")).out;
            assert!(listed.starts_with("NAME"), "{group} {verb}: {listed}");
        }
        for verb in ["get", "inspect", "show"] {
            let shown = session.run(&format!("{group} {verb} a"));
            assert!(shown.out.contains("bytes: 1\n"), "{group} {verb}: {shown:?}");
        }
        for verb in ["rm", "remove", "delete"] {
            assert_eq!(session.run(&format!("{group} {verb} a")).code, Some(0), "{group} {verb}");
        }
        assert_eq!(session.run(&format!("{group} get b")).code, Some(3));
    }
    let kinds: Vec<String> =
        cluster.0.lock().unwrap().iter().map(|content| content.kind.clone()).collect();
    let (configs, secrets) = kinds.split_at(6);
    assert!(configs.iter().all(|kind| kind == "config"), "{kinds:?}");
    assert_eq!(secrets, ["secret"; 3]);
}

/// R-IN-5: a content is what a command prints, to the last byte; its failure stores nothing and shows nothing of it.
#[test]
fn content_is_what_a_command_prints() {
    let (session, cluster) = cluster();
    let run = |command: &str, args: &str| {
        let mut jaco = session.command(&format!("secret set db {args}"));
        jaco.env("PATH", "/usr/bin:/bin").arg("--command").arg(command);
        session.result(jaco.output().unwrap())
    };
    let stored = run("printf 'hunter2\\n'", "");
    assert_eq!((stored.code, stored.out.as_str()), (Some(0), "secret db stored as version 1\n"));
    assert_eq!(&cluster.0.lock().unwrap()[0].content[..], b"hunter2\n");
    for (command, args, words) in [
        ("echo hunter2; exit 3", "", "failed with exit status: 3"),
        ("true", "", "is empty"),
        ("head -c 1048577 /dev/zero", "", "more than 1 MiB"),
        ("echo hunter2", "key.txt", "cannot be used with"),
    ] {
        let refused = run(command, args);
        assert_eq!(refused.code, Some(2), "{command}: {refused:?}");
        let said = format!("{}{}", refused.out, refused.err);
        assert!(said.contains(words) && !said.contains("hunter2"), "{command}: {said}");
    }
    assert_eq!(cluster.0.lock().unwrap().len(), 1);
}

/// R-IN-5: an expiry is sent with the version; one that is over is refused before anything is sent.
#[test]
fn expiry_is_sent_with_the_version() {
    let (session, cluster) = cluster();
    session.write("key.txt", "hunter2");
    for expires in ["90d", "2999-03-01", "never"] {
        let run = session.run(&format!("secret set db key.txt --expires {expires}"));
        assert_eq!(run.code, Some(0), "{run:?}");
    }
    let sent: Vec<i64> =
        cluster.0.lock().unwrap().iter().map(|one| one.expiry.unwrap().at_ms).collect();
    assert!(sent[0] > 1_700_000_000_000, "{sent:?}");
    assert_eq!(sent[1..], [32_477_241_600_000, 0]);
    for wrong in ["2001-01-01", "soon", "0s"] {
        let run = session.run(&format!("secret set db key.txt --expires {wrong}"));
        assert_eq!(run.code, Some(2), "{run:?}");
    }
    assert_eq!(cluster.0.lock().unwrap().len(), 3);
}

/// A cluster with version 4 of the secret `db`, which the deployment `shop` uses: one of two replicas has it.
#[derive(Clone)]
struct Rotating {
    content: &'static [u8],
    stored: Arc<Mutex<Vec<v1::StoreContentRequest>>>,
    applied: Arc<Mutex<Vec<v1::ApplyRequest>>>,
}

impl Rotating {
    fn new(content: &'static [u8]) -> Self {
        Self { content, stored: Arc::default(), applied: Arc::default() }
    }

    fn info(version: u64) -> v1::ContentInfo {
        let held = |version, replicas| v1::ContentUseVersion { version, replicas };
        v1::ContentInfo {
            name: "db".to_owned(),
            version,
            bytes: 7,
            stored_at_ms: 1_700_000_000_000,
            expires_at_ms: 1_700_086_400_000,
            used_by: vec!["shop".to_owned()],
            uses: vec![v1::ContentUse {
                deployment: "shop".to_owned(),
                service: "web".to_owned(),
                versions: vec![held(4, 1), held(3, 1)],
            }],
            ..Default::default()
        }
    }
}

impl Script for Rotating {
    fn read_content(
        &self,
        request: v1::ReadContentRequest,
        _: Option<&str>,
    ) -> Answer<v1::ReadContentResponse> {
        assert_eq!((request.kind.as_str(), request.name.as_str()), ("secret", "db"));
        Ok(v1::ReadContentResponse { content: self.content.into(), version: 4 })
    }

    fn store_content(
        &self,
        request: v1::StoreContentRequest,
        _: Option<&str>,
    ) -> Answer<v1::StoreContentResponse> {
        self.stored.lock().unwrap().push(request);
        Ok(v1::StoreContentResponse { version: 5, stored: Some(Self::info(5)) })
    }

    fn list_contents(
        &self,
        _: v1::ListContentsRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListContentsResponse> {
        Ok(v1::ListContentsResponse { contents: vec![Self::info(4)] })
    }

    fn get_deployment(
        &self,
        request: v1::GetDeploymentRequest,
        _: Option<&str>,
    ) -> Answer<v1::GetDeploymentResponse> {
        let upload =
            |name: &str| v1::FileUpload { name: name.to_owned(), tree: vec![1; 32].into() };
        let model = r#"{"name":"shop","secrets":{"other":{"external":true,"name":"other"},
            "own":{"file":"own.txt"},"password":{"external":true,"name":"db"}},
            "services":{"web":{"image":"web:1","secrets":[{"source":"other"},{"source":"own"},
            {"source":"password"}]}}}"#;
        Ok(v1::GetDeploymentResponse {
            name: request.name,
            revision: 1,
            compose_json: model.to_owned(),
            secrets: ["other", "own", "password"].map(upload).into(),
            ..Default::default()
        })
    }

    fn apply(&self, request: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        let preview = request.dry_run.then(v1::Preview::default);
        if !request.dry_run {
            self.applied.lock().unwrap().push(request);
        }
        Ok(v1::ApplyResponse {
            deployment: "shop".to_owned(),
            revision: 2,
            change: "updated".to_owned(),
            preview,
            ..Default::default()
        })
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::open(vec![shop("active", ["running"; 2])]))
    }
}

/// R-IN-5: who stores a secret is told which services have an earlier version and what rolls them; the lists show it.
#[test]
fn services_on_an_earlier_version_are_named() {
    let session = Session::with(Rotating::new(b"hunter2"));
    session.write("key.txt", "hunter3");
    let run = session.run("secret set db key.txt");
    assert_eq!(run.out, "secret db stored as version 5\n");
    assert!(run.err.contains("1 service still on an earlier version: shop/web"), "{run:?}");
    assert!(run.err.contains("jaco secret roll db"), "{run:?}");
    let run = session.run("secret set db key.txt -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["behind"][0]["versions"][1]["version"], 3, "{json}");
    let listed = session.run("secret ls").out;
    assert!(listed.contains("shop (web: 1 of 2 on v4)"), "{listed}");
    assert!(listed.contains("EXPIRES") && listed.contains("expired"), "{listed}");
    let shown = session.run("secret get db -o json").out;
    let json: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(json["expires_at"], "2023-11-15T22:13:20Z");
    assert_eq!(json["uses"][0]["versions"][0], serde_json::json!({"version": 4, "replicas": 1}));
}

/// R-IN-5: a roll applies the stored revision without its version of this secret, and with all others.
#[test]
fn a_roll_changes_one_secret_only() {
    for line in ["secret roll db -o json", "secret set db key.txt --roll -o json"] {
        let cluster = Rotating::new(b"hunter2");
        let session = Session::with(cluster.clone());
        session.write("key.txt", "hunter3");
        let run = session.run(line);
        assert_eq!(run.code, Some(0), "{run:?}");
        let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        let rolled = serde_json::json!(
            {"deployment": "shop", "revision": 2, "change": "updated", "outcome": "converged"}
        );
        assert_eq!(json["rolled"][0], rolled, "{json}");
        let applied = cluster.applied.lock().unwrap();
        let [request] = applied.as_slice() else { panic!("{applied:?}") };
        let kept: Vec<&str> = request.secrets.iter().map(|secret| secret.name.as_str()).collect();
        assert_eq!((kept, request.based_on), (vec!["other", "own"], 1));
    }
    let session = Session::with(Rotating::new(b"hunter2"));
    let refused = session.run("secret roll db blog");
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("blog does not use the secret db"), "{refused:?}");
}

/// `jaco secret edit db` with this editor; its folder in memory is `run`.
fn edit(session: &Session, editor: &str) -> Command {
    let folder = memory(session);
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = session.command("secret edit db");
    command.env("EDITOR", editor).env("PATH", "/usr/bin:/bin").env("XDG_RUNTIME_DIR", folder);
    command
}

fn memory(session: &Session) -> PathBuf {
    session.folder.path().join("run")
}

fn left_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn edited(content: &'static [u8], editor: &str) -> (Run, Vec<v1::StoreContentRequest>) {
    let cluster = Rotating::new(content);
    let session = Session::with(cluster.clone());
    let run = session.result(edit(&session, editor).output().unwrap());
    assert_eq!(left_in(&memory(&session)), 0, "the file is removed");
    let stored = cluster.stored.lock().unwrap().clone();
    (run, stored)
}

/// R-IN-5: what is edited is stored if nobody was faster, from a file that only the user can read and that is removed.
#[test]
fn an_edit_is_stored_from_a_private_file() {
    let editor = "sh -c 'stat -c %a $0 $(dirname $0) >&2; sed -i s/hunter2/hunter3/ $0'";
    let (run, stored) = edited(b"user: a\nkey: hunter2\n", editor);
    assert_eq!(run.out, "secret db stored as version 5\n", "{run:?}");
    assert!(run.err.starts_with("600\n700\n") && !run.err.contains("hunter"), "{run:?}");
    let [request] = stored.as_slice() else { panic!("{stored:?}") };
    assert_eq!(&request.content[..], b"user: a\nkey: hunter3\n");
    assert_eq!((request.based_on, &request.users), (4, &None));
}

/// R-IN-5: nothing is stored where nothing was changed, the editor failed, or the value is no text.
#[test]
fn an_edit_without_a_change_stores_nothing() {
    for editor in ["true", "sh -c 'echo >> $0'"] {
        let (run, stored) = edited(b"hunter2", editor);
        assert_eq!((run.code, stored.len()), (Some(0), 0), "{run:?}");
        assert_eq!(run.out, "secret db version 4 unchanged\n");
    }
    for (content, editor, words) in [
        (&b"hunter2"[..], "false", "so nothing is changed"),
        (&b"hunter2"[..], "truncate -s 0", "is empty"),
        (&b"hunter2"[..], "truncate -s 1048577", "more than 1 MiB"),
        (&b"\x7fELF\0"[..], "sed -i s/E/F/", "is not text"),
    ] {
        let (run, stored) = edited(content, editor);
        assert_eq!((run.code, stored.len()), (Some(2), 0), "{run:?}");
        assert!(run.err.contains(words) && !run.err.contains("hunter"), "{run:?}");
    }
}

/// R-IN-5: a signal while the editor is open removes the file and stores nothing.
#[test]
fn a_signal_removes_the_edited_file() {
    for signal in ["TERM", "HUP", "QUIT"] {
        let cluster = Rotating::new(b"hunter2");
        let session = Session::with(cluster.clone());
        let mut command = edit(&session, "sh -c 'touch opened; exec sleep 5'");
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = quiet.spawn().unwrap();
        let opened = session.folder.path().join("opened");
        let start = std::time::Instant::now();
        while !opened.exists() {
            assert!(start.elapsed().as_secs() < 60, "the editor does not open");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(left_in(&memory(&session)), 1);
        let (signal_arg, pid) = (format!("-{signal}"), child.id().to_string());
        let sent = Command::new("kill").args([signal_arg, pid]).status();
        assert!(sent.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        assert_eq!(left_in(&memory(&session)), 0, "{signal}");
        assert_eq!(cluster.stored.lock().unwrap().len(), 0);
    }
}
