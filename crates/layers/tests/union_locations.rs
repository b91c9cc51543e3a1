//! Where the branches of a union have objects: the command `which`, and the attributes of mergerfs.

mod common;

use common::{memory, name, walk};
use plyfs_layers::{Branch, BranchMode};
use serde_json::{Value, json};
use vnode::{
    Caller, Control, ControlError, Creation, Errno, FileSystemRef, OpenFlags, RenameMode, VnodeRef, XattrMode,
};

use BranchMode::{NoCreate, ReadOnly, ReadWrite};

fn server() -> Caller {
    Caller::server()
}

fn join(options: &[(&str, &str)], branches: &[(&FileSystemRef, BranchMode)]) -> FileSystemRef {
    let options: Vec<_> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let branch = |(index, (file_system, mode)): (usize, &(&FileSystemRef, BranchMode))| Branch {
        file_system: (*file_system).clone(),
        mode: Some(*mode),
        label: format!("/{index}"),
        minimum_free: None,
    };
    let branches = branches.iter().enumerate().map(branch).collect();
    plyfs_layers::kind("union").unwrap().join(&options, branches, None).unwrap_or_else(|error| panic!("{error}"))
}

fn tell(union: &FileSystemRef, command: &str, arguments: &[(&str, &str)]) -> Result<String, ControlError> {
    let arguments = arguments.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    union.control(&Control { target: "union".to_owned(), command: command.to_owned(), arguments })
}

/// Creates a file, with the directories above it, in a branch; a path that ends with a slash is a directory.
fn fill(file_system: &FileSystemRef, path: &str, data: &str) {
    let (above, file) = path.rsplit_once('/').unwrap_or(("", path));
    let mut directory = file_system.root();
    for part in above.split('/').filter(|part| !part.is_empty()) {
        directory = match directory.mkdir(&server(), name(part), 0o755) {
            Ok(entry) => entry.vnode,
            Err(Errno::EEXIST) => directory.lookup(&server(), name(part)).unwrap().vnode,
            Err(error) => panic!("{path}: {error}"),
        };
    }
    if !file.is_empty() {
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        let created = directory.create(&server(), name(file), &how).unwrap();
        created.file.write_at(&server(), 0, data.as_bytes()).unwrap();
    }
}

fn at(file_system: &FileSystemRef, path: &str) -> VnodeRef {
    walk(file_system, &server(), path).unwrap_or_else(|error| panic!("{path}: {error}")).vnode
}

#[test]
fn which_lists_objects_copies_and_whiteouts() {
    let branches = [memory(), memory(), memory()];
    fill(&branches[0], "d/", "");
    branches[1..].iter().for_each(|branch| fill(branch, "d/file", ""));
    fill(&branches[2], "d/gone", "");
    fill(&branches[1], "d/.wh.gone", "");
    let union = join(&[], &[(&branches[0], ReadWrite), (&branches[1], NoCreate), (&branches[2], ReadOnly)]);
    let which = |path: &str| -> (Value, Vec<(String, String, String)>) {
        let answer: Value = serde_json::from_str(&tell(&union, "which", &[("path", path)]).unwrap()).unwrap();
        let text = |object: &Value, key: &str| object[key].as_str().unwrap().to_owned();
        let objects = answer["objects"].as_array().unwrap();
        let objects = objects.iter().map(|object| (text(object, "branch"), text(object, "path"), text(object, "role")));
        (answer["kind"].clone(), objects.collect())
    };
    let line = |branch: &str, path: &str, role: &str| (branch.to_owned(), path.to_owned(), role.to_owned());
    assert_eq!(
        which("d/file"),
        (json!("regular"), vec![line("/1", "d/file", "visible"), line("/2", "d/file", "hidden")])
    );
    assert_eq!(
        which("d/"),
        (json!("directory"), vec![line("/0", "d", "visible"), line("/1", "d", "merged"), line("/2", "d", "merged")])
    );
    assert_eq!(
        which("d/gone"),
        (json!(null), vec![line("/1", "d/.wh.gone", "whiteout"), line("/2", "d/gone", "hidden")])
    );
    assert_eq!(which("").1.len(), 3);
    let error = tell(&union, "which", &[("path", "d/nothing")]).unwrap_err().to_string();
    assert!(error.starts_with("/d/nothing: "), "{error}");
    let root = union.root();
    root.rename(&server(), name("d"), &root, name("moved"), RenameMode::Replace).unwrap();
    let moved = which("moved").1;
    assert_eq!(moved[0], line("/0", "moved", "visible"));
    assert_eq!(moved[1..], [line("/1", "d", "merged"), line("/2", "d", "merged")], "its lower parts keep their names");
}

#[test]
fn attributes_of_mergerfs_report_where_files_are() {
    let branches = [memory(), memory()];
    fill(&branches[0], "a/", "");
    branches.iter().for_each(|branch| fill(branch, "d/file", ""));
    let joined = |options: &[(&str, &str)]| join(options, &[(&branches[0], ReadWrite), (&branches[1], ReadWrite)]);
    let value = |union: &FileSystemRef, attribute: &str| {
        let attribute = format!("user.mergerfs.{attribute}");
        at(union, "d/file").getxattr(&server(), attribute.as_bytes()).map(|value| String::from_utf8(value).unwrap())
    };
    assert_eq!(value(&joined(&[]), "fullpath"), Err(Errno::ENODATA));
    let union = joined(&[("mergerfs-xattrs", "yes")]);
    for (attribute, expected) in
        [("basepath", "/0"), ("relpath", "/d/file"), ("fullpath", "/0/d/file"), ("allpaths", "/0/d/file\0/1/d/file")]
    {
        assert_eq!(value(&union, attribute).as_deref(), Ok(expected), "{attribute}");
    }
    assert_eq!(value(&union, "nothing"), Err(Errno::ENODATA));
    let file = at(&union, "d/file");
    assert_eq!(file.listxattr(&server()), Ok(Vec::new()), "they are not listed");
    assert_eq!(file.setxattr(&server(), b"user.mergerfs.relpath", b"x", XattrMode::Set), Err(Errno::EPERM));
    assert_eq!(file.removexattr(&server(), b"user.mergerfs.relpath"), Err(Errno::EPERM));
}
