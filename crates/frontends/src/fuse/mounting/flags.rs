//! The flags of a mount, as named by mount(8): those of mount(2) that the kernel keeps; a remount changes all but one of them.

use rustix::mount::MountFlags as KernelFlags;
use vnode::KeptAccessTimes;

/// The flags of a mount, see mount(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountFlags {
    /// `ro`: the kernel refuses every change.
    pub read_only: bool,
    /// `nosuid`: set-ID bits and capabilities of programs have no effect. Default: on.
    pub no_suid: bool,
    /// `nodev`: device files cannot be opened. Default: on.
    pub no_devices: bool,
    /// `noexec`: programs cannot be run.
    pub no_exec: bool,
    /// `sync`: written data is on stable storage when the call returns, and so is each directory change.
    pub synchronous: bool,
    /// `dirsync`: each directory change is on stable storage when the call returns. A remount does not change it.
    pub synchronous_directories: bool,
    /// When reading updates access times. This refers to the access times of the base, where its own file system updates them:
    /// `noatime` preserves them, the other values are only displayed.
    pub access_times: AccessTimes,
    /// `nodiratime`: reading directories updates no access times.
    pub no_directory_access_times: bool,
    /// `lazytime`: when times reach stable storage; what is said of `access_times` applies here too.
    pub lazy_times: bool,
}

/// When reading updates access times, see mount(8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// `relatime`: once a day, and after a change.
    #[default]
    Relative,
    /// `noatime`: never.
    Never,
    /// `strictatime`: always.
    Strict,
}

impl Default for MountFlags {
    fn default() -> Self {
        MountFlags {
            read_only: false,
            no_suid: true,
            no_devices: true,
            no_exec: false,
            synchronous: false,
            synchronous_directories: false,
            access_times: AccessTimes::Relative,
            no_directory_access_times: false,
            lazy_times: false,
        }
    }
}

impl MountFlags {
    /// Returns the kinds of objects whose access times reading must not update.
    pub(crate) fn kept_access_times(&self) -> KeptAccessTimes {
        let files = self.access_times == AccessTimes::Never;
        KeptAccessTimes { files, directories: files || self.no_directory_access_times }
    }

    /// Returns the flags of mount(2).
    pub(crate) fn to_kernel(self) -> KernelFlags {
        let flags = [
            (self.read_only, KernelFlags::RDONLY),
            (self.no_suid, KernelFlags::NOSUID),
            (self.no_devices, KernelFlags::NODEV),
            (self.no_exec, KernelFlags::NOEXEC),
            (self.synchronous, KernelFlags::SYNCHRONOUS),
            (self.synchronous_directories, KernelFlags::DIRSYNC),
            (self.access_times == AccessTimes::Relative, KernelFlags::RELATIME),
            (self.access_times == AccessTimes::Never, KernelFlags::NOATIME),
            (self.access_times == AccessTimes::Strict, KernelFlags::STRICTATIME),
            (self.no_directory_access_times, KernelFlags::NODIRATIME),
            (self.lazy_times, KernelFlags::LAZYTIME),
        ];
        flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| *flag).collect()
    }

    /// Returns the options of `fusermount3`: it accepts no other option that has an effect, and sets `nosuid` and `nodev` for
    /// every user.
    pub(crate) fn to_helper(self) -> impl Iterator<Item = &'static str> {
        let words = [
            (self.read_only, "ro"),
            (self.no_suid, "nosuid"),
            (self.no_devices, "nodev"),
            (self.no_exec, "noexec"),
            (self.synchronous, "sync"),
            (self.synchronous_directories, "dirsync"),
            (self.access_times == AccessTimes::Never, "noatime"),
        ];
        words.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_is_one_of_the_kernels_and_set_id_bits_and_devices_are_off_by_default() {
        let default = KernelFlags::NOSUID | KernelFlags::NODEV | KernelFlags::RELATIME;
        assert_eq!(MountFlags::default().to_kernel(), default);
        let all = MountFlags {
            read_only: true,
            no_suid: false,
            no_devices: false,
            no_exec: true,
            synchronous: true,
            synchronous_directories: true,
            access_times: AccessTimes::Never,
            no_directory_access_times: true,
            lazy_times: true,
        };
        let expected = KernelFlags::RDONLY
            | KernelFlags::NOEXEC
            | KernelFlags::SYNCHRONOUS
            | KernelFlags::DIRSYNC
            | KernelFlags::NOATIME
            | KernelFlags::NODIRATIME
            | KernelFlags::LAZYTIME;
        assert_eq!(all.to_kernel(), expected);
        assert_eq!(all.to_helper().collect::<Vec<_>>(), ["ro", "noexec", "sync", "dirsync", "noatime"]);
    }
}
