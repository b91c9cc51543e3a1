//! FiST programs that stack expressions name without a path, and the directories in which they are found.

mod directories;
mod trust;

pub use trust::Distrust;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Directories in which FiST programs are found by their names, in the order in which they are searched.
///
/// A file counts only if it belongs to root or the caller, and neither it nor its directory can be written by others. The default is
/// the search path of the process: the directories in `$PLYFS_PATH`, `$XDG_DATA_HOME/plyfs` (or `~/.local/share/plyfs`),
/// `/usr/local/share/plyfs/samples`, `/usr/share/plyfs/samples`; the environment of a set-id process is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    directories: Arc<[PathBuf]>,
}

/// A FiST program on the search path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedProgram {
    /// Its name in stack expressions: that of the file without `.fist`.
    pub name: String,
    /// Its file; its directory has no symlinks on the path.
    pub path: PathBuf,
}

/// Result of a search that found no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingProgram {
    /// The names of files that were searched for.
    pub files: [String; 2],
    /// The directories that were searched.
    pub directories: Vec<PathBuf>,
    /// Files with these names that others control.
    pub distrusted: Vec<Distrust>,
    /// Names of the programs that there are.
    pub others: Vec<String>,
}

impl Default for SearchPath {
    fn default() -> Self {
        SearchPath::new(directories::of_process())
    }
}

impl SearchPath {
    /// Returns a search path of these directories, which should be absolute.
    pub fn new(directories: impl Into<Arc<[PathBuf]>>) -> Self {
        SearchPath { directories: directories.into() }
    }

    /// Returns the file of the program with this name: `NAME.fist`, or `NAMEfs.fist`, in the first directory that has one.
    ///
    /// # Errors
    /// If no directory has one that counts; says where it was searched for.
    pub fn find(&self, name: &str) -> Result<PathBuf, MissingProgram> {
        let files = [format!("{name}{EXTENSION}"), format!("{name}fs{EXTENSION}")];
        let mut distrusted = Vec::new();
        for path in self.directories.iter().flat_map(|directory| files.iter().map(move |file| directory.join(file))) {
            match trust::trusted(&path) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(distrust) => distrusted.push(distrust),
            }
        }
        let others = self.programs().into_iter().map(|program| program.name).collect();
        Err(MissingProgram { files, directories: self.directories.to_vec(), distrusted, others })
    }

    /// Returns all programs, sorted by name. One in an earlier directory hides others of its name.
    pub fn programs(&self) -> Vec<NamedProgram> {
        let mut programs = BTreeMap::new();
        let entries = self.directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
        for entry in entries {
            let file = entry.file_name();
            let name = file.to_str().and_then(|file| file.strip_suffix(EXTENSION)).filter(|name| is_name(name));
            if let Some(name) = name
                && !programs.contains_key(name)
                && let Ok(Some(path)) = trust::trusted(&entry.path())
            {
                programs.insert(name.to_owned(), path);
            }
        }
        programs.into_iter().map(|(name, path)| NamedProgram { name, path }).collect()
    }
}

/// End of the name of a file with a program.
const EXTENSION: &str = ".fist";

/// Returns whether a stack expression can name a layer so.
fn is_name(text: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_');
    !text.is_empty() && text.chars().all(is_plain)
}

impl fmt::Display for MissingProgram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [file, other] = &self.files;
        let directories: Vec<String> = self.directories.iter().map(|path| path.display().to_string()).collect();
        write!(formatter, "no FiST program {file} or {other} is in ")?;
        match directories.as_slice() {
            [] => formatter.write_str("any directory, since none is searched"),
            [only] => formatter.write_str(only),
            [first @ .., last] => write!(formatter, "{} or {last}", first.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    /// Creates a directory with these files, which only its owner can write.
    fn directory(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::write(&path, "%%\n").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
        directory
    }

    fn search_path(directories: &[&tempfile::TempDir]) -> SearchPath {
        SearchPath::new(directories.iter().map(|directory| directory.path().to_owned()).collect::<Vec<_>>())
    }

    fn real(directory: &tempfile::TempDir, file: &str) -> PathBuf {
        fs::canonicalize(directory.path().join(file)).unwrap()
    }

    #[test]
    fn a_program_is_found_by_its_name_and_without_the_ending_fs() {
        let (first, second) = (directory(&["onefs.fist"]), directory(&["one.fist", "onefs.fist", "two.fist"]));
        let path = search_path(&[&first, &second]);
        assert_eq!(path.find("onefs"), Ok(real(&first, "onefs.fist")));
        assert_eq!(path.find("one"), Ok(real(&first, "onefs.fist")), "the first directory counts first");
        assert_eq!(path.find("two"), Ok(real(&second, "two.fist")));
        assert_eq!(search_path(&[&second]).find("one"), Ok(real(&second, "one.fist")), "the whole name counts first");
        let names: Vec<String> = path.programs().into_iter().map(|program| program.name).collect();
        assert_eq!(names, ["one", "onefs", "two"]);
        assert_eq!(path.programs()[1].path, real(&first, "onefs.fist"));
    }

    #[test]
    fn a_file_that_others_can_write_is_neither_found_nor_listed() {
        let (open, safe) = (directory(&["a.fist"]), directory(&["a.fist"]));
        fs::set_permissions(open.path().join("a.fist"), Permissions::from_mode(0o666)).unwrap();
        assert_eq!(search_path(&[&open, &safe]).find("a"), Ok(real(&safe, "a.fist")));
        let missing = search_path(&[&open]).find("a").unwrap_err();
        assert_eq!(missing.distrusted.len(), 1);
        assert!(search_path(&[&open]).programs().is_empty());
    }

    #[test]
    fn a_missing_program_is_reported_with_the_directories() {
        let none = SearchPath::new([PathBuf::from("/none"), PathBuf::from("/at/all")]);
        let missing = none.find("x").unwrap_err();
        assert_eq!(missing.to_string(), "no FiST program x.fist or xfs.fist is in /none or /at/all");
        assert!(
            SearchPath::new(Vec::<PathBuf>::new())
                .find("x")
                .unwrap_err()
                .to_string()
                .ends_with("since none is searched")
        );
    }

    #[test]
    fn only_names_that_an_expression_can_have_are_listed() {
        let directory = directory(&[".fist", "a b.fist", "a.fist.test", "x-1_y.fist"]);
        let programs = search_path(&[&directory]).programs();
        assert_eq!(programs.iter().map(|program| program.name.as_str()).collect::<Vec<_>>(), ["x-1_y"]);
    }
}
