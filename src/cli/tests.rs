use clap::Command;

use super::*;

/// The words of a line of a shell: quotes hold them together; what follows a pipe, a redirection or a comment is somebody
/// else's.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '|' | '>' | '#') => break,
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().unwrap().push(character),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn check(command: &Command, path: &str, wrong: &mut Vec<String>) {
    let help = command.get_after_help().map(ToString::to_string);
    let lines = help.iter().flat_map(|help| help.lines()).map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| line.starts_with("oxolm ")).collect();
    if lines.is_empty() {
        wrong.push(format!("{path} has no example"));
    }
    for line in lines {
        if let Err(error) = Arguments::try_parse_from(words(line)) {
            wrong.push(format!("{line}: {error}"));
        }
    }
    for one in command.get_subcommands() {
        check(one, &format!("{path} {}", one.get_name()), wrong);
    }
}

#[test]
fn every_subcommand_has_examples_that_are_understood() {
    let mut wrong = Vec::new();
    check(&Arguments::command(), "oxolm", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_answer_that_nobody_reads_is_no_failure() {
    let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
    assert!(is_unread(&broken().into()));
    assert!(is_unread(
        &anyhow::Error::new(broken()).context("cannot write the answer")
    ));
    let of_json = serde_json::Error::io(broken());
    assert!(is_unread(
        &anyhow::Error::new(of_json).context("cannot write")
    ));
    // A connection that breaks.
    let error = kube::Error::ReadEvents(broken());
    assert!(!is_unread(&error.into()));
    assert!(!is_unread(&io::Error::from(io::ErrorKind::NotFound).into()));
}
