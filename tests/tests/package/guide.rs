//! `docs/getting-started.md` as a reader follows it: what is typed, in which order, and where.

const PAGE: &str = include_str!("../../../docs/getting-started.md");

/// The parts that are about machines with packages, in their order.
const FOLLOWED: [&str; 4] =
    ["On three machines", "Deploy something", "From your own machine", "Without packages"];

/// The parts that are not: `jaco dev`, which tests of its own start, and links.
const OTHERS: [&str; 2] = ["On one machine", "Next"];

/// Where a line is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    EachMachine,
    FirstMachine,
    EachOther,
    AnyMachine,
    Outside,
    OwnMachine,
    WithoutPackages,
}

/// How the page says where: the last of these before a block counts.
const SAID: [(&str, Place); 8] = [
    ("on each machine", Place::EachMachine),
    ("on the first machine", Place::FirstMachine),
    ("on each of the others", Place::EachOther),
    ("on any of them", Place::AnyMachine),
    ("where the compose file is", Place::AnyMachine),
    ("from outside:", Place::Outside),
    ("on your own machine", Place::OwnMachine),
    ("on a machine without dpkg", Place::WithoutPackages),
];

/// What a reader does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Types a line.
    Type { place: Place, line: String },
    /// Types another line in place of the one before.
    TypeInstead { place: Place, line: String },
    /// Writes a file.
    Write { place: Place, name: String, text: String },
}

/// All steps of the page.
pub(crate) fn steps() -> Vec<Step> {
    let parts = PAGE.split("\n## ").skip(1).filter_map(|part| part.split_once('\n'));
    let (mut seen, mut steps) = (Vec::new(), Vec::new());
    for (heading, text) in parts.filter(|(heading, _)| !OTHERS.contains(heading)) {
        seen.push(heading);
        steps.extend(steps_of(heading, text));
    }
    assert_eq!(seen, FOLLOWED, "a part of the page is followed, or it is known why not");
    steps
}

fn steps_of(heading: &str, text: &str) -> Vec<Step> {
    let (mut said, mut steps) = (String::new(), Vec::new());
    let mut pieces = text.split("```");
    while let Some(prose) = pieces.next() {
        // A sentence may be broken anywhere.
        said.push_str(&prose.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" "));
        said.push(' ');
        let Some(block) = pieces.next() else { break };
        let (language, body) = block.split_once('\n').expect("a block has lines");
        let place = place(&said).unwrap_or_else(|| panic!("{heading}: where is {body} typed?"));
        match language {
            "sh" => steps.extend(body.lines().flat_map(|line| typed(place, line))),
            "yaml" => steps.push(written(place, body)),
            other => panic!("{heading}: a block of {other:?} is not followed"),
        }
    }
    steps
}

fn place(said: &str) -> Option<Place> {
    let found = SAID.iter().filter_map(|(words, place)| Some((said.rfind(words)?, *place)));
    found.max_by_key(|(at, _)| *at).map(|(_, place)| place)
}

fn typed(place: Place, line: &str) -> Vec<Step> {
    let (command, comment) = line.split_once(" # ").unwrap_or((line, ""));
    let first = Step::Type { place, line: command.trim().to_owned() };
    let instead = comment.trim().strip_prefix("or: ");
    let instead = instead.map(|line| Step::TypeInstead { place, line: line.to_owned() });
    [first].into_iter().chain(instead).collect()
}

/// The first line of a file is a comment that names it.
fn written(place: Place, body: &str) -> Step {
    let name = body.lines().next().and_then(|line| line.strip_prefix("# "));
    let name = name.unwrap_or_else(|| panic!("which file is {body}")).to_owned();
    Step::Write { place, name, text: body.to_owned() }
}

/// A harness that sees nothing would agree with every page.
#[test]
fn a_page_is_read() {
    let page = "Some words, on\neach machine:\n\n```sh\na ./*.deb\nb   # or: c --now\n```\n\nOn any of them:\n\n```yaml\n# d.yaml\ne: f # g\n```\n";
    let place = Place::EachMachine;
    let expected = [
        Step::Type { place, line: "a ./*.deb".to_owned() },
        Step::Type { place, line: "b".to_owned() },
        Step::TypeInstead { place, line: "c --now".to_owned() },
        Step::Write {
            place: Place::AnyMachine,
            name: "d.yaml".to_owned(),
            text: "# d.yaml\ne: f # g\n".to_owned(),
        },
    ];
    assert_eq!(steps_of("A", page), expected);
}
