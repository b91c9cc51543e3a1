//! The server answers an editor that is in the same process.

use std::thread::JoinHandle;
use std::time::Duration;

use lsp_server::{Connection, Message, Notification, Request};
use plyfs_fist_server::{Failure, serve_on};
use serde_json::{Value, json};

const URI: &str = "file:///srv/my%20fs.fist";

const TEXT: &str = r#"errorcode EBADKEY;
ioctl:fromuser SETKEY { char ukey[16]; };
per_vfs { char key[16]; };
per_vnode { int opens; };
mntdata { int limit; };
%%
%op:ioctl:SETKEY {
    /* ü */ char buffer[16];
    if (fistGetIoctlData(SETKEY, ukey, buffer) < 0)
        fistSetErr(EFAULT);
    $0.opens = twice($mnt.limit) + $0.size + %uid;
}
%delops:name:postcall {
    fistLookup($dir:1, $name);
}
%%
int twice(int of) {
    return of * 2;
}
"#;

/// An editor, and the server that it speaks to.
struct Editor {
    connection: Connection,
    server: JoinHandle<Result<(), Failure>>,
    asked: i32,
}

impl Editor {
    fn new(capabilities: Value) -> Editor {
        let (connection, other) = Connection::memory();
        let server = std::thread::spawn(move || serve_on(&other));
        let mut editor = Editor { connection, server, asked: 0 };
        let result = editor.ask("initialize", json!({ "capabilities": capabilities }));
        assert_eq!(result["capabilities"]["hoverProvider"], true, "{result}");
        editor.tell("initialized", json!({}));
        editor
    }

    fn tell(&self, method: &str, parameters: Value) {
        self.connection.sender.send(Notification::new(method.to_owned(), parameters).into()).unwrap();
    }

    fn receive(&self) -> Message {
        self.connection.receiver.recv_timeout(Duration::from_secs(60)).expect("the server says something")
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.try_ask(method, parameters).expect("an answer that is no error")
    }

    fn try_ask(&mut self, method: &str, parameters: Value) -> Result<Value, i32> {
        self.asked += 1;
        let request = Request::new(self.asked.into(), method.to_owned(), parameters);
        self.connection.sender.send(request.into()).unwrap();
        match self.receive() {
            Message::Response(response) => {
                assert_eq!(response.id, self.asked.into());
                response.response_result.map_err(|error| error.code)
            }
            other => panic!("{other:?}"),
        }
    }

    /// The diagnostics that are told next.
    fn reported(&self) -> Value {
        match self.receive() {
            Message::Notification(reported) => {
                assert_eq!(
                    (reported.method.as_str(), &reported.params["uri"]),
                    ("textDocument/publishDiagnostics", &json!(URI))
                );
                reported.params["diagnostics"].clone()
            }
            other => panic!("{other:?}"),
        }
    }

    fn open(&self, text: &str) -> Value {
        let document = json!({ "uri": URI, "languageId": "fist", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
        self.reported()
    }

    fn change(&self, text: &str) -> Value {
        let document = json!({ "uri": URI, "version": 2 });
        self.tell("textDocument/didChange", json!({ "textDocument": document, "contentChanges": [{ "text": text }] }));
        self.reported()
    }

    /// What is answered about the place where `at` stands in the text, behind so many of its bytes.
    fn at(&mut self, method: &str, text: &str, at: &str, preceding_punctuator: usize) -> Value {
        let byte = text.find(at).unwrap_or_else(|| panic!("{at}")) + preceding_punctuator;
        let line = text[..byte].matches('\n').count();
        let column = text[..byte].rsplit('\n').next().unwrap().encode_utf16().count();
        let position = json!({ "line": line, "character": column });
        self.ask(method, json!({ "textDocument": { "uri": URI }, "position": position }))
    }

    fn hover(&mut self, at: &str, preceding_punctuator: usize) -> String {
        let answer = self.at("textDocument/hover", TEXT, at, preceding_punctuator);
        answer["contents"]["value"].as_str().unwrap_or_default().to_owned()
    }

    /// What can stand at the end of a text.
    fn proposed(&mut self, text: &str) -> Vec<String> {
        self.change(text);
        let answer = self.at("textDocument/completion", &format!("{text}\u{0}"), "\u{0}", 0);
        answer.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    }

    fn end(mut self) {
        assert_eq!(self.ask("shutdown", Value::Null), Value::Null);
        self.tell("exit", Value::Null);
        self.server.join().unwrap().unwrap();
    }
}

#[test]
fn errors_are_reported_while_typing() {
    let editor = Editor::new(json!({}));
    assert_eq!(editor.open(TEXT), json!([]));
    let reported = editor.change("%%\n%op:unlnik {\n    /* \u{1f600} */ x = 1;\n    int x; int x;\n}\n");
    let reported = reported.as_array().unwrap();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!((&reported[0]["code"], &reported[0]["severity"]), (&json!("F0103"), &json!(1)));
    assert!(reported[0]["message"].as_str().unwrap().contains("\nhelp: perhaps `unlink` is meant"), "{reported:?}");
    let reported = editor.change("%%\n%op:unlink {\n    /* \u{1f600} */ x = 1;\n    int x; int x;\n}\n");
    let reported = reported.as_array().unwrap();
    assert_eq!(reported.len(), 2, "{reported:?}");
    let range = json!({ "start": { "line": 2, "character": 13 }, "end": { "line": 2, "character": 14 } });
    assert_eq!(reported[0]["range"], range);
    assert_eq!(reported[1]["relatedInformation"][0]["location"]["uri"], URI);
    editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": URI } }));
    assert_eq!(editor.reported(), json!([]));
    editor.end();
}

#[test]
fn filter_functions_have_the_file_name_as_prefix() {
    let editor = Editor::new(json!({}));
    let reported = editor.open("filter:name;\n%%\n");
    assert!(reported[0]["message"].as_str().unwrap().contains("`my_fs_encode_name`"), "{reported}");
    editor.end();
}

#[test]
fn columns_are_bytes_if_the_editor_supports_utf8() {
    let editor = Editor::new(json!({ "general": { "positionEncodings": ["utf-16", "utf-8"] } }));
    let reported = editor.open("%%\n%op:unlink {\n    /* \u{1f600} */ x = 1;\n}\n");
    assert_eq!(reported[0]["range"]["start"], json!({ "line": 2, "character": 15 }));
    editor.end();
}

#[test]
fn hover_explains_words() {
    let mut editor = Editor::new(json!({}));
    editor.open(TEXT);
    for (at, preceding_punctuator, expected) in [
        ("errorcode", 1, "a name for an error number"),
        ("fromuser", 0, "its data come from the program"),
        ("per_vfs", 7, "data of each mount"),
        ("%op", 2, "operations"),
        ("ioctl:SETKEY", 1, "gives a command: ioctl(2)"),
        ("ioctl:SETKEY", 8, "char ukey[16]"),
        ("delops", 0, "take a name away"),
        ("name:postcall", 0, "those on names: unlink, rmdir, rename"),
        ("postcall", 0, "behind the operation"),
        ("fistGetIoctlData", 4, "int fistGetIoctlData(ioctl, field, to)"),
        ("ukey, buffer", 1, "char ukey[16]"),
        ("buffer)", 1, "char buffer[16]"),
        ("EFAULT", 1, "EFAULT = 14"),
        ("EBADKEY", 1, "errorcode EBADKEY;"),
        ("opens =", 1, "int opens"),
        ("limit)", 1, "int limit"),
        ("size +", 1, "its bytes"),
        ("%uid", 0, "the user who asks"),
        ("%uid", 2, "the user who asks"),
        ("$0.size", 1, "short for $this:0"),
        ("$dir:1", 1, "the directory that it is done in, on file system 1 below"),
        ("$name", 1, "the name that the operation is about"),
        ("twice($", 1, "int twice(int of)"),
        ("of * 2", 1, "int of"),
    ] {
        let help = editor.hover(at, preceding_punctuator);
        assert!(help.contains(expected), "{at}: {help}");
    }
    assert_eq!(editor.hover("\u{fc} */", 0), "", "nothing in comments");
    assert_eq!(editor.hover("return", 1), "");
    let wrong = "%%\n%op:unlink { x = 1; }\n";
    editor.change(wrong);
    let help = editor.at("textDocument/hover", wrong, "x =", 0);
    assert!(help["contents"]["value"].as_str().unwrap().contains("**F0202**: A name that is not declared."), "{help}");
    editor.end();
}

#[test]
fn completion_proposes_what_fits() {
    let mut editor = Editor::new(json!({}));
    editor.open(TEXT);
    let declarations = &TEXT[..TEXT.find("%%").unwrap()];
    let within = format!("{declarations}%%\n%op:ioctl:SETKEY {{\n    int local;\n    ");
    for (text, some, none) in [
        ("", &["fanout", "per_vfs"][..], &["unlink"][..]),
        ("%fan", &["fanout"], &["op"]),
        ("accessmode ", &["readonly", "writeonly"], &["fanout"]),
        ("filter:", &["data", "name", "size"], &["readonly"]),
        ("per_vfs {\n    ", &["char", "uint32_t"], &["fanout"]),
        ("%%\n", &["%op", "%delops"], &["fanout"]),
        ("%%\n%", &["op", "createops"], &["uid"]),
        ("%%\n%op:", &["unlink", "all", "name"], &["precall"]),
        ("%%\n%op:unl", &["unlink"], &["precall"]),
        ("%%\n%op:unlink:", &["precall", "postcall"], &["unlink"]),
        (&format!("{declarations}%%\n%op:ioctl:"), &["SETKEY", "precall"], &["unlink"]),
        (&format!("{declarations}%%\n%op:ioctl:SETKEY:"), &["precall"], &["SETKEY"]),
        (&format!("{within}$"), &["dir", "name", "vfs", "this"], &["uid"]),
        (&format!("{within}x = %"), &["uid", "pagesize"], &["dir"]),
        (&format!("{within}%u"), &["uid"], &["op"]),
        (&format!("{within}$0."), &["owner", "opens"], &["key"]),
        (&format!("{within}$vfs."), &["key", "limit"], &["owner"]),
        (&format!("{within}$mnt.li"), &["limit"], &["key"]),
        (&format!("{within}fi"), &["fistSetErr", "local", "EPERM", "EBADKEY", "SETKEY", "if", "int"], &["unlink"]),
        (&format!("{within}// fi"), &[], &["fistSetErr"]),
        (&format!("{within}f(\"fi"), &[], &["fistSetErr"]),
        ("%%\n%%\nst", &["static", "struct", "page_t"], &["fistSetErr"]),
    ] {
        let proposed = editor.proposed(text);
        for word in some {
            assert!(proposed.iter().any(|one| one == word), "{word} behind {text:?}: {proposed:?}");
        }
        for word in none {
            assert!(!proposed.iter().any(|one| one == word), "{word} behind {text:?}");
        }
    }
    editor.end();
}

#[test]
fn completion_replaces_the_current_word() {
    let mut editor = Editor::new(json!({}));
    editor.open("");
    let text = "%%\n%op:unlnik { }\n";
    editor.change(text);
    let answer = editor.at("textDocument/completion", text, "unlnik", 3);
    let item = answer.as_array().unwrap().iter().find(|item| item["label"] == "unlink").unwrap();
    let range = json!({ "start": { "line": 1, "character": 4 }, "end": { "line": 1, "character": 10 } });
    assert_eq!(item["textEdit"], json!({ "range": range, "newText": "unlink" }));
    editor.end();
}

#[test]
fn documents_are_formatted_and_outlined() {
    let mut editor = Editor::new(json!({}));
    editor.open(TEXT);
    let options = json!({ "textDocument": { "uri": URI }, "options": { "tabSize": 8, "insertSpaces": false } });
    let edits = editor.ask("textDocument/formatting", options.clone());
    assert_eq!(edits[0]["newText"], json!(fist::fmt::format(TEXT).unwrap()));
    assert_eq!(edits[0]["range"]["start"], json!({ "line": 0, "character": 0 }));
    assert_eq!(edits[0]["range"]["end"], json!({ "line": TEXT.lines().count(), "character": 0 }));
    let outline = editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": URI } }));
    let names: Vec<&str> = outline.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    let expected =
        ["EBADKEY", "SETKEY", "per_vfs", "per_vnode", "mntdata", "%op:ioctl:SETKEY", "%delops:name:postcall", "twice"];
    assert_eq!(names, expected);
    assert_eq!(outline[2]["children"][0]["name"], "key");
    let made = fist::fmt::format(TEXT).unwrap();
    editor.change(&made);
    assert_eq!(editor.ask("textDocument/formatting", options.clone()), json!([]));
    editor.change("fanout two;");
    assert_eq!(editor.ask("textDocument/formatting", options), json!([]));
    editor.end();
}

#[test]
fn invalid_requests_are_answered_with_errors() {
    let mut editor = Editor::new(json!({}));
    assert_eq!(editor.try_ask("textDocument/rename", json!({})), Err(-32601));
    assert_eq!(editor.try_ask("textDocument/hover", json!({ "position": 1 })), Err(-32602));
    let unknown = json!({ "textDocument": { "uri": "file:///none" }, "position": { "line": 0, "character": 0 } });
    assert_eq!(editor.ask("textDocument/hover", unknown), Value::Null);
    editor.tell("textDocument/didOpen", json!({ "none": 1 }));
    editor.tell("$/cancelRequest", json!({ "id": 1 }));
    assert_eq!(editor.open(""), json!([]));
    let far = json!({ "textDocument": { "uri": URI }, "position": { "line": 99, "character": 99 } });
    assert_eq!(editor.ask("textDocument/hover", far), Value::Null);
    editor.end();
}

#[test]
fn disconnect_without_shutdown_ends_the_server() {
    let Editor { connection, server, .. } = Editor::new(json!({}));
    drop(connection);
    assert!(matches!(server.join().unwrap(), Err(Failure::Protocol(_))));
}

/// Whatever is typed, the server answers.
#[test]
fn truncated_programs_do_no_harm() {
    let mut editor = Editor::new(json!({}));
    editor.open("");
    for end in (0..TEXT.len()).filter(|end| TEXT.is_char_boundary(*end)) {
        let text = &TEXT[..end];
        editor.proposed(text);
        editor.at("textDocument/hover", &format!("{text}\u{0}"), "\u{0}", 0);
        editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": URI } }));
    }
    editor.end();
}

/// Whatever stands there, the server answers, and each span that it names is in the text.
#[test]
fn random_edits_do_no_harm() {
    let given = std::env::var("PLYFS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("PLYFS_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut editor = Editor::new(json!({}));
    editor.open(TEXT);
    let pieces = [
        "%",
        "$",
        "{",
        "}",
        "(",
        ".",
        ":",
        "\"",
        "/*",
        "\n%%\n",
        "\n%{\n",
        "\u{1f600}",
        "\u{fc}",
        "\n#define ",
        "%op:",
        ";",
    ];
    let mut text = TEXT.to_owned();
    for round in 0..400 {
        let characters: Vec<usize> = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).collect();
        let (one, other) = (*random.choice(&characters).unwrap(), *random.choice(&characters).unwrap());
        if random.bool() {
            text.insert_str(one, random.choice(pieces).unwrap());
        } else {
            text.replace_range(one..other.clamp(one, one.max(text.floor_char_boundary(one + 9))), "");
        }
        if round % 40 == 39 {
            text = TEXT.to_owned();
        }
        let lines = text.matches('\n').count() as u64;
        for reported in editor.change(&text).as_array().unwrap() {
            assert!(reported["range"]["end"]["line"].as_u64().unwrap() <= lines, "{reported} in {text}");
        }
        let position = json!({ "line": random.u64(..=lines), "character": random.u32(..40) });
        let asked = json!({ "textDocument": { "uri": URI }, "position": position });
        editor.ask("textDocument/hover", asked.clone());
        editor.ask("textDocument/completion", asked);
        let options = json!({ "tabSize": 4, "insertSpaces": true });
        editor.ask("textDocument/formatting", json!({ "textDocument": { "uri": URI }, "options": options }));
        let outline = editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": URI } }));
        for symbol in outline.as_array().unwrap() {
            assert!(symbol["range"]["end"]["line"].as_u64().unwrap() <= lines, "{symbol} in {text}");
        }
    }
    editor.end();
}
