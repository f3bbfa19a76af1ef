//! How long a load takes: load, resolve and hash against the YAML parser alone.
//!
//! `cargo run --release --example load -- [CORPUS]` prints a table for the median and the largest
//! file of a corpus and for synthetic files of growing size. `-- --once FILE` loads one file and
//! prints time and peak memory; `-- --parse FILE` only parses it, to compare instruction counts on a
//! busy machine.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a measurement reads files, looks at the clock and prints"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use jaco_compose::{EnvFiles, Images, Input, Options, load, resolve};
use saphyr_parser::Parser;

/// Long enough for the kernel's count, which lags by a few milliseconds.
const MEASURE_FOR: Duration = Duration::from_millis(1_500);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("--once") => once(args.get(1).expect("a file to load")),
        Some("--parse") => {
            let path = args.get(1).expect("a file to parse");
            parse_all(&fs::read_to_string(path).expect("the file can be read"));
        }
        Some(corpus) => table(Path::new(corpus)),
        None => table(Path::new("../shared/corpus/compose")),
    }
}

/// Loads one file and says what it cost.
fn once(path: &str) {
    let bytes = fs::read(path).expect("the file can be read");
    let size = bytes.len();
    let start = Instant::now();
    let result = run("compose.yaml", &bytes, &BTreeMap::new());
    println!(
        "{size} bytes, {:?}, peak {} KiB: {}",
        start.elapsed(),
        peak_kib(),
        result.map_or_else(|message| message, |services| format!("{services} services"))
    );
}

fn table(corpus: &Path) {
    println!("| file | bytes | parser | load+resolve+hash | ratio |");
    println!("|---|---|---|---|---|");
    let mut files = accepted(corpus);
    files.sort_by_key(|(text, _)| text.len());
    if let (Some(median), Some(largest)) = (files.get(files.len() / 2), files.last()) {
        row("median of the corpus", median);
        row("largest of the corpus", largest);
    }
    for services in [100, 1_000, 2_000, 4_000] {
        row(&format!("{services} services"), &(synthetic(services), BTreeMap::new()));
    }
}

type Case = (String, BTreeMap<String, String>);

/// The accepted files of a corpus that need no other file.
fn accepted(corpus: &Path) -> Vec<Case> {
    let Ok(index) = fs::read(corpus.join("index.json")) else {
        println!("SKIPPED: no corpus at {}", corpus.display());
        return Vec::new();
    };
    let index: serde_json::Value = serde_json::from_slice(&index).expect("the index is JSON");
    let rows = index.as_array().expect("the index is a list").iter();
    rows.filter(|row| row["official"] == "accepted")
        .filter_map(|row| {
            let text = fs::read_to_string(corpus.join(row["file"].as_str()?)).ok()?;
            let env = row["env"].as_object()?.iter();
            let env =
                env.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            let case = (text, env.collect());
            run("compose.yaml", case.0.as_bytes(), &case.1).is_ok().then_some(case)
        })
        .collect()
}

fn synthetic(services: usize) -> String {
    let mut text = "services:\n".to_owned();
    for index in 0..services {
        write!(
            text,
            "  s{index}:
    image: registry.example/team/app-{index}:1.{index}
    command: [\"serve\", \"--port\", \"8080\"]
    environment:
      LEVEL: info
      NUMBER: \"{index}\"
      URL: http://s{index}:8080/?q=${{X:-y}}
    ports:
      - \"8080\"
    volumes:
      - data{index}:/data
    networks: [front, back]
    healthcheck:
      test: [\"CMD\", \"true\"]
      interval: 10s
    deploy:
      replicas: 2
      resources:
        limits: {{cpus: '0.5', memory: 64m}}
    restart: unless-stopped
"
        )
        .expect("a string takes everything");
    }
    text.push_str("networks: {front: {}, back: {}}\nvolumes:\n");
    for index in 0..services {
        writeln!(text, "  data{index}: {{}}").expect("a string takes everything");
    }
    text
}

fn run(path: &str, bytes: &[u8], env: &BTreeMap<String, String>) -> Result<usize, String> {
    let files = BTreeMap::from([(path.to_owned(), bytes.to_vec())]);
    let input = Input {
        project_dir: ".".to_owned(),
        name: Some("bench".to_owned()),
        env: env.clone(),
        env_files: EnvFiles::Nothing,
        ..Input::file(path)
    };
    let options = Options { images: Images::AllowLocal, ..Options::default() };
    let project = load(&input, &files).map_err(|problems| problems.to_string())?.project;
    // Files of the corpus may hold what JACO refuses; loading is measured all the same.
    Ok(resolve(&project, None, &options).map_or(0, |resolved| resolved.services.len()))
}

fn row(name: &str, (text, env): &Case) {
    let parser = time(|| parse_all(text));
    let all = time(|| {
        std::hint::black_box(run("compose.yaml", text.as_bytes(), env).expect("it loads"));
    });
    let ratio = all.as_secs_f64() / parser.as_secs_f64();
    println!("| {name} | {} | {parser:?} | {all:?} | {ratio:.2} |", text.len());
}

fn parse_all(text: &str) {
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        std::hint::black_box(event.expect("the file is YAML"));
    }
}

/// Processor time of one run, as the mean over many: other programs on the machine take from the
/// clock, not from this.
fn time(mut work: impl FnMut()) -> Duration {
    let (start, before) = (Instant::now(), on_cpu());
    let mut runs = 0;
    while start.elapsed() < MEASURE_FOR || runs < 20 {
        work();
        runs += 1;
    }
    (on_cpu() - before) / runs
}

/// How long this thread has been on a processor.
fn on_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says so");
    let nanos = stat.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.expect("the first number is nanoseconds"))
}

fn peak_kib() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("unknown").trim().trim_end_matches(" kB").to_owned()
}
