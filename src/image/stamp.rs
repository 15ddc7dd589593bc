//! Detects changes of the configuration files of pulls.
//!
//! Each pull reads them anew. Whoever waits for a change of them, because a pull has failed,
//! compares their stamps: modification time, size and inode of each file, through symbolic links,
//! so that a file that was renamed into place or a link that was swapped counts.
//!
//! Source: deploying.md 3.2.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::pull::PullConfig;

/// The metadata of each file and directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamp(BTreeMap<PathBuf, Seen>);

/// Modification time, size and inode.
type Seen = (Option<SystemTime>, u64, u64);

impl Stamp {
    /// Looks at all files that a pull with this configuration may read. Blocks.
    pub fn of(config: &PullConfig) -> Self {
        let mut stamp = Self::default();
        stamp.look(&config.registries.file, 0);
        for drop_ins in &config.registries.drop_ins {
            stamp.look(drop_ins, 1);
        }
        stamp.look(&config.policy.file, 0);
        stamp.look(&config.policy.registries(), 1);
        for file in &config.auth.paths {
            stamp.look(file, 0);
        }
        match &config.certificates.only {
            Some(only) => stamp.look(only, 1),
            // One directory a host.
            None => {
                for directory in &config.certificates.by_host {
                    stamp.look(directory, 2);
                }
            }
        }
        for place in &config.certificates.system {
            stamp.look(place, 1);
        }
        stamp
    }

    /// Notes a path, and what is so many levels below it. What cannot be read is as good as absent.
    fn look(&mut self, path: &Path, levels: u32) {
        let Ok(metadata) = std::fs::metadata(path) else { return };
        let seen = (metadata.modified().ok(), metadata.len(), inode(&metadata));
        self.0.insert(path.to_owned(), seen);
        if levels == 0 || !metadata.is_dir() {
            return;
        }
        let Ok(entries) = std::fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            self.look(&entry.path(), levels - 1);
        }
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{create_dir_all, rename, write};
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::auth_file::AuthFiles;
    use crate::policy::PolicyPath;
    use crate::registries::RegistriesPaths;
    use crate::trust::CertificateDirs;

    // deploying.md P24
    #[test]
    fn every_way_to_change_a_file_changes_the_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let config = PullConfig {
            registries: RegistriesPaths {
                file: at("registries.conf"),
                drop_ins: vec![at("registries.conf.d")],
                ..RegistriesPaths::default()
            },
            policy: PolicyPath::new(Some(at("policy.json"))),
            certificates: CertificateDirs {
                only: None,
                by_host: vec![at("certs.d")],
                system: vec![at("trusted")],
            },
            auth: AuthFiles::of_user(Some(at("auth.json"))),
            ..PullConfig::default()
        };
        write(at("policy-1"), "1").unwrap();
        write(at("policy-2"), "2").unwrap();
        let changes: [(&str, &dyn Fn()); 9] = [
            ("a first file", &|| write(at("registries.conf"), "1").unwrap()),
            ("renamed into place", &|| {
                write(at("new"), "2").unwrap();
                rename(at("new"), at("registries.conf")).unwrap();
            }),
            ("a drop-in", &|| {
                create_dir_all(at("registries.conf.d")).unwrap();
                write(at("registries.conf.d/1.conf"), "").unwrap();
            }),
            ("a link", &|| symlink("policy-1", at("policy.json")).unwrap()),
            ("a swapped link", &|| {
                symlink("policy-2", at("link")).unwrap();
                rename(at("link"), at("policy.json")).unwrap();
            }),
            ("where signatures are looked for", &|| {
                create_dir_all(at("registries.d")).unwrap();
                write(at("registries.d/1.yaml"), "").unwrap();
            }),
            ("a CA of a host", &|| {
                create_dir_all(at("certs.d/h.io:5000")).unwrap();
                write(at("certs.d/h.io:5000/ca.crt"), "").unwrap();
            }),
            ("a CA of the system", &|| {
                create_dir_all(at("trusted")).unwrap();
                write(at("trusted/ca-bundle.crt"), "").unwrap();
            }),
            ("credentials of the user", &|| write(at("auth.json"), "{}").unwrap()),
        ];
        let mut before = Stamp::of(&config);
        for (what, change) in changes {
            change();
            let after = Stamp::of(&config);
            assert_ne!(before, after, "{what}");
            assert_eq!(after, Stamp::of(&config), "{what}");
            before = after;
        }
    }
}
