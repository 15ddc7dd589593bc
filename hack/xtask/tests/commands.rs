//! xtask as the Makefile runs it.
//!
//! `hack/build.sh` builds this test with the programs: cargo then takes the features that tests need
//! for both, and compiles no dependency twice.

use std::process::Command;

#[test]
fn every_command_of_the_makefile_is_one() {
    let makefile = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Makefile");
    let makefile = std::fs::read_to_string(makefile).unwrap();
    let help = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let known: Vec<&str> =
        help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    let used = makefile.lines().filter_map(|line| {
        let (_, rest) = line.split_once("debug/xtask ").or(line.split_once("xtask -- "))?;
        rest.split(' ').next()
    });
    let used: Vec<&str> = used.collect();
    assert!(used.contains(&"manifests"), "{used:?}");
    for command in used {
        assert!(known.contains(&command), "{command} is not one of {known:?}");
    }
}
