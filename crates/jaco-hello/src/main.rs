//! `hello`: a small static program that stands in for a workload, in the demo and in the tests.
//!
//! One image must be able to serve, to be checked, to fail, to linger and to chatter, so that no test needs a registry
//! or a shell. It must never need anything from its image: it runs `FROM scratch`, as PID 1.

mod args;
mod check;
mod guest;
mod http;
mod say;
mod serve;
mod signal;
mod watch;
mod work;

use std::process::ExitCode;

use args::Command;

fn main() -> ExitCode {
    match args::parse(std::env::args().skip(1)) {
        Ok(command) => run(command),
        Err(error) => {
            say::error(&format!("{error}\n\n{}", args::USAGE));
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Serve { port } => serve::run(port),
        Command::Check { url } => check::run(&url),
        Command::Expect { file, word } => check::content(&file, &word),
        Command::Watch { url, every } => watch::run(&url, every),
        Command::Sleep { limit } => work::sleep(limit),
        Command::Exit { code, after } => work::exit_after(code, after),
        Command::CrashLoop { after } => work::exit_after(1, after),
        Command::Grace { linger } => work::grace(linger),
        Command::Log { every, count } => work::log(every, count),
        Command::Echo { words } => guest::echo(&words),
        Command::Cat => guest::cat(),
        Command::Size => guest::size(),
        Command::Help => {
            say::line(args::USAGE);
            ExitCode::SUCCESS
        }
    }
}
