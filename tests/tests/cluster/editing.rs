//! `jaco edit` on real daemons.

use std::path::Path;
use std::process::{Command, Output};

use jaco_testkit::{Cluster, Engine, binary, v1};

/// Runs `jaco` in a folder, with this editor.
fn jaco(cluster: &Cluster, node: usize, folder: &Path, editor: &str, args: &[&str]) -> Output {
    let mut command = Command::new(binary("jaco"));
    command.args(args).current_dir(folder).env("EDITOR", editor).env("TMPDIR", folder);
    command.env("JACO_SOCKET", cluster.nodes[node].socket()).env_remove("VISUAL");
    command.env_remove("JACO_SERVER").env_remove("JACO_CONTEXT");
    command.output().expect("jaco can be started")
}

fn says(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

async fn stored(cluster: &Cluster) -> v1::GetDeploymentResponse {
    let request =
        v1::GetDeploymentRequest { name: "shop".to_owned(), revision: 0, ..Default::default() };
    cluster.client().get_deployment(request).await.expect("it is there")
}

/// The container of a service with one replica.
async fn container(cluster: &Cluster, service: &str) -> String {
    let status = cluster.overview(0).await.expect("it answers");
    let replica = status.replicas.into_iter().find(|replica| replica.service == service);
    replica.expect("it is there").container_id
}

/// R-IN-4, R-CLI-7: an edit keeps uploaded files, is applied at any node, and is refused if another apply came before it.
#[tokio::test(flavor = "multi_thread")]
async fn edits_keep_uploaded_files_and_overtake_nobody() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("it can be written");
    };
    std::fs::create_dir(folder.path().join("conf")).expect("it can be made");
    write("conf/a", "one");
    write("app.toml", "two");
    write("password", "three");
    write(
        "compose.yaml",
        "name: shop\nservices:\n  web:\n    image: web:1\n    command: [sh, -c, 'echo $$HOME']\n    \
         configs: [app]\n    secrets: [password]\n\
         \x20 db:\n    image: db:1\n    volumes: ['./conf:/conf:ro']\n\
         configs: {app: {file: ./app.toml}}\nsecrets: {password: {file: ./password}}\n",
    );
    write("jaco.yaml", "deployment: shop\nservices: [{name: web, replicas: 2}]\n");
    let run = |node, editor: &str, args: &[&str]| jaco(&cluster, node, folder.path(), editor, args);
    let applied = run(0, "false", &["apply"]);
    assert!(applied.status.success(), "{}", says(&applied));
    let before = stored(&cluster).await;
    assert_eq!((before.binds.len(), before.configs.len(), before.secrets.len()), (1, 1, 1));

    let db = container(&cluster, "db").await;

    // The files are not needed any more: the cluster has them.
    std::fs::remove_dir_all(folder.path().join("conf")).expect("it is there");
    let edited = run(1, "sed -i s/web:1/web:2/", &["edit", "shop", "--yes"]);
    assert!(edited.status.success(), "{}", says(&edited));
    let after = stored(&cluster).await;
    assert_eq!(after.revision, before.revision + 1);
    assert_eq!(
        (&after.binds, &after.configs, &after.secrets, &after.overlay_yaml),
        (&before.binds, &before.configs, &before.secrets, &before.overlay_yaml)
    );
    // The short form of a mount says nothing by its empty part.
    let expected = before.compose_json.replace("web:1", "web:2").replace(r#""bind":{},"#, "");
    assert_eq!(after.compose_json, expected);
    assert_eq!(container(&cluster, "db").await, db, "nothing of it was changed");

    // A change while the editor is open.
    let socket = cluster.nodes[2].socket();
    let other = format!(
        "sh -c 'JACO_SOCKET={} {} restart shop/web -q >&2; sed -i s/web:2/web:3/ \"$0\"'",
        socket.display(),
        binary("jaco").display()
    );
    let overtaken = run(0, &other, &["edit", "shop", "--yes"]);
    let text = says(&overtaken);
    assert_eq!(overtaken.status.code(), Some(8), "{text}");
    assert!(text.contains("error[stale_plan]") && text.contains("your files are kept"), "{text}");
    let now = stored(&cluster).await;
    assert!(now.compose_json.contains("web:2") && now.revision > after.revision, "{now:?}");

    // What was kept is applied on what is there now.
    let kept = text.split_once("--from ").expect("named").1.split_once(" goes").expect("named").0;
    let again = run(2, "true", &["edit", "shop", "--from", kept, "--yes", "-o", "json"]);
    assert!(again.status.success(), "{}", says(&again));
    let last = stored(&cluster).await;
    assert!(last.compose_json.contains("web:3"), "{last:?}");
    assert!(!Path::new(kept).exists());
}
