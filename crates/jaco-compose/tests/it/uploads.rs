//! What lies beside the compose file, as far as the loader knows it.

use jaco_compose::{
    Access, Code, Contents, EnvFiles, Input, Options, UploadKind, UploadProblem, UploadProblemKind,
    UploadSource, from_model, load, resolve,
};
use jaco_types::spec::Storage;
use serde_json::Value as Json;

use crate::util::{folder, resolve_text};

/// R-IN-4, R-IN-5: what has to be sent, each once, and where it is read; a secret's text is printed
/// by nothing.
#[test]
fn uploads_are_listed() {
    let text = "
services:
  a:
    image: i
    volumes: ['./conf:/c:ro', './both:/b:ro', '/etc/hosts:/h', '.:/all']
    secrets: [s, v]
    configs: [c, inline]
  b: {image: i, volumes: ['./both:/b'], secrets: [s]}
secrets: {s: {file: ./s.txt}, v: {environment: TOKEN}, unused: {file: u}}
configs: {c: {file: /elsewhere/c}, inline: {content: x}}
";
    let input = Input {
        env: [("TOKEN".to_owned(), "hunter2".to_owned())].into(),
        env_files: EnvFiles::Nothing,
        ..Input::file("/p/compose.yaml")
    };
    let project = load(&input, &folder(&[("/p/compose.yaml", text)])).unwrap().project;
    let items = project.upload_items();
    let bind = UploadKind::Bind;
    let found: Vec<_> = items.iter().map(|each| (each.kind, each.name.as_str())).collect();
    assert_eq!(
        found,
        [
            (bind(Access::Write), "."),
            (bind(Access::Write), "both"),
            (bind(Access::Read), "conf"),
            (UploadKind::Config, "c"),
            (UploadKind::Secret, "s"),
            (UploadKind::Secret, "v"),
        ]
    );
    assert_eq!(items[1].source, UploadSource::Path("/p/both".to_owned()));
    assert_eq!(items[3].source, UploadSource::Path("/elsewhere/c".to_owned()));
    let UploadSource::Variable(name, Some(text)) = &items[5].source else { panic!("{items:?}") };
    assert_eq!((name.as_str(), text.reveal()), ("TOKEN", "hunter2"));
    assert!(!format!("{project:?}{items:?}").contains("hunter2"));

    // A problem is told where the file is asked for.
    let problem = UploadProblem {
        kind: UploadProblemKind::Missing,
        message: "conf cannot be read".to_owned(),
        suggestion: "make it".to_owned(),
    };
    let problems = project.upload_problems(&[(items[2].clone(), problem)]);
    let problem = &problems.list[0];
    assert_eq!((problem.code, problem.line, problem.column), (Code::FileNotFound, 5, 15));
}

/// R-IN-4, R-HASH-1: the path of the project's folder has no effect, and uploaded mounts tie a
/// replica to no node.
#[test]
fn a_sent_model_is_the_same_from_everywhere() {
    let text = "
services:
  a:
    image: i
    volumes: ['./conf:/c', '/etc/hosts:/h:ro']
    secrets: [s]
  b: {image: i, volumes: ['./conf:/c']}
secrets: {s: {file: ./s.txt}}
";
    let sent = |dir: &str| {
        let path = format!("{dir}/compose.yaml");
        let input = Input {
            name: Some("shop".to_owned()),
            env_files: EnvFiles::Nothing,
            ..Input::file(&path)
        };
        load(&input, &folder(&[(path.as_str(), text)])).unwrap().project.sent_model()
    };
    let model = sent("/home/a/shop");
    assert_eq!(model, sent("/builds/17"));
    assert_eq!(model["services"]["a"]["volumes"][0]["source"], "conf");
    assert_eq!(model["services"]["a"]["volumes"][1]["source"], "/etc/hosts");
    assert_eq!(model["secrets"]["s"]["file"], "s.txt");
    // A key that the file does not contain causes no warning.
    assert_eq!(model["services"]["a"]["volumes"][0]["bind"]["create_host_path"], Json::Null);
    let received = from_model(model.to_string().as_bytes()).unwrap();
    assert_eq!(received.upload_items()[0].name, "conf");
    let storage = |contents: Contents| {
        let resolved = resolve(&received, None, &Options { contents, ..Options::default() });
        let services = resolved.unwrap().services;
        [services["a"].facts.storage, services["b"].facts.storage]
    };
    assert_eq!(storage(Contents::default()), [Storage::Stateful, Storage::Stateful]);
    let binds = [("conf".to_owned(), "v1".to_owned())].into();
    let shipped = Contents { binds, ..Contents::default() };
    assert_eq!(storage(shipped), [Storage::Stateful, Storage::Stateless]);
}

/// R-IN-4: a path of the node is named, unless every machine has it.
#[test]
fn paths_of_the_node_are_warned_about() {
    let warnings = |mount: &str| {
        let text = format!("services: {{a: {{image: i, volumes: ['{mount}:/x']}}}}");
        let files = folder(&[("/p/q/compose.yaml", &text)]);
        let project = load(&Input::file("/p/q/compose.yaml"), &files).unwrap().project;
        let resolved = resolve(&project, None, &Options::default()).unwrap();
        resolved.warnings.list.iter().filter(|each| each.message.contains("of the node")).count()
    };
    assert_eq!((warnings("/srv/data"), warnings("../shared")), (1, 1));
    assert_eq!(
        (warnings("/etc/localtime"), warnings("/dev/net/tun"), warnings("./conf")),
        (0, 0, 0)
    );
}

/// R-IN-4: a volume that binds a relative device is told: no node can find it.
#[test]
fn relative_devices_are_told() {
    let warnings = |options: &str| {
        let text = format!(
            "services: {{a: {{image: i, volumes: ['v:/v']}}}}\nvolumes:\n  v:\n    driver_opts: {options}\n"
        );
        let resolved = resolve_text(&text, None).expect("it is a project");
        let told = resolved.warnings.list.into_iter();
        told.filter(|each| each.message.contains("which nodes cannot resolve"))
            .map(|each| (each.line, each.column))
            .collect::<Vec<_>>()
    };
    assert_eq!(warnings("{type: none, o: 'ro,bind', device: ./data}"), [(4, 53)]);
    assert_eq!(warnings("{type: none, o: bind, device: /srv/data}"), []);
    assert_eq!(warnings("{type: nfs, o: addr=10.0.0.1, device: ':/export'}"), []);
}
