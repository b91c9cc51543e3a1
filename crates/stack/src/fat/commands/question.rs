//! Questions of a repair, asked on the terminal.

use bases::fat::tools::fsck::{Question, RepairChoice};
use layers::command::CommandHost;
use layers::printable::escaped;

/// Returns the answer of the user: a number, a word, or an empty line for the suggestion. Without a terminal, or at the end of the input,
/// nothing is changed.
pub(crate) fn ask(question: &Question, host: &dyn CommandHost) -> RepairChoice {
    let mut prompt = text(question);
    while let Some(line) = host.ask(&prompt) {
        if let Some(answer) = answer(question, &line) {
            return answer;
        }
        prompt = format!("'{}' is none of them: ", escaped(&line));
    }
    RepairChoice::Leave
}

/// Returns the question, with a line for each answer.
fn text(question: &Question) -> String {
    let mut text = format!("{} {}\n", escaped(&question.path), escaped(&question.problem.description()));
    for (index, answer) in question.answers.iter().enumerate() {
        let mark = if *answer == question.suggested { '*' } else { ' ' };
        text.push_str(&format!(" {mark}{}  {:9}  {}\n", index + 1, answer.name(), description(*answer, question)));
    }
    text.push_str(&format!("RepairChoice (Enter for {}): ", question.suggested.name()));
    text
}

fn description(answer: RepairChoice, question: &Question) -> String {
    let other = question.other.as_deref().map_or("the other one".into(), escaped);
    match answer {
        RepairChoice::Leave => "change nothing".into(),
        RepairChoice::CutThis => format!("end {} before it, which loses the rest of it", escaped(&question.path)),
        RepairChoice::CutOther => format!("end {other} before it, which loses the rest of it"),
        RepairChoice::Copy => "copy the clusters, so that each has its own".into(),
    }
}

/// Returns the answer that a line means.
fn answer(question: &Question, line: &str) -> Option<RepairChoice> {
    if line.is_empty() {
        return Some(question.suggested);
    }
    let number = line.parse::<usize>().ok().and_then(|number| question.answers.get(number.checked_sub(1)?));
    number.or_else(|| question.answers.iter().find(|answer| answer.name() == line)).copied()
}

#[cfg(test)]
mod tests {
    use bases::fat::tools::fsck::Problem;

    use super::*;

    #[test]
    fn answers_are_numbers_words_or_the_suggestion() {
        let question = Question {
            problem: Problem::CrossLink(7, Some("/B".into())),
            path: "/A\u{1b}".into(),
            other: Some("/B".into()),
            answers: vec![RepairChoice::Leave, RepairChoice::CutThis, RepairChoice::CutOther, RepairChoice::Copy],
            suggested: RepairChoice::Copy,
        };
        let given = ["", "1", "2", "cut-other", "copy"].map(|line| answer(&question, line));
        assert_eq!(
            given,
            [
                RepairChoice::Copy,
                RepairChoice::Leave,
                RepairChoice::CutThis,
                RepairChoice::CutOther,
                RepairChoice::Copy
            ]
            .map(Some)
        );
        assert!(["0", "5", "-1", "cut", "x"].iter().all(|line| answer(&question, line).is_none()));
        let text = text(&question);
        assert!(text.contains(" *4  copy") && text.contains("  1  leave") && !text.contains('\u{1b}'), "{text}");
    }
}
