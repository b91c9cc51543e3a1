//! Metadata-only copies: files whose attributes, but not data, were copied to another branch.
//!
//! Such a copy has the size of its original, no data, and a mark that says where in the lower branches the data are. Reads go
//! there until the first write: then the data are filled into the copy, which is the same file before and after. **Invariant.**
//! As long as the mark exists nothing reads the copy's own data, and the mark is removed once these are complete. The union
//! does not change the branches below one with such copies.

mod fill;
mod open;

use std::sync::atomic::Ordering;

use vnode::{Caller, Entry, Errno, FileKind, Name, NameBuf, OpenFileRef, OpenFlags, Result, VnodeRef};

use super::extent::{DataExtent, TruncateStep};
use crate::BranchMode;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::identity::Identity;
use crate::union::branch::lease::open_without_wait;
use crate::union::branch::metacopy_mark;
use crate::union::branch::metacopy_mark::{MetacopyMark, NewMetacopyMark, is_marked};
use crate::union::branch::whiteout;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation, Union};
pub(crate) use open::MetadataOnlyFile;

/// A name in directories of several branches, leftmost first.
#[derive(Clone)]
pub(crate) struct NameInBranches {
    pub(crate) directories: Vec<Instance>,
    pub(crate) name: NameBuf,
}

impl Union {
    /// Location of the data of a file with this mark. `beside` is its name in the lower branches, for marks without a path.
    ///
    /// # Errors
    /// `EIO` if the data are missing, or fewer than the file's size.
    pub(crate) fn resolve_data(
        &self,
        copy: &Instance,
        mark: MetacopyMark,
        beside: impl FnOnce() -> Option<NameInBranches>,
    ) -> Result<Instance> {
        let server = Caller::server();
        let size = copy.vnode.getattr(&server)?.size;
        let beside = if mark.has_full_path() { None } else { beside() };
        let (mut at, mut mark, mut beside) = (copy.clone(), mark, beside);
        // Each one is in a lower branch.
        loop {
            let (next, there) = self.find_original(&at, &mark, beside.as_ref())?.ok_or(Errno::EIO)?;
            match MetacopyMark::of(&next.vnode)? {
                Some(further) => (at, mark, beside) = (next, further, Some(there)),
                None if next.vnode.getattr(&server)?.size < size => return Err(Errno::EIO),
                None => return Ok(next),
            }
        }
    }

    /// The original of a metadata-only copy, which may itself be one.
    fn find_original(
        &self,
        copy: &Instance,
        mark: &MetacopyMark,
        beside: Option<&NameInBranches>,
    ) -> Result<Option<(Instance, NameInBranches)>> {
        if !mark.is_trusted {
            return Ok(None);
        }
        let Some(path) = mark.path.as_deref().filter(|path| path.starts_with(b"/")) else {
            let Some(beside) = beside else { return Ok(None) };
            let name = match &mark.path {
                Some(name) => NameBuf::new(name.clone()),
                None => Ok(beside.name.clone()),
            };
            let found = name.map_or(Ok(None), |name| file_in(&beside.directories, name))?;
            // Each of several names could lead to another file, unless these lead to one file there too.
            return match &found {
                Some((file, _)) if has_several_names(&copy.vnode)? && !has_several_names(&file.vnode)? => Ok(None),
                _ => Ok(found),
            };
        };
        if !path[1..].split(|&byte| byte == b'/').all(|name| Name::new(name).is_ok()) {
            return Ok(None);
        }
        let right = self.roots_right_of(&copy.member);
        let origin = Identity::stored_origin(&copy.vnode)?.map(|(origin, _)| origin);
        let found = self.file_at(&right, path)?;
        if let Some((instance, _)) = &found
            && self.is_original(instance, mark, origin.as_ref())?
        {
            return Ok(found);
        }
        // A branch that was added later may have another file at this path.
        let is_of_branch =
            |root: &Instance| Some(root.member.base.numbers.identifier) == origin.map(|origin| origin.branch);
        let own: Vec<Instance> = right.into_iter().skip_while(|root| !is_of_branch(root)).collect();
        match self.file_at(&own, path)? {
            Some(found) if is_of_branch(&found.0) && self.is_original(&found.0, mark, origin.as_ref())? => {
                Ok(Some(found))
            }
            _ => Ok(None),
        }
    }

    /// Returns whether a file is the original of a metadata-only copy with this mark and identity. The owner of a directory of
    /// a branch can put another file there: so it has to be the same object, if the branch has handles that last over its
    /// mounts.
    fn is_original(&self, file: &Instance, mark: &MetacopyMark, origin: Option<&Identity>) -> Result<bool> {
        let Some(origin) = origin else { return mark.matches(&file.vnode) };
        let base = &file.member.base;
        if self.knows_branch_of(origin) && base.file_system.properties().promises.persistent_handles {
            let own = match Identity::stored_origin(&file.vnode)? {
                Some((own, _)) => own,
                None => Identity::native(&base.numbers, &file.vnode.handle(), file.ino)?,
            };
            return Ok(own.handle == origin.handle);
        }
        Ok(base.numbers.identifier == origin.branch || mark.matches(&file.vnode)?)
    }

    /// The file at a path from these roots, as it is there.
    fn file_at(&self, roots: &[Instance], path: &[u8]) -> Result<Option<(Instance, NameInBranches)>> {
        let last = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let (above, name) = path.split_at(last);
        let Ok(name) = NameBuf::new(name.to_vec()) else { return Ok(None) };
        if above.iter().all(|&byte| byte == b'/') {
            return file_in(roots, name);
        }
        match self.search_path(roots, above)? {
            Some(found) if found.kind() == FileKind::Directory => file_in(&found.instances, name),
            _ => Ok(None),
        }
    }

    /// Returns whether nothing below the branch may be changed: so data stay where they are.
    fn are_lower_read_only(&self, member: &BranchMember) -> bool {
        let slots = self.branches.slots();
        let from = self.branches.position(member).map_or(0, |position| position + 1);
        slots[from..].iter().all(|slot| slot.mode == BranchMode::ReadOnly)
    }

    /// Fills in the data of all metadata-only copies in a branch that this union made.
    ///
    /// # Errors
    /// `EXDEV` for an overlayfs copy without a path, and `EIO` for a copy whose data are missing.
    pub(crate) fn fill_all(&self, member: &std::sync::Arc<BranchMember>) -> Result<()> {
        if !member.work.has_metacopies() {
            return Ok(());
        }
        // A copy that was being filled when a union was interrupted is back in its former state.
        member.work.directory()?;
        let links = member.work.existing_links()?;
        let mut stack: Vec<VnodeRef> = links.into_iter().chain([member.root.clone()]).collect();
        while let Some(directory) = stack.pop() {
            for (name, kind) in crate::union::branch::objects::entries(&directory)? {
                let may_be_either = matches!(kind, None | Some(FileKind::Directory | FileKind::Regular));
                if !may_be_either || name.as_bytes() == whiteout::STATE_DIRECTORY {
                    continue;
                }
                vnode::progress::object_done();
                let Entry { vnode, attributes } = directory.lookup(&Caller::server(), name.as_name())?;
                match attributes.kind {
                    FileKind::Directory => stack.push(vnode),
                    FileKind::Regular => self.fill_copy(&Instance::new(member, vnode, attributes.ino))?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn fill_copy(&self, file: &Instance) -> Result<()> {
        let Some(mark) = MetacopyMark::of(&file.vnode)? else { return Ok(()) };
        if !mark.has_full_path() {
            return Err(Errno::EXDEV);
        }
        let data = self.resolve_data(file, mark, || None)?;
        fill::fill(&Caller::server(), file, &data.vnode)
    }
}

impl Node {
    /// Location of its data, if that is another instance.
    pub(crate) fn data_instance(&self) -> Result<Option<Instance>> {
        let copy_count = self.copy_count();
        if self.kind != FileKind::Regular || self.has_own_data(copy_count) {
            return Ok(None);
        }
        let copy = self.leftmost();
        match MetacopyMark::of(&copy.vnode)? {
            Some(mark) => {
                let is_by_name = !mark.has_full_path();
                let data = self.union.resolve_data(&copy, mark, || self.lower_names(&copy.member))?;
                if is_by_name && has_several_names(&copy.vnode)? {
                    // Another of its names could lead to another file, but the object is one.
                    let first = self.data_by_name.get_or_init(|| Box::new(data.vnode.handle()));
                    if **first != data.vnode.handle() {
                        return Err(Errno::EIO);
                    }
                }
                Ok(Some(data))
            }
            None => {
                self.record_own_data(copy_count);
                Ok(None)
            }
        }
    }

    /// Opens the leftmost instance, for reads where its data are.
    pub(crate) fn open_leftmost(&self, caller: &Caller, flags: OpenFlags) -> Result<(VnodeRef, OpenFileRef)> {
        let copy = self.leftmost().vnode;
        let file = open_without_wait(&copy, caller, flags)?;
        match self.data_instance()? {
            Some(data) => {
                self.is_read_elsewhere.store(true, Ordering::Relaxed);
                Ok((copy, MetadataOnlyFile::open(file, &data.vnode, flags)?))
            }
            None => Ok((copy, file)),
        }
    }

    /// Fills the data into a metadata-only copy, which may be changed in place, or as much of it as is needed, at the caller's
    /// expense. A truncation is done first; if it fails, nothing is filled in.
    pub(crate) fn fill_data(
        &self,
        caller: &Caller,
        extent: DataExtent,
        truncate_step: Option<TruncateStep<'_>>,
    ) -> Result<()> {
        if extent == DataExtent::Nothing || !self.is_metadata_only()? {
            return Ok(());
        }
        {
            let _copying = self.copy_guard(caller)?;
            if !self.is_metadata_only()? {
                return Ok(());
            }
            let (copy, writer) = (self.leftmost(), Caller::server().at_expense_of(caller).cancelled_with(caller));
            match extent {
                DataExtent::UpTo(size) if fill::can_truncate(&copy, size)? => {
                    let data = if size > 0 { self.data_instance()? } else { None };
                    fill::truncate(&writer, &copy, data.as_ref().map(|data| &data.vnode), size, truncate_step)?;
                }
                _ => fill::fill(&writer, &copy, &self.data_instance()?.ok_or(Errno::EAGAIN)?.vnode)?,
            }
            self.record_arrival();
            self.copy_count.fetch_add(1, Ordering::Release);
            self.union.invalidate_views();
        }
        self.move_followers();
        Ok(())
    }

    /// Returns whether its data are in another branch, or are to be.
    pub(crate) fn is_metadata_only(&self) -> Result<bool> {
        let copy_count = self.copy_count();
        if self.kind != FileKind::Regular || self.has_own_data(copy_count) {
            return Ok(false);
        }
        let is_marked = is_marked(&self.leftmost().vnode)?;
        if !is_marked {
            self.record_own_data(copy_count);
        }
        Ok(is_marked)
    }

    /// Records that at this number of copies its own instance has the data.
    pub(crate) fn record_own_data(&self, copy_count: u32) {
        self.own_data_at.store(u64::from(copy_count) + 1, Ordering::Relaxed);
    }

    fn has_own_data(&self, copy_count: u32) -> bool {
        self.own_data_at.load(Ordering::Relaxed) == u64::from(copy_count) + 1
    }

    /// Stores the path of the data in its mark before it gets another name; until then the mark may imply its own name.
    pub(crate) fn record_data_path(self: &std::sync::Arc<Self>, caller: &Caller) -> Result<()> {
        if self.kind != FileKind::Regular || self.has_own_data(self.copy_count()) {
            return Ok(());
        }
        let copy = self.leftmost();
        let Some(mark) = MetacopyMark::of(&copy.vnode)?.filter(|mark| !mark.has_full_path()) else { return Ok(()) };
        let NodeLocation::At(above) = self.location() else { return self.fill_data(caller, DataExtent::All, None) };
        let name = mark.path.as_deref().unwrap_or(above.stored.as_bytes());
        let path = [&above.directory.lower_path(&copy.member)?, &b"/"[..], name].concat();
        let writer = Caller::server().at_expense_of(caller);
        if metacopy_mark::set_path(&writer, &copy.vnode, &path)? {
            Ok(())
        } else {
            self.fill_data(caller, DataExtent::All, None)
        }
    }

    /// Mark of a copy without data that is to be made in a branch; `None` if the data have to be copied too.
    pub(crate) fn new_copy_mark(
        self: &std::sync::Arc<Self>,
        original: &Instance,
        target: &BranchMember,
    ) -> Result<Option<NewMetacopyMark>> {
        let union = &self.union;
        if !union.settings.metacopy || self.kind != FileKind::Regular || !union.are_lower_read_only(target) {
            return Ok(None);
        }
        let NodeLocation::At(above) = self.location() else { return Ok(None) };
        let attributes = original.vnode.getattr(&Caller::server())?;
        if attributes.size == 0 || attributes.nlink > 1 || fill::loses_privileges(&original.vnode, &attributes)? {
            return Ok(None);
        }
        let path = [&above.directory.lower_path(target)?, &b"/"[..], above.stored.as_bytes()].concat();
        let found = union.file_at(&union.roots_right_of(target), &path)?;
        let is_there = found.is_some_and(|(instance, _)| instance.is_same(original));
        Ok(is_there.then(|| NewMetacopyMark::new(path, &attributes, union.settings.whiteouts)))
    }

    /// Its name in the branches below one.
    fn lower_names(&self, member: &BranchMember) -> Option<NameInBranches> {
        let _ = self.reference().find_location();
        let NodeLocation::At(above) = self.location() else { return None };
        let own = self.union.branches.position(member)?;
        let is_right =
            |directory: &&Instance| self.union.branches.position(&directory.member).is_some_and(|at| at > own);
        let directories = above.directory.instances().iter().filter(is_right).cloned().collect();
        Some(NameInBranches { directories, name: above.stored })
    }
}

fn has_several_names(file: &VnodeRef) -> Result<bool> {
    Ok(file.getattr(&Caller::server())?.nlink > 1)
}

/// The file of that name in these directories, as it is there, and its name in the ones below.
pub(crate) fn file_in(directories: &[Instance], name: NameBuf) -> Result<Option<(Instance, NameInBranches)>> {
    let server = Caller::server();
    for (index, directory) in directories.iter().enumerate() {
        match directory.vnode.lookup(&server, name.as_name()) {
            Ok(entry) if entry.attributes.kind == FileKind::Regular => {
                let found = Instance::new(&directory.member, entry.vnode, entry.attributes.ino);
                return Ok(Some((found, NameInBranches { directories: directories[index + 1..].to_vec(), name })));
            }
            Err(Errno::ENOENT) if !whiteout::has_whiteout_file(&directory.vnode, name.as_name())? => {}
            Ok(_) | Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
