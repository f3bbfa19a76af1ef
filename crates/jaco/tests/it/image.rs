//! `jaco image`: what is listed and removed, and what is refused before anything is sent.

use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;
use serde_json::{Value, json};

use crate::fixture::Session;

/// A cluster with two images, one of which has no name any more.
struct Cluster;

impl Script for Cluster {
    fn list_images(
        &self,
        _: v1::ListImagesRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListImagesResponse> {
        let image = |digit: &str, names: &[&str], used_by: &[&str]| v1::PushedImageInfo {
            id: format!("sha256:{}", digit.repeat(64)),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            bytes: 3 << 20,
            layers: 2,
            copies: 2,
            copies_possible: 2,
            nodes: vec!["n1".to_owned()],
            awaited: vec!["n2".to_owned()],
            used_by: used_by.iter().map(|user| (*user).to_owned()).collect(),
            pushed_at_ms: 1_700_000_000_000,
            by: "local:0".to_owned(),
            expires_at_ms: 0,
        };
        let images = vec![
            image("a", &["app:1", "app:2"], &["shop/web@1", "shop/web@2"]),
            image("b", &[], &[]),
        ];
        Ok(v1::ListImagesResponse { images })
    }

    fn remove_image(
        &self,
        request: v1::RemoveImageRequest,
        _: Option<&str>,
    ) -> Answer<v1::RemoveImageResponse> {
        assert!(!request.request_id.is_empty());
        let id = format!("sha256:{}", "a".repeat(64));
        Ok(v1::RemoveImageResponse { name: request.name, id, image_stays: request.in_use })
    }
}

/// R-OPS-1, R-CLI-6: each name has a row, with where the image is and which services run it; JSON has all of it.
#[test]
fn images_are_listed() {
    let session = Session::with(Cluster);
    let listed = session.run("image ls");
    let rows: Vec<Vec<&str>> =
        listed.out.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 3, "{}", listed.out);
    assert_eq!(rows[0][..2], ["-", "bbbbbbbbbbbb"]);
    assert_eq!(rows[1][..4], ["app:1", "aaaaaaaaaaaa", "3.0", "MiB"], "{}", listed.out);
    assert!(listed.out.contains("n1 (not yet n2)") && listed.out.contains("shop/web "));
    let json: Value = serde_json::from_str(&session.run("image ls -o json").out).unwrap();
    assert_eq!(json[0]["names"], json!(["app:1", "app:2"]));
    assert_eq!(json[0]["used_by"], json!(["shop/web@1", "shop/web@2"]));
    assert_eq!(json[0]["expires_at"], Value::Null);
}

/// R-OPS-1, R-CLI-6: a removal says whether the image stays; a name is checked and spelled in one way before it is sent.
#[test]
fn names_are_removed() {
    let session = Session::with(Cluster);
    let removed = session.run("image rm docker.io/library/app:1");
    assert_eq!(removed.out, "app:1 removed\n");
    let removed = session.run("image rm app:1 --in-use -o json");
    let json: Value = serde_json::from_str(&removed.out).unwrap();
    assert_eq!(json["outcome"], "untagged");
    for line in ["image rm App", "image push app@sha256:00", "image push app --copies 0"] {
        let refused = session.run(line);
        assert_eq!(refused.code, Some(2), "{line}: {}", refused.err);
    }
}
