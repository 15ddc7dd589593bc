//! Checks that an image is what it has to be.
//!
//! Source: deploying.md 1, P2.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt::Write as _;
use std::io::Read as _;

use anyhow::{Context as _, bail, ensure};
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, elf};
use olm_image::Platform;
use olm_image::layout::Layout;

use super::rootfs::{self, ENTRY_POINT, USER};

/// Most bytes of the compressed layers of one image.
const MAX_BYTES: u64 = 20 << 20;
/// The first musl that asks for DNS answers over TCP: names with many addresses fail before.
const MIN_MUSL: &str = "1.2.4";
/// Section of `musl.c`, with the address of musl's version.
const MUSL_SECTION: &[u8] = b".olm.musl";

/// Checks every image of the layout and says what was found.
pub(super) fn check(layout: &Layout) -> anyhow::Result<String> {
    let mut said = String::new();
    for image in layout.images()? {
        let platform = &image.platform;
        let name = format!("{}/{}", platform.os, platform.architecture);
        let bytes: u64 = image.layers.iter().map(|layer| layer.len() as u64).sum();
        ensure!(bytes <= MAX_BYTES, "{name}: {bytes} bytes, more than {MAX_BYTES}");
        let runtime = &image.config_json()?["config"];
        ensure!(runtime["User"] == USER, "{name}: runs as {}", runtime["User"]);
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
        let musl = musl(program).with_context(|| name.clone())?;
        shows_no_path(program).with_context(|| name.clone())?;
        let _ = writeln!(
            said,
            "{name}: static, musl {musl}, {:.1} MB, {:.1} MB compressed, {}",
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
    ensure!(header.e_machine(endian) == machine, "the program is for another machine");
    let segments = header.program_headers(endian, program)?;
    let asks = segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP);
    ensure!(!asks, "the program asks for an interpreter");
    for segment in segments {
        let Some(entries) = segment.dynamic(endian, program)? else { continue };
        let needs = entries.iter().any(|entry| {
            use object::read::elf::Dyn as _;
            entry.d_tag(endian) == elf::DT_NEEDED
        });
        ensure!(!needs, "the program asks for a library");
    }
    Ok(())
}

/// Returns the version of musl in a static program; an old one is an error.
fn musl(program: &[u8]) -> anyhow::Result<String> {
    let header = FileHeader64::<Endianness>::parse(program).context("the program")?;
    let endian = header.endian()?;
    let sections = header.sections(endian, program)?;
    let (_, section) = sections
        .section_by_name(endian, MUSL_SECTION)
        .context("the program does not say which musl it has: build it with `make image`")?;
    let stored = section.data(endian, program)?;
    let stored = stored.first_chunk().context("no address of the version")?;
    let address = match endian {
        Endianness::Little => u64::from_le_bytes(*stored),
        Endianness::Big => u64::from_be_bytes(*stored),
    };
    let version = header
        .program_headers(endian, program)?
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
        .find_map(|segment| {
            let from = address.checked_sub(segment.p_vaddr(endian))?;
            let bytes = segment.data(endian, program).ok()?;
            CStr::from_bytes_until_nul(bytes.get(usize::try_from(from).ok()?..)?).ok()
        });
    let version = version.context("no version of musl where the program says it is")?;
    let version = version.to_string_lossy();
    let numbers = |version: &str| version.split('.').map(str::parse).collect();
    let found: Result<Vec<u8>, _> = numbers(&version);
    let found = found.with_context(|| format!("{version:?} is not a version of musl"))?;
    ensure!(
        found >= numbers(MIN_MUSL)?,
        "musl {version}, older than {MIN_MUSL}: `hack/tools.sh zig` fetches the one to build with"
    );
    Ok(version.into_owned())
}

/// Checks that the program does not show where it was built.
fn shows_no_path(program: &[u8]) -> anyhow::Result<()> {
    let home = std::env::var("HOME").unwrap_or_default();
    for path in [&home, env!("CARGO_MANIFEST_DIR")] {
        let folder = format!("{}/", path.trim_end_matches('/'));
        if folder.len() > 2 {
            let shown = program.windows(folder.len()).any(|bytes| bytes == folder.as_bytes());
            ensure!(!shown, "the program shows the path {folder}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Links a static program that has nothing but a version of musl, and `musl.c` where asked to.
    fn linked(version: &str, says: bool) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("libc.c");
        let text = format!("const char __libc_version[] = \"{version}\"; void _start(void) {{}}\n");
        std::fs::write(&source, text).unwrap();
        let out = folder.path().join("program");
        let mut cc = Command::new("cc");
        cc.args(["-static", "-nostdlib", "-no-pie", "-fno-pie", "-s", "-o"]).arg(&out).arg(&source);
        if says {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
            cc.arg(folder.join("image/musl.c"));
        }
        assert!(cc.status().unwrap().success(), "{cc:?}");
        std::fs::read(out).unwrap()
    }

    // deploying.md P2
    #[test]
    fn a_static_program_says_its_musl_and_an_old_one_is_refused() {
        let new = linked("1.2.5", true);
        is_static(&new, &Platform::host()).unwrap();
        assert_eq!(musl(&new).unwrap(), "1.2.5");
        assert_eq!(musl(&linked("1.2.4", true)).unwrap(), "1.2.4");
        for (version, says, error) in [
            ("1.2.3", true, "musl 1.2.3, older than 1.2.4"),
            ("1.1.24", true, "musl 1.1.24, older"),
            ("", true, "is not a version of musl"),
            ("1.2.5", false, "does not say which musl it has"),
        ] {
            let refused = musl(&linked(version, says)).unwrap_err().to_string();
            assert!(refused.contains(error), "{version}: {refused}");
        }
    }

    // deploying.md P2
    #[test]
    fn a_program_of_another_machine_or_with_an_interpreter_is_refused() {
        let program = linked("1.2.5", true);
        let host = Platform::host();
        let other = ["amd64", "arm64"].into_iter().find(|name| *name != host.architecture);
        let refused = is_static(&program, &Platform::linux(other.unwrap())).unwrap_err();
        assert_eq!(refused.to_string(), "the program is for another machine");
        // Tests are linked dynamically.
        let test = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let refused = is_static(&test, &host).unwrap_err();
        assert_eq!(refused.to_string(), "the program asks for an interpreter");
    }
}
