//! `jaco`: the command line. Everything it does is in the library; this only starts it.

use std::process::ExitCode;

fn main() -> ExitCode {
    jaco_cli::main()
}
