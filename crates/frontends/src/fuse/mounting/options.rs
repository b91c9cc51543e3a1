//! Options of a mount, and what follows from them and from the stack's properties.

use super::flags::MountFlags;
use crate::fuse::protocol::features::Features;
use crate::fuse::scheduling::sched_idle;
use crate::fuse::transport::device::DEVICE_PATH;
use crate::fuse::transport::uring;
use procfs::is_machine_root;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;
use vnode::{AccessControl, Properties, TimesTell};

/// The reason given for a feature that an option turned off.
pub(crate) const TURNED_OFF: &str = "turned off by an option";

/// Options of a mount. [`MountOptions::default`] suits a regular mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The first column of the mount table: the stack expression.
    pub source: OsString,
    /// The flags of mount(8).
    pub flags: MountFlags,
    /// Users other than the mounting user may access the mount.
    pub allow_other: bool,
    /// The kernel checks permissions by mode and owner. `None`: unless the stack needs to see what would be refused; where the
    /// base checks too, only if others may access the mount and the kernel applies access control lists as well.
    pub default_permissions: Option<bool>,
    /// Maximum size of a read request, in bytes. `None`: 1 MiB.
    pub max_read: Option<u32>,
    /// How far the kernel reads ahead in a file that is read in order, in bytes, rounded up to whole pages of 4 KiB; only root can set it.
    /// `None`: 512 KiB where that is possible, else the kernel's default of 128 KiB.
    pub read_ahead: Option<u32>,
    /// Mounted on the lower directory itself, so that nothing else can reach it: caches do not expire.
    pub over: bool,
    /// How long names are cached. `None`: one second, or without limit if nothing else can change the files.
    pub name_timeout: Option<Duration>,
    /// How long attributes are cached. `None`: as for names.
    pub attribute_timeout: Option<Duration>,
    /// Let the kernel read and write the base's files directly, where the stack allows it.
    pub passthrough: bool,
    /// The kernel caches writes, and writes them back when a file is synced or closed, and at any time in between; it does not
    /// read and write the base's files directly then, and checks permissions. Nobody may change the files in any other way,
    /// access times reflect only reads that follow an open, and a change time may become that of the writeback. Default: off.
    pub write_back: bool,
    /// Locks reach the base. `None`: where the stack shares them with programs outside the mount. Locks that the kernel
    /// manages save one request at each close, by every process that has the file open.
    pub forward_locks: Option<bool>,
    /// How long CPUs are kept from going idle after a request, while a single caller sends many. Zero: never. `None`: never if
    /// workers hand the CPU to callers by SCHED_IDLE, over io_uring and with CAP_SYS_NICE (sched(7)); otherwise about as long
    /// as one request takes.
    pub stay_awake: Option<Duration>,
    /// Use of io_uring, with a queue per CPU, as the transport of requests.
    pub uring: Uring,
    /// Features of the FUSE protocol that are not used even if the kernel has them: for a kernel with a broken feature, and
    /// for tests of the fallbacks. Default: none.
    pub withheld: Features,
}

/// Use of io_uring as the transport of requests (Linux 6.14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uring {
    /// Where the kernel offers it.
    #[default]
    Auto,
    /// It is switched on in the kernel, which only root may do; an error if that is not possible.
    On,
    /// Never.
    Off,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            source: "plyfs".into(),
            flags: MountFlags::default(),
            allow_other: false,
            default_permissions: None,
            max_read: None,
            read_ahead: None,
            over: false,
            name_timeout: None,
            attribute_timeout: None,
            passthrough: true,
            write_back: false,
            forward_locks: None,
            stay_awake: None,
            uring: Uring::Auto,
            withheld: Features::NONE,
        }
    }
}

/// The names that the kernel may cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameCaching {
    /// None: every lookup reaches the stack.
    Never,
    /// Those in directories that everybody may search, since the kernel does not check permissions on cached names.
    SearchableByAll,
    /// All: the kernel checks permissions itself.
    Always,
}

/// Decisions for a mount, for `--explain` and `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions {
    /// Names that are cached.
    pub names: NameCaching,
    /// Names that are cached if it turns out that the kernel does not apply access control lists.
    pub names_without_acls: NameCaching,
    /// Every lookup has to reach the stack.
    pub needs_every_lookup: bool,
    /// How long names are cached.
    pub name_timeout: Duration,
    /// Names that do not exist are cached too.
    pub negative_names: bool,
    /// How long attributes are cached.
    pub attribute_timeout: Duration,
    /// The kernel checks permissions.
    pub default_permissions: bool,
    /// Users other than the mounting user may access the mount.
    pub allows_others: bool,
    /// The kernel is to check permissions whether it applies access control lists or not.
    pub checks_without_acls: bool,
    /// The kernel applies access control lists.
    pub posix_acl: bool,
    /// Nothing else can change the files.
    pub exclusive: bool,
    /// The kernel may read and write the base's files directly; otherwise the reason why not.
    pub passthrough: Result<(), &'static str>,
    /// Written data is on stable storage when a call returns, unless a remount changes that.
    pub synchronous: bool,
    /// Each directory change is on stable storage when a call returns, unless a remount changes that.
    pub synchronous_directories: bool,
    /// The kernel caches writes; otherwise, if that was requested, the reason why not.
    pub write_back: Result<(), Option<&'static str>>,
    /// Attributes, and data with them, may change on their own at any time.
    pub needs_fresh_attributes: bool,
    /// Files whose size and times are unchanged have the same data.
    pub times_tell_changes: TimesTell,
    /// A file that has not been read since it was written has to be read from the stack, which records the access time.
    pub reading_changes_times: bool,
    /// The kernel drops cached data of a file whose size or mtime changed, even while the file is open.
    pub drops_changed_data: bool,
    /// The stack has work to do when a file is closed, in addition to releasing locks.
    pub flushes: bool,
    /// poll(2) reaches the stack; otherwise files count as ready.
    pub polls: bool,
    /// Every read and write has to reach the stack.
    pub needs_every_data_operation: bool,
    /// Opens of one file may refer to different lower files, and share nothing that is cached.
    pub opens_differ: bool,
    /// Byte-range locks reach the base, where programs outside the mount see them; otherwise the kernel manages them.
    pub forward_locks: bool,
    /// Locks of flock(2) reach the base; otherwise the kernel manages them.
    pub forward_flocks: bool,
    /// How long CPUs are kept from going idle after a request, while a single caller sends many.
    pub stay_awake: Duration,
    /// Requests arrive through io_uring; otherwise the reason why not.
    pub uring: Result<(), &'static str>,
    /// Features of the FUSE protocol that are not used even if the kernel has them.
    pub withheld: Features,
}

/// A timeout longer than the life of any mount.
pub(crate) const UNLIMITED_TIMEOUT: Duration = Duration::from_secs(1 << 32);
pub(crate) const REGULAR_TIMEOUT: Duration = Duration::from_secs(1);
/// Time from the reply to a single caller until its next request: what most callers do in between takes less.
const DEFAULT_STAY_AWAKE: Duration = Duration::from_micros(200);

/// Decides by a stack's properties and the options, as if the kernel had every feature: [`explain`](crate::fuse::explain) queries
/// the running kernel, and [`Mount::decisions`](crate::fuse::Mount::decisions) returns what was negotiated with it.
pub fn decide(properties: &Properties, options: &MountOptions) -> Decisions {
    let exclusive = properties.promises.exclusive || options.over;
    let uring = match options.uring {
        Uring::Off => Err(TURNED_OFF),
        Uring::Auto => uring::offered(),
        Uring::On => Ok(()),
    };
    let yields = uring.is_ok() && sched_idle::is_possible();
    let timeout = if exclusive { UNLIMITED_TIMEOUT } else { REGULAR_TIMEOUT };
    let name_timeout = options.name_timeout.unwrap_or(timeout);
    let attribute_timeout = options.attribute_timeout.unwrap_or(timeout);
    // A kernel that caches times does not report who caused their change.
    let base_checks = properties.promises.checks_credentials && !options.write_back;
    let checks_without_acls = options.default_permissions.unwrap_or(!base_checks);
    // Access that the base would grant by an access control list must not be refused by the mode alone.
    let checks_with_lists = options.default_permissions.is_none()
        && options.allow_other
        && properties.promises.access_control.may_be_checked_above();
    let default_permissions = checks_without_acls || checks_with_lists;
    let names = name_caching(properties, default_permissions);
    let forward_locks = options.forward_locks.unwrap_or(!exclusive && properties.promises.shares_locks);
    let attribute_timeout = if properties.needs.fresh_attributes { Duration::ZERO } else { attribute_timeout };
    Decisions {
        names,
        names_without_acls: name_caching(properties, checks_without_acls),
        needs_every_lookup: properties.needs.every_lookup,
        name_timeout: if names == NameCaching::Never { Duration::ZERO } else { name_timeout },
        negative_names: names != NameCaching::Never && !properties.needs.failed_lookups,
        attribute_timeout,
        default_permissions,
        allows_others: options.allow_other,
        checks_without_acls,
        posix_acl: default_permissions && options.allow_other,
        exclusive,
        passthrough: passthrough(properties, options),
        synchronous: options.flags.synchronous,
        synchronous_directories: options.flags.synchronous || options.flags.synchronous_directories,
        write_back: write_back(properties, options),
        needs_fresh_attributes: properties.needs.fresh_attributes,
        times_tell_changes: match properties.promises.attributes_untouched && !properties.needs.fresh_attributes {
            true => properties.promises.times_tell_changes,
            false => TimesTell::OfNone,
        },
        // If attributes are never cached, that is because something changes on its own.
        drops_changed_data: !exclusive || attribute_timeout.is_zero(),
        needs_every_data_operation: properties.needs.every_data_operation,
        opens_differ: !properties.promises.opens_share_data,
        reading_changes_times: properties.needs.access_times,
        forward_locks,
        forward_flocks: forward_locks,
        flushes: properties.needs.every_close,
        polls: properties.needs.every_poll,
        stay_awake: options.stay_awake.unwrap_or(if yields { Duration::ZERO } else { DEFAULT_STAY_AWAKE }),
        uring,
        withheld: options.withheld,
    }
}

/// Returns the names that may be cached, depending on whether the kernel checks permissions.
fn name_caching(properties: &Properties, kernel_checks: bool) -> NameCaching {
    match properties.promises.access_control {
        _ if properties.needs.every_lookup => NameCaching::Never,
        AccessControl::NotShown => NameCaching::Never,
        AccessControl::AsShown if kernel_checks => NameCaching::Always,
        // A kernel check that an option enables does not replace the stack's own check, if it has one.
        AccessControl::OpenAsShown if kernel_checks && !properties.promises.checks_credentials => NameCaching::Always,
        AccessControl::AsShown | AccessControl::OpenAsShown => NameCaching::SearchableByAll,
    }
}

fn passthrough(properties: &Properties, options: &MountOptions) -> Result<(), &'static str> {
    if !options.passthrough {
        Err(TURNED_OFF)
    } else if !properties.promises.data_untouched {
        Err("the stack changes data")
    } else if properties.needs.every_data_operation {
        Err(STACK_SEES_ALL_DATA)
    } else if !properties.promises.has_backing_files {
        Err("the base has no files of the kernel's")
    } else if options.write_back {
        Err("the kernel keeps writes instead, by an option")
    } else if !is_machine_root() {
        Err("it needs root")
    } else {
        Ok(())
    }
}

const STACK_SEES_ALL_DATA: &str = "the stack must see every read and write";

/// Decides on the writeback cache: the kernel then trusts its own sizes and times, so that nobody else may change them.
fn write_back(properties: &Properties, options: &MountOptions) -> Result<(), Option<&'static str>> {
    if !options.write_back {
        Err(None)
    } else if properties.needs.every_data_operation {
        Err(Some(STACK_SEES_ALL_DATA))
    } else if properties.promises.times_tell_changes != TimesTell::OfAll || properties.needs.fresh_attributes {
        Err(Some("the stack changes files by itself"))
    } else {
        Ok(())
    }
}

impl Decisions {
    /// Drops access control lists, which the kernel does not apply: it checks permissions only if it was to do so without
    /// them.
    pub(crate) fn drop_acls(&mut self) {
        self.posix_acl = false;
        self.default_permissions = self.checks_without_acls;
        self.names = self.names_without_acls;
        if self.names == NameCaching::Never {
            (self.name_timeout, self.negative_names) = (Duration::ZERO, false);
        }
    }

    /// Returns whether the mount lets in others for whom the kernel checks nothing: what the kernel does without asking has to
    /// be refused beforehand.
    pub(crate) fn guards_others(&self) -> bool {
        self.allows_others && !self.default_permissions
    }

    /// Returns whether reads and writes are not cached, so that each reaches the stack.
    pub fn direct_io(&self) -> bool {
        self.needs_every_data_operation || (self.opens_differ && self.passthrough.is_err())
    }

    /// Returns whether closing a file has to reach the stack.
    pub fn needs_flush(&self) -> bool {
        self.forward_locks || self.flushes
    }

    /// Returns how requests arrive from the kernel, and why.
    pub fn transport(&self) -> String {
        match self.uring {
            Ok(()) => "io_uring, with a queue for each processor".to_owned(),
            Err(reason) => format!("{DEVICE_PATH}; io_uring: {reason}"),
        }
    }
}

impl fmt::Display for Decisions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = match self.names {
            NameCaching::Never => "never",
            NameCaching::SearchableByAll => "in directories that everybody may search",
            NameCaching::Always => "always",
        };
        let negative = if self.negative_names { "cached too" } else { "never cached" };
        let checked = if self.default_permissions { "the kernel, by mode and owner" } else { "the stack" };
        let acl = if self.posix_acl { " and access control list" } else { "" };
        let data = match (self.passthrough, self.direct_io()) {
            (Ok(()), _) if self.synchronous => {
                "by the kernel itself (passthrough), where the base has files that are not open for writing".to_owned()
            }
            (Ok(()), _) => "by the kernel itself (passthrough), where the base has files".to_owned(),
            (Err(reason), true) => format!("by the stack, uncached: {reason}"),
            (Err(reason), false) => format!("by the stack, through the page cache: {reason}"),
        };
        let kept = match (self.exclusive, self.times_tell_changes) {
            (true, _) => "as long as memory allows",
            (_, TimesTell::OfNone) => "from an open to the last close",
            _ if self.drops_changed_data => "while a file's times stay as they are",
            _ => "until an open finds other times",
        };
        let written = if self.write_back.is_ok() { "later, at close at the latest" } else { "at once" };
        let locks = match (self.forward_locks, self.forward_flocks) {
            (true, true) => "kept by the base",
            (false, false) => "kept by the kernel",
            (true, false) => "of byte ranges kept by the base, of whole files (flock) by the kernel",
            (false, true) => "of byte ranges kept by the kernel, of whole files (flock) by the base",
        };
        writeln!(formatter, "names cached: {names}, for {}", timeout_text(self.name_timeout))?;
        writeln!(formatter, "names that do not exist: {negative}")?;
        writeln!(formatter, "attributes cached: for {}", timeout_text(self.attribute_timeout))?;
        writeln!(formatter, "permissions checked by: {checked}{acl}")?;
        writeln!(formatter, "data read and written: {data}")?;
        if self.passthrough.is_err() && !self.direct_io() {
            writeln!(formatter, "data cached: {kept}; written: {written}")?;
        }
        match (self.synchronous, self.synchronous_directories) {
            (true, _) => {
                writeln!(formatter, "stored before a call returns: what is written, and changes of directories")?
            }
            (false, true) => writeln!(formatter, "stored before a call returns: changes of directories")?,
            (false, false) => {}
        }
        writeln!(formatter, "locks: {locks}")?;
        writeln!(formatter, "requests come: through {}", self.transport())?;
        if self.uring.is_ok() && sched_idle::is_possible() {
            writeln!(formatter, "processors left to callers: as soon as they have their replies")?;
        }
        match self.stay_awake {
            Duration::ZERO => formatter.write_str("processors kept awake: no")?,
            time => write!(
                formatter,
                "processors kept awake: for {} µs after each of one caller's many requests",
                time.as_micros()
            )?,
        }
        match self.withheld {
            Features::NONE => Ok(()),
            withheld => write!(formatter, "\nfeatures of the kernel left unused: {withheld}"),
        }
    }
}

fn timeout_text(timeout: Duration) -> String {
    match timeout {
        Duration::ZERO => "no time".into(),
        _ if timeout >= UNLIMITED_TIMEOUT => "as long as memory allows".into(),
        _ => format!("{} s", timeout.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vnode::{Needs, Promises};

    const REGULAR: Properties =
        Properties { promises: Promises { exclusive: false, ..Promises::TRANSPARENT }, ..Properties::TRANSPARENT };

    #[test]
    fn times_reveal_changes_unless_the_stack_hides_them() {
        let reveals = |properties: &Properties| decide(properties, &MountOptions::default()).times_tell_changes;
        let every = [TimesTell::OfNone, TimesTell::OfSome, TimesTell::OfAll];
        for times_tell_changes in every {
            assert_eq!(
                reveals(&Properties { promises: Promises { times_tell_changes, ..REGULAR.promises }, ..REGULAR }),
                times_tell_changes
            );
            let with = |other: TimesTell| times_tell_changes.stacked_on(other);
            assert_eq!(every.map(with), every.map(|other| other.min(times_tell_changes)));
        }
        assert_eq!(
            reveals(&Properties { promises: Promises { data_untouched: false, ..REGULAR.promises }, ..REGULAR }),
            TimesTell::OfAll
        );
        assert_eq!(
            reveals(&Properties { promises: Promises { attributes_untouched: false, ..REGULAR.promises }, ..REGULAR }),
            TimesTell::OfNone
        );
        assert_eq!(
            reveals(&Properties { needs: Needs { fresh_attributes: true, ..REGULAR.needs }, ..REGULAR }),
            TimesTell::OfNone
        );
    }

    #[test]
    fn regular_mount_caches_searchable_directories_for_a_second() {
        let decisions = decide(&REGULAR, &MountOptions::default());
        assert_eq!(decisions.names, NameCaching::SearchableByAll);
        assert_eq!((decisions.name_timeout, decisions.attribute_timeout), (REGULAR_TIMEOUT, REGULAR_TIMEOUT));
        assert!(decisions.negative_names && decisions.forward_locks);
        assert!(!decisions.default_permissions && !decisions.posix_acl);
    }

    #[test]
    fn kernel_checks_for_others_unless_the_stack_must_see_refusals() {
        let others = MountOptions { allow_other: true, ..MountOptions::default() };
        let mut decisions = decide(&REGULAR, &others);
        assert!(decisions.default_permissions && decisions.posix_acl && !decisions.checks_without_acls);
        assert_eq!(decisions.names, NameCaching::Always);
        decisions.drop_acls();
        assert!(!decisions.default_permissions && !decisions.posix_acl);
        assert_eq!(decisions.names, NameCaching::SearchableByAll);
        let reporting = Properties {
            promises: Promises { access_control: AccessControl::OpenAsShown, ..REGULAR.promises },
            ..REGULAR
        };
        let decisions = decide(&reporting, &others);
        assert!(!decisions.default_permissions);
        assert_eq!(decisions.names, NameCaching::SearchableByAll);
        let unshown = Properties {
            promises: Promises { access_control: AccessControl::NotShown, ..REGULAR.promises },
            ..REGULAR
        };
        let decisions = decide(&unshown, &others);
        assert!(!decisions.default_permissions && decisions.guards_others());
        assert_eq!(
            (decisions.names, decisions.name_timeout, decisions.negative_names),
            (NameCaching::Never, Duration::ZERO, false)
        );
        let requested = MountOptions { default_permissions: Some(true), ..others };
        assert!(decide(&reporting, &requested).checks_without_acls);
        let names = |properties: &Properties| decide(properties, &requested).names;
        assert_eq!(names(&REGULAR), NameCaching::Always);
        assert_eq!(names(&reporting), NameCaching::SearchableByAll);
        assert_eq!(
            names(&Properties { promises: Promises { checks_credentials: false, ..reporting.promises }, ..reporting }),
            NameCaching::Always
        );
        assert_eq!(names(&unshown), NameCaching::Never);
    }

    #[test]
    fn mapped_attributes_allow_name_caching() {
        let mapped = Properties { promises: Promises { attributes_untouched: false, ..REGULAR.promises }, ..REGULAR };
        assert_eq!(decide(&mapped, &MountOptions::default()).names, NameCaching::SearchableByAll);
        let mut decisions = decide(&mapped, &MountOptions { allow_other: true, ..MountOptions::default() });
        assert_eq!(decisions.names, NameCaching::Always);
        decisions.drop_acls();
        assert_eq!(decisions.names, NameCaching::SearchableByAll);
    }

    #[test]
    fn exclusive_access_makes_timeouts_unlimited() {
        let over = MountOptions { over: true, ..MountOptions::default() };
        for decisions in [decide(&REGULAR, &over), decide(&Properties::TRANSPARENT, &MountOptions::default())] {
            assert_eq!((decisions.name_timeout, decisions.attribute_timeout), (UNLIMITED_TIMEOUT, UNLIMITED_TIMEOUT));
            assert!(decisions.exclusive && !decisions.forward_locks);
        }
    }

    #[test]
    fn shared_locks_are_forwarded_to_the_base() {
        let exclusive_locks = Properties { promises: Promises { shares_locks: false, ..REGULAR.promises }, ..REGULAR };
        assert!(!decide(&exclusive_locks, &MountOptions::default()).forward_locks);
        let wanted = MountOptions { forward_locks: Some(true), ..MountOptions::default() };
        assert!(decide(&exclusive_locks, &wanted).forward_locks);
    }

    #[test]
    fn given_timeouts_apply_where_caching_is_allowed() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let given = MountOptions { name_timeout: seconds(5), attribute_timeout: seconds(7), ..MountOptions::default() };
        let decisions = decide(&REGULAR, &given);
        assert_eq!((Some(decisions.name_timeout), Some(decisions.attribute_timeout)), (seconds(5), seconds(7)));
        let observing =
            Properties { needs: Needs { every_lookup: true, fresh_attributes: true, ..REGULAR.needs }, ..REGULAR };
        let decisions = decide(&observing, &given);
        assert_eq!((decisions.name_timeout, decisions.attribute_timeout), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn required_visibility_disables_caching() {
        let observing =
            Properties { needs: Needs { every_lookup: true, fresh_attributes: true, ..REGULAR.needs }, ..REGULAR };
        let decisions = decide(&observing, &MountOptions::default());
        assert_eq!(decisions.names, NameCaching::Never);
        assert_eq!((decisions.name_timeout, decisions.attribute_timeout), (Duration::ZERO, Duration::ZERO));
        assert!(!decisions.negative_names);
        let failed = Properties { needs: Needs { failed_lookups: true, ..REGULAR.needs }, ..REGULAR };
        let decisions = decide(&failed, &MountOptions::default());
        assert!(!decisions.negative_names);
        assert_eq!(decisions.names, NameCaching::SearchableByAll);
        let data = Properties { needs: Needs { every_data_operation: true, ..REGULAR.needs }, ..REGULAR };
        let decisions = decide(&data, &MountOptions::default());
        assert!(decisions.direct_io() && decisions.passthrough.is_err());
    }

    #[test]
    fn kernel_checks_permissions_for_a_base_that_does_not() {
        let unprivileged =
            Properties { promises: Promises { checks_credentials: false, ..REGULAR.promises }, ..REGULAR };
        let exclusive_locks = decide(&unprivileged, &MountOptions::default());
        assert!(exclusive_locks.default_permissions && !exclusive_locks.posix_acl);
        assert_eq!(exclusive_locks.names, NameCaching::Always);
        let others = MountOptions { allow_other: true, ..MountOptions::default() };
        assert!(decide(&unprivileged, &others).posix_acl);
    }

    #[test]
    fn explanations_name_the_reason() {
        let encrypted = Properties { promises: Promises { data_untouched: false, ..REGULAR.promises }, ..REGULAR };
        let text = decide(&encrypted, &MountOptions::default()).to_string();
        assert!(text.contains("by the stack, through the page cache: the stack changes data\n"), "{text}");
        assert!(text.contains("data cached: while a file's times stay as they are; written: at once\n"), "{text}");
        let back = MountOptions { write_back: true, over: true, ..MountOptions::default() };
        let text = decide(&REGULAR, &back).to_string();
        assert!(text.contains("the kernel keeps writes instead, by an option\n"), "{text}");
        assert!(
            text.contains("data cached: as long as memory allows; written: later, at close at the latest\n"),
            "{text}"
        );
        assert!(text.contains("checked by: the kernel"), "{text}");
    }

    #[test]
    fn explanation_lists_synchronous_writes() {
        let explained = |flags| decide(&REGULAR, &MountOptions { flags, ..MountOptions::default() }).to_string();
        let stored = |flags| explained(flags).lines().find(|line| line.starts_with("stored ")).map(str::to_owned);
        assert_eq!(stored(MountFlags::default()), None);
        let directories = MountFlags { synchronous_directories: true, ..MountFlags::default() };
        assert_eq!(stored(directories).unwrap(), "stored before a call returns: changes of directories");
        let all = MountFlags { synchronous: true, ..MountFlags::default() };
        let expected = "stored before a call returns: what is written, and changes of directories";
        assert_eq!(stored(all).unwrap(), expected);
    }

    #[test]
    fn writeback_cache_requires_stable_files_and_no_observing_layer() {
        let back = MountOptions { write_back: true, ..MountOptions::default() };
        let kept = |properties: &Properties| decide(properties, &back).write_back;
        assert!(kept(&REGULAR).is_ok() && decide(&REGULAR, &MountOptions::default()).write_back == Err(None));
        assert!(matches!(
            kept(&Properties { needs: Needs { every_data_operation: true, ..REGULAR.needs }, ..REGULAR }),
            Err(Some(_))
        ));
        for times_tell_changes in [TimesTell::OfSome, TimesTell::OfNone] {
            assert!(matches!(
                kept(&Properties { promises: Promises { times_tell_changes, ..REGULAR.promises }, ..REGULAR }),
                Err(Some(_))
            ));
        }
        assert!(matches!(
            kept(&Properties { needs: Needs { fresh_attributes: true, ..REGULAR.needs }, ..REGULAR }),
            Err(Some(_))
        ));
    }

    #[test]
    fn base_without_backing_files_has_no_passthrough() {
        let memory = Properties { promises: Promises { has_backing_files: false, ..REGULAR.promises }, ..REGULAR };
        assert!(decide(&memory, &MountOptions::default()).passthrough.is_err());
    }
}
