//! The commands that `plyfs-tools` executes, a separate executable so that servers do not contain them.

use std::convert::Infallible;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;

use clap::ValueEnum;

use crate::arguments::{Completions, Man};
use crate::exit::{Exit, Failure, Outcome};

const NAME: &str = "plyfs-tools";

/// `plyfs completions`
pub(crate) fn completions(arguments: &Completions) -> Outcome {
    let shell = arguments.shell.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    execute(["completions".into(), shell.into()]).map(|never| match never {})
}

/// `plyfs man`
pub(crate) fn man(arguments: &Man) -> Outcome {
    // A directory may have a name that looks like an option.
    execute(["man".into(), "--".into(), arguments.directory.clone().into()]).map(|never| match never {})
}

/// `plyfs fist lsp`
pub(crate) fn lsp() -> Outcome {
    execute(["lsp".into()]).map(|never| match never {})
}

/// Replaces this process by `plyfs-tools`.
fn execute<const N: usize>(words: [OsString; N]) -> Outcome<Infallible> {
    let program = env::current_exe().ok().and_then(|own| find_beside(&own));
    let program = program.or_else(|| find_in_path(&env::var_os("PATH")?)).ok_or_else(missing)?;
    let error = process::Command::new(&program).args(words).exec();
    let name = program.display();
    Err(Failure::new(Exit::Failure, format!("cannot execute {name}: {error}; check it: ls -l {name}")))
}

/// Returns the tools in the directory of this executable, as the kernel knows it regardless of the name by which it was called.
///
/// In a directory such as /tmp others may create files: only files of root, the caller or the owner of the executable count.
fn find_beside(own: &Path) -> Option<PathBuf> {
    let program = own.with_file_name(NAME);
    let owner = program.symlink_metadata().ok()?.uid();
    let is_owned = owner == 0
        || owner == rustix::process::geteuid().as_raw()
        || own.symlink_metadata().is_ok_and(|metadata| metadata.uid() == owner);
    (is_owned && program.is_file()).then_some(program)
}

/// Returns the tools in the first directory of the search path that contains them. Relative directories, and with them the
/// current one, are skipped.
fn find_in_path(path: &OsStr) -> Option<PathBuf> {
    let directories = env::split_paths(path).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(NAME)).find(|program| program.is_file())
}

fn missing() -> Failure {
    let message = format!(
        "this command needs {NAME}, which is neither in the directory of plyfs nor in PATH; \
         to install it from the build directory: install target/release/{NAME} /usr/local/bin/"
    );
    Failure::new(Exit::Failure, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    #[test]
    fn tools_are_found_in_absolute_directories_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = env::join_paths([Path::new(""), Path::new("."), directory.path()]).unwrap();
        assert_eq!(find_in_path(&path), None);
        fs::write(directory.path().join(NAME), "").unwrap();
        assert_eq!(find_in_path(&path), Some(directory.path().join(NAME)));
    }

    #[test]
    fn tools_of_another_user_are_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("plyfs");
        let tools = directory.path().join(NAME);
        fs::write(&own, "").unwrap();
        assert_eq!(find_beside(&own), None);
        fs::write(&tools, "").unwrap();
        assert_eq!(find_beside(&own), Some(tools.clone()));
        if !rustix::process::geteuid().is_root() {
            return;
        }
        chown(&tools, Some(1234), None).unwrap();
        assert_eq!(find_beside(&own), None);
        chown(&own, Some(1234), None).unwrap();
        assert_eq!(find_beside(&own), Some(tools.clone()));
        chown(&own, Some(0), None).unwrap();
        fs::rename(&tools, directory.path().join("elsewhere")).unwrap();
        symlink("/bin/sh", &tools).unwrap();
        std::os::unix::fs::lchown(&tools, Some(1234), None).unwrap();
        assert_eq!(find_beside(&own), None);
    }
}
