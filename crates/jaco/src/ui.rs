//! The only place that prints. Results go to stdout; progress, notes, questions and errors to stderr.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use jaco_types::code::ExitCode;
use serde_json::Value;

use crate::cli::GlobalArgs;
use crate::error::Report;
use crate::yaml::to_yaml;

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people
    #[default]
    Table,
    /// More columns
    Wide,
    /// For programs; a stream prints one object per line
    Json,
    /// For programs that people read
    Yaml,
}

/// How much a table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What fits a terminal.
    Short,
    /// Everything.
    Wide,
}

/// What a text needs to know of its surroundings.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// How much to say.
    pub detail: Detail,
    /// The present, milliseconds since the Unix epoch.
    pub now_ms: i64,
}

/// A result: for people and for programs.
pub trait Show {
    /// The stable form: lower snake case, RFC 3339 in UTC, bytes and integers.
    fn json(&self) -> Value;
    /// The form for people, ending with a line end unless it is empty.
    fn text(&self, frame: &Frame) -> String;
}

/// Whether anything but results and errors is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Volume {
    Normal,
    Quiet,
}

/// Whether words may be coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` says otherwise.
    On,
    /// Everywhere else.
    Off,
}

/// Where a changing picture is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Results, such as `status --watch`.
    Out,
    /// Progress.
    Err,
}

/// The terminal, or whatever stands in its place.
pub struct Ui {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    out_columns: Option<usize>,
    err_columns: Option<usize>,
    input: Input,
    format: Format,
    volume: Volume,
    colour: Colour,
    /// Lines of the picture that is drawn now.
    drawn: usize,
}

/// Whether somebody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Terminal,
    Other,
}

impl Ui {
    /// The streams of this process.
    #[must_use]
    pub fn of_process(args: &GlobalArgs) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let err_columns = columns(io::stderr());
        let colour = match err_columns {
            Some(_) if !no_colour => Colour::On,
            Some(_) | None => Colour::Off,
        };
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            out_columns: columns(io::stdout()),
            err_columns,
            input: if io::stdin().is_terminal() { Input::Terminal } else { Input::Other },
            format: args.output,
            volume: if args.quiet { Volume::Quiet } else { Volume::Normal },
            colour,
            drawn: 0,
        }
    }

    /// How results are printed.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Prints a result.
    ///
    /// # Errors
    /// If stdout takes no more.
    pub fn result(&mut self, result: &dyn Show) -> io::Result<()> {
        let text = self.rendered(result);
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints one of many results: JSON takes one line, YAML one document.
    ///
    /// # Errors
    /// If stdout takes no more.
    pub fn item(&mut self, item: &dyn Show) -> io::Result<()> {
        let text = match self.format {
            Format::Json => format!("{}\n", item.json()),
            Format::Yaml => format!("---\n{}", to_yaml(&item.json())),
            Format::Table | Format::Wide => item.text(&self.frame()),
        };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints text to stdout as it is.
    ///
    /// # Errors
    /// If stdout takes no more.
    pub fn raw(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints what somebody else's command wrote, as it is.
    ///
    /// # Errors
    /// If the stream takes no more.
    pub fn bytes(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let stream = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Stdout as it is, for a result that is no text.
    pub fn results(&mut self) -> &mut (dyn Write + Send) {
        &mut *self.out
    }

    /// Whether notes are said: what is only fetched to be noted need not be fetched otherwise.
    #[must_use]
    pub fn is_talkative(&self) -> bool {
        self.volume == Volume::Normal
    }

    /// Says something on stderr, unless told to be quiet.
    pub fn note(&mut self, text: &str) {
        if self.volume == Volume::Normal {
            self.say(text);
        }
    }

    /// Whether `stream` is a terminal, where a picture can be drawn over.
    #[must_use]
    pub fn is_terminal(&self, stream: Stream) -> bool {
        self.columns(stream).is_some()
    }

    /// Replaces the picture drawn before by these lines, each cut to the terminal's width.
    ///
    /// # Errors
    /// If the stream takes no more.
    pub fn draw(&mut self, stream: Stream, lines: &[String]) -> io::Result<()> {
        if stream == Stream::Err && self.volume == Volume::Quiet {
            return Ok(());
        }
        let columns = self.columns(stream).unwrap_or(usize::MAX);
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\x1b[J", self.drawn));
        }
        for line in lines {
            text.extend(line.chars().take(columns.saturating_sub(1)));
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

    /// Leaves the picture standing; what follows is written below it.
    pub fn settle(&mut self) {
        self.drawn = 0;
    }

    /// Prints what a person at the terminal is asked, also when told to be quiet: the answer is waited
    /// for.
    ///
    /// # Errors
    /// If stderr takes no more.
    pub fn ask(&mut self, question: &str) -> io::Result<()> {
        self.err.write_all(question.as_bytes())?;
        self.err.flush()
    }

    /// Asks; only a clear yes is one. Where nobody can be asked, the answer is yes: scripts say
    /// what they mean.
    ///
    /// # Errors
    /// If the answer cannot be read.
    pub fn confirm(&mut self, question: &str) -> io::Result<Answer> {
        if self.input == Input::Other {
            return Ok(Answer::Yes);
        }
        write!(self.err, "{question} [y/N] ")?;
        self.err.flush()?;
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        let yes = ["y", "yes"].contains(&line.trim().to_lowercase().as_str());
        Ok(if yes { Answer::Yes } else { Answer::No })
    }

    /// Prints an error, and for programs the same on stdout. Returns what to exit with.
    pub fn error(&mut self, report: &Report) -> ExitCode {
        self.settle();
        let machine = match self.format {
            Format::Json => Some(format!("{:#}\n", report.json())),
            Format::Yaml => Some(to_yaml(&report.json())),
            Format::Table | Format::Wide => None,
        };
        if let Some(text) = machine.filter(|_| report.is_error()) {
            // The exit code still says it if nobody listens.
            self.raw(&text).ok();
        }
        let text = report.text(self.colour);
        if !text.is_empty() {
            self.say(text.trim_end());
        }
        report.exit
    }

    fn say(&mut self, text: &str) {
        // There is nowhere to complain about stderr.
        writeln!(self.err, "{text}").ok();
        self.err.flush().ok();
    }

    fn rendered(&self, result: &dyn Show) -> String {
        match self.format {
            Format::Json => format!("{:#}\n", result.json()),
            Format::Yaml => to_yaml(&result.json()),
            Format::Table | Format::Wide => result.text(&self.frame()),
        }
    }

    /// What texts need to know now.
    #[must_use]
    pub fn frame(&self) -> Frame {
        let detail = match self.format {
            Format::Wide => Detail::Wide,
            Format::Table | Format::Json | Format::Yaml => Detail::Short,
        };
        Frame { detail, now_ms: crate::when::now_ms() }
    }

    fn columns(&self, stream: Stream) -> Option<usize> {
        match stream {
            Stream::Out => self.out_columns,
            Stream::Err => self.err_columns,
        }
    }
}

/// What a person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Go ahead.
    Yes,
    /// Leave it.
    No,
}

/// The width of a terminal, or nothing for whatever else it is.
fn columns(stream: impl std::os::fd::AsFd + IsTerminal) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok();
    // Some terminals do not know: 80 is what everybody assumes.
    Some(size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80))
}

impl std::fmt::Debug for Ui {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ui").field("format", &self.format).finish_non_exhaustive()
    }
}
