//! Memory accesses: region lookup, and loads and stores of integers.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::FunctionBuilder;

use super::base_region::BaseRegion;
use super::facts::{Base, MAX_UNROLLED_CLEAR_BYTES};
use super::machine::{Machine, RegionTable, TABLE_BIT, number_of};
use super::range::Range;
use super::translator::{FLAGS, Operand, RegisterStorage, Translator};
use crate::code::{Expression as E, Integer};
use crate::memory::{Region, data_pointer};
use crate::text::Span;
use crate::trap::TrapKind;

/// A region that has been looked up.
struct LocatedRegion {
    address: Value,
    readable: Value,
    writable: Value,
}

/// Mask of the offset: the lower half of a pointer.
const OFFSET_MASK: i64 = 0xffff_ffff;

/// Looks a region up. If there is none, nothing is accessible.
fn locate_region(builder: &mut FunctionBuilder<'_>, machine: Value, pointer: Value) -> LocatedRegion {
    let constant = |builder: &mut FunctionBuilder<'_>, value: usize| builder.ins().iconst(types::I64, value as i64);
    let (nothing, one) = (constant(builder, 0), constant(builder, 1));
    let bit = constant(builder, TABLE_BIT as usize);
    let side = builder.ins().ushr(pointer, bit);
    let side = builder.ins().band(side, one);
    let size = constant(builder, size_of::<RegionTable>());
    let table = builder.ins().imul(side, size);
    let table = builder.ins().iadd(machine, table);
    let tables = offset_of!(Machine<'_, '_>, tables);
    let at = |field: usize| (tables + field) as i32;
    let regions = builder.ins().load(types::I64, FLAGS, table, at(offset_of!(RegionTable, regions)));
    let count = builder.ins().load(types::I64, FLAGS, table, at(offset_of!(RegionTable, count)));
    let half = constant(builder, 32);
    let number = builder.ins().ushr(pointer, half);
    let mask = constant(builder, (1 << (TABLE_BIT - 32)) - 1);
    let number = builder.ins().band(number, mask);
    let is_in_table = builder.ins().icmp(IntCC::UnsignedLessThan, number, count);
    // A table is never empty.
    let number = builder.ins().select(is_in_table, number, nothing);
    let size = constant(builder, size_of::<Region>());
    let region = builder.ins().imul(number, size);
    let region = builder.ins().iadd(regions, region);
    let generation = builder.ins().uload16(types::I64, FLAGS, region, offset_of!(Region, generation) as i32);
    let upper = constant(builder, 48);
    let own = builder.ins().ushr(pointer, upper);
    let is_same = builder.ins().icmp(IntCC::Equal, generation, own);
    let is_found = builder.ins().band(is_in_table, is_same);
    let readable = builder.ins().uload32(FLAGS, region, offset_of!(Region, readable) as i32);
    let writable = builder.ins().uload32(FLAGS, region, offset_of!(Region, writable) as i32);
    LocatedRegion {
        address: builder.ins().load(types::I64, FLAGS, region, offset_of!(Region, address) as i32),
        readable: builder.ins().select(is_found, readable, nothing),
        writable: builder.ins().select(is_found, writable, nothing),
    }
}

/// Builds the function that looks a region up for others: it takes the machine and a pointer, and returns the address
/// and a word with the readable bytes in its lower half and the writable bytes in its upper half.
pub(crate) fn build_region_lookup(mut builder: FunctionBuilder<'_>, configuration: TargetFrontendConfig) {
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    let (machine, pointer) = (builder.block_params(block)[0], builder.block_params(block)[1]);
    let found = locate_region(&mut builder, machine, pointer);
    let half = builder.ins().iconst(types::I64, 32);
    let upper = builder.ins().ishl(found.writable, half);
    let limits = builder.ins().bor(found.readable, upper);
    builder.ins().return_(&[found.address, limits]);
    builder.finalize(configuration);
}

impl Translator<'_, '_> {
    /// Allocates the objects of the function.
    pub(crate) fn enter(&mut self, location: Value) {
        let number = self.constant(self.index as i64);
        let first = self.call_back("enter", &[number, location]);
        let size = self.constant(size_of::<Region>() as i64);
        let regions = offset_of!(Machine<'_, '_>, tables) + offset_of!(RegionTable, regions);
        let regions = self.builder.ins().load(types::I64, FLAGS, self.machine, regions as i32);
        let before = self.builder.ins().imul(first, size);
        let before = self.builder.ins().iadd(regions, before);
        for index in 0..self.function().objects.len() {
            let region = index * size_of::<Region>() + offset_of!(Region, generation);
            let region = self.constant(region as i64);
            let region = self.builder.ins().iadd(before, region);
            let generation = self.builder.ins().uload16(types::I64, FLAGS, region, 0);
            let number = self.constant(index as i64);
            let number = self.builder.ins().iadd(first, number);
            let (high, low) = (self.shift_left(generation, 48), self.shift_left(number, 32));
            self.objects.push(self.builder.ins().bor(high, low));
        }
    }

    fn shift_left(&mut self, value: Value, bits: i64) -> Value {
        let bits = self.constant(bits);
        self.builder.ins().ishl(value, bits)
    }

    fn shift_right(&mut self, value: Value, bits: i64) -> Value {
        let bits = self.constant(bits);
        self.builder.ins().ushr(value, bits)
    }

    fn mask_bits(&mut self, value: Value, mask: i64) -> Value {
        let mask = self.constant(mask);
        self.builder.ins().band(value, mask)
    }

    /// Looks up the regions of the function's bases.
    pub(crate) fn look_up_base_regions(&mut self, parameters: &[Value]) {
        for base in self.bases.clone() {
            let (pointer, bytes) = match base {
                Base::Parameter(register) => (parameters[register], None),
                Base::Object(object) => (self.objects[object], Some(self.function().objects[object])),
                Base::Data(index) => (self.constant(data_pointer(index)), None),
            };
            let (high, offset) = (self.mask_bits(pointer, !OFFSET_MASK), self.low_half(pointer));
            let [address, readable, writable] = [(); 3].map(|()| self.builder.declare_var(types::I64));
            self.base_regions.push(BaseRegion { pointer, high, offset, address, readable, writable, bytes });
            self.load_region(self.base_regions.len() - 1, None);
        }
    }

    /// Reloads the regions after a call at this location, which may have changed them.
    pub(crate) fn reload_regions(&mut self, span: Span) {
        for index in 0..self.base_regions.len() {
            self.load_region(index, Some(span));
        }
    }

    fn load_region(&mut self, index: usize, reload_span: Option<Span>) {
        let BaseRegion { pointer, address, readable, writable, bytes, .. } = self.base_regions[index];
        // The result of a call is kept; a computable value might be recomputed in every iteration of a loop.
        let function = self.region_lookup_function();
        let call = self.builder.ins().call(function, &[self.machine, pointer]);
        let &[at, limits] = self.builder.inst_results(call) else { unreachable!("two values are found") };
        let found =
            LocatedRegion { address: at, readable: self.low_half(limits), writable: self.shift_right(limits, 32) };
        if let (Some(bytes), Some(span)) = (bytes, reload_span) {
            // An object of an active function can be freed only by the handler of host calls; accesses do not check
            // again.
            let is_other = self.compare(IntCC::NotEqual, found.writable, bytes as i64);
            self.trap_if(is_other, TrapKind::StalePointer, span);
        }
        self.builder.def_var(address, found.address);
        self.builder.def_var(readable, found.readable);
        self.builder.def_var(writable, found.writable);
    }

    /// Index of this base among those that have been looked up.
    pub(crate) fn base_region_index(&self, base: Base) -> Option<usize> {
        self.bases.iter().position(|known| *known == base)
    }

    /// A pointer to an object, to data, or to the target of a parameter.
    pub(crate) fn base(&mut self, base: Base, pointer: Value) -> Operand {
        let Some(index) = self.base_region_index(base) else { return Operand::Plain(pointer, Range::FULL, None) };
        let BaseRegion { pointer, offset, .. } = self.base_regions[index];
        let (offset, range) = match base {
            Base::Parameter(_) => (offset, Range { low: 0, high: OFFSET_MASK }),
            _ => (self.constant(0), Range::exactly(0)),
        };
        Operand::Pointer { base: index, offset, range, whole: Some(pointer) }
    }

    /// A pointer known to be in the region of a base.
    pub(crate) fn pointer_into(&mut self, base: usize, pointer: Value) -> Operand {
        let offset = self.low_half(pointer);
        Operand::Pointer { base, offset, range: Range { low: 0, high: OFFSET_MASK }, whole: Some(pointer) }
    }

    /// The lowest 32 bits.
    pub(crate) fn low_half(&mut self, value: Value) -> Value {
        let half = self.builder.ins().ireduce(types::I32, value);
        self.builder.ins().uextend(types::I64, half)
    }

    /// An operand as a full 64-bit value.
    pub(crate) fn as_word(&mut self, operand: Operand) -> Value {
        match operand {
            Operand::Plain(value, ..) | Operand::Pointer { whole: Some(value), .. } => value,
            Operand::Truth(value) => self.builder.ins().uextend(types::I64, value),
            Operand::Pointer { base, offset, .. } => {
                let low = self.low_half(offset);
                self.builder.ins().bor(self.base_regions[base].high, low)
            }
        }
    }

    /// A pointer advanced by a number of bytes; the caller has checked that it is in range.
    pub(crate) fn advance(&mut self, pointer: Operand, bytes: Value, range: Range) -> Operand {
        match pointer {
            Operand::Pointer { base, offset, range: from, .. } => {
                let offset = self.builder.ins().iadd(offset, bytes);
                Operand::Pointer { base, offset, range: from.plus(range), whole: None }
            }
            other => {
                let hint = hint(&other);
                let value = self.as_word(other);
                let sum = self.builder.ins().iadd(value, bytes);
                let (high, low) = (self.mask_bits(value, !OFFSET_MASK), self.low_half(sum));
                Operand::Plain(self.builder.ins().bor(high, low), Range::FULL, hint)
            }
        }
    }

    /// `pointer` advanced by a number of elements.
    pub(crate) fn element(
        &mut self,
        pointer: Operand,
        (index, mut range): (Value, Range),
        size: u64,
        length: Option<u64>,
        span: Span,
    ) -> Operand {
        if let Some(length) = length {
            let max_index = i64::try_from(length).unwrap_or(i64::MAX) - 1;
            if !range.is_within(Range { low: 0, high: max_index }) {
                let is_none = self.compare(IntCC::UnsignedGreaterThanOrEqual, index, length as i64);
                self.trap_if(is_none, TrapKind::IndexOutOfRange, span);
            }
            range = Range { low: range.low.clamp(0, max_index.max(0)), high: range.high.clamp(0, max_index.max(0)) };
        }
        let step = Range::exactly(size as i64);
        if size > 0 && !range.times(step).is_within(Range::STEP) {
            // The number of elements that fit into the maximum step.
            let (low, high) = (Range::STEP.low / size as i64, Range::STEP.high / size as i64);
            let less = self.constant(low);
            let above = self.builder.ins().isub(index, less);
            let is_far = self.compare(IntCC::UnsignedGreaterThan, above, high - low);
            self.trap_if(is_far, TrapKind::OutOfBounds, span);
            range = Range { low: range.low.max(low), high: range.high.min(high).max(low) };
        }
        let size = self.constant(size as i64);
        let bytes = self.builder.ins().imul(index, size);
        self.advance(pointer, bytes, range.times(step))
    }

    /// `pointer` advanced by a number of bytes.
    pub(crate) fn field(&mut self, pointer: Operand, bytes: u64) -> Operand {
        let range = Range::exactly(bytes as i64);
        if !range.is_within(Range::STEP) {
            self.trap(TrapKind::OutOfBounds, Span::default());
            return pointer;
        }
        if bytes == 0 {
            return pointer;
        }
        let bytes = self.constant(bytes as i64);
        self.advance(pointer, bytes, range)
    }

    /// Loads the integer at a pointer.
    pub(crate) fn load(&mut self, pointer: Operand, integer: Integer, span: Span) -> Operand {
        let (address, slow) = self.checked_address(pointer, integer, false, span);
        let value = self.read(address, integer);
        let Some(slow) = slow else { return Operand::Plain(value, Range::of(integer), None) };
        let (done, result) = self.block_with(types::I64);
        self.builder.ins().jump(done, &[value.into()]);
        self.continue_in(slow);
        let pointer = self.as_word(pointer);
        let (number, location) = (self.constant(number_of(integer)), self.location(span));
        let value = self.call_back("load", &[pointer, number, location]);
        self.builder.ins().jump(done, &[value.into()]);
        self.continue_in(done);
        Operand::Plain(result, Range::of(integer), None)
    }

    /// Stores an integer at a pointer.
    pub(crate) fn store(&mut self, pointer: Operand, integer: Integer, value: Value, span: Span) {
        let (address, slow) = self.checked_address(pointer, integer, true, span);
        self.write(address, integer, value);
        let Some(slow) = slow else { return };
        let done = self.block();
        self.builder.ins().jump(done, &[]);
        self.continue_in(slow);
        let pointer = self.as_word(pointer);
        let (number, location) = (self.constant(number_of(integer)), self.location(span));
        self.call_back("store", &[pointer, value, number, location]);
        self.builder.ins().jump(done, &[]);
        self.continue_in(done);
    }

    pub(crate) fn location(&mut self, span: Span) -> Value {
        let location = self.locations.location(span);
        self.constant(location)
    }

    /// The address of the integer at a pointer. If it may be in another region than assumed, also the slow path to take
    /// then.
    fn checked_address(
        &mut self,
        pointer: Operand,
        integer: Integer,
        is_write: bool,
        span: Span,
    ) -> (Value, Option<Block>) {
        let size = u64::from(integer.bytes);
        let (address, offset, limit, is_known) = match (pointer, hint(&pointer)) {
            (Operand::Pointer { base, offset, range, .. }, _) => {
                let address = self.builder.use_var(self.base_regions[base].address);
                if let Some(bytes) = self.base_regions[base].bytes
                    && bytes >= size
                    && range.is_within(Range { low: 0, high: (bytes - size) as i64 })
                {
                    let offset = self.within_object(offset, range, bytes - size);
                    return (self.builder.ins().iadd(address, offset), None);
                }
                let is_low = range.is_within(Range { low: 0, high: OFFSET_MASK });
                let offset = if is_low { offset } else { self.low_half(offset) };
                (address, offset, self.limit(base, is_write), true)
            }
            (other, Some(base)) => {
                // In another region the difference exceeds any offset.
                let value = self.as_word(other);
                let offset = self.builder.ins().isub(value, self.base_regions[base].high);
                (self.builder.use_var(self.base_regions[base].address), offset, self.limit(base, is_write), false)
            }
            (other, None) => {
                let value = self.as_word(other);
                let found = locate_region(&mut self.builder, self.machine, value);
                let offset = self.low_half(value);
                (found.address, offset, if is_write { found.writable } else { found.readable }, true)
            }
        };
        let end = self.saturating_subtract(limit, size as i64 - 1);
        let is_within = self.builder.ins().icmp(IntCC::UnsignedLessThan, offset, end);
        let (fast, slow) = (self.block(), self.block());
        self.builder.set_cold_block(slow);
        self.builder.ins().brif(is_within, fast, &[], slow, &[]);
        if is_known {
            self.continue_in(slow);
            self.refuse(pointer, integer, is_write, span);
        }
        self.continue_in(fast);
        (self.builder.ins().iadd(address, offset), (!is_known).then_some(slow))
    }

    /// An offset assumed to be in this range and at most `last`, which is enforced in any case. Assumptions about
    /// an offset affect the computed result, but never which memory is accessed.
    fn within_object(&mut self, offset: Value, range: Range, last: u64) -> Value {
        match range.known() {
            Some(known) => self.constant(known),
            None => {
                let last = self.constant(last as i64);
                self.minimum(IntCC::UnsignedLessThan, offset, last)
            }
        }
    }

    /// Traps on an access known to be invalid: the callee determines the trap kind.
    fn refuse(&mut self, pointer: Operand, integer: Integer, is_write: bool, span: Span) {
        let pointer = self.as_word(pointer);
        let (bytes, is_write) = (self.constant(integer.bytes.into()), self.constant(is_write.into()));
        let location = self.location(span);
        self.trap_by_callback("refuse", &[pointer, bytes, is_write, location]);
    }

    /// Number of accessible bytes of a base's region.
    fn limit(&mut self, base: usize, is_write: bool) -> Value {
        let BaseRegion { readable, writable, bytes, .. } = self.base_regions[base];
        match bytes {
            Some(bytes) => self.constant(bytes as i64),
            None => self.builder.use_var(if is_write { writable } else { readable }),
        }
    }

    /// Start of a base's region, and the number of its accessible bytes.
    pub(crate) fn extent(&mut self, base: usize, is_write: bool) -> (Value, Value) {
        (self.builder.use_var(self.base_regions[base].address), self.limit(base, is_write))
    }

    /// Saturating subtraction from a length.
    fn saturating_subtract(&mut self, length: Value, by: i64) -> Value {
        if by == 0 {
            return length;
        }
        let (by, nothing) = (self.constant(by), self.constant(0));
        let rest = self.builder.ins().isub(length, by);
        let is_some = self.builder.ins().icmp(IntCC::SignedGreaterThan, rest, nothing);
        self.builder.ins().select(is_some, rest, nothing)
    }

    fn read(&mut self, address: Value, integer: Integer) -> Value {
        let make = self.builder.ins();
        match (integer.bytes, integer.is_unsigned) {
            (1, true) => make.uload8(types::I64, FLAGS, address, 0),
            (1, false) => make.sload8(types::I64, FLAGS, address, 0),
            (2, true) => make.uload16(types::I64, FLAGS, address, 0),
            (2, false) => make.sload16(types::I64, FLAGS, address, 0),
            (4, true) => make.uload32(FLAGS, address, 0),
            (4, false) => make.sload32(FLAGS, address, 0),
            _ => make.load(types::I64, FLAGS, address, 0),
        }
    }

    fn write(&mut self, address: Value, integer: Integer, value: Value) {
        let make = self.builder.ins();
        match integer.bytes {
            1 => make.istore8(FLAGS, value, address, 0),
            2 => make.istore16(FLAGS, value, address, 0),
            4 => make.istore32(FLAGS, value, address, 0),
            _ => make.store(FLAGS, value, address, 0),
        };
    }

    /// Zeroes an object.
    pub(crate) fn clear(&mut self, object: usize) {
        let bytes = self.function().objects[object];
        let base_index = self.base_region_index(Base::Object(object)).filter(|_| bytes <= MAX_UNROLLED_CLEAR_BYTES);
        let Some(base) = base_index else {
            let pointer = self.objects[object];
            self.call_back("clear", &[pointer]);
            return;
        };
        let address = self.builder.use_var(self.base_regions[base].address);
        let nothing = self.constant(0);
        let mut at = 0;
        for width in [8, 4, 2, 1] {
            while bytes - at >= u64::from(width) {
                let offset = self.constant(at as i64);
                let target = self.builder.ins().iadd(address, offset);
                self.write(target, Integer { bytes: width, is_unsigned: true }, nothing);
                at += u64::from(width);
            }
        }
    }

    /// Copies bytes.
    pub(crate) fn copy(&mut self, to: &E, from: &E, bytes: u64, span: Span) -> Operand {
        let (to, from) = (self.value(to), self.value(from));
        let (to_whole, from_whole) = (self.as_word(to), self.as_word(from));
        let (bytes, location) = (self.constant(bytes as i64), self.location(span));
        self.call_back("copy", &[to_whole, from_whole, bytes, location]);
        to
    }

    /// The registers of a function called with these values.
    pub(crate) fn register_storage(&mut self, function: usize, arguments: &[Operand]) -> Vec<RegisterStorage> {
        let facts = self.facts;
        let facts = &facts[function];
        // A function is never inlined into itself.
        let is_own = function == self.index;
        let mut storage = Vec::new();
        for register in 0..facts.is_set.len() {
            let mut value = arguments.get(register).copied();
            if let (true, Some(Operand::Plain(pointer, ..))) = (is_own, value) {
                value = Some(self.base(Base::Parameter(register), pointer));
            }
            if let (Some(value), false) = (value, facts.is_set[register]) {
                storage.push(RegisterStorage::Immutable(value));
                continue;
            }
            let (hint, is_exact) = match facts.provenances[register].base() {
                Some(Base::Parameter(parameter)) if !is_own => {
                    let argument = arguments.get(parameter);
                    (argument.and_then(hint), matches!(argument, Some(Operand::Pointer { .. })))
                }
                Some(base) => (self.base_region_index(base), true),
                None => (None, false),
            };
            let is_stable = is_exact && facts.is_stable[register];
            let variable = self.builder.declare_var(types::I64);
            let first = match value {
                Some(value) => self.as_word(value),
                None => self.constant(0),
            };
            self.builder.def_var(variable, first);
            storage.push(RegisterStorage::Mutable { variable, range: facts.ranges[register], hint, is_stable });
        }
        storage
    }
}

/// The base that a pointer may be derived from.
pub(crate) fn hint(operand: &Operand) -> Option<usize> {
    match operand {
        Operand::Plain(_, _, hint) => *hint,
        Operand::Pointer { base, .. } => Some(*base),
        Operand::Truth(_) => None,
    }
}
