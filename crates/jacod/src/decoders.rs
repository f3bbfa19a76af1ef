//! What reads the settings of a node withstands any text: an operator's typing error ends in a message.

use jaco_mutate::{Decoder, withstand};

use crate::config::Config;

/// Settings, and every value that can be checked.
fn settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(config) = Config::parse(text) {
        drop(config.check());
    }
}

/// R-IN-3: mutations of the settings that are shipped, with every key set, are read or refused.
#[test]
fn mutated_settings_are_read_or_refused() {
    let shipped = include_str!("../../../deploy/jacod.yaml");
    // Each key is shipped as a comment with its default.
    let uncommented: String = shipped
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(':')).unwrap_or(line))
        .fold(String::new(), |text, line| text + line + "\n");
    let all = "node_name: n1\ndata_dir: /var/lib/jaco\nadvertise: n1:7000\nlisten: 0.0.0.0:7000\nlog_level: info\nsnapshot: {entries: 1000}\ncapacity: {cpus: 4, memory: 8G}\n";
    let seeds = [shipped, &uncommented, all].map(|text| text.as_bytes().to_vec()).to_vec();
    let of = |name, decode, seeds| Decoder { name, decode, seeds };
    withstand(
        "decoders::mutated_settings_are_read_or_refused",
        &[of("daemon-settings", settings as fn(&[u8]), seeds)],
    );
}
