//! Uploaded folders: what is read is what was written, and nothing else is read. R-IN-3, R-IN-4.

use std::collections::BTreeMap;

use jaco_compose::tree::{FileTree, TREE_BYTES_MAX, TreeEntry, TreeError, stays_below};
use jaco_types::ContentId;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

fn folder(mode: u32) -> TreeEntry {
    TreeEntry::Folder { mode }
}

fn file(mode: u32, pieces: &[u8]) -> TreeEntry {
    let pieces = pieces.iter().map(|number| ContentId([*number; 32])).collect::<Vec<_>>();
    TreeEntry::File { mode, size: pieces.len() as u64 * 7, pieces }
}

/// Folders up to three deep with files and links in them.
fn entries() -> impl Strategy<Value = BTreeMap<String, TreeEntry>> {
    let leaf = prop_oneof![
        (0..=0o7777_u32, prop::collection::vec(any::<u8>(), 0..3))
            .prop_map(|(mode, pieces)| file(mode, &pieces)),
        "[a-c]{1,2}(/[a-c])?".prop_map(|target| TreeEntry::Link { target }),
    ];
    let path = "[a-c]{1,2}(/[a-c]{1,2}){0,2}";
    (0..=0o7777_u32, prop::collection::btree_map(path, leaf, 0..6)).prop_map(|(mode, leaves)| {
        let mut all = BTreeMap::from([(String::new(), folder(mode))]);
        for (path, leaf) in leaves {
            let parents: Vec<&str> = path.match_indices('/').map(|(at, _)| &path[..at]).collect();
            // What is a file or a link already has nothing in it.
            if parents.iter().any(|parent| {
                all.get(*parent).is_some_and(|entry| !matches!(entry, TreeEntry::Folder { .. }))
            }) {
                continue;
            }
            for parent in parents {
                all.entry(parent.to_owned()).or_insert_with(|| folder(0o755));
            }
            all.entry(path.clone()).or_insert(leaf);
        }
        all
    })
}

proptest! {
    /// A tree that is written and read is the same tree, and its figures are those of its files.
    #[test]
    fn trees_survive_their_text(entries in entries()) {
        let tree = FileTree::new(entries.clone()).expect("each entry is in a folder");
        let text = tree.text();
        prop_assert_eq!(&FileTree::parse(text.as_bytes()).expect(&text), &tree);
        let listed: BTreeMap<_, _> = tree.entries().map(|(path, entry)| (path.to_owned(), entry.clone())).collect();
        prop_assert_eq!(&listed, &entries);
        let pieces: Vec<ContentId> = tree.pieces().collect();
        let sizes = entries.values().map(|entry| match entry {
            TreeEntry::File { size, pieces, .. } => (*size, pieces.len()),
            TreeEntry::Folder { .. } | TreeEntry::Link { .. } => (0, 0),
        });
        let (size, count) = sizes.fold((0, 0), |(size, count), (more, pieces)| (size + more, count + pieces));
        prop_assert_eq!((tree.size(), pieces.len()), (size, count));
    }

    /// Without one of its folders a tree is refused by the name of what is left in it.
    #[test]
    fn nothing_is_outside_of_a_folder(entries in entries(), which in any::<prop::sample::Index>()) {
        let parents: Vec<&String> = entries
            .keys()
            .filter(|folder| entries.keys().any(|path| path.rsplit_once('/').is_some_and(|(parent, _)| parent == *folder)))
            .collect();
        prop_assume!(!parents.is_empty());
        let gone = parents[which.index(parents.len())].clone();
        for replaced in [None, Some(file(0o644, &[])), Some(TreeEntry::Link { target: "a".to_owned() })] {
            let mut entries = entries.clone();
            entries.remove(&gone);
            entries.extend(replaced.map(|entry| (gone.clone(), entry)));
            let Err(TreeError::Path(path)) = FileTree::new(entries) else { panic!("{gone} was a folder") };
            prop_assert!(path.starts_with(&format!("{gone}/")), "{path} is not in {gone}");
        }
    }

    /// A text with one member changed, added, doubled or left out is none; nor is one with its entries in another order.
    #[test]
    fn a_changed_text_is_refused(entries in entries(), which in any::<prop::sample::Index>(), kind in 0..5_u8) {
        let text = FileTree::new(entries).unwrap().text();
        let mut json: Json = serde_json::from_str(&text).unwrap();
        let list = json["entries"].as_array_mut().unwrap();
        let at = which.index(list.len());
        match kind {
            0 => list[at]["mode"] = json!(0o10_000),
            1 => list[at]["more"] = json!(1),
            2 => list.push(list[at].clone()),
            3 => list[at]["type"] = json!("socket"),
            _ if list.len() > 1 => {
                let by = 1 + at % (list.len() - 1);
                list.rotate_left(by);
            }
            _ => list[at]["path"] = json!("x"),
        }
        let changed = json.to_string();
        prop_assume!(changed != text);
        prop_assert!(FileTree::parse(changed.as_bytes()).is_err(), "{changed}");
    }

    /// A link stays below exactly if no way to its target leaves the folder, counted step by step.
    #[test]
    fn links_that_go_up_are_counted(
        depth in 0..4_usize,
        parts in prop::collection::vec(prop::sample::select(vec!["..", ".", "a", "b"]), 1..6),
    ) {
        let path = ["l"; 4][..=depth].join("/");
        let mut level = i64::try_from(depth).unwrap();
        let mut leaves = false;
        let mut down = false;
        for part in &parts {
            match *part {
                ".." => {
                    level -= 1;
                    // Behind a name it may lead anywhere: that could be a link itself.
                    leaves |= level < 0 || down;
                }
                "." => {}
                _ => (level, down) = (level + 1, true),
            }
        }
        prop_assert_eq!(stays_below(&path, &parts.join("/")), !leaves, "{} -> {:?}", path, parts);
    }
}

/// The text of a tree has a most; one byte more is refused before it is read.
#[test]
fn texts_of_trees_are_bounded() {
    let tree = FileTree::of_file(0o100_644, 1, vec![ContentId([1; 32])]);
    let text = tree.text();
    assert!(matches!(
        tree.entries().next(),
        Some(("", TreeEntry::File { mode: 0o644, size: 1, .. }))
    ));
    let padded = |length: usize| format!("{text}{}", " ".repeat(length - text.len()));
    assert_eq!(FileTree::parse(padded(TREE_BYTES_MAX).as_bytes()), Err(TreeError::Form));
    let longer = padded(TREE_BYTES_MAX + 1);
    assert_eq!(FileTree::parse(longer.as_bytes()), Err(TreeError::TooLarge(TREE_BYTES_MAX + 1)));
    for (text, expected) in [
        (r#"{"entries":[],"format":1}"#, TreeError::Path(String::new())),
        (r#"{"entries":[]}"#, TreeError::Form),
        (r#"{"format":1}"#, TreeError::Form),
        (r#"{"entries":[],"format":0}"#, TreeError::Format(0)),
        (
            r#"{"entries":[{"path":"","type":"link","target":"a"}],"format":1}"#,
            TreeError::Path(String::new()),
        ),
    ] {
        assert_eq!(FileTree::parse(text.as_bytes()), Err(expected), "{text}");
    }
    let entries = BTreeMap::from([
        (String::new(), folder(0o755)),
        ("l".to_owned(), TreeEntry::Link { target: "..".to_owned() }),
    ]);
    let error = FileTree::new(entries).unwrap_err().to_string();
    assert_eq!(error, "the link \"l\" points to \"..\", outside of the uploaded folder");
}
