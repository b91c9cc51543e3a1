//! `plyfs mount` and its equivalent for mount(8): from the command line to a serving mount.

mod job;
mod remount;
mod server;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use stack::command::MountTranslator;

use crate::arguments::{Helper, Mount};
use crate::commands::overlay::{self, OverlayArguments, OverlayMount};
use crate::daemon::{self, ForkSide};
use crate::exit::{Exit, Failure, Outcome};
use crate::expression::Expression;
use crate::front_end::{MountPlan, MountPoint};
use crate::logging::{self, Destination};
use crate::mount_table;
use crate::options::{self, MountOptions};
use job::{MountJob, check_not_mounted};
use remount::Remount;

/// The message of the parser for a mount without options.
const NO_MOUNT_POINT: &str =
    "the following required arguments were not provided: <MOUNTPOINT>; for the usage, add --help";

/// The message for a mount over its own base that is also an overlay by its options.
const NO_OVERLAY_OVER: &str = "lowerdir names the directories of the base, and over another one; leave one of them out";

/// Runs the command.
pub(crate) fn run(arguments: &Mount) -> Outcome {
    let text = arguments.options.join(",");
    let overlay = overlay::read_if_described(text.as_bytes())?;
    let mut options = options::parse(overlay.as_ref().map_or(&text, |overlay| &overlay.mount_options), false)?;
    if options.remount {
        return run_remount(arguments);
    }
    add_arguments(&mut options, arguments)?;
    if !arguments.foreground {
        daemon::close_inherited();
    }
    options.check_privileged_options()?;
    let log_level = log_level(&options, arguments.trace)?;
    let mut mount_point = arguments.over.as_deref().or(arguments.mount_point.as_deref());
    if overlay.is_some() && mount_point.is_some() && arguments.over.is_none() {
        check_placeholder(&arguments.stack)?;
    }
    if overlay.is_some() && !arguments.explain {
        mount_point = mount_point.or(Some(Path::new(&arguments.stack)));
    }
    let no_mount_point = || Failure::new(Exit::Usage, NO_MOUNT_POINT);
    let over = options.over.then(|| mount_point.ok_or_else(no_mount_point)).transpose()?;
    let expression = read_stack(&arguments.stack, overlay, over)?;
    let Some(mount_point) = mount_point else {
        if !arguments.explain {
            return Err(no_mount_point());
        }
        let plan = MountPlan { options, ..MountPlan::default() };
        let file_system = expression.build_for_description()?;
        return super::print(&super::explain::text(&expression, file_system.as_ref(), &plan));
    };
    let point =
        open_mount_point(mount_point).map_err(|failure| swapped(&arguments.stack, mount_point).unwrap_or(failure))?;
    let plan = MountPlan {
        mount_point: point.path().to_owned(),
        source: options.source_name.clone().unwrap_or_else(|| expression.canonical_form()).into(),
        over: options.over,
        options,
    };
    let hides = !plan.over && is_in_use(&point);
    let (foreground, explain) = (arguments.foreground, arguments.explain);
    // Before the mount, which may cover branches.
    let warnings = expression.warnings();
    start_server(&MountJob { expression, plan, log_level, foreground, explain, hides, warnings }, point)
}

/// Adds the arguments that are mount options as well, which take precedence.
fn add_arguments(options: &mut MountOptions, arguments: &Mount) -> Outcome {
    options.uring = arguments.uring.or(options.uring);
    options.over |= arguments.over.is_some();
    if let Some(path) = &arguments.log_file {
        options.log_file = Some(options::log_file_path(path)?);
    }
    if let Some(level) = &arguments.log_level {
        options.log_level = Some(level.clone());
    }
    Ok(())
}

/// Returns the log level of a server.
fn log_level(options: &MountOptions, is_traced: bool) -> Outcome<String> {
    let level = options.log_level.as_deref().unwrap_or(logging::DEFAULT_LEVEL);
    logging::check(level)?;
    Ok(if is_traced { logging::with_trace(level) } else { level.to_owned() })
}

/// Returns the stack of a mount: the union that its options describe, one over the directory `over`, or the stack as it is written.
fn read_stack(stack: &OsStr, overlay: Option<OverlayMount>, over: Option<&Path>) -> Outcome<Expression> {
    match (over, overlay) {
        (Some(_), Some(_)) => Err(Failure::new(Exit::Usage, NO_OVERLAY_OVER)),
        (Some(directory), None) => Expression::read_over(directory, stack),
        (None, Some(overlay)) => Ok(overlay.expression),
        (None, None) => Expression::read(stack),
    }
}

/// Checks that what is in the place of the stack, where options describe it, is only a word, such as `overlay`.
fn check_placeholder(stack: &OsStr) -> Outcome {
    if !stack.as_bytes().iter().any(|byte| b"|/".contains(byte)) {
        return Ok(());
    }
    let stack = stack.display();
    let message = format!("lowerdir describes a stack, and '{stack}' is another one; leave one of them out");
    Err(Failure::new(Exit::Usage, message))
}

/// Implements the helper of mount(8).
pub(crate) fn run_helper(arguments: &Helper) -> Outcome {
    if let Some(kind) = arguments.kind.as_deref().filter(|kind| !matches!(*kind, "plyfs" | "fuse.plyfs")) {
        return Err(Failure::new(Exit::Usage, format!("unknown file system type '{kind}'; use -t plyfs")));
    }
    // As written: mount(8) recognises by it that a line of /etc/fstab is already mounted.
    mount_as_helper(arguments, &arguments.stack)
}

/// Implements the helper of mount(8) for another file system, whose source and options are translated.
pub(crate) fn run_translated_helper(arguments: &Helper, translator: &MountTranslator) -> Outcome {
    let name = translator.name;
    let is_known = |kind: &str| kind.strip_prefix("fuse.").unwrap_or(kind) == name;
    if let Some(kind) = arguments.kind.as_deref().filter(|kind| !is_known(kind)) {
        return Err(Failure::new(Exit::Usage, format!("unknown file system type '{kind}'; use -t {name}")));
    }
    let source = arguments.stack.to_str().ok_or_else(|| {
        let message = format!("'{}' is not valid UTF-8; write the stack with plyfs mount", arguments.stack.display());
        Failure::new(Exit::Usage, message)
    })?;
    let words = options::words(&arguments.options.join(","));
    let translated = (translator.translate)(source, &words).map_err(|problems| {
        let remedy = "leave these out, or write the stack with plyfs mount";
        Failure::new(Exit::Usage, format!("cannot mount {source} as {name} does: {problems}; {remedy}"))
    })?;
    translated.notes.iter().for_each(|note| super::notify(note));
    let translated = Helper {
        stack: translated.stack.into(),
        mount_point: arguments.mount_point.clone(),
        sloppy: arguments.sloppy,
        fake: arguments.fake,
        no_mtab: arguments.no_mtab,
        verbose: arguments.verbose,
        options: vec![translated.options.join(",")],
        kind: None,
        foreground: arguments.foreground,
    };
    mount_as_helper(&translated, &arguments.stack)
}

/// Mounts for mount(8), which shows `source` in the mount table if the options name no other.
fn mount_as_helper(arguments: &Helper, source: &OsStr) -> Outcome {
    let text = arguments.options.join(",");
    let overlay = overlay::read_if_described(text.as_bytes())?;
    let options = options::parse(overlay.as_ref().map_or(&text, |overlay| &overlay.mount_options), arguments.sloppy)?;
    if options.remount {
        return match &overlay {
            Some(overlay) => remount_helper(arguments, &overlay.mount_options, None),
            None => remount_helper(arguments, &text, Some(&arguments.stack)),
        };
    }
    if !arguments.foreground {
        daemon::close_inherited();
    }
    options.check_privileged_options()?;
    if overlay.is_some() {
        check_placeholder(source)?;
    }
    let log_level = log_level(&options, false)?;
    let over = options.over.then_some(arguments.mount_point.as_path());
    let expression = read_stack(&arguments.stack, overlay, over)?;
    let point = open_mount_point(&arguments.mount_point)?;
    let plan = MountPlan {
        mount_point: point.path().to_owned(),
        source: options.source_name.clone().map_or_else(|| source.to_owned(), OsString::from),
        over: options.over,
        options,
    };
    let message = format!("plyfs: {} mounted on {}\n", expression.canonical_form(), plan.mount_point.display());
    if !arguments.fake {
        let (hides, warnings) = (!plan.over && is_in_use(&point), expression.warnings());
        let (foreground, explain) = (arguments.foreground, false);
        let job = MountJob { expression, plan, log_level, foreground, explain, hides, warnings };
        start_server(&job, point)?;
    }
    if arguments.verbose { super::print(&message) } else { Ok(()) }
}

/// Implements `plyfs-overlayfs`.
pub(crate) fn run_overlay(arguments: &OverlayArguments) -> Outcome {
    let given = arguments.options.iter().map(|list| list.as_bytes());
    let list = std::iter::once(overlay::default_options().as_bytes()).chain(given).collect::<Vec<_>>().join(&b","[..]);
    let OverlayMount { expression, mount_options } = overlay::read(&list)?;
    let options = options::parse(&mount_options, false)?;
    let foreground = arguments.foreground || arguments.debug;
    if !foreground {
        daemon::close_inherited();
    }
    options.check_privileged_options()?;
    if options.over {
        return Err(Failure::new(Exit::Usage, NO_OVERLAY_OVER));
    }
    let log_level = log_level(&options, arguments.debug)?;
    let point = open_mount_point(&arguments.mount_point)?;
    let plan = MountPlan {
        mount_point: point.path().to_owned(),
        source: options.source_name.clone().unwrap_or_else(|| "plyfs-overlayfs".to_owned()).into(),
        options,
        over: false,
    };
    let (explain, hides, warnings) = (false, false, expression.warnings());
    start_server(&MountJob { expression, plan, log_level, foreground, explain, hides, warnings }, point)
}

/// Implements `plyfs mount -o remount,OPTIONS [STACK] MOUNTPOINT`.
fn run_remount(arguments: &Mount) -> Outcome {
    let has_other_options = arguments.over.is_some()
        || arguments.foreground
        || arguments.explain
        || arguments.trace
        || arguments.log_file.is_some()
        || arguments.log_level.is_some()
        || arguments.uring.is_some();
    if has_other_options {
        let message = "a remount changes only mount options; \
            write plyfs mount -o remount,OPTIONS MOUNTPOINT";
        return Err(Failure::new(Exit::Usage, message));
    }
    let (stack, mount_point) = match &arguments.mount_point {
        Some(mount_point) => (Some(arguments.stack.as_os_str()), mount_point.as_path()),
        None => (None, Path::new(&arguments.stack)),
    };
    let (point, entry) = super::own_plyfs_mount(mount_point, "remount")?;
    let options = arguments.options.join(",");
    Remount { point, entry, stack, options: &options, is_complete: false, sloppy: false }.run()
}

/// Implements the helper of mount(8) for `mount -o remount`.
fn remount_helper(arguments: &Helper, options: &str, stack: Option<&OsStr>) -> Outcome {
    let mount_point = arguments.mount_point.as_path();
    let message = format!("plyfs: {} remounted\n", mount_table::canonical(mount_point).display());
    if !arguments.fake {
        let (point, entry) = super::own_plyfs_mount(mount_point, "remount")?;
        let sloppy = arguments.sloppy;
        // The source in the mount table may be any word, where options describe the stack.
        let stack = stack.filter(|stack| *stack != OsStr::new(&entry.source));
        Remount { point, entry, stack, options, is_complete: true, sloppy }.run()?;
    }
    if arguments.verbose { super::print(&message) } else { Ok(()) }
}

/// Serves in this process, or leaves a server in the background.
fn start_server(job: &MountJob, point: MountPoint) -> Outcome {
    if job.foreground {
        logging::start(&job.log_level, &destination(job, Destination::StandardError))?;
        let server = server::start(job, point)?;
        warn(job);
        return server.run();
    }
    match daemon::fork_server()? {
        ForkSide::Parent(outcome) => outcome.inspect(|()| warn(job)),
        ForkSide::Server(reporter) => {
            if job.plan.options.log_file.is_none() {
                stack::standard_error::declare_discarded();
            }
            let started = logging::start(&job.log_level, &destination(job, Destination::Syslog))
                .and_then(|()| server::start(job, point));
            match started {
                Ok(server) => {
                    reporter.report_usable(job.plan.options.log_file.as_deref());
                    server.run()
                }
                Err(failure) => {
                    reporter.report_failure(&failure);
                    Err(Failure::silent(failure.exit))
                }
            }
        }
    }
}

fn destination(job: &MountJob, otherwise: Destination) -> Destination {
    job.plan.options.log_file.clone().map_or(otherwise, Destination::File)
}

/// Opens the directory to be mounted on, once: the mount is made there even if its path changes.
fn open_mount_point(path: &Path) -> Outcome<MountPoint> {
    let name = path.display();
    let point = MountPoint::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let create = format!("mkdir {}", super::shell_word(path));
            Failure::new(Exit::MountPoint, format!("the mount point {name} does not exist; to create it: {create}"))
        }
        io::ErrorKind::NotADirectory => not_a_directory(path),
        io::ErrorKind::NotConnected => Failure::new(
            Exit::Mounted,
            format!(
                "the server of the mount on {name} has died; unmount it first: plyfs umount {}",
                super::shell_word(path)
            ),
        ),
        io::ErrorKind::PermissionDenied => Failure::new(
            Exit::Permission,
            format!("no permission to access the mount point {name}; choose a directory that you own"),
        ),
        _ => Failure::new(Exit::MountPoint, format!("cannot use the mount point {name}: {error}; choose another one")),
    })?;
    check_not_mounted(point.path())?;
    Ok(point)
}

/// Returns the failure of a command line with a directory in the place of the stack, and a stack in that of the mount point.
fn swapped(stack: &OsStr, mount_point: &Path) -> Option<Failure> {
    let is_swapped = Path::new(stack).is_dir() && !mount_point.exists() && Expression::is_more_than_a_path(mount_point);
    is_swapped.then(|| {
        let (stack, mount_point) = (super::shell_word(mount_point), super::shell_word(stack));
        let message = format!("the stack comes before the mount point; write plyfs mount {stack} {mount_point}");
        Failure::new(Exit::Usage, message)
    })
}

/// Returns whether the directory has entries.
fn is_in_use(directory: &MountPoint) -> bool {
    fs::read_dir(directory.proc_path()).is_ok_and(|mut entries| entries.next().is_some())
}

/// Warns of what the mount hides, once it does, and of branches that are not what they seem.
fn warn(job: &MountJob) {
    job.warnings.iter().for_each(|warning| super::notify(&format_args!("warning: {warning}")));
    if job.hides {
        let mount_point = job.plan.mount_point.display();
        super::notify(&format_args!("warning: {mount_point} is not empty; the mount hides its contents"));
    }
}

fn not_a_directory(path: &Path) -> Failure {
    Failure::new(Exit::MountPoint, format!("the mount point {} is not a directory; choose a directory", path.display()))
}
