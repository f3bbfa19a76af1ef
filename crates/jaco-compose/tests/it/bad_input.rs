//! Hostile and broken input: a clear error at a place, soon, and in bounded memory. R-IN-3.

#![expect(clippy::disallowed_methods, reason = "the kernel says how long a thread has worked")]

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use jaco_compose::{Code, EnvFiles, Input, MAX_LISTED, Problems, load, resolve};
use proptest::prelude::*;

use crate::util::{folder, load_files, local_images};

/// The promise is one second. Of the processor: what else a machine does is not the loader's.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// How long this thread has been on a processor.
pub(crate) fn worked() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says so");
    let nanos = stat.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.expect("the first number is nanoseconds"))
}

/// Does something in the time that is promised for it.
pub(crate) fn timed<T>(size: usize, work: impl FnOnce() -> T) -> T {
    let before = worked();
    let result = work();
    let took = worked() - before;
    assert!(took < TIME_LIMIT, "{took:?} for {size} bytes");
    result
}

/// Loads and resolves bytes, within the bounds of time and of what is said.
pub(crate) fn run(bytes: &[u8]) -> Result<(), Problems> {
    let files = BTreeMap::from([("/p/compose.yaml".to_owned(), bytes.to_vec())]);
    let input = Input { env_files: EnvFiles::Nothing, ..Input::file("/p/compose.yaml") };
    let result = timed(bytes.len(), || {
        load(&input, &files)
            .and_then(|loaded| resolve(&loaded.project, None, &local_images()))
            .map(|_| ())
    });
    if let Err(problems) = &result {
        let listed = problems.list.len();
        assert!(listed <= 2 * MAX_LISTED, "{listed} problems are listed");
        assert!(problems.errors().next().is_some(), "refused without a reason");
    }
    result
}

fn code(bytes: impl AsRef<[u8]>) -> Code {
    let problems = run(bytes.as_ref()).expect_err("must be refused");
    let first = problems.list.first().expect("a refusal has a reason");
    assert!(!first.message.is_empty());
    first.code
}

fn services(inner: &str) -> String {
    format!("services:\n  a:\n    image: i\n{inner}")
}

/// R-IN-3
#[test]
fn broken_texts_have_a_place() {
    let place = |bytes: &[u8]| {
        let problems = run(bytes).expect_err("must be refused");
        let first = &problems.list[0];
        (first.code.as_str(), first.line, first.column)
    };
    assert_eq!(place(b"services:\n  a: \xff\n"), ("not_text", 2, 6));
    assert_eq!(place(b"services:\n  a: \0\n"), ("not_text", 2, 6));
    assert_eq!(place(b"services:\n\ta: b\n").0, "yaml_syntax");
    assert_eq!(place(b"services:\n\ta: b\n").1, 2);
    assert_eq!(place(b"services: {a: 'x}\n").0, "yaml_syntax");
    assert_eq!(place(b"a: b\n c: d\n").0, "yaml_syntax");
    assert_eq!(place(b"services:\n  a: {image: i}\n  a: {image: j}\n"), ("duplicate_key", 3, 3));
    assert_eq!(place(b"services:\n  1: {image: i}\n"), ("invalid_key", 2, 3));
    assert_eq!(place(b"? [a]\n: b\n"), ("invalid_key", 1, 3));
    assert_eq!(place(b""), ("empty_document", 0, 0));
    assert_eq!(place(b"# only a remark\n"), ("empty_document", 0, 0));
    assert_eq!(place(b"just words"), ("wrong_type", 1, 1));
    assert_eq!(place(b"services:\n  a:\n    <<: text\n    image: i\n"), ("wrong_type", 3, 9));
    assert_eq!(place(b"services: *none\n").0, "yaml_syntax");
    assert_eq!(place(b"services: &a {b: *a}\n"), ("invalid_alias", 1, 18));
}

/// R-IN-3
#[test]
fn line_ends_marks_and_tags_are_read() {
    let text = services("    environment: {A: !!str 1}\n");
    assert!(run(text.as_bytes()).is_ok());
    assert!(run(text.replace('\n', "\r\n").as_bytes()).is_ok());
    assert!(run(format!("\u{feff}{text}").as_bytes()).is_ok());
    assert!(run(format!("---\n{text}...\n---\n{text}").as_bytes()).is_ok());
}

/// R-IN-3: indentation that the strict parser refuses and others take.
#[test]
fn brackets_may_stand_below_their_key() {
    let text = "services:\n  a:\n    image: i\n    command: [\n      \"x\",\n      \"y\"\n    ]\n";
    assert!(run(text.as_bytes()).is_ok());
    let text = "services:\n  a:\n    image: i\n    labels:\n      l: \"one\ntwo\"\n    tty: 5\n";
    let problems = run(text.as_bytes()).expect_err("5 is no truth value");
    assert_eq!((problems.list[0].line, problems.list[0].column), (7, 10), "{problems}");
}

/// R-IN-3
#[test]
fn large_input_is_refused() {
    assert_eq!(code(vec![b'a'; 10 << 20]), Code::TooLarge);
    assert_eq!(code("- a\n".repeat(1 << 18)), Code::WrongType);
    assert_eq!(code("[a,a,a,a],\n".repeat(90_000)), Code::YamlSyntax);
    let many = format!("x-a: [{}]\n", "a,".repeat(400_000));
    assert_eq!(code(many), Code::TooLarge);
}

/// R-IN-3
#[test]
fn deep_input_is_refused() {
    let block: String = (0..10_000).map(|level| " ".repeat(level.min(500)) + "-\n").collect();
    assert!(run(block.as_bytes()).is_err());
    assert_eq!(code("- ".repeat(10_000)), Code::TooDeep);
    assert!(run("[".repeat(500_000).as_bytes()).is_err());
    assert!(run("{a: ".repeat(10_000).as_bytes()).is_err());
    let nested: String = (0..10_000).map(|level| " ".repeat(level % 900) + "a:\n").collect();
    assert!(run(nested.as_bytes()).is_err());
}

/// R-IN-3
#[test]
fn alias_bombs_are_refused() {
    let mut laughs = "x-0: &a0 [l, l, l, l, l, l, l, l, l, l]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        laughs += &format!("x-{level}: &a{level} [{}]\n", [below.as_str(); 10].join(", "));
    }
    assert_eq!(code(laughs + &services("")), Code::InvalidAlias);

    let long = format!("x-0: &a {}\nx-1: [{}]\n", "l".repeat(100_000), "*a,".repeat(1_000));
    assert_eq!(code(long), Code::InvalidAlias);

    let mut merges = "x-0: &a0 {k0: 1}\n".to_owned();
    for level in 1..100 {
        merges += &format!("x-{level}: &a{level} {{<<: *a{}, k{level}: 1}}\n", level - 1);
    }
    assert!(run((merges + &services("")).as_bytes()).is_ok());

    let mut deep = "x-0: &a0 [[[[[[[[[[l]]]]]]]]]]\n".to_owned();
    for level in 1..2_000 {
        deep += &format!("x-{level}: &a{level} [[[[*a{}]]]]\n", level - 1);
    }
    assert_eq!(code(deep), Code::TooDeep);
}

/// R-IN-3
#[test]
fn expansions_are_bounded() {
    let nested = "${A:-".repeat(5_000) + &"}".repeat(5_000);
    assert_eq!(code(services(&format!("    user: '{nested}'\n"))), Code::TooLarge);
    assert_eq!(
        code(services("    ports: ['1-65535:1-65535', '1-65535:1-65535']\n")),
        Code::TooLarge
    );

    let mut many = "services:\n".to_owned();
    for index in 0..9_000 {
        many += &format!("  s{index}: {{image: i, ports: ['1-65535', '1-65535:1-65535/udp']}}\n");
    }
    let problems = run(many.as_bytes()).expect_err("each expanded by itself takes minutes");
    let told = problems.list.iter().filter(|problem| problem.code == Code::TooLarge).count();
    assert_eq!((told, problems.list.len()), (1, 1), "it is said once: {problems}");

    let mut chain = "services:\n  s0: {image: i}\n".to_owned();
    for index in 1..2_000 {
        chain += &format!("  s{index}: {{extends: s{}, dns: [1.1.1.{index}]}}\n", index - 1);
    }
    assert_eq!(code(chain), Code::ExtendsCycle);

    let mut mounts = "services:\n  s0: {image: i, volumes: [/v0]}\n".to_owned();
    for index in 1..2_000 {
        mounts += &format!(
            "  s{index}: {{image: i, volumes: [/v{index}], volumes_from: [s{}]}}\n",
            index - 1
        );
    }
    assert_eq!(code(mounts), Code::TooLarge);

    let content = "c".repeat(500_000);
    let mut shared = format!("configs: {{c: {{content: {content}}}}}\nservices:\n");
    for index in 0..1_000 {
        shared += &format!("  s{index}: {{image: i, configs: [c]}}\n");
    }
    assert_eq!(code(shared), Code::TooLarge);
}

/// R-IN-3: a long variable that is used often.
#[test]
fn long_variables_are_bounded() {
    let text = services(&format!("    command: [{}]\n", "'$V',".repeat(10_000)));
    let input = Input {
        env: [("V".to_owned(), "v".repeat(100_000))].into(),
        env_files: EnvFiles::Nothing,
        ..Input::file("/p/compose.yaml")
    };
    let problems = load(&input, &folder(&[("/p/compose.yaml", &text)])).unwrap_err();
    assert_eq!(problems.list[0].code, Code::TooLarge);
}

/// R-IN-3
#[test]
fn many_problems_are_counted_not_listed() {
    let keys: String = (0..100_000).map(|index| format!("    k{index}: 1\n")).collect();
    let problems = run(services(&keys).as_bytes()).unwrap_err();
    assert_eq!(problems.list.len(), MAX_LISTED);
    assert_eq!(problems.omitted, 100_000 - MAX_LISTED);
    let names: String = (0..5_000)
        .map(|index| format!("  s{index}: {{image: i, depends_on: [t{index}]}}\n"))
        .collect();
    assert_eq!(code(format!("services:\n{names}")), Code::UnknownDependsOnService);
    let all: Vec<String> = (0..500).map(|index| format!("s{index}")).collect();
    let all = all.join(", ");
    let circle: String =
        (0..500).map(|index| format!("  s{index}: {{image: i, depends_on: [{all}]}}\n")).collect();
    assert_eq!(code(format!("services:\n{circle}")), Code::InvalidDependsOn);
}

/// R-IN-3: files that are forbidden or missing are named, with the place that names them.
#[test]
fn missing_files_are_named() {
    let code = |text: &str| load_files(&[("/p/compose.yaml", text)]).unwrap_err().list[0].code;
    assert_eq!(code("include: [no.yaml]"), Code::FileNotFound);
    assert_eq!(code("services: {a: {extends: {file: no.yaml, service: a}}}"), Code::FileNotFound);
    assert_eq!(code("services: {a: {image: i, env_file: no.env}}"), Code::FileNotFound);
    assert_eq!(code("services: {a: {image: i, label_file: no.env}}"), Code::FileNotFound);
}

/// Pieces that are likely to reach every phase.
const PIECES: [&str; 40] = [
    "services:\n",
    "  a:\n",
    "  b:\n",
    "    image: i\n",
    "    ports: ['80:80', 1-2, '::']\n",
    "    volumes: [x:/y:z, ./a:/b, '::', a:b:c:d]\n",
    "    command: \"a 'b\\\" $X ${Y:-$Z}\"\n",
    "    environment: [A, B=1, =]\n",
    "    environment: {A: 1, B: ~}\n",
    "    <<: *m\n",
    "    deploy: {replicas: -1, resources: {limits: {cpus: 1e9, memory: 1p}}}\n",
    "    extends: {service: a}\n",
    "    depends_on: {a: {condition: service_healthy}}\n",
    "    healthcheck: {test: x, interval: 99999999999h}\n",
    "x-m: &m {a: *m}\n",
    "x-n: &m [1]\n",
    "networks: {default: ~, n: {external: {name: x}}}\n",
    "volumes:\n  x:\n",
    "secrets: {s: {}}\n",
    "    ulimits: {a: 1, b: {soft: 2}}\n",
    "    !reset ports: []\n",
    "    ports: !override\n",
    "include: [compose.yaml]\n",
    "name: ${N:?}\n",
    "---\n",
    "...\n",
    "\t",
    "\r\n",
    "\u{feff}",
    "é",
    "'",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ": ",
    "- ",
    "|\n  x\n",
    "? ",
];

proptest! {
    /// R-IN-3: law: no sequence of pieces panics, hangs, or is refused without a reason.
    #[test]
    fn pieces_in_any_order(order in proptest::collection::vec(0..PIECES.len(), 0..40)) {
        let text: String = order.into_iter().map(|index| PIECES[index]).collect();
        let _either = run(text.as_bytes());
    }

    /// R-IN-3: law: a good file with a few bytes changed loads or is refused, and nothing else.
    #[test]
    fn mutated_files(
        edits in proptest::collection::vec((0_usize..2_000, any::<u8>(), 0_u8..3), 1..12)
    ) {
        let mut bytes = include_bytes!("../fixtures/shop.yaml").to_vec();
        for (at, byte, kind) in edits {
            let at = at % bytes.len();
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => { bytes.remove(at); }
            }
        }
        let _either = run(&bytes);
    }

    /// R-IN-3: law: what loads, prints, loads again and prints the same.
    #[test]
    fn printing_is_stable(
        order in proptest::collection::vec(3_usize..14, 0..8),
        value in "[ -~]{0,12}",
    ) {
        let mut text = services("");
        for index in order {
            text += PIECES[index];
        }
        text += &format!("    user: {}\n", serde_json::to_string(&value).unwrap());
        if let Ok(first) = load_files(&[("/p/compose.yaml", &text)]) {
            let yaml = first.project.canonical_yaml();
            let again = load_files(&[("/p/compose.yaml", &yaml)]);
            let again = again.map_err(|problems| TestCaseError::fail(format!("{problems}\n{yaml}")))?;
            prop_assert_eq!(again.project.canonical_yaml(), yaml);
        }
    }
}
