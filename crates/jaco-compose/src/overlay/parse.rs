//! From the text of a jaco.yaml to typed values.

use crate::diagnostics::code::Code;
use crate::diagnostics::path::Path;
use crate::diagnostics::problem::Problems;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::{FileId, Pos, Sources};
use crate::normalise::checker::Checker;
use crate::overlay::types::{JacoYaml, ServiceOverlay};
use crate::overlay::{read, schema};
use crate::yaml::parse;

impl JacoYaml {
    /// Reads and checks a jaco.yaml; `name` is the file's name in messages.
    ///
    /// # Errors
    ///
    /// Every problem of the file.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Problems> {
        let mut report = Report::default();
        let mut sources = Sources::default();
        let file = sources.add(name, "".into());
        let overlay = read_text(bytes, file, &mut sources, &mut report);
        match overlay {
            Some(mut overlay) if !report.has_errors() => {
                overlay.warnings = report.finish(&sources);
                overlay.sources = sources;
                Ok(overlay)
            }
            Some(_) | None => Err(report.finish(&sources)),
        }
    }

    /// The overrides of `service`.
    #[must_use]
    pub fn service(&self, service: &str) -> Option<&ServiceOverlay> {
        self.services.iter().find(|overlay| overlay.name == service)
    }
}

fn read_text(
    bytes: &[u8],
    file: FileId,
    sources: &mut Sources,
    report: &mut Report,
) -> Option<JacoYaml> {
    let text = parse::decode(bytes, file, report)?;
    sources.set_text(file, text.into());
    let mut documents = parse::parse(text, file, report)?;
    if documents.len() != 1 {
        let message = if documents.is_empty() {
            "jaco.yaml is empty"
        } else {
            "jaco.yaml contains more than one document"
        };
        report
            .error(Pos::start_of(file), Code::EmptyDocument, message)
            .suggest("write `deployment: NAME`");
        return None;
    }
    let mut root = documents.remove(0);
    let mut ports = 0;
    let mut checker =
        Checker { what: "jaco.yaml", report, ports: &mut ports, dir: ".", home: None };
    checker.apply(&schema::FILE, &mut root, Path::root(""));
    read::overlay(&root, report)
}
