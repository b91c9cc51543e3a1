//! The register: the numbers by which each branch is known, so that identities stay the same when branches are added and
//! removed.
//!
//! It is a file `.wh..wh.plyfs/branches` in every branch that a union has written: the form's version, and a line for each
//! branch that the union has or had: its tag, its serial number, its identifier, that of its file system, its root's handle
//! there, and its stack expression. A branch is identified by file system and root handle, however its expression is spelled,
//! and by the expression only where these are unknown. Another disk at the same path is another branch. Tags are short, and
//! another union may have assigned one to another branch; no two branches have the same identifier, whichever union computes
//! it.

use std::collections::HashMap;

use vnode::{Errno, FileSystemRef, Handle, Result, VnodeRef};

use super::work::{self, Work};
use crate::union::identity::{self, hash};

/// Maximum size of a register in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// First line.
const FORM: &str = "plyfs branches 2";
/// First line of the form without root handles.
const FORM_WITHOUT_ROOTS: &str = "plyfs branches 1";

/// Error passed up for a register of unknown form. No file system returns it.
pub(crate) const LATER: Errno = Errno::EPROTO;

/// Error passed up for a register that is not text. No file system returns it.
pub(crate) const NO_TEXT: Errno = Errno::new(libc::EMEDIUMTYPE);

/// Identifiers of branches, by their tags.
pub(crate) type Identifiers = HashMap<u16, u64>;

/// Numbers of all known branches, former ones included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Register {
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    known: Known,
    place: Place,
    label: String,
    /// Whether a branch of this union has the line.
    is_taken: bool,
}

/// Location of a branch, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Identifier of its file system.
    fsid: Option<u64>,
    /// Handle of its root there. Some file systems assign a new one at each mount.
    root: Option<Handle>,
}

impl Place {
    /// The location of a branch.
    pub(crate) fn of(branch: &FileSystemRef) -> Self {
        let is_lasting = branch.properties().persistent_handles;
        Self { fsid: branch.fsid(), root: is_lasting.then(|| branch.root().handle()) }
    }

    /// Returns whether both are certainly the same.
    fn is(&self, other: &Self) -> bool {
        self.fsid.is_some() && self.root.is_some() && self == other
    }
}

/// Numbers by which a branch is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Tag in its handles and inode numbers: 0 for the first branch.
    pub(crate) tag: u16,
    /// Serial number: lower for older branches.
    pub(crate) serial: u32,
    /// Identifier that no other branch has.
    pub(crate) identifier: u64,
}

impl Line {
    /// Returns whether the line may belong to a branch. A file system without an identifier may be the same.
    fn may_be(&self, label: &str, place: &Place) -> bool {
        let is_other = self.place.fsid.zip(place.fsid).is_some_and(|(own, other)| own != other);
        self.place.is(place) || self.label == label && !is_other
    }
}

impl Register {
    /// Reads the register of the branch with this root, if it has one.
    ///
    /// # Errors
    /// Errors from reading it: without it, objects would get other numbers. [`LATER`] if it has a form of later versions,
    /// [`NO_TEXT`].
    pub(crate) fn of(root: &VnodeRef) -> Result<Option<Self>> {
        let Some(state) = work::state_of(root)? else { return Ok(None) };
        let Some(file) = work::find(&state, work::name(Work::REGISTER))? else { return Ok(None) };
        let text = String::from_utf8(work::read_all(&file, BYTES_MAX)?).map_err(|_| NO_TEXT)?;
        Self::of_text(&text)
    }

    /// The numbers of a branch: its former ones, or new ones.
    pub(crate) fn enter(&mut self, label: &str, place: Place) -> Known {
        let is_same = |line: &&mut Line| line.may_be(label, &place) && !line.is_taken;
        // The line that is certainly the branch's, or the latest that may be.
        let sureness = |line: &&mut Line| (line.place.is(&place), line.place.fsid == place.fsid, line.known.serial);
        if let Some(line) = self.lines.iter_mut().filter(is_same).max_by_key(sureness) {
            line.is_taken = true;
            line.place = Place { fsid: line.place.fsid.or(place.fsid), root: place.root.or(line.place.root) };
            // The list shows its present spelling.
            label.clone_into(&mut line.label);
            return line.known;
        }
        let serial = self.next_serial();
        let fsid = place.fsid.map(u64::to_le_bytes);
        let fsid = fsid.as_ref().map_or(&[][..], |fsid| &fsid[..]);
        // Input from which other unions of the branch compute the same identifier.
        let named = match &place.root {
            Some(root) if !fsid.is_empty() => root.as_bytes(),
            _ => label.as_bytes(),
        };
        let hashed = |salt: u32| hash(&[named, b"\n", fsid, &salt.to_le_bytes()].concat());
        let is_new = |identifier: &u64| self.lines.iter().all(|line| line.known.identifier != *identifier);
        let identifier = (0..).map(hashed).find(is_new).expect("there are more numbers than lines");
        // The first branch keeps its inode numbers unchanged.
        let mut tag = if serial == 0 { 0 } else { (identifier >> 48) as u16 };
        while self.lines.iter().any(|line| line.known.tag == tag) {
            tag = tag.wrapping_add(1);
        }
        let known = Known { tag, serial, identifier };
        self.lines.push(Line { known, place, label: label.to_owned(), is_taken: true });
        known
    }

    /// Enters a branch with its numbers from another register, as present, unless another branch has its tag.
    pub(crate) fn enter_as(&mut self, other: &Self, tag: u16) {
        let known = other.lines.iter().find(|line| line.known.tag == tag);
        if let Some(line) = known.filter(|_| self.lines.iter().all(|line| line.known.tag != tag)) {
            let known = Known { serial: self.next_serial(), ..line.known };
            self.lines.push(Line { known, ..line.clone() });
        }
    }

    /// Gives a branch the tag that it has in another register, if that is free, when it enters: after all others.
    pub(crate) fn prefer(&mut self, other: &Self, label: &str, place: &Place) {
        self.lines.retain(|line| !line.may_be(label, place));
        let known = other.lines.iter().find(|line| line.may_be(label, place));
        if let Some(tag) = known.map(|line| line.known.tag).filter(|tag| *tag != 0) {
            self.enter_as(other, tag);
            self.leave(tag);
        }
    }

    fn next_serial(&self) -> u32 {
        self.lines.iter().map(|line| line.known.serial + 1).max().unwrap_or(0)
    }

    /// Identifiers of all branches.
    pub(crate) fn identifiers(&self) -> Identifiers {
        self.lines.iter().map(|line| (line.known.tag, line.known.identifier)).collect()
    }

    /// Marks a branch as removed: it is recognized when it is added again.
    pub(crate) fn leave(&mut self, tag: u16) {
        self.lines.iter_mut().filter(|line| line.known.tag == tag).for_each(|line| line.is_taken = false);
    }

    /// The register as text.
    pub(crate) fn to_text(&self) -> String {
        let line = |Line { known: Known { tag, serial, identifier }, place, label, .. }: &Line| {
            let fsid = place.fsid.map_or("-".to_owned(), |fsid| format!("{fsid:016x}"));
            let root = place.root.map_or("-".to_owned(), |root| identity::digits(root.as_bytes()));
            format!("{tag} {serial} {identifier:016x} {fsid} {root} {label}\n")
        };
        std::iter::once(format!("{FORM}\n")).chain(self.lines.iter().map(line)).collect()
    }

    /// # Errors
    /// [`LATER`].
    fn of_text(text: &str) -> Result<Option<Self>> {
        let (form, lines) = text.split_once('\n').unwrap_or((text, ""));
        let read = |line: fn(&str) -> Option<Line>| Ok(Some(Self { lines: lines.lines().filter_map(line).collect() }));
        match form {
            FORM => read(Line::of_text),
            FORM_WITHOUT_ROOTS => read(Line::without_root),
            _ if work::is_later(text, FORM) => Err(LATER),
            _ => Ok(None),
        }
    }
}

impl Line {
    fn of_text(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.splitn(6, ' ').collect();
        let [tag, serial, identifier, fsid, root, label] = words[..] else { return None };
        Self::of_words([tag, serial, identifier, fsid], root, label)
    }

    fn without_root(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.splitn(5, ' ').collect();
        let [tag, serial, identifier, fsid, label] = words[..] else { return None };
        Self::of_words([tag, serial, identifier, fsid], "-", label)
    }

    fn of_words([tag, serial, identifier, fsid]: [&str; 4], root: &str, label: &str) -> Option<Self> {
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let known = Known { tag: tag.parse().ok()?, serial: serial.parse().ok()?, identifier: number(identifier)? };
        let fsid = if fsid == "-" { None } else { Some(number(fsid)?) };
        let root = if root == "-" { None } else { Some(Handle::new(&identity::bytes(root)?).ok()?) };
        Some(Self { known, place: Place { fsid, root }, label: label.to_owned(), is_taken: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The register as the next union reads it.
    fn again(register: &Register) -> Register {
        Register::of_text(&register.to_text()).unwrap().unwrap()
    }

    /// A branch of that file system with an unknown root handle.
    fn on(fsid: Option<u64>) -> Place {
        Place { fsid, root: None }
    }

    fn identity(known: Known) -> (u16, u64) {
        (known.tag, known.identifier)
    }

    #[test]
    fn branches_are_known_again() {
        let mut register = Register::default();
        let a = register.enter("/a", on(Some(7)));
        assert_eq!((a.tag, a.serial), (0, 0));
        let b = register.enter("/b c", on(None));
        assert_eq!((b.tag != 0, b.serial), (true, 1));
        let mut again = again(&register);
        let new = again.enter("/new", on(None));
        assert_eq!((again.enter("/b c", on(None)), again.enter("/a", on(Some(7))), new.serial), (b, a, 2));
        let twice = again.enter("/a", on(Some(7)));
        assert!(twice.tag != 0 && twice.serial == 3 && twice.identifier != a.identifier, "two of one name are two");
        again.leave(b.tag);
        assert_eq!(again.enter("/b c", on(None)), b);
    }

    #[test]
    fn another_disk_at_the_same_place_is_another_branch() {
        let mut register = Register::default();
        let first = register.enter("/media", on(Some(1)));
        let mut changed = again(&register);
        let second = changed.enter("/media", on(Some(2)));
        assert!(second.tag != first.tag && second.identifier != first.identifier);
        let mut back = again(&changed);
        assert_eq!([back.enter("/media", on(Some(1))), back.enter("/media", on(Some(2)))], [first, second]);
        // A file system without an identifier may be the same, and counts as the same once it has one.
        let mut silent = Register::default();
        let unknown = silent.enter("/nfs", on(None));
        let mut telling = again(&silent);
        assert_eq!(telling.enter("/nfs", on(Some(3))), unknown);
        assert_ne!(identity(again(&telling).enter("/nfs", on(Some(4)))), identity(unknown));
        assert_eq!(again(&telling).enter("/nfs", on(None)), unknown);
    }

    #[test]
    fn unions_that_know_nothing_of_each_other_give_a_branch_one_identifier() {
        let (mut one, mut other) = (Register::default(), Register::default());
        one.enter("/a", on(Some(1)));
        let shared = one.enter("/shared", on(Some(2)));
        assert_eq!(other.enter("/shared", on(Some(2))).identifier, shared.identifier);
    }

    #[test]
    fn a_branch_of_a_view_has_the_tag_that_it_has_in_its_own_register_unless_another_has_it() {
        let (mut common, mut own) = (Register::default(), Register::default());
        common.enter("/a", on(None));
        own.enter("/a", on(None));
        let known = own.enter("/private", on(Some(5)));
        common.prefer(&own, "/private", &on(Some(5)));
        assert_eq!(identity(common.enter("/private", on(Some(5)))), identity(known));
    }

    #[test]
    fn a_branch_is_known_by_what_it_is_however_it_is_written() {
        let at = |fsid, root: &[u8]| Place { fsid: Some(fsid), root: Some(Handle::new(root).unwrap()) };
        let mut register = Register::default();
        let low = register.enter("/low", at(1, b"low"));
        let mut respelled = again(&register);
        assert_eq!(respelled.enter("/link/to low", at(1, b"low")), low);
        // It was moved, and another directory took its place.
        let mut moved = again(&register);
        assert_eq!(moved.enter("/moved", at(1, b"low")), low);
        assert_ne!(moved.enter("/low", at(1, b"other")).identifier, low.identifier);
        // A file system that assigns new root handles at each mount.
        let mut mounted = again(&register);
        assert_eq!(mounted.enter("/low", at(1, b"low, again")), low);
        assert_eq!(again(&mounted).enter("/elsewhere", at(1, b"low, again")), low);
        assert_ne!(again(&register).enter("/elsewhere", at(2, b"low")).identifier, low.identifier);
        // A register written before roots were recorded.
        let text = format!("{FORM_WITHOUT_ROOTS}\n0 0 {:016x} {:016x} /low\n", low.identifier, 1);
        let mut earlier = Register::of_text(&text).unwrap().unwrap();
        assert_eq!(earlier.enter("/low", at(1, b"low")), low);
        assert_eq!(again(&earlier).enter("/link", at(1, b"low")), low);
        // Two unions that know nothing of each other, and spell it differently.
        let (mut one, mut other) = (Register::default(), Register::default());
        assert_eq!(one.enter("/a", at(3, b"r")).identifier, other.enter("/b/../a", at(3, b"r")).identifier);
    }

    #[test]
    fn what_cannot_be_read_is_nobody() {
        assert_eq!(Register::of_text("0 0 /a\n"), Ok(None));
        let text = format!("{FORM}\nx\n1\n70000 1 0 - - /a\n\n5 2 0 - - /b\n6 3 0 x - /c\n6 3 0 - x /d\n");
        let mut register = Register::of_text(&text).unwrap().unwrap();
        assert_eq!(register.enter("/b", on(None)), Known { tag: 5, serial: 2, identifier: 0 });
        assert_eq!(register.enter("/a", on(None)).serial, 3);
    }

    #[test]
    fn a_form_of_later_versions_is_not_taken_for_none() {
        for text in ["plyfs branches 3\nanything", "plyfs branches 10"] {
            assert_eq!(Register::of_text(text), Err(LATER), "{text}");
        }
    }

    /// As documented in docs/formats/union-branch.md.
    #[test]
    fn the_register_in_the_documentation_is_read_and_written() {
        const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/union-branch.md"));
        let text = PAGE.split_once("LABEL\n0 0 ").unwrap().1.split_once("```").unwrap().0;
        let text = format!("{FORM}\n0 0 {text}");
        let register = Register::of_text(&text).unwrap().unwrap();
        assert_eq!((register.lines.len(), register.to_text()), (2, text));
    }
}
