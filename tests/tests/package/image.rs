//! A stand-in for the image that the guide names: no registry is asked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use jaco_testkit::ran;

use crate::debian::{bootstrap, codename};

const NAME: &str = "nginx:1.27";

/// What a container has no use for.
const LEFT_OUT: &str = "--dpkgopt=path-exclude=/usr/share/{doc,man,locale,perl,info}/*";

/// Debian's own nginx and curl below the name of the official image, as `docker save` writes one; returns the file.
pub(crate) fn archive(folder: &Path) -> PathBuf {
    let root = folder.join("image");
    let mut make = bootstrap(folder);
    make.args(["--variant=extract", "--include=nginx-light,curl", LEFT_OUT]);
    ran(make.arg(codename()).arg(&root));
    furnish(&root);
    let parts = folder.join("parts");
    fs::create_dir(&parts).expect("an empty folder");
    let layer = parts.join("layer.tar");
    ran(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&layer).arg("."));
    let summed = ran(Command::new("sha256sum").arg(&layer));
    let digest = summed.split(' ').next().expect("the sum is before the name");
    let config = serde_json::json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Cmd": ["nginx", "-g", "daemon off;"],
            "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        "history": [{}],
    });
    let manifest = serde_json::json!([
        {"Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"]}
    ]);
    fs::write(parts.join("config.json"), config.to_string()).expect("written");
    fs::write(parts.join("manifest.json"), manifest.to_string()).expect("written");
    let archive = folder.join("nginx.tar");
    let mut pack = Command::new("tar");
    pack.arg("-C").arg(&parts).arg("-cf").arg(&archive);
    ran(pack.args(["manifest.json", "config.json", "layer.tar"]));
    archive
}

/// What installing the packages would have made.
fn furnish(root: &Path) {
    let (users, groups) =
        ("root:x:0:0::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\n", "root:x:0:\nwww-data:x:33:\n");
    fs::write(root.join("etc/passwd"), users).expect("written");
    fs::write(root.join("etc/group"), groups).expect("written");
    let site = root.join("etc/nginx/sites-available/default");
    let text = fs::read_to_string(&site).expect("the package has a site");
    let text = text.replace("/var/www/html", "/usr/share/nginx/html");
    fs::write(root.join("etc/nginx/sites-enabled/default"), text).expect("written");
    let logs = root.join("var/log/nginx");
    for folder in [&logs, &root.join("run"), &root.join("tmp")] {
        fs::create_dir_all(folder).expect("written");
    }
    for (log, stream) in [("access.log", "/dev/stdout"), ("error.log", "/dev/stderr")] {
        symlink(stream, logs.join(log)).expect("written");
    }
}

fn architecture() -> String {
    ran(Command::new("dpkg").arg("--print-architecture"))
}
