use std::fmt::Write;

use super::*;

/// The syntax tree of a text, without spans.
fn tree(text: &str) -> String {
    let parsed = parse(text);
    assert!(parsed.diagnostics.is_empty(), "{text}\n{:#?}", parsed.diagnostics);
    let whole = format!("{:?}", parsed.description);
    let mut tree = String::new();
    let mut rest = whole.as_str();
    while let Some((before, behind)) = rest.split_once("Span { start: ") {
        tree.push_str(before);
        rest = behind.split_once('}').map_or("", |(_, behind)| behind);
    }
    tree + rest
}

/// Formats a text: the meaning and all comments are kept, and formatting is idempotent.
fn formatted(text: &str) -> String {
    let formatted = format(text).unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
    assert_eq!(tree(&formatted), tree(text), "{text}\n{formatted}");
    let (before, behind) = (lex(text), lex(&formatted));
    assert!(is_same(text, &before, &formatted), "{text}\n{formatted}");
    assert_eq!(before.comments.len(), behind.comments.len(), "{text}\n{formatted}");
    let again = format(&formatted).expect("it has just been read");
    assert_eq!(again, formatted, "from:\n{text}");
    // Text within comments and strings is verbatim.
    assert!(text.contains(" \n") || !formatted.contains(" \n"), "{formatted}");
    formatted
}

const ACLFS: &str = include_str!("../../tests/paper/aclfs.fist");

#[test]
fn the_listings_of_the_paper() {
    for (name, text) in [
        ("snoopfs", crate::parser::tests::SNOOPFS),
        ("cryptfs", crate::parser::tests::CRYPTFS),
        ("aclfs", ACLFS),
        ("unionfs", crate::parser::tests::UNIONFS),
    ] {
        insta::assert_snapshot!(name, formatted(text));
    }
}

/// A sample of everything that a FiST program can contain.
const EVERYTHING: &str = r#"/* A text
   with   a drawing */
%{
#include   <x.h>
#define  TWO (1+ 1) /* two */
  // announced
struct point {char tag;long x, y[ TWO ];};
enum {A,B=5 , C};
enum {
  D};
typedef unsigned  long big ;
int twice( int of ) ;
extern char * names [ 3 ];
%}
%fanout : 2 ;
%errorcode EBADKEY  200;
errorcode:EOTHER;
per_vnode {int opens;}
per_vfs {
  int count; // how many

  char key[16];
}; /* behind */
%% // rules
/* The first. */
%op:unlink:precall{ int a=-1 ,*b=&a; a=a- -*b; a = a%%uid+ %gid %2; if(!a)return;
  else if (a==1){} else if(a==2) a++; else { --a; } // done
  /* last */ }

%delops:all {
  do a(); while(1);
  do { ; } while (0) ;
  while(x)
    ;
  for(int i=0;i<3;i++)for(;;)break;
  switch($0.mode&07){case 1: case A?B:C: f(); break; default:
    // nothing
    g();
    // still nothing
  }
  long c = (long)-1 + (char)*p*sizeof(int)*sizeof x , d[2][2]={{1,2},{3,4}};
  c = $0.size>0?$0.size : c; p->x.y[1] += ~c;
  fistPrintf("a" "b\
c", f(1,,2));
  { int c; }
}
%%
unsigned char table[32] = { 0x00,0x01,0x02,0x03,0x04,0x05,0x06,0x07,0x08,0x09,0x0a,0x0b,0x0c,0x0d,0x0e,0x0f, /* half */
 0x10,0x11,0x12,0x13,0x14,0x15,0x16,0x17,0x18,0x19,0x1a,0x1b,0x1c,0x1d,0x1e,0x1f };
int square(int a){return a*a;};
static int with_a_long_name(const page_t *the_first_of_them, page_t *the_second_of_them, int length, long page)
{
    return with_a_long_name(the_first_of_them + 1, the_second_of_them, length - 1, page) || (length > 4096 && page != 17 && page != 18);
}"#;

#[test]
fn one_of_everything() {
    insta::assert_snapshot!("everything", formatted(EVERYTHING));
}

#[test]
fn comments_keep_their_position() {
    let text = "// begin\n\n\n/* of */ fanout /* how many */ 2 /* these */ ; // two\n// more\n%%\n\
        %op:unlink { // why\n/* before */ f(a, // first\n   b /* second */, /* third */ c\n // alone\n );\n\
        if (x) // if so\n a(); /* a */\n // or\n else // if not\n b();\n {\n /*\n * stars\n   * too\n */ }\n} // end\n// end of all";
    insta::assert_snapshot!("comments", formatted(text));
}

#[test]
fn conditional_text_is_left_unchanged() {
    let text = "%{\n  #ifdef  SMALL\n#define LIMIT 10\n   #else\n#define   LIMIT 100\n#endif // SMALL\n%}\nfanout  2;\n\
        #ifdef LATER\nfanout   3;\n#endif\n%%\n%op:unlink {\nf( );\n#ifndef EPERM\n  g( );\n  #endif\n}";
    let expected = "%{\n#ifdef  SMALL\n#define LIMIT 10\n   #else\n#define   LIMIT 100\n#endif // SMALL\n%}\n\nfanout 2;\n\n\
        #ifdef LATER\nfanout   3;\n#endif\n%%\n\n%op:unlink {\n    f();\n    #ifndef EPERM\n  g( );\n  #endif\n}\n";
    assert_eq!(formatted(text), expected);
    formatted("%%\n%op:unlink {\n  if (a\n#ifdef NONE\n  && b\n#endif\n  ) f(1,\n#ifndef NONE\n 2\n#endif\n);\n}");
}

#[test]
fn fields_are_on_one_line_if_they_were_and_fit() {
    assert_eq!(formatted("per_vfs {int a;};"), "per_vfs { int a; };\n");
    assert_eq!(formatted("per_vfs {};"), "per_vfs {};\n");
    assert_eq!(formatted("per_vfs {\nint a;};"), "per_vfs {\n    int a;\n};\n");
    assert_eq!(formatted("per_vfs {int a; /* b */};"), "per_vfs {\n    int a;\n    /* b */\n};\n");
    let long = format!("per_vfs /* c */ {{ int {}; long b; }};", "a".repeat(90));
    assert_eq!(formatted(&long), format!("per_vfs /* c */ {{\n    int {};\n    long b;\n}};\n", "a".repeat(90)));
}

#[test]
fn line_endings_follow_the_first_line() {
    let text = EVERYTHING.replace('\n', "\r\n");
    let formatted = format(&text).unwrap();
    assert_eq!(formatted, format(EVERYTHING).unwrap().replace('\n', "\r\n"));
    assert_eq!(format(&formatted).unwrap(), formatted);
    assert_eq!(tree(&formatted), tree(&text));
    assert_eq!(format("fanout 2;\n/* a\r\n b */").unwrap(), "fanout 2;\n/* a\n b */\n");
}

#[test]
fn deeply_nested_programs_are_formatted() {
    let deep = |open: &str, close: &str| format!("x = {}1{};", open.repeat(100), close.repeat(100));
    let blocks = format!("{}x();{}", "if (1) { ".repeat(100), "}".repeat(100));
    let list = format!("int t[] = {}1{};", "{".repeat(100), "}".repeat(100));
    for body in [deep("(", ")"), deep("f(a, ", ")"), deep("a[", "]"), blocks, list] {
        formatted(&format!("%%\n%op:unlink {{ {body} }}\n"));
    }
}

#[test]
fn invalid_programs_are_not_formatted() {
    assert_eq!(format("fanout two;").unwrap_err().len(), 1);
    assert_eq!(format("").unwrap(), "");
    assert_eq!(format("\n\n // only this\n\n").unwrap(), "// only this\n");
}

/// Generates random valid FiST programs.
struct ProgramGenerator {
    random: fastrand::Rng,
    text: String,
    depth: u32,
}

impl ProgramGenerator {
    fn some<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.random.usize(..of.len())]
    }

    fn chance(&mut self, of: u32) -> bool {
        self.random.u32(..of) == 0
    }

    /// Random trivia between two tokens.
    fn between(&mut self) {
        let count = self.random.usize(0..2) + usize::from(self.chance(30));
        for _ in 0..=count {
            let gap = match self.random.u32(..60) {
                0 => "// a comment \n",
                1 => "/* one */",
                2 => "/* one\n  * two */",
                3 => "\n\n\n",
                4 => "/* a\n b\n*/\n",
                58 => "\n#ifdef NONE\n  a { ( // b\n #endif\n",
                59 => "\n #ifndef NONE // none\n#else\n}\n#endif\n",
                5..=12 => "\n",
                13..=16 => "\t",
                _ => " ",
            };
            self.text.push_str(gap);
        }
    }

    fn put(&mut self, tokens: &[&str]) {
        for token in tokens {
            self.text.push_str(token);
            self.between();
        }
    }

    fn line(&mut self, line: &str) {
        let _ = write!(self.text, "\n{line}\n");
        self.between();
    }

    fn expression(&mut self) {
        if self.depth > 5 {
            let value = self.some(&["x", "1", "%uid", "a_name_that_is_somewhat_longer"]);
            return self.put(&[value]);
        }
        self.depth += 1;
        match self.random.u32(..14) {
            0..=3 => {
                let values =
                    ["a_name", "0x1f", "12ul", "'\\n'", "\"text\"", "%uid", "$0", "$dir:1", "$name", "$0.owner"];
                let value = self.some(&values);
                self.put(&[value]);
            }
            4..=7 => {
                let operators = ["+", "-", "*", "/", "%", "&", "|", "^", "&&", "||", "==", "!=", "<", ">=", "<<", ">>"];
                self.expression();
                let operator = self.some(&operators);
                self.put(&[operator]);
                self.unary();
            }
            8 => self.unary(),
            9 => {
                self.put(&["("]);
                self.expression();
                self.put(&[")"]);
            }
            10 => self.call(),
            11 => {
                let to = self.some(&["int", "char *", "unsigned long", "page_t *"]);
                self.put(&["(", to, ")"]);
                self.unary();
            }
            12 => {
                self.put(&["(", "x", "?"]);
                self.expression();
                self.put(&[":"]);
                self.expression();
                self.put(&[")"]);
            }
            _ => {
                self.put(&["p", "[", "1", "]", "->", "field"]);
                if self.chance(3) {
                    self.put(&["++"]);
                }
            }
        }
        self.depth -= 1;
    }

    fn unary(&mut self) {
        let operator = self.some(&["-", "!", "~", "*", "&", "+", "--", "++", "sizeof "]);
        self.put(&[operator]);
        let value = self.some(&["x", "(1)", "-y", "+y", "&z", "*z", "%gid", "$1"]);
        self.put(&[value]);
    }

    fn call(&mut self) {
        self.put(&["fistOp", "("]);
        let count = self.random.usize(..8);
        for index in 0..count {
            if index > 0 {
                self.put(&[","]);
            }
            self.expression();
        }
        self.put(&[")"]);
    }

    fn statement(&mut self) {
        if self.depth > 4 {
            return self.put(&["return", ";"]);
        }
        self.depth += 1;
        match self.random.u32(..14) {
            0 => self.put(&[";"]),
            1..=3 => {
                self.put(&["x"]);
                let operator = self.some(&["=", "+=", "%=", "<<="]);
                self.put(&[operator]);
                self.expression();
                self.put(&[";"]);
            }
            4 => {
                self.put(&["char", "*", "*", "q", "=", "x", ",", "r", "[", "4", "]", ";"]);
            }
            5 => {
                self.put(&["int", "t", "[", "]", "=", "{", "{"]);
                for _ in 0..self.random.u32(..30) {
                    self.expression();
                    self.put(&[","]);
                }
                self.put(&["1", "}", ",", "{", "2", "}", "}", ";"]);
            }
            6 => {
                self.put(&["if", "("]);
                self.expression();
                self.put(&[")"]);
                self.statement();
                if self.chance(2) {
                    self.put(&["else "]);
                    self.statement();
                }
            }
            7 => {
                self.put(&["for", "(", "int", "i", "=", "0", ";"]);
                self.expression();
                self.put(&[";", ")"]);
                self.statement();
            }
            8 => {
                self.put(&["do "]);
                self.statement();
                self.put(&["while", "("]);
                self.expression();
                self.put(&[")", ";"]);
            }
            9 => {
                self.put(&["switch", "("]);
                self.expression();
                self.put(&[")", "{", "case ", "1", "?", "2", ":", "3", ":"]);
                self.statement();
                self.put(&["default", ":", "case", "'a'", ":", "}"]);
            }
            10 | 11 => self.block(),
            _ => {
                self.call();
                self.put(&[";"]);
            }
        }
        self.depth -= 1;
    }

    fn block(&mut self) {
        self.put(&["{"]);
        for _ in 0..self.random.usize(..5) {
            self.statement();
        }
        self.put(&["}"]);
    }

    fn fields(&mut self) {
        self.put(&["{"]);
        for index in 0..self.random.usize(..4) {
            let names = ["a", "b_whose_name_takes_a_good_part_of_a_line", "c", "d_whose_name_takes_another_part"];
            let name = names[index];
            self.put(&["unsigned", "long ", name, "[", "1", "+", "2", "]", ",", "e", ";"]);
        }
        self.put(&["}"]);
    }

    fn description(mut self) -> String {
        if self.chance(2) {
            self.line("%{");
            self.line("#define  LIMIT\t(1 << 4) \\\n  + 2");
            self.items();
            self.line("%}");
        }
        for _ in 0..self.random.usize(..4) {
            match self.random.u32(..4) {
                0 => self.put(&["fanout", ":", "2", ";"]),
                1 => self.put(&["%", "filter ", "data", ";"]),
                2 => {
                    self.put(&["ioctl", ":", "fromuser ", "SET"]);
                    self.fields();
                    self.put(&[";"]);
                }
                _ => {
                    self.put(&["per_vfs"]);
                    self.fields();
                }
            }
        }
        self.line("%%");
        for _ in 0..self.random.usize(..4) {
            self.text.push('\n');
            self.put(&["%", "op", ":", "lookup"]);
            if self.chance(2) {
                self.put(&[":", "postcall"]);
            }
            self.block();
        }
        self.line("%%");
        self.items();
        self.text
    }

    fn items(&mut self) {
        for _ in 0..self.random.usize(..3) {
            match self.random.u32(..4) {
                0 => {
                    self.put(&["struct ", "one"]);
                    self.fields();
                    self.put(&[";"]);
                }
                1 => self.put(&["enum", "{", "A", ",", "B", "=", "3", ",", "}", ";"]),
                2 => self.put(&["const ", "char ", "*", "name", "=", "\"x\"", "\"y\\\nz\"", ";"]),
                _ => {
                    self.put(&["static ", "int ", "f", "(", "const ", "page_t", "*", "in", ",", "int ", "n", ")"]);
                    self.block();
                }
            }
        }
    }
}

/// The seed, which is printed, and the number of iterations.
fn random(usual: u64) -> (u64, u64) {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let seed = number("PLYFS_TEST_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("PLYFS_TEST_SEED={seed}");
    (seed, number("FUZZ_ROUNDS").unwrap_or(usual))
}

#[test]
fn formatting_mutated_programs_keeps_their_meaning() {
    let (seed, rounds) = random(2_000);
    let mut random = fastrand::Rng::with_seed(seed);
    let pieces =
        ["/* c */", "// c\n", "\n", "\n\n\n", " ", ";", "(1)", "-", "%", "{", "}", "x", "\n%%\n", "/*\n*/", ",", "#"];
    let mut read = 0;
    for _ in 0..rounds {
        let mut text = random.choice([EVERYTHING, ACLFS, crate::parser::tests::CRYPTFS]).unwrap().to_owned();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..text.len());
            if random.u32(..4) > 0 {
                text.insert_str(at, random.choice(pieces).unwrap());
            } else {
                text.replace_range(at..text.len().min(at + random.usize(1..4)), "");
            }
        }
        if parse(&text).diagnostics.is_empty() {
            formatted(&text);
            read += 1;
        }
    }
    assert!(read * 20 > rounds, "only {read} of {rounds} could be read");
}

#[test]
fn formatting_random_programs_keeps_their_meaning() {
    let (seed, rounds) = random(500);
    let mut read = 0;
    for round in 0..rounds {
        let maker = ProgramGenerator { random: fastrand::Rng::with_seed(seed ^ round), text: String::new(), depth: 0 };
        let text = maker.description();
        if parse(&text).diagnostics.is_empty() {
            formatted(&text);
            read += 1;
        }
    }
    assert!(read * 2 > rounds, "only {read} of {rounds} could be read");
}
