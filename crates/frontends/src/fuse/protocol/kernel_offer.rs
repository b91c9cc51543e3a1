//! The features that the running kernel offers to a FUSE mount, queried without mounting anything: INIT is read, and never
//! answered.

use super::agreement::{apply_negotiated, requested_features, unmet_requirement};
use super::negotiation::{NegotiationResult, negotiate};
use super::request::{Operation, RequestLayout, decode};
use super::wire::{self, init};
use crate::fuse::mounting::error::MountError;
use crate::fuse::mounting::options::{Decisions, MountOptions, Uring, decide};
use crate::fuse::transport::device::DEVICE_PATH;
use crate::fuse::transport::uring;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, fsconfig_create, fsconfig_set_string, fsopen};
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use vnode::Properties;

/// The decisions for a mount on the running kernel.
#[derive(Debug)]
pub struct Explanation {
    /// The decisions.
    pub decisions: Decisions,
    /// The error of a mount with these options, if it is certain to fail.
    pub error: Option<MountError>,
    /// How the features of the kernel were determined; `None` if nothing depends on them.
    pub source: Option<OfferSource>,
}

/// How the features of the running kernel were determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferSource {
    /// The kernel has offered them.
    Kernel,
    /// Derived from the kernel version, since the kernel could not be queried.
    Version {
        /// The version, as uname(2) reports it.
        release: String,
        /// The step that failed.
        step: &'static str,
        /// The error of that step.
        error: Errno,
    },
}

/// Decides by a stack's properties, the options and the features of the running kernel. Mounts nothing.
pub fn explain(properties: &Properties, options: &MountOptions) -> Explanation {
    // First: this loads the module, and the decisions read its switch for io_uring.
    let queried = query_offer();
    let mut decisions = decide(properties, options);
    if options.uring == Uring::On {
        decisions.uring = uring::can_be_switched_on();
    }
    let depends_on_kernel = decisions.passthrough.is_ok() || decisions.uring.is_ok() || decisions.write_back.is_ok();
    let (mut offer, source) = match queried {
        Ok(offer) => (offer, OfferSource::Kernel),
        Err((step, error)) => {
            let release = rustix::system::uname().release().to_string_lossy().into_owned();
            (offer_of_release(&release), OfferSource::Version { release, step, error })
        }
    };
    if options.uring == Uring::On && decisions.uring.is_ok() {
        // The mount turns it on before the kernel makes its offer.
        offer.flags2 |= (init::OVER_IO_URING >> 32) as u32;
    }
    let error = apply_offer(&mut decisions, &offer, options);
    Explanation { decisions, error, source: depends_on_kernel.then_some(source) }
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = &self.error {
            writeln!(formatter, "mounting fails: {error}")?;
        }
        write!(formatter, "{}", self.decisions)?;
        if let Some(OfferSource::Version { release, step, error }) = &self.source {
            write!(
                formatter,
                "\nfeatures of the kernel: by its version, {release}; it could not be asked ({step}: {error})"
            )?;
        }
        Ok(())
    }
}

/// Corrects the decisions by an offer; returns the mount's error, if it fails.
fn apply_offer(decisions: &mut Decisions, offer: &wire::InitIn, options: &MountOptions) -> Option<MountError> {
    // A kernel with a later major version falls back to ours on request.
    let offer = wire::InitIn { major: offer.major.min(wire::MAJOR_VERSION), ..*offer };
    match negotiate(&offer, &requested_features(decisions), rustix::param::page_size() as u32) {
        NegotiationResult::Agreed(_, negotiated) => apply_negotiated(decisions, &negotiated),
        NegotiationResult::TooOld { major, minor } => return Some(MountError::KernelTooOld { major, minor }),
        NegotiationResult::Retry(_) => {}
    }
    unmet_requirement(decisions, options)
}

/// Makes the kernel send its offer to a file system that is attached nowhere. The error names the step that failed.
fn query_offer() -> Result<wire::InitIn, (&'static str, Errno)> {
    // Closed last, after the device: by then the connection has ended, and nothing waits for a reply.
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC).map_err(|error| ("fsopen(2)", error))?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let device = rustix::fs::open(DEVICE_PATH, flags, Mode::empty()).map_err(|error| ("opening /dev/fuse", error))?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let parameters = [
        ("fd", device.as_raw_fd().to_string()),
        ("rootmode", "40000".to_owned()),
        ("user_id", user.as_raw().to_string()),
        ("group_id", group.as_raw().to_string()),
    ];
    for (key, value) in parameters {
        fsconfig_set_string(&context, key, value).map_err(|error| ("fsconfig(2)", error))?;
    }
    fsconfig_create(&context).map_err(|error| ("fsconfig(2)", error))?;
    read_offer(&device).map_err(|error| ("reading the offer from /dev/fuse", error))
}

/// Reads INIT, which is available as soon as the file system exists.
fn read_offer(device: &OwnedFd) -> Result<wire::InitIn, Errno> {
    const OFFER_TIMEOUT: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
    let mut descriptors = [PollFd::new(device, PollFlags::IN)];
    if poll(&mut descriptors, Some(&OFFER_TIMEOUT))? == 0 {
        return Err(Errno::TIMEDOUT);
    }
    let mut message = [0; wire::READ_BUFFER_MIN];
    let length = rustix::io::read(device, &mut message)?;
    let request = decode(&message[..length], RequestLayout::default()).map_err(|_| Errno::PROTO)?;
    match request.operation {
        Operation::Init(offer) => Ok(offer),
        _ => Err(Errno::PROTO),
    }
}

/// Returns what a kernel of this version is assumed to offer: everything but later features. io_uring has a separate switch,
/// which the decisions check.
fn offer_of_release(release: &str) -> wire::InitIn {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).map_while(|part| part.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let since = |first: (u32, u32), feature: u64| if version >= first { 0 } else { feature };
    let features = !(since((6, 9), init::PASSTHROUGH) | since((6, 14), init::OVER_IO_URING));
    wire::InitIn {
        major: wire::MAJOR_VERSION,
        minor: wire::MINOR_VERSION,
        max_readahead: 0,
        flags: features as u32,
        flags2: (features >> 32) as u32,
        unused: [0; 11],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::protocol::features::Features;
    use vnode::{Needs, Promises};

    const REGULAR: Properties =
        Properties { promises: Promises { exclusive: false, ..Promises::TRANSPARENT }, ..Properties::TRANSPARENT };

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    fn after(release: &str, options: &MountOptions) -> (Decisions, Option<MountError>) {
        let mut decisions = decide(&REGULAR, options);
        let error = apply_offer(&mut decisions, &offer_of_release(release), options);
        (decisions, error)
    }

    #[test]
    fn running_kernel_can_be_queried_repeatedly() {
        if !is_root() || !std::path::Path::new(DEVICE_PATH).exists() {
            eprintln!("skipped: asking the kernel needs root and {DEVICE_PATH}");
            return;
        }
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let connections = || std::fs::read_dir("/sys/fs/fuse/connections").map_or(0, Iterator::count);
        let offer = query_offer().unwrap();
        assert!(offer.major == 7 && offer.minor >= wire::MINOR_VERSION_MIN, "{offer:?}");
        assert_ne!(offer.flags & init::ASYNC_READ as u32, 0, "{offer:?}");
        let before = (descriptors(), connections());
        for _ in 0..200 {
            query_offer().unwrap();
        }
        // Other tests open files and mount meanwhile, but far fewer.
        let now = (descriptors(), connections());
        assert!(now.0 < before.0 + 100 && now.1 < before.1 + 100, "{before:?} {now:?}");
        let explanation = explain(&REGULAR, &MountOptions::default());
        assert!(matches!(explanation.source, None | Some(OfferSource::Kernel)), "{explanation:?}");
        let offers = offer.flags2 & (init::PASSTHROUGH >> 32) as u32 != 0;
        assert_eq!(explanation.decisions.passthrough.is_ok(), offers);
    }

    #[test]
    fn version_implies_its_features() {
        let passthrough = |release: &str| after(release, &MountOptions::default()).0.passthrough.is_ok();
        assert!(!passthrough("6.1.0-13-amd64") && !passthrough("6.8.12") && !passthrough("unknown"));
        if is_root() {
            assert!(passthrough("6.9.0") && passthrough("6.18.44-fc-v657") && passthrough("7.0-rc1"));
        }
        let uring = MountOptions { uring: Uring::On, ..MountOptions::default() };
        assert!(matches!(after("6.13.2", &uring), (_, Some(MountError::NoUring(_)))));
        assert!(matches!(after("6.14.0", &uring), (_, None)));
    }

    #[test]
    fn failing_mount_is_explained_with_its_error() {
        let seen = Properties { needs: Needs { every_data_operation: true, ..REGULAR.needs }, ..REGULAR };
        let options = MountOptions { write_back: true, ..MountOptions::default() };
        let text = explain(&seen, &options).to_string();
        assert!(text.starts_with("mounting fails: the kernel cannot keep writes: "), "{text}");
        let options = MountOptions { uring: Uring::On, withheld: withheld("over-io-uring"), ..options };
        let (_, error) = after("6.18.0", &options);
        assert!(matches!(error, Some(MountError::NoUring(_))), "{error:?}");
        let mut decisions = decide(&REGULAR, &MountOptions::default());
        let old = wire::InitIn { minor: 30, ..offer_of_release("5.3") };
        let error = apply_offer(&mut decisions, &old, &MountOptions::default());
        assert!(matches!(error, Some(MountError::KernelTooOld { major: 7, minor: 30 })), "{error:?}");
    }

    #[test]
    fn explanation_says_when_features_come_from_the_version() {
        let source = OfferSource::Version { release: "6.1.0".into(), step: "fsopen(2)", error: Errno::PERM };
        let decisions = after("6.1.0", &MountOptions::default()).0;
        let text = Explanation { decisions, error: None, source: Some(source) }.to_string();
        let expected = "\nfeatures of the kernel: by its version, 6.1.0; it could not be asked (fsopen(2): ";
        assert!(text.contains(expected), "{text}");
    }

    fn withheld(names: &str) -> Features {
        names.parse().unwrap()
    }
}
