//! Other names for volume classes and hosts in the text of a jaco.yaml, for a cluster whose nodes are others (ADR 0158).
//! Everything else of the text stays as it was written, comments included.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jaco_types::{Hostname, VolumeClass};

use crate::diagnostics::code::Code;
use crate::diagnostics::problem::Problems;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::{FileId, Pos, Sources};
use crate::yaml::node::{Map, Node};
use crate::yaml::parse;

/// Names, each with the one that takes its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renames {
    /// Of `volumes.*.class`.
    pub volume_classes: BTreeMap<VolumeClass, VolumeClass>,
    /// Of `services[].hosts`.
    pub hosts: BTreeMap<Hostname, Hostname>,
}

/// A text with other names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    /// The text.
    pub text: String,
    /// The classes that were replaced.
    pub volume_classes: BTreeSet<VolumeClass>,
    /// The hosts that were replaced.
    pub hosts: BTreeSet<Hostname>,
}

/// A name in the text.
struct Place<'r> {
    pos: Pos,
    old: &'r str,
    new: &'r str,
}

impl Renames {
    /// Whether nothing is replaced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.volume_classes.is_empty() && self.hosts.is_empty()
    }

    /// Replaces the names in the text of a jaco.yaml; `name` is the file's name in messages.
    ///
    /// # Errors
    /// If the text cannot be read, or a name is written in a way in which it cannot be replaced, as by an anchor.
    pub fn apply(&self, name: &str, text: &str) -> Result<Renamed, Problems> {
        let (mut report, mut sources) = (Report::default(), Sources::default());
        let file = sources.add(name, text.into());
        let renamed = self.renamed(file, text, &mut report);
        renamed.ok_or_else(|| report.finish(&sources))
    }

    fn renamed(&self, file: FileId, text: &str, report: &mut Report) -> Option<Renamed> {
        let root = read(file, text, report)?;
        let mut places = self.places(&root);
        // From the end, so that no place moves before its turn.
        places.sort_by_key(|place| Reverse(place.pos));
        let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let replaced = places.iter().filter(|place| replace(&mut lines, place)).count();
        let text = lines.join("\n");
        let expected: Vec<&str> =
            self.names(&root).map(|(_, name, new)| new.unwrap_or(name)).collect();
        let root_now = read(file, &text, report);
        let now: Option<Vec<&str>> =
            root_now.as_ref().map(|root| self.names(root).map(|(_, name, _)| name).collect());
        if replaced < places.len() || now.as_ref() != Some(&expected) {
            let pos = places.last().map(|place| place.pos).unwrap_or_default();
            report
                .error(pos, Code::InvalidValue, "a name cannot be replaced as it is written here")
                .suggest("write it as plain text, without an anchor, a tag or escapes");
            return None;
        }
        let mut renamed = Renamed { text, volume_classes: BTreeSet::new(), hosts: BTreeSet::new() };
        for place in &places {
            renamed
                .volume_classes
                .extend(self.volume_classes.keys().find(|it| is(it.as_str(), place)).cloned());
            renamed.hosts.extend(self.hosts.keys().find(|it| is(it.as_str(), place)).cloned());
        }
        Some(renamed)
    }

    fn places<'r>(&'r self, root: &'r Node) -> Vec<Place<'r>> {
        let names = self.names(root);
        names.filter_map(|(pos, old, new)| Some(Place { pos, old, new: new? })).collect()
    }

    /// Every class and host of the text in one order, with the name that takes its place.
    fn names<'r>(
        &'r self,
        root: &'r Node,
    ) -> impl Iterator<Item = (Pos, &'r str, Option<&'r str>)> {
        let volumes = root.get("volumes").and_then(Node::as_map);
        let volumes = volumes.into_iter().flat_map(Map::iter);
        let classes = volumes.filter_map(|volume| volume.node.get("class")).filter_map(|node| {
            let name = node.as_str()?;
            let class = VolumeClass::new(name).ok();
            let new = class.and_then(|class| self.volume_classes.get(&class));
            Some((node.pos, name, new.map(VolumeClass::as_str)))
        });
        let services = root.get("services").and_then(Node::as_seq).unwrap_or_default();
        let hosts = services.iter().filter_map(|service| service.get("hosts")?.as_seq()).flatten();
        let hosts = hosts.filter_map(|node| {
            let name = node.as_str()?;
            let host = Hostname::new(name).ok();
            let new = host.and_then(|host| self.hosts.get(&host));
            Some((node.pos, name, new.map(Hostname::as_str)))
        });
        classes.chain(hosts)
    }
}

fn is(name: &str, place: &Place<'_>) -> bool {
    name == place.old
}

fn read(file: FileId, text: &str, report: &mut Report) -> Option<Node> {
    let mut documents = parse::parse(text, file, report)?;
    (documents.len() == 1).then(|| documents.remove(0))
}

/// Replaces the name at a place, in quotes or without; says whether it is there.
fn replace(lines: &mut [String], place: &Place<'_>) -> bool {
    let index = |number: u32| usize::try_from(number).ok()?.checked_sub(1);
    let (Some(line), Some(column)) = (index(place.pos.line), index(place.pos.column)) else {
        return false;
    };
    let Some(line) = lines.get_mut(line) else { return false };
    let Some((start, _)) = line.char_indices().nth(column) else { return false };
    let quoted = line[start..].starts_with(['"', '\'']);
    let start = start + usize::from(quoted);
    if !line[start..].starts_with(place.old) {
        return false;
    }
    line.replace_range(start..start + place.old.len(), place.new);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renames(classes: &[(&str, &str)], hosts: &[(&str, &str)]) -> Renames {
        let class = |name: &str| VolumeClass::new(name).unwrap();
        let host = |name: &str| Hostname::new(name).unwrap();
        Renames {
            volume_classes: classes.iter().map(|(a, b)| (class(a), class(b))).collect(),
            hosts: hosts.iter().map(|(a, b)| (host(a), host(b))).collect(),
        }
    }

    /// R-CLI-6: only the names are replaced, however they are written, and two may change places.
    #[test]
    fn names_are_replaced_and_nothing_else() {
        let text = "# ssd\ndeployment: ssd\nvolumes:\n  é: {class: ssd, size: 1G} # ssd\n  b: {\"class\": 'hdd'}\n  \
                    c:\n    class: \"ssd-2\"\nservices:\n- {name: n1, placement: hosts, hosts: [n1, 'n2']}\n";
        let all = renames(&[("ssd", "hdd"), ("hdd", "ssd")], &[("n1", "n10"), ("n9", "n3")]);
        let renamed = all.apply("jaco.yaml", text).unwrap();
        let expected = text
            .replace("class: ssd,", "class: hdd,")
            .replace("'hdd'", "'ssd'")
            .replace("[n1,", "[n10,");
        assert_eq!(renamed.text, expected);
        assert_eq!(renamed.volume_classes.len(), 2);
        assert_eq!(renamed.hosts.iter().map(Hostname::as_str).collect::<Vec<_>>(), ["n1"]);
        let nothing = renames(&[], &[]).apply("jaco.yaml", text).unwrap();
        assert_eq!(nothing.text, text);
    }

    /// R-CLI-6: what cannot be replaced is refused, not left as it is.
    #[test]
    fn what_cannot_be_replaced_is_refused() {
        let all = renames(&[("ssd", "nvme")], &[]);
        for text in [
            "deployment: &c ssd\nvolumes: {a: {class: *c}}\n",
            "volumes: {a: {class: \"s\\x73d\"}}\n",
            "volumes: {a: {class: !!str ssd}}\n",
            "volumes: [",
        ] {
            let renamed = all.apply("jaco.yaml", text);
            assert!(renamed.is_err() || renamed.is_ok_and(|it| it.text.contains("nvme")), "{text}");
        }
    }
}
