//! The terminal view of `jaco ui --terminal`: the cluster on the whole screen, until `q`.

use std::time::Duration;

use jaco_client::Client;
use jaco_proto::v1::{ExplainRequest, StatusRequest};
use jaco_types::code::ExitCode;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use crate::error::CliError;
use crate::format::time;
use crate::output::{Detail, Frame, Show};
use crate::screen::content::{Content, Kept};
use crate::screen::draw::{Colours, View, draw};
use crate::screen::state::{Action, Key, Screen};
use crate::session::wait::Watcher;
use crate::session::{CommandResult, Session};
use crate::view::explain::Explanation;

/// What happens beside new statuses.
enum Input {
    Key(Key),
    Interrupt,
    /// The terminal has another size.
    Resized,
    /// What was asked about a row.
    Answer {
        title: String,
        text: String,
    },
}

/// Shows the cluster on the whole screen of the terminal, which is as it was afterwards.
///
/// # Errors
/// If no node answers, or the terminal cannot be drawn on.
pub(crate) async fn show(session: &mut Session) -> CommandResult {
    let client = session.client()?;
    let mut watcher = Watcher::new(&client, StatusRequest::default());
    // Before the screen is taken: whoever has no cluster reads that on their terminal.
    let mut status = watcher.next().await?;
    let colours = if session.ui.has_colours() { Colours::Shown } else { Colours::Avoided };
    let (inputs, mut happens) = mpsc::channel(16);
    let mut terminal = ratatui::try_init().map_err(CliError::Output)?;
    let _restored = Restored;
    read_keys(inputs.clone());
    let (mut screen, mut kept, mut number) = (Screen::new(), Kept::default(), 0);
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        let now_ms = time::now_ms();
        let content = kept.content(number, now_ms, || Content::of(&status, now_ms));
        let clock = time::rfc3339(now_ms).unwrap_or_default();
        let view = View { content, screen: &screen, clock: &clock, colours };
        let mut fitting = 0;
        let drawn = terminal.draw(|frame| fitting = draw(frame, view));
        drawn.map_err(CliError::Output)?;
        screen.fits(fitting);
        tokio::select! {
            next = watcher.next() => {
                status = next?;
                number += 1;
            }
            _ = second.tick() => {}
            Some(input) = happens.recv() => match input {
                Input::Key(key) => match screen.press(key, content) {
                    Action::Nothing => {}
                    Action::Quit => return Ok(ExitCode::Converged),
                    Action::Explain(name) => explain(client.clone(), name, inputs.clone()),
                },
                Input::Interrupt => return Ok(ExitCode::Converged),
                Input::Answer { title, text } => screen.answer(&title, &text),
                Input::Resized => {}
            },
        }
    }
}

/// Gives the terminal back, however the view ends.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// On a thread of its own: it may wait for a key when the command ends.
fn read_keys(inputs: mpsc::Sender<Input>) {
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let input = match event {
                Event::Key(pressed) => input_of(pressed),
                Event::Resize(..) => Some(Input::Resized),
                Event::FocusGained | Event::FocusLost | Event::Mouse(_) | Event::Paste(_) => None,
            };
            if let Some(input) = input
                && inputs.blocking_send(input).is_err()
            {
                return;
            }
        }
    });
}

#[expect(clippy::wildcard_enum_match_arm, reason = "keyboards have keys that mean nothing here")]
fn input_of(pressed: KeyEvent) -> Option<Input> {
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    let with_control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    let key = match pressed.code {
        KeyCode::Char('c') if with_control => return Some(Input::Interrupt),
        KeyCode::Char(_) if with_control => return None,
        KeyCode::Char(char) => Key::Char(char),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        _ => return None,
    };
    Some(Input::Key(key))
}

/// Asks meanwhile: what is on the screen stays current.
fn explain(client: Client, name: String, inputs: mpsc::Sender<Input>) {
    tokio::spawn(async move {
        let request = match name.split_once('/') {
            Some((deployment, service)) => ExplainRequest {
                deployment: deployment.to_owned(),
                service: service.to_owned(),
                ..ExplainRequest::default()
            },
            None => ExplainRequest { replica: name.clone(), ..ExplainRequest::default() },
        };
        let text = match client.explain(request).await {
            Ok(answer) => {
                let frame = Frame { detail: Detail::Short, now_ms: time::now_ms() };
                Explanation(&answer).text(&frame)
            }
            Err(error) => CliError::from(error).to_string(),
        };
        // The view may have been closed.
        let _closed = inputs.send(Input::Answer { title: name, text }).await.is_err();
    });
}
