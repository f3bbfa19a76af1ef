//! Builds the tree from the parser's events, with an explicit stack, so that depth, size and alias
//! expansion are bounded here and no input can exhaust the call stack.

use std::borrow::Cow;
use std::collections::BTreeMap;

use compact_str::CompactString;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::{FileId, Pos};
use crate::yaml::mapping::mapping;
use crate::yaml::node::{Entry, MergeTag, Node, Value};
use crate::yaml::repair::Repairs;
use crate::yaml::scalar;
use crate::yaml::tag::{merge_tag, resolve};

/// Deepest nesting. The deepest place of the compose schema has fewer than fifteen levels.
pub const MAX_DEPTH: usize = 64;

/// Most values a text may hold after its aliases are expanded: about 30 MB of tree.
pub const MAX_NODES: usize = 300_000;

/// Most bytes of text that aliases may add.
const MAX_ALIAS_BYTES: usize = 8 << 20;

pub(crate) fn clamp(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Why parsing ended early.
pub(crate) enum Stop {
    /// With a problem that is in the report already.
    Reported,
    /// With what is no YAML.
    Syntax(ScanError),
}

/// A value together with what it costs, kept for its aliases.
struct Anchor {
    node: Node,
    nodes: usize,
    bytes: usize,
    height: usize,
}

/// A collection that is being filled.
struct Frame {
    kind: Kind,
    pos: Pos,
    tag: MergeTag,
    anchor: usize,
    /// Nodes and alias bytes used when it began, to know its own size.
    nodes_before: usize,
    bytes: usize,
    /// Levels below this one.
    height: usize,
}

/// What is being filled. The members themselves wait in the builder's own lists, from `start` on,
/// so that a collection is allocated once, in its final size.
enum Kind {
    Seq { start: usize },
    Map { start: usize, key: Option<(String, Pos)>, merged: Vec<Node> },
}

pub(crate) struct Builder<'r> {
    file: FileId,
    report: &'r mut Report,
    repairs: &'r Repairs,
    stack: Vec<Frame>,
    /// Members of the open lists, innermost last.
    items: Vec<Node>,
    /// Members of the open mappings, innermost last.
    entries: Vec<Entry>,
    anchors: BTreeMap<usize, Anchor>,
    pub(super) documents: Vec<Node>,
    nodes: usize,
    alias_bytes: usize,
}

/// A finished value on its way into its parent.
struct Done {
    node: Node,
    bytes: usize,
    height: usize,
}

impl<'r> Builder<'r> {
    pub(super) fn new(file: FileId, report: &'r mut Report, repairs: &'r Repairs) -> Self {
        Self {
            file,
            report,
            repairs,
            stack: Vec::new(),
            items: Vec::new(),
            entries: Vec::new(),
            anchors: BTreeMap::new(),
            documents: Vec::new(),
            nodes: 0,
            alias_bytes: 0,
        }
    }

    pub(super) fn run<'t>(&mut self, parser: &mut Parser<'t, StrInput<'t>>) -> Result<(), Stop> {
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(Stop::Syntax)?;
            self.event(event, span)?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        let pos = self.pos(span.start);
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Scalar(text, style, anchor, tag) => self.scalar(text, style, anchor, tag, pos),
            Event::SequenceStart(anchor, tag) => {
                self.open(Kind::Seq { start: self.items.len() }, anchor, tag.as_deref(), pos)
            }
            Event::MappingStart(anchor, tag) => {
                let start = self.entries.len();
                let kind = Kind::Map { start, key: None, merged: Vec::new() };
                self.open(kind, anchor, tag.as_deref(), pos)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor, pos),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        pos: Pos,
    ) -> Result<(), Stop> {
        self.spend(1, pos)?;
        if text.contains('\0') {
            self.report
                .error(pos, Code::NotText, "the text contains a NUL character")
                .suggest("remove it: no name, path or argument can have one");
        }
        let plain = style == ScalarStyle::Plain;
        let bytes = text.len();
        let merge_tag = merge_tag(tag.as_deref());
        if self.wants_key() {
            return self.key(text.into_owned(), plain, anchor, pos);
        }
        let value = resolve(text, plain, tag.as_deref());
        let node = Node { value, pos, tag: merge_tag };
        self.remember(anchor, &node, 1, bytes, 0);
        self.attach(Done { node, bytes, height: 0 })
    }

    /// Whether the next value is the key of the open mapping.
    fn wants_key(&self) -> bool {
        let open = self.stack.last().map(|frame| &frame.kind);
        matches!(open, Some(Kind::Map { key: None, .. }))
    }

    fn key(&mut self, text: String, plain: bool, anchor: usize, pos: Pos) -> Result<(), Stop> {
        let value = if plain && text != "<<" {
            scalar::resolve_plain(&text)
        } else {
            Value::Str(CompactString::default())
        };
        if !matches!(value, Value::Str(_)) {
            let shown =
                if text.is_empty() { "an empty key".to_owned() } else { format!("`{text}`") };
            self.report
                .error(
                    pos,
                    Code::InvalidKey,
                    format!("{shown} is not a string and cannot be a mapping key"),
                )
                .suggest(format!("write \"{text}\" in quotes"));
        }
        if anchor > 0 {
            self.remember(anchor, &Node::text(text.clone(), pos), 1, text.len(), 0);
        }
        if let Some(Frame { kind: Kind::Map { key, .. }, .. }) = self.stack.last_mut() {
            *key = Some((text, pos));
        }
        Ok(())
    }

    fn open(&mut self, kind: Kind, anchor: usize, tag: Option<&Tag>, pos: Pos) -> Result<(), Stop> {
        if self.wants_key() {
            self.report
                .error(pos, Code::InvalidKey, "a list or a mapping cannot be a mapping key")
                .suggest("put values that start with `{` or `[` in quotes");
            return Err(Stop::Reported);
        }
        if self.stack.len() >= MAX_DEPTH {
            return self.too_deep(pos);
        }
        self.spend(1, pos)?;
        self.stack.push(Frame {
            kind,
            pos,
            tag: merge_tag(tag),
            anchor,
            nodes_before: self.nodes - 1,
            bytes: 0,
            height: 0,
        });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Stop> {
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        let value = match frame.kind {
            Kind::Seq { start } => Value::Seq(self.items.drain(start..).collect()),
            Kind::Map { start, merged, .. } => {
                let entries = self.entries.drain(start..).collect();
                Value::Map(mapping(entries, merged, self.report))
            }
        };
        let node = Node { value, pos: frame.pos, tag: frame.tag };
        let height = frame.height + 1;
        self.remember(frame.anchor, &node, self.nodes - frame.nodes_before, frame.bytes, height);
        self.attach(Done { node, bytes: frame.bytes, height })
    }

    fn alias(&mut self, anchor: usize, pos: Pos) -> Result<(), Stop> {
        let Some(found) = self.anchors.get(&anchor) else {
            self.report.error(
                pos,
                Code::InvalidAlias,
                "the alias refers to a value that contains the alias",
            );
            return Err(Stop::Reported);
        };
        let (nodes, bytes, height) = (found.nodes, found.bytes, found.height);
        if self.stack.len() + height > MAX_DEPTH {
            return self.too_deep(pos);
        }
        self.alias_bytes += bytes;
        if self.nodes + nodes > MAX_NODES || self.alias_bytes > MAX_ALIAS_BYTES {
            self.report
                .error(
                    pos,
                    Code::InvalidAlias,
                    "the aliases of this file expand to too many values",
                )
                .expected(format!("at most {MAX_NODES} values after expansion"));
            return Err(Stop::Reported);
        }
        self.nodes += nodes;
        let node = found.node.clone();
        if self.wants_key() {
            let Value::Str(text) = node.value else {
                self.report.error(
                    pos,
                    Code::InvalidKey,
                    "an alias that is used as a key must refer to a string",
                );
                return Err(Stop::Reported);
            };
            return self.key(text.to_string(), false, 0, pos);
        }
        self.attach(Done { node, bytes, height })
    }

    /// Puts a finished value where it belongs.
    fn attach(&mut self, done: Done) -> Result<(), Stop> {
        let Done { node, bytes, height } = done;
        let Some(frame) = self.stack.last_mut() else {
            if !node.is_null() {
                self.documents.push(node);
            }
            return Ok(());
        };
        frame.bytes += bytes;
        let merging = matches!(&frame.kind, Kind::Map { key: Some((key, _)), .. } if key == "<<");
        // What is merged lies at the level of this mapping, not below it.
        let height = if merging { height.saturating_sub(1) } else { height };
        frame.height = frame.height.max(height);
        match &mut frame.kind {
            Kind::Seq { .. } => self.items.push(node),
            Kind::Map { key, merged, .. } => {
                // A key is always there: `wants_key` was false when the value began.
                let (key, key_pos) = key.take().unwrap_or_default();
                if key == "<<" {
                    merged.push(node);
                } else {
                    self.entries.push(Entry { key: key.into(), key_pos, node });
                }
            }
        }
        Ok(())
    }

    fn remember(&mut self, anchor: usize, node: &Node, nodes: usize, bytes: usize, height: usize) {
        if anchor > 0 {
            let node = node.clone();
            self.anchors.insert(anchor, Anchor { node, nodes, bytes, height });
        }
    }

    fn spend(&mut self, nodes: usize, pos: Pos) -> Result<(), Stop> {
        self.nodes += nodes;
        if self.nodes <= MAX_NODES {
            return Ok(());
        }
        self.report
            .error(pos, Code::TooLarge, "the file contains too many values")
            .expected(format!("at most {MAX_NODES} values"));
        Err(Stop::Reported)
    }

    fn too_deep(&mut self, pos: Pos) -> Result<(), Stop> {
        self.report
            .error(pos, Code::TooDeep, "the values are nested too deeply")
            .expected(format!("at most {MAX_DEPTH} levels"));
        Err(Stop::Reported)
    }

    fn pos(&self, marker: Marker) -> Pos {
        position(self.file, self.repairs, marker)
    }
}

/// The position of a marker in the original text.
pub(crate) fn position(file: FileId, repairs: &Repairs, marker: Marker) -> Pos {
    let line = clamp(marker.line());
    let column = clamp(marker.col() + 1);
    Pos { file, line, column: column.saturating_sub(repairs.shift(line)).max(1) }
}
