//! A fake Kubernetes API server, on the wire: what a `kube::Client` sends is answered as a real one would.
//!
//! It keeps objects with uid, resourceVersion, generation and managedFields; knows POST, GET, LIST, WATCH, the
//! patches (JSON, merge, server-side apply with ownership of fields), DELETE with preconditions and finalizers, the
//! status subresource, discovery, and the access reviews. It does not validate, default or collect garbage. Every
//! request is logged with the user that it was done as; tests let requests fail, be forbidden, or get lost.

#![expect(
    clippy::disallowed_types,
    reason = "the fake hands out a client that talks to it"
)]

mod chance;
mod faults;
mod fields;
mod kinds;
mod objects;
mod reviews;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use serde_json::{Value, json};
use tower::service_fn;

use chance::Disturbance;
pub(crate) use faults::Wire;
use objects::{Event, Failure, State};

/// The user of requests that impersonate nobody.
pub(crate) const CONTROLLER: &str = "controller";

/// A fake API server. Clones share one state.
#[derive(Clone)]
pub(crate) struct ApiServer {
    state: Arc<Mutex<State>>,
}

/// One request that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Logged {
    /// As whom.
    pub(crate) user: String,
    /// `METHOD path`, without the query; a watch is `WATCH path`, a list `LIST path`.
    pub(crate) line: String,
    /// The status of the answer.
    pub(crate) code: u16,
}

/// An answer that is a failure, as the API server puts it.
#[derive(Debug)]
struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: StatusCode::from_u16(code).unwrap(),
            reason,
            message: message.into(),
        }
    }
}

impl Refusal {
    /// The first field that is not valid, as in `X "n" is invalid: spec.a: why`.
    fn causes(&self) -> Vec<Value> {
        let field = self.message.split_once(" is invalid: ");
        let field = field.and_then(|(_, rest)| rest.split_once(": "));
        let field = field.filter(|_| self.code == StatusCode::UNPROCESSABLE_ENTITY);
        field
            .map(|(field, _)| json!({ "field": field }))
            .into_iter()
            .collect()
    }
}

/// A request, taken apart.
struct Call {
    method: Method,
    user: String,
    target: Target,
    query: BTreeMap<String, String>,
    content_type: String,
    is_metadata_only: bool,
    body: Vec<u8>,
}

/// What a path names.
#[derive(Debug, Clone, Default)]
struct Target {
    group: String,
    version: String,
    namespace: Option<String>,
    plural: String,
    name: Option<String>,
    subresource: Option<String>,
}

impl ApiServer {
    /// A server with the built-in kinds and ours, and no objects.
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new())),
        }
    }

    /// A client of the server, as [`CONTROLLER`].
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// Everything that was asked so far.
    pub(crate) fn log(&self) -> Vec<Logged> {
        self.state().log.clone()
    }

    /// What was asked since the last call, as `user METHOD path`, without lists, watches and discovery.
    pub(crate) fn requests(&self) -> Vec<String> {
        let mut state = self.state();
        let until = state.log.len();
        let from = std::mem::replace(&mut state.drained, until);
        state.log[from..]
            .iter()
            .filter(|logged| !logged.line.starts_with("LIST") && !logged.line.starts_with("WATCH"))
            .map(|logged| {
                let user = logged.user.replace("system:serviceaccount:", "");
                format!("{user} {}", logged.line)
            })
            .collect()
    }

    /// Puts an object there, as somebody else would.
    pub(crate) fn add(&self, object: &Value) -> Value {
        self.state().add(object)
    }

    /// Takes an object away at once, finalizers or not.
    pub(crate) fn remove(&self, object: &Value) {
        self.state().remove(object);
    }

    /// The object as it is stored; `path` as in a request.
    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }

    /// The paths of all objects of which `part` is in the path.
    pub(crate) fn paths(&self, part: &str) -> Vec<String> {
        let state = self.state();
        let paths = state.objects.keys().filter(|path| path.contains(part));
        paths.cloned().collect()
    }

    /// Merges `change` into an object as manager `user`, who then owns what changed.
    pub(crate) fn edit(&self, path: &str, change: &Value) {
        self.state().edit(path, change, "user");
    }

    /// Merges `change` into the object at `path` whenever it is written, as a mutating admission policy does.
    pub(crate) fn mutate(&self, path: &str, change: &Value) {
        self.state()
            .admission
            .insert(path.to_owned(), change.clone());
    }

    /// Replaces the status of an object.
    pub(crate) fn set_status(&self, path: &str, status: &Value) {
        self.state().set_status(path, status);
    }

    /// Lets the next request that is `line` (`METHOD path`) fail with `code`.
    pub(crate) fn fail_next(&self, line: &str, code: u16) {
        self.fail_after(0, line, code);
    }

    /// Lets a request that is `line` fail with `code` after `passes` of them were answered.
    pub(crate) fn fail_after(&self, passes: usize, line: &str, code: u16) {
        self.state().failures.push(Failure {
            line: line.to_owned(),
            passes,
            code,
            message: "the test wants this to fail".to_owned(),
        });
    }

    /// Lets the next request that is `line` fail with `code` and these words.
    pub(crate) fn fail_with(&self, line: &str, code: u16, message: &str) {
        self.state().failures.push(Failure {
            line: line.to_owned(),
            passes: 0,
            code,
            message: message.to_owned(),
        });
    }

    /// Lets the write after the next `others` writes fail.
    pub(crate) fn fail_write_after(&self, others: usize) {
        self.state().failing_write = Some(others);
    }

    /// Forbids `account` (`namespace:name`) every request whose line (`METHOD path`) begins so. A list or watch of one
    /// object by its name is another request than that of all, and ends with `?NAME`.
    pub(crate) fn forbid(&self, account: &str, line: &str) {
        let user = format!("system:serviceaccount:{account}");
        self.state().forbidden.push((user, line.to_owned()));
    }

    /// Forbids the controller itself every request whose line begins so.
    pub(crate) fn forbid_controller(&self, line: &str) {
        self.state()
            .forbidden
            .push((CONTROLLER.to_owned(), line.to_owned()));
    }

    /// What a rules review answers for `account` (`namespace:name`): rules by namespace (empty: everywhere).
    /// Without this, everything is allowed.
    pub(crate) fn set_rules(&self, account: &str, rules: &[(&str, Value)]) {
        let user = format!("system:serviceaccount:{account}");
        let rules = rules
            .iter()
            .map(|(namespace, rule)| ((*namespace).to_owned(), rule.clone()))
            .collect();
        self.state().rules.insert(user, rules);
    }

    /// The version that the server says it has, `v1.33.1` otherwise.
    pub(crate) fn set_version(&self, version: &str) {
        self.state().server_version = version.to_owned();
    }

    /// Lets rules reviews say that they are incomplete; then access reviews allow what `allowed` (`verb resource`)
    /// names.
    pub(crate) fn set_incomplete(&self, allowed: &[&str]) {
        let allowed = allowed.iter().map(|text| (*text).to_owned()).collect();
        self.state().incomplete = Some(allowed);
    }

    /// Lets watches begin with a list, as newer servers do.
    pub(crate) fn stream_lists(&self) {
        self.state().streams_lists = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let call = Call::of(request).await;
        let mut state = self.state();
        let line = call.line();
        let refusal = state.refusal(&call.user, &line, &call.authorized());
        let result = match state.disturbance(&line) {
            Some(Disturbance::NotDone) => Err(chance::failure()),
            Some(Disturbance::AnswerLost) => {
                // What would have been answered is nobody's to know.
                drop(refusal.map_or_else(|| state.call(&call), Err));
                Err(chance::failure())
            }
            None => refusal.map_or_else(|| state.call(&call), Err),
        };
        let code = match &result {
            Ok(_) => 200,
            Err(refusal) => refusal.code.as_u16(),
        };
        state.log.push(Logged {
            user: call.user,
            line,
            code,
        });
        match result {
            Ok(answer) => answer,
            Err(refusal) => refusal.into(),
        }
    }
}

impl Call {
    async fn of(request: Request<kube::client::Body>) -> Self {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(Body::new(body), usize::MAX).await;
        let header = |name: &str| {
            let value = parts.headers.get(name);
            value.map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        let user = header("impersonate-user");
        Self {
            user: if user.is_empty() {
                CONTROLLER.to_owned()
            } else {
                user
            },
            target: Target::of(parts.uri.path()),
            query: url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect(),
            content_type: header("content-type"),
            is_metadata_only: header("accept").contains("as=PartialObjectMetadata"),
            method: parts.method,
            body: body.unwrap().to_vec(),
        }
    }

    fn field_selector(&self) -> &str {
        self.query.get("fieldSelector").map_or("", String::as_str)
    }

    fn is_watch(&self) -> bool {
        self.query.get("watch").is_some_and(|watch| watch == "true")
    }

    fn wants_list_first(&self) -> bool {
        let wish = self.query.get("sendInitialEvents");
        self.is_watch() && wish.is_some_and(|wish| wish == "true")
    }

    fn line(&self) -> String {
        let verb = match (&self.method, &self.target.name) {
            (&Method::GET, None) if self.is_watch() => "WATCH",
            (&Method::GET, None) if !self.target.is_root() => "LIST",
            (method, _) => method.as_str(),
        };
        format!("{verb} {}", self.target.path())
    }

    /// What authorizers are asked for: the line, with `?NAME` where a list or watch is of one object.
    fn authorized(&self) -> String {
        let name = self.field_selector().strip_prefix("metadata.name=");
        let name = name.map_or_else(String::new, |name| format!("?{name}"));
        self.line() + &name
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

impl Target {
    fn of(path: &str) -> Self {
        if path == "/version" {
            return Self {
                plural: "version".to_owned(),
                ..Self::default()
            };
        }
        let mut parts = path.trim_matches('/').split('/').map(str::to_owned);
        let mut target = Self::default();
        if parts.next().as_deref() == Some("apis") {
            target.group = parts.next().unwrap_or_default();
        }
        target.version = parts.next().unwrap_or_default();
        let mut rest: Vec<String> = parts.collect();
        let in_namespace = rest.first().is_some_and(|first| first == "namespaces")
            && rest.len() > 2
            && rest[2] != "status";
        if in_namespace {
            target.namespace = Some(rest[1].clone());
            rest.drain(..2);
        }
        let mut rest = rest.into_iter();
        target.plural = rest.next().unwrap_or_default();
        target.name = rest.next();
        target.subresource = rest.next();
        target
    }

    fn collection(&self) -> String {
        let namespace = self.namespace.as_deref();
        crate::identity::request::path(&self.group, &self.version, namespace, &self.plural)
    }

    /// The path of the object, without subresource.
    fn object(&self) -> String {
        match &self.name {
            Some(name) => format!("{}/{name}", self.collection()),
            None => self.collection(),
        }
    }

    /// Whether no resources are meant: discovery, or the server's version.
    fn is_root(&self) -> bool {
        self.plural.is_empty() || self.version.is_empty()
    }

    fn path(&self) -> String {
        if self.version.is_empty() {
            return format!("/{}", self.plural);
        }
        let object = if self.plural.is_empty() {
            self.collection().trim_end_matches('/').to_owned()
        } else {
            self.object()
        };
        match &self.subresource {
            Some(subresource) => format!("{object}/{subresource}"),
            None => object,
        }
    }
}

impl From<Refusal> for Response<Body> {
    fn from(refusal: Refusal) -> Self {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "metadata": {},
            "code": refusal.code.as_u16(), "reason": refusal.reason, "message": refusal.message,
            "details": {"causes": refusal.causes()},
        });
        Response::builder()
            .status(refusal.code)
            .body(Body::from(status.to_string()))
            .unwrap()
    }
}

fn ok(value: &Value) -> Response<Body> {
    Response::new(Body::from(value.to_string()))
}

/// The events of one watch as they are sent: a line of JSON each.
fn stream(events: futures::channel::mpsc::UnboundedReceiver<Event>) -> Response<Body> {
    use futures::StreamExt as _;
    let lines = events.map(|event| {
        let line = json!({"type": event.kind, "object": event.object});
        Ok::<_, Infallible>(format!("{line}\n"))
    });
    Response::new(Body::from_stream(lines))
}
