//! OCI images: from a reference to unpacked files.
