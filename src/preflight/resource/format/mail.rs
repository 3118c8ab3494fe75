//! Mail addresses as Go's `net/mail.ParseAddress` reads one: `a@b.example`, `A <a@b.example>`, with comments, quoted
//! parts, and groups of one.
//!
//! What is deliberately not here: encoded words (RFC 2047) in display names, which are taken as they stand.

/// Whether a text is one mail address.
pub(super) fn is_address(text: &str) -> bool {
    let mut rest = Rest(text);
    let addresses = rest.address(Groups::Allowed);
    addresses == Some(1) && rest.skip_comments().is_some() && rest.0.is_empty()
}

/// Whether several addresses may stand where one is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Groups {
    Allowed,
    Refused,
}

/// What is still to be read. Reading gives nothing where the text is no address.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn skip_spaces(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, wanted: char) -> Option<()> {
        self.0 = self.0.strip_prefix(wanted)?;
        Some(())
    }

    /// Goes on behind the characters for which `is_part` holds; how many bytes these are.
    fn skip(&mut self, is_part: impl Fn(char) -> bool) -> usize {
        let rest = self.0.trim_start_matches(is_part);
        let length = self.0.len() - rest.len();
        self.0 = rest;
        length
    }

    /// The number of addresses read.
    fn address(&mut self, groups: Groups) -> Option<usize> {
        self.skip_spaces();
        if self.0.is_empty() {
            return None;
        }
        let start = self.0;
        if self.specification().is_some() {
            self.skip_spaces();
            if self.take('(').is_some() {
                self.comment()?;
            }
            return Some(1);
        }
        self.0 = start;
        if !self.0.starts_with('<') {
            self.phrase()?;
        }
        self.skip_spaces();
        if groups == Groups::Allowed && self.take(':').is_some() {
            return self.group();
        }
        self.take('<')?;
        self.specification()?;
        self.take('>')?;
        Some(1)
    }

    /// `local@domain`
    fn specification(&mut self) -> Option<()> {
        self.skip_spaces();
        if self.0.starts_with('"') {
            let length = self.quoted()?;
            (length > 0).then_some(())?;
        } else {
            self.dotted()?;
        }
        self.take('@')?;
        self.skip_spaces();
        if self.0.starts_with('[') {
            self.literal()
        } else {
            self.dotted()
        }
    }

    /// Words of atoms, with single dots between them.
    fn dotted(&mut self) -> Option<()> {
        let start = self.0;
        let length = self.skip(is_atom_or_dot);
        let atom = start.get(..length)?;
        let is_bad =
            atom.is_empty() || atom.starts_with('.') || atom.ends_with('.') || atom.contains("..");
        (!is_bad).then_some(())
    }

    /// A quoted text; how many characters it holds.
    fn quoted(&mut self) -> Option<usize> {
        self.take('"')?;
        let mut count = 0;
        let mut is_escaped = false;
        for (at, c) in self.0.char_indices() {
            let is_blank = matches!(c, ' ' | '\t');
            match c {
                _ if is_escaped && (is_visible(c) || is_blank) => is_escaped = false,
                _ if is_escaped => return None,
                '"' => {
                    self.0 = self.0.get(at + 1..)?;
                    return Some(count);
                }
                '\\' => {
                    is_escaped = true;
                    continue;
                }
                _ if is_visible(c) || is_blank => {}
                _ => return None,
            }
            count += 1;
        }
        None
    }

    /// `[address]`
    fn literal(&mut self) -> Option<()> {
        self.take('[')?;
        let start = self.0;
        let length = self.skip(|c| is_visible(c) && !matches!(c, '[' | ']' | '\\'));
        super::parse_ip(start.get(..length)?)?;
        self.take(']')
    }

    /// At least one word.
    fn phrase(&mut self) -> Option<()> {
        let mut has_words = false;
        loop {
            if has_words {
                self.skip_comments()?;
            }
            self.skip_spaces();
            let word = if self.0.starts_with('"') {
                let start = self.0;
                let read = self.quoted().map(drop);
                if read.is_none() {
                    self.0 = start;
                }
                read
            } else {
                (self.skip(is_atom_or_dot) > 0).then_some(())
            };
            match word {
                Some(()) => has_words = true,
                None => return has_words.then_some(()),
            }
        }
    }

    /// The addresses between `:` and `;`, of which there may be none.
    fn group(&mut self) -> Option<usize> {
        let mut count = 0;
        self.skip_spaces();
        if self.take(';').is_some() {
            return self.skip_comments().map(|()| count);
        }
        loop {
            self.skip_spaces();
            count += self.address(Groups::Refused)?;
            self.skip_comments()?;
            if self.take(';').is_some() {
                return self.skip_comments().map(|()| count);
            }
            self.take(',')?;
        }
    }

    fn skip_comments(&mut self) -> Option<()> {
        loop {
            self.skip_spaces();
            if self.take('(').is_none() {
                return Some(());
            }
            self.comment()?;
        }
    }

    /// The rest of a comment, in which there may be others.
    fn comment(&mut self) -> Option<()> {
        let mut depth = 1;
        let mut characters = self.0.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => {
                    characters.next();
                }
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.0 = self.0.get(at + 1..)?;
                return Some(());
            }
        }
        None
    }
}

fn is_visible(c: char) -> bool {
    ('!'..='~').contains(&c) || !c.is_ascii()
}

fn is_atom_or_dot(c: char) -> bool {
    is_visible(c) && !r#"()<>[]:;@\,""#.contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_other_texts() {
        for good in [
            "a@b",
            "a.b@c.example",
            "A <a@b>",
            "\"A B\" <a@b>",
            "<a@b>",
            "a@b (c (d))",
            " a@b ",
            "\"x y\"@b",
            "a@[10.0.0.1]",
            "é@b",
            "g: a@b;",
        ] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "a@",
            "@b",
            "a..b@c",
            ".a@b",
            "a@b.",
            "a b@c",
            "A <a@b",
            "a@b, c@d",
            "a@b (c",
            "\"\"@b",
            "a@[x]",
            "g: a@b, c@d;",
            "g:;",
            "a@b>",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
