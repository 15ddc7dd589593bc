//! Checks that an image is what it has to be.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;

use anyhow::{Context as _, bail, ensure};
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};
use olm_image::Platform;
use olm_image::layout::Layout;

use super::rootfs::{self, ENTRY_POINT, USER};

/// Most bytes of the compressed layers of one image.
const MAX_BYTES: u64 = 20 << 20;

/// Checks every image of the layout and says what was found.
pub(super) fn check(layout: &Layout) -> anyhow::Result<String> {
    let mut said = String::new();
    for image in layout.images()? {
        let platform = &image.platform;
        let name = format!("{}/{}", platform.os, platform.architecture);
        let bytes: u64 = image.layers.iter().map(|layer| layer.len() as u64).sum();
        ensure!(
            bytes <= MAX_BYTES,
            "{name}: {bytes} bytes, more than {MAX_BYTES}"
        );
        let runtime = &image.config_json()?["config"];
        ensure!(
            runtime["User"] == USER,
            "{name}: runs as {}",
            runtime["User"]
        );
        ensure!(
            runtime["Entrypoint"] == serde_json::json!([ENTRY_POINT]),
            "{name}: starts {}",
            runtime["Entrypoint"]
        );
        let files = files(layout, platform)?;
        let found: Vec<&str> = files.keys().map(String::as_str).collect();
        ensure!(found == rootfs::paths(), "{name}: holds {found:?}");
        let program = files.get(ENTRY_POINT.trim_start_matches('/'));
        let program = program.context("the program")?;
        is_static(program, platform).with_context(|| name.clone())?;
        shows_no_path(program).with_context(|| name.clone())?;
        let _ = writeln!(
            said,
            "{name}: static, {:.1} MB, {:.1} MB compressed, {}",
            megabytes(program.len() as u64),
            megabytes(bytes),
            image.digest()
        );
    }
    ensure!(!said.is_empty(), "the layout holds no image");
    Ok(said)
}

#[expect(clippy::cast_precision_loss, reason = "megabytes")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Reads the layers of an image, later ones over earlier ones.
fn files(layout: &Layout, platform: &Platform) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for layer in layout.layers(platform)? {
        for entry in tar::Archive::new(layer.as_slice()).entries()? {
            let mut entry = entry?;
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            found.insert(path, content);
        }
    }
    Ok(found)
}

/// Checks that a program needs no other file to start, and runs on the platform.
fn is_static(program: &[u8], platform: &Platform) -> anyhow::Result<()> {
    let header = FileHeader64::<Endianness>::parse(program).context("the program")?;
    let endian = header.endian()?;
    let machine = match platform.architecture.as_str() {
        "amd64" => EM_X86_64,
        "arm64" => EM_AARCH64,
        other => bail!("architecture {other} is not known"),
    };
    ensure!(
        header.e_machine(endian) == machine,
        "the program is for another machine"
    );
    let segments = header.program_headers(endian, program)?;
    let asks = segments
        .iter()
        .any(|segment| segment.p_type(endian) == PT_INTERP);
    ensure!(!asks, "the program asks for an interpreter");
    for segment in segments {
        let Some(entries) = segment.dynamic(endian, program)? else {
            continue;
        };
        let needs = entries.iter().any(|entry| {
            use object::read::elf::Dyn as _;
            entry.d_tag(endian) == elf::DT_NEEDED
        });
        ensure!(!needs, "the program asks for a library");
    }
    Ok(())
}

/// Checks that the program does not show where it was built.
fn shows_no_path(program: &[u8]) -> anyhow::Result<()> {
    let home = std::env::var("HOME").unwrap_or_default();
    for path in [&home, env!("CARGO_MANIFEST_DIR")] {
        let folder = format!("{}/", path.trim_end_matches('/'));
        if folder.len() > 2 {
            let shown = program
                .windows(folder.len())
                .any(|bytes| bytes == folder.as_bytes());
            ensure!(!shown, "the program shows the path {folder}");
        }
    }
    Ok(())
}
