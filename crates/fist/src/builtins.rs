//! Built-ins: the functions, globals, attributes and constants that every FiST program can use without declaring them,
//! and their meaning.
//!
//! One table serves the checker, the interpreter, the compiled tier, the language server and the reference.

/// How an argument of a built-in function is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// An integer.
    Integer,
    /// An object, or the name of an entry in the directory of the operation.
    Object,
    /// A string: bytes up to a zero byte.
    String,
    /// A string known at check time, with `%` conversions for the arguments that follow.
    Format,
    /// Bytes that the function reads.
    Input,
    /// Bytes that the function writes.
    Output,
    /// An out-parameter: a variable, or its address.
    OutInteger,
    /// The name of an ioctl.
    Ioctl,
    /// The name of a file format.
    FileFormat,
    /// The name of a field of the preceding ioctl or format.
    Field,
    /// A value for such a field or for a conversion: an integer or bytes.
    Value,
    /// An argument of the operation that receives an object, such as `$1`.
    Slot,
    /// Any number of values, up to the end of the argument list.
    Values,
}

/// The return type of a built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnKind {
    /// No value.
    Nothing,
    /// An `int`; a negative value is an error number.
    Integer,
    /// A newly allocated block of memory.
    Memory,
}

/// The signature of a built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The function.
    pub function: BuiltIn,
    /// Its name and aliases.
    pub names: &'static [&'static str],
    /// Its parameters, by the names used in the reference.
    pub parameters: &'static [(&'static str, Parameter)],
    /// Number of required arguments.
    pub needed: usize,
    /// Its return type.
    pub return_kind: ReturnKind,
    /// Its effect, in one sentence.
    pub summary: &'static str,
}

macro_rules! built_ins {
    ($($function:ident $names:tt ($($name:ident: $parameter:ident),*) $needed:literal $return_kind:ident $summary:literal;)*) => {
        /// The built-in functions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the table has a sentence on each")]
        pub enum BuiltIn {
            $($function,)*
        }

        /// The signatures of all built-in functions.
        pub const SIGNATURES: &[Signature] = &[$(Signature {
            function: BuiltIn::$function,
            names: &$names,
            parameters: &[$((stringify!($name), Parameter::$parameter)),*],
            needed: $needed,
            return_kind: ReturnKind::$return_kind,
            summary: $summary,
        }),*];
    };
}

built_ins! {
    // Errors (FiST, section 2.3.2).
    LastError ["fistLastErr"] () 0 Integer "the error of the operation so far, 0 if there is none";
    SetError ["fistSetErr"] (error: Integer) 1 Nothing "makes this the error of the operation; 0 is none";
    ReturnError ["fistRetErr", "fistReturnErr"] (error: Integer) 0 Nothing
        "ends the rule and the operation with this error, or with the last one";
    Print ["fistPrintf"] (format: Format, values: Values) 1 Nothing "writes a message to the log";
    // Objects.
    Lookup ["fistLookup"] (directory: Object, name: String, slot: Slot, uid: Integer, gid: Integer) 2 Integer
        "looks a name up, as this user and group if they are given, and makes what it finds the result";
    ReadDirectory ["fistReaddir"] (directory: Object, flags: Integer) 1 Integer
        "adds the names of a directory to those that are listed; with NODUPS those that are not there yet";
    SkipName ["fistSkipName"] (name: String) 0 Nothing "leaves the name out of the listing";
    Operate ["fistOp"] (object: Object) 1 Integer "does the operation on another object";
    Rename ["fistRename"]
        (directory: Object, name: String, to_directory: Object, to_name: String, flags: Integer) 4 Integer
        "renames an object below, replacing what stands there; with NOREPLACE that is -EEXIST";
    Unlink ["fistUnlink"] (directory: Object, name: String) 2 Integer "removes a name below";
    MakeDirectory ["fistMkdir"] (directory: Object, name: String, mode: Integer) 3 Integer "makes a directory below";
    CopyFile ["fistCopyFile"] (from: Object, to: String, directory: Object) 2 Integer
        "copies a file to a name, in the operation's directory or another; what has the name is replaced";
    IsMode ["fistIsMode"] (object: Object, mode: Integer) 2 Integer "whether the object has all these permission bits";
    IsDirectory ["fistIsDir"] (object: Object) 1 Integer "whether the object is a directory";
    IsFile ["fistIsFile"] (object: Object) 1 Integer "whether the object is a regular file";
    IsSymlink ["fistIsSymlink"] (object: Object) 1 Integer "whether the object is a symbolic link";
    // Declared data.
    GetIoctlData ["fistGetIoctlData"] (ioctl: Ioctl, field: Field, to: OutInteger) 3 Integer
        "reads a field of what the program gave";
    SetIoctlData ["fistSetIoctlData"] (ioctl: Ioctl, field: Field, value: Value) 3 Integer
        "writes a field of what the program gets";
    GetFileData ["fistGetFileData"] (file: Object, format: FileFormat, field: Field, to: OutInteger) 4 Integer
        "reads a field of a file of auxiliary data";
    SetFileData ["fistSetFileData"] (file: Object, format: FileFormat, field: Field, value: Value) 4 Integer
        "writes a field of a file of auxiliary data, which is made if there is none";
    // Strings and memory.
    StringEqual ["fistStrEq"] (one: String, other: String) 2 Integer "1 if the strings are the same, else 0";
    StringAdd ["fistStrAdd"] (one: String, other: String) 2 Memory "a new string: both, one behind the other";
    StringLength ["fistStrLen"] (string: String) 1 Integer "the bytes of a string, without the zero byte";
    MemoryCopy ["fistMemCpy"] (to: Output, from: Input, length: Integer) 3 Nothing "copies bytes";
    MemoryCompare ["fistMemCmp"] (one: Input, other: Input, length: Integer) 3 Integer
        "0 if the bytes are the same, else which is first: below 0 the one";
    MemorySet ["fistMemSet"] (to: Output, value: Integer, length: Integer) 3 Nothing "makes all bytes this one";
    Allocate ["fistMalloc"] (length: Integer) 1 Memory "memory of so many zero bytes, until the rule has ended";
    Free ["fistFree"] (memory: Input) 1 Nothing "gives memory back before the rule ends";
    // Ciphers, hashes, compression.
    BlowfishSetKey ["BF_set_key"] (key: Output, length: Integer, data: Input) 3 Nothing
        "makes so many bytes a key of the cipher Blowfish";
    BlowfishCfb ["BF_cfb64_encrypt"]
        (from: Input, to: Output, length: Integer, key: Input, iv: Output, position: OutInteger, direction: Integer) 7 Nothing
        "enciphers or deciphers with Blowfish in cipher feedback mode of 64 bits";
    Seal ["fistSeal"] (to: Output, from: Input, length: Integer, key: Input, nonce: Input, number: Integer) 6 Integer
        "enciphers with XChaCha20-Poly1305: 16 bytes more, by which a change shows; the number is authenticated too";
    Unseal ["fistUnseal"] (to: Output, from: Input, length: Integer, key: Input, nonce: Input, number: Integer) 6 Integer
        "deciphers what fistSeal made; -EBADMSG if it was changed";
    Hash ["fistHash"] (to: Output, from: Input, length: Integer) 3 Nothing "the 32 bytes of the hash SHA-256";
    Random ["fistRandom"] (to: Output, length: Integer) 2 Nothing "random bytes, fit for keys";
    Compress ["fistCompress"] (to: Output, room: Integer, from: Input, length: Integer) 4 Integer
        "compresses with Zstandard: how many bytes that takes, or -ENOSPC";
    Decompress ["fistDecompress"] (to: Output, room: Integer, from: Input, length: Integer) 4 Integer
        "undoes fistCompress: how many bytes that gives, or -EBADMSG";
}

/// Returns the entry of a table with this name.
pub fn find<T: Copy>(table: &[(T, &str, &str)], name: &str) -> Option<T> {
    table.iter().find(|(_, known, _)| *known == name).map(|(entry, ..)| *entry)
}

/// Returns the built-in function with this name.
pub fn function(name: &str) -> Option<&'static Signature> {
    SIGNATURES.iter().find(|signature| signature.names.contains(&name))
}

macro_rules! named {
    ($(#[$meta:meta])* $type:ident $table:ident { $($variant:ident $name:literal $summary:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the table has a sentence on each")]
        pub enum $type {
            $($variant,)*
        }

        /// All of them, each with its name and summary.
        pub const $table: &[($type, &str, &str)] = &[$(($type::$variant, $name, $summary)),*];
    };
}

named! {
    /// Globals: `%` and a name (section 2.3.1).
    Global GLOBALS {
        User "uid" "the user who asks";
        Group "gid" "the user's group";
        Process "pid" "the process that asks";
        Session "sid" "the session of the process that asks";
        Time "time" "seconds since 1970";
        PageSize "pagesize" "bytes of a page: 4096";
        BlockSize "blocksize" "bytes of a block of the file system below";
    }
}

named! {
    /// Attributes of objects (section 2.3.1).
    Attribute ATTRIBUTES {
        Kind "type" "which kind of object: S_IFREG, S_IFDIR and so on";
        Mode "mode" "its permission bits";
        Owner "owner" "the user whom it belongs to; of nothing, one that nobody is";
        OwningGroup "group" "the group that it belongs to; of nothing, one that nobody is in";
        Size "size" "its bytes";
        AccessTime "atime" "when it was read, seconds since 1970";
        ModificationTime "mtime" "when it was written";
        ChangeTime "ctime" "when its attributes changed";
        Name "name" "the name that it was looked up by";
        Links "nlink" "how many names it has";
        Inode "ino" "its number";
        Identity "identity" "a number that no object gets later either, where handles below last; elsewhere that of ino";
        FileSystem "fstype" "the kind of the file system that it is on";
    }
}

named! {
    /// Arguments of an operation other than objects: `$name` and the like (section 2.3.1).
    OperationValue OPERATION_VALUES {
        Name "name" "the name that the operation is about; of one without any, that of the object";
        ToName "toname" "the new name of a rename";
        Target "target" "where a symbolic link that is made points to";
        Xattr "xattr" "the name of an extended attribute";
        NewMode "mode" "the permission bits of what is made, or that setattr sets; -1 if it sets none";
        NewOwner "owner" "the owner that setattr sets; -1 if it sets none";
        NewGroup "group" "the group that setattr sets; -1 if it sets none";
        NewSize "size" "the size that setattr or truncate sets; -1 if it sets none";
        Offset "offset" "where in the file is read, written or allocated";
        Length "length" "how many bytes are read, written or allocated";
        Flags "flags" "how a file is opened: O_RDONLY and so on; what access asks for; how fallocate works";
    }
}
