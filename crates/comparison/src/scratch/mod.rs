//! Each sample as a file system from scratch, on the `fuser` crate alone.
