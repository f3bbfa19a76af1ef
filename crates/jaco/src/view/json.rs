//! Parts of JSON and text that several views share.

pub(crate) use jaco_json::fields::{non_empty, string_map, without_null};

/// An image with the beginning of its digest, if that is resolved.
pub(crate) fn image_with_digest(image: &str, digest: &str) -> String {
    match digest.split_once("@sha256:") {
        Some((_, digest)) => {
            let short: String = digest.chars().take(12).collect();
            format!("{image}@sha256:{short}")
        }
        None => image.to_owned(),
    }
}
