//! Documentation comments as texts for `kubectl explain`.

/// `markdown` as plain text: lines of a paragraph joined, backticks gone, code blocks indented by two spaces.
pub(super) fn explained(markdown: &str) -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut paragraph = String::new();
    let mut in_code = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
            flush(&mut paragraph, &mut paragraphs);
        } else if in_code {
            if !paragraph.is_empty() {
                paragraph.push('\n');
            }
            paragraph.push_str("  ");
            paragraph.push_str(line);
        } else if line.is_empty() {
            flush(&mut paragraph, &mut paragraphs);
        } else {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(&line.replace('`', ""));
        }
    }
    flush(&mut paragraph, &mut paragraphs);
    paragraphs.join("\n\n")
}

fn flush(paragraph: &mut String, paragraphs: &mut Vec<String>) {
    if !paragraph.is_empty() {
        paragraphs.push(std::mem::take(paragraph));
    }
}

#[cfg(test)]
mod tests {
    use super::explained;

    #[test]
    fn paragraphs_are_joined_and_code_is_indented() {
        assert_eq!(
            explained("One `word`\nand more.\n\n```yaml\na:\n  b: `c`\n```\nEnd."),
            "One word and more.\n\n  a:\n    b: `c`\n\nEnd."
        );
    }
}
