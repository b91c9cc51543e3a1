//! The directories of the search path: those of the user, then those of the system.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use rustix::process::{getegid, geteuid, getgid, getuid};

/// Environment variable with directories of the user, separated by colons.
const VARIABLE: &str = "PLYFS_PATH";

/// Directories of the system: what the administrator installs comes before what a package installs.
const SYSTEM: [&str; 2] = ["/usr/local/share/plyfs/samples", "/usr/share/plyfs/samples"];

/// Returns the directories for this process. The environment of a set-id process is that of a caller with other rights, and is
/// ignored.
pub(crate) fn of_process() -> Vec<PathBuf> {
    let is_set_id = getuid() != geteuid() || getgid() != getegid();
    of_environment(|name| if is_set_id { None } else { env::var_os(name) })
}

/// Returns the directories for an environment. Relative ones, and with them the working directory, are skipped: what is there
/// depends on who unpacked it.
fn of_environment(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let listed = variable(VARIABLE).unwrap_or_default();
    let data_home = variable("XDG_DATA_HOME").map(PathBuf::from).filter(|directory| directory.is_absolute());
    let data_home = data_home.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/share")));
    let mut directories: Vec<PathBuf> = Vec::new();
    let all = env::split_paths(&listed)
        .chain(data_home.map(|directory| directory.join("plyfs")))
        .chain(SYSTEM.map(PathBuf::from));
    for directory in all {
        if directory.is_absolute() && !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    directories
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(variables: &[(&str, &str)]) -> Vec<String> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        of_environment(value).iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn directories_of_the_user_come_before_those_of_the_system() {
        let set = [("PLYFS_PATH", "/a:/b:/a"), ("XDG_DATA_HOME", "/data"), ("HOME", "/home/me")];
        assert_eq!(directories(&set), [&["/a", "/b", "/data/plyfs"][..], &SYSTEM].concat());
        assert_eq!(directories(&set[2..]), [&["/home/me/.local/share/plyfs"][..], &SYSTEM].concat());
        assert_eq!(directories(&[]), SYSTEM);
    }

    #[test]
    fn relative_directories_are_skipped() {
        let set = [("PLYFS_PATH", ":.:a:../b"), ("XDG_DATA_HOME", "data"), ("HOME", "home")];
        assert_eq!(directories(&set), SYSTEM);
    }
}
