//! Decoding: from the bytes of one request to one typed operation that borrows from them.

use super::wire::{self, Opcode};
use vnode::Cancellation;
use zerocopy::FromBytes;

/// A request of the kernel.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// Identifies the request in its reply and in an INTERRUPT.
    pub(crate) unique: u64,
    /// The node to which it refers.
    pub(crate) node: u64,
    /// The caller's file-system user id (fsuid).
    pub(crate) uid: u32,
    /// The caller's file-system group id (fsgid).
    pub(crate) gid: u32,
    /// The caller's thread id, as seen from the server's PID namespace; 0 for the kernel itself.
    pub(crate) pid: u32,
    /// The operation, by number.
    pub(crate) opcode: Opcode,
    /// A supplementary group of the caller that a creation needs (that of the parent directory).
    pub(crate) supplementary_group: Option<u32>,
    /// Security contexts for a new object, as sent: checked for length, kept in the kernel's layout.
    pub(crate) security_contexts: &'a [u8],
    /// Cancels the request once it is being served.
    pub(crate) cancellation: Cancellation,
    /// The operation, with its arguments.
    pub(crate) operation: Operation<'a>,
}

/// An operation with its arguments. Names are bytes without the terminating zero.
#[derive(Debug)]
pub(crate) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget {
        forgets: ForgetList<'a>,
    },
    GetAttributes {
        handle: Option<u64>,
    },
    SetAttributes(wire::SetAttributesIn),
    ReadLink,
    SymbolicLink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        arguments: wire::MakeNodeIn,
        name: &'a [u8],
    },
    MakeDirectory {
        arguments: wire::MakeDirectoryIn,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDirectory {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        source: u64,
        name: &'a [u8],
    },
    Open(wire::OpenIn),
    Create {
        arguments: wire::CreateIn,
        name: &'a [u8],
    },
    TemporaryFile {
        arguments: wire::CreateIn,
        name: &'a [u8],
    },
    Read(wire::ReadIn),
    Write {
        arguments: wire::WriteIn,
        data: &'a [u8],
    },
    StatFs,
    Release(wire::ReleaseIn),
    Flush(wire::FlushIn),
    Fsync(wire::FsyncIn),
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
        extra_flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Init(wire::InitIn),
    OpenDirectory(wire::OpenIn),
    ReadDirectory {
        arguments: wire::ReadIn,
        plus: bool,
    },
    ReleaseDirectory(wire::ReleaseIn),
    FsyncDirectory(wire::FsyncIn),
    GetLock(wire::LockIn),
    SetLock {
        arguments: wire::LockIn,
        wait: bool,
    },
    Access {
        mask: u32,
    },
    Interrupt {
        unique: u64,
    },
    BlockMap,
    Destroy,
    Ioctl {
        arguments: wire::IoctlIn,
        data: &'a [u8],
    },
    Poll(wire::PollIn),
    NotifyReply,
    Fallocate(wire::FallocateIn),
    Seek(wire::SeekIn),
    CopyFileRange {
        arguments: wire::CopyFileRangeIn,
        long_result: bool,
    },
    SyncFs,
    Statx(wire::StatxIn),
    /// Known by number, never served: mappings of DAX windows.
    Unsupported,
}

/// The nodes of a BATCH_FORGET.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForgetList<'a> {
    records: &'a [u8],
}

impl<'a> ForgetList<'a> {
    /// Returns node ids, each with the number of lookups to drop, in the order sent.
    pub(crate) fn iter(self) -> impl Iterator<Item = wire::ForgetOne> + 'a {
        self.records
            .chunks_exact(size_of::<wire::ForgetOne>())
            .filter_map(|record| wire::ForgetOne::read_from_bytes(record).ok())
    }
}

/// The reason why a message is not a valid request. All but the first can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// Fewer bytes than a header, or a header whose length differs from that of the message.
    Header { received: usize },
    /// An operation unknown to this front end: ENOSYS.
    UnknownOpcode { unique: u64, number: u32 },
    /// Arguments too short, or a name without its terminating zero: EINVAL.
    Arguments { unique: u64, opcode: Opcode },
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::Header { received } => {
                write!(formatter, "a message of {received} bytes without a valid header")
            }
            DecodeError::UnknownOpcode { number, .. } => {
                write!(formatter, "unknown operation number {number}")
            }
            DecodeError::Arguments { opcode, .. } => {
                write!(formatter, "malformed arguments of {}", opcode.name())
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// Negotiated properties that change the layout of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestLayout {
    /// SETXATTR carries the longer structure.
    pub(crate) setxattr_long: bool,
}

/// Decodes one message as read from the device.
pub(crate) fn decode(message: &[u8], layout: RequestLayout) -> Result<Request<'_>, DecodeError> {
    let bad_header = DecodeError::Header { received: message.len() };
    let (header, body) = wire::InHeader::read_from_prefix(message).map_err(|_| bad_header)?;
    if header.length as usize != message.len() {
        return Err(bad_header);
    }
    let unique = header.unique;
    let opcode =
        Opcode::from_number(header.opcode).ok_or(DecodeError::UnknownOpcode { unique, number: header.opcode })?;
    let malformed = DecodeError::Arguments { unique, opcode };
    let extensions_length = usize::from(header.extensions_length_8) * 8;
    let arguments_length = body.len().checked_sub(extensions_length).ok_or(malformed)?;
    let (arguments, extensions) = body.split_at(arguments_length);
    let extensions = Extensions::decode(extensions).ok_or(malformed)?;
    let operation = Operation::decode(opcode, Reader { rest: arguments }, layout).ok_or(malformed)?;
    Ok(Request {
        unique,
        node: header.node,
        uid: header.uid,
        gid: header.gid,
        pid: header.pid,
        opcode,
        supplementary_group: extensions.supplementary_group,
        security_contexts: extensions.security_contexts,
        cancellation: Cancellation::default(),
        operation,
    })
}

impl<'a> Operation<'a> {
    /// Decodes the arguments of `opcode`; returns `None` if they are too short. Bytes beyond the known ones are the additions
    /// of a newer kernel and are skipped.
    fn decode(opcode: Opcode, mut reader: Reader<'a>, layout: RequestLayout) -> Option<Operation<'a>> {
        let reader = &mut reader;
        Some(match opcode {
            Opcode::Lookup => Operation::Lookup { name: reader.name()? },
            Opcode::Forget => Operation::Forget { lookups: reader.take::<wire::ForgetIn>()?.lookups },
            Opcode::BatchForget => Operation::BatchForget { forgets: reader.forgets()? },
            Opcode::GetAttributes => {
                let arguments: wire::GetAttributesIn = reader.take()?;
                let valid = arguments.flags & wire::GETATTR_HANDLE != 0;
                Operation::GetAttributes { handle: valid.then_some(arguments.handle) }
            }
            Opcode::SetAttributes => Operation::SetAttributes(reader.take()?),
            Opcode::Statx => Operation::Statx(reader.take()?),
            Opcode::Access => Operation::Access { mask: reader.take::<wire::AccessIn>()?.mask },
            Opcode::StatFs => Operation::StatFs,
            Opcode::SyncFs => Operation::SyncFs,
            Opcode::Init => Operation::Init(reader.init()?),
            Opcode::Destroy => Operation::Destroy,
            Opcode::Interrupt => Operation::Interrupt { unique: reader.take::<wire::InterruptIn>()?.unique },
            Opcode::NotifyReply => Operation::NotifyReply,
            Opcode::SetUpMapping | Opcode::RemoveMapping => Operation::Unsupported,
            Opcode::ReadLink
            | Opcode::SymbolicLink
            | Opcode::MakeNode
            | Opcode::MakeDirectory
            | Opcode::Unlink
            | Opcode::RemoveDirectory
            | Opcode::Rename
            | Opcode::Rename2
            | Opcode::Link
            | Opcode::Create
            | Opcode::TemporaryFile => Operation::decode_name_operation(opcode, reader)?,
            Opcode::SetXattr | Opcode::GetXattr | Opcode::ListXattr | Opcode::RemoveXattr => {
                Operation::decode_xattr_operation(opcode, reader, layout)?
            }
            _ => Operation::decode_file_operation(opcode, reader)?,
        })
    }

    /// Decodes operations that create, remove or follow names.
    fn decode_name_operation(opcode: Opcode, reader: &mut Reader<'a>) -> Option<Operation<'a>> {
        Some(match opcode {
            Opcode::ReadLink => Operation::ReadLink,
            Opcode::SymbolicLink => Operation::SymbolicLink { name: reader.name()?, target: reader.name()? },
            Opcode::MakeNode => Operation::MakeNode { arguments: reader.take()?, name: reader.name()? },
            Opcode::MakeDirectory => Operation::MakeDirectory { arguments: reader.take()?, name: reader.name()? },
            Opcode::Unlink => Operation::Unlink { name: reader.name()? },
            Opcode::RemoveDirectory => Operation::RemoveDirectory { name: reader.name()? },
            Opcode::Rename => {
                let new_parent = reader.take::<wire::RenameIn>()?.new_parent;
                let (name, new_name) = (reader.name()?, reader.name()?);
                Operation::Rename { name, new_parent, new_name, flags: 0 }
            }
            Opcode::Rename2 => {
                let wire::Rename2In { new_parent, flags, .. } = reader.take()?;
                let (name, new_name) = (reader.name()?, reader.name()?);
                Operation::Rename { name, new_parent, new_name, flags }
            }
            Opcode::Link => {
                let source = reader.take::<wire::LinkIn>()?.node;
                Operation::Link { source, name: reader.name()? }
            }
            Opcode::Create => Operation::Create { arguments: reader.take()?, name: reader.name()? },
            Opcode::TemporaryFile => Operation::TemporaryFile { arguments: reader.take()?, name: reader.name()? },
            _ => return None,
        })
    }

    /// Decodes operations on extended attributes.
    fn decode_xattr_operation(opcode: Opcode, reader: &mut Reader<'a>, layout: RequestLayout) -> Option<Operation<'a>> {
        Some(match opcode {
            Opcode::SetXattr => {
                let arguments: wire::SetXattrIn = if layout.setxattr_long {
                    reader.take()?
                } else {
                    let wire::SetXattrShortIn { size, flags } = reader.take()?;
                    wire::SetXattrIn { size, flags, ..Default::default() }
                };
                Operation::SetXattr {
                    name: reader.name()?,
                    value: reader.bytes(arguments.size)?,
                    flags: arguments.flags,
                    extra_flags: arguments.setxattr_flags,
                }
            }
            Opcode::GetXattr => {
                let size = reader.take::<wire::GetXattrIn>()?.size;
                Operation::GetXattr { name: reader.name()?, size }
            }
            Opcode::ListXattr => Operation::ListXattr { size: reader.take::<wire::GetXattrIn>()?.size },
            Opcode::RemoveXattr => Operation::RemoveXattr { name: reader.name()? },
            _ => return None,
        })
    }

    /// Decodes operations on open files and directories.
    fn decode_file_operation(opcode: Opcode, reader: &mut Reader<'a>) -> Option<Operation<'a>> {
        Some(match opcode {
            Opcode::Open => Operation::Open(reader.take()?),
            Opcode::Read => Operation::Read(reader.take()?),
            Opcode::Write => {
                let arguments: wire::WriteIn = reader.take()?;
                Operation::Write { arguments, data: reader.bytes(arguments.size)? }
            }
            Opcode::Release => Operation::Release(reader.take()?),
            Opcode::Flush => Operation::Flush(reader.take()?),
            Opcode::Fsync => Operation::Fsync(reader.take()?),
            Opcode::OpenDirectory => Operation::OpenDirectory(reader.take()?),
            Opcode::ReadDirectory => Operation::ReadDirectory { arguments: reader.take()?, plus: false },
            Opcode::ReadDirectoryPlus => Operation::ReadDirectory { arguments: reader.take()?, plus: true },
            Opcode::ReleaseDirectory => Operation::ReleaseDirectory(reader.take()?),
            Opcode::FsyncDirectory => Operation::FsyncDirectory(reader.take()?),
            Opcode::GetLock => Operation::GetLock(reader.take()?),
            Opcode::SetLock => Operation::SetLock { arguments: reader.take()?, wait: false },
            Opcode::SetLockWait => Operation::SetLock { arguments: reader.take()?, wait: true },
            Opcode::BlockMap => reader.take::<wire::BlockMapIn>().map(|_| Operation::BlockMap)?,
            Opcode::Ioctl => {
                let arguments: wire::IoctlIn = reader.take()?;
                Operation::Ioctl { arguments, data: reader.bytes(arguments.in_size)? }
            }
            Opcode::Poll => Operation::Poll(reader.take()?),
            Opcode::Fallocate => Operation::Fallocate(reader.take()?),
            Opcode::Seek => Operation::Seek(reader.take()?),
            Opcode::CopyFileRange => Operation::CopyFileRange { arguments: reader.take()?, long_result: false },
            Opcode::CopyFileRange64 => Operation::CopyFileRange { arguments: reader.take()?, long_result: true },
            _ => return None,
        })
    }
}

/// The extensions that follow the arguments of a creation.
#[derive(Default)]
struct Extensions<'a> {
    supplementary_group: Option<u32>,
    security_contexts: &'a [u8],
}

impl<'a> Extensions<'a> {
    fn decode(mut block: &'a [u8]) -> Option<Extensions<'a>> {
        let mut extensions = Extensions::default();
        while !block.is_empty() {
            let header = wire::ExtensionHeader::read_from_prefix(block).ok()?.0;
            let size = header.size as usize;
            let body = block.get(size_of::<wire::ExtensionHeader>()..size)?;
            if header.kind == wire::extension::GROUPS {
                extensions.supplementary_group = first_group(body)?;
            } else if header.kind <= wire::extension::SECURITY_CONTEXTS_MAX {
                check_security_contexts(body, header.kind)?;
                extensions.security_contexts = body;
            }
            // The last record of a block may lack its padding.
            block = block.get(wire::record_align(size)..).unwrap_or_default();
        }
        Some(extensions)
    }
}

/// Returns the first group: the kernel sends one group at most; an empty list means no group.
fn first_group(body: &[u8]) -> Option<Option<u32>> {
    let mut reader = Reader { rest: body };
    match reader.take::<u32>()? {
        0 => Some(None),
        _ => reader.take::<u32>().map(Some),
    }
}

fn check_security_contexts(body: &[u8], count: u32) -> Option<()> {
    let mut reader = Reader { rest: body };
    for _ in 0..count {
        let before = reader.rest.len();
        let context: wire::SecurityContext = reader.take()?;
        reader.name()?;
        reader.bytes(context.size)?;
        let used = before - reader.rest.len();
        reader.rest = reader.rest.get(wire::record_align(used) - used..).unwrap_or_default();
    }
    Some(())
}

/// Reads arguments from the front of a message; every step checks the length.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take<T: FromBytes>(&mut self) -> Option<T> {
        let (value, rest) = self.rest.split_at_checked(size_of::<T>())?;
        self.rest = rest;
        T::read_from_bytes(value).ok()
    }

    /// Takes the bytes up to a zero byte, which is consumed too.
    fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|&byte| byte == 0)?;
        let name = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Some(name)
    }

    fn bytes(&mut self, length: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length as usize)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Takes the arguments of INIT, which grew once: kernels before 7.36 send only the first four words.
    fn init(&mut self) -> Option<wire::InitIn> {
        const SHORT: usize = 16;
        let sent = self.rest.len().min(size_of::<wire::InitIn>());
        if sent < SHORT {
            return None;
        }
        let mut whole = [0; size_of::<wire::InitIn>()];
        whole[..sent].copy_from_slice(&self.rest[..sent]);
        wire::InitIn::read_from_bytes(&whole).ok()
    }

    fn forgets(&mut self) -> Option<ForgetList<'a>> {
        let count = self.take::<wire::BatchForgetIn>()?.count as usize;
        let length = count.checked_mul(size_of::<wire::ForgetOne>())?;
        Some(ForgetList { records: self.rest.get(..length)? })
    }
}

#[cfg(test)]
mod tests;
