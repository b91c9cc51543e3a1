//! Who could have written a file: only root and the caller, or others.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Reason why a file is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrust {
    /// The file.
    pub file: PathBuf,
    /// The file, or the directory on the path to it, that others control.
    pub object: PathBuf,
    /// Owner of that object, if it is neither root nor the caller; otherwise others have permission to write it.
    pub owner: Option<u32>,
}

/// Permission bits with which others write: for a file and its directory, and for the directories above, whose groups are those
/// that the administrator trusts with the whole tree.
const WRITE_BITS: u32 = 0o022;
const WRITE_BITS_ABOVE: u32 = 0o002;
/// In a directory with this bit, others cannot replace what is not theirs.
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// Returns the path of a regular file, or of a symlink to one, with its directory resolved; `None` if there is no such file.
///
/// The directories on that path are checked, too, and those on the path of a symlink's target: others cannot replace either.
///
/// # Errors
/// The first object that others control.
pub(crate) fn trusted(file: &Path) -> Result<Option<PathBuf>, Distrust> {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else { return Ok(None) };
    let (Ok(directory), Ok(target)) = (fs::canonicalize(directory), fs::canonicalize(file)) else { return Ok(None) };
    if !target.is_file() {
        return Ok(None);
    }
    let path = directory.join(name);
    let to_target = target.ancestors().enumerate();
    for (height, object) in to_target.chain(path.ancestors().enumerate().skip(1)) {
        let Ok(metadata) = fs::metadata(object) else { return Ok(None) };
        let is_own = metadata.uid() == ROOT || metadata.uid() == geteuid().as_raw();
        let is_shared = match height {
            0 | 1 => metadata.mode() & WRITE_BITS != 0,
            _ => metadata.mode() & WRITE_BITS_ABOVE != 0 && metadata.mode() & STICKY == 0,
        };
        if !is_own || is_shared {
            let owner = (!is_own).then_some(metadata.uid());
            return Err(Distrust { file: file.to_owned(), object: object.to_owned(), owner });
        }
    }
    Ok(Some(path))
}

impl fmt::Display for Distrust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, object) = (self.file.display(), self.object.display());
        let quoted = self.object.to_string_lossy();
        let quoted = shlex::try_quote(&quoted).unwrap_or_default();
        match self.owner {
            Some(owner) => write!(
                formatter,
                "{file} is not used, since {object} belongs to user {owner}; if its contents are trustworthy: chown root {quoted}"
            ),
            None => write!(
                formatter,
                "{file} is not used, since others can write to {object}; if its contents are trustworthy: chmod go-w {quoted}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Returns a directory with a file in it, which nobody else can write.
    fn directory_with_file() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        set_mode(directory.path(), 0o755);
        let file = directory.path().join("a file");
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o644);
        (directory, file)
    }

    #[test]
    fn files_of_root_and_the_caller_are_trusted_unless_others_can_write_them() {
        let (directory, file) = directory_with_file();
        assert_eq!(trusted(&file), Ok(Some(fs::canonicalize(&file).unwrap())));
        for (object, mode) in
            [(file.as_path(), 0o664), (file.as_path(), 0o646), (directory.path(), 0o775), (directory.path(), 0o1777)]
        {
            let before = fs::metadata(object).unwrap().mode();
            set_mode(object, mode);
            let distrust = trusted(&file).unwrap_err();
            assert_eq!(
                (distrust.object.as_path(), distrust.owner),
                (&*fs::canonicalize(object).unwrap(), None),
                "{mode:o}"
            );
            set_mode(object, before);
        }
        assert!(trusted(&file).is_ok());
    }

    #[test]
    fn directories_above_may_be_shared_only_if_they_are_sticky() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("inner");
        fs::create_dir(&inner).unwrap();
        set_mode(&inner, 0o755);
        let file = inner.join("file");
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o644);
        set_mode(outer.path(), 0o1777);
        assert!(trusted(&file).is_ok());
        set_mode(outer.path(), 0o777);
        assert_eq!(trusted(&file).unwrap_err().object, fs::canonicalize(outer.path()).unwrap());
    }

    #[test]
    fn a_symlink_is_trusted_as_its_target_is() {
        let (_directory, file) = directory_with_file();
        let (links, _) = directory_with_file();
        let link = links.path().join("link");
        symlink(&file, &link).unwrap();
        assert_eq!(trusted(&link), Ok(Some(fs::canonicalize(links.path()).unwrap().join("link"))), "its name is kept");
        set_mode(links.path(), 0o777);
        assert_eq!(trusted(&link).unwrap_err().object, fs::canonicalize(links.path()).unwrap());
        set_mode(links.path(), 0o755);
        set_mode(&file, 0o666);
        assert_eq!(trusted(&link).unwrap_err().object, fs::canonicalize(&file).unwrap());
    }

    #[test]
    fn files_of_others_are_not_trusted() {
        if !geteuid().is_root() {
            return;
        }
        let (directory, file) = directory_with_file();
        chown(directory.path(), Some(1234), None).unwrap();
        assert_eq!(trusted(&file).unwrap_err().owner, Some(1234));
        chown(directory.path(), Some(ROOT), None).unwrap();
        chown(&file, Some(1234), None).unwrap();
        let message = trusted(&file).unwrap_err().to_string();
        assert!(message.contains("belongs to user 1234; "), "{message}");
        assert!(message.ends_with(&format!("chown root '{}'", file.display())), "{message}");
    }

    #[test]
    fn missing_files_and_other_objects_are_none() {
        let (directory, _) = directory_with_file();
        assert_eq!(trusted(&directory.path().join("none")), Ok(None));
        assert_eq!(trusted(directory.path()), Ok(None));
    }
}
