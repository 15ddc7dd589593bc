//! What is in the image: the program, and what it cannot do without.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use olm_image::Platform;
use olm_image::layout::Layout;
use tar::{Builder, EntryType, Header};

/// User and group of the program: a number, because `runAsNonRoot` cannot be checked for a name.
pub(super) const USER: &str = "65532:65532";
pub(super) const ENTRY_POINT: &str = "/olm-controller";
/// Names under which the program is started by manifests of upstream.
pub(super) const OTHER_NAMES: [&str; 2] = ["operator-controller", "catalogd"];

const NONROOT: u64 = 65532;
const PASSWD: &str =
    "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnonroot:x:65532:\n";
/// Characters of a line of PEM.
const PEM_LINE: usize = 64;

/// Something in the file system of the image.
pub(super) struct Entry<'a> {
    pub(super) path: &'a str,
    pub(super) mode: u32,
    pub(super) owner: u64,
    pub(super) kind: Kind<'a>,
}

/// The type of an entry.
pub(super) enum Kind<'a> {
    Folder,
    File(&'a [u8]),
    /// A symbolic link and its target.
    Link(&'a str),
}

/// Everything but the files of the program, by path: type, mode and owner.
const BASE: [(&str, u32, u64); 12] = [
    ("etc/", 0o755, 0),
    ("etc/group", 0o444, 0),
    ("etc/passwd", 0o444, 0),
    ("etc/ssl/", 0o755, 0),
    ("etc/ssl/certs/", 0o755, 0),
    ("etc/ssl/certs/ca-certificates.crt", 0o444, 0),
    ("licenses/", 0o755, 0),
    ("licenses/LICENSE", 0o444, 0),
    ("licenses/THIRD-PARTY.txt", 0o444, 0),
    ("tmp/", 0o1777, 0),
    ("var/", 0o755, 0),
    ("var/cache/", 0o755, NONROOT),
];

/// Returns the lower layer, which changes rarely: trust, licences, folders to write into.
///
/// It is the same for all architectures, so that a registry keeps it once.
pub(super) fn base(license: &[u8], third_party: &str) -> io::Result<Vec<u8>> {
    let certificates = certificates();
    let entries = BASE.map(|(path, mode, owner)| {
        let kind = match path {
            "etc/group" => Kind::File(GROUP.as_bytes()),
            "etc/passwd" => Kind::File(PASSWD.as_bytes()),
            "etc/ssl/certs/ca-certificates.crt" => Kind::File(certificates.as_bytes()),
            "licenses/LICENSE" => Kind::File(license),
            "licenses/THIRD-PARTY.txt" => Kind::File(third_party.as_bytes()),
            _ => Kind::Folder,
        };
        Entry { path, mode, owner, kind }
    });
    archive(&entries)
}

/// Returns the upper layer: the program under its names.
pub(super) fn program(content: &[u8]) -> io::Result<Vec<u8>> {
    let file = ENTRY_POINT.trim_start_matches('/');
    let mut entries: Vec<Entry<'_>> = OTHER_NAMES
        .into_iter()
        .map(|path| Entry { path, mode: 0o777, owner: 0, kind: Kind::Link(file) })
        .collect();
    entries.push(Entry { path: file, mode: 0o555, owner: 0, kind: Kind::File(content) });
    archive(&entries)
}

/// Returns the paths an image has, folders with a slash at their end.
pub(super) fn paths() -> Vec<&'static str> {
    let base = BASE.iter().map(|(path, ..)| *path);
    let mut all: Vec<_> = base.chain(OTHER_NAMES).collect();
    all.push(ENTRY_POINT.trim_start_matches('/'));
    all.sort_unstable();
    all
}

/// Returns the roots that browsers trust, as PEM.
fn certificates() -> String {
    let mut pem = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in STANDARD.encode(certificate).as_bytes().chunks(PEM_LINE) {
            // The alphabet of base64 is ASCII.
            pem.push_str(&String::from_utf8_lossy(line));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    pem
}

/// Makes a tar archive; times are zero, and the order is that of `entries`.
fn archive(entries: &[Entry<'_>]) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for entry in entries {
        let mut header = Header::new_gnu();
        header.set_mtime(0);
        header.set_mode(entry.mode);
        header.set_uid(entry.owner);
        header.set_gid(entry.owner);
        header.set_size(0);
        match entry.kind {
            Kind::Folder => {
                header.set_entry_type(EntryType::Directory);
                builder.append_data(&mut header, entry.path, io::empty())?;
            }
            Kind::File(content) => {
                header.set_size(content.len() as u64);
                builder.append_data(&mut header, entry.path, content)?;
            }
            Kind::Link(to) => {
                header.set_entry_type(EntryType::Symlink);
                builder.append_link(&mut header, entry.path, to)?;
            }
        }
    }
    builder.into_inner()
}

/// Writes the file system of the image for a platform below a folder.
pub(super) fn unpack(layout: &Layout, platform: &Platform, to: &Path) -> anyhow::Result<()> {
    for layer in layout.layers(platform)? {
        let mut archive = tar::Archive::new(layer.as_slice());
        archive.set_preserve_permissions(true);
        archive.set_overwrite(true);
        archive.unpack(to).with_context(|| to.display().to_string())?;
    }
    Ok(())
}
