//! File handles of the kernel, and the vnode handles derived from them.

use rustix::io::Errno as SystemError;
use vnode::{Errno, HANDLE_MAX, Handle, InodeNumber, Result};

/// Maximum number of bytes of a kernel file handle: what a [`Handle`] leaves after its form, type, device and mount.
pub(crate) const FILE_HANDLE_MAX: usize = HANDLE_MAX - 18;

/// A file handle as returned by name_to_handle_at(2): the object's identity on its file system, generation included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileHandle {
    kind: u8,
    length: u8,
    bytes: [u8; FILE_HANDLE_MAX],
}

impl FileHandle {
    /// Creates a handle from the kernel's type number and bytes.
    ///
    /// # Errors
    /// `EOVERFLOW` for a type or length that does not fit into a vnode handle.
    pub(crate) fn new(kind: i32, handle: &[u8]) -> std::result::Result<Self, SystemError> {
        let kind = u8::try_from(kind).map_err(|_| SystemError::OVERFLOW)?;
        let mut bytes = [0; FILE_HANDLE_MAX];
        bytes.get_mut(..handle.len()).ok_or(SystemError::OVERFLOW)?.copy_from_slice(handle);
        Ok(Self { kind, length: handle.len() as u8, bytes })
    }

    /// Returns the kernel's type number.
    pub(crate) fn kind(&self) -> i32 {
        i32::from(self.kind)
    }

    /// Returns the bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Returns the offset of the inode number in the handle, for file systems that store it there: the low 32 bits, in this
    /// machine's byte order.
    pub(crate) fn inode_offset(&self, ino: InodeNumber) -> Option<usize> {
        let number = (ino.get() as u32).to_ne_bytes();
        (0..self.as_bytes().len()).step_by(4).find(|&offset| self.as_bytes()[offset..].starts_with(&number))
    }
}

/// The kernel's handle as stored in vnodes: most fit into 21 bytes, and 1,000,000 vnodes should be small.
#[derive(Debug)]
pub(crate) enum CompactHandle {
    /// Stored inline.
    Short {
        /// The kernel's type number.
        kind: u8,
        /// Number of valid bytes.
        length: u8,
        /// The bytes, zero past the length.
        bytes: [u8; 21],
    },
    /// Stored on the heap.
    Long(Box<FileHandle>),
}

impl CompactHandle {
    /// Returns whether this is `handle`.
    pub(crate) fn is(&self, handle: &FileHandle) -> bool {
        match self {
            Self::Short { kind, length, bytes } => {
                *kind == handle.kind && bytes[..usize::from(*length)] == *handle.as_bytes()
            }
            Self::Long(long) => **long == *handle,
        }
    }

    /// Returns the complete handle.
    pub(crate) fn expand(&self) -> FileHandle {
        match self {
            Self::Short { kind, length, bytes } => {
                let mut whole = [0; FILE_HANDLE_MAX];
                whole[..bytes.len()].copy_from_slice(bytes);
                FileHandle { kind: *kind, length: *length, bytes: whole }
            }
            Self::Long(long) => **long,
        }
    }
}

impl From<&FileHandle> for CompactHandle {
    fn from(handle: &FileHandle) -> Self {
        let mut bytes = [0; 21];
        match bytes.get_mut(..usize::from(handle.length)) {
            Some(room) => {
                room.copy_from_slice(handle.as_bytes());
                Self::Short { kind: handle.kind, length: handle.length, bytes }
            }
            None => Self::Long(Box::new(*handle)),
        }
    }
}

/// The decoded content of a vnode handle of this base. The first byte encodes the form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WireHandle {
    /// A kernel handle on the root's file system (form 1).
    Root(FileHandle),
    /// A kernel handle on another file system, by its device number (form 2).
    Device(u64, FileHandle),
    /// A kernel handle by an additional mount of a file system of the tree (form 4): valid as long as that mount.
    Mount {
        /// The device number.
        device: u64,
        /// The mount ID.
        mount: u64,
        /// The kernel's handle.
        handle: FileHandle,
    },
    /// Mount, device, inode number and creation time (form 3): valid only while the vnode is live.
    Inode {
        /// The mount ID.
        mount: u64,
        /// The device number.
        device: u64,
        /// The inode number on its device.
        ino: InodeNumber,
        /// Distinguishes the object from earlier ones with that number.
        generation: u64,
    },
}

impl WireHandle {
    /// Returns the encoded vnode handle.
    pub(crate) fn encode(&self) -> Handle {
        let mut bytes = [0; HANDLE_MAX];
        let mut length = 0;
        let mut put = |part: &[u8]| {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        };
        match self {
            Self::Root(handle) => {
                put(&[1, handle.kind]);
                put(handle.as_bytes());
            }
            Self::Device(device, handle) => {
                put(&[2, handle.kind]);
                put(&device.to_le_bytes());
                put(handle.as_bytes());
            }
            Self::Mount { device, mount, handle } => {
                put(&[4, handle.kind]);
                put(&device.to_le_bytes());
                put(&mount.to_le_bytes());
                put(handle.as_bytes());
            }
            Self::Inode { mount, device, ino, generation } => {
                put(&[3, 0]);
                put(&mount.to_le_bytes());
                put(&device.to_le_bytes());
                put(&ino.get().to_le_bytes());
                put(&generation.to_le_bytes());
            }
        }
        Handle::new(&bytes[..length]).expect("every form fits by the choice of FILE_HANDLE_MAX")
    }

    /// Decodes `handle`.
    ///
    /// # Errors
    /// `ESTALE` if it was never a handle of this base.
    pub(crate) fn decode(handle: &Handle) -> Result<Self> {
        let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
        let decoded = match handle.as_bytes() {
            [1, kind, bytes @ ..] => FileHandle::new(i32::from(*kind), bytes).ok().map(Self::Root),
            [2, kind, rest @ ..] if rest.len() >= 8 => {
                let handle = FileHandle::new(i32::from(*kind), &rest[8..]).ok();
                number(&rest[..8]).zip(handle).map(|(device, handle)| Self::Device(device, handle))
            }
            [4, kind, rest @ ..] if rest.len() >= 16 => (|| {
                let handle = FileHandle::new(i32::from(*kind), &rest[16..]).ok()?;
                Some(Self::Mount { device: number(&rest[..8])?, mount: number(&rest[8..16])?, handle })
            })(),
            [3, 0, rest @ ..] if rest.len() == 32 => (|| {
                let (mount, device) = (number(&rest[..8])?, number(&rest[8..16])?);
                let ino = InodeNumber::new(number(&rest[16..24])?);
                Some(Self::Inode { mount, device, ino, generation: number(&rest[24..])? })
            })(),
            _ => None,
        };
        decoded.ok_or(Errno::ESTALE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_survives_encoding() {
        let short = FileHandle::new(1, &[7; 12]).unwrap();
        let long = FileHandle::new(0x4d, &[9; FILE_HANDLE_MAX]).unwrap();
        for wire in [
            WireHandle::Root(short),
            WireHandle::Root(long),
            WireHandle::Device(0x1234_5678_9abc, long),
            WireHandle::Mount { device: 7, mount: 1 << 40, handle: long },
            WireHandle::Inode { mount: 3, device: 5, ino: InodeNumber::new(u64::MAX), generation: 1 },
        ] {
            assert_eq!(WireHandle::decode(&wire.encode()), Ok(wire));
        }
        assert_eq!(CompactHandle::from(&short).expand(), short);
        assert_eq!(CompactHandle::from(&long).expand(), long);
        assert!(CompactHandle::from(&short).is(&short) && !CompactHandle::from(&short).is(&long));
    }

    #[test]
    fn foreign_bytes_are_stale() {
        for bytes in [&[][..], &[0], &[1], &[2, 1, 0], &[3, 0, 1], &[4; 17], &[9; 48], &[1; 48]] {
            match WireHandle::decode(&Handle::new(bytes).unwrap()) {
                Err(errno) => assert_eq!(errno, Errno::ESTALE),
                Ok(wire) => assert_eq!(bytes, [1], "{wire:?}"),
            }
        }
        assert_eq!(WireHandle::decode(&Handle::new(&[1; 48]).unwrap()), Err(Errno::ESTALE));
    }
}
