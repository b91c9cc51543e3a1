//! Layout of statements: line breaks and indentation.

use super::writer::Writer;

impl Writer<'_> {
    /// Writes statements in braces; the line continues after the closing brace.
    pub(crate) fn block(&mut self) {
        self.plain(true);
        if self.at("}") && !self.has_comments() {
            self.plain(false);
            return;
        }
        self.end_line();
        self.page.is_fresh = true;
        self.level += 1;
        while !self.at("}") && !self.at_end() {
            self.statement();
        }
        self.close_block();
    }

    fn statement(&mut self) {
        let is_word = |word| self.at_word(word);
        if self.at("{") {
            self.block();
            self.end_line();
        } else if is_word("if") {
            self.condition();
        } else if is_word("while") || is_word("for") {
            self.token();
            self.parentheses();
            self.body_to_end();
        } else if is_word("do") {
            self.do_while();
        } else if is_word("switch") {
            self.switch();
        } else {
            self.run(";");
            self.end_line();
        }
    }

    /// Writes the body of an `if` or a loop; returns whether the line continues after a brace.
    fn body(&mut self) -> bool {
        if self.at("{") {
            self.block();
            return true;
        }
        self.end_line();
        self.page.is_fresh = true;
        self.level += 1;
        self.statement();
        self.level -= 1;
        false
    }

    fn body_to_end(&mut self) {
        if self.body() {
            self.end_line();
        }
    }

    fn condition(&mut self) {
        self.word(false);
        loop {
            self.parentheses();
            let goes_on = self.body();
            if !self.at_word("else") {
                break self.end_line();
            }
            if !goes_on {
                self.no_blank();
            }
            self.word(goes_on);
            if !self.at_word("if") {
                break self.body_to_end();
            }
            self.word(true);
        }
    }

    fn do_while(&mut self) {
        self.word(false);
        let goes_on = self.body();
        if !goes_on {
            self.no_blank();
        }
        self.word(goes_on);
        self.parentheses();
        self.run(";");
        self.end_line();
    }

    fn switch(&mut self) {
        self.word(false);
        self.parentheses();
        self.plain(true);
        self.end_line();
        self.page.is_fresh = true;
        while !self.at("}") && !self.at_end() {
            if self.at_word("case") || self.at_word("default") {
                self.label();
                self.page.is_fresh = true;
            } else {
                self.level += 1;
                self.statement();
                self.level -= 1;
            }
        }
        // Comments before the brace belong to the last statement.
        self.level += 1;
        self.close_block();
        self.end_line();
    }
}
