//! A question before something that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::bail;

/// Asks for the name of the node, which nobody types by mistake.
///
/// # Errors
/// When nobody can be asked, or the answer is another one.
pub(crate) fn by_name(node: &str, question: &str, preview: &str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() {
        bail!("nobody can be asked here: look at `{preview}`, then use --yes");
    }
    let mut out = io::stdout();
    write!(out, "{question}")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() != node {
        bail!("not confirmed, nothing was changed");
    }
    Ok(())
}
