//! Random bytes from the operating system. The only source of randomness in this crate.

use ring::rand::{SecureRandom, SystemRandom};

/// `N` random bytes, fit for keys.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    SystemRandom::new()
        .fill(&mut out)
        .expect("the kernel's generator cannot fail once the system has booted");
    out
}
