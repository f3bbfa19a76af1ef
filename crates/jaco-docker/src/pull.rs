//! Image pulls with progress.

use std::collections::BTreeMap;

use bollard::Docker;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptions;
use futures::StreamExt;
use jaco_agent::RegistryCredentials;
use jaco_agent::engine::{ProgressSink, PullError, PullProgress, PullRequest};

use crate::auth;
use crate::error::{engine_error, pull_error};

/// Pulls an image. Docker stops when nobody reads the response, so dropping the future cancels the
/// pull.
pub(crate) async fn pull(
    docker: &Docker,
    pull: &PullRequest,
    credentials: Option<&RegistryCredentials>,
    progress: ProgressSink,
) -> Result<(), PullError> {
    let options = CreateImageOptions {
        from_image: Some(with_tag(&pull.image)),
        platform: pull.platform.as_deref().unwrap_or_default().to_owned(),
        ..CreateImageOptions::default()
    };
    let mut layers = Layers::default();
    let credentials = credentials.map(auth::for_docker);
    let mut answers = std::pin::pin!(docker.create_image(Some(options), None, credentials));
    while let Some(answer) = answers.next().await {
        if let Some(now) = layers.note(&answer.map_err(|error| pull_error(engine_error(error)))?) {
            progress(now);
        }
    }
    Ok(())
}

/// Without a tag Docker would pull all tags.
fn with_tag(image: &str) -> String {
    let name = image.rsplit_once('/').map_or(image, |(_, name)| name);
    if name.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

/// Progress of each layer.
#[derive(Debug, Default)]
struct Layers(BTreeMap<String, PullProgress>);

impl Layers {
    /// Processes a message; returns the total if it changed.
    fn note(&mut self, info: &CreateImageInfo) -> Option<PullProgress> {
        let id = info.id.clone()?;
        if info.status.as_deref() == Some("Download complete") {
            let layer = self.0.get_mut(&id)?;
            layer.done = layer.total;
            return Some(self.sum());
        }
        let detail = info.progress_detail.as_ref()?;
        // Extraction counts the same bytes again.
        if info.status.as_deref() != Some("Downloading") {
            return None;
        }
        let bytes = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        let layer = PullProgress { done: bytes(detail.current)?, total: bytes(detail.total)? };
        self.0.insert(id, layer);
        Some(self.sum())
    }

    fn sum(&self) -> PullProgress {
        self.0.values().fold(PullProgress::default(), |sum, layer| PullProgress {
            done: sum.done.saturating_add(layer.done),
            total: sum.total.saturating_add(layer.total),
        })
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::ProgressDetail;

    use super::*;

    #[test]
    fn image_without_a_tag_is_latest() {
        let check = |image, tagged| assert_eq!(with_tag(image), tagged);
        check("nginx", "nginx:latest");
        check("nginx:1.27", "nginx:1.27");
        check("localhost:5000/app", "localhost:5000/app:latest");
        check("app@sha256:00", "app@sha256:00");
    }

    #[test]
    fn progress_is_summed_over_layers() {
        let mut layers = Layers::default();
        let mut note = |id: &str, status: &str, current, total| {
            let detail = ProgressDetail { current: Some(current), total: Some(total) };
            layers.note(&CreateImageInfo {
                id: Some(id.to_owned()),
                status: Some(status.to_owned()),
                progress_detail: Some(detail),
                error_detail: None,
            })
        };
        assert_eq!(note("a", "Downloading", 5, 10), Some(PullProgress { done: 5, total: 10 }));
        assert_eq!(note("b", "Downloading", 1, 30), Some(PullProgress { done: 6, total: 40 }));
        assert_eq!(note("a", "Extracting", 1, 10), None);
        let complete = note("a", "Download complete", 0, 0);
        assert_eq!(complete, Some(PullProgress { done: 11, total: 40 }));
    }
}
