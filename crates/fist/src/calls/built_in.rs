//! The built-in functions.

use super::given::{self, Given};
use super::{BELOW_WORK, Calls, Object, allocate_text};
use crate::builtins::{Attribute, BuiltIn as B};
use crate::ciphers;
use crate::code::Operand;
use crate::format::{self, Value};
use crate::memory::{self, Memory};
use crate::numbers::NO_REPLACE;
use crate::program::Type;
use crate::stop::Why;

/// Maximum length of a log message in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Cost of operations that take more work than copying bytes: a fixed amount, and one per byte.
struct Work(u64, u64);

/// Sealing, hashing, random bytes.
const CIPHER_WORK: Work = Work(4096, 8);
/// Blowfish; its key schedule may have to be computed.
const BLOWFISH_WORK: Work = Work(32 << 10, 16);
/// Compression and decompression: each starts by setting up tables.
const COMPRESSION_WORK: Work = Work(64 << 10, 8);

impl Work {
    const fn of(&self, bytes: usize) -> u64 {
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
    ) -> Result<i64, Why> {
        let given = given::all(operands, values, memory)?;
        match function {
            B::LastError => Ok(self.host.last_error().into()),
            B::SetError | B::ReturnError => self.set_error(function, &given),
            B::Print => self.print(&given, memory),
            B::Lookup
            | B::ReadDirectory
            | B::SkipName
            | B::Operate
            | B::Rename
            | B::Unlink
            | B::MakeDirectory
            | B::CopyFile => self.operate(function, &given, memory).map(i64::from),
            B::IsMode | B::IsDirectory | B::IsFile | B::IsSymlink => self.is(function, &given, memory),
            B::GetIoctlData | B::SetIoctlData | B::GetFileData | B::SetFileData => self.data(function, &given, memory),
            B::StringEqual | B::StringAdd | B::StringLength => self.strings(function, &given, memory),
            B::MemoryCopy | B::MemoryCompare | B::MemorySet | B::Allocate | B::Free => {
                self.bytes(function, &given, memory)
            }
            _ => self.coded(function, &given, memory),
        }
    }

    fn set_error(&mut self, function: B, given: &[Given<'_>]) -> Result<i64, Why> {
        if let Given::Integer(value, _) = given[0] {
            // Either sign is accepted.
            self.host.set_error(i32::try_from(value.unsigned_abs()).unwrap_or(self.program.target.error("EIO")));
        }
        if function == B::ReturnError { Err(Why::Finished) } else { Ok(0) }
    }

    fn print(&mut self, given: &[Given<'_>], memory: &mut Memory<'_>) -> Result<i64, Why> {
        let Given::Text(text) = given[0] else { return Err(Why::NullPointer) };
        let mut strings = Vec::new();
        for one in &given[1..] {
            strings.push(match one {
                Given::Integer(..) => Vec::new(),
                other => other.string(memory, self.host)?,
            });
        }
        let values = given[1..].iter().zip(&strings).map(|(one, string)| match one {
            Given::Integer(value, integer) => Value::Integer(*value, integer.bytes),
            _ => Value::Text(string),
        });
        memory.meter().charge(format::width(text) as u64)?;
        let mut message = format::print(text, &values.collect::<Vec<_>>());
        message.truncate(MESSAGE_BYTES_MAX);
        self.below(memory, |host| host.print(&message))?;
        Ok(0)
    }

    fn operate(&mut self, function: B, given: &[Given<'_>], memory: &mut Memory<'_>) -> Result<i32, Why> {
        let id = |one: &Given<'_>| match one {
            Given::Integer(value, _) => Some(*value as u32),
            _ => None,
        };
        Ok(match function {
            B::Lookup => {
                let name = given[1].string(memory, self.host)?;
                let slot = match &given[2] {
                    Given::Object(Object::Argument(argument)) => Some(*argument),
                    _ => None,
                };
                let directory = given[0].object()?;
                self.below(memory, |host| host.lookup(&directory, &name, slot, id(&given[3]), id(&given[4])))?
            }
            B::ReadDirectory => {
                let leaves_out_known = id(&given[1]).is_some_and(|flags| flags & 1 != 0);
                let directory = given[0].object()?;
                self.below(memory, |host| host.read_directory(&directory, leaves_out_known))?
            }
            B::SkipName => {
                let name = match &given[0] {
                    Given::Missing => None,
                    one => Some(one.string(memory, self.host)?),
                };
                memory.meter().charge(BELOW_WORK)?;
                self.host.skip_name(name.as_deref());
                0
            }
            B::Operate => {
                let object = given[0].object()?;
                self.below(memory, |host| host.operate(&object))?
            }
            B::Rename => {
                let (name, to_name) = (given[1].string(memory, self.host)?, given[3].string(memory, self.host)?);
                let (from, to) = (given[0].object()?, given[2].object()?);
                let replaces = match &given[4] {
                    Given::Missing => true,
                    flags => flags.integer()? & NO_REPLACE == 0,
                };
                self.below(memory, |host| host.rename(&from, &name, &to, &to_name, replaces))?
            }
            B::Unlink => {
                let name = given[1].string(memory, self.host)?;
                let directory = given[0].object()?;
                self.below(memory, |host| host.unlink(&directory, &name))?
            }
            B::MakeDirectory => {
                let name = given[1].string(memory, self.host)?;
                let (directory, mode) = (given[0].object()?, given[2].integer()? as u32);
                self.below(memory, |host| host.make_directory(&directory, &name, mode))?
            }
            _ => {
                let to = given[1].string(memory, self.host)?;
                let directory = match &given[2] {
                    Given::Missing => None,
                    other => Some(other.object()?),
                };
                let from = given[0].object()?;
                self.below(memory, |host| host.copy_file(&from, &to, directory.as_ref()))?
            }
        })
    }

    fn is(&mut self, function: B, given: &[Given<'_>], memory: &mut Memory<'_>) -> Result<i64, Why> {
        let object = given[0].object()?;
        if function == B::IsMode {
            let wanted = given[1].integer()?;
            let mode = self.below(memory, |host| host.attribute(Attribute::Mode, &object))?;
            return Ok((mode >= 0 && mode & wanted == wanted).into());
        }
        let kind = match function {
            B::IsDirectory => "S_IFDIR",
            B::IsFile => "S_IFREG",
            _ => "S_IFLNK",
        };
        let found = self.below(memory, |host| host.attribute(Attribute::Kind, &object))?;
        Ok((found == self.program.target.flag(kind)).into())
    }

    /// Executes the functions on fields of ioctls and of auxiliary data files.
    fn data(&mut self, function: B, given: &[Given<'_>], memory: &mut Memory<'_>) -> Result<i64, Why> {
        let is_file = matches!(function, B::GetFileData | B::SetFileData);
        let (Given::Field(structure, field), value) = (&given[is_file as usize], &given[is_file as usize + 1]) else {
            return Err(Why::NullPointer);
        };
        let whole = &self.program.structures[*structure];
        let field = &whole.fields[*field];
        let (offset, size) = (field.offset as usize, self.program.size(&field.r#type) as usize);
        if matches!(function, B::GetIoctlData | B::GetFileData) {
            memory.passes(size)?;
            let mut read = vec![0; size];
            if is_file {
                let (file, bytes) = (given[0].object()?, whole.size as usize);
                memory.passes(bytes)?;
                match self.below(memory, |host| host.read_file_data(&file, bytes))? {
                    Ok(data) => read.copy_from_slice(&data[offset..offset + size]),
                    Err(error) => return Ok(error.into()),
                }
            } else if !self.host.ioctl_data(*structure, &mut |data| read.copy_from_slice(&data[offset..offset + size]))
            {
                return Ok(self.error("EINVAL"));
            }
            match &field.r#type {
                Type::Integer(integer) => {
                    value.answer(memory::load(&read, *integer, memory.order()), memory, self.host)?
                }
                _ => value.write(&read, memory, self.host)?,
            }
            return Ok(0);
        }
        let mut bytes = match value {
            Given::Integer(value, _) => {
                let mut bytes = vec![0; size.min(8)];
                memory.order().write(*value, &mut bytes);
                bytes
            }
            other => other.at_most(size, memory, self.host)?,
        };
        memory.passes(size)?;
        bytes.resize(size, 0);
        if is_file {
            let (file, all) = (given[0].object()?, whole.size as usize);
            memory.passes(all)?;
            return self.below(memory, |host| host.write_file_data(&file, all, offset, &bytes).into());
        }
        let is_done = self.host.ioctl_data(*structure, &mut |data| data[offset..offset + size].copy_from_slice(&bytes));
        Ok(if is_done { 0 } else { self.error("EINVAL") })
    }

    /// Returns an error as built-in functions do.
    fn error(&self, name: &str) -> i64 {
        -i64::from(self.program.target.error(name))
    }

    fn strings(&mut self, function: B, given: &[Given<'_>], memory: &mut Memory<'_>) -> Result<i64, Why> {
        let mut one = given[0].string(memory, self.host)?;
        match function {
            B::StringLength => Ok(one.len() as i64),
            B::StringEqual => Ok((one == given[1].string(memory, self.host)?).into()),
            _ => {
                one.extend(given[1].string(memory, self.host)?);
                allocate_text(memory, one)
            }
        }
    }

    fn bytes(&mut self, function: B, given: &[Given<'_>], memory: &mut Memory<'_>) -> Result<i64, Why> {
        match function {
            B::MemoryCopy => {
                let bytes = given[1].bytes(given[2].length()?, memory, self.host)?;
                given[0].write(&bytes, memory, self.host)?;
            }
            B::MemoryCompare => {
                let length = given[2].length()?;
                let (one, other) =
                    (given[0].bytes(length, memory, self.host)?, given[1].bytes(length, memory, self.host)?);
                return Ok(one.cmp(&other) as i64);
            }
            B::MemorySet => {
                given[0].fill(given[1].integer()? as u8, given[2].length()?, memory, self.host)?;
            }
            B::Allocate => {
                let length = given[0].length()?;
                memory.passes(length)?;
                return memory.allocate(memory::filled(0, length)?);
            }
            _ => memory.free(given[0].pointer()?)?,
        }
        Ok(0)
    }

    /// Executes ciphers, hashes and compression.
    fn coded(&mut self, function: B, given: &[Given<'_>], memory: &mut Memory<'_>) -> Result<i64, Why> {
        match function {
            B::BlowfishSetKey => {
                let key = given[2].bytes(given[1].length()?, memory, self.host)?;
                given[0].write(&key, memory, self.host)?;
            }
            B::BlowfishCfb => {
                memory.meter().charge(BLOWFISH_WORK.of(given[2].length()?))?;
                let mut data = given[0].bytes(given[2].length()?, memory, self.host)?;
                let key = given[3].at_most(ciphers::BLOWFISH_KEY_BYTES_MAX, memory, self.host)?;
                let mut iv = [0; 8];
                iv.copy_from_slice(&given[4].bytes(8, memory, self.host)?);
                let position = given[5].before(memory, self.host)?;
                let is_encrypting = given[6].integer()? != 0;
                let position = ciphers::blowfish_cfb(&key, &mut iv, position as usize % 8, is_encrypting, &mut data);
                given[1].write(&data, memory, self.host)?;
                given[4].write(&iv, memory, self.host)?;
                given[5].answer(position as i64, memory, self.host)?;
            }
            B::Seal | B::Unseal => {
                memory.meter().charge(CIPHER_WORK.of(given[2].length()?))?;
                let data = given[1].bytes(given[2].length()?, memory, self.host)?;
                let key = given[3].bytes(ciphers::KEY_BYTES, memory, self.host)?;
                let nonce = given[4].bytes(ciphers::NONCE_BYTES, memory, self.host)?;
                let number = given[5].integer()? as u64;
                let coded = match function {
                    B::Seal => ciphers::seal(&key, &nonce, number, &data),
                    _ => ciphers::unseal(&key, &nonce, number, &data),
                };
                let Some(coded) = coded else { return Ok(self.error("EBADMSG")) };
                given[0].write(&coded, memory, self.host)?;
                return Ok(coded.len() as i64);
            }
            B::Hash => {
                memory.meter().charge(CIPHER_WORK.of(given[2].length()?))?;
                let data = given[1].bytes(given[2].length()?, memory, self.host)?;
                given[0].write(&ciphers::hash(&data), memory, self.host)?;
            }
            B::Random => {
                let length = given[1].length()?;
                memory.meter().charge(CIPHER_WORK.of(length))?;
                memory.passes(length)?;
                let mut bytes = memory::filled(0, length)?;
                self.host.random(&mut bytes);
                given[0].write(&bytes, memory, self.host)?;
            }
            _ => {
                let (room, length) = (given[1].length()?, given[3].length()?);
                memory.meter().charge(COMPRESSION_WORK.of(room + length))?;
                memory.passes(room)?;
                let mut coded = memory::filled(0, room)?;
                let data = given[2].bytes(length, memory, self.host)?;
                let (length, error) = match function {
                    B::Compress => (ciphers::compress(&data, &mut coded), "ENOSPC"),
                    _ => (ciphers::decompress(&data, &mut coded), "EBADMSG"),
                };
                let Some(length) = length else { return Ok(self.error(error)) };
                given[0].write(&coded[..length], memory, self.host)?;
                return Ok(length as i64);
            }
        }
        Ok(0)
    }
}
