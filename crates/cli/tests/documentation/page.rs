//! A page of the documentation: its sessions of commands, and what comments before blocks say of how they are run.
//!
//! | comment before a block | meaning |
//! |---|---|
//! | `<!-- before: COMMANDS -->` | commands that make what the block works on; also on several lines |
//! | `<!-- file: NAME -->` | the block is the contents of a file in the current directory |
//! | `<!-- new session -->` | a session begins, which knows nothing of the blocks above |
//! | `<!-- not run: REASON -->` | the commands of the block are not run |

/// A page, as it is run.
pub(crate) struct Page {
    /// Its path in the project.
    pub name: String,
    /// The sessions, each with its steps in order.
    pub sessions: Vec<Vec<Step>>,
    /// The blocks that are not run.
    pub left_out: Vec<LeftOut>,
}

/// One step of a session.
pub(crate) struct Step {
    /// The line of the page where it begins, counted from 1.
    pub line: usize,
    /// What is done.
    pub action: Action,
}

/// What a step does.
pub(crate) enum Action {
    /// Runs commands that readers do not see; they must succeed.
    Prepare(String),
    /// Writes a file.
    WriteFile {
        /// Its path from the current directory of the session.
        path: String,
        contents: String,
    },
    /// Runs a command whose output the page does not show; it must succeed.
    Run(String),
    /// Runs a command, which must print what the page shows; if that is nothing, it must succeed.
    Compare { command: String, output: Vec<String> },
}

/// A block that is not run.
pub(crate) struct LeftOut {
    /// The line of the page where it begins, counted from 1.
    pub line: usize,
    /// Why it is not run.
    pub reason: String,
    /// Number of its commands.
    pub commands: usize,
}

/// What comments say of the next block.
#[derive(Default)]
struct Directives {
    before: Option<String>,
    file: Option<String>,
    begins_session: bool,
    reason_not_run: Option<String>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// Describes a block of commands that is not marked as one, a session that does not begin with a command, and a comment or
    /// block that does not end.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut page = Self { name: name.to_owned(), sessions: vec![Vec::new()], left_out: Vec::new() };
        let mut directives = Directives::default();
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        while let Some((number, line)) = lines.next() {
            let unclosed = || format!("{name}:{number}: this does not end");
            if let Some(begin) = line.strip_prefix("<!--") {
                let mut comment = begin.to_owned();
                while !comment.ends_with("-->") {
                    comment = comment + "\n" + lines.next().ok_or_else(unclosed)?.1;
                }
                directives.add(comment.trim_end_matches("-->").trim());
            } else if let Some(language) = line.strip_prefix("```") {
                let mut content = Vec::new();
                loop {
                    match lines.next().ok_or_else(unclosed)?.1 {
                        "```" => break,
                        line => content.push(line),
                    }
                }
                page.add_block(number, language, &content, std::mem::take(&mut directives))?;
            }
        }
        Ok(page)
    }

    fn add_block(&mut self, line: usize, language: &str, content: &[&str], about: Directives) -> Result<(), String> {
        if about.begins_session {
            self.sessions.push(Vec::new());
        }
        if let Some(commands) = about.before {
            self.add_step(line, Action::Prepare(commands));
        }
        if let Some(path) = about.file {
            self.add_step(line, Action::WriteFile { path, contents: content.join("\n") + "\n" });
            return Ok(());
        }
        let commands = match language {
            "sh" => script_commands(line + 1, content),
            "console" => console_commands(line + 1, content)
                .ok_or_else(|| format!("{}:{line}: a console block begins with `$ ` and a command", self.name))?,
            "" if content.first().is_some_and(|first| first.starts_with("$ ") || first.starts_with("plyfs ")) => {
                return Err(format!("{}:{line}: a block of commands is marked as `sh` or `console`", self.name));
            }
            _ => return Ok(()),
        };
        match about.reason_not_run {
            Some(reason) => self.left_out.push(LeftOut { line, reason, commands: commands.len() }),
            None => commands.into_iter().for_each(|Step { line, action }| self.add_step(line, action)),
        }
        Ok(())
    }

    fn add_step(&mut self, line: usize, action: Action) {
        self.sessions.last_mut().expect("a page has a session").push(Step { line, action });
    }
}

impl Directives {
    /// Takes up a comment; one that is not about a block is skipped.
    fn add(&mut self, comment: &str) {
        if comment == "new session" {
            self.begins_session = true;
        } else if let Some(commands) = comment.strip_prefix("before:") {
            self.before = Some(commands.trim().to_owned());
        } else if let Some(name) = comment.strip_prefix("file:") {
            self.file = Some(name.trim().to_owned());
        } else if let Some(reason) = comment.strip_prefix("not run:") {
            self.reason_not_run = Some(reason.trim().to_owned());
        }
    }
}

/// Returns the commands of a block without output: one on each line that is not a comment, longer ones with backslashes.
fn script_commands(first_line: usize, content: &[&str]) -> Vec<Step> {
    let mut commands: Vec<Step> = Vec::new();
    let mut is_continued = false;
    for (index, text) in content.iter().enumerate() {
        match commands.last_mut() {
            Some(Step { action: Action::Run(command), .. }) if is_continued => {
                command.push('\n');
                command.push_str(text);
            }
            _ if text.trim().is_empty() || text.starts_with('#') => continue,
            _ => commands.push(Step { line: first_line + index, action: Action::Run((*text).to_owned()) }),
        }
        is_continued = text.ends_with('\\');
    }
    commands
}

/// Returns the commands of a block with their output. A command with a backslash or a here-document continues on lines after `> `.
fn console_commands(first_line: usize, content: &[&str]) -> Option<Vec<Step>> {
    let mut commands: Vec<Step> = Vec::new();
    for (index, text) in content.iter().enumerate() {
        if let Some(command) = text.strip_prefix("$ ") {
            let action = Action::Compare { command: command.to_owned(), output: Vec::new() };
            commands.push(Step { line: first_line + index, action });
            continue;
        }
        let Some(Step { action: Action::Compare { command, output }, .. }) = commands.last_mut() else { return None };
        let may_continue = output.is_empty() && (command.ends_with('\\') || command.contains("<<"));
        match text.strip_prefix("> ").or(text.strip_prefix('>')) {
            Some(more) if may_continue => {
                command.push('\n');
                command.push_str(more);
            }
            _ => output.push((*text).to_owned()),
        }
    }
    Some(commands)
}
