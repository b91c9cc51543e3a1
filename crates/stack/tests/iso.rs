//! The base `iso` in stack expressions: recognised, with its options, in partitions, and as a branch.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plyfs_stack::syntax::parse;
use plyfs_stack::{BuildError, build, explain, only_described};
use tempfile::TempDir;
use vnode::{Caller, Creation, Errno, FileSystemRef, Name, OpenFlags, VnodeRef, read_fully};

/// A directory with an image `a.iso` of the files `README.TXT` and `DIR/FILE`.
struct Images {
    directory: TempDir,
}

impl Images {
    fn new(arguments: &[&str]) -> Self {
        let images = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir_all(images.path("source/DIR")).unwrap();
        fs::write(images.path("source/README.TXT"), "read me\n").unwrap();
        fs::write(images.path("source/DIR/FILE"), vec![7; 100_000]).unwrap();
        make(arguments, &images.path("source"), &images.path("a.iso"));
        images
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Builds a stack in which `IMAGES` is the directory.
    fn build(&self, text: &str) -> Result<FileSystemRef, BuildError> {
        build(&parse(&text.replace("IMAGES", self.directory.path().to_str().unwrap())).unwrap())
    }

    fn error(&self, text: &str) -> String {
        let error = self.build(text).err().unwrap_or_else(|| panic!("{text} was built")).to_string();
        error.replace(self.directory.path().to_str().unwrap(), "IMAGES")
    }
}

fn make(arguments: &[&str], source: &Path, image: &Path) {
    let mut command = Command::new("genisoimage");
    let status = command.arg("-quiet").args(arguments).arg("-o").args([image, source]).stderr(Stdio::null()).status();
    assert!(status.expect("genisoimage is installed").success());
}

fn root_user() -> Caller {
    Caller::with_groups(0, 0, &[], 0)
}

fn find(file_system: &FileSystemRef, path: &str) -> Option<VnodeRef> {
    let names = path.split('/').map(|name| Name::new(name.as_bytes()).unwrap());
    let root = file_system.root();
    names.into_iter().try_fold(root, |directory, name| Some(directory.lookup(&root_user(), name).ok()?.vnode))
}

fn read(vnode: &VnodeRef) -> Vec<u8> {
    let mut contents = vec![0; 200_000];
    let file = vnode.open(&root_user(), OpenFlags::READ).unwrap();
    let length = read_fully(&*file, &root_user(), 0, &mut contents).unwrap();
    contents.truncate(length);
    contents
}

#[test]
fn images_are_opened_by_name_and_recognised() {
    let images = Images::new(&["-R"]);
    for text in ["iso:IMAGES/a.iso", "IMAGES/a.iso", "IMAGES/a.iso | readonly", "(iso:IMAGES/a.iso(boot=no))"] {
        let stack = images.build(text).unwrap();
        assert_eq!(stack.describe()[0].kind, "iso");
        assert_eq!(read(&find(&stack, "README.TXT").unwrap()), b"read me\n");
        assert!(stack.properties().needs.read_only);
    }
    // Any number of stacks may read one image.
    let stacks = [images.build("IMAGES/a.iso").unwrap(), images.build("iso:IMAGES/a.iso").unwrap()];
    assert_eq!(stacks[0].root().handle(), stacks[1].root().handle());
    let text = explain(stacks[0].as_ref());
    assert!(text.contains("read-only") && text.contains("handles stay valid over a restart"), "{text}");
}

#[test]
fn options_are_those_of_the_image() {
    let images = Images::new(&[]);
    let owner = |text| images.build(text).unwrap().root().getattr(&root_user()).unwrap();
    assert_eq!(owner("iso:IMAGES/a.iso(uid=7, gid=8, dmode=711)").uid, 7);
    assert_eq!(owner("IMAGES/a.iso(dmode=711)").mode, 0o711);
    let stack = images.build("iso:IMAGES/a.iso(names=raw, memory=8m)").unwrap();
    assert!(find(&stack, "README.TXT;1").is_some() && find(&stack, "readme.txt").is_none());
    assert!(find(&images.build("IMAGES/a.iso").unwrap(), "readme.txt").is_some());
    for (text, message) in [
        ("iso:IMAGES/a.iso(mode=9)", "option `mode` of `iso` cannot be `9`: expected an octal mode up to 7777"),
        ("iso:IMAGES/a.iso(names=upper)", "option `names` of `iso` cannot be `upper`: expected lower, as-is or raw"),
        ("IMAGES/a.iso(rok=no)", "`iso` has no option `rok`; it has partition, uid, gid, mode, dmode, names, "),
        ("iso:IMAGES/a.iso(session=1, start=32)", "options `session` and `start` of `iso` exclude each other"),
        ("iso:IMAGES/a.iso(session=2)", "`IMAGES/a.iso` has no session 2: choose one up to 1"),
        ("iso:IMAGES/a.iso(partition=1)", "cannot use `IMAGES/a.iso`: it has no partition table; leave partition= out"),
        ("iso:IMAGES/a.iso(partition=x)", "option `partition` of `iso` cannot be `x`: expected a number"),
        ("iso:IMAGES/source/DIR/FILE", "`IMAGES/source/DIR/FILE` is no ISO 9660 image: it has no volume descriptor"),
        (
            "IMAGES/source/DIR/FILE",
            "`IMAGES/source/DIR/FILE` is neither a directory, nor a FAT file system, nor an ISO 9660 image; check",
        ),
        ("iso:", "'iso:' needs a path; write iso:PATH"),
    ] {
        let error = images.error(text);
        assert!(error.contains(message), "{text}: {error}");
    }
    assert!(images.build("iso:IMAGES/none.iso").err().unwrap().is_missing());
    assert!(images.build("iso:IMAGES/source").is_err());
}

#[test]
fn an_image_may_be_in_a_partition() {
    let images = Images::new(&["-R"]);
    let image = fs::read(images.path("a.iso")).unwrap();
    let mut disk = vec![0; 1 << 20];
    let entry = 446;
    disk[entry + 4] = 0x83;
    disk[entry + 8..entry + 12].copy_from_slice(&2048_u32.to_le_bytes());
    disk[entry + 12..entry + 16].copy_from_slice(&(image.len() as u32 / 512).to_le_bytes());
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    disk.extend(image);
    fs::write(images.path("disk"), disk).unwrap();
    for text in ["IMAGES/disk", "iso:IMAGES/disk", "IMAGES/disk(partition=1)"] {
        assert!(find(&images.build(text).unwrap(), "DIR/FILE").is_some());
    }
    assert!(images.error("iso:IMAGES/disk(partition=2)").contains("it has no partition 2; it has 1"));
}

#[test]
fn an_image_is_a_branch_of_a_union() {
    let images = Images::new(&["-R"]);
    fs::create_dir(images.path("cow")).unwrap();
    let union = images.build("IMAGES/cow=rw, iso:IMAGES/a.iso=ro | union").unwrap();
    let file = find(&union, "README.TXT").unwrap().open(&root_user(), OpenFlags::READ.with(OpenFlags::WRITE)).unwrap();
    assert_eq!(file.write_at(&root_user(), 0, b"READ"), Ok(4));
    assert_eq!(read(&find(&union, "README.TXT").unwrap()), b"READ me\n");
    assert_eq!(fs::read(images.path("cow/README.TXT")).unwrap(), b"READ me\n");
    let directory = find(&union, "DIR").unwrap();
    directory.unlink(&root_user(), Name::new(b"FILE").unwrap()).unwrap();
    let creation = Creation { mode: 0o644, flags: OpenFlags::WRITE };
    directory.create(&root_user(), Name::new(b"new").unwrap(), &creation).unwrap();
    assert!(find(&union, "DIR/FILE").is_none() && images.path("cow/DIR/new").exists());
    drop((file, directory));
    let image = images.build("IMAGES/a.iso").unwrap();
    assert_eq!(read(&find(&image, "DIR/FILE").unwrap()), vec![7; 100_000]);
    let refused = image.root().create(&root_user(), Name::new(b"new").unwrap(), &creation);
    assert_eq!(refused.err(), Some(Errno::EROFS));
}

#[test]
fn a_description_locks_nothing() {
    let images = Images::new(&["-R"]);
    let path = images.path("a.iso");
    let writer = fs::File::options().write(true).open(&path).unwrap();
    writer.try_lock().unwrap();
    let text = format!("iso:{}", path.display());
    assert!(build(&parse(&text).unwrap()).err().unwrap().is_in_use());
    let described = only_described(|| build(&parse(&text).unwrap()));
    assert_eq!(described.unwrap().describe()[0].kind, "iso");
}
