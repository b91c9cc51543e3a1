//! `plyfs union which`: where the branches of mounted unions have files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde::Deserialize;

use super::client::{parse_answer, query};
use crate::command::{CommandHost, Exit, Failure, Outcome};
use crate::printable::printable;

/// Arguments of the command.
#[derive(Args, Debug)]
pub(crate) struct WhichArguments {
    /// Files and directories of mounted unions; also names that were deleted
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the branches have of a file.
#[derive(Deserialize)]
struct LocatedFile {
    kind: Option<String>,
    objects: Vec<LocatedObject>,
}

#[derive(Deserialize)]
struct LocatedObject {
    branch: String,
    path: String,
    role: String,
}

/// Prints where each file is.
pub(crate) fn run(arguments: &WhichArguments, host: &dyn CommandHost) -> Outcome {
    let mut list = Vec::new();
    for file in &arguments.files {
        let (mount_point, path) = mount_of(file)?;
        let answer = query(host, &mount_point, "which", &[("path", &path)])?;
        if arguments.json {
            let mut entry: serde_json::Value = parse_answer(&answer)?;
            entry["file"] = file.to_string_lossy().into();
            list.push(entry);
        } else {
            host.print(&format_located(file, &parse_answer(&answer)?))?;
        }
    }
    if arguments.json { host.print(&format!("{}\n", serde_json::Value::Array(list))) } else { Ok(()) }
}

/// Returns the mount point of the file system that has a file, and the path of the file there.
pub(crate) fn mount_of(file: &Path) -> Outcome<(PathBuf, String)> {
    let unreadable = |error| {
        let message = format!("cannot find {}: {error}; give the path of a file in a mounted union", file.display());
        Failure::new(Exit::Usage, message)
    };
    // The last component may be a symlink, or deleted.
    let path = match (file.parent(), file.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            parent.canonicalize().map_err(unreadable)?.join(name)
        }
        _ => file.canonicalize().map_err(unreadable)?,
    };
    let device = |path: &Path| fs::symlink_metadata(path).map(|metadata| metadata.dev());
    let start = if device(&path).is_ok() { &*path } else { path.parent().unwrap_or(&path) };
    let own = device(start).map_err(unreadable)?;
    let mount_point = start.ancestors().take_while(|above| device(above).is_ok_and(|device| device == own)).last();
    let mount_point = mount_point.unwrap_or(start);
    let inside = path.strip_prefix(mount_point).unwrap_or(Path::new(""));
    let Some(text) = inside.to_str() else {
        let message = format!("the path {} is not valid UTF-8; give the directory above it", path.display());
        return Err(Failure::new(Exit::Usage, message));
    };
    Ok((mount_point.to_owned(), text.to_owned()))
}

/// Returns a line for a file, and one for each of its objects.
fn format_located(file: &Path, LocatedFile { kind, objects }: &LocatedFile) -> String {
    let kind = kind.as_deref().unwrap_or("deleted");
    let line = |LocatedObject { branch, path, role }: &LocatedObject| {
        format!("  {role:<8}  {}  {}\n", printable(branch), printable(if path.is_empty() { "." } else { path }))
    };
    let lines: String = objects.iter().map(line).collect();
    format!("{} ({kind})\n{lines}", printable(&file.to_string_lossy()))
}
