//! How much of a test is asked for: each can run for longer than it does by itself.

/// What a variable of the environment asks for.
pub(crate) fn asked<T: std::str::FromStr>(variable: &str, usual: T) -> T {
    let Ok(value) = std::env::var(variable) else { return usual };
    value.parse().unwrap_or_else(|_| panic!("{variable} is a number, and not {value:?}"))
}
