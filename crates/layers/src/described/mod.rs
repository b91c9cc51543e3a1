//! The layer of FiST modules: what they declare and what their rules do, on the layer template.
//!
//! Operations without rules cost no more than the template does, and data without a filter bypass the layer.
//!
//! From the bottom: `module` (one loaded FiST module), `members` (those that are collapsed into one layer, as `collapse` permits),
//! `layer` (the state of the layer and of its objects), `host` (what rules call while they run), then what runs them: `filters`,
//! `invocation`, `listing`, and `dispatch`, which leads an operation through the members. This file has the operations.

mod arguments;
mod block_sizes;
mod collapse;
mod collected_names;
mod dispatch;
mod filters;
mod hooks;
mod host;
mod intern;
mod invocation;
mod layer;
mod listing;
mod members;
mod module;
mod options;
mod outcome;
mod reload;
mod trace;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use ::fist::ir;
use vnode::fan_out::{self, PrimaryOnly};
use vnode::layer::{Block, DataShape, Layer, LayerDirectory, LayerFile, LayerVnode, Operation};
use vnode::{
    AccessMode, AllocateMode, Attributes, Caller, Control, ControlError, Cookie, Created, Creation, Description,
    Device, DirectoryEntry, Entry, FileKind, FileSystemRef, Lock, LockOwner, Name, Needs, Notifier, OpenDirectoryRef,
    OpenFileRef, OpenFlags, Promises, RenameMode, Result, SeekTarget, SetAttributes, StatFs, VnodeRef, XattrMode,
};

use crate::{ControlSpecification, OptionError};
use hooks::Hook;
use invocation::Forward;
use layer::{FistLayer, ObjectState};
use members::CollapsedMembers;
use module::LoadedModule;
use outcome::Outcome;

/// Control commands of every FiST module.
const CONTROLS: &[ControlSpecification] = &[
    ControlSpecification::new("reload", &[], "read the program again"),
    ControlSpecification::new("ioctls", &[], "list the ioctl commands that the program declares, as JSON"),
];

/// A checked FiST program with its options.
pub struct Prepared(LoadedModule);

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
        LoadedModule::new(program, text, path, pairs).map(Prepared)
    }

    /// Describes what keeps the module from collapsing with a module below it; `None` if they can be one layer.
    pub fn barrier(&self, lower: &Prepared) -> Option<String> {
        collapse::barrier(&self.0, &lower.0)
    }
}

/// Stacks FiST modules on as many file systems as the lowest module, the first, declares. Modules on top of each other
/// are collapsed into one layer where the result is the same.
pub fn stack(lowest_first: Vec<Prepared>, mut branches: Vec<FileSystemRef>) -> FileSystemRef {
    let mut lower_kinds: Vec<_> = branches.iter().map(kind_of).collect();
    let mut lower = if branches.len() == 1 { branches.remove(0) } else { fan_out::join(branches, PrimaryOnly) };
    let mut collapsed: Vec<LoadedModule> = Vec::new();
    for Prepared(mut module) in lowest_first {
        if collapsed.iter().any(|lower| collapse::barrier(&module, lower).is_some()) {
            lower = vnode::layer::stack(FistLayer::new(std::mem::take(&mut collapsed)), lower);
        }
        let kind = module.kind.to_owned();
        module.modules_below = collapsed.len();
        module.lower_kinds = std::mem::replace(&mut lower_kinds, vec![kind]);
        module.has_persistent_handles = lower.properties().promises.persistent_handles;
        collapsed.insert(0, module);
    }
    vnode::layer::stack(FistLayer::new(collapsed), lower)
}

/// Returns the name of a lower file system: the kind of its topmost member.
fn kind_of(lower: &FileSystemRef) -> String {
    lower.describe().last().map(|member| member.kind.clone()).unwrap_or_default()
}

/// Performs an operation as its rules say or, without rules, as the template does: with the arguments that rules have
/// left it.
macro_rules! with_rules {
    ($layer:ident, $node:expr, $caller:ident, $operation:expr, |$target:ident, $as:ident, $operation_now:ident| $forward:expr) => {{
        let operation = $operation;
        if $layer.hooks.intercepts(&operation) {
            $layer.run_with_rules(
                ($node, $caller),
                &operation,
                &Outcome::default_success,
                &mut |$target, $as, $operation_now| $forward,
            )
        } else {
            let ($target, $as, $operation_now) = ($node, $caller, &operation);
            $forward
        }
    }};
    ($layer:ident, $node:expr, $caller:ident, $operation:expr, |$target:ident, $as:ident| $forward:expr) => {
        with_rules!($layer, $node, $caller, $operation, |$target, $as, _given| $forward)
    };
}

impl FistLayer {
    /// Performs an operation that has rules or is logged; returns `nothing` where a rule reports success without
    /// performing it.
    fn run_with_rules<T: Outcome>(
        &self,
        (node, caller): (&LayerVnode<Self>, &Caller),
        operation: &Operation<'_>,
        default_result: &dyn Fn() -> Option<T>,
        forward: Forward<'_, T>,
    ) -> Result<T> {
        let members = self.members.load();
        let result = match self.hooks.has_rules(operation) {
            true => self
                .lock_serial(&members, caller)
                .and_then(|_serial| members.invoke(0, (node, caller), operation, default_result, forward)),
            false => forward(node, caller, operation),
        };
        self.log(&members, (node, caller), operation, &result);
        result
    }

    /// Logs an operation, if a module logs operations.
    fn log<T: Outcome>(
        &self,
        members: &CollapsedMembers,
        of: (&LayerVnode<Self>, &Caller),
        operation: &Operation<'_>,
        result: &Result<T>,
    ) {
        if self.hooks.contains(Hook::Trace)
            && let Some(member) = members.logging_member()
        {
            trace::log(member.kind, of, operation, || result.as_ref().map(Outcome::describe).map_err(|error| *error));
        }
    }

    /// Records the lookup location of the resulting object, if rules query it.
    fn record_location<T: Outcome>(&self, node: &LayerVnode<Self>, name: Name<'_>, result: Result<T>) -> Result<T> {
        if self.hooks.contains(Hook::LookupLocation)
            && let Ok(result) = &result
            && let Some(entry) = result.entry()
            && let Some(found) = entry.vnode.as_any().downcast_ref::<LayerVnode<Self>>()
        {
            found.state().set_location(name, node.lower());
        }
        result
    }
}

impl Layer for FistLayer {
    type State = ObjectState;

    fn keeps_state(&self) -> bool {
        self.keeps_state
    }

    fn kind(&self) -> &'static str {
        self.members.load().kind
    }

    fn describe(&self) -> Vec<Description> {
        self.members.load().describe()
    }

    fn answers_to(&self, target: &str) -> bool {
        self.members.load().find_by_kind(target).is_some()
    }

    fn promises(&self) -> Promises {
        self.members.load().properties.promises
    }

    fn needs(&self) -> Needs {
        self.members.load().properties.needs
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        ControlSpecification::check(CONTROLS, command)?;
        match command.command.as_str() {
            "reload" => self.reload(&command.target),
            "ioctls" => Ok(self
                .members
                .load()
                .find_by_kind(&command.target)
                .map(|member| member.declared_ioctls_json())
                .unwrap_or_default()),
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
        if !self.hooks.contains(Hook::AccessCheck) {
            return Ok(());
        }
        let members = self.members.load();
        let checked = members.check_access(operation);
        if checked.is_err() {
            self.log(&members, (node, caller), operation, &checked);
        }
        checked
    }

    /// Refuses objects that the program does not let the caller look up, or whose names it does not show.
    fn admit_handle(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<()> {
        let any_lookup = Operation::Lookup(Name::new(b"any")?);
        if self.hooks.has_rules(&any_lookup) || self.hooks.contains(Hook::NameFilter) {
            node.check_lookup(caller)
        } else {
            Ok(())
        }
    }

    fn encode_name<'a>(&self, directory: &LayerVnode<Self>, caller: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        if !self.hooks.contains(Hook::NameFilter) {
            return Ok(Cow::Borrowed(name.as_bytes()));
        }
        self.members.load().encode_name(directory, caller, name)
    }

    fn decode_name<'a>(
        &self,
        directory: &LayerVnode<Self>,
        _: &Caller,
        name: Name<'a>,
    ) -> Result<Option<Cow<'a, [u8]>>> {
        if !self.hooks.contains(Hook::NameFilter) {
            return Ok(Some(Cow::Borrowed(name.as_bytes())));
        }
        Ok(self.members.load().decode_name(directory, name))
    }

    fn data_shape(&self) -> Option<DataShape> {
        if self.hooks.contains(Hook::DataFilter) { self.members.load().data_shape() } else { None }
    }

    fn marks_last_block(&self) -> bool {
        self.hooks.contains(Hook::DataFilter) && self.members.load().needs_last_block()
    }

    fn encode_data(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        block: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        self.members.load().encode_data((node, caller), block, plain, encoded)
    }

    fn decode_data(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        block: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        self.members.load().decode_data((node, caller), block, encoded, plain)
    }

    fn getattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Attributes> {
        with_rules!(self, node, caller, Operation::GetAttributes, |node, caller| node.forward_getattr(caller))
    }

    fn setattr(&self, node: &LayerVnode<Self>, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        with_rules!(self, node, caller, Operation::SetAttributes(changes), |node, caller, arguments_now| node
            .forward_setattr(caller, arguments::changes(arguments_now, changes)))
    }

    fn access(&self, node: &LayerVnode<Self>, caller: &Caller, mode: AccessMode) -> Result<()> {
        with_rules!(self, node, caller, Operation::Access(mode), |node, caller| node.forward_access(caller, mode))
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let entry = with_rules!(self, node, caller, Operation::Lookup(name), |node, caller, arguments_now| node
            .forward_lookup(caller, arguments::name(arguments_now, name)));
        self.record_location(node, name, entry)
    }

    fn parent(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<VnodeRef> {
        with_rules!(self, node, caller, Operation::Parent, |node, caller| node.forward_parent(caller))
    }

    fn create(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let created =
            with_rules!(self, node, caller, Operation::Create { name, how }, |node, caller, arguments_now| node
                .forward_create(caller, arguments::name(arguments_now, name), arguments::how(arguments_now, how)));
        self.record_location(node, name, created)
    }

    fn mkdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let created =
            with_rules!(self, node, caller, Operation::MakeDirectory { name, mode }, |node, caller, arguments_now| {
                node.forward_mkdir(
                    caller,
                    arguments::name(arguments_now, name),
                    arguments::new_mode(arguments_now, mode),
                )
            });
        self.record_location(node, name, created)
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
        let created =
            with_rules!(self, node, caller, Operation::MakeNode { name, kind, mode }, |node, caller, arguments_now| {
                node.forward_mknod(
                    caller,
                    arguments::name(arguments_now, name),
                    kind,
                    arguments::new_mode(arguments_now, mode),
                    device,
                )
            });
        self.record_location(node, name, created)
    }

    fn symlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let created =
            with_rules!(self, node, caller, Operation::MakeSymlink { name, target }, |node, caller, arguments_now| {
                node.forward_symlink(
                    caller,
                    arguments::name(arguments_now, name),
                    arguments::target(arguments_now, target),
                )
            });
        self.record_location(node, name, created)
    }

    fn link(&self, node: &LayerVnode<Self>, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let created =
            with_rules!(self, node, caller, Operation::Link { name, target }, |node, caller, arguments_now| node
                .forward_link(caller, target, arguments::name(arguments_now, name)));
        self.record_location(node, name, created)
    }

    fn unlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        with_rules!(self, node, caller, Operation::Unlink(name), |node, caller, arguments_now| node
            .forward_unlink(caller, arguments::name(arguments_now, name)))
    }

    fn rmdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<()> {
        with_rules!(self, node, caller, Operation::RemoveDirectory(name), |node, caller, arguments_now| node
            .forward_rmdir(caller, arguments::name(arguments_now, name)))
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
        let keeps_locations = self.hooks.contains(Hook::LookupLocation);
        let look_up = |name: Name<'_>| match keeps_locations {
            true => node.forward_lookup(&Caller::server(), name).ok(),
            false => None,
        };
        let mut moved = look_up(name);
        let original = name;
        with_rules!(
            self,
            node,
            caller,
            Operation::Rename { name, to, to_name, mode },
            |node, caller, arguments_now| {
                let name = arguments::name(arguments_now, name);
                if name != original {
                    moved = look_up(name);
                }
                node.forward_rename(caller, name, to, arguments::to_name(arguments_now, to_name), mode)
            }
        )?;
        if let Some(moved) = &moved
            && let Some(moved) = moved.vnode.as_any().downcast_ref::<LayerVnode<Self>>()
        {
            moved.state().set_location(to_name, node.lower_of(to)?);
        }
        Ok(())
    }

    fn readlink(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        with_rules!(self, node, caller, Operation::ReadLink, |node, caller| node.forward_readlink(caller))
    }

    fn open(&self, node: &LayerVnode<Self>, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        with_rules!(self, node, caller, Operation::Open(flags), |node, caller| node.forward_open(caller, flags))
    }

    fn open_directory(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<OpenDirectoryRef> {
        let operation = Operation::OpenDirectory;
        if !self.hooks.intercepts(&operation) && !self.hooks.has_rules(&Operation::ReadDirectory) {
            return node.forward_open_directory(caller);
        }
        let members = self.members.load();
        let opened = self.lock_serial(&members, caller).and_then(|_serial| members.open_directory(0, node, caller));
        self.log(&members, (node, caller), &operation, &opened);
        opened
    }

    fn statfs(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<StatFs> {
        with_rules!(self, node, caller, Operation::StatFs, |node, caller| node.forward_statfs(caller))
    }

    fn getxattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        with_rules!(self, node, caller, Operation::GetXattr(name), |node, caller| node.forward_getxattr(caller, name))
    }

    fn setxattr(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        with_rules!(self, node, caller, Operation::SetXattr { name, value }, |node, caller| node
            .forward_setxattr(caller, name, value, mode))
    }

    fn listxattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        with_rules!(self, node, caller, Operation::ListXattr, |node, caller| node.forward_listxattr(caller))
    }

    fn removexattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<()> {
        with_rules!(self, node, caller, Operation::RemoveXattr(name), |node, caller| node
            .forward_removexattr(caller, name))
    }

    fn tmpfile(&self, node: &LayerVnode<Self>, caller: &Caller, how: &Creation) -> Result<Created> {
        with_rules!(self, node, caller, Operation::TemporaryFile(how), |node, caller, arguments_now| node
            .forward_tmpfile(caller, arguments::how(arguments_now, how)))
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
        let members = self.members.load();
        let result = self
            .lock_serial(&members, caller)
            .and_then(|_serial| members.run_ioctl(0, (node, caller), command, (input, output), forward));
        self.log(&members, (node, caller), &Operation::Ioctl { command }, &result);
        result
    }

    fn read_directory(
        &self,
        directory: &LayerDirectory<Self>,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let read = directory.forward_read(caller, cookie, sink);
        if self.hooks.contains(Hook::Trace) {
            self.log(&self.members.load(), (directory.node(), caller), &Operation::ReadDirectory, &read);
        }
        read
    }

    fn read_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        with_rules!(self, file.node(), caller, Operation::Read { offset, length: buffer.len() }, |_node, caller| file
            .forward_read_at(caller, offset, buffer))
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        if !self.hooks.intercepts(&Operation::Write { offset, length: data.len() }) {
            return file.forward_write_at(caller, offset, data);
        }
        let members = self.members.load();
        let _serial = self.lock_serial(&members, caller)?;
        // Appended data go to the end of the file, whatever their offset.
        let seen = if file.flags().appends() { file.forward_getattr(&Caller::server())?.size } else { offset };
        let operation = Operation::Write { offset: seen, length: data.len() };
        // Where a rule reports success, all data count as written.
        self.run_with_rules((file.node(), caller), &operation, &|| Some(data.len()), &mut |_, caller, _| {
            file.forward_write_at(caller, offset, data)
        })
    }

    fn getattr_open(&self, file: &LayerFile<Self>, caller: &Caller) -> Result<Attributes> {
        with_rules!(self, file.node(), caller, Operation::GetAttributes, |_node, caller| file.forward_getattr(caller))
    }

    fn truncate(&self, file: &LayerFile<Self>, caller: &Caller, size: u64) -> Result<()> {
        with_rules!(self, file.node(), caller, Operation::Truncate { size }, |_node, caller, arguments_now| file
            .forward_truncate(caller, arguments::new_size(arguments_now, size)))
    }

    fn flush(&self, file: &LayerFile<Self>, caller: &Caller, owner: &LockOwner) -> Result<()> {
        with_rules!(self, file.node(), caller, Operation::Flush, |_node, caller| file.forward_flush(caller, owner))
    }

    fn fsync(&self, file: &LayerFile<Self>, caller: &Caller, data_only: bool) -> Result<()> {
        with_rules!(self, file.node(), caller, Operation::Fsync { data_only }, |_node, caller| file
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
        with_rules!(self, file.node(), caller, Operation::Allocate { mode, offset, length }, |_node, caller| file
            .forward_allocate(caller, mode, offset, length))
    }

    fn seek(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        with_rules!(self, file.node(), caller, Operation::Seek { offset, target }, |_node, caller| file
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
        with_rules!(self, file.node(), caller, Operation::CopyRange { offset, to_offset, length }, |_node, caller| file
            .forward_copy_range(caller, offset, to, to_offset, length))
    }

    fn lock(&self, file: &LayerFile<Self>, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        with_rules!(self, file.node(), caller, Operation::Lock(lock), |_node, caller| file
            .forward_lock(caller, owner, lock))
    }

    fn test_lock(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        owner: &LockOwner,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        with_rules!(self, file.node(), caller, Operation::TestLock(lock), |_node, caller| file
            .forward_test_lock(caller, owner, lock))
    }

    fn poll(&self, file: &LayerFile<Self>, caller: &Caller, events: u32) -> Result<u32> {
        with_rules!(self, file.node(), caller, Operation::Poll, |_node, caller| file.forward_poll(caller, events))
    }

    fn release(&self, file: &LayerFile<Self>) {
        if self.hooks.has_rules(&Operation::Release) {
            let members = self.members.load();
            // The server is never cancelled.
            let _serial = self.lock_serial(&members, &Caller::server());
            members.release(file);
        }
        if self.hooks.contains(Hook::Trace) {
            self.log(&self.members.load(), (file.node(), &Caller::server()), &Operation::Release, &Ok(()));
        }
    }
}
