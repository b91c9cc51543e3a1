//! Bounds enforcement of the 16-byte vector accesses: everything that keeps them within their regions.
//!
//! The loop analysis decides only what is computed. Where memory is read and written is decided here, in unsigned
//! arithmetic and from nothing but the regions as looked up, so no error of the analysis can reach other memory:
//!
//! - A [`Window`] has `room` bytes from its address on: its offset has 32 bits, and `room` is the limit of the region
//!   minus the offset, or 0 if the offset is larger. So `room` is less than 2^32.
//! - `end` is at most the room of every window. Sixteen iterations start only if `end` is at least 16, so `end - 16`
//!   is not negative; and only at a count that, as an unsigned number, is at most `end - 16`. So from this count on
//!   every window has sixteen bytes. [`GuardedCount`] is such a count: only the head of the loop creates one, and every
//!   access takes one.
//! - A [`LookupTable`] is accessed only if its window covers the whole range of the index; a larger index is clamped to the
//!   last entry.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;

use super::range::Range;
use super::translator::{FLAGS, Operand, Translator};
use crate::code::Expression as E;

/// Number of bytes read or written at a time.
pub(crate) const WIDTH: i64 = 16;
/// Number of values of a byte index.
const BYTE_INDEXES: i64 = 256;
/// Range of offsets in a region.
const OFFSET_RANGE: Range = Range { low: 0, high: 0xffff_ffff };

/// The bytes that a loop counts through, starting where the counter is 0.
pub(crate) struct Window {
    address: Value,
    room: Value,
}

impl Window {
    /// The address of the first byte, for comparison with others.
    pub(crate) fn address(&self) -> Value {
        self.address
    }
}

/// A lookup table indexed by a byte.
pub(crate) struct LookupTable {
    window: Window,
    /// Number of entries, 1 to 256.
    bytes: i64,
    /// All entries are in its first sixteen bytes, which are read as a whole.
    is_small: bool,
}

impl LookupTable {
    /// The address of the first byte, for comparison with others.
    pub(crate) fn address(&self) -> Value {
        self.window.address
    }
}

/// The windows and tables that a vectorized loop accesses, sixteen bytes at a time.
pub(crate) struct Guard {
    pub(crate) reads: Vec<Window>,
    pub(crate) tables: Vec<LookupTable>,
    pub(crate) to: Window,
    /// Exclusive upper bound of the counter: the requested one, or less.
    pub(crate) end: Value,
}

/// A count from which on every window of the guard has sixteen bytes.
pub(crate) struct GuardedCount(Value);

impl GuardedCount {
    /// The count, for computations.
    pub(crate) fn value(&self) -> Value {
        self.0
    }
}

/// A loop over a guard's windows that has been opened.
pub(crate) struct GuardedLoop {
    pub(crate) count: GuardedCount,
    counter: Variable,
    head: Block,
    done: Block,
}

impl Translator<'_, '_> {
    /// The bytes at a pointer into a region that has been looked up, limited to a length.
    pub(crate) fn window(&mut self, (pointer, length): (&E, Option<u64>), is_write: bool) -> Option<Window> {
        let Operand::Pointer { base, offset, range, .. } = self.value(pointer) else { return None };
        let offset = if range.is_within(OFFSET_RANGE) { offset } else { self.low_half(offset) };
        let (address, limit) = self.extent(base, is_write);
        let (nothing, rest) = (self.constant(0), self.builder.ins().isub(limit, offset));
        let is_inside = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, offset, limit);
        let mut room = self.builder.ins().select(is_inside, rest, nothing);
        if let Some(length) = length {
            let length = self.constant(i64::try_from(length).unwrap_or(i64::MAX));
            room = self.minimum(IntCC::UnsignedLessThan, room, length);
        }
        Some(Window { address: self.builder.ins().iadd(address, offset), room })
    }

    /// The table at a pointer, for indexes less than `bytes`.
    pub(crate) fn table(&mut self, pointer: &E, bytes: i64) -> Option<LookupTable> {
        let window = self.window((pointer, None), false)?;
        let bytes = bytes.clamp(1, BYTE_INDEXES);
        Some(LookupTable { window, bytes, is_small: bytes <= WIDTH && self.static_bytes(pointer) >= WIDTH as u64 })
    }

    /// Size in bytes of an object or of constant data.
    fn static_bytes(&self, pointer: &E) -> u64 {
        match pointer {
            E::Object(object) => self.function().objects[*object],
            E::Data(index) if !self.program.data[*index].is_written => self.program.data[*index].bytes.len() as u64,
            _ => 0,
        }
    }

    /// Creates the guard of a loop that is to count up to `wanted`, a signed number.
    pub(crate) fn guard(&mut self, reads: Vec<Window>, tables: Vec<LookupTable>, to: Window, wanted: Value) -> Guard {
        // Rooms are less than 2^32, so they have the same value as signed numbers.
        let mut end = self.minimum(IntCC::SignedLessThan, wanted, to.room);
        for window in &reads {
            end = self.minimum(IntCC::SignedLessThan, end, window.room);
        }
        Guard { reads, tables, to, end }
    }

    /// Opens the loop, in which the counter is at most the guard's end minus sixteen. It runs no iteration unless
    /// `is_wanted` is true.
    pub(crate) fn begin_guarded(&mut self, guard: &Guard, counter: Variable, is_wanted: Value) -> GuardedLoop {
        let has_some = self.compare(IntCC::SignedGreaterThanOrEqual, guard.end, WIDTH);
        let mut is_possible = self.builder.ins().band(is_wanted, has_some);
        for table in &guard.tables {
            let needed = if table.is_small { WIDTH } else { table.bytes };
            let is_there = self.compare(IntCC::UnsignedGreaterThanOrEqual, table.window.room, needed);
            is_possible = self.builder.ins().band(is_possible, is_there);
        }
        let width = self.constant(WIDTH);
        let last = self.builder.ins().isub(guard.end, width);
        let (head, body, done) = (self.block(), self.block(), self.block());
        self.builder.ins().brif(is_possible, head, &[], done, &[]);
        self.scope.latest.clear();
        self.builder.switch_to_block(head);
        let count = self.builder.use_var(counter);
        let is_inside = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, count, last);
        self.builder.ins().brif(is_inside, body, &[], done, &[]);
        self.start(body);
        GuardedLoop { count: GuardedCount(count), counter, head, done }
    }

    /// Increments the counter and closes the loop. Returns the counter after the loop.
    pub(crate) fn end_guarded(&mut self, GuardedLoop { count, counter, head, done }: GuardedLoop) -> Value {
        let width = self.constant(WIDTH);
        let next = self.builder.ins().iadd(count.0, width);
        self.builder.def_var(counter, next);
        self.builder.ins().jump(head, &[]);
        self.builder.seal_block(head);
        self.start(done);
        self.builder.use_var(counter)
    }

    /// Reads sixteen bytes from a window of the guard.
    pub(crate) fn guarded_read(&mut self, guard: &Guard, read: usize, count: &GuardedCount) -> Value {
        let address = self.builder.ins().iadd(guard.reads[read].address, count.0);
        self.builder.ins().load(types::I8X16, FLAGS, address, 0)
    }

    /// Writes sixteen bytes.
    pub(crate) fn guarded_write(&mut self, guard: &Guard, count: &GuardedCount, value: Value) {
        let address = self.builder.ins().iadd(guard.to.address, count.0);
        self.builder.ins().store(FLAGS, value, address, 0);
    }

    /// Looks sixteen indexes up in a table.
    pub(crate) fn guarded_lookup(&mut self, table: &LookupTable, mut indexes: Value) -> Value {
        if table.is_small {
            let all = self.builder.ins().load(types::I8X16, FLAGS, table.window.address, 0);
            return self.builder.ins().swizzle(all, indexes);
        }
        if table.bytes < BYTE_INDEXES {
            let most = self.builder.ins().iconst(types::I8, table.bytes - 1);
            let most = self.builder.ins().splat(types::I8X16, most);
            indexes = self.builder.ins().umin(indexes, most);
        }
        self.gather(table, |this, lane| {
            let index = this.builder.ins().extractlane(indexes, lane);
            this.builder.ins().uextend(types::I64, index)
        })
    }

    /// Looks the indexes read from a window up in a table.
    pub(crate) fn guarded_lookup_by_read(
        &mut self,
        guard: &Guard,
        table: &LookupTable,
        read: usize,
        count: &GuardedCount,
    ) -> Value {
        if table.is_small || table.bytes < BYTE_INDEXES {
            let indexes = self.guarded_read(guard, read, count);
            return self.guarded_lookup(table, indexes);
        }
        let address = self.builder.ins().iadd(guard.reads[read].address, count.0);
        self.gather(table, |this, lane| this.builder.ins().uload8(types::I64, FLAGS, address, i32::from(lane)))
    }

    /// Looks up the entries one by one. Every index is less than the number of entries.
    fn gather(&mut self, table: &LookupTable, mut index: impl FnMut(&mut Self, u8) -> Value) -> Value {
        let nothing = self.builder.ins().iconst(types::I8, 0);
        let mut bytes = self.builder.ins().splat(types::I8X16, nothing);
        for lane in 0..WIDTH as u8 {
            let index = index(self, lane);
            let address = self.builder.ins().iadd(table.window.address, index);
            let byte = self.builder.ins().load(types::I8, FLAGS, address, 0);
            bytes = self.builder.ins().insertlane(bytes, byte, lane);
        }
        bytes
    }

    /// The lesser of two values.
    pub(crate) fn minimum(&mut self, how: IntCC, one: Value, other: Value) -> Value {
        let is_less = self.builder.ins().icmp(how, one, other);
        self.builder.ins().select(is_less, one, other)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Compiled, facts};
    use super::*;
    use crate::interpreter::CallHandler;
    use crate::memory::Memory;
    use crate::trap::TrapKind;

    struct NoHandler;

    impl CallHandler for NoHandler {
        fn call(&mut self, _: &mut Memory<'_>, _: usize, _: &[i64]) -> Result<i64, TrapKind> {
            Ok(0)
        }
    }

    /// The bytes that 32 iterations read from a table, if the third parameter is assumed to be less than `believed`.
    fn written(table: &str, assumed: i64, key: i64) -> Vec<u8> {
        run_assuming(&format!("for (int i = 0; i < 32; i++) out[i] = {table}[k];"), assumed, key)
    }

    /// The output of statements, if the third parameter, whose value is `key`, is assumed to be at least 0 and less
    /// than `believed`.
    fn run_assuming(statements: &str, assumed: i64, key: i64) -> Vec<u8> {
        let numbers = |count: u8| (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
        let text = format!(
            "%%\n%%\nconst char few[16] = {{{}}};\nconst char more[20] = {{{}}};\n\
             long f(const unsigned char *in, unsigned char *out, long k) {{\n\
             {statements} return 0; }}\n",
            numbers(16),
            numbers(20)
        );
        let parsed = crate::parser::parse(&text);
        let program = crate::check::check(&parsed.description, "test").program.expect("a program");
        let mut facts = facts::analyze(&program).unwrap();
        facts[0].ranges[2] = Range { low: 0, high: assumed - 1 };
        let compiled = Compiled::with_facts(&program, &facts, &(0..program.functions.len())).unwrap();
        let mut output = vec![7; 32];
        let mut memory = Memory::new(&program.data, &[1; 32], &mut output);
        let values = [Memory::INPUT, Memory::OUTPUT, key];
        compiled.run(&program, &mut memory, &mut NoHandler, 0, &values).unwrap();
        output
    }

    #[test]
    fn wrong_index_ranges_access_no_other_memory() {
        let all = |byte: u8| vec![byte; 32];
        assert_eq!((written("more", 20, 1), written("few", 16, 15)), (all(2), all(16)));
        // The lowest byte is the index: a larger one is clamped to the last element, or has no entry.
        for key in [20, 21, 36, 200, 255, -1, i64::MAX] {
            assert_eq!((written("more", 20, key), written("few", 16, key)), (all(20), all(0)), "{key}");
        }
        assert_eq!(written("more", 20, 256 + 2), all(3));
    }

    #[test]
    fn wrong_offset_ranges_access_no_other_memory() {
        // The value of a register that is written to is only an assumption.
        let statements = "long own[4]; if (in[0] == 2) { k = 0; out[5] = 1; }\n\
                          own[3] = 3; out[0] = own[k]; own[k] = 9; out[1] = own[3];";
        for (key, written) in
            [(3, [3, 9]), (0, [0, 3]), (4, [3, 9]), (-1, [3, 9]), (1 << 40, [3, 9]), (i64::MIN, [0, 3])]
        {
            assert_eq!(run_assuming(statements, 4, key)[..2], written, "{key}");
        }
    }
}
