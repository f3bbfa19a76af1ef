//! What an import says to its user, as text and as JSON. Holds no value of the compose file.

use std::path::PathBuf;

use jaco_compose::{Problem, Problems, Severity};
use serde_json::{Value, json};

use super::originals::{Originals, State};
use crate::format::quantity::count;
use crate::import::{COMPOSE, Data, Difference, Imported, Origin};
use crate::output::{Frame, Show};

pub(super) struct Report {
    pub(super) imported: Imported,
    pub(super) originals: Option<Originals>,
    pub(super) problems: Problems,
    /// The folder; none if the file was printed.
    pub(super) folder: Option<PathBuf>,
}

impl Report {
    /// The folder in commands.
    fn folder(&self) -> String {
        self.folder
            .as_ref()
            .map_or_else(|| "DIR".to_owned(), |path| word(&path.display().to_string()))
    }

    fn is_valid(&self) -> bool {
        self.problems.errors().next().is_none()
    }

    /// The command that applies the original files.
    fn apply_originals(&self) -> Option<String> {
        let files = &self.originals.as_ref()?.files;
        let files: String = files.iter().map(|file| format!(" -f {}", word(file))).collect();
        Some(format!("jaco apply{files} --name {}", self.imported.name))
    }

    /// The commands that bring what runs into a cluster, in order.
    fn steps(&self) -> Vec<String> {
        let findings = &self.imported.findings;
        let mut steps = Vec::new();
        let mut images: Vec<&String> = findings.local_images.iter().map(|one| &one.image).collect();
        images.sort();
        images.dedup();
        steps.extend(images.into_iter().map(|image| format!("jaco image push {image}")));
        for secret in &findings.stored_secrets {
            let file = secret.file.as_deref().map_or_else(|| "FILE".to_owned(), word);
            steps.push(format!("jaco secret set {} {file}", secret.name));
        }
        steps.push(format!("jaco validate {}", self.folder()));
        steps.extend(findings.stop.iter().cloned());
        steps.push(format!("jaco apply {}", self.folder()));
        steps
    }

    fn head(&self) -> String {
        let services = count(self.imported.services.len(), "service");
        let (origin, name) = (self.imported.origin.as_str(), &self.imported.name);
        let place = self.folder.as_ref().map(|path| path.join(COMPOSE).display().to_string());
        let place = place.map(|place| format!(" in {place}")).unwrap_or_default();
        let verdict = match self.is_valid() {
            true => "jaco validate accepts it",
            false => "a cluster would refuse it until the errors below are corrected",
        };
        format!("{origin} {name}: {services}{place}; {verdict}\n")
    }
}

impl Show for Report {
    fn json(&self) -> Value {
        let findings = &self.imported.findings;
        let difference =
            |one: &Difference| json!({ "service": one.service, "sentence": one.sentence });
        let data = |data: &Data| {
            json!({
                "volume": data.volume,
                "engine_volume": data.engine_volume,
                "services": data.services,
                "steps": data_steps(&self.imported, data),
            })
        };
        json!({
            "kind": self.imported.origin.as_str(),
            "name": self.imported.name,
            "folder": self.folder.as_ref().map(|path| path.display().to_string()),
            "services": self.imported.services.keys().collect::<Vec<_>>(),
            "valid": self.is_valid(),
            "problems": self.problems.list.iter().map(problem_json).collect::<Vec<_>>(),
            "differences": findings.differences.iter().map(difference).collect::<Vec<_>>(),
            "local_images": findings.local_images.iter()
                .map(|one| json!({ "service": one.service, "image": one.image })).collect::<Vec<_>>(),
            "secret_values": findings.secret_values.iter()
                .map(|one| json!({ "service": one.service, "key": one.key })).collect::<Vec<_>>(),
            "stored_secrets": findings.stored_secrets.iter()
                .map(|one| json!({ "name": one.name, "file": one.file })).collect::<Vec<_>>(),
            "data": findings.data.iter().map(data).collect::<Vec<_>>(),
            "originals": self.originals.as_ref().map(|found| json!({
                "files": found.files,
                "state": found.state.as_str(),
                "apply": self.apply_originals(),
            })),
            "steps": self.steps(),
        })
    }

    fn text(&self, _: &Frame) -> String {
        let findings = &self.imported.findings;
        let mut text = self.head();
        let mut part = |title: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
                text.push_str(&format!("\n{title}:\n{lines}"));
            }
        };
        let of = |severity| {
            let list =
                self.problems.list.iter().filter(move |problem| problem.severity == severity);
            list.map(problem_line).collect::<Vec<_>>()
        };
        part("Errors, to correct before it can be applied", of(Severity::Error));
        let differences = findings.differences.iter().map(difference_line);
        part("Does not carry over", differences.collect());
        part("Works in another way on a cluster", of(Severity::Warning));
        let secrets =
            findings.secret_values.iter().map(|one| format!("{}: {}", one.service, one.key));
        let mut secrets: Vec<String> = secrets.collect();
        if !secrets.is_empty() {
            secrets.extend(SECRET_ADVICE.map(str::to_owned));
        }
        part("Values that look like secrets, as plain text in the file", secrets);
        let local =
            findings.local_images.iter().map(|one| format!("{}: {}", one.service, one.image));
        part(
            "Images that no registry is known to have; they are pushed into the cluster",
            local.collect(),
        );
        part("Next", self.steps());
        for data in &findings.data {
            let place = match self.imported.origin {
                Origin::Project => "",
                Origin::Stack => ", on each node of the swarm that has it",
            };
            let title = format!("Data of volume {}, after the apply{place}", data.volume);
            part(&title, data_steps(&self.imported, data));
        }
        part("The files that it was started from", self.originals_lines());
        text
    }
}

/// How to get a secret out of the file.
const SECRET_ADVICE: [&str; 3] = [
    "Only you can read the file (0600). Better: write each value to a file, `jaco secret set NAME FILE`, list NAME",
    "under `secrets` with `external: true`, and have the program read /run/secrets/NAME; many images take a",
    "variable with the ending _FILE for that. Look through the file: a secret with another name is not found.",
];

impl Report {
    fn originals_lines(&self) -> Vec<String> {
        let Some((originals, apply)) = self.originals.as_ref().zip(self.apply_originals()) else {
            return Vec::new();
        };
        match originals.state {
            State::Unchanged => vec![
                "are here, and were not changed since. They can be applied as they are, with their comments and profiles:".to_owned(),
                format!("  {apply}"),
                "The import has what really runs: images by digest, counts as they were scaled, variables filled in.".to_owned(),
            ],
            State::Changed => vec![
                "are here, but were changed since. Applied, they start something else than what runs now:".to_owned(),
                format!("  {apply}"),
            ],
        }
    }
}

/// A word of a shell.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn difference_line(difference: &Difference) -> String {
    match difference.service.as_str() {
        "" => difference.sentence.clone(),
        service => format!("{service}: {}", difference.sentence),
    }
}

/// A problem without the line of the file, which may hold a secret.
fn problem_line(problem: &Problem) -> String {
    let place = if problem.line > 0 {
        format!("{}:{}: ", problem.file, problem.line)
    } else {
        String::new()
    };
    let advice = problem.suggestion.as_ref().or(problem.expected.as_ref());
    let advice = advice.map(|advice| format!(" ({advice})")).unwrap_or_default();
    format!("{place}{}{advice}", problem.message)
}

fn problem_json(problem: &Problem) -> Value {
    let mut json = problem.to_json();
    if let Value::Object(members) = &mut json {
        members.remove("snippet");
    }
    json
}

/// How the content of a volume gets into the cluster, once the deployment is there.
fn data_steps(imported: &Imported, data: &Data) -> Vec<String> {
    if let Some(elsewhere) = &data.elsewhere {
        let sentence = format!(
            "its data is kept elsewhere ({elsewhere}): nothing is copied, each node has to reach it"
        );
        return vec![sentence];
    }
    let name = &imported.name;
    let archive = format!("{}.tar", data.volume);
    let mut steps = Vec::new();
    let target = data.target.trim_end_matches('/');
    match &data.container {
        Some(container) => steps.push(format!("docker cp {container}:{target}/. - > {archive}")),
        // Whichever node of the swarm has it.
        None => {
            steps.push(format!("docker ps --all --filter volume={}", data.engine_volume));
            steps.push(format!("docker cp CONTAINER:{target}/. - > {archive}"));
        }
    }
    let each = |verb: &str| {
        data.services
            .iter()
            .map(|service| format!("jaco {verb} {name}/{service}"))
            .collect::<Vec<_>>()
    };
    steps.extend(each("disable"));
    steps.push(format!("jaco volume restore {name}/{} {archive} --plain --replace", data.volume));
    steps.extend(each("enable"));
    steps
}
