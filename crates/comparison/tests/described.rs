//! The descriptions themselves, each through a real mount: what the others are compared with.

mod behaviour;
mod hostile;

use std::any::Any;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use behaviour::{Mounting, TestDirectories, can_mount};
use frontends::fuse::{Mount, MountOptions};
use layers::described::Prepared;
use vnode::FileSystemRef;

/// A directory as a file system.
fn directory(path: PathBuf) -> FileSystemRef {
    Arc::new(bases::dir::DirectoryFileSystem::open(&path, bases::dir::Options::default()).expect("it is opened"))
}

/// Mounts a description for all users, with an option if one is given.
fn mounted(directories: &TestDirectories, sample: &str, option: &[(&str, &str)]) -> Box<dyn Any> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fist").join(sample).with_extension("fist");
    let Ok(loaded) = fist::load::load(&path) else { panic!("there is no {sample}") };
    let program = loaded.ir.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    let pairs: Vec<_> = option.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let branches = if program.levels[0].fan_out > 1 {
        vec![directories.first(), directories.second()]
    } else {
        vec![directories.base()]
    };
    let prepared = Prepared::new(program, &loaded.text, &path, &pairs).expect("the option is one");
    let file_system = layers::described::stack(vec![prepared], branches.into_iter().map(directory).collect());
    let options = MountOptions { allow_other: true, ..MountOptions::default() };
    Box::new(Mount::new(file_system, &directories.mount(), &options).expect("it is mounted"))
}

/// Tests a description.
fn test(behaviour: fn(Mounting<'_>), sample: &str, option: &[(&str, &str)]) {
    if can_mount() {
        behaviour(&|directories| mounted(directories, sample, option));
    }
}

#[test]
fn snoopfs() {
    if can_mount() {
        behaviour::snoopfs(&|directories| {
            // What it prints goes to the server's log.
            let log = Arc::new(File::create(directories.log()).expect("the log is opened"));
            let subscriber = tracing_subscriber::fmt().with_writer(log).with_ansi(false).finish();
            tracing::subscriber::set_global_default(subscriber).expect("it is the first");
            mounted(directories, "snoopfs", &[("errno", "EACCES:EPERM")])
        });
    }
}

#[test]
fn quotafs() {
    test(behaviour::quotafs, "quotafs", &[("limit", "10000")]);
}

#[test]
fn versionfs() {
    test(behaviour::versionfs, "versionfs", &[("versions", "2")]);
}

#[test]
fn aclfs() {
    test(behaviour::aclfs, "aclfs", &[("errno", "EACCES:EPERM")]);
}

macro_rules! without_options {
    ($($sample:ident)*) => {
        $(
            #[test]
            fn $sample() {
                test(behaviour::$sample, stringify!($sample), &[]);
            }
        )*
    };
}

without_options! {
    cryptfs hidefs keepfs lb2fs rot13fs sealfs trashfs unionfs usenetfs uuencodefs zstdfs
}
