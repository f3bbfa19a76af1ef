//! What is looked at on the screen, and what keys do. Pure.

use super::content::{Content, List, Row};

/// A key, as far as it means anything here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    BackTab,
}

/// What is to be done outside the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Quit,
    /// Ask where a service, or that of a replica, may run.
    Explain(String),
}

/// What is in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The lists.
    Browse,
    /// The lists, while the filter is typed.
    Filter,
    /// A text about one row.
    Text(Text),
}

/// A text that is scrolled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    pub(crate) first: usize,
}

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) list: List,
    pub(crate) mode: Mode,
    /// In lower case; only rows that have it are shown.
    pub(crate) filter: String,
    /// The name of the selected row of each list, and where it was: it may move, or go.
    selected: [(String, usize); 3],
    /// Lines of a page.
    page: usize,
}

const HELP: &[&str] = &[
    "1 2 3, Tab     services, replicas, nodes",
    "↑ ↓, k j       select a row; PgUp PgDn Home End, g G",
    "Enter          why it runs where it does, or does not run",
    "/              show only rows with a text; Esc shows all",
    "q, Ctrl-C      quit",
    "",
    "A row with ! needs an operator, one with ~ is changing.",
];

impl Screen {
    pub(crate) fn new() -> Self {
        let nothing = || (String::new(), 0);
        Self {
            list: List::Services,
            mode: Mode::Browse,
            filter: String::new(),
            selected: [nothing(), nothing(), nothing()],
            page: 10,
        }
    }

    /// How many rows fit, as was drawn last.
    pub(crate) fn fits(&mut self, rows: usize) {
        self.page = rows.max(1);
    }

    /// The rows that are shown.
    pub(crate) fn rows<'c>(&self, content: &'c Content) -> Vec<&'c Row> {
        let rows = content.rows(self.list).rows.iter();
        rows.filter(|row| self.filter.is_empty() || row.has(&self.filter)).collect()
    }

    /// Where the selected row is among them now; where it was if it is gone.
    pub(crate) fn selected(&self, rows: &[&Row]) -> usize {
        let (name, was) = &self.selected[self.list as usize];
        let now = rows.iter().position(|row| row.name() == name);
        now.unwrap_or(*was).min(rows.len().saturating_sub(1))
    }

    /// The answer to [`Action::Explain`], unless the user is elsewhere by now.
    pub(crate) fn answer(&mut self, title: &str, text: &str) {
        if let Mode::Text(open) = &mut self.mode
            && open.title == title
        {
            open.lines = text.lines().map(str::to_owned).collect();
        }
    }

    pub(crate) fn press(&mut self, key: Key, content: &Content) -> Action {
        match &mut self.mode {
            Mode::Filter => self.type_filter(key),
            Mode::Text(text) => {
                if scroll(text, key, self.page) {
                    self.mode = Mode::Browse;
                }
            }
            Mode::Browse => return self.browse(key, content),
        }
        Action::Nothing
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(char) => self.filter.extend(char.to_lowercase()),
            Key::Backspace => drop(self.filter.pop()),
            Key::Escape => {
                self.filter.clear();
                self.mode = Mode::Browse;
            }
            Key::Enter => self.mode = Mode::Browse,
            Key::Up
            | Key::Down
            | Key::PageUp
            | Key::PageDown
            | Key::Home
            | Key::End
            | Key::Tab
            | Key::BackTab => {}
        }
    }

    fn browse(&mut self, key: Key, content: &Content) -> Action {
        let at = self.list as usize;
        match key {
            Key::Char('q') => return Action::Quit,
            Key::Char('?' | 'h') => self.open("Keys", HELP.iter().map(|line| (*line).to_owned())),
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Escape => self.filter.clear(),
            Key::Char('1') => self.list = List::Services,
            Key::Char('2') => self.list = List::Replicas,
            Key::Char('3') => self.list = List::Nodes,
            Key::Tab => self.list = List::ALL[(at + 1) % List::ALL.len()],
            Key::BackTab => self.list = List::ALL[(at + List::ALL.len() - 1) % List::ALL.len()],
            Key::Enter => return self.explain(content),
            Key::Up | Key::Char('k') => self.select(content, |now, _| now.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select(content, |now, _| now + 1),
            Key::PageUp => self.select(content, |now, page| now.saturating_sub(page)),
            Key::PageDown => self.select(content, |now, page| now + page),
            Key::Home | Key::Char('g') => self.select(content, |_, _| 0),
            Key::End | Key::Char('G') => self.select(content, |_, _| usize::MAX),
            Key::Char(_) | Key::Backspace => {}
        }
        Action::Nothing
    }

    fn select(&mut self, content: &Content, to: impl FnOnce(usize, usize) -> usize) {
        let rows = self.rows(content);
        let now = self.selected(&rows);
        let next = to(now, self.page).min(rows.len().saturating_sub(1));
        let name = rows.get(next).map(|row| row.name().to_owned()).unwrap_or_default();
        self.selected[self.list as usize] = (name, next);
    }

    /// Nodes have their reasons in their row.
    fn explain(&mut self, content: &Content) -> Action {
        let rows = self.rows(content);
        let Some(row) = rows.get(self.selected(&rows)) else { return Action::Nothing };
        let name = row.name().to_owned();
        match self.list {
            List::Services | List::Replicas => {
                self.open(&name, ["asking …".to_owned()]);
                Action::Explain(name)
            }
            List::Nodes => {
                let head = content.rows(self.list).head;
                let lines = head.iter().zip(&row.cells);
                let lines: Vec<_> = lines.map(|(head, cell)| format!("{head:14}{cell}")).collect();
                self.open(&name, lines);
                Action::Nothing
            }
        }
    }

    fn open(&mut self, title: &str, lines: impl IntoIterator<Item = String>) {
        let (title, lines) = (title.to_owned(), lines.into_iter().collect());
        self.mode = Mode::Text(Text { title, lines, first: 0 });
    }
}

/// Moves in a text, and says whether it is closed.
fn scroll(text: &mut Text, key: Key, page: usize) -> bool {
    let last = text.lines.len().saturating_sub(1);
    let to = match key {
        Key::Escape | Key::Enter | Key::Char('q') => return true,
        Key::Up | Key::Char('k') => text.first.saturating_sub(1),
        Key::Down | Key::Char('j') => text.first + 1,
        Key::PageUp => text.first.saturating_sub(page),
        Key::PageDown | Key::Char(' ') => text.first + page,
        Key::Home | Key::Char('g') => 0,
        Key::End | Key::Char('G') => last,
        Key::Char(_) | Key::Backspace | Key::Tab | Key::BackTab => text.first,
    };
    text.first = to.min(last);
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::content::tests::status;
    use super::*;

    fn content() -> Content {
        Content::of(&status(), 61_000)
    }

    fn type_text(screen: &mut Screen, text: &str, content: &Content) {
        for char in text.chars() {
            assert_eq!(screen.press(Key::Char(char), content), Action::Nothing);
        }
    }

    fn names(screen: &Screen, content: &Content) -> Vec<String> {
        screen.rows(content).iter().map(|row| row.name().to_owned()).collect()
    }

    /// R-OPS-1: each list is a key away, and shows only what the filter has.
    #[test]
    fn lists_are_chosen_and_filtered() {
        let (mut screen, content) = (Screen::new(), content());
        assert_eq!(names(&screen, &content), ["shop/web", "shop/api", "shop/db"]);
        screen.press(Key::Char('2'), &content);
        type_text(&mut screen, "/API", &content);
        screen.press(Key::Enter, &content);
        assert_eq!(names(&screen, &content), ["shop-api-0", "shop-api-1"]);
        screen.press(Key::Tab, &content);
        assert_eq!(names(&screen, &content), [""; 0], "no node has it");
        screen.press(Key::Escape, &content);
        assert_eq!(names(&screen, &content), ["n1", "n2", "n3"]);
        screen.press(Key::Tab, &content);
        assert_eq!(screen.list, List::Services);
        screen.press(Key::BackTab, &content);
        assert_eq!(screen.list, List::Nodes);
    }

    /// R-OPS-1: what is selected stays selected where rows come and go.
    #[test]
    fn the_selected_row_is_followed() {
        let (mut screen, before) = (Screen::new(), content());
        screen.press(Key::Char('2'), &before);
        screen.press(Key::Down, &before);
        let mut status = status();
        status.replicas.remove(2);
        let after = Content::of(&status, 61_000);
        let rows = screen.rows(&after);
        assert_eq!(rows[screen.selected(&rows)].name(), "shop-api-1");
        status.replicas.pop();
        let after = Content::of(&status, 61_000);
        let rows = screen.rows(&after);
        assert_eq!(rows[screen.selected(&rows)].name(), "shop-web-10", "the one in its place");
    }

    /// R-OPS-1: a key explains a row, and an answer to another row is not shown for it.
    #[test]
    fn a_row_is_explained() {
        let (mut screen, content) = (Screen::new(), content());
        screen.press(Key::End, &content);
        let action = screen.press(Key::Enter, &content);
        assert_eq!(action, Action::Explain("shop/db".to_owned()));
        screen.answer("shop/web", "an answer that came late");
        screen.answer("shop/db", "no node\nis eligible");
        let Mode::Text(text) = &screen.mode else { panic!("{screen:?}") };
        assert_eq!(text.lines, ["no node", "is eligible"]);
        // Its keys are not those of the lists.
        assert_eq!(screen.press(Key::Char('q'), &content), Action::Nothing);
        assert_eq!(screen.mode, Mode::Browse);
        assert_eq!(screen.press(Key::Char('q'), &content), Action::Quit);
    }

    fn key() -> impl Strategy<Value = Key> {
        let keys = vec![
            Key::Enter,
            Key::Escape,
            Key::Backspace,
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::PageDown,
            Key::Home,
            Key::End,
            Key::Tab,
            Key::BackTab,
        ];
        prop_oneof![prop::sample::select(keys), any::<char>().prop_map(Key::Char)]
    }

    proptest! {
        /// Law: whatever is pressed, the selected row is one that is shown.
        #[test]
        fn keys_stay_within_what_is_shown(keys in prop::collection::vec(key(), 0..60)) {
            let (mut screen, content) = (Screen::new(), content());
            for key in keys {
                screen.press(key, &content);
                let rows = screen.rows(&content);
                prop_assert!(rows.is_empty() || screen.selected(&rows) < rows.len());
                if let Mode::Text(text) = &screen.mode {
                    prop_assert!(text.first < text.lines.len().max(1));
                }
            }
        }
    }
}
