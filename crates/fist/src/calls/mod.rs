//! Calls out of a program: what they are given is found in memory and in shared data, and they are done, or passed to the
//! file system that runs the program.

mod built_in;
mod given;

use crate::builtins::{Attribute, Global, OperationValue};
use crate::code::{Area, Argument, Integer, Operator, Shared, Site};
use crate::interpreter::Outside;
use crate::memory::{self, Memory};
use crate::program::Program;
use crate::stop::Why;
use crate::target::ByteOrder;
use given::Given;

/// A flag of `fistRename`: what has the name stays.
pub(crate) const NO_REPLACE: i64 = 1;

/// An object that a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// One that the operation is about.
    Argument(Argument),
    /// The value of a variable.
    Value(i64),
    /// A name in the operation's directory, below.
    Named(Vec<u8>),
}

/// Whose shared data: [`Area`], with the object found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The mount's.
    Vfs,
    /// What was given when it was mounted.
    Mount,
    /// Those of an object that the operation is about.
    Argument(Argument),
    /// Those of the object that is the value of a variable.
    Object(i64),
    /// The description's, by their index.
    Data(usize),
}

/// The file system that runs a program. Numbers of errors are below zero.
pub trait Host {
    /// Fills bytes at random. Default: such that nobody can guess them.
    fn random(&mut self, bytes: &mut [u8]) {
        crate::ciphers::random(bytes);
    }
    /// Whether what was asked for last cannot be told, and the run ends for that: the operation has the error then. Default: never.
    fn ends(&mut self) -> bool {
        false
    }
    /// `%uid` and its like.
    fn global(&mut self, global: Global) -> i64;
    /// A number that the operation was called with; -1 where it has none.
    fn operation_number(&mut self, value: OperationValue) -> i64;
    /// A string that the operation was called with; empty where it has none.
    fn operation_text(&mut self, value: OperationValue) -> Vec<u8>;
    /// Makes this number what the operation is called with below. An operation that has no such number stays as it is.
    ///
    /// # Errors
    /// The error, above zero, with which the operation ends: for a number that it cannot have, or that the caller may not ask for.
    fn set_operation_number(&mut self, value: OperationValue, number: i64) -> Result<(), i32>;
    /// Makes this string what the operation is called with below. An operation that has no such string stays as it is.
    ///
    /// # Errors
    /// The error, above zero, with which the operation ends: for a string that it cannot have.
    fn set_operation_text(&mut self, value: OperationValue, text: &[u8]) -> Result<(), i32>;
    /// An object of the operation as a value; 0 where there is none.
    fn object(&mut self, argument: Argument) -> i64;
    /// A number that is an attribute; -1 of nothing.
    fn attribute(&mut self, attribute: Attribute, object: &Object) -> i64;
    /// A string that is an attribute; empty of nothing.
    fn attribute_text(&mut self, attribute: Attribute, object: &Object) -> Vec<u8>;
    /// Shows shared data, which nobody else sees meanwhile. An object that is not there has none: nothing is shown.
    ///
    /// # Errors
    /// [`Why::OutOfMemory`] if there is no room for those of one more object.
    fn shared(&mut self, place: Place, see: &mut dyn FnMut(&mut [u8])) -> Result<(), Why>;
    /// The error of the operation so far.
    fn last_error(&mut self) -> i32;
    /// Makes this the error of the operation; 0 is none.
    fn set_error(&mut self, error: i32);
    /// A message for the log.
    fn print(&mut self, message: &[u8]);
    /// Looks a name up, as this user and group; what is found becomes an object of the operation.
    fn lookup(
        &mut self,
        directory: &Object,
        name: &[u8],
        slot: Option<Argument>,
        user: Option<u32>,
        group: Option<u32>,
    ) -> i32;
    /// Adds the names of a directory to the listing.
    fn read_directory(&mut self, directory: &Object, leaves_out_known: bool) -> i32;
    /// Leaves a name out of the listing.
    fn skip_name(&mut self, name: Option<&[u8]>);
    /// Does the operation on another object.
    fn operate(&mut self, object: &Object) -> i32;
    /// Renames an object; where something has the name and it replaces nothing, that is `EEXIST`.
    fn rename(&mut self, from: &Object, name: &[u8], to: &Object, to_name: &[u8], replaces: bool) -> i32;
    /// Takes a name away.
    fn unlink(&mut self, directory: &Object, name: &[u8]) -> i32;
    /// Makes a directory.
    fn make_directory(&mut self, directory: &Object, name: &[u8], mode: u32) -> i32;
    /// Copies a file to a name in a directory: the operation's, if none is given.
    fn copy_file(&mut self, from: &Object, to: &[u8], directory: Option<&Object>) -> i32;
    /// Shows the data of the ioctl of this structure that is being done; false if another is, or none.
    fn ioctl_data(&mut self, structure: usize, see: &mut dyn FnMut(&mut [u8])) -> bool;
    /// The beginning of a file of auxiliary data, or an error.
    fn read_file_data(&mut self, file: &Object, bytes: usize) -> Result<Vec<u8>, i32>;
    /// Writes a part of a file of auxiliary data of so many bytes.
    fn write_file_data(&mut self, file: &Object, bytes: usize, offset: usize, data: &[u8]) -> i32;
}

/// Answers the calls of a program by a file system.
pub struct Calls<'a> {
    /// The program.
    pub program: &'a Program,
    /// The file system.
    pub host: &'a mut dyn Host,
}

/// Work of every call out of a program, besides that of the bytes that it handles.
const CALL_WORK: u64 = 64;
/// Work of asking for something below, or of a line in the log.
const BELOW_WORK: u64 = 64 << 10;

impl Outside for Calls<'_> {
    fn call(&mut self, memory: &mut Memory<'_>, site: usize, values: &[i64]) -> Result<i64, Why> {
        memory.meter().charge(CALL_WORK)?;
        let (site, pauses) = (&self.program.sites[site], memory.meter().pauses());
        let answer = self.answer(memory, site, values);
        debug_assert!(memory.meter().pauses() == pauses || site.effects().sleeps, "{site:?} waits");
        if self.host.ends() { Err(Why::Finished) } else { answer }
    }
}

impl Calls<'_> {
    fn answer(&mut self, memory: &mut Memory<'_>, site: &Site, values: &[i64]) -> Result<i64, Why> {
        let order = self.program.target.byte_order;
        match site {
            Site::BuiltIn(function, operands) => self.built_in(memory, *function, operands, values),
            Site::Global(global @ Global::BlockSize) => self.below(memory, |host| host.global(*global)),
            Site::Global(global) => Ok(self.host.global(*global)),
            Site::OperationValue(value) => self.operation_value(memory, *value),
            Site::Assign(value, operand) => {
                let given = given::one(operand, values, memory)?;
                self.assign(memory, *value, &given)?;
                Ok(values.first().copied().unwrap_or(0))
            }
            Site::Attribute(attribute, operand) => {
                let object = given::one(operand, values, memory)?.object()?;
                match attribute {
                    Attribute::Name | Attribute::FileSystem => {
                        let text = self.below(memory, |host| host.attribute_text(*attribute, &object))?;
                        allocate_text(memory, text)
                    }
                    _ => self.below(memory, |host| host.attribute(*attribute, &object)),
                }
            }
            Site::Object(argument) => self.below(memory, |host| host.object(*argument)),
            Site::Load(shared, integer) => {
                let (place, offset, _) = find(shared, values)?;
                let mut value = 0;
                self.host.shared(place, &mut |bytes| value = memory::load(&bytes[offset..], *integer, order))?;
                Ok(value)
            }
            Site::Store(shared, integer) => {
                let (place, offset, rest) = find(shared, values)?;
                let value = rest.first().copied().unwrap_or(0);
                self.host.shared(place, &mut |bytes| store(&mut bytes[offset..], *integer, value, order))?;
                Ok(value)
            }
            Site::Update { shared, integer, operator, computed, is_postfix } => {
                let (place, offset, rest) = find(shared, values)?;
                let by = rest.first().copied().unwrap_or(0);
                self.update((place, offset), *integer, (*operator, *computed), by, *is_postfix)
            }
        }
    }

    /// Asks for something that is done below, or shown to people: how long that takes is not the run's time.
    fn below<T>(&mut self, memory: &mut Memory<'_>, ask: impl FnOnce(&mut dyn Host) -> T) -> Result<T, Why> {
        memory.meter().charge(BELOW_WORK)?;
        memory.meter().pause();
        let answer = ask(self.host);
        memory.meter().resume();
        Ok(answer)
    }

    fn operation_value(&mut self, memory: &mut Memory<'_>, value: OperationValue) -> Result<i64, Why> {
        use OperationValue as V;
        match value {
            V::Name | V::ToName | V::Target | V::Xattr => {
                let text = self.host.operation_text(value);
                allocate_text(memory, text)
            }
            _ => Ok(self.host.operation_number(value)),
        }
    }

    /// Assigns an argument of the operation. What it cannot be ends the operation.
    fn assign(&mut self, memory: &mut Memory<'_>, value: OperationValue, given: &Given<'_>) -> Result<(), Why> {
        let assigned = match given {
            // Whether the caller may ask for it is found out below.
            Given::Integer(number, _) => self.below(memory, |host| host.set_operation_number(value, *number))?,
            text => {
                let text = text.string(memory, self.host)?;
                self.host.set_operation_text(value, &text)
            }
        };
        assigned.map_err(|error| {
            self.host.set_error(error);
            Why::Finished
        })
    }

    fn update(
        &mut self,
        (place, offset): (Place, usize),
        integer: Integer,
        (operator, computed): (Operator, Integer),
        by: i64,
        is_postfix: bool,
    ) -> Result<i64, Why> {
        let order = self.program.target.byte_order;
        let mut answer = Ok(0);
        self.host.shared(place, &mut |bytes| {
            let before = memory::load(&bytes[offset..], integer, order);
            answer = match crate::arithmetic::compute(operator, computed, computed.wrap(before), by) {
                None => Err(Why::DivisionByZero),
                Some(after) => {
                    let after = integer.wrap(after);
                    store(&mut bytes[offset..], integer, after, order);
                    Ok(if is_postfix { before } else { after })
                }
            };
        })?;
        answer
    }
}

/// A string in memory of the run.
fn allocate_text(memory: &mut Memory<'_>, mut text: Vec<u8>) -> Result<i64, Why> {
    text.push(0);
    memory.meter().charge(text.len() as u64)?;
    memory.allocate(text)
}

fn store(bytes: &mut [u8], integer: Integer, value: i64, order: ByteOrder) {
    order.write(value, &mut bytes[..integer.bytes.into()]);
}

/// Where shared data is, and the values behind those of it.
fn find<'v>(shared: &Shared, values: &'v [i64]) -> Result<(Place, usize, &'v [i64]), Why> {
    let (place, values) = match shared.area {
        Area::Vfs => (Place::Vfs, values),
        Area::Mount => (Place::Mount, values),
        Area::Argument(argument) => (Place::Argument(argument), values),
        Area::Object => (Place::Object(*values.first().ok_or(Why::NullPointer)?), &values[1..]),
        Area::Data(index) => (Place::Data(index), values),
    };
    let mut offset = shared.offset;
    for ((length, size), index) in shared.indexes.iter().zip(values) {
        if *index as u64 >= *length {
            return Err(Why::NoElement);
        }
        offset += *index as u64 * size;
    }
    Ok((place, offset as usize, &values[shared.indexes.len()..]))
}
