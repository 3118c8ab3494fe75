//! What a request asks beside its path: preconditions, ranges, encodings. Pure.
//!
//! Follows RFC 9110 sections 13 and 14 in the way of Go's `http.ServeContent`.

use std::ops::Range;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, header};

use crate::store::catalog::Encoding;

/// What a representation is called and when its content changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Validators<'a> {
    /// The strong tag of the bytes as they are, with its quotes.
    pub(super) etag: &'a str,
    /// The tags of the same content compressed.
    pub(super) compressed_etags: [&'a str; 2],
    /// To the second.
    pub(super) modified: SystemTime,
}

/// What the preconditions of a GET or HEAD come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Answer.
    Proceed,
    /// The client has it already: 304.
    NotModified,
    /// The client wants something else: 412.
    Failed,
}

/// Judges the preconditions in the order of RFC 9110 section 13.2.2.
pub(super) fn judge(headers: &HeaderMap, validators: &Validators<'_>) -> Verdict {
    if let Some(wanted) = text(headers, &header::IF_MATCH) {
        if !names(wanted, validators, Comparison::Strong) {
            return Verdict::Failed;
        }
    } else if let Some(since) = date(headers, &header::IF_UNMODIFIED_SINCE)
        && validators.modified > since
    {
        return Verdict::Failed;
    }
    if let Some(known) = text(headers, &header::IF_NONE_MATCH) {
        if names(known, validators, Comparison::Weak) {
            return Verdict::NotModified;
        }
    } else if let Some(since) = date(headers, &header::IF_MODIFIED_SINCE)
        && validators.modified <= since
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Whether a range may be sent: `If-Range` is absent or names the bytes as they are.
pub(super) fn allows_range(headers: &HeaderMap, validators: &Validators<'_>) -> bool {
    match text(headers, &header::IF_RANGE) {
        None => true,
        Some(tag) if tag.starts_with('"') => tag == validators.etag,
        Some(tag) if tag.starts_with("W/") => false,
        Some(_) => date(headers, &header::IF_RANGE) == Some(validators.modified),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a list of entity tags names the content, compressed or not.
fn names(list: &str, validators: &Validators<'_>, comparison: Comparison) -> bool {
    let list = list.trim();
    if list == "*" {
        return true;
    }
    let mut rest = list;
    while let Some((tag, is_weak, after)) = next_tag(rest) {
        let is_ours = tag == validators.etag || validators.compressed_etags.contains(&tag);
        if is_ours && (comparison == Comparison::Weak || !is_weak) {
            return true;
        }
        rest = after;
    }
    false
}

/// The first entity tag of a list, with its quotes; whether it is weak; the rest.
fn next_tag(list: &str) -> Option<(&str, bool, &str)> {
    let list = list.trim_start_matches([' ', '\t', ',']);
    let (is_weak, tag) = match list.strip_prefix("W/") {
        Some(tag) => (true, tag),
        None => (false, list),
    };
    let length = tag.strip_prefix('"')?.find('"')? + 2;
    let (tag, rest) = tag.split_at_checked(length)?;
    Some((tag, is_weak, rest))
}

/// A date in one of the three forms of HTTP; a malformed one is as good as absent.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(text(headers, name)?).ok()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// How a client wants the content compressed: what it likes most, zstd before gzip. `None`: not at all.
pub(super) fn coding(headers: &HeaderMap) -> Option<Encoding> {
    let (gzip, zstd) = (quality(headers, "gzip"), quality(headers, "zstd"));
    if zstd > 0.0 && zstd >= gzip {
        Some(Encoding::Zstd)
    } else if gzip > 0.0 {
        Some(Encoding::Gzip)
    } else {
        None
    }
}

/// How much a client likes a coding, from 0 to 1.
fn quality(headers: &HeaderMap, name: &str) -> f64 {
    let lists = headers.get_all(header::ACCEPT_ENCODING);
    let mut codings = lists
        .iter()
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','));
    let found = codings.find_map(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_it = parts
            .next()
            .is_some_and(|one| one.eq_ignore_ascii_case(name));
        let quality = parts
            .find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")))
            .map_or(Ok(1.0), str::parse::<f64>);
        is_it.then(|| quality.unwrap_or(0.0))
    });
    found.unwrap_or(0.0)
}

/// A `Range` header that cannot be satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsatisfiable;

/// The ranges that are asked for of `size` bytes; none when the whole is to be sent.
///
/// As in Go, ranges that add up to more than the whole are ignored.
pub(super) fn ranges(headers: &HeaderMap, size: u64) -> Result<Vec<Range<u64>>, Unsatisfiable> {
    let Some(wanted) = headers.get(header::RANGE) else {
        return Ok(Vec::new());
    };
    let specs = wanted
        .to_str()
        .ok()
        .and_then(|text| text.strip_prefix("bytes="));
    let mut found = Vec::new();
    let mut is_beyond = false;
    for spec in specs.ok_or(Unsatisfiable)?.split(',').map(str::trim) {
        if spec.is_empty() {
            continue;
        }
        match range(spec, size)? {
            Some(range) => found.push(range),
            None => is_beyond = true,
        }
    }
    if found.is_empty() && is_beyond {
        return if size == 0 {
            Ok(Vec::new())
        } else {
            Err(Unsatisfiable)
        };
    }
    let sum = found.iter().fold(0_u64, |sum, range| {
        sum.saturating_add(range.end - range.start)
    });
    if sum > size {
        found.clear();
    }
    Ok(found)
}

/// One range; `None` when it begins behind the end.
fn range(spec: &str, size: u64) -> Result<Option<Range<u64>>, Unsatisfiable> {
    let (first, last) = spec.split_once('-').ok_or(Unsatisfiable)?;
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        let length = number(last)?.min(size);
        return Ok((length > 0).then_some(size - length..size));
    }
    let first = number(first)?;
    let end = match last {
        "" => size,
        last => {
            let last = number(last)?;
            if last < first {
                return Err(Unsatisfiable);
            }
            last.saturating_add(1).min(size)
        }
    };
    Ok((first < size).then_some(first..end))
}

fn number(text: &str) -> Result<u64, Unsatisfiable> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Unsatisfiable);
    }
    text.parse().map_err(|_too_large| Unsatisfiable)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    fn validators() -> Validators<'static> {
        Validators {
            etag: "\"a\"",
            compressed_etags: ["\"a-gzip\"", "\"a-zstd\""],
            modified: httpdate::parse_http_date(MODIFIED).unwrap(),
        }
    }

    #[track_caller]
    fn check(lines: &[(HeaderName, &str)], expected: Verdict) {
        assert_eq!(judge(&headers(lines), &validators()), expected, "{lines:?}");
    }

    #[test]
    fn preconditions_are_judged_in_their_order() {
        use header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
        let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
        check(&[], Verdict::Proceed);
        check(&[(IF_MATCH, "*")], Verdict::Proceed);
        check(&[(IF_MATCH, "\"x\", \"a\"")], Verdict::Proceed);
        check(&[(IF_MATCH, "W/\"a\"")], Verdict::Failed);
        check(&[(IF_MATCH, "\"x\"")], Verdict::Failed);
        check(&[(IF_UNMODIFIED_SINCE, MODIFIED)], Verdict::Proceed);
        check(&[(IF_UNMODIFIED_SINCE, earlier)], Verdict::Failed);
        check(
            &[(IF_MATCH, "*"), (IF_UNMODIFIED_SINCE, earlier)],
            Verdict::Proceed,
        );
        check(&[(IF_NONE_MATCH, "*")], Verdict::NotModified);
        check(&[(IF_NONE_MATCH, "W/\"a\"")], Verdict::NotModified);
        check(&[(IF_NONE_MATCH, "\"x\",\"a-gzip\"")], Verdict::NotModified);
        check(&[(IF_NONE_MATCH, "\"x\"")], Verdict::Proceed);
        check(&[(IF_NONE_MATCH, "a")], Verdict::Proceed);
        check(&[(IF_MODIFIED_SINCE, MODIFIED)], Verdict::NotModified);
        check(
            &[(IF_MODIFIED_SINCE, "Sunday, 06-Nov-94 08:49:37 GMT")],
            Verdict::NotModified,
        );
        check(&[(IF_MODIFIED_SINCE, earlier)], Verdict::Proceed);
        check(&[(IF_MODIFIED_SINCE, "yesterday")], Verdict::Proceed);
        check(
            &[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, MODIFIED)],
            Verdict::Proceed,
        );
    }

    #[test]
    fn a_range_is_sent_only_of_what_the_client_knows() {
        use header::IF_RANGE;
        for (value, expected) in [
            ("\"a\"", true),
            ("\"a-gzip\"", false),
            ("W/\"a\"", false),
            (MODIFIED, true),
            ("Sun, 06 Nov 1994 08:49:38 GMT", false),
        ] {
            let headers = headers(&[(IF_RANGE, value)]);
            assert_eq!(allows_range(&headers, &validators()), expected, "{value}");
        }
        assert!(allows_range(&HeaderMap::new(), &validators()));
    }

    #[test]
    fn ranges_are_read_as_go_reads_them() {
        let read = |value: &str, size: u64| {
            ranges(&headers(&[(header::RANGE, value)]), size)
                .map(|ranges| ranges.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>())
        };
        for (value, expected) in [
            ("bytes=0-4", Ok(vec![(0, 5)])),
            ("bytes=2-", Ok(vec![(2, 10)])),
            ("bytes=-3", Ok(vec![(7, 10)])),
            ("bytes=-30", Ok(vec![(0, 10)])),
            ("bytes=0-99", Ok(vec![(0, 10)])),
            ("bytes=0-0, 5-6 ,", Ok(vec![(0, 1), (5, 7)])),
            ("bytes=0-0,20-", Ok(vec![(0, 1)])),
            ("bytes=0-9,0-9", Ok(vec![])),
            ("bytes=", Ok(vec![])),
            ("bytes=10-", Err(Unsatisfiable)),
            ("bytes=-0", Err(Unsatisfiable)),
            ("bytes=5-4", Err(Unsatisfiable)),
            ("bytes=x-", Err(Unsatisfiable)),
            ("bytes=+1-2", Err(Unsatisfiable)),
            ("bytes=5", Err(Unsatisfiable)),
            ("lines=0-4", Err(Unsatisfiable)),
        ] {
            assert_eq!(read(value, 10), expected, "{value}");
        }
        assert_eq!(read("bytes=0-", 0), Ok(vec![]));
        assert_eq!(ranges(&HeaderMap::new(), 10), Ok(vec![]));
    }

    #[test]
    fn gzip_is_sent_to_whoever_takes_it() {
        for (value, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("*", false),
            ("identity", false),
            ("br", false),
            ("gzip;q=x", false),
        ] {
            let headers = headers(&[(header::ACCEPT_ENCODING, value)]);
            let expected = expected.then_some(Encoding::Gzip);
            assert_eq!(coding(&headers), expected, "{value}");
        }
        assert_eq!(coding(&HeaderMap::new()), None);
        for (value, expected) in [
            ("gzip, zstd", Encoding::Zstd),
            ("zstd;q=0.5, gzip;q=0.5", Encoding::Zstd),
            ("zstd;q=0.4, gzip;q=0.5", Encoding::Gzip),
            ("ZSTD", Encoding::Zstd),
            ("zstd;q=0, gzip", Encoding::Gzip),
        ] {
            let headers = headers(&[(header::ACCEPT_ENCODING, value)]);
            assert_eq!(coding(&headers), Some(expected), "{value}");
        }
    }

    #[test]
    fn dates_count_in_whole_seconds() {
        let known = validators().modified + Duration::from_secs(1);
        let header = httpdate::fmt_http_date(known);
        check(
            &[(header::IF_MODIFIED_SINCE, &header)],
            Verdict::NotModified,
        );
    }
}
