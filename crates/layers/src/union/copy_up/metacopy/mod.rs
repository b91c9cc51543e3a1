//! Metadata-only copies: files whose attributes, but not data, were copied to another branch.
//!
//! Such a copy has the size of its original, no data, and a mark that says where in the lower branches the data are. Reads go
//! there until the first write: then the data are filled into the copy, which is the same file before and after. **Invariant.**
//! As long as the mark exists nothing reads the copy's own data, and the mark is removed once these are complete. The union
//! does not change the branches below one with such copies.

mod fill;
mod mark;
mod open;

use std::sync::atomic::Ordering;

use vnode::{Caller, Entry, Errno, FileKind, Name, NameBuf, OpenFileRef, OpenFlags, Result, VnodeRef};

use super::{Cut, Extent};
use crate::BranchMode;
use crate::union::branch::branches::Member;
use crate::union::branch::lease::open_at_once;
use crate::union::branch::whiteout;
use crate::union::identity::Identity;
use crate::union::node::{Instance, Node, Whereabouts};
use crate::union::state::Union;
pub(crate) use fill::put_times_back;
pub(crate) use mark::{Mark, NewMark, is_marked};
pub(crate) use open::MetadataOnlyFile;

/// A name in directories of several branches, leftmost first.
#[derive(Clone)]
pub(crate) struct Beside {
    pub(crate) directories: Vec<Instance>,
    pub(crate) name: NameBuf,
}

impl Union {
    /// Location of the data of a file with this mark. `beside` is its name in the lower branches, for marks without a path.
    ///
    /// # Errors
    /// `EIO` if the data are missing, or fewer than the file's size.
    pub(crate) fn data_of(
        &self,
        copy: &Instance,
        mark: Mark,
        beside: impl FnOnce() -> Option<Beside>,
    ) -> Result<Instance> {
        let server = Caller::server();
        let size = copy.vnode.getattr(&server)?.size;
        let beside = if mark.tells_path() { None } else { beside() };
        let (mut at, mut mark, mut beside) = (copy.clone(), mark, beside);
        // Each one is in a lower branch.
        loop {
            let (next, there) = self.original(&at, &mark, beside.as_ref())?.ok_or(Errno::EIO)?;
            match Mark::of(&next.vnode)? {
                Some(further) => (at, mark, beside) = (next, further, Some(there)),
                None if next.vnode.getattr(&server)?.size < size => return Err(Errno::EIO),
                None => return Ok(next),
            }
        }
    }

    /// The original of a metadata-only copy, which may itself be one.
    fn original(&self, copy: &Instance, mark: &Mark, beside: Option<&Beside>) -> Result<Option<(Instance, Beside)>> {
        if !mark.is_believed {
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
        let brought = Identity::brought(&copy.vnode)?.map(|(brought, _)| brought);
        let found = self.file_at(&right, path)?;
        if let Some((instance, _)) = &found
            && self.is_original(instance, mark, brought.as_ref())?
        {
            return Ok(found);
        }
        // A branch that was added later may have another file at this path.
        let is_of_branch =
            |root: &Instance| Some(root.member.base.known.identifier) == brought.map(|brought| brought.branch);
        let own: Vec<Instance> = right.into_iter().skip_while(|root| !is_of_branch(root)).collect();
        match self.file_at(&own, path)? {
            Some(found) if is_of_branch(&found.0) && self.is_original(&found.0, mark, brought.as_ref())? => {
                Ok(Some(found))
            }
            _ => Ok(None),
        }
    }

    /// Returns whether a file is the original of a metadata-only copy with this mark and identity. The owner of a directory of
    /// a branch can put another file there: so it has to be the same object, if the branch has handles that last over its
    /// mounts.
    fn is_original(&self, file: &Instance, mark: &Mark, brought: Option<&Identity>) -> Result<bool> {
        let Some(brought) = brought else { return mark.is_of(&file.vnode) };
        let base = &file.member.base;
        if self.knows(brought) && base.file_system.properties().persistent_handles {
            let own = match Identity::brought(&file.vnode)? {
                Some((own, _)) => own,
                None => Identity::native(base, &file.vnode.handle(), file.ino)?,
            };
            return Ok(own.handle == brought.handle);
        }
        Ok(base.known.identifier == brought.branch || mark.is_of(&file.vnode)?)
    }

    /// The file at a path from these roots, as it is there.
    fn file_at(&self, roots: &[Instance], path: &[u8]) -> Result<Option<(Instance, Beside)>> {
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
    fn is_all_kept_right_of(&self, member: &Member) -> bool {
        let slots = self.branches.slots();
        let from = self.branches.position(member).map_or(0, |position| position + 1);
        slots[from..].iter().all(|slot| slot.mode == BranchMode::ReadOnly)
    }

    /// Fills in the data of all metadata-only copies in a branch that this union made.
    ///
    /// # Errors
    /// `EXDEV` for an overlayfs copy without a path, and `EIO` for a copy whose data are missing.
    pub(crate) fn bring_all(&self, member: &std::sync::Arc<Member>) -> Result<()> {
        if !member.work.has_metacopies() {
            return Ok(());
        }
        // A copy that was being filled when a union was interrupted is back in its former state.
        member.work.directory()?;
        let links = member.work.links_if_there()?;
        let mut way: Vec<VnodeRef> = links.into_iter().chain([member.root.clone()]).collect();
        while let Some(directory) = way.pop() {
            for (name, kind) in crate::union::branch::work::entries(&directory)? {
                let may_be_either = matches!(kind, None | Some(FileKind::Directory | FileKind::Regular));
                if !may_be_either || name.as_bytes() == whiteout::STATE {
                    continue;
                }
                vnode::progress::object_done();
                let Entry { vnode, attributes } = directory.lookup(&Caller::server(), name.as_name())?;
                match attributes.kind {
                    FileKind::Directory => way.push(vnode),
                    FileKind::Regular => self.bring(&Instance::new(member, vnode, attributes.ino))?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn bring(&self, file: &Instance) -> Result<()> {
        let Some(mark) = Mark::of(&file.vnode)? else { return Ok(()) };
        if !mark.tells_path() {
            return Err(Errno::EXDEV);
        }
        let data = self.data_of(file, mark, || None)?;
        fill::fill(&Caller::server(), file, &data.vnode)
    }
}

impl Node {
    /// Location of its data, if that is another instance.
    pub(crate) fn data(&self) -> Result<Option<Instance>> {
        let copies = self.copies();
        if self.kind != FileKind::Regular || self.is_known_to_have_data(copies) {
            return Ok(None);
        }
        let copy = self.leftmost();
        match Mark::of(&copy.vnode)? {
            Some(mark) => {
                let is_by_name = !mark.tells_path();
                let data = self.union.data_of(&copy, mark, || self.beside(&copy.member))?;
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
                self.has_data(copies);
                Ok(None)
            }
        }
    }

    /// Opens the leftmost instance, for reads where its data are.
    pub(crate) fn open_leftmost(&self, caller: &Caller, flags: OpenFlags) -> Result<(VnodeRef, OpenFileRef)> {
        let copy = self.leftmost().vnode;
        let file = open_at_once(&copy, caller, flags)?;
        match self.data()? {
            Some(data) => {
                self.is_read_elsewhere.store(true, Ordering::Relaxed);
                Ok((copy, MetadataOnlyFile::open(file, &data.vnode, flags)?))
            }
            None => Ok((copy, file)),
        }
    }

    /// Fills the data into a metadata-only copy, which may be changed in place, or as much of it as is needed, at the caller's
    /// expense. A truncation is done first; if it fails, nothing is filled in.
    pub(crate) fn bring_data(&self, caller: &Caller, extent: Extent, cut: Option<Cut<'_>>) -> Result<()> {
        if extent == Extent::Nothing || !self.is_metadata_only()? {
            return Ok(());
        }
        {
            let _copying = self.alone_to_copy(caller)?;
            if !self.is_metadata_only()? {
                return Ok(());
            }
            let (copy, writer) = (self.leftmost(), Caller::server().at_expense_of(caller).cancelled_with(caller));
            match extent {
                Extent::UpTo(size) if fill::may_be_cut(&copy, size)? => {
                    let data = if size > 0 { self.data()? } else { None };
                    fill::cut(&writer, &copy, data.as_ref().map(|data| &data.vnode), size, cut)?;
                }
                _ => fill::fill(&writer, &copy, &self.data()?.ok_or(Errno::EAGAIN)?.vnode)?,
            }
            self.has_arrived();
            self.copies.fetch_add(1, Ordering::Release);
            self.union.family.note_change(&self.union);
        }
        self.call_followers();
        Ok(())
    }

    /// Returns whether its data are in another branch, or are to be.
    pub(crate) fn is_metadata_only(&self) -> Result<bool> {
        let copies = self.copies();
        if self.kind != FileKind::Regular || self.is_known_to_have_data(copies) {
            return Ok(false);
        }
        let is_marked = is_marked(&self.leftmost().vnode)?;
        if !is_marked {
            self.has_data(copies);
        }
        Ok(is_marked)
    }

    /// Records that at this number of copies its own instance has the data.
    pub(crate) fn has_data(&self, copies: u32) {
        self.own_data_at.store(u64::from(copies) + 1, Ordering::Relaxed);
    }

    fn is_known_to_have_data(&self, copies: u32) -> bool {
        self.own_data_at.load(Ordering::Relaxed) == u64::from(copies) + 1
    }

    /// Stores the path of the data in its mark before it gets another name; until then the mark may imply its own name.
    pub(crate) fn note_path_of_data(self: &std::sync::Arc<Self>, caller: &Caller) -> Result<()> {
        if self.kind != FileKind::Regular || self.is_known_to_have_data(self.copies()) {
            return Ok(());
        }
        let copy = self.leftmost();
        let Some(mark) = Mark::of(&copy.vnode)?.filter(|mark| !mark.tells_path()) else { return Ok(()) };
        let Whereabouts::At(above) = self.whereabouts() else { return self.bring_data(caller, Extent::All, None) };
        let name = mark.path.as_deref().unwrap_or(above.stored.as_bytes());
        let path = [&above.directory.rest_path(&copy.member)?, &b"/"[..], name].concat();
        let writer = Caller::server().at_expense_of(caller);
        if mark::set_path(&writer, &copy.vnode, &path)? { Ok(()) } else { self.bring_data(caller, Extent::All, None) }
    }

    /// Mark of a copy without data that is to be made in a branch; `None` if the data have to be copied too.
    pub(crate) fn mark_of_copy(
        self: &std::sync::Arc<Self>,
        original: &Instance,
        target: &Member,
    ) -> Result<Option<NewMark>> {
        let union = &self.union;
        if !union.settings.metacopy || self.kind != FileKind::Regular || !union.is_all_kept_right_of(target) {
            return Ok(None);
        }
        let Whereabouts::At(above) = self.whereabouts() else { return Ok(None) };
        let attributes = original.vnode.getattr(&Caller::server())?;
        if attributes.size == 0 || attributes.nlink > 1 || fill::loses_rights(&original.vnode, &attributes)? {
            return Ok(None);
        }
        let path = [&above.directory.rest_path(target)?, &b"/"[..], above.stored.as_bytes()].concat();
        let found = union.file_at(&union.roots_right_of(target), &path)?;
        let is_there = found.is_some_and(|(instance, _)| instance.is_same(original));
        Ok(is_there.then(|| NewMark::new(path, &attributes, union.settings.whiteouts)))
    }

    /// Its name in the branches below one.
    fn beside(&self, member: &Member) -> Option<Beside> {
        let _ = self.reference().find_whereabouts();
        let Whereabouts::At(above) = self.whereabouts() else { return None };
        let own = self.union.branches.position(member)?;
        let is_right = |place: &&Instance| self.union.branches.position(&place.member).is_some_and(|at| at > own);
        let directories = above.directory.instances().iter().filter(is_right).cloned().collect();
        Some(Beside { directories, name: above.stored })
    }
}

fn has_several_names(file: &VnodeRef) -> Result<bool> {
    Ok(file.getattr(&Caller::server())?.nlink > 1)
}

/// The file of that name in these directories, as it is there, and its name in the ones below.
pub(crate) fn file_in(directories: &[Instance], name: NameBuf) -> Result<Option<(Instance, Beside)>> {
    let server = Caller::server();
    for (index, place) in directories.iter().enumerate() {
        match place.vnode.lookup(&server, name.as_name()) {
            Ok(entry) if entry.attributes.kind == FileKind::Regular => {
                let found = Instance::new(&place.member, entry.vnode, entry.attributes.ino);
                return Ok(Some((found, Beside { directories: directories[index + 1..].to_vec(), name })));
            }
            Err(Errno::ENOENT) if !whiteout::stands(&place.vnode, name.as_name())? => {}
            Ok(_) | Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
