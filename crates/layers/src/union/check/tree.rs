//! Checks the tree of a branch: whiteouts, opaque and moved directories, and the identities of copies.

use std::collections::HashMap;
use std::sync::Arc;

use vnode::progress::object_done;
use vnode::{Caller, Entry, Errno, FileKind, Handle, InodeNumber, Name, Result, VnodeRef};

use super::{BranchCheck, Problem};
use crate::union::branch::identity::Identity;
use crate::union::branch::metacopy_mark;
use crate::union::branch::objects;
use crate::union::branch::whiteout::{self, EntryMeaning, MARK_PREFIX, STATE_DIRECTORY, WhiteoutFormat};
use crate::union::copy_up::metacopy::NameInBranches;
use crate::union::lookup::identity::root_of;
use crate::union::state::instance::Instance;
use crate::union::tree_path::TreePath;

/// A directory of the branch that is to be checked.
struct CheckedDirectory {
    path: TreePath,
    own: Instance,
    /// Its instances in the lower branches.
    right: Vec<Instance>,
}

impl CheckedDirectory {
    /// Returns whether the lower branches show an object of that name.
    fn is_visible_below(&self, check: &BranchCheck<'_>, stored: Name<'_>) -> Result<bool> {
        Ok(check.union.search(&self.right, &Caller::server(), stored)?.found.is_some())
    }
}

/// Inode number and path of the file of the branch that has an identity.
type IdentityOwners = HashMap<Handle, (InodeNumber, TreePath)>;

impl BranchCheck<'_> {
    /// Checks the branch, except for the state directory.
    pub(crate) fn check_tree(&mut self) -> Result<()> {
        let (own, right) = (root_of(self.member), self.union.roots_right_of(self.member));
        let mut stack = vec![CheckedDirectory { path: TreePath::root(), own, right }];
        let mut known = IdentityOwners::new();
        while let Some(checked) = stack.pop() {
            self.check_directory(&checked, &mut known, &mut stack)?;
        }
        Ok(())
    }

    fn check_directory(
        &mut self,
        checked: &CheckedDirectory,
        known: &mut IdentityOwners,
        stack: &mut Vec<CheckedDirectory>,
    ) -> Result<()> {
        let entries = match objects::entries(&checked.own.vnode) {
            // Without the branch itself there is nothing to be checked.
            Err(error) if objects::is_unavailable(error) && !checked.path.is_root() => {
                return self.go_on(&checked.path, Err(error));
            }
            entries => entries?,
        };
        for (stored, _) in entries {
            if checked.path.is_root() && stored.as_bytes() == STATE_DIRECTORY {
                continue;
            }
            object_done();
            match whiteout::meaning(stored.as_bytes()) {
                EntryMeaning::Mark => {}
                EntryMeaning::Whiteout(_) => {
                    let hidden = Name::new(&stored.as_bytes()[MARK_PREFIX.len()..])?;
                    let done = self.check_whiteout(checked, hidden);
                    self.go_on(&checked.path.join(hidden), done)?;
                }
                EntryMeaning::Object(_) => {
                    let done = self.check_object(checked, stored.as_name(), known, stack);
                    self.go_on(&checked.path.join(stored.as_name()), done)?;
                }
            }
        }
        Ok(())
    }

    /// Checks a file, or the marks of a directory, which is then to be checked.
    fn check_object(
        &mut self,
        checked: &CheckedDirectory,
        stored: Name<'_>,
        known: &mut IdentityOwners,
        stack: &mut Vec<CheckedDirectory>,
    ) -> Result<()> {
        // Otherwise it was removed by a repair.
        let Some(entry) = objects::find(&checked.own.vnode, stored)? else { return Ok(()) };
        if entry.attributes.is_directory() {
            stack.push(self.check_subdirectory(checked, stored, &entry)?);
            Ok(())
        } else {
            self.check_file(checked, stored, &entry, known)
        }
    }

    /// Reports an object of which something cannot be read, and goes on with the others. Whatever it is may be in it.
    fn go_on(&mut self, path: &TreePath, checked: Result<()>) -> Result<()> {
        match checked {
            Err(error) if objects::is_unavailable(error) => {
                self.has_metacopies = true;
                self.report_problem(path.to_bytes(), Problem::Unavailable(error), || Err(error));
                Ok(())
            }
            checked => checked,
        }
    }

    /// Checks a whiteout that is a file of its own.
    fn check_whiteout(&mut self, checked: &CheckedDirectory, hidden: Name<'_>) -> Result<()> {
        let directory = &checked.own.vnode;
        let path = || checked.path.join(hidden).to_bytes();
        let remove = || whiteout::remove(directory, hidden);
        let entry = match directory.lookup(&Caller::server(), hidden) {
            Ok(entry) => entry,
            Err(Errno::ENOENT) => {
                if self.options.idle && !checked.is_visible_below(self, hidden)? {
                    let name = whiteout::whiteout_name(hidden)?;
                    self.report_problem(checked.path.join(name.as_name()).to_bytes(), Problem::IdleWhiteout, remove);
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if whiteout::is_whiteout_device(&entry)? {
            self.report_problem(path(), Problem::TwoWhiteouts, remove);
        } else if !entry.attributes.is_directory() {
            self.report_problem(path(), Problem::BesideWhiteout, remove);
        } else {
            let hides = whiteout::redirect(&entry.vnode)?.is_none() && checked.is_visible_below(self, hidden)?;
            self.report_problem(path(), Problem::DirectoryBesideWhiteout, || {
                if hides && !whiteout::is_opaque(&entry.vnode)? {
                    whiteout::set_opaque(&entry.vnode, WhiteoutFormat::Names)?;
                }
                remove()
            });
        }
        Ok(())
    }

    /// Checks the marks of a directory. Returns the directory to descend into.
    fn check_subdirectory(
        &mut self,
        checked: &CheckedDirectory,
        stored: Name<'_>,
        entry: &Entry,
    ) -> Result<CheckedDirectory> {
        let path = checked.path.join(stored);
        let own = Instance::new(self.member, entry.vnode.clone(), entry.attributes.ino);
        let instances = [std::slice::from_ref(&checked.own), &checked.right[..]].concat();
        let found = self.union.search(&instances, &Caller::server(), stored)?.found;
        let right: Vec<Instance> = found.map_or_else(Vec::new, |found| found.instances.into_iter().skip(1).collect());
        let directory = &entry.vnode;
        if whiteout::marks(directory)?.is_untrusted {
            self.report_problem(path.to_bytes(), Problem::Unbelieved, || Err(Errno::EPERM));
        }
        match whiteout::redirect(directory)? {
            None if whiteout::has_redirect(directory)? => {
                self.report_problem(path.to_bytes(), Problem::UnreadableRedirect, || {
                    whiteout::remove_redirect(directory)
                });
            }
            Some(from) => self.check_moved(checked, stored, directory, &path, from, right.is_empty())?,
            None => {}
        }
        Ok(CheckedDirectory { path, own, right })
    }

    /// Checks the marks of a moved directory.
    fn check_moved(
        &mut self,
        checked: &CheckedDirectory,
        stored: Name<'_>,
        directory: &VnodeRef,
        path: &TreePath,
        from: Vec<u8>,
        has_no_lower_part: bool,
    ) -> Result<()> {
        if has_no_lower_part && !self.is_last() {
            let hides = checked.is_visible_below(self, stored)?;
            self.report_problem(path.to_bytes(), Problem::MovedFromNowhere(from), || {
                if hides {
                    whiteout::set_opaque(directory, WhiteoutFormat::Names)?;
                }
                whiteout::remove_redirect(directory)
            });
        } else if whiteout::is_opaque(directory)? {
            self.report_problem(path.to_bytes(), Problem::OpaqueAndMoved, || whiteout::remove_opaque(directory));
        }
        Ok(())
    }

    /// Returns whether there are no lower branches, so that it is unknown what should be there.
    pub(crate) fn is_last(&self) -> bool {
        let slots = self.union.branches.slots();
        slots.last().is_some_and(|slot| Arc::ptr_eq(&slot.member, self.member))
    }

    /// Checks the marks and the identity of anything but a directory.
    fn check_file(
        &mut self,
        checked: &CheckedDirectory,
        stored: Name<'_>,
        entry: &Entry,
        known: &mut IdentityOwners,
    ) -> Result<()> {
        let (path, file) = (checked.path.join(stored), &entry.vnode);
        if whiteout::is_whiteout_device(entry)? {
            if self.options.idle && !checked.is_visible_below(self, stored)? {
                self.report_problem(path.to_bytes(), Problem::IdleWhiteout, || {
                    checked.own.vnode.unlink(&Caller::server(), stored)
                });
            }
            return Ok(());
        }
        if whiteout::is_opaque_file(file)? {
            self.report_problem(path.to_bytes(), Problem::OpaqueFile, || whiteout::remove_opaque(file));
        }
        if whiteout::has_redirect(file)? && !metacopy_mark::is_marked(file)? {
            self.report_problem(path.to_bytes(), Problem::MovedFile, || whiteout::remove_redirect(file));
        }
        self.check_data(checked, stored, &path, entry)?;
        self.check_identity(path, entry, known)
    }

    /// Checks that the data of a metadata-only copy exist. Missing data cannot be repaired.
    fn check_data(
        &mut self,
        checked: &CheckedDirectory,
        stored: Name<'_>,
        path: &TreePath,
        entry: &Entry,
    ) -> Result<()> {
        if entry.attributes.kind != FileKind::Regular {
            return Ok(());
        }
        let Some(mark) = metacopy_mark::MetacopyMark::of(&entry.vnode)? else { return Ok(()) };
        self.has_metacopies = true;
        if !mark.is_trusted {
            self.report_problem(path.to_bytes(), Problem::DataUnbelieved, || Err(Errno::EPERM));
            return Ok(());
        }
        let copy = Instance::new(self.member, entry.vnode.clone(), entry.attributes.ino);
        let beside = NameInBranches { directories: checked.right.clone(), name: stored.to_owned() };
        let from = mark.path.clone();
        if !self.is_last() && self.union.resolve_data(&copy, mark, || Some(beside)).is_err() {
            self.report_problem(path.to_bytes(), Problem::DataGone(from), || Err(Errno::EIO));
        }
        Ok(())
    }

    fn check_identity(&mut self, path: TreePath, entry: &Entry, known: &mut IdentityOwners) -> Result<()> {
        let file = &entry.vnode;
        if !Identity::has_stored_origin(file)? {
            return Ok(());
        }
        let forget = || Identity::remove_origin(file);
        let Some((identity, _)) = Identity::stored_origin(file)? else {
            self.report_problem(path.to_bytes(), Problem::UnreadableOrigin, forget);
            return Ok(());
        };
        let ino = entry.attributes.ino;
        match known.get(&identity.handle) {
            Some((other, of)) if *other != ino => {
                let of = of.to_bytes();
                self.report_in_newest(path.to_bytes(), Problem::SameIdentity(of), forget);
            }
            Some(_) => {}
            None => {
                known.insert(identity.handle, (ino, path.clone()));
                if self.options.idle && self.is_gone(&identity) {
                    self.report_in_newest(path.to_bytes(), Problem::OriginGone, forget);
                }
            }
        }
        Ok(())
    }
}
