//! Requests and their answers.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use percent_encoding::percent_decode_str;
use tokio::time::Instant;
use url::form_urlencoded;

use super::body::{Part, Source};
use super::condition::{self, Validators, Verdict};
use super::{Metrics, Served};
use crate::fbc::index::Filter;
use crate::store::catalog::{Encoding, StoredCatalog};

/// What blobs are sent as.
const JSON_LINES: &str = "application/jsonl";

/// Answers below this size are never compressed, as in the reference.
const COMPRESSED_FROM_BYTES: u64 = 1024;

/// The answer to a name that no catalog can have; the second half is Kubernetes' own text.
const NO_SUBDOMAIN: &str = "invalid catalog name: a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
    (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The content server's routes over what is being served; `metrics` learns how long answers took.
pub fn router(served: Served, metrics: Metrics) -> Router {
    Router::new().fallback(answer).with_state((served, metrics))
}

/// What a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    All,
    Metas,
}

async fn answer(
    State((served, metrics)): State<(Served, Metrics)>,
    request: Request<Body>,
) -> Response<Body> {
    let started = Instant::now();
    let mut response = respond(&served, &request);
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    metrics.observe(started, response)
}

fn respond(served: &Served, request: &Request<Body>) -> Response<Body> {
    let path = request.uri().path();
    let clean = clean_path(path);
    if clean != path {
        return redirect(request.uri(), &clean);
    }
    let Some((catalog, endpoint)) = endpoint_of(path) else {
        return error(StatusCode::NOT_FOUND, "404 page not found");
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    }
    if !is_subdomain(&catalog) {
        return error(StatusCode::BAD_REQUEST, NO_SUBDOMAIN);
    }
    let query = request.uri().query().unwrap_or_default();
    let Some(wish) = Wish::of(endpoint, query) else {
        return error(StatusCode::BAD_REQUEST, "400 Bad Request");
    };
    match served.get(&catalog) {
        None => error(StatusCode::NOT_FOUND, "404 Not Found"),
        Some(catalog) => content(request, &catalog, &wish),
    }
}

/// Which blobs a request wants.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    schema: Option<String>,
    package: Option<String>,
    name: Option<String>,
}

impl Wish {
    /// `None` when the query has a key that there is not. Of equal keys the first counts; empty is absent.
    fn of(endpoint: Endpoint, query: &str) -> Option<Self> {
        let mut wish = Self::default();
        if endpoint == Endpoint::All {
            return Some(wish);
        }
        let (mut schema, mut package, mut name) = (None, None, None);
        // As in Go, a part with a semicolon is passed over.
        for part in query.split('&').filter(|part| !part.contains(';')) {
            for (key, value) in form_urlencoded::parse(part.as_bytes()) {
                let field = match key.as_ref() {
                    "schema" => &mut schema,
                    "package" => &mut package,
                    "name" => &mut name,
                    _ => return None,
                };
                field.get_or_insert_with(|| value.into_owned());
            }
        }
        let some = |value: Option<String>| value.filter(|value| !value.is_empty());
        wish.schema = some(schema);
        wish.package = some(package);
        wish.name = some(name);
        Some(wish)
    }

    fn filter(&self) -> Filter<'_> {
        Filter {
            schema: self.schema.as_deref(),
            package: self.package.as_deref(),
            name: self.name.as_deref(),
        }
    }
}

/// Answers with blobs, or with what the preconditions say.
fn content(request: &Request<Body>, catalog: &Arc<StoredCatalog>, wish: &Wish) -> Response<Body> {
    let etag = format!("\"{}\"", catalog.etag());
    let gzip_etag = format!("\"{}-gzip\"", catalog.etag());
    let zstd_etag = format!("\"{}-zstd\"", catalog.etag());
    let validators = Validators {
        etag: &etag,
        compressed_etags: [&gzip_etag, &zstd_etag],
        modified: modified(catalog),
    };
    let headers = request.headers();
    let is_get = request.method() == Method::GET;
    let ranges = catalog.select(&wish.filter());
    let whole = Source::new(
        catalog.clone(),
        Encoding::Identity,
        ranges.iter().cloned().map(Part::Blobs),
    );
    let size = whole.size_bytes();
    match condition::judge(headers, &validators) {
        Verdict::Failed => return with_validators(StatusCode::PRECONDITION_FAILED, &validators),
        Verdict::NotModified => return with_validators(StatusCode::NOT_MODIFIED, &validators),
        Verdict::Proceed => {}
    }
    let wanted = if is_get && condition::allows_range(headers, &validators) {
        condition::ranges(headers, size)
    } else {
        Ok(Vec::new())
    };
    match wanted {
        Err(condition::Unsatisfiable) => unsatisfiable(size, &validators),
        Ok(wanted) if !wanted.is_empty() => partial(catalog, &validators, &ranges, size, &wanted),
        Ok(_) => {
            let coding =
                condition::coding(headers).filter(|_| is_get && size >= COMPRESSED_FROM_BYTES);
            if let Some(coding) = coding {
                let whole = (!wish.filter().is_empty()).then_some(whole);
                return compressed(catalog, &validators, coding, whole);
            }
            let mut response = with_validators(StatusCode::OK, &validators);
            response
                .headers_mut()
                .insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
            send(&mut response, JSON_LINES, size, is_get.then_some(whole));
            response
        }
    }
}

fn modified(catalog: &StoredCatalog) -> SystemTime {
    let seconds = u64::try_from(catalog.unpacked_at().as_second()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// An answer without body that says what the content is called and how old it is.
fn with_validators(status: StatusCode, validators: &Validators<'_>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let modified = httpdate::fmt_http_date(validators.modified);
    insert(&mut response, header::LAST_MODIFIED, &modified);
    insert(&mut response, header::ETAG, validators.etag);
    response
}

/// Sets type and length, and the body where there is one (not for HEAD).
fn send(response: &mut Response<Body>, kind: &str, size: u64, source: Option<Source>) {
    insert(response, header::CONTENT_TYPE, kind);
    insert(response, header::CONTENT_LENGTH, &size.to_string());
    if let Some(source) = source {
        *response.body_mut() = source.into_body();
    }
}

/// The content, compressed: everything as it lies on disk, `part` of it on the way.
fn compressed(
    catalog: &Arc<StoredCatalog>,
    validators: &Validators<'_>,
    coding: Encoding,
    part: Option<Source>,
) -> Response<Body> {
    let [gzip_etag, zstd_etag] = validators.compressed_etags;
    let (name, etag) = match coding {
        Encoding::Zstd => ("zstd", zstd_etag),
        Encoding::Gzip | Encoding::Identity => ("gzip", gzip_etag),
    };
    let mut response = with_validators(StatusCode::OK, validators);
    insert(&mut response, header::ETAG, etag);
    insert(&mut response, header::CONTENT_ENCODING, name);
    if let Some(part) = part {
        insert(&mut response, header::CONTENT_TYPE, JSON_LINES);
        *response.body_mut() = part.into_compressed_body(coding);
    } else {
        let size = catalog.size_bytes(coding);
        let source = Source::new(catalog.clone(), coding, [Part::Blobs(0..size)]);
        send(&mut response, JSON_LINES, size, Some(source));
    }
    response
}

fn unsatisfiable(size: u64, validators: &Validators<'_>) -> Response<Body> {
    let mut response = error(
        StatusCode::RANGE_NOT_SATISFIABLE,
        "invalid range: failed to overlap",
    );
    insert(
        &mut response,
        header::CONTENT_RANGE,
        &format!("bytes */{size}"),
    );
    insert(&mut response, header::ETAG, validators.etag);
    response
}

/// Answers with `wanted` of the bytes that lie in `ranges` of the catalog and are `size` in all.
fn partial(
    catalog: &Arc<StoredCatalog>,
    validators: &Validators<'_>,
    ranges: &[Range<u64>],
    size: u64,
    wanted: &[Range<u64>],
) -> Response<Body> {
    let mut response = with_validators(StatusCode::PARTIAL_CONTENT, validators);
    let content_range = |range: &Range<u64>| {
        let last = range.end.saturating_sub(1);
        format!("bytes {}-{last}/{size}", range.start)
    };
    let mut parts = Vec::new();
    let mut kind = JSON_LINES.to_owned();
    if let [range] = wanted {
        insert(&mut response, header::CONTENT_RANGE, &content_range(range));
        parts.extend(within(ranges, range).map(Part::Blobs));
    } else {
        let boundary = catalog.etag();
        kind = format!("multipart/byteranges; boundary={boundary}");
        let mut lead = String::new();
        for range in wanted {
            let content_range = content_range(range);
            _ = write!(
                lead,
                "--{boundary}\r\nContent-Range: {content_range}\r\nContent-Type: {JSON_LINES}\r\n\r\n"
            );
            parts.push(Part::Text(Bytes::from(std::mem::take(&mut lead))));
            parts.extend(within(ranges, range).map(Part::Blobs));
            lead.push_str("\r\n");
        }
        parts.push(Part::Text(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    }
    let source = Source::new(catalog.clone(), Encoding::Identity, parts);
    let size = source.size_bytes();
    response
        .headers_mut()
        .insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    send(&mut response, &kind, size, Some(source));
    response
}

/// The part of the concatenated `ranges` that `wanted` names.
fn within<'a>(
    ranges: &'a [Range<u64>],
    wanted: &'a Range<u64>,
) -> impl Iterator<Item = Range<u64>> + 'a {
    let mut before = 0;
    ranges.iter().filter_map(move |range| {
        let length = range.end - range.start;
        let first = wanted.start.saturating_sub(before).min(length);
        let last = wanted.end.saturating_sub(before).min(length);
        before += length;
        (first < last).then(|| range.start + first..range.start + last)
    })
}

/// An answer in the form of Go's `http.Error`.
fn error(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    insert(
        &mut response,
        header::CONTENT_TYPE,
        "text/plain; charset=utf-8",
    );
    insert(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

fn redirect(uri: &Uri, path: &str) -> Response<Body> {
    let location = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    insert(&mut response, header::LOCATION, &location);
    response
}

fn insert(response: &mut Response<Body>, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// The path without empty, `.` and `..` parts, as Go's router wants it.
fn clean_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut clean = format!("/{}", parts.join("/"));
    if path.ends_with('/') && clean != "/" {
        clean.push('/');
    }
    clean
}

/// `/catalogs/{catalog}/api/v1/all` or `…/metas`; the catalog's name is not checked.
fn endpoint_of(path: &str) -> Option<(String, Endpoint)> {
    let rest = path.strip_prefix("/catalogs/")?;
    let (catalog, rest) = rest.split_once('/')?;
    let endpoint = match rest {
        "api/v1/all" => Endpoint::All,
        "api/v1/metas" => Endpoint::Metas,
        _ => return None,
    };
    // What is no escape stays, and is then no valid name.
    let catalog = percent_decode_str(catalog).decode_utf8_lossy();
    Some((catalog.into_owned(), endpoint))
}

/// Whether it can be the name of a cluster-scoped object.
fn is_subdomain(name: &str) -> bool {
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        let is_end = |byte: Option<u8>| {
            byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        is_end(label.bytes().next())
            && is_end(label.bytes().last())
            && bytes.all(|byte| byte == b'-' || is_end(Some(byte)))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
