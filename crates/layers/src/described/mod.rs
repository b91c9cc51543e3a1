//! The layer of FiST modules: what they declare and what their rules do, on the layer template.
//!
//! Operations without rules cost no more than the template does, and data without a filter bypass the layer.

mod act;
mod arguments;
mod collapse;
mod duties;
mod fan;
mod filters;
mod host;
mod intern;
mod levels;
mod listing;
mod loaded;
mod options;
mod outcome;
mod reload;
mod trace;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

use arc_swap::ArcSwap;

use ::fist::budget::Lease;
use ::fist::ir;
use vnode::layer::{self, Block, DataShape, Layer, LayerDirectory, LayerFile, LayerVnode, Operation};
use vnode::{
    AccessMode, AllocateMode, Attributes, Caller, Control, ControlError, Created, Creation, Description, Device,
    DirectoryEntry, Entry, FileKind, FileSystemRef, KeyedGuard, KeyedLocks, Lock, LockOwner, Name, Notifier,
    OpenDirectoryRef, OpenFileRef, OpenFlags, Properties, RenameMode, Result, SeekTarget, SetAttributes, StatFs,
    VnodeRef, XattrMode,
};

use crate::OptionError;
use act::Forward;
use duties::{Duties, Duty};
use levels::Levels;
use loaded::Loaded;
use outcome::Outcome;

/// A checked FiST program with its options.
pub struct Prepared(Loaded);

impl Prepared {
    /// Loads a checked FiST program with the options that the stack expression gives it. Messages refer to it by its
    /// path.
    ///
    /// # Errors
    /// Fails if the program does not declare an option, or if an option has an invalid value.
    pub fn new(
        program: ir::Program,
        text: &str,
        path: &Path,
        pairs: &[(String, String)],
    ) -> std::result::Result<Prepared, OptionError> {
        Loaded::new(program, text, path, pairs).map(Prepared)
    }

    /// Describes what keeps the module from collapsing with a module below it; `None` if they can be one layer.
    pub fn barrier(&self, lower: &Prepared) -> Option<String> {
        collapse::barrier(&self.0, &lower.0)
    }
}

/// Stacks FiST modules on as many file systems as the lowest module, the first, declares. Modules on top of each other
/// are collapsed into one layer where the result is the same.
pub fn stack(lowest_first: Vec<Prepared>, mut branches: Vec<FileSystemRef>) -> FileSystemRef {
    let mut below: Vec<_> = branches.iter().map(kind_of).collect();
    let mut lower = if branches.len() == 1 { branches.remove(0) } else { fan::join(branches) };
    let mut levels: Vec<Loaded> = Vec::new();
    for Prepared(mut loaded) in lowest_first {
        if levels.iter().any(|level| collapse::barrier(&loaded, level).is_some()) {
            lower = layer::stack(Described::new(std::mem::take(&mut levels)), lower);
        }
        let kind = loaded.kind.to_owned();
        loaded.level = levels.len();
        loaded.below = std::mem::replace(&mut below, vec![kind]);
        loaded.has_lasting_handles = lower.properties().persistent_handles;
        levels.insert(0, loaded);
    }
    layer::stack(Described::new(levels), lower)
}

/// Returns the name of a lower file system: the kind of its topmost member.
fn kind_of(lower: &FileSystemRef) -> String {
    lower.describe().last().map(|member| member.kind.clone()).unwrap_or_default()
}

/// The layer of one or more collapsed FiST modules.
pub struct Described {
    /// Current members; a command replaces one by another.
    levels: ArcSwap<Levels>,
    /// The hook mask: for other operations the members need not be consulted.
    duties: Duties,
    /// Whether objects keep state; this cannot change.
    keeps_state: bool,
    notifier: OnceLock<Arc<dyn Notifier>>,
    /// Lock held by an operation where operations are performed one at a time.
    serial: KeyedLocks<()>,
    /// Thread that holds the lock.
    serial_thread: Mutex<Option<ThreadId>>,
}

/// Guard of the current operation where operations are performed one at a time.
struct Serial<'a> {
    thread: &'a Mutex<Option<ThreadId>>,
    _lock: KeyedGuard<'a, ()>,
}

impl Drop for Serial<'_> {
    fn drop(&mut self) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// State of each object in use, allocated separately when there is any, since most FiST modules keep none.
#[derive(Default)]
pub struct State(OnceLock<Box<Kept>>);

/// State kept for an object.
#[derive(Default)]
struct Kept {
    /// The `%per_vnode` fields for each member; empty until they are first used.
    fields: Mutex<Vec<Fields>>,
    /// Lookup location of the object.
    place: Mutex<Place>,
}

/// The `%per_vnode` fields of an object.
#[derive(Default)]
struct Fields {
    /// Number of the layout of the fields.
    layout: u64,
    bytes: Vec<u8>,
    /// Lease of the memory that the fields take from the mount's budget.
    _lease: Lease,
}

/// Lookup location of an object.
#[derive(Default)]
struct Place {
    name: Vec<u8>,
    /// Lower directory.
    directory: Option<VnodeRef>,
}

impl State {
    fn kept(&self) -> &Kept {
        self.0.get_or_init(Box::default)
    }

    fn set_place(&self, name: Name<'_>, directory: &VnodeRef) {
        let mut place = self.kept().place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.name != name.as_bytes() {
            place.name = name.as_bytes().to_vec();
        }
        place.directory = Some(VnodeRef::clone(directory));
    }
}

/// Performs an operation as its rules say or, without rules, as the template does: with the arguments that rules have
/// left it.
macro_rules! ruled {
    ($layer:ident, $node:expr, $caller:ident, $operation:expr, |$target:ident, $as:ident, $given:ident| $forward:expr) => {{
        let operation = $operation;
        if $layer.duties.concern(&operation) {
            $layer.ruled(($node, $caller), &operation, &Outcome::nothing, &mut |$target, $as, $given| $forward)
        } else {
            let ($target, $as, $given) = ($node, $caller, &operation);
            $forward
        }
    }};
    ($layer:ident, $node:expr, $caller:ident, $operation:expr, |$target:ident, $as:ident| $forward:expr) => {
        ruled!($layer, $node, $caller, $operation, |$target, $as, _given| $forward)
    };
}

impl Described {
    fn new(loaded: Vec<Loaded>) -> Described {
        let levels = Levels::new(loaded.into_iter().map(Arc::new).collect());
        let (keeps_state, duties) = (levels.keeps_state, Duties::new(levels.duties()));
        Described {
            levels: ArcSwap::from_pointee(levels),
            duties,
            keeps_state,
            notifier: OnceLock::new(),
            serial: KeyedLocks::default(),
            serial_thread: Mutex::default(),
        }
    }

    /// Excludes other operations with rules while one runs, where a module requests this. Operations that follow from
    /// that one in its thread belong to it, such as the release of a file that was opened to change the size.
    ///
    /// # Errors
    /// Returns `EINTR` if the caller is killed while it waits.
    fn one_at_a_time(&self, levels: &Levels, caller: &Caller) -> Result<Option<Serial<'_>>> {
        if !levels.is_serial {
            return Ok(None);
        }
        let own = Some(std::thread::current().id());
        let holder = || self.serial_thread.lock().unwrap_or_else(PoisonError::into_inner);
        if *holder() == own {
            return Ok(None);
        }
        let lock = self.serial.write_unless(caller.cancellation(), ())?;
        *holder() = own;
        Ok(Some(Serial { thread: &self.serial_thread, _lock: lock }))
    }

    /// Performs an operation that has rules or is logged; returns `nothing` where a rule reports success without
    /// performing it.
    fn ruled<T: Outcome>(
        &self,
        (node, caller): (&LayerVnode<Self>, &Caller),
        operation: &Operation<'_>,
        nothing: &dyn Fn() -> Option<T>,
        forward: Forward<'_, T>,
    ) -> Result<T> {
        let levels = self.levels.load();
        let answer = match self.duties.have_rules(operation) {
            true => self
                .one_at_a_time(&levels, caller)
                .and_then(|_one| levels.act(0, (node, caller), operation, nothing, forward)),
            false => forward(node, caller, operation),
        };
        self.log(&levels, (node, caller), operation, &answer);
        answer
    }

    /// Logs an operation, if a module logs operations.
    fn log<T: Outcome>(
        &self,
        levels: &Levels,
        of: (&LayerVnode<Self>, &Caller),
        operation: &Operation<'_>,
        answer: &Result<T>,
    ) {
        if self.duties.have(Duty::Traces)
            && let Some(level) = levels.tracing()
        {
            trace::log(level.kind, of, operation, || answer.as_ref().map(Outcome::told).map_err(|error| *error));
        }
    }

    /// Records the lookup location of the resulting object, if rules query it.
    fn named<T: Outcome>(&self, node: &LayerVnode<Self>, name: Name<'_>, answer: Result<T>) -> Result<T> {
        if self.duties.have(Duty::Places)
            && let Ok(answer) = &answer
            && let Some(entry) = answer.entry()
            && let Some(found) = entry.vnode.as_any().downcast_ref::<LayerVnode<Self>>()
        {
            found.state().set_place(name, node.lower());
        }
        answer
    }
}

impl Layer for Described {
    type State = State;

    fn keeps_state(&self) -> bool {
        self.keeps_state
    }

    fn kind(&self) -> &'static str {
        self.levels.load().kind
    }

    fn describe(&self) -> Vec<Description> {
        self.levels.load().describe()
    }

    fn answers_to(&self, target: &str) -> bool {
        self.levels.load().at_kind(target).is_some()
    }

    fn properties(&self) -> Properties {
        self.levels.load().properties
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        match command.command.as_str() {
            "reload" => self.reload(&command.target, &command.arguments),
            "ioctls" => Ok(self.levels.load().at_kind(&command.target).map(|level| level.ioctls()).unwrap_or_default()),
            _ => {
                let (target, command) = (command.target.clone(), command.command.clone());
                Err(ControlError::UnknownCommand { target, command })
            }
        }
    }

    fn set_notifier(&self, notifier: &Arc<dyn Notifier>) {
        // This method is called once.
        let _ = self.notifier.set(Arc::clone(notifier));
    }

    fn admit(&self, node: &LayerVnode<Self>, caller: &Caller, operation: &Operation<'_>) -> Result<()> {
        if !self.duties.have(Duty::Admission) {
            return Ok(());
        }
        let levels = self.levels.load();
        let admitted = levels.admit(operation);
        if admitted.is_err() {
            self.log(&levels, (node, caller), operation, &admitted);
        }
        admitted
    }

    fn encode_name<'a>(&self, directory: &LayerVnode<Self>, caller: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        if !self.duties.have(Duty::Names) {
            return Ok(Cow::Borrowed(name.as_bytes()));
        }
        self.levels.load().encode_name(directory, caller, name)
    }

    fn decode_name<'a>(&self, directory: &LayerVnode<Self>, name: Name<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        if !self.duties.have(Duty::Names) {
            return Ok(Some(Cow::Borrowed(name.as_bytes())));
        }
        Ok(self.levels.load().decode_name(directory, name))
    }

    fn data_shape(&self) -> Option<DataShape> {
        if self.duties.have(Duty::Data) { self.levels.load().data_shape() } else { None }
    }

    fn marks_last_block(&self) -> bool {
        self.duties.have(Duty::Data) && self.levels.load().marks_last()
    }

    fn encode_data(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        block: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        self.levels.load().encode_data((node, caller), block, plain, encoded)
    }

    fn decode_data(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        block: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        self.levels.load().decode_data((node, caller), block, encoded, plain)
    }

    fn getattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Attributes> {
        ruled!(self, node, caller, Operation::GetAttributes, |node, caller| node.forward_getattr(caller))
    }

    fn setattr(&self, node: &LayerVnode<Self>, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        ruled!(self, node, caller, Operation::SetAttributes(changes), |node, caller, given| node
            .forward_setattr(caller, arguments::changes(given, changes)))
    }

    fn access(&self, node: &LayerVnode<Self>, caller: &Caller, mode: AccessMode) -> Result<()> {
        ruled!(self, node, caller, Operation::Access(mode), |node, caller| node.forward_access(caller, mode))
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let entry = ruled!(self, node, caller, Operation::Lookup(name), |node, caller, given| node
            .forward_lookup(caller, arguments::name(given, name)));
        self.named(node, name, entry)
    }

    fn parent(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<VnodeRef> {
        ruled!(self, node, caller, Operation::Parent, |node, caller| node.forward_parent(caller))
    }

    fn create(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let made = ruled!(self, node, caller, Operation::Create { name, how }, |node, caller, given| node
            .forward_create(caller, arguments::name(given, name), arguments::how(given, how)));
        self.named(node, name, made)
    }

    fn mkdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let made = ruled!(self, node, caller, Operation::MakeDirectory { name, mode }, |node, caller, given| node
            .forward_mkdir(caller, arguments::name(given, name), arguments::made_mode(given, mode)));
        self.named(node, name, made)
    }

    fn mknod(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        let made = ruled!(self, node, caller, Operation::MakeNode { name, kind, mode }, |node, caller, given| node
            .forward_mknod(caller, arguments::name(given, name), kind, arguments::made_mode(given, mode), device));
        self.named(node, name, made)
    }

    fn symlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let made = ruled!(self, node, caller, Operation::MakeSymlink { name, target }, |node, caller, given| node
            .forward_symlink(caller, arguments::name(given, name), arguments::target(given, target)));
        self.named(node, name, made)
    }

    fn link(&self, node: &LayerVnode<Self>, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let made = ruled!(self, node, caller, Operation::Link { name, target }, |node, caller, given| node
            .forward_link(caller, target, arguments::name(given, name)));
        self.named(node, name, made)
    }

    fn unlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        ruled!(self, node, caller, Operation::Unlink(name), |node, caller, given| node
            .forward_unlink(caller, arguments::name(given, name)))
    }

    fn rmdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        ruled!(self, node, caller, Operation::RemoveDirectory(name), |node, caller, given| node
            .forward_rmdir(caller, arguments::name(given, name)))
    }

    fn rename(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let keeps_places = self.duties.have(Duty::Places);
        let look_up = |name: Name<'_>| match keeps_places {
            true => node.forward_lookup(&Caller::server(), name).ok(),
            false => None,
        };
        let mut moved = look_up(name);
        let original = name;
        ruled!(self, node, caller, Operation::Rename { name, to, to_name, mode }, |node, caller, given| {
            let name = arguments::name(given, name);
            if name != original {
                moved = look_up(name);
            }
            node.forward_rename(caller, name, to, arguments::to_name(given, to_name), mode)
        })?;
        if let Some(moved) = &moved
            && let Some(moved) = moved.vnode.as_any().downcast_ref::<LayerVnode<Self>>()
        {
            moved.state().set_place(to_name, node.lower_of(to)?);
        }
        Ok(())
    }

    fn readlink(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        ruled!(self, node, caller, Operation::ReadLink, |node, caller| node.forward_readlink(caller))
    }

    fn open(&self, node: &LayerVnode<Self>, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        ruled!(self, node, caller, Operation::Open(flags), |node, caller| node.forward_open(caller, flags))
    }

    fn open_directory(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<OpenDirectoryRef> {
        let operation = Operation::OpenDirectory;
        if !self.duties.concern(&operation) && !self.duties.have_rules(&Operation::ReadDirectory) {
            return node.forward_open_directory(caller);
        }
        let levels = self.levels.load();
        let opened = self.one_at_a_time(&levels, caller).and_then(|_one| levels.open_directory(0, node, caller));
        self.log(&levels, (node, caller), &operation, &opened);
        opened
    }

    fn statfs(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<StatFs> {
        ruled!(self, node, caller, Operation::StatFs, |node, caller| node.forward_statfs(caller))
    }

    fn getxattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        ruled!(self, node, caller, Operation::GetXattr(name), |node, caller| node.forward_getxattr(caller, name))
    }

    fn setxattr(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        ruled!(self, node, caller, Operation::SetXattr { name, value }, |node, caller| node
            .forward_setxattr(caller, name, value, mode))
    }

    fn listxattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        ruled!(self, node, caller, Operation::ListXattr, |node, caller| node.forward_listxattr(caller))
    }

    fn removexattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<()> {
        ruled!(self, node, caller, Operation::RemoveXattr(name), |node, caller| node.forward_removexattr(caller, name))
    }

    fn tmpfile(&self, node: &LayerVnode<Self>, caller: &Caller, how: &Creation) -> Result<Created> {
        ruled!(self, node, caller, Operation::TemporaryFile(how), |node, caller, given| node
            .forward_tmpfile(caller, arguments::how(given, how)))
    }

    fn ioctl(
        &self,
        node: &LayerVnode<Self>,
        file: Option<&LayerFile<Self>>,
        caller: &Caller,
        command: u32,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<i32> {
        let forward = &mut |node: &LayerVnode<Self>, caller: &Caller, output: &mut [u8]| match file {
            Some(file) => file.forward_ioctl(caller, command, input, output),
            None => node.forward_ioctl(caller, command, input, output),
        };
        let levels = self.levels.load();
        let answer = self
            .one_at_a_time(&levels, caller)
            .and_then(|_one| levels.command(0, (node, caller), command, (input, output), forward));
        self.log(&levels, (node, caller), &Operation::Ioctl { command }, &answer);
        answer
    }

    fn read_directory(
        &self,
        directory: &LayerDirectory<Self>,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let read = directory.forward_read(caller, cookie, sink);
        if self.duties.have(Duty::Traces) {
            self.log(&self.levels.load(), (directory.node(), caller), &Operation::ReadDirectory, &read);
        }
        read
    }

    fn read_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        ruled!(self, file.node(), caller, Operation::Read { offset, length: buffer.len() }, |_node, caller| file
            .forward_read_at(caller, offset, buffer))
    }

    fn write_at(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        offset: u64,
        data: &[u8],
        kill_privileges: bool,
    ) -> Result<usize> {
        if !self.duties.concern(&Operation::Write { offset, length: data.len() }) {
            return file.forward_write_at(caller, offset, data, kill_privileges);
        }
        let levels = self.levels.load();
        let _one = self.one_at_a_time(&levels, caller)?;
        // Appended data go to the end of the file, whatever their offset.
        let seen = if file.flags().appends() { file.forward_getattr(&Caller::server())?.size } else { offset };
        let operation = Operation::Write { offset: seen, length: data.len() };
        // Where a rule reports success, all data count as written.
        self.ruled((file.node(), caller), &operation, &|| Some(data.len()), &mut |_, caller, _| {
            file.forward_write_at(caller, offset, data, kill_privileges)
        })
    }

    fn getattr_open(&self, file: &LayerFile<Self>, caller: &Caller) -> Result<Attributes> {
        ruled!(self, file.node(), caller, Operation::GetAttributes, |_node, caller| file.forward_getattr(caller))
    }

    fn truncate(&self, file: &LayerFile<Self>, caller: &Caller, size: u64, kill_privileges: bool) -> Result<()> {
        ruled!(self, file.node(), caller, Operation::Truncate { size }, |_node, caller, given| file.forward_truncate(
            caller,
            arguments::new_size(given, size),
            kill_privileges
        ))
    }

    fn flush(&self, file: &LayerFile<Self>, caller: &Caller, owner: LockOwner) -> Result<()> {
        ruled!(self, file.node(), caller, Operation::Flush, |_node, caller| file.forward_flush(caller, owner))
    }

    fn fsync(&self, file: &LayerFile<Self>, caller: &Caller, data_only: bool) -> Result<()> {
        ruled!(self, file.node(), caller, Operation::Fsync { data_only }, |_node, caller| file
            .forward_fsync(caller, data_only))
    }

    fn allocate(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        mode: AllocateMode,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        ruled!(self, file.node(), caller, Operation::Allocate { mode, offset, length }, |_node, caller| file
            .forward_allocate(caller, mode, offset, length))
    }

    fn seek(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        ruled!(self, file.node(), caller, Operation::Seek { offset, target }, |_node, caller| file
            .forward_seek(caller, offset, target))
    }

    fn copy_range(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        offset: u64,
        to: &OpenFileRef,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        ruled!(self, file.node(), caller, Operation::CopyRange { offset, to_offset, length }, |_node, caller| file
            .forward_copy_range(caller, offset, to, to_offset, length))
    }

    fn lock(&self, file: &LayerFile<Self>, caller: &Caller, owner: LockOwner, lock: &Lock) -> Result<()> {
        ruled!(self, file.node(), caller, Operation::Lock(lock), |_node, caller| file.forward_lock(caller, owner, lock))
    }

    fn test_lock(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        owner: LockOwner,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        ruled!(self, file.node(), caller, Operation::TestLock(lock), |_node, caller| file
            .forward_test_lock(caller, owner, lock))
    }

    fn poll(&self, file: &LayerFile<Self>, caller: &Caller, events: u32) -> Result<u32> {
        ruled!(self, file.node(), caller, Operation::Poll, |_node, caller| file.forward_poll(caller, events))
    }

    fn release(&self, file: &LayerFile<Self>) {
        if self.duties.have_rules(&Operation::Release) {
            let levels = self.levels.load();
            // The server is never cancelled.
            let _one = self.one_at_a_time(&levels, &Caller::server());
            levels.release(file);
        }
        if self.duties.have(Duty::Traces) {
            self.log(&self.levels.load(), (file.node(), &Caller::server()), &Operation::Release, &Ok(()));
        }
    }
}
