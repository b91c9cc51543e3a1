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

use super::encoding::hash;
use super::state_directory::{self, LATER_VERSION};
use super::{encoding, objects};

/// Maximum size of a register in bytes.
const MAX_REGISTER_BYTES: u64 = 1 << 20;

/// First line.
const HEADER: &str = "plyfs branches 2";
/// First line of the form without root handles.
const HEADER_WITHOUT_ROOTS: &str = "plyfs branches 1";

/// Error passed up for a register that is not text. No file system returns it.
pub(crate) const NOT_TEXT: Errno = Errno::new(libc::EMEDIUMTYPE);

/// Identifiers of branches, by their tags.
pub(crate) type BranchIdentifiers = HashMap<u16, u64>;

/// Numbers of all known branches, former ones included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BranchRegister {
    lines: Vec<RegisterLine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RegisterLine {
    numbers: BranchNumbers,
    location: BranchLocation,
    label: String,
    /// Whether a branch of this union has the line.
    is_in_use: bool,
}

/// Location of a branch, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BranchLocation {
    /// Identifier of its file system.
    fsid: Option<u64>,
    /// Handle of its root there. Some file systems assign a new one at each mount.
    root: Option<Handle>,
}

impl BranchLocation {
    /// The location of a branch.
    pub(crate) fn of(branch: &FileSystemRef) -> Self {
        let is_lasting = branch.properties().promises.persistent_handles;
        Self { fsid: branch.fsid(), root: is_lasting.then(|| branch.root().handle()) }
    }

    /// Returns whether both are certainly the same.
    fn is(&self, other: &Self) -> bool {
        self.fsid.is_some() && self.root.is_some() && self == other
    }
}

/// Numbers by which a branch is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BranchNumbers {
    /// Tag in its handles and inode numbers: 0 for the first branch.
    pub(crate) tag: u16,
    /// Serial number: lower for older branches.
    pub(crate) serial: u32,
    /// Identifier that no other branch has.
    pub(crate) identifier: u64,
}

impl RegisterLine {
    /// Returns whether the line may belong to a branch. A file system without an identifier may be the same.
    fn may_be(&self, label: &str, location: &BranchLocation) -> bool {
        let is_other = self.location.fsid.zip(location.fsid).is_some_and(|(own, other)| own != other);
        self.location.is(location) || self.label == label && !is_other
    }
}

impl BranchRegister {
    /// Reads the register of the branch with this root, if it has one.
    ///
    /// # Errors
    /// Errors from reading it: without it, objects would get other numbers. [`LATER_VERSION`] if it has a form of later
    /// versions, [`NOT_TEXT`].
    pub(crate) fn of(root: &VnodeRef) -> Result<Option<Self>> {
        let Some(state) = state_directory::state_of(root)? else { return Ok(None) };
        let Some(file) = state_directory::find_own(&state, state_directory::REGISTER)? else { return Ok(None) };
        let text = String::from_utf8(objects::read_all(&file, MAX_REGISTER_BYTES)?).map_err(|_| NOT_TEXT)?;
        Self::parse(&text)
    }

    /// The numbers of a branch: its former ones, or new ones.
    pub(crate) fn register(&mut self, label: &str, location: BranchLocation) -> BranchNumbers {
        let is_same = |line: &&mut RegisterLine| line.may_be(label, &location) && !line.is_in_use;
        // The line that is certainly the branch's, or the latest that may be.
        let sureness = |line: &&mut RegisterLine| {
            (line.location.is(&location), line.location.fsid == location.fsid, line.numbers.serial)
        };
        if let Some(line) = self.lines.iter_mut().filter(is_same).max_by_key(sureness) {
            line.is_in_use = true;
            line.location = BranchLocation {
                fsid: line.location.fsid.or(location.fsid),
                root: location.root.or(line.location.root),
            };
            // The list shows its present spelling.
            label.clone_into(&mut line.label);
            return line.numbers;
        }
        let serial = self.next_serial();
        let fsid = location.fsid.map(u64::to_le_bytes);
        let fsid = fsid.as_ref().map_or(&[][..], |fsid| &fsid[..]);
        // Input from which other unions of the branch compute the same identifier.
        let named = match &location.root {
            Some(root) if !fsid.is_empty() => root.as_bytes(),
            _ => label.as_bytes(),
        };
        let hashed = |salt: u32| hash(&[named, b"\n", fsid, &salt.to_le_bytes()].concat());
        let is_new = |identifier: &u64| self.lines.iter().all(|line| line.numbers.identifier != *identifier);
        let identifier = (0..).map(hashed).find(is_new).expect("there are more numbers than lines");
        // The first branch keeps its inode numbers unchanged.
        let mut tag = if serial == 0 { 0 } else { (identifier >> 48) as u16 };
        while self.lines.iter().any(|line| line.numbers.tag == tag) {
            tag = tag.wrapping_add(1);
        }
        let numbers = BranchNumbers { tag, serial, identifier };
        self.lines.push(RegisterLine { numbers, location, label: label.to_owned(), is_in_use: true });
        numbers
    }

    /// Enters a branch with its numbers from another register, as present, unless another branch has its tag.
    pub(crate) fn import(&mut self, other: &Self, tag: u16) {
        let numbers = other.lines.iter().find(|line| line.numbers.tag == tag);
        if let Some(line) = numbers.filter(|_| self.lines.iter().all(|line| line.numbers.tag != tag)) {
            let numbers = BranchNumbers { serial: self.next_serial(), ..line.numbers };
            self.lines.push(RegisterLine { numbers, ..line.clone() });
        }
    }

    /// Gives a branch the tag that it has in another register, if that is free, when it enters: after all others.
    pub(crate) fn prefer_tag_from(&mut self, other: &Self, label: &str, location: &BranchLocation) {
        self.lines.retain(|line| !line.may_be(label, location));
        let numbers = other.lines.iter().find(|line| line.may_be(label, location));
        if let Some(tag) = numbers.map(|line| line.numbers.tag).filter(|tag| *tag != 0) {
            self.import(other, tag);
            self.release(tag);
        }
    }

    fn next_serial(&self) -> u32 {
        self.lines.iter().map(|line| line.numbers.serial + 1).max().unwrap_or(0)
    }

    /// Identifiers of all branches.
    pub(crate) fn identifiers(&self) -> BranchIdentifiers {
        self.lines.iter().map(|line| (line.numbers.tag, line.numbers.identifier)).collect()
    }

    /// Marks a branch as removed: it is recognized when it is added again.
    pub(crate) fn release(&mut self, tag: u16) {
        self.lines.iter_mut().filter(|line| line.numbers.tag == tag).for_each(|line| line.is_in_use = false);
    }

    /// The register as text.
    pub(crate) fn to_text(&self) -> String {
        let line = |RegisterLine { numbers: BranchNumbers { tag, serial, identifier }, location, label, .. }: &RegisterLine| {
            let fsid = location.fsid.map_or("-".to_owned(), |fsid| format!("{fsid:016x}"));
            let root = location.root.map_or("-".to_owned(), |root| encoding::to_hex(root.as_bytes()));
            format!("{tag} {serial} {identifier:016x} {fsid} {root} {label}\n")
        };
        std::iter::once(format!("{HEADER}\n")).chain(self.lines.iter().map(line)).collect()
    }

    /// # Errors
    /// [`LATER_VERSION`].
    fn parse(text: &str) -> Result<Option<Self>> {
        let (form, lines) = text.split_once('\n').unwrap_or((text, ""));
        let read =
            |line: fn(&str) -> Option<RegisterLine>| Ok(Some(Self { lines: lines.lines().filter_map(line).collect() }));
        match form {
            HEADER => read(RegisterLine::parse),
            HEADER_WITHOUT_ROOTS => read(RegisterLine::without_root),
            _ if state_directory::is_later_version(text, HEADER) => Err(LATER_VERSION),
            _ => Ok(None),
        }
    }
}

impl RegisterLine {
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.splitn(6, ' ').collect();
        let [tag, serial, identifier, fsid, root, label] = words[..] else { return None };
        Self::parse_words([tag, serial, identifier, fsid], root, label)
    }

    fn without_root(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.splitn(5, ' ').collect();
        let [tag, serial, identifier, fsid, label] = words[..] else { return None };
        Self::parse_words([tag, serial, identifier, fsid], "-", label)
    }

    fn parse_words([tag, serial, identifier, fsid]: [&str; 4], root: &str, label: &str) -> Option<Self> {
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let numbers =
            BranchNumbers { tag: tag.parse().ok()?, serial: serial.parse().ok()?, identifier: number(identifier)? };
        let fsid = if fsid == "-" { None } else { Some(number(fsid)?) };
        let root = if root == "-" { None } else { Some(Handle::new(&encoding::from_hex(root)?).ok()?) };
        Some(Self { numbers, location: BranchLocation { fsid, root }, label: label.to_owned(), is_in_use: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The register as the next union reads it.
    fn again(register: &BranchRegister) -> BranchRegister {
        BranchRegister::parse(&register.to_text()).unwrap().unwrap()
    }

    /// A branch of that file system with an unknown root handle.
    fn on(fsid: Option<u64>) -> BranchLocation {
        BranchLocation { fsid, root: None }
    }

    fn identity(numbers: BranchNumbers) -> (u16, u64) {
        (numbers.tag, numbers.identifier)
    }

    #[test]
    fn branches_keep_their_numbers() {
        let mut register = BranchRegister::default();
        let a = register.register("/a", on(Some(7)));
        assert_eq!((a.tag, a.serial), (0, 0));
        let b = register.register("/b c", on(None));
        assert_eq!((b.tag != 0, b.serial), (true, 1));
        let mut again = again(&register);
        let new = again.register("/new", on(None));
        assert_eq!((again.register("/b c", on(None)), again.register("/a", on(Some(7))), new.serial), (b, a, 2));
        let twice = again.register("/a", on(Some(7)));
        assert!(twice.tag != 0 && twice.serial == 3 && twice.identifier != a.identifier, "two of one name are two");
        again.release(b.tag);
        assert_eq!(again.register("/b c", on(None)), b);
    }

    #[test]
    fn another_disk_at_the_same_path_is_another_branch() {
        let mut register = BranchRegister::default();
        let first = register.register("/media", on(Some(1)));
        let mut changed = again(&register);
        let second = changed.register("/media", on(Some(2)));
        assert!(second.tag != first.tag && second.identifier != first.identifier);
        let mut back = again(&changed);
        assert_eq!([back.register("/media", on(Some(1))), back.register("/media", on(Some(2)))], [first, second]);
        // A file system without an identifier may be the same, and counts as the same once it has one.
        let mut silent = BranchRegister::default();
        let unknown = silent.register("/nfs", on(None));
        let mut telling = again(&silent);
        assert_eq!(telling.register("/nfs", on(Some(3))), unknown);
        assert_ne!(identity(again(&telling).register("/nfs", on(Some(4)))), identity(unknown));
        assert_eq!(again(&telling).register("/nfs", on(None)), unknown);
    }

    #[test]
    fn independent_unions_compute_the_same_identifier() {
        let (mut one, mut other) = (BranchRegister::default(), BranchRegister::default());
        one.register("/a", on(Some(1)));
        let shared = one.register("/shared", on(Some(2)));
        assert_eq!(other.register("/shared", on(Some(2))).identifier, shared.identifier);
    }

    #[test]
    fn view_branch_keeps_its_tag_unless_taken() {
        let (mut common, mut own) = (BranchRegister::default(), BranchRegister::default());
        common.register("/a", on(None));
        own.register("/a", on(None));
        let numbers = own.register("/private", on(Some(5)));
        common.prefer_tag_from(&own, "/private", &on(Some(5)));
        assert_eq!(identity(common.register("/private", on(Some(5)))), identity(numbers));
    }

    #[test]
    fn branch_is_recognized_by_its_root_handle() {
        let at = |fsid, root: &[u8]| BranchLocation { fsid: Some(fsid), root: Some(Handle::new(root).unwrap()) };
        let mut register = BranchRegister::default();
        let low = register.register("/low", at(1, b"low"));
        let mut respelled = again(&register);
        assert_eq!(respelled.register("/link/to low", at(1, b"low")), low);
        // It was moved, and another directory took its place.
        let mut moved = again(&register);
        assert_eq!(moved.register("/moved", at(1, b"low")), low);
        assert_ne!(moved.register("/low", at(1, b"other")).identifier, low.identifier);
        // A file system that assigns new root handles at each mount.
        let mut mounted = again(&register);
        assert_eq!(mounted.register("/low", at(1, b"low, again")), low);
        assert_eq!(again(&mounted).register("/elsewhere", at(1, b"low, again")), low);
        assert_ne!(again(&register).register("/elsewhere", at(2, b"low")).identifier, low.identifier);
        // A register written before roots were recorded.
        let text = format!("{HEADER_WITHOUT_ROOTS}\n0 0 {:016x} {:016x} /low\n", low.identifier, 1);
        let mut earlier = BranchRegister::parse(&text).unwrap().unwrap();
        assert_eq!(earlier.register("/low", at(1, b"low")), low);
        assert_eq!(again(&earlier).register("/link", at(1, b"low")), low);
        // Two unions that know nothing of each other, and spell it differently.
        let (mut one, mut other) = (BranchRegister::default(), BranchRegister::default());
        assert_eq!(one.register("/a", at(3, b"r")).identifier, other.register("/b/../a", at(3, b"r")).identifier);
    }

    #[test]
    fn unreadable_lines_are_skipped() {
        assert_eq!(BranchRegister::parse("0 0 /a\n"), Ok(None));
        let text = format!("{HEADER}\nx\n1\n70000 1 0 - - /a\n\n5 2 0 - - /b\n6 3 0 x - /c\n6 3 0 - x /d\n");
        let mut register = BranchRegister::parse(&text).unwrap().unwrap();
        assert_eq!(register.register("/b", on(None)), BranchNumbers { tag: 5, serial: 2, identifier: 0 });
        assert_eq!(register.register("/a", on(None)).serial, 3);
    }

    #[test]
    fn later_version_is_reported() {
        for text in ["plyfs branches 3\nanything", "plyfs branches 10"] {
            assert_eq!(BranchRegister::parse(text), Err(LATER_VERSION), "{text}");
        }
    }

    /// As documented in docs/formats/union-branch.md.
    #[test]
    fn documented_register_round_trips() {
        const FORMAT_DOCUMENTATION: &str =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/union-branch.md"));
        let text = FORMAT_DOCUMENTATION.split_once("LABEL\n0 0 ").unwrap().1.split_once("```").unwrap().0;
        let text = format!("{HEADER}\n0 0 {text}");
        let register = BranchRegister::parse(&text).unwrap().unwrap();
        assert_eq!((register.lines.len(), register.to_text()), (2, text));
    }
}
