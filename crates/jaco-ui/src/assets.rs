//! What the pages are shown with: one style, one script and one picture, of this program.

use std::sync::LazyLock;

use crate::link::Link;

/// A file that is served as it is.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Its name below `/ui/assets/`.
    pub name: &'static str,
    /// The kind of its content.
    pub content_type: &'static str,
    /// Its content.
    pub content: &'static str,
}

/// All of them.
pub const ALL: [Asset; 3] = [STYLE, SCRIPT, ICON];

pub(crate) const STYLE: Asset = Asset {
    name: "ui.css",
    content_type: "text/css; charset=utf-8",
    content: include_str!("../assets/ui.css"),
};

pub(crate) const SCRIPT: Asset = Asset {
    name: "ui.js",
    content_type: "text/javascript; charset=utf-8",
    content: include_str!("../assets/ui.js"),
};

pub(crate) const ICON: Asset = Asset {
    name: "icon.svg",
    content_type: "image/svg+xml",
    content: include_str!("../assets/icon.svg"),
};

/// What the contents of this program's assets are known by.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    // FNV-1a: it tells one program's assets from another's, and proves nothing.
    let bytes = ALL.iter().flat_map(|asset| asset.content.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
});

/// The asset at a path.
#[must_use]
pub fn at(path: &str) -> Option<&'static Asset> {
    let name = path.strip_prefix("/ui/assets/")?;
    ALL.iter().find(|asset| asset.name == name)
}

impl Asset {
    /// Where it is.
    #[must_use]
    pub fn link(&self) -> Link {
        Link::asset(self.name, &VERSION)
    }
}
