//! Files that the plugin writes with what a cluster says: for the user alone, because logs, Events and
//! objects stand in them.

use std::fs::File;
use std::io;
use std::path::Path;

/// Creates a file that nobody but its owner may read, in place of what was in it before.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::fs::Permissions;
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let file = options.mode(0o600).open(path)?;
        // One that was there keeps its rights otherwise; a pipe or a device has its own.
        if file.metadata()?.is_file() {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}
