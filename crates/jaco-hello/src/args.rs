//! The command line, parsed by hand: the image stays small.

use std::fmt;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: hello <command>
  serve [--port N]                  answer HTTP (default: $PORT, else 8080)
  check URL                         exit 0 if URL answers 2xx, else 1
  expect FILE WORD                  exit 0 if FILE has WORD in it, else 1
  watch URL [--every MS]            ask URL until stdin ends; say which requests failed, and how many
  sleep [SECONDS]                   wait for the time or for a stop signal
  exit CODE [--after MS]            exit with CODE
  crash-loop [--after MS]           exit with 1 every time it is started
  grace SECONDS                     on a stop signal, say so and take SECONDS to leave
  log [--every MS] [--count N]      write numbered lines to stdout and stderr
  echo WORD...                      write the words to stdout
  cat                               write to stdout what comes to stdin, as it comes
  size                              write the size of the terminal, at first and when it changes,
                                    until stdin ends
serve understands GET / /healthz /env /burn?ms=N /slow?ms=N /memory?mib=N /stats /events?count=N&ms=N,
GET /upstream (what HELLO_UPSTREAM, a URL, answers),
GET /socket (an upgrade that echoes messages of four bytes), GET /websocket (one that speaks WebSocket),
GET /download?mib=N and POST /upload (bytes that both ends know), POST /record?id=N (a line to the server at
HELLO_LEDGER, which takes it with a byte) and POST /control/healthy /control/unhealthy /control/exit?code=N; over
HTTP/2 in clear the gRPC methods hello.Ledger/Record (the same) and hello.Events/Watch; its environment is
HELLO_VERSION, HELLO_HEALTHY_AFTER_MS, HELLO_UNHEALTHY_AFTER_MS, HELLO_UPSTREAM, HELLO_DRAIN_MS, HELLO_LEDGER.";

/// What the program was asked to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Serve { port: u16 },
    Check { url: String },
    Expect { file: String, word: String },
    Watch { url: String, every: Duration },
    Sleep { limit: Option<Duration> },
    Exit { code: u8, after: Duration },
    CrashLoop { after: Duration },
    Grace { linger: Duration },
    Log { every: Duration, count: Option<u64> },
    Echo { words: Vec<String> },
    Cat,
    Size,
    Help,
}

/// Why a command line was not understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UsageError {
    NoCommand,
    UnknownCommand(String),
    UnknownArgument(String),
    Missing(&'static str),
    NotANumber { name: &'static str, value: String },
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCommand => f.write_str("no command given"),
            Self::UnknownCommand(name) => write!(f, "unknown command {name:?}"),
            Self::UnknownArgument(text) => write!(f, "unexpected argument {text:?}"),
            Self::Missing(name) => write!(f, "{name} is missing"),
            Self::NotANumber { name, value } => write!(f, "{name} is not a number: {value:?}"),
        }
    }
}

/// Reads the arguments that follow the program's name.
pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Command, UsageError> {
    let mut args = Arguments(args.collect());
    let name = args.take_word().ok_or(UsageError::NoCommand)?;
    let command = match name.as_str() {
        "serve" => Command::Serve { port: args.option("--port")?.unwrap_or_else(default_port) },
        "check" => Command::Check { url: args.take_word().ok_or(UsageError::Missing("URL"))? },
        "expect" => Command::Expect {
            file: args.take_word().ok_or(UsageError::Missing("FILE"))?,
            word: args.take_word().ok_or(UsageError::Missing("WORD"))?,
        },
        "watch" => Command::Watch {
            every: args.millis("--every", 10)?,
            url: args.take_word().ok_or(UsageError::Missing("URL"))?,
        },
        "sleep" => Command::Sleep { limit: args.number("SECONDS")?.map(Duration::from_secs) },
        "exit" => Command::Exit {
            after: args.millis("--after", 0)?,
            code: args.number("CODE")?.ok_or(UsageError::Missing("CODE"))?,
        },
        "crash-loop" => Command::CrashLoop { after: args.millis("--after", 100)? },
        "grace" => Command::Grace {
            linger: args
                .number("SECONDS")?
                .map(Duration::from_secs)
                .ok_or(UsageError::Missing("SECONDS"))?,
        },
        "log" => {
            Command::Log { every: args.millis("--every", 100)?, count: args.option("--count")? }
        }
        "echo" => Command::Echo { words: args.take_all() },
        "cat" => Command::Cat,
        "size" => Command::Size,
        "help" | "--help" | "-h" => Command::Help,
        _ => return Err(UsageError::UnknownCommand(name)),
    };
    args.finish()?;
    Ok(command)
}

fn default_port() -> u16 {
    std::env::var("PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(8080)
}

/// What is left of the command line.
struct Arguments(Vec<String>);

impl Arguments {
    fn take_word(&mut self) -> Option<String> {
        let at = self.0.iter().position(|arg| !arg.starts_with("--"))?;
        Some(self.0.remove(at))
    }

    fn take_all(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0)
    }

    fn number<T: std::str::FromStr>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, UsageError> {
        self.take_word().map(|value| number(name, value)).transpose()
    }

    fn option<T: std::str::FromStr>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, UsageError> {
        let Some(at) = self.0.iter().position(|arg| arg == name) else {
            return Ok(None);
        };
        if at + 1 == self.0.len() {
            return Err(UsageError::Missing(name));
        }
        let value = self.0.remove(at + 1);
        self.0.remove(at);
        number(name, value).map(Some)
    }

    fn millis(&mut self, name: &'static str, default: u64) -> Result<Duration, UsageError> {
        Ok(Duration::from_millis(self.option(name)?.unwrap_or(default)))
    }

    fn finish(self) -> Result<(), UsageError> {
        self.0.into_iter().next().map_or(Ok(()), |extra| Err(UsageError::UnknownArgument(extra)))
    }
}

fn number<T: std::str::FromStr>(name: &'static str, value: String) -> Result<T, UsageError> {
    value.parse().map_err(|_| UsageError::NotANumber { name, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<Command, UsageError>) {
        assert_eq!(parse(line.split_whitespace().map(str::to_owned)), expected, "{line}");
    }

    #[test]
    fn commands_are_understood() {
        let ms = Duration::from_millis;
        check("serve --port 81", Ok(Command::Serve { port: 81 }));
        check("check http://a/", Ok(Command::Check { url: "http://a/".to_owned() }));
        let expect = Command::Expect { file: "/a".to_owned(), word: "b".to_owned() };
        check("expect /a b", Ok(expect));
        let watch = Command::Watch { url: "http://a/".to_owned(), every: ms(5) };
        check("watch http://a/ --every 5", Ok(watch));
        check("sleep", Ok(Command::Sleep { limit: None }));
        check("exit 3 --after 250", Ok(Command::Exit { code: 3, after: ms(250) }));
        check("exit --after 250 3", Ok(Command::Exit { code: 3, after: ms(250) }));
        check("crash-loop", Ok(Command::CrashLoop { after: ms(100) }));
        check("grace 7", Ok(Command::Grace { linger: ms(7000) }));
        let words = vec!["--a".to_owned(), "b".to_owned()];
        check("echo --a b", Ok(Command::Echo { words }));
        check("log --every 5 --count 2", Ok(Command::Log { every: ms(5), count: Some(2) }));
    }

    #[test]
    fn usage_errors_name_the_argument() {
        check("", Err(UsageError::NoCommand));
        check("dance", Err(UsageError::UnknownCommand("dance".to_owned())));
        check("exit", Err(UsageError::Missing("CODE")));
        check("expect /a", Err(UsageError::Missing("WORD")));
        check("exit 300", Err(UsageError::NotANumber { name: "CODE", value: "300".to_owned() }));
        check("serve --port", Err(UsageError::Missing("--port")));
        check("sleep 1 2", Err(UsageError::UnknownArgument("2".to_owned())));
        check("serve --prot 1", Err(UsageError::UnknownArgument("--prot".to_owned())));
    }
}
