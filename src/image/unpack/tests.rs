//! Hostile archives, each written by hand here.

use std::io::{self, Read as _, Write as _};

use olm_core::error::Chain;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::fixture::cases;

#[expect(unreachable_pub, reason = "those are of olm-test")]
#[path = "../../../test/archive.rs"]
mod archive;

use archive::Archive;

fn tar() -> Archive {
    Archive::new()
}

fn raw(kind: u8, name: &[u8], size: u64, content: &[u8]) -> Archive {
    tar().entry(kind, name, b"", size, content)
}

/// Adds an entry that is written as in `cases.toml`.
fn written(archive: Archive, entry: &str) -> Archive {
    let link = entry.split_once(' ').and_then(|(kind, it)| Some((kind, it.split_once(" -> ")?)));
    match (link, entry.split_once('=')) {
        (Some(("l", (name, target))), _) => archive.symlink(name, target),
        (Some((_, (name, target))), _) => archive.hard_link(name, target),
        (None, Some((name, content))) => archive.file(name, content),
        (None, None) => archive.entry(b'5', entry.as_bytes(), b"", 0, b""),
    }
}

fn layer(bytes: &[u8]) -> Layer {
    let mut source = tempfile::tempfile().unwrap();
    source.write_all(bytes).unwrap();
    Layer { source, diff_id: None }
}

fn run(layers: Vec<Vec<u8>>, wanted: &str, limits: &Limits) -> Result<Unpacked, UnpackError> {
    let layers: Vec<_> = layers.into_iter().map(|bytes| layer(&bytes)).collect();
    unpack(&layers, &[wanted.to_owned()], limits, &AtomicBool::new(false))
}

/// Files below `configs`, as `path=content`, or the error.
fn configs(layers: Vec<Vec<u8>>) -> Result<Vec<String>, String> {
    listed(run(layers, "configs", &Limits::catalog()))
}

fn listed(unpacked: Result<Unpacked, UnpackError>) -> Result<Vec<String>, String> {
    let unpacked = unpacked.map_err(|err| Chain(&err).to_string())?;
    let show = |(path, content): (&str, io::Result<Vec<u8>>)| {
        format!("{path}={}", String::from_utf8(content.unwrap()).unwrap())
    };
    Ok(unpacked.files.iter().map(show).collect())
}

#[test]
fn files_are_those_of_a_file_system() {
    type Case = (String, Vec<Vec<String>>, Vec<String>);
    for (name, layers, want) in cases::<Case>("files_are_those_of_a_file_system") {
        let layer = |entries: &Vec<String>| {
            entries.iter().fold(tar(), |archive, entry| written(archive, entry)).finish()
        };
        assert_eq!(configs(layers.iter().map(layer).collect()).unwrap(), want, "{name}");
    }
}

#[test]
fn names_that_are_no_plain_paths_are_refused() {
    for (name, reason) in cases::<(String, String)>("names_that_are_no_plain_paths_are_refused") {
        let got = configs(vec![tar().file(&name, "x").finish()]).unwrap_err();
        assert_eq!(got, format!("layer 1, entry \"{name}\": {reason}"));
    }
}

// catalogs.md A1, A12
#[test]
fn nul_and_invalid_utf8_are_refused_with_printable_text() {
    let nul = tar().pax("path", "configs/a\0b").file("short", "");
    let got = configs(vec![nul.finish()]).unwrap_err();
    assert_eq!(got, "layer 1, entry \"configs/a\u{fffd}b\": path has a NUL byte");
    let bytes = raw(b'0', b"configs/\xff\x1b", 0, b"").finish();
    let got = configs(vec![bytes]).unwrap_err();
    assert_eq!(got, "layer 1, entry \"configs/\u{fffd}\u{fffd}\": path is not valid UTF-8");
}

#[test]
fn links_never_reach_outside() {
    let archive = || tar().file("other/b.yaml", "b").file("configs/sub/c.yaml", "c");
    for target in cases::<String>("links_never_reach_outside") {
        assert_eq!(
            configs(vec![archive().symlink("configs/a", &target).finish()]).unwrap_err(),
            "file \"configs/a\": symbolic link does not lead to a file of the wanted directories",
            "{target}"
        );
        assert_eq!(
            configs(vec![archive().hard_link("configs/a", &target).finish()]).unwrap_err(),
            "layer 1, entry \"configs/a\": hard link target is not a file of the wanted directories",
            "{target}"
        );
    }
}

// catalogs.md A3
#[test]
fn forty_links_are_followed_and_no_more() {
    let chain = |len: usize| {
        let links = (0..len).fold(tar(), |archive, at| {
            archive.symlink(&format!("configs/l{at:02}"), &format!("l{:02}", at + 1))
        });
        links.file(&format!("configs/l{len:02}"), "x").finish()
    };
    assert_eq!(configs(vec![chain(40)]).unwrap().len(), 41);
    assert_eq!(
        configs(vec![chain(41)]).unwrap_err(),
        "file \"configs/l00\": more than 40 symbolic links on the way"
    );
    let looped = tar().symlink("configs/a", "b").symlink("configs/b", "a").finish();
    assert!(configs(vec![looped]).unwrap_err().ends_with("symbolic links on the way"));
}

// catalogs.md A4
#[test]
fn writing_through_a_directory_symlink_stays_inside() {
    let archive = tar()
        .symlink("out", "../../../../configs")
        .file("out/a.yaml", "a")
        .symlink("configs/link", "/tmp")
        .file("configs/link/evil", "e");
    let got = run(vec![archive.finish()], "", &Limits::catalog());
    let unpacked = got.unwrap_err();
    // The links themselves point to directories, which is an error when they are wanted ...
    assert!(Chain(&unpacked).to_string().contains("does not lead to a file"));
    // ... but what was written through them is where it would be in a root of its own.
    let archive = tar().symlink("out", "../../../../configs").file("out/a.yaml", "a");
    assert_eq!(configs(vec![archive.finish()]).unwrap(), ["configs/a.yaml=a"]);
    assert!(!std::path::Path::new("/tmp/evil").exists());
}

// catalogs.md A5
#[rstest]
#[case(b'3', "character device")]
#[case(b'4', "block device")]
#[case(b'6', "fifo")]
#[case(b'Q', "entry of unknown type")]
fn special_files_are_refused_where_they_matter(#[case] kind: u8, #[case] what: &str) {
    let inside = raw(kind, b"configs/s", 0, b"").finish();
    let want = format!("layer 1, entry \"configs/s\": {what} is not allowed in a wanted directory");
    assert_eq!(configs(vec![inside]).unwrap_err(), want);
    let outside = raw(kind, b"dev/s", 0, b"").file("configs/a", "a");
    assert_eq!(configs(vec![outside.finish()]).unwrap(), ["configs/a=a"]);
}

fn zeros(bytes: u64, zstd: bool) -> Vec<u8> {
    let header = raw(b'0', b"var/zeros", bytes, b"").unfinished();
    let mut zeros = header.as_slice().chain(io::repeat(0).take(bytes + 1024));
    if zstd {
        return zstd::encode_all(zeros, 1).unwrap();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    io::copy(&mut zeros, &mut encoder).unwrap();
    encoder.finish().unwrap()
}

// catalogs.md A6: the stream is stopped long before its end.
#[rstest]
#[case::gzip(false)]
#[case::zstd(true)]
fn decompression_bomb_stops_at_the_ratio(#[case] zstd: bool) {
    let limits = Limits { ratio: 500, ratio_free: 1 << 20, ..Limits::catalog() };
    let bomb = zeros(64 << 20, zstd);
    let got = listed(run(vec![bomb], "configs", &limits)).unwrap_err();
    assert_eq!(
        got,
        "layer 1, entry \"var/zeros\": layer expands more than 500 times when decompressed"
    );
}

// catalogs.md A6, 5.8
#[rstest]
#[case::entries(|l: &mut Limits| l.entries = 3, "layer 1, entry \"configs/3\": image has more than 3 entries")]
#[case::files(|l: &mut Limits| l.kept_files = 3, "layer 1, entry \"configs/3\": more than 3 files are wanted")]
#[case::file(|l: &mut Limits| l.file = 1, "layer 1, entry \"configs/0\": file is larger than 1 bytes")]
#[case::kept(|l: &mut Limits| l.kept = 7, "layer 1, entry \"configs/3\": wanted files are larger than 7 bytes together")]
#[case::depth(|l: &mut Limits| l.path_depth = 1, "layer 1, entry \"configs/0\": path has more than 1 components")]
#[case::length(|l: &mut Limits| l.path_bytes = 8, "layer 1, entry \"configs/0\": path is longer than 8 bytes")]
#[case::names(|l: &mut Limits| l.names = 20, "layer 1, entry \"configs/2\": names of the image are longer than 20 bytes together")]
#[case::steps(|l: &mut Limits| l.steps = 2, "layer 1, entry \"configs/2\": links and whiteouts of the image take more than 2 steps")]
#[case::layer(|l: &mut Limits| l.layer = 1024, "layer 1, entry \"configs/0\": layer is larger than 1024 bytes when decompressed")]
#[case::image(|l: &mut Limits| l.image = 1024, "layer 1, entry \"configs/0\": image is larger than 1024 bytes when decompressed")]
fn each_limit_has_its_own_error(#[case] set: fn(&mut Limits), #[case] want: &str) {
    let mut limits = Limits::catalog();
    set(&mut limits);
    let archive = (0..10).fold(tar(), |archive, at| archive.file(&format!("configs/{at}"), "ab"));
    let refused = run(vec![archive.finish()], "configs", &limits).unwrap_err();
    assert_eq!(refused.is_of_size(), !want.contains("path"), "only another image can help");
    assert_eq!(listed(Err(refused)).unwrap_err(), want);
}

#[rstest]
#[case::opaque("configs/.wh..wh..opq")]
#[case::whiteout(".wh.configs")]
fn whiteouts_that_look_at_every_entry_again_and_again_are_refused(#[case] whiteout: &str) {
    let limits = Limits { steps: 1_000, ..Limits::catalog() };
    let unpacked = |whiteouts: usize| {
        let links = (0..50).fold(tar(), |tar, i| tar.symlink(&format!("configs/{i}"), "x"));
        let all = (0..whiteouts).fold(links, |tar, _| tar.file(whiteout, "")).file("a/b", "");
        run(vec![all.finish()], "a", &limits)
    };
    assert!(unpacked(5).is_ok());
    let refused = unpacked(50).unwrap_err();
    assert!(refused.is_of_size(), "{refused:?}");
}

#[test]
fn links_count_as_copies() {
    let limits = Limits { kept: 100, ..Limits::catalog() };
    let archive = tar().file("configs/a", "x".repeat(60)).symlink("configs/b", "a");
    let got = listed(run(vec![archive.finish()], "configs", &limits)).unwrap_err();
    assert_eq!(got, "wanted files are larger than 100 bytes together");
}

#[test]
fn limits_hold_for_all_layers_together() {
    let limits = Limits { entries: 3, image: 6000, ..Limits::catalog() };
    let two = || tar().file("a", "").file("b", "").finish();
    let got = listed(run(vec![two(), two()], "configs", &limits)).unwrap_err();
    assert_eq!(got, "layer 2, entry \"b\": image has more than 3 entries");
    let large = || tar().file("a", "x".repeat(2000)).finish();
    let got = listed(run(vec![large(), large()], "configs", &limits)).unwrap_err();
    assert!(got.starts_with("layer 2") && got.contains("6000 bytes when decompressed"), "{got}");
}

// catalogs.md A7
#[test]
fn sizes_that_disagree_or_lie_are_refused() {
    let above = raw(b'0', b"configs/a", 5000, b"short").unfinished();
    assert_eq!(
        configs(vec![above]).unwrap_err(),
        "layer 1, entry \"configs/a\": content ends before the size its header says"
    );
    let above = raw(b'0', b"other", 5000, b"short").unfinished();
    assert!(configs(vec![above]).unwrap_err().starts_with("layer 1, entry \"other\": "));
    let pax = tar().pax("size", "000001").file("configs/a", "abc");
    assert_eq!(
        configs(vec![pax.finish()]).unwrap_err(),
        "layer 1: header says 3 bytes and its PAX record 1"
    );
    let cut = tar().file("configs/a", "a").file("configs/b", "b").unfinished();
    assert!(configs(vec![cut[..cut.len() - 600].to_vec()]).is_err());
    let mut after = tar().file("configs/a", "a").finish();
    after.extend_from_slice(&[7; 5000]);
    assert_eq!(configs(vec![after]).unwrap(), ["configs/a=a"]);
}

// catalogs.md A7
#[rstest]
#[case::directory(b'5')]
#[case::hard_link(b'1')]
#[case::symbolic_link(b'2')]
#[case::device(b'3')]
fn what_has_no_content_has_none_whatever_its_size(#[case] kind: u8) {
    let old = tar().file("configs/a", "a").file("configs/old", "o").finish();
    let new = tar().entry(kind, b"other", b"x", 700, b"").pax("size", "700");
    let new = new.entry(kind, b"another", b"x", 700, b"").file("configs/.wh.old", "").finish();
    assert_eq!(configs(vec![old, new]).unwrap(), ["configs/a=a"]);
}

// catalogs.md A7
#[test]
fn entries_behind_one_block_of_zeros_are_not_lost() {
    let before = tar().file("configs/a", "a").unfinished();
    let behind = tar().file("configs/b", "b").finish();
    assert_eq!(
        configs(vec![[before, vec![0; 512], behind].concat()]).unwrap_err(),
        "layer 1, entry \"configs/a\": a single block of zeros does not end an archive"
    );
}

#[rstest]
#[case::sparse(raw(b'S', b"configs/a", 0, b""), "sparse files are not supported")]
#[case::pax_sparse(tar().pax("GNU.sparse.major", "1").file("configs/a", ""), "sparse files are not supported")]
#[case::pax_garbage(raw(b'x', b"pax", 5, b"99 a="), "malformed PAX record")]
#[case::pax_overflow(raw(b'x', b"pax", 24, b"99999999999999999999 a=b"), "malformed PAX record")]
#[case::directory_with_content(raw(b'0', b"configs/a/", 1, b"x"), "a directory has content")]
#[case::huge_name(raw(b'L', b"././@LongLink", 2 << 20, b""), "extension header is larger than 1048576 bytes")]
#[case::endless((0..20).fold(tar(), |archive, _| archive.pax("comment", "x")), "too many extension headers")]
fn malformed_archives_are_refused(#[case] archive: Archive, #[case] want: &str) {
    let got = configs(vec![archive.finish()]).unwrap_err();
    assert!(got.starts_with("layer 1: ") && got.contains(want), "{got}");
}

#[test]
fn a_header_that_is_none_is_refused() {
    // What stands in its place may be content, which no text shows.
    let got = configs(vec![b"a secret".repeat(64)]).unwrap_err();
    assert_eq!(got, "layer 1: malformed header");
}

// catalogs.md A9
#[rstest]
#[case::before(true)]
#[case::after(false)]
fn whiteout_of_an_ancestor_hides_older_layers_only(#[case] before: bool) {
    let old = tar().file("a/configs/old", "o").file("a/configs/both", "1").finish();
    let marker = |archive: Archive| archive.file(".wh.a", "");
    let files = |archive: Archive| archive.file("a/configs/new", "n").file("a/configs/both", "2");
    let new = if before { files(marker(tar())) } else { marker(files(tar())) };
    let got = run(vec![old, new.finish()], "a/configs", &Limits::catalog());
    assert_eq!(listed(got).unwrap(), ["a/configs/both=2", "a/configs/new=n"]);
}

// catalogs.md A10
#[rstest]
#[case::before(true, "configs/.wh..wh..opq")]
#[case::after(false, "configs/.wh..wh..opq")]
#[case::root(true, ".wh..wh..opq")]
fn opaque_marker_works_wherever_it_stands(#[case] before: bool, #[case] marker: &str) {
    let old = tar().file("configs/old", "o").file("configs/sub/old", "o").finish();
    let new = if before {
        tar().file(marker, "").file("configs/new", "n")
    } else {
        tar().file("configs/new", "n").file(marker, "")
    };
    assert_eq!(configs(vec![old, new.finish()]).unwrap(), ["configs/new=n"]);
}

// catalogs.md A11
#[rstest]
#[case::whole_image("", &["configs/a=a", "x=x"], false)]
#[case::a_file("configs/a", &["configs/a=a"], false)]
#[case::nothing("none", &[], true)]
#[case::empty_directory("empty", &[], false)]
fn label_directory(#[case] wanted: &str, #[case] files: &[&str], #[case] missing: bool) {
    let archive =
        tar().file("configs/a", "a").file("x", "x").entry(b'5', b"empty/", b"", 0, b"").finish();
    let unpacked = run(vec![archive], wanted, &Limits::catalog()).unwrap();
    assert_eq!(!unpacked.missing.is_empty(), missing);
    assert_eq!(listed(Ok(unpacked)).unwrap(), files);
}

// catalogs.md A12
#[test]
fn odd_but_valid_names_are_loaded() {
    let long = format!("configs/{}", "n".repeat(255));
    let gnu = raw(b'L', b"././@LongLink", long.len() as u64, long.as_bytes())
        .file("configs/short", "long");
    let pax = raw(b'x', b"pax", 38, b"25 path=configs/new\nline\n13 mtime=1.5\n").file("x", "n");
    let got = configs(vec![gnu.finish(), pax.finish()]).unwrap();
    assert_eq!(got, ["configs/new\nline=n".to_owned(), format!("{long}=long")]);
    // As Go reads them: which of several counts.
    let both =
        tar().pax("path", "configs/pax").entry(b'L', b"././@LongLink", b"", 11, b"configs/gnu");
    let empty = tar().pax("path", "configs/a").entry(b'L', b"././@LongLink", b"", 1, b"\0");
    let twice = tar().pax("path", "configs/first").pax("comment", "x");
    let global = tar().pax("path", "configs/first").entry(b'g', b"pax", b"", 12, b"12 comment=x");
    for (archive, want) in [
        (both, "configs/gnu"),
        (empty, "configs/a"),
        (twice, "configs/own"),
        (global, "configs/own"),
    ] {
        let got = configs(vec![archive.file("configs/own", "x").finish()]);
        assert_eq!(got.unwrap(), [format!("{want}=x")]);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

// catalogs.md A13, O4
#[test]
fn broken_last_layer_gives_nothing() {
    let good = tar().file("configs/a", "a").finish();
    let mut broken = gzip(&tar().file("configs/b", "b".repeat(5000)).finish());
    let middle = broken.len() / 2;
    broken[middle] ^= 0xff;
    assert!(configs(vec![good.clone(), broken]).unwrap_err().starts_with("layer 2"));
    let wrong = Layer { diff_id: Some(Digest::sha256(b"other")), ..layer(&good) };
    let got = unpack(&[wrong], &["configs".into()], &Limits::catalog(), &AtomicBool::new(false));
    assert!(Chain(&got.unwrap_err()).to_string().contains("the image configuration says sha256:"));
}

// catalogs.md O17
#[test]
fn compression_is_told_by_the_first_bytes() {
    let plain = || tar().file("configs/a", "a").finish();
    let (front, back) = (plain()[..700].to_vec(), plain()[700..].to_vec());
    let members = [gzip(&front), gzip(&back)].concat();
    let frame = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9].to_vec();
    let frames = [skippable, frame(&front), frame(&back)].concat();
    for layer in [plain(), gzip(&plain()), members, frame(&plain()), frames] {
        assert_eq!(configs(vec![layer]).unwrap(), ["configs/a=a"]);
    }
    let refused = |magic: &[u8]| configs(vec![magic.to_vec()]).unwrap_err();
    assert_eq!(refused(b"BZh9"), "layer 1: layer compression bzip2 is not supported");
    assert_eq!(refused(b"\xfd7zXZ\0"), "layer 1: layer compression xz is not supported");
    assert_eq!(configs(vec![vec![]]).unwrap(), [""; 0]);
}

#[test]
fn stopped_work_ends() {
    let stop = AtomicBool::new(true);
    let layers = [layer(&tar().file("configs/a", "a").finish())];
    let got = unpack(&layers, &["configs".into()], &Limits::catalog(), &stop);
    assert!(Chain(&got.unwrap_err()).to_string().contains("unpacking was stopped"));
}

fn entry() -> impl Strategy<Value = (u8, String, String)> {
    let name = "((configs|a|b|\\.\\.|\\.|\\.wh\\.a|\\.wh\\.\\.wh\\.\\.opq)/?){1,4}";
    (proptest::sample::select(b"0125634LxgS7".to_vec()), name, "(/?(configs|a|b|\\.\\.)){0,4}")
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let _ = configs(vec![bytes]);
    }

    #[test]
    fn random_bytes_after_a_magic_never_panic(
        magic in proptest::sample::select(vec![vec![0x1f, 0x8b, 8], vec![0x28, 0xb5, 0x2f, 0xfd]]),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = configs(vec![[magic, bytes].concat()]);
    }

    #[test]
    fn random_entries_never_panic_and_stay_below_the_wanted_directory(
        layers in proptest::collection::vec(proptest::collection::vec(entry(), 0..8), 0..3),
    ) {
        let layers = layers.into_iter().map(|entries| {
            let archive = entries.into_iter().fold(tar(), |archive, (kind, name, link)| {
                archive.entry(kind, name.as_bytes(), link.as_bytes(), 0, b"")
            });
            archive.finish()
        });
        if let Ok(unpacked) = run(layers.collect(), "configs", &Limits::catalog()) {
            for (path, _) in unpacked.files.paths() {
                prop_assert!(path == "configs" || path.starts_with("configs/"), "{}", path);
            }
        }
    }
}
