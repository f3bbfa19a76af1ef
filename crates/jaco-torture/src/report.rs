//! Opens images with the real code, and tells what came of them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::disk::Step;
use crate::images::Images;
use crate::recording::Recording;

/// What became of an image in which nothing is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It opens.
    Served,
    /// It does not open, and this says why.
    Refused(String),
}

/// What became of all images of a recording.
#[derive(Debug, Default)]
pub struct Report {
    pub images: usize,
    /// By reason.
    pub refused: BTreeMap<String, usize>,
    /// What a promise was broken by.
    pub broken: Vec<String>,
    /// After how many images the first promise was broken.
    pub first_broken: Option<usize>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused: usize = self.refused.values().sum();
        write!(f, "{} images, {refused} refused, {} broken", self.images, self.broken.len())?;
        for (reason, count) in &self.refused {
            write!(f, "\n  refused {count}: {reason}")?;
        }
        for broken in self.broken.iter().take(5) {
            write!(f, "\n  broken: {broken}")?;
        }
        Ok(())
    }
}

/// A test's share of images.
#[derive(Debug, Clone)]
pub struct Torture {
    /// At most so many.
    pub images: usize,
    pub seed: u64,
    /// Ends with the first broken promise, as a control does.
    pub until_broken: bool,
    /// Where images are written; a file system in memory is fastest.
    pub folder: PathBuf,
}

impl Torture {
    /// `JACO_TORTURE_IMAGES` images, else `share`, from `JACO_TORTURE_SEED`, else 1.
    #[must_use]
    pub fn of_environment(share: usize) -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let images = number("JACO_TORTURE_IMAGES").and_then(|images| usize::try_from(images).ok());
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        Self {
            images: images.unwrap_or(share),
            seed: number("JACO_TORTURE_SEED").unwrap_or(1),
            until_broken: false,
            folder,
        }
    }

    /// Opens images of `recording` by `check`, which gets the folder and the marks that were made before.
    ///
    /// # Panics
    /// If the images cannot be written.
    pub fn run(
        &self,
        recording: &Recording,
        mut check: impl FnMut(&Path, &[&str]) -> Result<Verdict, String>,
    ) -> Report {
        let mut report = Report::default();
        let place = self.folder.join(format!(
            "jaco-torture-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        for (at, draw, image) in Images::new(recording, self.seed).take(self.images) {
            image.write(&place).expect("images can be written");
            report.images += 1;
            let marks: Vec<&str> = recording.marks(at).collect();
            match check(&place, &marks) {
                Ok(Verdict::Served) => {}
                Ok(Verdict::Refused(reason)) => *report.refused.entry(reason).or_default() += 1,
                Err(broken) => {
                    let last = recording.steps[..at].last().map(|step: &Step| &step.kind);
                    report.first_broken.get_or_insert(report.images);
                    report
                        .broken
                        .push(format!("before step {at}, after {last:?}, {draw:?}: {broken}"));
                }
            }
            fs::remove_dir_all(&place).expect("images can be removed");
            if self.until_broken && report.first_broken.is_some() {
                break;
            }
        }
        report
    }
}
