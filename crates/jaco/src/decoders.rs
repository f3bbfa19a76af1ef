//! What reads files that others may have written, as functions of bytes: for mutations and fuzz targets.

use std::fs::File;
use std::io::Write as _;

use jaco_backup::{Backup, Extent, Identities, Unlock, examine};
use sha2::{Digest as _, Sha256};

use crate::deploy::plan_file;
use crate::restore;

/// One that opens the frozen file of `age`.
const IDENTITY: &[u8] =
    b"AGE-SECRET-KEY-14S2D2H0HX707VYCMSJNKED4VTW5R0S8RHW7ALGHPUMSNE7888UUQ5YA2XR";

/// A backup, with its checksum put right: behind it is what is to be shown. All that a restore asks for is read.
pub fn backup(bytes: &[u8]) {
    let sum = Sha256::digest(bytes);
    let Ok(mut file) = tempfile::tempfile() else { return };
    if file.write_all(bytes).and_then(|()| file.write_all(&sum)).is_ok() {
        read_backup(file);
    }
}

/// An encrypted backup, with a key that may open it.
///
/// # Panics
/// Never: the key is one.
pub fn encrypted_backup(bytes: &[u8]) {
    let Ok(mut file) = tempfile::tempfile() else { return };
    let keys = Identities::read(IDENTITY).expect("the key is one");
    if file.write_all(bytes).is_ok()
        && let Ok(backup) = Backup::unlock(file, Unlock::Identities(&keys))
    {
        read_parts(&backup);
    }
}

fn read_backup(file: File) {
    if let Ok(backup) = Backup::open(file) {
        read_parts(&backup);
    }
}

fn read_parts(backup: &Backup) {
    for name in backup.deployments() {
        drop(backup.deployment(name));
    }
    for named in &backup.named {
        drop(backup.named(named));
    }
    for registry in backup.registries() {
        drop(registry);
    }
    drop(backup.piece(jaco_types::ContentId([7; 32])));
    drop(backup.secret(jaco_types::ContentId([7; 32])));
    if let Ok(examined) = examine(backup, &Extent::All) {
        drop((restore::json(&examined), restore::text(&examined)));
        drop((examined.absent(), examined.faults()));
    }
}

/// A tar archive of a container: every entry and its content is read.
pub fn archive(bytes: &[u8]) {
    let mut reader = crate::archive::Reader::new(bytes);
    while let Ok(Some(_)) = reader.next() {
        if std::io::copy(&mut reader, &mut std::io::sink()).is_err() {
            return;
        }
    }
}

/// An archive of an image: what it consists of is found out, for a name that it has and one that it has not.
pub fn image(bytes: &[u8]) {
    let Ok(scanned) = crate::image::scan(bytes) else { return };
    for name in ["app:1", "other:2"] {
        let name = jaco_types::ImageTag::parse(name).expect("a proper name");
        let Ok(image) = crate::image::parse(&scanned, &mut std::io::Cursor::new(bytes), &name)
        else {
            continue;
        };
        for blob in std::iter::once(&image.config).chain(&image.layers) {
            let at = usize::try_from(blob.offset).expect("it is in the archive");
            let length = usize::try_from(blob.bytes).expect("it is in the archive");
            let content = &bytes[at..at + length];
            assert_eq!(Sha256::digest(content)[..], blob.digest.0, "it is where it is said to be");
        }
    }
}

/// A saved plan, the contexts, and a list of what is disabled.
pub fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(Some(plan)) = plan_file::parse(std::path::Path::new("plan.json"), text) {
        drop(plan.request());
    }
    crate::connect::read_any(text);
    crate::commands::read_any_disabled(text);
}

#[cfg(test)]
mod tests {
    use jaco_mutate::{Decoder, withstand};

    use super::*;

    /// R-IN-3, R-CLI-6: mutations of files are read or refused.
    #[test]
    fn mutated_files_are_read_or_refused() {
        let frozen = include_bytes!("../../jaco-backup/src/frozen/v1.jacobak");
        let by_age = include_bytes!("../../jaco-backup/src/frozen/by-age-1.1.1.jacobak.age");
        // Without its checksum.
        let backups = vec![frozen[..frozen.len() - 32].to_vec()];
        let texts = [
            r#"{"jaco_plan":1,"deployment":"shop","digest":"abc","compose_json":"{}","binds":{"a":"07"},"max_file_bytes":9,"plan":{}}"#,
            "current = \"home\"\n[contexts.home]\nservers = [\"n1:7000\"]\ntoken = \"t\"\nca = \"c\"\n",
            r#"{"services":{"shop/web":{"allocations":["n1"]}},"nodes":["n2"]}"#,
        ];
        let texts = texts.map(|text| text.as_bytes().to_vec()).to_vec();
        let of = |name, decode, seeds| Decoder { name, decode, seeds };
        withstand(
            "decoders::tests::mutated_files_are_read_or_refused",
            &[
                of("cli-backup", backup as fn(&[u8]), backups),
                of("cli-encrypted-backup", encrypted_backup, vec![by_age.to_vec()]),
                of("cli-text", text, texts),
                of("cli-archive", archive, vec![crate::archive::tests::sample()]),
                of("cli-image", image, crate::image::tests::samples()),
            ],
        );
    }
}
