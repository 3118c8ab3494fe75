//! Go's regular expressions as ours.
//!
//! Both are of the RE2 family. What differs: in Go `\d`, `\w`, `\s` and `\b` know ASCII only, `\Q…\E` quotes, any
//! punctuation may be escaped, a brace that opens no count is itself, and a class holds no other class.

use regex::Regex;

/// The longest compiled expression, in bytes: a schema comes from a bundle, which may be anybody's.
const LARGEST: usize = 1 << 20;

/// Compiles an expression of Go; `None` for one that cannot be said here.
pub(super) fn compile(pattern: &str) -> Option<Regex> {
    regex::RegexBuilder::new(&translated(pattern)?)
        .size_limit(LARGEST)
        .build()
        .ok()
}

fn translated(pattern: &str) -> Option<String> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..)?;
        rest = match c {
            '\\' => escape(after, false, &mut out)?,
            '[' => class(after, &mut out)?,
            '{' if !is_count(rest) => {
                out.push_str("\\{");
                after
            }
            '}' | ']' => {
                // A closing brace of a count was taken with it.
                out.push('\\');
                out.push(c);
                after
            }
            '{' => {
                let end = rest.find('}')? + 1;
                out.push_str(rest.get(..end)?);
                rest.get(end..)?
            }
            _ => {
                out.push(c);
                after
            }
        };
    }
    Some(out)
}

/// Whether the text begins with `{n}`, `{n,}` or `{n,m}`.
fn is_count(text: &str) -> bool {
    let Some((inside, _)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) else {
        return false;
    };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    !least.is_empty()
        && least.chars().all(|c| c.is_ascii_digit())
        && most.chars().all(|c| c.is_ascii_digit())
}

/// Writes what follows a backslash, and gives back what follows that.
fn escape<'a>(text: &'a str, is_in_class: bool, out: &mut String) -> Option<&'a str> {
    let c = text.chars().next()?;
    let rest = text.get(c.len_utf8()..)?;
    let known = match (c, is_in_class) {
        ('d', false) => "[0-9]",
        ('d', true) => "0-9",
        ('D', _) => "[^0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('w', true) => "0-9A-Za-z_",
        ('W', _) => "[^0-9A-Za-z_]",
        ('s', false) => "[\\t\\n\\x0C\\r ]",
        ('s', true) => "\\t\\n\\x0C\\r ",
        ('S', _) => "[^\\t\\n\\x0C\\r ]",
        ('b', false) => "(?-u:\\b)",
        ('B', false) => "(?-u:\\B)",
        ('Q', false) => return Some(quoted(rest, out)),
        // Octal, and what Go does not know either.
        ('0'..='7' | 'C' | 'Z' | 'z' | 'A', true) | ('0'..='9' | 'C' | 'Z', false) => return None,
        _ => "",
    };
    if !known.is_empty() {
        out.push_str(known);
    } else if c.is_ascii_alphanumeric() {
        out.push('\\');
        out.push(c);
    } else {
        out.push_str(&regex::escape(&c.to_string()));
    }
    Some(rest)
}

/// Writes what stands between `\Q` and `\E`, or the end.
fn quoted<'a>(text: &'a str, out: &mut String) -> &'a str {
    let (inside, rest) = text.split_once("\\E").unwrap_or((text, ""));
    out.push_str(&regex::escape(inside));
    rest
}

/// Writes a class, of which the opening bracket was read.
fn class<'a>(text: &'a str, out: &mut String) -> Option<&'a str> {
    out.push('[');
    let mut rest = text;
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    // A bracket that comes first is itself.
    if let Some(after) = rest.strip_prefix(']') {
        out.push_str("\\]");
        rest = after;
    }
    // Whether a hyphen would make a range of the last character and the next.
    let mut is_start = rest != text;
    loop {
        if rest.starts_with("[:") {
            let end = rest.find(":]")? + 2;
            out.push_str(rest.get(..end)?);
            rest = rest.get(end..)?;
            is_start = false;
            continue;
        }
        let c = rest.chars().next()?;
        let after = rest.get(c.len_utf8()..)?;
        rest = match c {
            ']' => {
                out.push(']');
                return Some(after);
            }
            '\\' => escape(after, true, out)?,
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(c);
                after
            }
            '-' if is_start && !after.starts_with(']') => {
                out.push('-');
                is_start = false;
                // The end of the range may be a hyphen, too.
                match after.strip_prefix('-') {
                    Some(after) => {
                        out.push_str("\\-");
                        rest = after;
                    }
                    None => rest = after,
                }
                continue;
            }
            '-' => {
                out.push_str("\\-");
                after
            }
            _ => {
                out.push(c);
                after
            }
        };
        is_start = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matches: &[&str], others: &[&str]) {
        let regex = compile(pattern).unwrap_or_else(|| panic!("{pattern} compiles"));
        for text in matches {
            assert!(regex.is_match(text), "{pattern} matches {text:?}");
        }
        for text in others {
            assert!(!regex.is_match(text), "{pattern} does not match {text:?}");
        }
    }

    #[test]
    fn expressions_mean_what_they_mean_in_go() {
        check(r"^\d+$", &["12"], &["١٢", "a"]);
        check(r"^\w+$", &["a_1"], &["é"]);
        check(r"^[\w.]+$", &["a.1"], &["é"]);
        check(r"^[^\s]+$", &["a\u{a0}"], &["a b"]);
        check(r"^\S+$", &["a\u{a0}"], &["a b"]);
        check(r"^a{2}b{1,}c{,2}$", &["aabc{,2}"], &["aab"]);
        check(r"^\Qa.b\E$", &["a.b"], &["axb"]);
        check(r"^[]a]+$", &["a]"], &["b"]);
        check(r"^[a-z[&~]+$", &["a[&~"], &["A"]);
        check(r"^[+--]$", &["+", ",", "-"], &["."]);
        check(r"^\/\-\_\@$", &["/-_@"], &[]);
        check(r"^[[:alpha:]\d]+$", &["a1"], &["-"]);
        check("x$", &["x"], &["x\n"]);
        assert!(compile(r"(").is_none());
        assert!(compile(r"\1").is_none());
    }
}
