//! File systems for upper branches, made new and mounted; and what each kind of them keeps.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags};

use crate::support::{Scratch, is_mounted, run, umount};
use crate::{fat, nfs};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tmpfs,
    Ext4,
    /// The kernel's overlayfs on a tmpfs.
    Overlay,
    /// Another stack, mounted.
    Fuse,
    Fat,
    /// NFS 4.2, of an ext4.
    Nfs,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Tmpfs, Self::Ext4, Self::Overlay, Self::Fuse, Self::Fat, Self::Nfs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ext4 => "ext4",
            Self::Overlay => "overlay",
            Self::Fuse => "fuse",
            Self::Fat => "fat",
            Self::Nfs => "nfs",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or_else(|| panic!("no kind {name:?}"))
    }

    /// Whether each object has an owner, a mode, hard links, and may be a symlink.
    pub(crate) fn is_posix(self) -> bool {
        self != Self::Fat
    }

    /// Whether marks of a superuser's server are kept.
    pub(crate) fn keeps_marks(self) -> bool {
        !matches!(self, Self::Fat | Self::Nfs)
    }

    /// Whether two names can change places, and a name be taken only if it is free, in one step.
    pub(crate) fn has_rename_flags(self) -> bool {
        self != Self::Nfs
    }
}

/// Names are UTF-8, and fold as on other systems; all is root's, to be read by everybody.
const FAT_OPTIONS: &str = "utf8=1,codepage=437,iocharset=iso8859-1,fmask=022,dmask=022";

/// A file system that is mounted until this is dropped.
pub(crate) struct FileSystem {
    /// A directory of it.
    pub path: PathBuf,
    mounts: Vec<PathBuf>,
}

impl FileSystem {
    /// A new one.
    pub(crate) fn new(kind: Kind, scratch: &Scratch) -> Self {
        let made = |name: &str| {
            let path = scratch.path(name);
            fs::create_dir_all(&path).expect("a directory is made");
            path
        };
        let mut made_here = Self { path: made("disk"), mounts: Vec::new() };
        let path = made_here.path.clone();
        match kind {
            Kind::Tmpfs => made_here.mount("tmpfs", &path, "tmpfs", "mode=755"),
            Kind::Ext4 => made_here.mount_image(&ext4_image(scratch, "image"), &path, "ext4", ""),
            Kind::Overlay => {
                let below = made("below");
                made_here.mount("tmpfs", &below, "tmpfs", "mode=755");
                for name in ["lower", "upper", "work"] {
                    made(&format!("below/{name}"));
                }
                let at = below.display();
                let options = format!("lowerdir={at}/lower,upperdir={at}/upper,workdir={at}/work");
                made_here.mount("overlay", &path, "overlay", &options);
            }
            Kind::Fuse => {
                let below = made("below");
                run(["mount", below.to_str().expect("text"), path.to_str().expect("text")]).succeeded();
            }
            Kind::Fat => made_here.mount_image(&fat::image(scratch), &path, "vfat", FAT_OPTIONS),
            Kind::Nfs => {
                let exported = made("exported");
                made_here.mount_image(&ext4_image(scratch, "image"), &exported, "ext4", "");
                nfs::serve(&exported);
                let options = "vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1";
                made_here.mount("127.0.0.1:/", &path, "nfs4", options);
            }
        }
        if kind == Kind::Fuse {
            made_here.mounts.push(path);
        }
        made_here
    }

    fn mount(&mut self, source: &str, at: &Path, kind: &str, options: &str) {
        let options = std::ffi::CString::new(options).expect("options have no zero bytes");
        let mounted = rustix::mount::mount(source, at, kind, MountFlags::empty(), Some(options.as_c_str()));
        mounted.unwrap_or_else(|error| panic!("{kind} cannot be mounted: {error}"));
        self.mounts.push(at.to_owned());
    }

    fn mount_image(&mut self, image: &Path, at: &Path, kind: &str, options: &str) {
        if kind == "vfat" {
            load(&["vfat", "nls_cp437", "nls_iso8859-1"]);
        }
        let options = if options.is_empty() { "loop".to_owned() } else { format!("loop,{options}") };
        command(Command::new("mount").args(["-t", kind, "-o", &options]).arg(image).arg(at));
        self.mounts.push(at.to_owned());
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        for path in self.mounts.drain(..).rev() {
            let is_stack = fs::read_to_string("/proc/self/mountinfo")
                .unwrap_or_default()
                .lines()
                .any(|line| line.split(' ').nth(4) == path.to_str() && line.contains(" fuse"));
            if is_stack && !std::thread::panicking() {
                umount(path.to_str().expect("text"));
            }
            if is_mounted(&path) {
                let _ = rustix::mount::unmount(&path, UnmountFlags::DETACH);
            }
        }
    }
}

/// An ext4 for the branch that is only read, which has extended attributes on every kernel. It is unmounted with the directories.
pub(crate) fn mount_lower(scratch: &Scratch) {
    let path = scratch.path("lower");
    fs::create_dir(&path).expect("a directory is made");
    let image = ext4_image(scratch, "lower image");
    command(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).arg(image).arg(&path));
    fs::remove_dir(path.join("lost+found")).expect("it is empty");
}

/// Has the kernel have these modules; built in, they are there.
pub(crate) fn load(modules: &[&str]) {
    command(Command::new("modprobe").arg("--all").args(modules));
}

/// Runs a command that has to succeed.
pub(crate) fn command(command: &mut Command) {
    let ended = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// An empty file of that many bytes.
pub(crate) fn empty_image(scratch: &Scratch, name: &str, bytes: u64) -> (PathBuf, File) {
    let path = scratch.path(name);
    let file = File::create_new(&path).expect("the image is new");
    file.set_len(bytes).expect("the image has its size");
    (path, file)
}

fn ext4_image(scratch: &Scratch, name: &str) -> PathBuf {
    let (path, _) = empty_image(scratch, name, 64 << 20);
    command(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&path));
    path
}
