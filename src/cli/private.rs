//! Files that the plugin writes with what a cluster says: for the user alone, because logs, Events and
//! objects stand in them.

use std::fs::File;
use std::io;
use std::path::Path;

/// Creates a file that nobody but its owner may read, in place of what was in it before; one that
/// cannot be made so stays as it was.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let file = options.open(path)?;
    // A pipe or a device has rights of its own, and nothing before.
    if file.metadata()?.is_file() {
        #[cfg(unix)]
        close_to_others(&file)?;
        file.set_len(0)?;
    }
    Ok(file)
}

/// Takes the rights of others on a file that was there.
#[cfg(unix)]
fn close_to_others(file: &File) -> io::Result<()> {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    let of_others = file.metadata()?.permissions().mode() & 0o077;
    if of_others == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(0o600)).map_err(|error| {
        let text = format!(
            "others may read this file, and only its owner can change that: name another file ({error})"
        );
        io::Error::new(error.kind(), text)
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_was_there_is_replaced_by_what_its_owner_alone_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump");
        for before in [None, Some(0o644), Some(0o600)] {
            if let Some(mode) = before {
                fs::write(&path, "longer than what follows").unwrap();
                fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            }
            create(&path).unwrap().write_all(b"new").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_file_whose_rights_cannot_be_changed_is_refused() {
        // Not even root may change those of a process.
        let error = create(Path::new("/proc/self/comm")).unwrap_err();
        let want = "others may read this file, and only its owner can change that";
        assert!(error.to_string().starts_with(want), "{error}");
    }
}
