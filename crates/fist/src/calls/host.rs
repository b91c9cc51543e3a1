//! What a program asks of the file system that runs it.

use crate::builtins::{Attribute, Global, OperationValue};
use crate::code::Argument;
use crate::stop::Why;

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

/// Whose shared data: [`Area`](crate::code::Area), with the object found.
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
