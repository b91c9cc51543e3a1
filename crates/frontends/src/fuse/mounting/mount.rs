//! Mounting and unmounting: by mount(2) where the process may, by `fusermount3` where it may not.

use super::error::{MountError, mount_point_error};
use super::flags::MountFlags;
use super::helper::{HELPERS, run_first_installed};
use super::mount_point::{ListedMount, MountPoint, listed_mounts};
use crate::fuse::transport::device::{Device, own_received};
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
use rustix::io::{Errno, FdFlags};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};

/// The file system type that appears in the mount table.
pub const FILE_SYSTEM_TYPE: &str = "fuse.plyfs";
const SUBTYPE: &str = "plyfs";

/// Parameters that are passed to the kernel with the mount itself.
#[derive(Clone, Debug)]
pub(crate) struct MountParameters<'a> {
    pub(crate) mount_point: &'a MountPoint,
    /// The first column of the mount table.
    pub(crate) source: &'a OsStr,
    pub(crate) flags: MountFlags,
    pub(crate) allow_other: bool,
    pub(crate) default_permissions: bool,
    pub(crate) max_read: Option<u32>,
    /// The mount point may itself be a FUSE mount, to be covered.
    pub(crate) cover_fuse: bool,
}

/// Returns the source as the mount table can have it: the beginning of one that is longer than mount(2) takes.
pub(crate) fn listed_source(source: &OsStr) -> Cow<'_, OsStr> {
    const MAX_BYTES: usize = libc::PATH_MAX as usize - 1;
    const BEGINNING_BYTES: usize = 1000;
    match source.as_bytes() {
        bytes if bytes.len() <= MAX_BYTES => Cow::Borrowed(source),
        bytes => Cow::Owned(OsString::from_vec([&bytes[..BEGINNING_BYTES], b"..."].concat())),
    }
}

/// Mounts; returns the connection through which the mount's requests arrive, and the mount as listed by the kernel.
pub(crate) fn mount(parameters: &MountParameters<'_>) -> Result<(Device, ListedMount), MountError> {
    check_mount_point(parameters)?;
    // With their paths: the id of a mount that goes away meanwhile may be reused for the next one.
    let before: Vec<_> = listed_mounts().into_iter().map(|listed| (listed.mount, listed.path)).collect();
    let is_root = rustix::process::geteuid().is_root();
    let device = if is_root { mount_directly(parameters) } else { mount_by_helper(parameters) }?;
    // The directory may have been renamed, earlier or just now.
    for _ in 0..ATTEMPTS {
        let path = std::fs::read_link(parameters.mount_point.proc_path())
            .map_err(|error| MountError::System { what: "finding the mount", error })?;
        let is_it = |listed: &ListedMount| {
            listed.is(FILE_SYSTEM_TYPE) && listed.path == path && !before.contains(&(listed.mount, listed.path.clone()))
        };
        if let Some(listed) = listed_mounts().into_iter().rfind(is_it) {
            return Ok((device, listed));
        }
    }
    Err(MountError::Vanished)
}

/// Maximum number of reads of the mount table for a new mount whose mount point is being renamed.
const ATTEMPTS: usize = 16;

fn check_mount_point(parameters: &MountParameters<'_>) -> Result<(), MountError> {
    let (point, path) = (parameters.mount_point, parameters.mount_point.path());
    let found = statx(point, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
        .map_err(|error| mount_point_error(path, error.into()))?;
    let is_mount = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    let is_ours = |listed: &ListedMount| listed.mount == point.mount() && listed.is(FILE_SYSTEM_TYPE);
    if is_mount && !parameters.cover_fuse && listed_mounts().iter().any(is_ours) {
        return Err(MountError::MountPointBusy(path.into()));
    }
    Ok(())
}

fn mount_directly(parameters: &MountParameters<'_>) -> Result<Device, MountError> {
    let device = Device::open().map_err(|error| match error {
        Errno::NOENT | Errno::NXIO | Errno::NODEV => MountError::NoDevice,
        Errno::ACCESS | Errno::PERM => MountError::DevicePermission,
        error => system("opening the FUSE device", error),
    })?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        device.as_fd().as_raw_fd(),
        user.as_raw(),
        group.as_raw()
    );
    for option in kernel_options(parameters) {
        data.push(',');
        data.push_str(&option);
    }
    let path = parameters.mount_point.path();
    let data = std::ffi::CString::new(data).map_err(|_| MountError::BadPath(path.into()))?;
    let flags = parameters.flags.to_kernel();
    rustix::mount::mount(parameters.source, parameters.mount_point.proc_path(), FILE_SYSTEM_TYPE, flags, &*data)
        .map_err(|error| match error {
            Errno::PERM | Errno::ACCESS => MountError::NotPermitted,
            Errno::NODEV => MountError::NoDevice,
            Errno::BUSY => MountError::MountPointBusy(path.into()),
            error => system("mount(2)", error),
        })?;
    Ok(device)
}

/// Returns the options that mount(2) and the helper spell alike.
fn kernel_options(parameters: &MountParameters<'_>) -> Vec<String> {
    let mut options = Vec::new();
    if parameters.allow_other {
        options.push("allow_other".to_owned());
    }
    if parameters.default_permissions {
        options.push("default_permissions".to_owned());
    }
    if let Some(bytes) = parameters.max_read {
        options.push(format!("max_read={bytes}"));
    }
    options
}

/// Returns the helper's option list: those of the kernel, the mount flags by name, and the source with its commas escaped.
fn helper_options(parameters: &MountParameters<'_>) -> OsString {
    let mut options = kernel_options(parameters);
    options.extend(parameters.flags.to_helper().map(str::to_owned));
    options.push(format!("subtype={SUBTYPE}"));
    let mut list = options.join(",").into_bytes();
    list.extend_from_slice(b",fsname=");
    for &byte in parameters.source.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            list.push(b'\\');
        }
        list.push(byte);
    }
    OsString::from_vec(list)
}

/// Mounts by the helper, which passes the connection back through a socket whose number it finds in its environment. The mount
/// point is passed as the directory in which the helper is started.
fn mount_by_helper(parameters: &MountParameters<'_>) -> Result<Device, MountError> {
    let no_sockets = |error| system("making a socket for fusermount3", error);
    let flags = rustix::net::SocketFlags::empty();
    let (ours, theirs) =
        rustix::net::socketpair(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, flags, None)
            .map_err(no_sockets)?;
    rustix::io::fcntl_setfd(&ours, FdFlags::CLOEXEC).map_err(no_sockets)?;
    let options = helper_options(parameters);
    let start = |helper: &&str| {
        Command::new(helper)
            .arg("-o")
            .arg(&options)
            .args(["--", "."])
            .current_dir(parameters.mount_point.proc_path())
            .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
    };
    let mut child = run_first_installed(start)?;
    drop(theirs);
    let received = receive_descriptor(&ours);
    let mut message = String::new();
    if let Some(errors) = &mut child.stderr {
        // A part of the message that cannot be read is only missing from the error text.
        let _ = errors.read_to_string(&mut message);
    }
    let status = child.wait().map_err(|error| MountError::System { what: "waiting for fusermount3", error })?;
    match received {
        Some(fd) if status.success() => Ok(Device::from_fd(fd)),
        _ => Err(helper_refusal(&message)),
    }
}

/// Converts the helper's message to an error, without the helper's name in front.
fn helper_refusal(message: &str) -> MountError {
    if message.contains("user_allow_other") {
        return MountError::AllowOtherRefused;
    }
    if message.contains("failed to open /dev/fuse") && message.contains("Permission denied") {
        return MountError::DevicePermission;
    }
    if message.contains("failed to open /dev/fuse") || message.contains("fuse device not found") {
        return MountError::NoDevice;
    }
    let lines = message.lines().map(|line| {
        HELPERS.iter().find_map(|helper| line.strip_prefix(helper)?.strip_prefix(": ")).unwrap_or(line).trim()
    });
    let message = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    MountError::Helper(if message.is_empty() { "it gave no reason".into() } else { message })
}

fn receive_descriptor(socket: &OwnedFd) -> Option<OwnedFd> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut slices = [IoSliceMut::new(&mut byte)];
    let received = loop {
        match recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received,
        }
    };
    received.ok()?;
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptors.next().and_then(|fd| own_received(fd.into_raw_fd()))
}

fn system(what: &'static str, error: Errno) -> MountError {
    MountError::System { what, error: error.into() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parameters(mount_point: &MountPoint) -> MountParameters<'_> {
        MountParameters {
            mount_point,
            source: OsStr::new("/a,b | audit"),
            flags: MountFlags { read_only: true, no_devices: false, ..MountFlags::default() },
            allow_other: true,
            default_permissions: true,
            max_read: Some(65_536),
            cover_fuse: false,
        }
    }

    #[test]
    fn the_helper_gets_every_option_and_an_escaped_source() {
        let options = helper_options(&parameters(&MountPoint::open(Path::new("/")).unwrap()));
        assert_eq!(
            options,
            "allow_other,default_permissions,max_read=65536,ro,nosuid,subtype=plyfs,fsname=/a\\,b | audit"
        );
    }

    #[test]
    fn helper_message_is_shown() {
        let shown = helper_refusal("fusermount3: user has no write access to mountpoint /mnt\n").to_string();
        assert_eq!(shown, "fusermount3 refused to mount: user has no write access to mountpoint /mnt");
        let message = "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf\n";
        assert!(matches!(helper_refusal(message), MountError::AllowOtherRefused));
        let message = "fusermount3: failed to open /dev/fuse: Permission denied\n";
        assert!(matches!(helper_refusal(message), MountError::DevicePermission));
        assert!(matches!(helper_refusal(""), MountError::Helper(_)));
    }

    #[test]
    fn invalid_mount_point_is_reported_before_mounting() {
        let wrong = |path: &str| mount_point_error(Path::new(path), MountPoint::open(Path::new(path)).unwrap_err());
        let missing = "/nonexistent/mount point";
        assert!(matches!(wrong(missing), MountError::MountPointMissing(path) if path == Path::new(missing)));
        assert!(matches!(wrong("/etc/passwd"), MountError::MountPointNotDirectory(_)));
        assert!(matches!(wrong("/etc/passwd/x"), MountError::MountPointNotDirectory(_)));
        assert!(matches!(wrong("/etc\0x"), MountError::BadPath(_)));
    }
}
