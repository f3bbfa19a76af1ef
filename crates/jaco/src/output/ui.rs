//! The streams of the process. Results go to stdout; progress, notes, questions and errors to stderr.

use std::io::{self, IsTerminal, Write};

use jaco_types::code::ExitCode;

use super::painted::{self, Size};
use super::show::{Detail, Format, Frame, JsonLayout, Show};
use super::terminal;
use crate::error::{Colour, Report};
use crate::format::time;
use crate::format::yaml::to_yaml;

/// What is printed besides results and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Notes and progress.
    Normal,
    /// Nothing.
    Quiet,
}

/// A stream that a redrawn block of lines can go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Results, such as `status --watch`.
    Out,
    /// Progress.
    Err,
}

/// The output streams, which may be terminals, and how to write to them.
pub struct Ui {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    out_size: Option<Size>,
    err_size: Option<Size>,
    input: Input,
    format: Format,
    verbosity: Verbosity,
    colour: Colour,
    /// Number of lines of the block that the next [`draw`](Self::draw) replaces.
    drawn: usize,
}

/// Whether stdin is a terminal, so that a question can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Terminal,
    Other,
}

impl Ui {
    /// The streams of this process.
    #[must_use]
    pub(crate) fn of_process(format: Format, verbosity: Verbosity) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let (out_size, err_size) = (size(io::stdout()), size(io::stderr()));
        let colour = match err_size.or(out_size) {
            Some(_) if !no_colour => Colour::On,
            Some(_) | None => Colour::Off,
        };
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            out_size,
            err_size,
            input: if io::stdin().is_terminal() { Input::Terminal } else { Input::Other },
            format,
            verbosity,
            colour,
            drawn: 0,
        }
    }

    /// The output format of results.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Prints a result.
    ///
    /// # Errors
    /// If stdout cannot be written to.
    pub fn result(&mut self, result: &dyn Show) -> io::Result<()> {
        let text = self.rendered(result);
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints one of many results: JSON takes one line, YAML one document.
    ///
    /// # Errors
    /// If stdout cannot be written to.
    pub fn item(&mut self, item: &dyn Show) -> io::Result<()> {
        let text = match self.format {
            Format::Json => item.json_text(JsonLayout::Line),
            Format::Yaml => format!("---\n{}", to_yaml(&item.json())),
            Format::Table | Format::Wide => item.text(&self.frame()),
        };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints text to stdout as it is.
    ///
    /// # Errors
    /// If stdout cannot be written to.
    pub fn raw(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints bytes unchanged, as a command in a container wrote them.
    ///
    /// # Errors
    /// If the stream cannot be written to.
    pub(crate) fn bytes(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let stream = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Stdout itself, for a binary result.
    pub fn results(&mut self) -> &mut (dyn Write + Send) {
        &mut *self.out
    }

    /// Whether notes are printed. Data that is only shown in notes need not be fetched otherwise.
    #[must_use]
    pub fn prints_notes(&self) -> bool {
        self.verbosity == Verbosity::Normal
    }

    /// Prints a line on stderr, unless quiet.
    pub fn note(&mut self, text: &str) {
        if self.verbosity == Verbosity::Normal {
            self.write_err(text);
        }
    }

    /// Prints on stderr of the process for what an answer is waited for. Nothing has been drawn by then.
    pub(crate) fn note_wait(why: &str) {
        // What cannot be printed is not waited for less.
        writeln!(io::stderr(), "waiting for an answer: {why}").ok();
    }

    /// Whether `stream` is a terminal, where lines can be redrawn.
    #[must_use]
    pub(crate) fn is_terminal(&self, stream: Stream) -> bool {
        self.size(stream).is_some()
    }

    /// Replaces the block of lines drawn before by these, cut to the terminal's size: what is left out below is
    /// counted.
    ///
    /// # Errors
    /// If the stream cannot be written to.
    pub(crate) fn draw(&mut self, stream: Stream, lines: &[String]) -> io::Result<()> {
        if stream == Stream::Err && self.verbosity == Verbosity::Quiet {
            return Ok(());
        }
        let size = self.size(stream).unwrap_or(Size { columns: usize::MAX, rows: usize::MAX });
        let lines = painted::fitted(lines, size);
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\x1b[J", self.drawn));
        }
        for line in &lines {
            match (stream, self.colour) {
                (Stream::Out, Colour::On) => text.push_str(&painted::with_colours(line)),
                (Stream::Out | Stream::Err, _) => text.push_str(line),
            }
            text.push('\n');
        }
        self.drawn = lines.len();
        let stream = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        stream.write_all(text.as_bytes())?;
        stream.flush()
    }

    /// Keeps the block that was drawn; what follows is written below it.
    pub fn keep_drawing(&mut self) {
        self.drawn = 0;
    }

    /// Prints a question on stderr, also when quiet, because an answer is waited for.
    ///
    /// # Errors
    /// If stderr cannot be written to.
    pub fn ask(&mut self, question: &str) -> io::Result<()> {
        self.err.write_all(question.as_bytes())?;
        self.err.flush()
    }

    /// Asks for confirmation; anything but `y` or `yes` declines. Where stdin is no terminal nobody can be
    /// asked.
    ///
    /// # Errors
    /// If the answer cannot be read.
    pub(crate) fn confirm(&mut self, question: &str) -> io::Result<Confirmation> {
        if self.input == Input::Other {
            return Ok(Confirmation::NobodyToAsk);
        }
        write!(self.err, "{question} [y/N] ")?;
        self.err.flush()?;
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        let yes = ["y", "yes"].contains(&line.trim().to_lowercase().as_str());
        Ok(if yes { Confirmation::Yes } else { Confirmation::No })
    }

    /// Prints an error on stderr, and with `-o json` or `-o yaml` on stdout as well. Returns the exit
    /// code.
    pub fn error(&mut self, report: &Report) -> ExitCode {
        self.keep_drawing();
        let machine = match self.format {
            Format::Json => Some(format!("{:#}\n", report.json())),
            Format::Yaml => Some(to_yaml(&report.json())),
            Format::Table | Format::Wide => None,
        };
        if let Some(text) = machine.filter(|_| report.is_error()) {
            // If stdout is closed the exit code still reports the error.
            self.raw(&text).ok();
        }
        let text = report.text(self.colour);
        if !text.is_empty() {
            self.write_err(text.trim_end());
        }
        report.exit
    }

    fn write_err(&mut self, text: &str) {
        // An error of stderr itself cannot be reported.
        writeln!(self.err, "{text}").ok();
        self.err.flush().ok();
    }

    fn rendered(&self, result: &dyn Show) -> String {
        match self.format {
            Format::Json => result.json_text(JsonLayout::Indented),
            Format::Yaml => to_yaml(&result.json()),
            Format::Table | Format::Wide => result.text(&self.frame()),
        }
    }

    /// What texts depend on now.
    #[must_use]
    pub fn frame(&self) -> Frame {
        let detail = match self.format {
            Format::Wide => Detail::Wide,
            Format::Table | Format::Json | Format::Yaml => Detail::Short,
        };
        Frame { detail, now_ms: time::now_ms() }
    }

    fn size(&self, stream: Stream) -> Option<Size> {
        match stream {
            Stream::Out => self.out_size,
            Stream::Err => self.err_size,
        }
    }

    /// Whether lines may have colours.
    pub(crate) fn has_colours(&self) -> bool {
        self.colour == Colour::On
    }

    /// Whether keys can be read from the user's terminal.
    pub(crate) fn has_keys(&self) -> bool {
        self.input == Input::Terminal
    }
}

/// The answer to a request for confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Yes,
    No,
    NobodyToAsk,
}

/// The size of a terminal; `None` if the stream is no terminal.
fn size(stream: impl std::os::fd::AsFd + IsTerminal) -> Option<Size> {
    let is_terminal = stream.is_terminal();
    is_terminal.then(|| {
        let size = terminal::size(stream);
        Size { columns: size.columns as usize, rows: size.rows as usize }
    })
}

impl std::fmt::Debug for Ui {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ui").field("format", &self.format).finish_non_exhaustive()
    }
}
