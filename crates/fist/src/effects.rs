//! Effects: what a host call may do besides returning a value, for a back end that generates code for another
//! environment, such as a kernel, where some operations are not allowed in every context.
//!
//! Memory allocation does not count as sleeping: it succeeds at once, or the run traps.

use std::fmt;
use std::ops::BitOr;

use crate::builtins::{BuiltIn, Global};
use crate::code;
use crate::ir::{Area, Operand, Site};

/// Effects of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// May sleep: it calls the lower layer or prints to a log, and either may take any time.
    pub sleeps: bool,
    /// Runs with, or asks for, the credentials of the operation's caller.
    pub needs_credentials: bool,
    /// Takes a lock: of data that operations share, or of directories and files in the lower layer.
    pub takes_locks: bool,
}

impl Effects {
    const NONE: Effects = Effects { sleeps: false, needs_credentials: false, takes_locks: false };
    const SLEEPS: Effects = Effects { sleeps: true, ..Effects::NONE };
    const CREDENTIALS: Effects = Effects { needs_credentials: true, ..Effects::NONE };
    const LOCKS: Effects = Effects { takes_locks: true, ..Effects::NONE };
    const ALL: Effects = Effects { sleeps: true, needs_credentials: true, takes_locks: true };
}

impl BitOr for Effects {
    type Output = Effects;

    fn bitor(self, other: Effects) -> Effects {
        Effects {
            sleeps: self.sleeps | other.sleeps,
            needs_credentials: self.needs_credentials | other.needs_credentials,
            takes_locks: self.takes_locks | other.takes_locks,
        }
    }
}

impl fmt::Display for Effects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (self.sleeps, "may sleep"),
            (self.needs_credentials, "needs credentials"),
            (self.takes_locks, "takes locks"),
        ];
        let words: Vec<_> = words.into_iter().filter(|(holds, _)| *holds).map(|(_, words)| words).collect();
        formatter.write_str(&if words.is_empty() { "only computes".to_owned() } else { words.join(", ") })
    }
}

impl BuiltIn {
    /// Effects of the built-in function.
    pub const fn effects(self) -> Effects {
        use BuiltIn as B;
        match self {
            B::Lookup
            | B::ReadDirectory
            | B::Operate
            | B::Rename
            | B::Unlink
            | B::MakeDirectory
            | B::CopyFile
            | B::GetFileData
            | B::SetFileData => Effects::ALL,
            // The server itself requests the attributes.
            B::IsMode | B::IsDirectory | B::IsFile | B::IsSymlink | B::Print => Effects::SLEEPS,
            B::LastError
            | B::SetError
            | B::ReturnError
            | B::SkipName
            | B::GetIoctlData
            | B::SetIoctlData
            | B::StringEqual
            | B::StringAdd
            | B::StringLength
            | B::MemoryCopy
            | B::MemoryCompare
            | B::MemorySet
            | B::Allocate
            | B::Free
            | B::BlowfishSetKey
            | B::BlowfishCfb
            | B::Seal
            | B::Unseal
            | B::Hash
            | B::Random
            | B::Compress
            | B::Decompress => Effects::NONE,
        }
    }
}

impl Global {
    /// Effects of reading the global.
    pub const fn effects(self) -> Effects {
        match self {
            Global::User | Global::Group | Global::Process | Global::Session => Effects::CREDENTIALS,
            Global::BlockSize => Effects::SLEEPS,
            Global::Time | Global::PageSize => Effects::NONE,
        }
    }
}

/// Effects of accessing shared data.
fn of_area(area: &Area) -> Effects {
    match area {
        // Mount data do not change.
        Area::Mount => Effects::NONE,
        Area::Vfs | Area::Data(_) => Effects::LOCKS,
        // The object is looked up in the lower layer.
        Area::Argument(_) | Area::Object => Effects::LOCKS | Effects::SLEEPS,
    }
}

/// Effects of assigning a numeric argument of the operation: the lower layer checks whether the caller may request it.
const ASSIGNING: Effects = Effects { sleeps: true, ..Effects::CREDENTIALS };

impl Site {
    /// Effects of the call.
    pub fn effects(&self) -> Effects {
        match self {
            Site::BuiltIn(function, operands) => {
                operands.iter().map(Operand::effects).fold(function.effects(), BitOr::bitor)
            }
            Site::Global(global) => global.effects(),
            Site::OperationValue(_) => Effects::NONE,
            Site::Assign(_, operand) => ASSIGNING | operand.effects(),
            Site::Attribute(_, operand) => Effects::SLEEPS | operand.effects(),
            Site::Object(_) => Effects::SLEEPS,
            Site::Load(shared) | Site::Store(shared) | Site::Update { shared, .. } => of_area(&shared.area),
        }
    }
}

impl code::Site {
    /// Effects of the call.
    pub fn effects(&self) -> Effects {
        match self {
            code::Site::BuiltIn(function, operands) => {
                operands.iter().map(code::Operand::effects).fold(function.effects(), BitOr::bitor)
            }
            code::Site::Global(global) => global.effects(),
            code::Site::OperationValue(_) => Effects::NONE,
            code::Site::Assign(_, operand) => ASSIGNING | operand.effects(),
            code::Site::Attribute(_, operand) => Effects::SLEEPS | operand.effects(),
            code::Site::Object(_) => Effects::SLEEPS,
            code::Site::Load(shared, _) | code::Site::Store(shared, _) | code::Site::Update { shared, .. } => {
                of_area(&shared.area)
            }
        }
    }
}

impl Operand {
    fn effects(&self) -> Effects {
        match self {
            Operand::Shared(shared) | Operand::SharedOutInteger(shared) => of_area(&shared.area),
            _ => Effects::NONE,
        }
    }
}

impl code::Operand {
    fn effects(&self) -> Effects {
        match self {
            code::Operand::Shared(shared, _) | code::Operand::SharedOutInteger(shared, _) => of_area(&shared.area),
            _ => Effects::NONE,
        }
    }
}
