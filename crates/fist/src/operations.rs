//! Operations that rules can be for, and the sets that contain them (FiST, section 2.3.4).

/// An operation of a file system, by its index in [`OPERATIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operation(pub u8);

/// A set of operations, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations(pub u64);

impl Operations {
    /// The intersection of two sets.
    #[must_use]
    pub const fn and(self, other: Operations) -> Operations {
        Operations(self.0 & other.0)
    }

    /// The union of two sets.
    #[must_use]
    pub const fn or(self, other: Operations) -> Operations {
        Operations(self.0 | other.0)
    }

    /// The set without this operation.
    #[must_use]
    pub const fn without(self, operation: Operation) -> Operations {
        Operations(self.0 & !(1 << operation.0))
    }

    /// Returns whether the set contains the operation.
    pub const fn contains(self, operation: Operation) -> bool {
        self.0 >> operation.0 & 1 != 0
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the operations.
    pub fn iter(self) -> impl Iterator<Item = Operation> {
        (0..64).map(Operation).filter(move |operation| self.contains(*operation))
    }
}

/// Properties of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name: the system call's, if there is one.
    pub name: &'static str,
    /// Its effect, for the reference and editors.
    pub summary: &'static str,
    /// Whether it changes the state of the file system; `None` where that is not known.
    pub changes: Option<bool>,
    /// Its subject.
    pub about: About,
}

/// The subject of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// An object.
    Object,
    /// The data of a file.
    Data,
    /// A name in a directory.
    Name,
    /// A name to be created in a directory.
    NewName,
    /// A name to be removed from a directory.
    OldName,
}

impl About {
    /// Returns whether the subject is a name.
    pub const fn is_name(self) -> bool {
        matches!(self, About::Name | About::NewName | About::OldName)
    }
}

const fn kind(name: &'static str, changes: Option<bool>, about: About, summary: &'static str) -> Kind {
    Kind { name, summary, changes, about }
}

const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);

/// All of them.
pub const OPERATIONS: [Kind; 36] = [
    kind("getattr", NO, About::Object, "asks for attributes: stat(2)"),
    kind("setattr", YES, About::Object, "changes attributes: chmod(2), chown(2), truncate(2), utimensat(2)"),
    kind("access", NO, About::Object, "asks what the user may do: access(2)"),
    kind("lookup", NO, About::Name, "finds the object of a name in a directory: a part of every path"),
    kind("parent", NO, About::Object, "finds the directory that a directory is in"),
    kind("create", YES, About::NewName, "makes a file and opens it: open(2) with O_CREAT"),
    kind("mkdir", YES, About::NewName, "makes a directory: mkdir(2)"),
    kind("mknod", YES, About::NewName, "makes a fifo, socket or device: mknod(2)"),
    kind("symlink", YES, About::NewName, "makes a symbolic link: symlink(2)"),
    kind("link", YES, About::NewName, "gives an object one more name: link(2)"),
    kind("unlink", YES, About::OldName, "takes a name away: unlink(2)"),
    kind("rmdir", YES, About::OldName, "removes an empty directory: rmdir(2)"),
    kind("rename", YES, About::OldName, "renames: rename(2)"),
    kind("readlink", NO, About::Object, "asks where a symbolic link points to: readlink(2)"),
    kind("open", NO, About::Object, "opens a file: open(2)"),
    kind("opendir", NO, About::Object, "opens a directory: opendir(3)"),
    kind("readdir", NO, About::Object, "reads the names in a directory: readdir(3)"),
    kind("statfs", NO, About::Object, "asks how much room there is: statfs(2)"),
    kind("getxattr", NO, About::Object, "reads an extended attribute: getxattr(2)"),
    kind("setxattr", YES, About::Object, "writes an extended attribute: setxattr(2)"),
    kind("listxattr", NO, About::Object, "lists the extended attributes: listxattr(2)"),
    kind("removexattr", YES, About::Object, "removes an extended attribute: removexattr(2)"),
    kind("tmpfile", YES, About::Object, "makes a file without a name: open(2) with O_TMPFILE"),
    kind("ioctl", None, About::Object, "gives a command: ioctl(2)"),
    kind("read", NO, About::Data, "reads data: read(2)"),
    kind("write", YES, About::Data, "writes data: write(2)"),
    kind("truncate", YES, About::Data, "sets the size of an open file: ftruncate(2)"),
    kind("flush", NO, About::Object, "closes a descriptor: close(2)"),
    kind("fsync", NO, About::Object, "makes what was written stable: fsync(2)"),
    kind("fallocate", YES, About::Data, "reserves or punches a range: fallocate(2)"),
    kind("lseek", NO, About::Data, "looks for data or a hole: lseek(2)"),
    kind("copy_file_range", YES, About::Data, "copies a range from file to file: copy_file_range(2)"),
    kind("lock", None, About::Object, "locks a file: flock(2), fcntl(2)"),
    kind("getlk", NO, About::Object, "asks for a lock: fcntl(2)"),
    kind("poll", NO, About::Object, "waits until a file is ready: poll(2)"),
    kind("release", NO, About::Object, "the last descriptor of an open file is closed"),
];

impl Operation {
    /// Its properties.
    pub const fn kind(self) -> &'static Kind {
        &OPERATIONS[self.0 as usize]
    }

    /// Returns the operation with this name.
    pub fn by_name(name: &str) -> Option<Operation> {
        OPERATIONS.iter().position(|kind| kind.name == name).map(|index| Operation(index as u8))
    }
}

/// Returns the operations whose properties satisfy a predicate.
fn of_kind(is_one: impl Fn(&Kind) -> bool) -> Operations {
    let bits = OPERATIONS.iter().enumerate().filter(|(_, kind)| is_one(kind)).map(|(index, _)| 1 << index);
    Operations(bits.fold(0, |all, bit: u64| all | bit))
}

/// Returns the operations of a set.
pub fn set(name: &str) -> Option<Operations> {
    Some(match name {
        "op" | "ops" => of_kind(|_| true),
        "readops" => of_kind(|kind| kind.changes == NO),
        "writeops" => of_kind(|kind| kind.changes == YES),
        "delops" => of_kind(|kind| kind.about == About::OldName),
        "createops" => of_kind(|kind| kind.about == About::NewName || kind.name == "tmpfile"),
        _ => return None,
    })
}

/// Returns the operations of a type: all, those on names, those on data, or a single one.
pub fn of_type(name: &str) -> Option<Operations> {
    match name {
        "all" => Some(of_kind(|_| true)),
        "name" => Some(of_kind(|kind| kind.about.is_name() || kind.name == "readdir")),
        "data" => Some(of_kind(|kind| kind.about == About::Data)),
        _ => Operation::by_name(name).map(|operation| Operations(1 << operation.0)),
    }
}

/// The part of an operation that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Before the operation.
    PreCall,
    /// In place of the operation; for `readdir`, once per name.
    Call,
    /// After the operation.
    PostCall,
}

impl Part {
    /// Its name in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Part::PreCall => "precall",
            Part::Call => "call",
            Part::PostCall => "postcall",
        }
    }

    /// Returns the part with this name.
    pub fn by_name(name: &str) -> Option<Part> {
        [Part::PreCall, Part::Call, Part::PostCall].into_iter().find(|part| part.name() == name)
    }
}
