//! Puts what is looked at on a screen of any size; made for 80 by 24.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use jaco_sentences::condition::Condition;

use super::content::{Content, List, Row, Rows, sign};
use super::state::{Mode, Screen, Text};
use crate::format::quantity::count;

/// Whether colours repeat what signs say. Without them what is selected is reversed all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    Shown,
    /// As the environment variable `NO_COLOR` asks for.
    Avoided,
}

/// A look at the cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'v> {
    pub(crate) content: &'v Content,
    pub(crate) screen: &'v Screen,
    /// The time of day.
    pub(crate) clock: &'v str,
    pub(crate) colours: Colours,
}

/// Columns between two cells.
const GAP: usize = 2;

/// The widest that a column may be while there are others behind it.
const CELL_MAX: usize = 40;

/// Lines of what needs attention at most.
const ATTENTION_MAX: usize = 6;

/// Draws it, and says how many rows of the list fit.
pub(crate) fn draw(frame: &mut Frame<'_>, view: View<'_>) -> usize {
    let attention = attention(view, frame.area().width.into());
    let height = u16::try_from(attention.len()).unwrap_or(u16::MAX);
    let [top, first, tabs, list, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(height + 1),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(heading(view, top.width.into()), top);
    frame.render_widget(Paragraph::new(attention), first);
    frame.render_widget(tab_line(view), tabs);
    let fitting = draw_rows(frame, view, list);
    frame.render_widget(Line::from(key_line(view.screen)).style(dim()), keys);
    if let Mode::Text(text) = &view.screen.mode {
        draw_text(frame, text, first.union(list));
    }
    fitting
}

fn heading(view: View<'_>, width: usize) -> Line<'static> {
    let left = format!("jaco · {}", view.content.source);
    let gap = width.saturating_sub(left.chars().count() + view.clock.chars().count()).max(1);
    let text = format!("{left}{}{}", " ".repeat(gap), view.clock);
    Line::from(text).style(Style::new().add_modifier(Modifier::BOLD))
}

/// Sentences that do not fit are cut: Enter on their row shows them whole.
fn attention(view: View<'_>, width: usize) -> Vec<Line<'static>> {
    let sentences = &view.content.attention;
    if sentences.is_empty() {
        return vec![Line::from("Nothing needs attention.").style(dim())];
    }
    let style = coloured(view.colours, Condition::Failing).add_modifier(Modifier::BOLD);
    let shown = if sentences.len() > ATTENTION_MAX { ATTENTION_MAX - 1 } else { sentences.len() };
    let mut lines: Vec<Line<'static>> = sentences[..shown]
        .iter()
        .map(|sentence| Line::from(cut(&format!("! {sentence}"), width)).style(style))
        .collect();
    if shown < sentences.len() {
        let more = format!("! and {} more", sentences.len() - shown);
        lines.push(Line::from(more).style(style));
    }
    lines
}

fn tab_line(view: View<'_>) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, list) in (1..).zip(List::ALL) {
        let rows = view.content.rows(list).rows.len();
        let text = format!(" {number} {} ({rows}) ", list.title());
        let is_chosen = list == view.screen.list;
        let style = if is_chosen { Style::new().add_modifier(Modifier::REVERSED) } else { dim() };
        spans.extend([Span::styled(text, style), Span::raw(" ")]);
    }
    let filter = &view.screen.filter;
    if view.screen.mode == Mode::Filter {
        spans.push(Span::raw(format!("/{filter}▏")));
    } else if !filter.is_empty() {
        spans.push(Span::raw(format!("/{filter}  (Esc shows all)")));
    }
    Line::from(spans)
}

fn draw_rows(frame: &mut Frame<'_>, view: View<'_>, area: Rect) -> usize {
    let rows = view.screen.rows(view.content);
    let all = view.content.rows(view.screen.list);
    let fitting = usize::from(area.height.saturating_sub(1));
    let selected = view.screen.selected(&rows);
    // The selected row is in the middle, unless an end of the list is nearer.
    let first = selected.saturating_sub(fitting / 2).min(rows.len().saturating_sub(fitting));
    let widths = widths(all, &rows, area.width.into());
    let head: Vec<String> = all.head.iter().map(|head| (*head).to_owned()).collect();
    let mut lines = vec![Line::from(format!("  {}", line(&head, &widths))).style(dim())];
    for (at, row) in rows.iter().enumerate().skip(first).take(fitting) {
        let text = format!("{} {}", sign(row.condition), line(&row.cells, &widths));
        let mut style = coloured(view.colours, row.condition);
        if at == selected {
            style = style.add_modifier(Modifier::REVERSED);
        }
        lines.push(Line::from(format!("{text:width$}", width = area.width.into())).style(style));
    }
    if rows.is_empty() {
        let text =
            if view.screen.filter.is_empty() { "there are none" } else { "none has that text" };
        lines.push(Line::from(format!("  {text}")).style(dim()));
    }
    frame.render_widget(Paragraph::new(lines), area);
    fitting
}

/// As wide as the widest cell that is shown; the last column has what is left.
fn widths(all: &Rows, rows: &[&Row], width: usize) -> Vec<usize> {
    let columns = all.head.len();
    let mut left = width.saturating_sub(2);
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or_default();
        widest.max(all.head[column].len()).min(CELL_MAX)
    };
    let mut widths = Vec::new();
    for column in 0..columns {
        let own = if column + 1 == columns { left } else { widest(column).min(left) };
        widths.push(own);
        left = left.saturating_sub(own + GAP);
    }
    widths
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let cells = cells.iter().zip(widths).filter(|(_, width)| **width > 0);
    let texts = cells.map(|(cell, width)| format!("{:width$}", cut(cell, *width)));
    texts.collect::<Vec<_>>().join("  ")
}

/// A text that is too long ends with an ellipsis.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { format!("{kept}…") }
}

fn draw_text(frame: &mut Frame<'_>, text: &Text, area: Rect) {
    let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Clear, area);
    let heading = format!(" {} ", text.title);
    let heading = format!("{heading:width$}", width = title.width.into());
    frame.render_widget(
        Line::from(heading).style(Style::new().add_modifier(Modifier::REVERSED)),
        title,
    );
    let lines = text.lines.iter().skip(text.first).take(body.height.into());
    let lines: Vec<Line<'_>> = lines.map(|line| Line::from(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines), body);
    let below = text.lines.len().saturating_sub(text.first + usize::from(body.height));
    if below > 0 {
        let last = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area };
        let more = format!("… {} below", count(below + 1, "line"));
        frame.render_widget(Clear, last);
        frame.render_widget(Line::from(more).style(dim()), last);
    }
}

fn key_line(screen: &Screen) -> &'static str {
    match screen.mode {
        Mode::Browse => "↑↓ select  Enter why  / filter  Tab next list  ? keys  q quit",
        Mode::Filter => "type a text  Enter keeps it  Esc shows all",
        Mode::Text(_) => "↑↓ scroll  Esc back",
    }
}

fn coloured(colours: Colours, condition: Condition) -> Style {
    match (colours, condition) {
        (Colours::Avoided, _) | (Colours::Shown, Condition::Well) => Style::new(),
        (Colours::Shown, Condition::Changing) => Style::new().fg(Color::Yellow),
        (Colours::Shown, Condition::Failing) => Style::new().fg(Color::Red),
    }
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

#[cfg(test)]
mod tests {
    use jaco_proto::v1::{NodeInfo, ReplicaInfo};
    use proptest::prelude::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::content::tests::status;
    use super::super::state::Key;
    use super::*;

    fn drawn(content: &Content, screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let view = View { content, screen, clock: "12:00:01Z", colours: Colours::Shown };
        terminal
            .draw(|frame| {
                draw(frame, view);
            })
            .unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| format!("{}\n", row(y).trim_end())).collect()
    }

    /// R-OPS-1: the whole cluster on a screen of 80 by 24, what needs an operator first.
    #[test]
    fn it_fits_a_small_screen() {
        let content = Content::of(&status(), 61_000);
        let mut screen = Screen::new();
        expect_test::expect![[r#"
            jaco · answered by n2 · leader n1                                      12:00:01Z
            ! n3: not ready: it sends no heartbeat
            ! shop/db: 1 replica cannot be placed: no node is eligible
            ! n2: draining: its replicas move away

             1 services (3)   2 replicas (4)   3 nodes (3)
              SERVICE   RUNNING  IMAGE  NOTES
              shop/web  2/2      web:1
            ~ shop/api  1/2      api:1  rolling to r2 step 1/2
            ! shop/db   0/1      db:1   1 replica cannot be placed: no node is eligible

            ↑↓ select  Enter why  / filter  Tab next list  ? keys  q quit
        "#]]
        .assert_eq(&drawn(&content, &screen, 80, 12));
        screen.press(Key::Char('3'), &content);
        screen.press(Key::End, &content);
        screen.press(Key::Enter, &content);
        expect_test::expect![[r#"
            jaco · answered by n2 · leader n1                  12:00:01Z
             n3
            NODE          n3
            STATUS        down
            AVAILABILITY  active
            REPLICAS      2 replicas
            ADDRESS       10.0.0.3:7000
            NOTES         not ready: it sends no heartbeat





            ↑↓ scroll  Esc back
        "#]]
        .assert_eq(&drawn(&content, &screen, 60, 14));
    }

    /// The selected row is on the screen, wherever it is in a long list.
    #[test]
    fn the_selected_row_is_on_the_screen() {
        let mut status = status();
        status.replicas = (0..1_000)
            .map(|number| ReplicaInfo { id: format!("shop-web-{number}"), ..Default::default() })
            .collect();
        let content = Content::of(&status, 61_000);
        let mut screen = Screen::new();
        screen.press(Key::Char('2'), &content);
        for (key, expected) in [
            (Key::Home, "shop-web-0"),
            (Key::PageDown, "shop-web-10"),
            (Key::End, "shop-web-999"),
            (Key::Up, "shop-web-998"),
        ] {
            screen.press(key, &content);
            let text = drawn(&content, &screen, 80, 24);
            assert!(text.split_whitespace().any(|word| word == expected), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Law: any size can be drawn on, whatever names and messages hold, and no control character of theirs gets there.
        #[test]
        fn any_size_can_be_drawn_on(
            width in 0_u16..200, height in 0_u16..60, name in any::<String>(), reason in any::<String>(),
        ) {
            let mut status = status();
            status.nodes.push(NodeInfo { hostname: name.clone(), status_reason: reason, ..Default::default() });
            status.replicas.push(ReplicaInfo { id: name, ..Default::default() });
            let content = Content::of(&status, 61_000);
            let mut screen = Screen::new();
            for key in [Key::Char('3'), Key::End, Key::Enter, Key::Escape, Key::Char('2'), Key::Char('/')] {
                screen.press(key, &content);
                let text = drawn(&content, &screen, width, height);
                prop_assert!(!text.chars().any(|char| char.is_control() && char != '\n'));
            }
        }
    }
}
