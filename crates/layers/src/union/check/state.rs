//! Checks the state directory of a branch: unfinished work, names of copied files, and foreign objects.

use std::collections::{BTreeMap, HashMap};

use vnode::{Caller, ControlError, Entry, Errno, Handle, InodeNumber, Name, NameBuf, Result, VnodeRef};

use super::{BranchCheck, Finding, Problem, below};
use crate::union::branch::encoding;
use crate::union::branch::entry_purpose::EntryPurpose;
use crate::union::branch::identity::{self, Identity};
use crate::union::branch::losses::{self, Losses};
use crate::union::branch::objects;
use crate::union::branch::rename_records;
use crate::union::branch::state_directory;
use crate::union::branch::whiteout::STATE_DIRECTORY;
use crate::union::lookup::shared_copies;

impl BranchCheck<'_> {
    /// Finds unfinished work. All of it is repaired at once, as the next union to use the branch would.
    pub(crate) fn check_work(&mut self) -> Result<()> {
        let Some(state) = self.state_directory()? else { return Ok(()) };
        let part = state_directory::find_own(&state, state_directory::TEMPORARY)?.is_some();
        let directory = state_directory::find_own(&state, state_directory::WORK)?.map(|work| work.vnode);
        let unfinished = directory.as_ref().map_or(Ok(Vec::new()), unfinished)?;
        if self.options.repair && !self.is_frozen() {
            self.union.recover_in(self.member)?;
        } else if self.options.repair && (part || !unfinished.is_empty()) {
            // Renames that were to take effect in the newest layer are not completed in an older one.
            self.member.work.directory()?;
        }
        if part {
            // Written again and renamed, or blocking that.
            let repair = self.options.repair.then_some(Ok(()));
            self.report_finding(below(STATE_DIRECTORY, state_directory::TEMPORARY), Problem::LeftOver, repair);
        }
        let Some(directory) = directory else { return Ok(()) };
        for (name, problem) in unfinished {
            let stays = || directory.lookup(&Caller::server(), name.as_name()).is_ok();
            // Work for a branch outside this union has to wait for it, and a rename in a frozen layer waits forever.
            let repair = self.options.repair.then(|| if stays() { Err(Errno::ENODEV) } else { Ok(()) });
            self.report_finding(
                below(&below(STATE_DIRECTORY, state_directory::WORK), name.as_bytes()),
                problem,
                repair,
            );
        }
        Ok(())
    }

    /// Finds an unfinished merge of layers; returns whether it is still unfinished.
    pub(crate) fn check_merge(&mut self) -> bool {
        let Some(layer) = self.member.base.history().merging else { return false };
        let repair = self.options.repair.then(|| self.union.finish_merges().map_err(errno_of));
        let stays = repair != Some(Ok(()));
        let path = [STATE_DIRECTORY, b"/", state_directory::LAYERS, b"/", layer.to_string().as_bytes()].concat();
        (self.report)(Finding {
            branch: self.member.base.label.clone(),
            path,
            problem: Problem::UnfinishedMerge,
            repair,
        });
        stays
    }

    /// Finds foreign objects.
    pub(crate) fn check_state(&mut self) -> Result<()> {
        let Some(state) = self.state_directory()? else { return Ok(()) };
        for (name, _) in objects::entries(&state)? {
            let remove = || objects::remove_tree(&state, name.as_name());
            let entry = state.lookup(&Caller::server(), name.as_name())?;
            let known = state_directory::kind_of(name.as_bytes()).is_some_and(|kind| kind == entry.attributes.kind);
            if !known {
                self.report_problem(below(STATE_DIRECTORY, name.as_bytes()), Problem::Unknown, remove);
            } else if name.as_bytes() == state_directory::METACOPIES && self.options.idle && !self.has_metacopies {
                self.report_problem(below(STATE_DIRECTORY, name.as_bytes()), Problem::NoMetacopies, remove);
            }
        }
        self.check_links()?;
        if self.options.losses {
            self.check_losses(&state)?;
        }
        if self.options.idle { self.check_layers() } else { Ok(()) }
    }

    /// Finds what copies lack that are still where they were placed.
    fn check_losses(&mut self, state: &VnodeRef) -> Result<()> {
        let mut all: BTreeMap<Vec<u8>, Losses> = BTreeMap::new();
        let record = losses::recorded(state)?;
        for line in record.unreadable {
            let problem = Problem::UnreadableLoss(line);
            self.report_problem(below(STATE_DIRECTORY, state_directory::LOSSES), problem, || {
                losses::remove_unreadable(state)
            });
        }
        for (path, lost) in record.losses {
            // Only the last copy placed there counts.
            all.insert(path, lost);
        }
        for (path, lost) in all {
            let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
            let at =
                |directory: VnodeRef, name: &[u8]| Ok(directory.lookup(&Caller::server(), Name::new(name)?)?.vnode);
            match names.into_iter().try_fold(self.member.root.clone(), at) {
                Ok(_) => self.report_problem(path, Problem::NotKept(lost), || Err(Errno::EPERM)),
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                // The walk through the branch reports it.
                Err(error) if objects::is_unavailable(error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Finds layers that are missing from the history.
    fn check_layers(&mut self) -> Result<()> {
        let Some(directory) = self.own(state_directory::LAYERS)? else { return Ok(()) };
        let known = self.member.base.history().layers();
        for (name, _) in objects::entries(&directory)? {
            if !known.iter().any(|layer| layer.to_string().as_bytes() == name.as_bytes()) {
                let path = below(&below(STATE_DIRECTORY, state_directory::LAYERS), name.as_bytes());
                self.report_problem(path, Problem::LeftOver, || objects::remove_tree(&directory, name.as_name()));
            }
        }
        Ok(())
    }

    /// Finds names of copied files that lead to the wrong file, or that nobody needs.
    fn check_links(&mut self) -> Result<()> {
        let Some(directory) = self.own(state_directory::LINKS)? else { return Ok(()) };
        let (mut right, mut misplaced) = (Vec::new(), Vec::new());
        // Number of an inode's names here that are to be removed.
        let mut wrong: HashMap<InodeNumber, u32> = HashMap::new();
        for (name, _) in objects::entries(&directory)? {
            let entry = directory.lookup(&Caller::server(), name.as_name())?;
            let problem = if is_link(name.as_bytes(), &entry) {
                match Identity::stored_origin(&entry.vnode)? {
                    Some((identity, names)) if shared_copies::link_name(&identity) == name => {
                        right.push((name, entry, identity, names));
                        continue;
                    }
                    Some(_) => Problem::WrongLink,
                    // In a branch without attributes, copies have no stored origin.
                    None => continue,
                }
            } else {
                Problem::Unknown
            };
            *wrong.entry(entry.attributes.ino).or_default() += 1;
            misplaced.push((name, problem));
        }
        for (name, problem) in misplaced {
            self.report_link(&directory, &name, problem);
        }
        for (name, entry, identity, names) in right {
            let others = entry.attributes.nlink - 1 - wrong.get(&entry.attributes.ino).copied().unwrap_or(0);
            if others == 0 && (names == 0 || self.is_gone(&identity)) {
                self.report_link(&directory, &name, Problem::OrphanedLink);
            } else if (others == 0 || self.options.idle) && !self.has_branch_of(&identity) {
                self.report_link_of_no_branch(&name);
            }
        }
        Ok(())
    }

    /// If its branch is added again, the original's other names lead to the copy again.
    fn report_link_of_no_branch(&mut self, name: &NameBuf) {
        let path = below(&below(STATE_DIRECTORY, state_directory::LINKS), name.as_bytes());
        self.report_problem(path, Problem::LinkOfNoBranch, || Err(Errno::ENODEV));
    }

    /// Returns whether the branch of an identity is in the union. Without lower branches this cannot be decided.
    fn has_branch_of(&self, identity: &Identity) -> bool {
        let tagged = |(tag, _)| self.union.branches.by_tag(tag).is_some();
        self.is_last()
            || self.union.knows_branch_of(identity) && identity::split_handle(&identity.handle).is_some_and(tagged)
    }

    fn report_link(&mut self, directory: &VnodeRef, name: &NameBuf, problem: Problem) {
        let path = below(&below(STATE_DIRECTORY, state_directory::LINKS), name.as_bytes());
        self.report_problem(path, problem, || objects::remove_tree(directory, name.as_name()));
    }

    /// Returns whether the branch of an identity is in the union and has lost the object.
    pub(crate) fn is_gone(&self, identity: &Identity) -> bool {
        let Some((tag, lower)) = identity::split_handle(&identity.handle) else { return true };
        let Some(member) = self.union.branches.by_tag(tag).filter(|_| self.union.knows_branch_of(identity)) else {
            return false;
        };
        let found =
            || member.file_system.resolve(&Caller::server(), &lower).map_err(|error| member.reported_error(error));
        member.file_system.properties().promises.persistent_handles
            && matches!(found(), Err(Errno::ESTALE | Errno::ENOENT))
    }

    fn state_directory(&self) -> Result<Option<VnodeRef>> {
        state_directory::state_of(&self.member.root)
    }

    /// A directory in the state directory, if the branch has it.
    fn own(&self, name: &'static [u8]) -> Result<Option<VnodeRef>> {
        let Some(state) = self.state_directory()? else { return Ok(None) };
        Ok(state_directory::find_own(&state, name)?.map(|directory| directory.vnode))
    }
}

/// The error number of a failed union command.
fn errno_of(error: ControlError) -> Errno {
    match error {
        ControlError::Failed(errno) => errno,
        _ => Errno::EBUSY,
    }
}

/// Returns whether it is a file whose name encodes an identity.
fn is_link(name: &[u8], entry: &Entry) -> bool {
    let bytes = std::str::from_utf8(name).ok().and_then(encoding::from_hex);
    let handle = bytes.and_then(|bytes| Handle::new(&bytes).ok());
    !entry.attributes.is_directory() && handle.is_some_and(|handle| identity::split_handle(&handle).is_some())
}

/// Unfinished entries of a work directory.
fn unfinished(directory: &VnodeRef) -> Result<Vec<(NameBuf, Problem)>> {
    let mut found = Vec::new();
    for (name, _) in objects::entries(directory)? {
        match EntryPurpose::of(name.as_bytes()) {
            Some(EntryPurpose::Record) => {}
            Some(_) => found.push((name, Problem::LeftOver)),
            None => found.push((name, Problem::UnknownKind)),
        }
    }
    for (name, record) in rename_records::records(directory)? {
        let is_begun = record != rename_records::RecordContent::Incomplete;
        found.push((name, if is_begun { Problem::UnfinishedRename } else { Problem::LeftOver }));
    }
    Ok(found)
}
