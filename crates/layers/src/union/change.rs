//! Changing the branches while programs run (Unionfs, section 3.7): no operation is under way meanwhile, and what is known
//! of objects is learnt anew when they are next used.

use std::sync::{Arc, PoisonError};

use vnode::{Control, ControlError};

use super::branches::{Member, Slot};
use super::file::UnionFile;
use super::register::Register;
use super::{Everything, KIND, Union};
use crate::BranchMode;

/// How many files in the way are named.
const NAMED: usize = 3;

type Answer = Result<String, ControlError>;

impl Union {
    /// Answers a command to the union.
    pub(super) fn command(self: &Arc<Self>, control: &Control) -> Answer {
        let arguments = Arguments(control);
        match control.command.as_str() {
            "branches" => Ok(self.list()),
            "add" => self.add(arguments.required("branch")?, arguments.position()?),
            "remove" => self.remove(arguments.required("branch")?),
            "mode" => self.set_mode(arguments.required("branch")?, arguments.mode()?),
            "move" => {
                let at = arguments.position()?.ok_or_else(|| missing("at"))?;
                self.move_to(arguments.required("branch")?, at)
            }
            other => Err(ControlError::UnknownCommand { target: KIND.name.to_owned(), command: other.to_owned() }),
        }
    }

    /// The branches, one a line, the one of highest priority first.
    fn list(&self) -> String {
        self.branches.slots().iter().map(|slot| format!("{}={}\n", slot.member.label, slot.mode)).collect()
    }

    /// Adds a branch at a place, or as the last.
    fn add(self: &Arc<Self>, text: &str, at: Option<usize>) -> Answer {
        let opener = self.opener.as_ref().ok_or_else(|| refused("this union cannot open branches"))?;
        let branch = opener(text).map_err(ControlError::BadArgument)?;
        self.change(|slots, register| {
            if slots.iter().any(|slot| slot.member.label == branch.label) {
                return Err(refused(&format!("{} is a branch already", branch.label)));
            }
            let at = at.unwrap_or(slots.len());
            if at > slots.len() {
                return Err(bad_place(slots));
            }
            if let Some(notifier) = &*self.notifier.lock().unwrap_or_else(PoisonError::into_inner) {
                branch.file_system.set_notifier(Arc::new(Everything(Arc::clone(notifier))));
            }
            if let Some(directory) = self.mount_point.get() {
                branch.file_system.set_mount_point(std::os::fd::AsFd::as_fd(directory));
            }
            slots.insert(at, Slot::new(branch, BranchMode::ReadOnly, register));
            Ok(())
        })
    }

    /// Takes a branch out. What is open in it stays open.
    fn remove(&self, which: &str) -> Answer {
        self.change(|slots, register| {
            let position = find(slots, which)?;
            if slots.len() == 1 {
                return Err(refused("the last branch of a union cannot be removed"));
            }
            let removed = slots.remove(position);
            register.leave(removed.member.tag);
            Ok(())
        })
    }

    /// Changes what a branch may be used for.
    fn set_mode(&self, which: &str, mode: BranchMode) -> Answer {
        self.change(|slots, _| {
            let position = find(slots, which)?;
            let slot = &mut slots[position];
            if mode != BranchMode::ReadOnly && slot.member.file_system.properties().read_only {
                return Err(refused(&format!("{} can only be read", slot.member.label)));
            }
            if mode == BranchMode::ReadOnly {
                self.none_is_direct(&slot.member)?;
            }
            slot.mode = mode;
            Ok(())
        })
    }

    /// Gives a branch another place.
    fn move_to(&self, which: &str, at: usize) -> Answer {
        self.change(|slots, _| {
            let position = find(slots, which)?;
            if at >= slots.len() {
                return Err(bad_place(slots));
            }
            let slot = slots.remove(position);
            slots.insert(at, slot);
            Ok(())
        })
    }

    /// Changes the branches as a whole or not at all, and tells the front end. The answer is the list of branches.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut Vec<Slot>, &mut Register) -> Result<(), ControlError>,
    ) -> Answer {
        let changing = self.changes.write().unwrap_or_else(PoisonError::into_inner);
        let mut slots: Vec<Slot> = self.branches.slots().iter().cloned().collect();
        let mut register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = register.clone();
        change(&mut slots, &mut changed)?;
        self.branches.replace(slots, &changed);
        *register = changed;
        self.recover();
        // Directories are known by the branch that was there first: where that is another now, those in use have to be found
        // by both.
        for directory in self.table.directories() {
            // What is lost says so when it is used.
            let _ = directory.refresh();
        }
        drop((register, changing));
        let notifier = self.notifier.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(notifier) = notifier {
            notifier.everything_changed();
        }
        Ok(self.list())
    }

    /// `Refused` if the kernel may be reading or writing files of the branch by itself: it would not notice that they are
    /// copied, or not to be written.
    fn none_is_direct(&self, member: &Arc<Member>) -> Result<(), ControlError> {
        let files = self.direct_in(member);
        if files.is_empty() {
            return Ok(());
        }
        let name = |file: &Arc<UnionFile>| {
            let path = vnode::Vnode::path(&*file.node).unwrap_or_default();
            String::from_utf8_lossy(&path).into_owned()
        };
        let names: Vec<String> = files.iter().take(NAMED).map(name).collect();
        let more = if files.len() > NAMED { ", …" } else { "" };
        Err(refused(&format!("{} files of {} are open: {}{more}", files.len(), member.label, names.join(", "))))
    }

    /// The open files of a branch that the kernel may be reading and writing by itself.
    pub(super) fn direct_in(&self, member: &Arc<Member>) -> Vec<Arc<UnionFile>> {
        let files: Vec<Arc<UnionFile>> = self.direct_files().values().filter_map(std::sync::Weak::upgrade).collect();
        files.into_iter().filter(|file| Arc::ptr_eq(&file.node.leftmost().member, member)).collect()
    }
}

/// The arguments of a command.
struct Arguments<'a>(&'a Control);

impl Arguments<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.arguments.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    fn required(&self, key: &str) -> Result<&str, ControlError> {
        self.get(key).ok_or_else(|| missing(key))
    }

    fn position(&self) -> Result<Option<usize>, ControlError> {
        let parse = |text: &str| text.parse().map_err(|_| ControlError::BadArgument(format!("at={text} is no place")));
        self.get("at").map(parse).transpose()
    }

    fn mode(&self) -> Result<BranchMode, ControlError> {
        let text = self.required("mode")?;
        let modes = [BranchMode::ReadWrite, BranchMode::ReadOnly, BranchMode::NoCreate];
        let found = modes.into_iter().find(|mode| mode.to_string() == text);
        found.ok_or_else(|| ControlError::BadArgument(format!("mode={text}: a branch is rw, ro or nc")))
    }
}

/// The place of the branch that is called so, by its stack expression or its number from 0.
fn find(slots: &[Slot], which: &str) -> Result<usize, ControlError> {
    let by_label = slots.iter().position(|slot| slot.member.label == which);
    let by_number = || which.parse().ok().filter(|number| *number < slots.len());
    by_label.or_else(by_number).ok_or_else(|| {
        let known: Vec<&str> = slots.iter().map(|slot| slot.member.label.as_str()).collect();
        ControlError::BadArgument(format!("there is no branch {which}; there are {}", known.join(", ")))
    })
}

fn bad_place(slots: &[Slot]) -> ControlError {
    ControlError::BadArgument(format!("there are {} branches, counted from 0", slots.len()))
}

fn missing(key: &str) -> ControlError {
    ControlError::BadArgument(format!("{key}= is missing"))
}

pub(super) fn refused(why: &str) -> ControlError {
    ControlError::Refused(why.to_owned())
}
