//! The register: by which numbers each branch is known, so that identities stay the same when branches come and go.
//!
//! It is a file `.wh..wh.plyfs/branches` in every branch that a union has written, one line for each branch that the union
//! has or had: its tag, its serial number, and its stack expression.

use vnode::{Result, VnodeRef};

use super::identity::hash;
use super::work::{self, Work};

/// No register is longer.
const BYTES_MAX: u64 = 1 << 20;

/// What is known of branches, those of earlier included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Register {
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    tag: u16,
    serial: u32,
    label: String,
    /// A branch of this union has the line.
    is_taken: bool,
}

impl Register {
    /// That of the branch with this root, if it has one.
    ///
    /// # Errors
    /// Those of reading it: without it, objects would get other numbers.
    pub(super) fn of(root: &VnodeRef) -> Result<Option<Self>> {
        let Some(state) = work::state_of(root)? else { return Ok(None) };
        let Some(file) = work::find(&state, work::name(Work::REGISTER))? else { return Ok(None) };
        // One that is no text is one that is not there: the numbers are made anew.
        Ok(String::from_utf8(work::read_all(&file, BYTES_MAX)?).ok().map(|text| Self::of_text(&text)))
    }

    /// The tag and serial number of a branch: those that it had, or new ones.
    pub(super) fn enter(&mut self, label: &str) -> (u16, u32) {
        if let Some(line) = self.lines.iter_mut().find(|line| line.label == label && !line.is_taken) {
            line.is_taken = true;
            return (line.tag, line.serial);
        }
        let serial = self.lines.iter().map(|line| line.serial + 1).max().unwrap_or(0);
        // The first keeps the inode numbers as they are.
        let mut tag = if serial == 0 { 0 } else { (hash(label.as_bytes()) >> 48) as u16 };
        while self.lines.iter().any(|line| line.tag == tag) {
            tag = tag.wrapping_add(1);
        }
        self.lines.push(Line { tag, serial, label: label.to_owned(), is_taken: true });
        (tag, serial)
    }

    /// A branch has this tag, unless another has: it is known by it already.
    pub(super) fn enter_as(&mut self, label: &str, tag: u16) {
        let serial = self.lines.iter().map(|line| line.serial + 1).max().unwrap_or(0);
        self.lines.push(Line { tag, serial, label: label.to_owned(), is_taken: true });
    }

    /// A branch gets the tag that it has in another register, if that is free, when it enters: after all others.
    pub(super) fn prefer(&mut self, other: &Self, label: &str) {
        self.lines.retain(|line| line.label != label);
        let known = other.lines.iter().find(|line| line.label == label);
        if let Some(known) = known.filter(|known| known.tag != 0 && self.lines.iter().all(|line| line.tag != known.tag))
        {
            self.enter_as(label, known.tag);
            self.leave(known.tag);
        }
    }

    /// A branch has left: if it comes back, it is known.
    pub(super) fn leave(&mut self, tag: u16) {
        self.lines.iter_mut().filter(|line| line.tag == tag).for_each(|line| line.is_taken = false);
    }

    /// As it is written.
    pub(super) fn to_text(&self) -> String {
        self.lines.iter().map(|line| format!("{} {} {}\n", line.tag, line.serial, line.label)).collect()
    }

    fn of_text(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (tag, serial) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Line { tag, serial, label: words.next()?.to_owned(), is_taken: false })
        };
        Self { lines: text.lines().filter_map(line).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_known_again() {
        let mut register = Register::default();
        assert_eq!(register.enter("/a"), (0, 0));
        let b = register.enter("/b c");
        assert_eq!((b.0 != 0, b.1), (true, 1));
        let mut again = Register::of_text(&register.to_text());
        let new = again.enter("/new");
        assert_eq!((again.enter("/b c"), again.enter("/a"), new.1), (b, (0, 0), 2));
        let twice = again.enter("/a");
        assert!(twice.0 != 0 && twice.1 == 3, "two branches of one name are two");
        again.leave(b.0);
        assert_eq!(again.enter("/b c"), b);
    }

    #[test]
    fn what_cannot_be_read_is_nobody() {
        let mut register = Register::of_text("x\n1\n70000 1 /a\n\n5 2 /b\n");
        assert_eq!(register.enter("/b"), (5, 2));
        assert_eq!(register.enter("/a").1, 3);
    }
}
