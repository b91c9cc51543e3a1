//! Random descriptions: a function `f` that is given bytes to read, bytes to write and two integers, and what it calls.

use std::fmt::Write;

/// Integers of all widths, their names and bytes.
const TYPES: [(&str, u8); 8] = [
    ("char", 1),
    ("unsigned char", 1),
    ("short", 2),
    ("unsigned short", 2),
    ("int", 4),
    ("unsigned", 4),
    ("long", 8),
    ("unsigned long", 8),
];

/// What every description begins with: data of all kinds, and functions that random ones call.
const BEGIN: &str = "%{\nstruct pair { char tag; long x; int y[3]; };\n%}\n\
per_vfs { int count; char key[8]; };\nper_vnode { short opens; };\n%%\n%%\n\
int shared[4] = {1, -2, 3};\nunsigned char marks[8];\n\
const char letters[16] = \"abcdefghijklmno\";\nconst int primes[5] = {2, 3, 5, 7, -11};\n\
const unsigned char wide[256] = \"The quick brown fox jumps over the lazy dog, 0123456789 times and more, #+-*/=<>()[]{}\";\n\
static int rotate(int c) { if (c >= 'a' && c <= 'z') return 'a' + (c - 'a' + 13) % 26; return c; }\n\
static char low(long c) { return c; }\n\
static unsigned most(unsigned one, int other) { if (one > other) return one; else return other; }\n\
static long peek(const char *p, int i) { return p[i]; }\n\
static void poke(int *p, long i, int value) { p[i] = value; }\n\
static long *far(long *p, int i) { return p + i; }\n\
static int length(const char *s) { int n = 0; while (*s++) n++; return n; }\n\
static long twice(long a) { return peek(letters, a & 15) + rotate(a) * 2; }\n\
static int *gone(int a) { int x = a; int *p = &x; *p += 1; return p; }\n\
static long deep(int n, long a) { int kept[2]; kept[n & 1] = n; if (n <= 0) return a; return deep(n - 1, a + kept[0]) + kept[1]; }\n\
static long even(int n);\nstatic long odd(int n) { return n == 0 ? 0 : even(n - 1); }\nstatic long even(int n) { return n == 0 ? 1 : odd(n - 1); }\n\
static void fill(unsigned char *p, int n, int with) { for (int i = 0; i < n; i++) p[i] ^= with + i; }\n\
static long total(struct pair *p) { p->y[1]++; return p->x + p->tag + p->y[0] - p->y[2]; }\n";

#[derive(Clone, Debug)]
enum Kind {
    Integer,
    /// Bytes of an element, and so many of them.
    Array(u8, usize),
    /// Bytes of what it points to; whether that is written to.
    Pointer(u8, bool),
    Structure,
}

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    kind: Kind,
    /// Random statements do not assign to it: it counts rounds.
    counts: bool,
}

/// A random description as it is made.
pub(crate) struct Maker {
    random: fastrand::Rng,
    text: String,
    variables: Vec<Variable>,
    names: usize,
    loops: usize,
    switches: usize,
    /// So many statements have been made.
    pub statements: usize,
}

/// A random description, and how many statements it has.
pub(crate) fn description(seed: u64) -> (String, usize) {
    let random = fastrand::Rng::with_seed(seed);
    let mut maker =
        Maker { random, text: BEGIN.to_owned(), variables: Vec::new(), names: 0, loops: 0, switches: 0, statements: 0 };
    maker.bytes();
    for name in ["g", "h"] {
        maker.function(name, "static long", 4);
    }
    maker.function("f", "long", 12);
    (maker.text, maker.statements)
}

/// A number as it is written: the least one has no literal.
fn literal(number: i64) -> String {
    if number == i64::MIN { "(-9223372036854775807 - 1)".into() } else { format!("({number})") }
}

impl Maker {
    /// Functions that make bytes of bytes, as filters do.
    fn bytes(&mut self) {
        let chosen = |maker: &mut Maker| {
            let (one, other, third) = (maker.byte("c", 2, false), maker.byte("c", 2, false), maker.byte("c", 1, false));
            match maker.below(3) {
                0 => format!("return {one};"),
                1 => format!("if ({}) return {one}; return {other};", maker.test("c", 2, false)),
                _ => format!(
                    "if ({}) {{ return {one}; }} else if ({}) return {other}; return {third};",
                    maker.test("c", 1, false),
                    maker.test("c", 1, false)
                ),
            }
        };
        for name in ["one", "other"] {
            let (body, r#type, given) = (chosen(self), self.integer_type().0, self.integer_type().0);
            let _ = writeln!(self.text, "static {type} {name}({given} c) {{ {body} }}");
        }
        for name in ["map", "mix", "wild"] {
            self.bytes_by_bytes(name);
        }
    }

    /// A loop that makes bytes of bytes at the same place, or at places that are moved against each other.
    fn bytes_by_bytes(&mut self, name: &str) {
        let mut counter = self.integer_type().0;
        let is_wild = name == "wild";
        let head = if is_wild { self.wild_head() } else { self.usual_head() };
        let read = if is_wild && self.one_in(3) { format!("in[{}]", self.moved()) } else { "in[i]".into() };
        let depth = 1 + self.below(3);
        let (value, r#type) = (self.byte(&read, depth, true), ["char", "unsigned char"][self.below(2)]);
        let written = if is_wild && self.one_in(3) { self.moved() } else { "i".into() };
        let place = if self.one_in(12) { format!("kept[{written}]") } else { format!("out[{written}]") };
        let round = self.round(&place, value);
        // Sometimes what the last round has left is wanted.
        let last = if self.one_in(8) { " + late" } else { "" };
        let given = ["char", "unsigned char"][self.below(2)];
        let mut count = self.integer_type().0;
        if self.one_in(2) {
            (counter, count) = ("int", "int");
        }
        let key = ["int", "long"][self.below(2)];
        let _ = writeln!(
            self.text,
            "static long {name}(const {given} *in, {type} *out, {count} n, {key} k) {{ char kept[60]; {counter} i; int late; \
             for ({head}) {round} return i + kept[k & 7]{last}; }}"
        );
        self.statements += 3;
    }

    /// How filters count: near zero, up by one.
    fn usual_head(&mut self) -> String {
        let bound = ["n", "n", "n", "n", "20", "36", "64"][self.below(7)];
        let (start, step) =
            (["0", "0", "1", "k & 3", "0", "0", "2", "-2"][self.below(8)], ["i++", "++i", "i += 1"][self.below(3)]);
        format!("i = {start}; i < {bound}; {step}")
    }

    /// A loop that begins and ends anywhere. What it reaches ends it, if nothing else does: each round writes farther on.
    fn wild_head(&mut self) -> String {
        let (start, bound) = (self.edge(), if self.one_in(2) { "n".into() } else { self.edge() });
        let test = ["<", "<", "<", "<=", "!=", ">", ">="][self.below(7)];
        let steps = ["i++", "i++", "++i", "i += 1", "i--", "i += 2", "i += 3", "i -= 1", "i += 16", "i -= 16"];
        format!("i = {start}; i {test} {bound}; {}", steps[self.below(steps.len())])
    }

    /// A number near a limit: of vectors, buffers and types, or one that is given.
    fn edge(&mut self) -> String {
        let near = self.below(7) as i64 - 3;
        match self.below(12) {
            0..=2 => near.to_string(),
            3..=4 => (near + [-16, -32, 16, 32, -48, -64][self.below(6)]).to_string(),
            5 => (near + [36, 40, 48, 60, 90][self.below(5)]).to_string(),
            6 => (near + [127, 128, 255, 256, -128, 32_767, 65_535, -32_768, 4096, -4096][self.below(10)]).to_string(),
            7 => (near + [1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 32, -(1 << 32)][self.below(5)]).to_string(),
            8 => format!("(-9223372036854775807 + {})", self.below(20)),
            9 => format!("(9223372036854775807 - {})", self.below(20)),
            10 => ["k", "-k", "(k & 63)", "(n - 16)", "(n - 32)", "(n - 17)", "-n"][self.below(7)].into(),
            _ => format!("(k + {})", self.below(40)),
        }
    }

    /// An index that is moved against the counter.
    fn moved(&mut self) -> String {
        let by = self.below(20);
        match self.below(10) {
            0..=2 => format!("i + {by}"),
            3..=5 => format!("i - {by}"),
            6 => format!("i {} k", ["+", "-"][self.below(2)]),
            7 => "i + (k & 15)".into(),
            8 => ["n - i", "i * 2", "i + n", "(char)i", "(unsigned char)i", "(unsigned)i"][self.below(6)].into(),
            _ => {
                let edge = self.edge();
                format!("i + {edge}")
            }
        }
    }

    /// What a loop does in a round to write a byte.
    fn round(&mut self, place: &str, value: String) -> String {
        match self.below(5) {
            0 => {
                let (r#type, first, second) =
                    (self.integer_type().0, self.test("c", 1, true), self.test("c", 1, false));
                let (one, other) = (self.byte("c", 2, true), self.byte("c", 2, false));
                format!(
                    "{{ {type} c = {value}; if ({first}) c = {one}; else if ({second}) {{ c += {other}; }} {place} = c; }}"
                )
            }
            1 => {
                let (test, other) = (self.test("in[i]", 1, true), self.byte("in[i]", 2, true));
                format!("if ({test}) {place} = {value}; else {{ {place} = {other}; }}")
            }
            2 => {
                let (test, one) = (self.test("late", 1, true), self.byte("late", 1, true));
                let first = if self.one_in(4) { "" } else { "late = in[i]; " };
                format!("{{ {first}if ({test}) late = {one}; {place} = late + {value}; }}")
            }
            _ => format!("{place} = {value};"),
        }
    }

    /// A byte of a table, by an index.
    fn looked(&mut self, index: &str) -> String {
        match self.below(8) {
            0 | 1 => format!("letters[{index} & 15]"),
            2 => format!("letters[{index} % 16]"),
            3 => format!("wide[(unsigned char){index}]"),
            4 => format!("wide[{index} & 127]"),
            5 => format!("{}[{index} & 7]", ["kept", "in", "out", "in"][self.below(4)]),
            6 => format!("wide[{index}]"),
            _ => format!("letters[({index} & 7) + {}]", self.below(12)),
        }
    }

    /// A value made of a byte.
    fn byte(&mut self, of: &str, depth: usize, is_called: bool) -> String {
        if depth == 0 {
            return match self.below(8) {
                0 | 1 => ["1", "13", "'a'", "255", "-1", "128", "7", "300"][self.below(8)].into(),
                2 if is_called => ["out[i]", "letters[i]", "k", "in[i]", "i", "(i & 15)"][self.below(6)].into(),
                _ => of.into(),
            };
        }
        let one = self.byte(of, depth - 1, is_called);
        match self.below(16) {
            15 => format!("({one} * {})", ["7", "2", "-3", "256", "0", "13"][self.below(6)]),
            14 if is_called => self.looked(&one),
            0..=5 => {
                let (operator, other) =
                    (["+", "-", "^", "&", "|", "+"][self.below(6)], self.byte(of, depth - 1, is_called));
                format!("({one} {operator} {other})")
            }
            6 => format!("({one} << {})", self.below(10)),
            7 => format!("({one} >> {})", self.below(10)),
            8 => format!("({one} % {})", 1 + self.below(140)),
            9 => format!("({one} / {})", 1 + self.below(140)),
            10 => format!("(({}){one})", self.integer_type().0),
            11 if is_called => format!("{}({one})", ["one", "other", "rotate"][self.below(3)]),
            12 => {
                let (test, other) = (self.test(of, depth - 1, is_called), self.byte(of, depth - 1, is_called));
                format!("({test} ? {one} : {other})")
            }
            _ => format!("({} & 255)", one),
        }
    }

    /// A condition on a byte.
    fn test(&mut self, of: &str, depth: usize, is_called: bool) -> String {
        let bound = ["'a'", "'z'", "100", "0", "127", "200", "255", "-5"][self.below(8)];
        let operator = ["<", "<=", ">", ">=", "==", "!="][self.below(6)];
        if depth == 0 {
            return format!("{of} {operator} {bound}");
        }
        let (one, other) = (self.test(of, depth - 1, is_called), self.test(of, depth - 1, is_called));
        match self.below(6) {
            0 => format!("!({one})"),
            1 | 2 => format!("({one} && {other})"),
            3 => format!("({one} || {other})"),
            4 => {
                let value = self.byte(of, depth - 1, is_called);
                format!("{value} {operator} {bound}")
            }
            _ => one,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.usize(..limit)
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn function(&mut self, name: &str, result: &str, statements: usize) {
        self.variables = Vec::new();
        for (name, kind) in [
            ("in", Kind::Pointer(1, false)),
            ("out", Kind::Pointer(1, true)),
            ("a", Kind::Integer),
            ("b", Kind::Integer),
        ] {
            self.variables.push(Variable { name: name.into(), kind, counts: false });
        }
        let (one, other) = (self.integer_type().0, self.integer_type().0);
        let _ =
            writeln!(self.text, "{result} {name}(const unsigned char *in, unsigned char *out, {one} a, {other} b) {{");
        for (name, bytes, array) in
            [("s1", 1, "char s1[6]"), ("s2", 2, "short s2[5]"), ("s4", 4, "int s4[4]"), ("s8", 8, "long s8[3]")]
        {
            let _ = writeln!(self.text, "{array} = {{1, 2}};");
            self.add(name, Kind::Array(bytes, 3), false);
        }
        if name == "f" {
            let (at, length) = (self.below(20), self.below(40));
            let (from, to, count) = (self.below(40), self.below(40), self.below(52));
            let _ = writeln!(
                self.text,
                "unsigned char wide[90]; fistMemCpy(wide + {at}, in, {length}); a += map(in, wide, {length}, b); \
                 b += mix(wide + {from}, wide + {to}, {count}, a);"
            );
            self.add("wide", Kind::Array(1, 90), false);
        }
        for _ in 0..3 {
            self.declaration();
        }
        let count = 2 + self.below(statements);
        for _ in 0..count {
            self.statement(3);
        }
        let value = self.integer(3);
        if name == "f" {
            // At the end, for it may well be stopped.
            let (from, to, count, key) = (self.start(), self.start(), self.count(), self.number());
            let (read, written) = (["in", "wide", "wide"][self.below(3)], ["out", "wide", "wide"][self.below(3)]);
            let _ = writeln!(self.text, "a += wild({read} + {from}, {written} + {to}, {count}, {key});");
        }
        let _ = writeln!(self.text, "return {value};\n}}");
    }

    /// Where bytes begin: a few before what they lie in.
    fn start(&mut self) -> i64 {
        self.below(40) as i64 - if self.one_in(6) { 40 } else { 0 }
    }

    /// Number of bytes; a few can be none.
    fn count(&mut self) -> String {
        if self.one_in(4) { literal(self.limit()) } else { self.below(70).to_string() }
    }

    fn integer_type(&mut self) -> (&'static str, u8) {
        TYPES[self.below(TYPES.len())]
    }

    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn add(&mut self, name: &str, kind: Kind, counts: bool) {
        self.variables.push(Variable { name: name.to_owned(), kind, counts });
    }

    /// A variable of a kind.
    fn pick(&mut self, fits: impl Fn(&Variable) -> bool) -> Option<Variable> {
        let fitting: Vec<Variable> = self.variables.iter().filter(|one| fits(one)).cloned().collect();
        (!fitting.is_empty()).then(|| fitting[self.below(fitting.len())].clone())
    }

    fn declaration(&mut self) {
        self.statements += 1;
        let name = self.fresh();
        let (r#type, bytes) = self.integer_type();
        match self.below(8) {
            0 | 1 => {
                let length = 1 + self.below(9);
                let _ = writeln!(self.text, "{type} {name}[{length}];");
                self.add(&name, Kind::Array(bytes, length), false);
            }
            2 => {
                let pointer = self.pointer(bytes, true, 2);
                let _ = writeln!(self.text, "{type} *{name} = {pointer};");
                self.add(&name, Kind::Pointer(bytes, true), false);
            }
            3 => {
                let pointer = self.pointer(bytes, false, 2);
                let _ = writeln!(self.text, "const {type} *{name} = {pointer};");
                self.add(&name, Kind::Pointer(bytes, false), false);
            }
            4 => {
                let _ = writeln!(self.text, "struct pair {name};");
                self.add(&name, Kind::Structure, false);
            }
            _ => {
                let value = self.integer(2);
                let _ = writeln!(self.text, "{type} {name} = {value};");
                self.add(&name, Kind::Integer, false);
            }
        }
    }

    fn block(&mut self, depth: usize) {
        let known = self.variables.len();
        self.text.push_str("{\n");
        for _ in 0..1 + self.below(3) {
            self.statement(depth - 1);
        }
        self.text.push_str("}\n");
        self.variables.truncate(known);
    }

    fn statement(&mut self, depth: usize) {
        self.statements += 1;
        match self.below(24) {
            0 | 1 => self.declaration(),
            2..=4 if depth > 0 => self.branch(depth),
            5..=7 if depth > 0 && self.loops < 2 => self.repeat(depth),
            8 if depth > 0 => self.switch(depth),
            9 if self.loops + self.switches > 0 => self.text.push_str("break;\n"),
            10 if self.loops > 0 => self.text.push_str("continue;\n"),
            11 if self.one_in(4) => {
                let value = self.integer(2);
                let _ = writeln!(self.text, "return {value};");
            }
            12 | 13 => self.memory(),
            14 => self.shared(),
            15 => self.call(),
            16 | 17 => self.pointer_assignment(),
            _ => self.assignment(),
        }
    }

    fn branch(&mut self, depth: usize) {
        let condition = self.integer(2);
        let _ = write!(self.text, "if ({condition}) ");
        self.block(depth);
        if self.one_in(2) {
            self.text.push_str("else ");
            self.block(depth);
        }
    }

    fn repeat(&mut self, depth: usize) {
        let (name, rounds) = (self.fresh(), 1 + self.below(5));
        // A few never end.
        let step = if self.one_in(4000) { "" } else { "++" };
        let known = self.variables.len();
        self.loops += 1;
        let switches = std::mem::take(&mut self.switches);
        match self.below(4) {
            0 => {
                let _ = write!(self.text, "{{ int {name} = 0; while ({name}{step} < {rounds}) ");
                self.add(&name, Kind::Integer, true);
                self.block(depth);
            }
            1 => {
                let _ = write!(self.text, "{{ char {name} = 0; do ");
                self.add(&name, Kind::Integer, true);
                self.block(depth);
                let _ = write!(self.text, "while ({name}{step} < {rounds});");
            }
            2 => {
                // A counter from anywhere in the range of its type, which may wrap around.
                let (r#type, _) = self.integer_type();
                let first = self.limit();
                let (by, test) =
                    [("++", "<"), ("++", "!="), ("--", "!="), ("--", ">"), (" += 3", "!="), (" -= 16", "!=")]
                        [self.below(6)];
                let each = match by {
                    "++" => 1,
                    "--" => -1,
                    " += 3" => 3,
                    _ => -16,
                };
                let last = first.wrapping_add(each * rounds as i64);
                let [first, last] = [first, last].map(literal);
                let _ =
                    write!(self.text, "{{ for ({type} {name} = {first}; {name} {test} ({type}){last}; {name}{by}) ");
                self.add(&name, Kind::Integer, true);
                self.block(depth);
            }
            _ => {
                let (r#type, _) = self.integer_type();
                let _ = write!(self.text, "{{ for ({type} {name} = 0; {name} < {rounds}; {name}{step}) ");
                self.add(&name, Kind::Integer, true);
                self.block(depth);
            }
        }
        self.text.push_str("}\n");
        self.loops -= 1;
        self.switches = switches;
        self.variables.truncate(known);
    }

    fn switch(&mut self, depth: usize) {
        let value = self.integer(2);
        let _ = writeln!(self.text, "switch (({value}) & 7) {{");
        self.switches += 1;
        let parts = 1 + self.below(4);
        for part in 0..parts {
            let label = part * 2 + self.below(2);
            let _ = if self.one_in(5) && part + 1 == parts {
                writeln!(self.text, "default:")
            } else {
                writeln!(self.text, "case {label}:")
            };
            self.block(depth);
            if self.one_in(2) {
                self.text.push_str("break;\n");
            }
        }
        self.switches -= 1;
        self.text.push_str("}\n");
    }

    /// Something that can be assigned to.
    fn place(&mut self, depth: usize) -> String {
        let variable = self.pick(|one| !one.counts && !matches!(one.kind, Kind::Pointer(_, false)));
        let Some(variable) = variable else { return "a".into() };
        match variable.kind {
            Kind::Integer => variable.name,
            Kind::Array(_, length) => {
                let index = self.index(length, depth);
                format!("{}[{index}]", variable.name)
            }
            Kind::Pointer(..) if self.one_in(2) => format!("*{}", variable.name),
            Kind::Pointer(..) => {
                let index = self.index(4, depth);
                format!("{}[{index}]", variable.name)
            }
            Kind::Structure => self.field(&variable.name, depth),
        }
    }

    fn field(&mut self, name: &str, depth: usize) -> String {
        match self.below(3) {
            0 => format!("{name}.tag"),
            1 => format!("{name}.x"),
            _ => {
                let index = self.index(3, depth);
                format!("{name}.y[{index}]")
            }
        }
    }

    /// An index that mostly is one.
    fn index(&mut self, length: usize, depth: usize) -> String {
        match self.below(40) {
            0 => self.integer(depth.min(1)),
            1 => {
                let by = self.below(18) as i64 - 9;
                match self.pick(|one| one.counts) {
                    Some(counter) => format!("{} - {}", counter.name, literal(self.limit().wrapping_add(by))),
                    None => self.below(length).to_string(),
                }
            }
            2..=12 => self.below(length).to_string(),
            _ => {
                let value = self.integer(depth.min(1));
                format!("(unsigned)({value}) % {length}")
            }
        }
    }

    fn assignment(&mut self) {
        let (place, value) = (self.place(2), self.integer(3));
        let _ = match self.below(10) {
            0 => writeln!(self.text, "{place}++;"),
            1 => writeln!(self.text, "--{place};"),
            2 => writeln!(self.text, "{place} += {value};"),
            3 => writeln!(self.text, "{place} ^= {value};"),
            4 => writeln!(self.text, "{place} *= {value};"),
            5 => writeln!(self.text, "{place} >>= {value};"),
            6 => writeln!(self.text, "if ({value}) {place} = {place} - 3;"),
            _ => writeln!(self.text, "{place} = {value};"),
        };
    }

    fn pointer_assignment(&mut self) {
        let variable = self.pick(|one| matches!(one.kind, Kind::Pointer(..)));
        let Some(Variable { name, kind: Kind::Pointer(bytes, is_written), .. }) = variable else { return };
        let _ = match self.below(6) {
            0 => writeln!(self.text, "{name}++;"),
            1 => writeln!(self.text, "{name}--;"),
            2 => {
                let value = self.integer(1);
                writeln!(self.text, "{name} += ({value}) % 5;")
            }
            3 if is_written => {
                let value = self.integer(1);
                writeln!(self.text, "*{name}++ = {value};")
            }
            _ => {
                let pointer = self.pointer(bytes, is_written, 2);
                writeln!(self.text, "{name} = {pointer};")
            }
        };
    }

    /// Memory: copied, set, allocated and given back.
    fn memory(&mut self) {
        let (to, from) = (self.pointer(1, true, 1), self.pointer(1, false, 1));
        let length = match self.below(16) {
            0 => self.integer(1),
            _ => self.below(6).to_string(),
        };
        let _ = match self.below(7) {
            0 => writeln!(self.text, "fistMemCpy({to}, {from}, {length});"),
            1 => writeln!(self.text, "fistMemSet({to}, {length}, {length});"),
            2 => writeln!(self.text, "fill({to}, {length}, a);"),
            3 if self.loops == 0 => {
                let variable = self.pick(|one| matches!(one.kind, Kind::Pointer(1, true)));
                match variable {
                    Some(variable) if self.one_in(2) => writeln!(self.text, "fistFree({});", variable.name),
                    _ => return,
                }
            }
            4 => {
                let name = self.fresh();
                self.add(&name, Kind::Pointer(1, true), false);
                writeln!(self.text, "char *{name} = fistMalloc(({length}) & 31);")
            }
            5 => {
                let name = self.fresh();
                let array = self.below(12) + 1;
                self.add(&name, Kind::Array(1, array), false);
                writeln!(self.text, "char {name}[{array}] = \"{}\";", &"abcdefgh"[..self.random.usize(..array.min(8))])
            }
            _ => writeln!(self.text, "fistPrintf(\"%d %s\", fistMemCmp({from}, {to}, {length}), letters);"),
        };
    }

    fn shared(&mut self) {
        let (index, value) = (self.index(4, 1), self.integer(2));
        let _ = match self.below(8) {
            0 => writeln!(self.text, "shared[{index}] = {value};"),
            1 => writeln!(self.text, "shared[{index}] += {value};"),
            2 => writeln!(self.text, "marks[{index}]++;"),
            3 => writeln!(self.text, "$vfs.count -= {value};"),
            4 => writeln!(self.text, "$vfs.key[{index}] = {value};"),
            5 => writeln!(self.text, "fistSetErr({value});"),
            6 => writeln!(self.text, "fistPrintf(\"%d\", {value});"),
            _ => writeln!(self.text, "marks[{index}] ^= shared[{index}];"),
        };
    }

    fn call(&mut self) {
        let (pointer, value, index) = (self.pointer(4, true, 1), self.integer(1), self.index(3, 1));
        let _ = match self.below(6) {
            4 | 5 => {
                let (from, to, count) = (self.pointer(1, false, 1), self.pointer(1, true, 1), self.below(70));
                let name = ["map", "mix"][self.below(2)];
                writeln!(self.text, "a += {name}({from}, {to}, {count}, {value});")
            }
            0 => writeln!(self.text, "poke({pointer}, {index}, {value});"),
            1 => writeln!(self.text, "if ({value}) *gone({index}) = {value};"),
            2 => {
                let place = self.place(1);
                writeln!(self.text, "{place} = twice({value});")
            }
            _ => {
                let name = self.fresh();
                let value = writeln!(self.text, "struct pair {name}; {name}.x = {value}; a += total(&{name});");
                self.add(&name, Kind::Structure, false);
                value
            }
        };
    }

    /// A pointer to integers of so many bytes.
    fn pointer(&mut self, bytes: u8, is_written: bool, depth: usize) -> String {
        let variable = self.pick(|one| match one.kind {
            Kind::Array(of, _) => of == bytes,
            Kind::Pointer(of, may_write) => of == bytes && (may_write || !is_written),
            _ => false,
        });
        if self.one_in(60) {
            return ["0", "((char *)letters)", "((char *)primes)", "((char *)in)"]
                [if bytes == 1 { self.below(4) } else { 0 }]
            .into();
        }
        let Some(Variable { name, kind, .. }) = variable else {
            return match (bytes, is_written) {
                (1, true) => "out".into(),
                (1, false) => "letters".into(),
                (4, false) => "primes".into(),
                _ => "0".into(),
            };
        };
        if depth > 0 && self.one_in(3) {
            let value = self.integer(depth - 1);
            return format!("({name} + ({value}) % 4)");
        }
        match kind {
            Kind::Array(_, length) => {
                let index = self.index(length, 0);
                if self.one_in(2) { format!("&{name}[{index}]") } else { name }
            }
            _ if bytes == 8 && is_written && self.one_in(3) => {
                let value = self.below(3);
                format!("far({name}, {value})")
            }
            _ => name,
        }
    }

    /// A number near a limit of a type, or near zero.
    fn limit(&mut self) -> i64 {
        const LIMITS: [i64; 13] = [
            0,
            -16,
            -32,
            127,
            -128,
            255,
            32_767,
            65_535,
            i32::MAX as i64,
            i32::MIN as i64,
            u32::MAX as i64,
            i64::MAX,
            i64::MIN,
        ];
        LIMITS[self.below(LIMITS.len())].wrapping_add(self.below(9) as i64 - 4)
    }

    fn number(&mut self) -> String {
        match self.below(8) {
            0 => self.random.i32(..).to_string(),
            1 => self.random.i64(i64::MIN + 1..).to_string(),
            2 => ["0x80000000", "2147483647", "255", "65535", "128", "4294967295", "-1", "(-9223372036854775807 - 1)"]
                [self.below(8)]
            .to_string(),
            _ => (self.below(20) as i64 - 4).to_string(),
        }
    }

    /// A value.
    fn integer(&mut self, depth: usize) -> String {
        if depth == 0 || self.one_in(6) {
            return self.leaf();
        }
        let (one, other) = (self.integer(depth - 1), self.integer(depth - 1));
        match self.below(26) {
            0..=8 => {
                let operator = ["+", "-", "*", "&", "|", "^", "<<", ">>", "-"][self.below(9)];
                format!("({one} {operator} {other})")
            }
            9 => format!("({one} / ({other} | 1))"),
            10 => format!("({one} % ({other} | 1))"),
            11 => {
                let by = 1 + self.below(40);
                format!("({one} {} {by})", ["/", "%"][self.below(2)])
            }
            12 if self.one_in(8) => format!("({one} / ({other} & 7))"),
            12..=14 => {
                let operator = ["<", "<=", ">", ">=", "==", "!="][self.below(6)];
                format!("({one} {operator} {other})")
            }
            15 => format!("({one} && {other})"),
            16 => format!("({one} || {other})"),
            17 => {
                let third = self.integer(depth - 1);
                format!("({one} ? {other} : {third})")
            }
            18 => format!("{}({one})", ["-", "~", "!"][self.below(3)]).replace("--", "- -"),
            19 | 20 => {
                let (r#type, _) = self.integer_type();
                format!("(({type}){one})")
            }
            21 => {
                let place = self.place(0);
                let operators = ["=", "+=", "|="];
                format!("({place} {} {other})", operators[self.below(3)])
            }
            22 => {
                let place = self.place(0);
                ["({}++)", "(--{})"][self.below(2)].replace("{}", &place)
            }
            _ => self.asked(&one, &other),
        }
    }

    /// A value that a function answers, or that is read from memory or shared data.
    fn asked(&mut self, one: &str, other: &str) -> String {
        let (index, few) = (self.index(4, 0), if self.one_in(50) { 999 } else { self.below(9) });
        let function = self.text.matches("static long g(").count() + self.text.matches("static long h(").count();
        match self.below(16) {
            0 => format!("rotate({one})"),
            1 => format!("low({one})"),
            2 => format!("most({one}, {other})"),
            3 => format!("twice({one})"),
            4 => format!("peek(letters, {index})"),
            5 => format!("deep({few}, {one})"),
            6 => format!("even({few})"),
            7 => format!("shared[{index}]"),
            8 => format!("(shared[{index}] += {one})"),
            9 => format!("letters[{index}]"),
            10 => format!("primes[{index}]"),
            11 => "$vfs.count".into(),
            12 => {
                let pointer = self.pointer(1, false, 0);
                format!("length({pointer})")
            }
            13 => {
                let (one, other) = (self.pointer(1, false, 0), self.pointer(1, false, 0));
                if self.one_in(2) {
                    format!("({one} < {other})")
                } else {
                    format!("fistMemCmp({one}, {other}, {few} & 3)")
                }
            }
            14 if function > 1 && self.loops == 0 => {
                let name = ["g", "h"][self.below(function - 1)];
                format!("{name}(in, out, {one}, {few})")
            }
            _ => {
                let variable = self.pick(|one| matches!(one.kind, Kind::Array(..)));
                match variable {
                    Some(Variable { name, .. }) => format!("(&{name}[{index} % 2] - {name})"),
                    None => "a".into(),
                }
            }
        }
    }

    fn leaf(&mut self) -> String {
        if self.one_in(3) {
            return self.number();
        }
        let Some(variable) = self.pick(|_| true) else { return self.number() };
        match variable.kind {
            Kind::Integer => variable.name,
            Kind::Array(_, length) => {
                let index = self.below(length);
                format!("{}[{index}]", variable.name)
            }
            Kind::Pointer(..) if self.one_in(2) => format!("*{}", variable.name),
            Kind::Pointer(..) => format!("{}[{}]", variable.name, self.below(3)),
            Kind::Structure => format!("{}.x", variable.name),
        }
    }
}
