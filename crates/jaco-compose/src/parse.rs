//! Text to tree: documents of a YAML stream as [`Node`]s with positions and merge tags.
//!
//! Built on the parser's events and an explicit stack, so that depth, size and alias expansion are
//! bounded here and no input can exhaust the call stack. Reads no file and knows no compose key.

use compact_str::CompactString;
use std::borrow::Cow;
use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use crate::node::{Entry, Map, MergeTag, Node, Value};
use crate::problem::{Code, Report};
use crate::relaxed::Repairs;
use crate::scalar;
use crate::source::{FileId, Pos};

/// Longest text that is parsed, in bytes. The longest compose file of 2,116 public ones has 2,132
/// lines; a megabyte holds about 5,000 services.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Deepest nesting. The deepest place of the compose schema has fewer than fifteen levels.
pub const MAX_DEPTH: usize = 64;

/// Most values a text may hold after its aliases are expanded: about 30 MB of tree.
pub const MAX_NODES: usize = 300_000;

/// Most bytes of text that aliases may add.
const MAX_ALIAS_BYTES: usize = 8 << 20;

/// Checks that `bytes` are text of a bearable size, without a byte order mark.
pub(crate) fn decode<'t>(bytes: &'t [u8], file: FileId, report: &mut Report) -> Option<&'t str> {
    if bytes.len() > MAX_FILE_BYTES {
        let size = bytes.len();
        report
            .error(whole(file), Code::TooLarge, format!("the file has {size} bytes"))
            .expected(format!("at most {MAX_FILE_BYTES} bytes"));
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let pos = position_of(bytes, error.valid_up_to(), file);
            report
                .error(pos, Code::NotText, "the file is not valid UTF-8")
                .expected("a text file in UTF-8");
            return None;
        }
    };
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let pos = position_of(bytes, at, file);
        report.error(pos, Code::NotText, "the file holds a NUL byte").expected("a text file");
        return None;
    }
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads every document of `text`; empty ones are left out.
pub(crate) fn parse(text: &str, file: FileId, report: &mut Report) -> Option<Vec<Node>> {
    let mut repairs = Repairs::default();
    let mut moved = None;
    loop {
        let mut findings = Report::default();
        let text_now = moved.as_deref().unwrap_or(text);
        let mut builder = Builder::new(file, &mut findings, &repairs);
        let end = builder.run(&mut Parser::new_from_str(text_now));
        let documents = builder.documents;
        match end {
            Ok(()) => {
                report.absorb(findings);
                return Some(documents);
            }
            Err(Stop::Reported) => {
                report.absorb(findings);
                return None;
            }
            Err(Stop::Syntax(error)) => {
                if repairs.plan(text, &error) {
                    moved = Some(repairs.apply(text));
                    continue;
                }
                report.absorb(findings);
                let pos = position(file, &repairs, *error.marker());
                report.error(pos, Code::YamlSyntax, describe_syntax(error.info()));
                return None;
            }
        }
    }
}

fn whole(file: FileId) -> Pos {
    Pos { file, line: 0, column: 0 }
}

fn position_of(bytes: &[u8], at: usize, file: FileId) -> Pos {
    let before = &bytes[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    Pos { file, line: clamp(line), column: clamp(column) }
}

fn clamp(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Why parsing ended early.
enum Stop {
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

struct Builder<'r> {
    file: FileId,
    report: &'r mut Report,
    repairs: &'r Repairs,
    stack: Vec<Frame>,
    /// Members of the open lists, innermost last.
    items: Vec<Node>,
    /// Members of the open mappings, innermost last.
    entries: Vec<Entry>,
    anchors: BTreeMap<usize, Anchor>,
    documents: Vec<Node>,
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
    fn new(file: FileId, report: &'r mut Report, repairs: &'r Repairs) -> Self {
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

    fn run<'t>(&mut self, parser: &mut Parser<'t, StrInput<'t>>) -> Result<(), Stop> {
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
                .error(pos, Code::InvalidKey, format!("{shown} is not a text and cannot be a key"))
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
                .error(pos, Code::InvalidKey, "a list or a mapping cannot be a key")
                .suggest("a value that begins with `{` or `[` must be in quotes");
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
                Value::Map(self.mapping(entries, merged))
            }
        };
        let node = Node { value, pos: frame.pos, tag: frame.tag };
        let height = frame.height + 1;
        self.remember(frame.anchor, &node, self.nodes - frame.nodes_before, frame.bytes, height);
        self.attach(Done { node, bytes: frame.bytes, height })
    }

    fn alias(&mut self, anchor: usize, pos: Pos) -> Result<(), Stop> {
        let Some(found) = self.anchors.get(&anchor) else {
            self.report.error(pos, Code::InvalidAlias, "the alias stands inside of what it names");
            return Err(Stop::Reported);
        };
        let (nodes, bytes, height) = (found.nodes, found.bytes, found.height);
        if self.stack.len() + height > MAX_DEPTH {
            return self.too_deep(pos);
        }
        self.alias_bytes += bytes;
        if self.nodes + nodes > MAX_NODES || self.alias_bytes > MAX_ALIAS_BYTES {
            self.report
                .error(pos, Code::InvalidAlias, "the aliases of this file expand to too much")
                .expected(format!("at most {MAX_NODES} values after expansion"));
            return Err(Stop::Reported);
        }
        self.nodes += nodes;
        let node = found.node.clone();
        if self.wants_key() {
            let Value::Str(text) = node.value else {
                self.report.error(pos, Code::InvalidKey, "an alias used as a key must be a text");
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

    /// Sorts, refuses duplicates, and lays merged mappings below the written entries.
    fn mapping(&mut self, mut entries: Vec<Entry>, merged: Vec<Node>) -> Map {
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        let mut unique = true;
        for pair in entries.windows(2) {
            if pair[0].key == pair[1].key {
                unique = false;
                let (key, first) = (&pair[1].key, pair[0].key_pos.line);
                self.report
                    .error(pair[1].key_pos, Code::DuplicateKey, format!("`{key}` is there twice"))
                    .suggest(format!("the first one is on line {first}"));
            }
        }
        let mut map = if unique { Map::from_sorted(entries) } else { Map::from_entries(entries) };
        if let Some(second) = merged.get(1) {
            self.report.error(second.pos, Code::DuplicateKey, "`<<` is there twice");
        }
        for node in merged {
            self.merge_below(&mut map, node);
        }
        map
    }

    fn merge_below(&mut self, map: &mut Map, node: Node) {
        let pos = node.pos;
        match node.value {
            Value::Map(below) => merge_missing(map, below),
            Value::Seq(list) if list.iter().all(|item| item.as_map().is_some()) => {
                for item in list {
                    self.merge_below(map, item);
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Str(_)
            | Value::Seq(_) => {
                self.report
                    .error(pos, Code::WrongType, "`<<` merges mappings only")
                    .expected("an alias of a mapping, or a list of them");
            }
        }
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
            .error(pos, Code::TooLarge, "the file holds too many values")
            .expected(format!("at most {MAX_NODES} values"));
        Err(Stop::Reported)
    }

    fn too_deep(&mut self, pos: Pos) -> Result<(), Stop> {
        self.report
            .error(pos, Code::TooDeep, "the nesting is too deep")
            .expected(format!("at most {MAX_DEPTH} levels"));
        Err(Stop::Reported)
    }

    fn pos(&self, marker: Marker) -> Pos {
        position(self.file, self.repairs, marker)
    }
}

/// Where the parser stands, in the text as it was written.
fn position(file: FileId, repairs: &Repairs, marker: Marker) -> Pos {
    let line = clamp(marker.line());
    let column = clamp(marker.col() + 1);
    Pos { file, line, column: column.saturating_sub(repairs.shift(line)).max(1) }
}

/// Adds what `map` does not have yet; both are sorted, so one pass is enough.
fn merge_missing(map: &mut Map, below: Map) {
    let mut all = std::mem::take(map).into_entries();
    let known = all.len();
    for entry in below.into_entries() {
        let here = all[..known].binary_search_by(|own| own.key.cmp(&entry.key));
        if here.is_err() {
            all.push(entry);
        }
    }
    all.sort_by(|a, b| a.key.cmp(&b.key));
    *map = Map::from_sorted(all);
}

fn merge_tag(tag: Option<&Tag>) -> MergeTag {
    match tag {
        Some(tag) if tag.handle == "!" && tag.suffix == "reset" => MergeTag::Reset,
        Some(tag) if tag.handle == "!" && tag.suffix == "override" => MergeTag::Override,
        Some(_) | None => MergeTag::None,
    }
}

fn resolve(text: Cow<'_, str>, plain: bool, tag: Option<&Tag>) -> Value {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() => resolve_tagged(text, &tag.suffix),
        // An unknown tag makes a text; the two merge tags leave the reading alone.
        Some(tag) if merge_tag(Some(tag)) == MergeTag::None => Value::Str(text.into_owned().into()),
        Some(_) | None if plain => scalar::resolve_plain(&text),
        Some(_) | None => Value::Str(text.into_owned().into()),
    }
}

fn resolve_tagged(text: Cow<'_, str>, kind: &str) -> Value {
    match (kind, scalar::resolve_plain(&text)) {
        ("null", _) => Value::Null,
        ("int" | "float" | "bool", value @ (Value::Int(_) | Value::Float(_) | Value::Bool(_))) => {
            value
        }
        _ => Value::Str(text.into_owned().into()),
    }
}

/// Words for the parser's own messages where those would puzzle a person.
fn describe_syntax(info: &str) -> String {
    if info.contains("tab") && !info.contains("table") {
        return format!("{info} (YAML is indented with spaces)");
    }
    info.to_owned()
}
