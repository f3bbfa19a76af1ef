//! What a Debian package says of itself to dpkg. Pure.

use std::fmt::Write;

use super::Release;
use super::arch::Architecture;

/// The fields that differ between packages.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) package: &'static str,
    pub(super) depends: String,
    pub(super) recommends: &'static str,
    pub(super) suggests: &'static str,
    pub(super) summary: &'static str,
    /// Lines of the long description.
    pub(super) description: &'static str,
}

impl Control {
    /// The file `control`.
    pub(super) fn text(&self, release: &Release, arch: Architecture, installed_kib: u64) -> String {
        let mut text = String::new();
        let (package, version) = (self.package, release.debian());
        let size = installed_kib.to_string();
        let arch = arch.to_string();
        let fields = [
            ("Package", package),
            ("Version", &version),
            ("Architecture", &arch),
            ("Maintainer", &release.maintainer),
            ("Installed-Size", &size),
            ("Depends", &self.depends),
            ("Recommends", self.recommends),
            ("Suggests", self.suggests),
            ("Section", "admin"),
            ("Priority", "optional"),
            ("Description", self.summary),
        ];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            writeln!(text, "{name}: {value}").expect("a string takes all");
        }
        for line in self.description.lines() {
            writeln!(text, " {line}").expect("a string takes all");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn fields_without_a_value_are_left_out() {
        let control = Control {
            package: "jaco",
            depends: "libc6 (>= 2.34)".to_owned(),
            recommends: "",
            suggests: "",
            summary: "a",
            description: "b\nc",
        };
        let release = Release {
            version: "0.1.0".to_owned(),
            revision: 1,
            epoch: 0,
            maintainer: "A <a@example.org>".to_owned(),
        };
        expect![[r#"
            Package: jaco
            Version: 0.1.0-1
            Architecture: amd64
            Maintainer: A <a@example.org>
            Installed-Size: 12
            Depends: libc6 (>= 2.34)
            Section: admin
            Priority: optional
            Description: a
             b
             c
        "#]]
        .assert_eq(&control.text(&release, Architecture::Amd64, 12));
    }
}
