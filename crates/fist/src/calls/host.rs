//! The interface between a program and the file system that runs it.

use crate::builtins::{Attribute, Global, OperationValue};
use crate::code::Argument;
use crate::trap::TrapKind;

/// An object that a call refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// An object of the operation.
    Argument(Argument),
    /// An object held in a variable.
    Value(i64),
    /// An entry of the operation's directory in the lower layer.
    Named(Vec<u8>),
}

/// The owner of shared data: [`Area`](crate::code::Area), with its object resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOwner {
    /// The mount's.
    Vfs,
    /// The mount data.
    Mount,
    /// An object of the operation.
    Argument(Argument),
    /// An object held in a variable.
    Object(i64),
    /// A data object of the program, by index.
    Data(usize),
}

/// The file system that runs a program. Error numbers are negative.
pub trait Host {
    /// Fills a buffer with random bytes. Default: cryptographically secure.
    fn random(&mut self, bytes: &mut [u8]) {
        crate::ciphers::random(bytes);
    }
    /// Returns whether the last request failed in a way that its result cannot express, so that the run ends: the
    /// operation then has that error. Default: never.
    fn ends(&mut self) -> bool {
        false
    }
    /// The value of `%uid` and the like.
    fn global(&mut self, global: Global) -> i64;
    /// A numeric argument of the operation; -1 if it has none.
    fn operation_number(&mut self, value: OperationValue) -> i64;
    /// A string argument of the operation; empty if it has none.
    fn operation_text(&mut self, value: OperationValue) -> Vec<u8>;
    /// Sets a numeric argument that the operation passes to the lower layer. An operation without that argument is
    /// unchanged.
    ///
    /// # Errors
    /// The positive error number that ends the operation: for a number that the argument cannot have, or that the
    /// caller may not request.
    fn set_operation_number(&mut self, value: OperationValue, number: i64) -> Result<(), i32>;
    /// Sets a string argument that the operation passes to the lower layer. An operation without that argument is
    /// unchanged.
    ///
    /// # Errors
    /// The positive error number that ends the operation: for a string that the argument cannot have.
    fn set_operation_text(&mut self, value: OperationValue, text: &[u8]) -> Result<(), i32>;
    /// An object of the operation as a value; 0 if there is none.
    fn object(&mut self, argument: Argument) -> i64;
    /// A numeric attribute; -1 without an object.
    fn attribute(&mut self, attribute: Attribute, object: &Object) -> i64;
    /// A string attribute; empty without an object.
    fn attribute_text(&mut self, attribute: Attribute, object: &Object) -> Vec<u8>;
    /// Passes shared data to `see`, exclusively. A missing object has none: `see` is not called.
    ///
    /// # Errors
    /// [`TrapKind::OutOfMemory`] if there is no room for the data of one more object.
    fn shared(&mut self, place: DataOwner, access: &mut dyn FnMut(&mut [u8])) -> Result<(), TrapKind>;
    /// The current error of the operation.
    fn last_error(&mut self) -> i32;
    /// Sets the error of the operation; 0 is none.
    fn set_error(&mut self, error: i32);
    /// Logs a message.
    fn print(&mut self, message: &[u8]);
    /// Looks a name up, as this user and group; the result becomes an object of the operation.
    fn lookup(
        &mut self,
        directory: &Object,
        name: &[u8],
        slot: Option<Argument>,
        user: Option<u32>,
        group: Option<u32>,
    ) -> i32;
    /// Adds the names of a directory to the listing.
    fn read_directory(&mut self, directory: &Object, skips_seen: bool) -> i32;
    /// Omits a name from the listing.
    fn skip_name(&mut self, name: Option<&[u8]>);
    /// Performs the operation on another object.
    fn operate(&mut self, object: &Object) -> i32;
    /// Renames an object; if the new name exists and `replaces` is false, the error is `EEXIST`.
    fn rename(&mut self, from: &Object, name: &[u8], to: &Object, to_name: &[u8], replaces: bool) -> i32;
    /// Removes a name.
    fn unlink(&mut self, directory: &Object, name: &[u8]) -> i32;
    /// Creates a directory.
    fn make_directory(&mut self, directory: &Object, name: &[u8], mode: u32) -> i32;
    /// Copies a file to a name in a directory, by default the operation's.
    fn copy_file(&mut self, from: &Object, to: &[u8], directory: Option<&Object>) -> i32;
    /// Passes the data of the current ioctl to `see`; returns false if it does not have this structure, or there is
    /// none.
    fn ioctl_data(&mut self, structure: usize, access: &mut dyn FnMut(&mut [u8])) -> bool;
    /// Reads the beginning of an auxiliary data file.
    fn read_file_data(&mut self, file: &Object, bytes: usize) -> Result<Vec<u8>, i32>;
    /// Writes a part of an auxiliary data file with a size of `bytes`.
    fn write_file_data(&mut self, file: &Object, bytes: usize, offset: usize, data: &[u8]) -> i32;
}
