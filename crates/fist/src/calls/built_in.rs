//! The built-in functions.

use super::arguments::{self, CallArgument};
use super::{Calls, LOWER_REQUEST_WORK, Object, allocate_text};
use crate::builtins::{Attribute, BuiltIn as B};
use crate::ciphers;
use crate::code::Operand;
use crate::format::{self, Value};
use crate::memory::{self, Memory};
use crate::numbers::NO_REPLACE;
use crate::program::Type;
use crate::trap::TrapKind;

/// Maximum length of a log message in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Cost of operations that take more work than copying bytes: a fixed amount, and one per byte.
struct WorkCost(u64, u64);

/// Sealing, hashing, random bytes.
const CIPHER_COST: WorkCost = WorkCost(4096, 8);
/// Blowfish; its key schedule may have to be computed.
const BLOWFISH_COST: WorkCost = WorkCost(32 << 10, 16);
/// Compression and decompression: each starts by setting up tables.
const COMPRESSION_COST: WorkCost = WorkCost(64 << 10, 8);

impl WorkCost {
    const fn for_bytes(&self, bytes: usize) -> u64 {
        self.0 + self.1 * bytes as u64
    }
}

impl Calls<'_> {
    /// Executes a built-in function.
    pub(crate) fn built_in(
        &mut self,
        memory: &mut Memory<'_>,
        function: B,
        operands: &[Operand],
        values: &[i64],
    ) -> Result<i64, TrapKind> {
        let arguments = arguments::decode_all(operands, values, memory)?;
        match function {
            B::LastError => Ok(self.host.last_error().into()),
            B::SetError | B::ReturnError => self.set_error(function, &arguments),
            B::Print => self.print(&arguments, memory),
            B::Lookup
            | B::ReadDirectory
            | B::SkipName
            | B::Operate
            | B::Rename
            | B::Unlink
            | B::MakeDirectory
            | B::CopyFile => self.call_file_system(function, &arguments, memory).map(i64::from),
            B::IsMode | B::IsDirectory | B::IsFile | B::IsSymlink => self.test_file_type(function, &arguments, memory),
            B::GetIoctlData | B::SetIoctlData | B::GetFileData | B::SetFileData => {
                self.call_field_function(function, &arguments, memory)
            }
            B::StringEqual | B::StringAdd | B::StringLength => self.call_string_function(function, &arguments, memory),
            B::MemoryCopy | B::MemoryCompare | B::MemorySet | B::Allocate | B::Free => {
                self.call_memory_function(function, &arguments, memory)
            }
            _ => self.call_codec(function, &arguments, memory),
        }
    }

    fn set_error(&mut self, function: B, arguments: &[CallArgument<'_>]) -> Result<i64, TrapKind> {
        if let CallArgument::Integer(value, _) = arguments[0] {
            // Either sign is accepted.
            self.host.set_error(i32::try_from(value.unsigned_abs()).unwrap_or(self.program.target.error("EIO")));
        }
        if function == B::ReturnError { Err(TrapKind::Finished) } else { Ok(0) }
    }

    fn print(&mut self, arguments: &[CallArgument<'_>], memory: &mut Memory<'_>) -> Result<i64, TrapKind> {
        let CallArgument::Text(text) = arguments[0] else { return Err(TrapKind::NullPointer) };
        let mut strings = Vec::new();
        for one in &arguments[1..] {
            strings.push(match one {
                CallArgument::Integer(..) => Vec::new(),
                other => other.string(memory, self.host)?,
            });
        }
        let values = arguments[1..].iter().zip(&strings).map(|(one, string)| match one {
            CallArgument::Integer(value, integer) => Value::Integer(*value, integer.bytes),
            _ => Value::Text(string),
        });
        memory.meter().charge(format::width(text) as u64)?;
        let mut message = format::print(text, &values.collect::<Vec<_>>());
        message.truncate(MAX_MESSAGE_BYTES);
        self.request_lower(memory, |host| host.print(&message))?;
        Ok(0)
    }

    fn call_file_system(
        &mut self,
        function: B,
        arguments: &[CallArgument<'_>],
        memory: &mut Memory<'_>,
    ) -> Result<i32, TrapKind> {
        let id = |one: &CallArgument<'_>| match one {
            CallArgument::Integer(value, _) => Some(*value as u32),
            _ => None,
        };
        Ok(match function {
            B::Lookup => {
                let name = arguments[1].string(memory, self.host)?;
                let slot = match &arguments[2] {
                    CallArgument::Object(Object::Argument(argument)) => Some(*argument),
                    _ => None,
                };
                let directory = arguments[0].object()?;
                self.request_lower(memory, |host| {
                    host.lookup(&directory, &name, slot, id(&arguments[3]), id(&arguments[4]))
                })?
            }
            B::ReadDirectory => {
                let skips_seen = id(&arguments[1]).is_some_and(|flags| flags & 1 != 0);
                let directory = arguments[0].object()?;
                self.request_lower(memory, |host| host.read_directory(&directory, skips_seen))?
            }
            B::SkipName => {
                let name = match &arguments[0] {
                    CallArgument::Missing => None,
                    one => Some(one.string(memory, self.host)?),
                };
                memory.meter().charge(LOWER_REQUEST_WORK)?;
                self.host.skip_name(name.as_deref());
                0
            }
            B::Operate => {
                let object = arguments[0].object()?;
                self.request_lower(memory, |host| host.operate(&object))?
            }
            B::Rename => {
                let (name, to_name) =
                    (arguments[1].string(memory, self.host)?, arguments[3].string(memory, self.host)?);
                let (from, to) = (arguments[0].object()?, arguments[2].object()?);
                let replaces = match &arguments[4] {
                    CallArgument::Missing => true,
                    flags => flags.integer()? & NO_REPLACE == 0,
                };
                self.request_lower(memory, |host| host.rename(&from, &name, &to, &to_name, replaces))?
            }
            B::Unlink => {
                let name = arguments[1].string(memory, self.host)?;
                let directory = arguments[0].object()?;
                self.request_lower(memory, |host| host.unlink(&directory, &name))?
            }
            B::MakeDirectory => {
                let name = arguments[1].string(memory, self.host)?;
                let (directory, mode) = (arguments[0].object()?, arguments[2].integer()? as u32);
                self.request_lower(memory, |host| host.make_directory(&directory, &name, mode))?
            }
            _ => {
                let to = arguments[1].string(memory, self.host)?;
                let directory = match &arguments[2] {
                    CallArgument::Missing => None,
                    other => Some(other.object()?),
                };
                let from = arguments[0].object()?;
                self.request_lower(memory, |host| host.copy_file(&from, &to, directory.as_ref()))?
            }
        })
    }

    fn test_file_type(
        &mut self,
        function: B,
        arguments: &[CallArgument<'_>],
        memory: &mut Memory<'_>,
    ) -> Result<i64, TrapKind> {
        let object = arguments[0].object()?;
        if function == B::IsMode {
            let wanted = arguments[1].integer()?;
            let mode = self.request_lower(memory, |host| host.attribute(Attribute::Mode, &object))?;
            return Ok((mode >= 0 && mode & wanted == wanted).into());
        }
        let kind = match function {
            B::IsDirectory => "S_IFDIR",
            B::IsFile => "S_IFREG",
            _ => "S_IFLNK",
        };
        let found = self.request_lower(memory, |host| host.attribute(Attribute::Kind, &object))?;
        Ok((found == self.program.target.flag(kind)).into())
    }

    /// Executes the functions on fields of ioctls and of auxiliary data files.
    fn call_field_function(
        &mut self,
        function: B,
        arguments: &[CallArgument<'_>],
        memory: &mut Memory<'_>,
    ) -> Result<i64, TrapKind> {
        let is_file = matches!(function, B::GetFileData | B::SetFileData);
        let (CallArgument::Field(structure, field), value) =
            (&arguments[is_file as usize], &arguments[is_file as usize + 1])
        else {
            return Err(TrapKind::NullPointer);
        };
        let whole = &self.program.structures[*structure];
        let field = &whole.fields[*field];
        let (offset, size) = (field.offset as usize, self.program.size(&field.r#type) as usize);
        if matches!(function, B::GetIoctlData | B::GetFileData) {
            memory.charge_copy(size)?;
            let mut read = vec![0; size];
            if is_file {
                let (file, bytes) = (arguments[0].object()?, whole.size as usize);
                memory.charge_copy(bytes)?;
                match self.request_lower(memory, |host| host.read_file_data(&file, bytes))? {
                    Ok(data) => read.copy_from_slice(&data[offset..offset + size]),
                    Err(error) => return Ok(error.into()),
                }
            } else if !self.host.ioctl_data(*structure, &mut |data| read.copy_from_slice(&data[offset..offset + size]))
            {
                return Ok(self.error_result("EINVAL"));
            }
            match &field.r#type {
                Type::Integer(integer) => {
                    value.write_integer(memory::load(&read, *integer, memory.order()), memory, self.host)?
                }
                _ => value.write(&read, memory, self.host)?,
            }
            return Ok(0);
        }
        let mut bytes = match value {
            CallArgument::Integer(value, _) => {
                let mut bytes = vec![0; size.min(8)];
                memory.order().write(*value, &mut bytes);
                bytes
            }
            other => other.read_up_to(size, memory, self.host)?,
        };
        memory.charge_copy(size)?;
        bytes.resize(size, 0);
        if is_file {
            let (file, all) = (arguments[0].object()?, whole.size as usize);
            memory.charge_copy(all)?;
            return self.request_lower(memory, |host| host.write_file_data(&file, all, offset, &bytes).into());
        }
        let is_written =
            self.host.ioctl_data(*structure, &mut |data| data[offset..offset + size].copy_from_slice(&bytes));
        Ok(if is_written { 0 } else { self.error_result("EINVAL") })
    }

    /// Returns an error as built-in functions do.
    fn error_result(&self, name: &str) -> i64 {
        -i64::from(self.program.target.error(name))
    }

    fn call_string_function(
        &mut self,
        function: B,
        arguments: &[CallArgument<'_>],
        memory: &mut Memory<'_>,
    ) -> Result<i64, TrapKind> {
        let mut one = arguments[0].string(memory, self.host)?;
        match function {
            B::StringLength => Ok(one.len() as i64),
            B::StringEqual => Ok((one == arguments[1].string(memory, self.host)?).into()),
            _ => {
                one.extend(arguments[1].string(memory, self.host)?);
                allocate_text(memory, one)
            }
        }
    }

    fn call_memory_function(
        &mut self,
        function: B,
        arguments: &[CallArgument<'_>],
        memory: &mut Memory<'_>,
    ) -> Result<i64, TrapKind> {
        match function {
            B::MemoryCopy => {
                let bytes = arguments[1].bytes(arguments[2].length()?, memory, self.host)?;
                arguments[0].write(&bytes, memory, self.host)?;
            }
            B::MemoryCompare => {
                let length = arguments[2].length()?;
                let (one, other) =
                    (arguments[0].bytes(length, memory, self.host)?, arguments[1].bytes(length, memory, self.host)?);
                return Ok(one.cmp(&other) as i64);
            }
            B::MemorySet => {
                arguments[0].fill(arguments[1].integer()? as u8, arguments[2].length()?, memory, self.host)?;
            }
            B::Allocate => {
                let length = arguments[0].length()?;
                memory.charge_copy(length)?;
                return memory.allocate(memory::try_filled(0, length)?);
            }
            _ => memory.free(arguments[0].pointer()?)?,
        }
        Ok(0)
    }

    /// Executes ciphers, hashes and compression.
    fn call_codec(
        &mut self,
        function: B,
        arguments: &[CallArgument<'_>],
        memory: &mut Memory<'_>,
    ) -> Result<i64, TrapKind> {
        match function {
            B::BlowfishSetKey => {
                let key = arguments[2].bytes(arguments[1].length()?, memory, self.host)?;
                arguments[0].write(&key, memory, self.host)?;
            }
            B::BlowfishCfb => {
                memory.meter().charge(BLOWFISH_COST.for_bytes(arguments[2].length()?))?;
                let mut data = arguments[0].bytes(arguments[2].length()?, memory, self.host)?;
                let key = arguments[3].read_up_to(ciphers::MAX_BLOWFISH_KEY_BYTES, memory, self.host)?;
                let mut iv = [0; 8];
                iv.copy_from_slice(&arguments[4].bytes(8, memory, self.host)?);
                let position = arguments[5].current_integer(memory, self.host)?;
                let is_encrypting = arguments[6].integer()? != 0;
                let position = ciphers::blowfish_cfb(&key, &mut iv, position as usize % 8, is_encrypting, &mut data);
                arguments[1].write(&data, memory, self.host)?;
                arguments[4].write(&iv, memory, self.host)?;
                arguments[5].write_integer(position as i64, memory, self.host)?;
            }
            B::Seal | B::Unseal => {
                memory.meter().charge(CIPHER_COST.for_bytes(arguments[2].length()?))?;
                let data = arguments[1].bytes(arguments[2].length()?, memory, self.host)?;
                let key = arguments[3].bytes(ciphers::KEY_BYTES, memory, self.host)?;
                let nonce = arguments[4].bytes(ciphers::NONCE_BYTES, memory, self.host)?;
                let number = arguments[5].integer()? as u64;
                let coded = match function {
                    B::Seal => ciphers::seal(&key, &nonce, number, &data),
                    _ => ciphers::unseal(&key, &nonce, number, &data),
                };
                let Some(coded) = coded else { return Ok(self.error_result("EBADMSG")) };
                arguments[0].write(&coded, memory, self.host)?;
                return Ok(coded.len() as i64);
            }
            B::Hash => {
                memory.meter().charge(CIPHER_COST.for_bytes(arguments[2].length()?))?;
                let data = arguments[1].bytes(arguments[2].length()?, memory, self.host)?;
                arguments[0].write(&ciphers::hash(&data), memory, self.host)?;
            }
            B::Random => {
                let length = arguments[1].length()?;
                memory.meter().charge(CIPHER_COST.for_bytes(length))?;
                memory.charge_copy(length)?;
                let mut bytes = memory::try_filled(0, length)?;
                self.host.random(&mut bytes);
                arguments[0].write(&bytes, memory, self.host)?;
            }
            _ => {
                let (capacity, length) = (arguments[1].length()?, arguments[3].length()?);
                memory.meter().charge(COMPRESSION_COST.for_bytes(capacity + length))?;
                memory.charge_copy(capacity)?;
                let mut coded = memory::try_filled(0, capacity)?;
                let data = arguments[2].bytes(length, memory, self.host)?;
                let (length, error) = match function {
                    B::Compress => (ciphers::compress(&data, &mut coded), "ENOSPC"),
                    _ => (ciphers::decompress(&data, &mut coded), "EBADMSG"),
                };
                let Some(length) = length else { return Ok(self.error_result(error)) };
                arguments[0].write(&coded[..length], memory, self.host)?;
                return Ok(length as i64);
            }
        }
        Ok(0)
    }
}
