//! Parts of catalogs, kept by the digest of the catalog, so that none can be out of date.
//!
//! What cannot be kept or read is fetched again: the cache never fails.
//!
//! Source: plugin.md 1.3.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use reqwest::Url;

/// The only rights on its directory: those of the user. Elsewhere it is private because of where it is.
#[cfg(unix)]
const MODE: u32 = 0o700;
/// Most bytes and files that are kept: all are listed whenever one is added.
const MOST: Size = Size { bytes: 1 << 30, files: 2000 };
/// The number of parts that this process has written, so that each gets its own file.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// A directory of the user with what was read.
#[derive(Clone)]
pub(super) struct Cache {
    directory: PathBuf,
    most: Size,
}

#[derive(Debug, Clone, Copy)]
struct Size {
    bytes: u64,
    files: usize,
}

pub(super) struct Key(String);

impl Key {
    /// Names what a URL of a catalog with this digest gives; nothing if that is not a digest.
    pub(super) fn new(digest: &str, url: &Url) -> Option<Self> {
        let hex = digest.strip_prefix("sha256:")?;
        let is_digest = hex.len() == 64 && hex.bytes().all(|it| it.is_ascii_hexdigit());
        let endpoint = url.path_segments()?.next_back()?;
        // A query is encoded: there is no slash in it.
        let query = url.query().unwrap_or_default();
        let name = format!("{hex}-{endpoint}-{query}");
        (is_digest && !name.contains('/')).then_some(Self(name))
    }
}

impl Cache {
    /// Opens the cache of the user; there is none without a home.
    pub(super) fn of_user() -> Option<Self> {
        let named = |key| env::var_os(key).map(PathBuf::from);
        let base = named("XDG_CACHE_HOME").filter(|base| base.is_absolute());
        let base = base.or_else(|| Some(named("HOME")?.join(".cache")))?;
        Self::open(base.join("kubectl-olm"), MOST).ok()
    }

    fn open(directory: PathBuf, most: Size) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        builder.mode(MODE);
        builder.recursive(true).create(&directory)?;
        #[cfg(unix)]
        fs::set_permissions(&directory, fs::Permissions::from_mode(MODE))?;
        Ok(Self { directory, most })
    }

    /// Returns a part, if it is kept.
    pub(super) fn read(&self, key: &Key) -> Option<String> {
        let path = self.directory.join(&key.0);
        let text = fs::read_to_string(&path).ok()?;
        // It was needed last now.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(text)
    }

    pub(super) fn write(&self, key: &Key, text: &str) {
        let _ = self.keep(&self.directory.join(&key.0), text);
    }

    fn keep(&self, path: &Path, text: &str) -> io::Result<()> {
        if text.len() as u64 > self.most.bytes {
            return Ok(());
        }
        self.make_room(text.len() as u64)?;
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let part = path.with_file_name(format!(".{}-{number}", std::process::id()));
        let mut file = File::create(&part)?;
        file.write_all(text.as_bytes())?;
        fs::rename(part, path)
    }

    /// Removes what was needed least lately until a file of so many bytes may be added.
    fn make_room(&self, more: u64) -> io::Result<()> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            // Another process may have renamed or removed it meanwhile.
            let Ok(about) = entry.metadata() else { continue };
            kept.push((about.modified()?, about.len(), entry.path()));
        }
        kept.sort_unstable();
        let mut bytes = more + kept.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        let mut files = kept.len() + 1;
        for (_, length, path) in kept {
            if bytes <= self.most.bytes && files <= self.most.files {
                break;
            }
            let _gone = fs::remove_file(path);
            bytes -= length;
            files -= 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(digit: char, package: &str) -> Key {
        let url = format!("https://h/catalogs/red/api/v1/metas?package={package}");
        let digest = format!("sha256:{}", digit.to_string().repeat(64));
        Key::new(&digest, &url.parse().unwrap()).unwrap()
    }

    // plugin.md U22
    #[test]
    fn parts_are_kept_for_the_user_alone_and_the_oldest_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("kubectl-olm");
        fs::create_dir(&directory).unwrap();
        let cache = Cache::open(directory.clone(), Size { bytes: 10, files: 9 }).unwrap();
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, MODE);
        let [first, second, third] = ["a", "b", "c"].map(|it| key('1', it));
        let age = |key: &Key, seconds| {
            let file = File::open(directory.join(&key.0)).unwrap();
            let then = SystemTime::now() - Duration::from_secs(seconds);
            file.set_modified(then).unwrap();
        };
        cache.write(&first, "12345");
        age(&first, 60);
        cache.write(&second, "12345");
        age(&second, 30);
        assert_eq!(cache.read(&first).as_deref(), Some("12345"));
        cache.write(&third, "1234567890!");
        assert_eq!(cache.read(&third), None);
        cache.write(&third, "1");
        assert_eq!(cache.read(&second), None);
        assert!(cache.read(&first).is_some() && cache.read(&third).is_some());
        assert_eq!(cache.read(&key('2', "a")), None);
    }

    #[test]
    fn files_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().to_owned(), Size { bytes: 100, files: 3 }).unwrap();
        for package in ["a", "b", "c", "d"] {
            cache.write(&key('1', package), "1");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        assert!(cache.read(&key('1', "d")).is_some());
    }

    #[test]
    fn a_part_is_named_by_a_digest_and_stays_in_the_directory() {
        assert!(!key('1', "..%2F..%2Fetc").0.contains('/'));
        let url = "https://h/api/v1/all".parse().unwrap();
        for digest in ["", "sha256:../x", "latest"] {
            assert!(Key::new(digest, &url).is_none());
        }
    }
}
