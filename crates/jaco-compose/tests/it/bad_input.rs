//! Hostile and broken input: a clear error at a place, soon, and in bounded memory. R-IN-3.
