//! Tells a program what it is compiled by and for; nothing else knows both.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../build.rs");
    let target = env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=OLM_TARGET={target}");
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(compiler).arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo::rustc-env=OLM_RUSTC={}", said.unwrap_or_default());
}
