//! One request to the API server, as JSON, with a deadline and an error that reads well.

#![expect(
    clippy::disallowed_types,
    reason = "requests are sent through clients that the identity room makes"
)]

use std::time::Duration;

use futures::TryStreamExt as _;
use http::uri::InvalidUri;
use kube::Client;
use kube::api::{
    DeleteParams, DynamicObject, GetParams, ListParams, Patch, PatchParams, PostParams, WatchParams,
};
use kube::core::response::Status;
use kube::core::{PartialObjectMeta, Request, WatchEvent};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};

use crate::error::UNIMPERSONATED;

/// The part of a query by which unknown fields are refused.
const STRICTLY: &str = "&fieldValidation=Strict";

/// What cannot stand in a segment of a path as it is (RFC 3986, `pchar`).
const NO_SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The longest that one request may take, repetitions by [`connect`](super::connection::connect) included. The API server itself gives up after 60 s.
const DEADLINE: Duration = Duration::from_secs(70);

/// How webhooks and policies of admission begin their own words.
const ADMISSION: [&str; 2] = [" denied the request", " denied request"];

/// A request that was not answered as hoped.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The API server said no; the text is its own.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// The API server could not be reached or understood.
    #[error(transparent)]
    Failed(kube::Error),
    /// The request could not be written.
    #[error("cannot build the request")]
    Unbuildable(#[source] kube::core::request::Error),
    /// There was no answer in time.
    #[error("no answer from the API server within {} seconds", DEADLINE.as_secs())]
    TimedOut,
}

impl RequestError {
    /// The HTTP status, if the API server answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            Self::Failed(_) | Self::Unbuildable(_) | Self::TimedOut => None,
        }
    }

    /// 410: what was asked for is too old.
    pub fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// 404
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// 403
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// 403 because who asked lacks the right, as far as the API server knows: not because we may not act as him, and not
    /// because of admission, which says no in other words.
    pub fn is_lacking(&self) -> bool {
        let is_authorizers = |message: &str| {
            let (who, what) = ("forbidden: User \"", "\" cannot ");
            let rest = message.split_once(who).map(|(_, rest)| rest);
            rest.is_some_and(|rest| rest.contains(what))
                && !message.contains(UNIMPERSONATED)
                && !ADMISSION.iter().any(|text| message.contains(text))
        };
        matches!(self, Self::Refused(status) if status.code == 403 && is_authorizers(&status.message))
    }

    /// 500 because a conversion webhook does not answer, or not properly.
    pub fn is_failed_conversion(&self) -> bool {
        matches!(self, Self::Refused(status) if status.message.contains("conversion webhook for "))
    }

    /// 409 because an object of that name is there already.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 409 && status.reason == "AlreadyExists")
    }

    /// Whether an admission webhook with side effects was not asked, since nothing was to be kept.
    pub fn is_without_dry_run(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 400 && status.message.contains("does not support dry run"))
    }

    /// Whether the object would not be valid.
    pub fn is_invalid(&self) -> bool {
        self.code() == Some(422)
    }

    /// The fields for which the object would not be valid, as paths.
    pub fn invalid_fields(&self) -> Vec<String> {
        let details = match self {
            Self::Refused(status) if status.code == 422 => status.details.as_ref(),
            _ => None,
        };
        let causes = details.into_iter().flat_map(|details| &details.causes);
        let fields = causes.map(|cause| cause.field.clone());
        fields.filter(|field| !field.is_empty()).collect()
    }

    /// Whether server-side apply cannot hold the object, since a list of it names something twice, which others can.
    pub fn is_doubled(&self) -> bool {
        matches!(self, Self::Refused(status) if status.message.contains(": duplicate entries for key ["))
    }

    /// Whether two owners would control the object: whom an apply would take away is kept by somebody who wrote him, too.
    pub fn has_two_controllers(&self) -> bool {
        let text = "Only one reference can have Controller set to true";
        matches!(self, Self::Refused(status) if status.code == 422 && status.message.contains(text))
    }

    /// 409 or a failed precondition: the object is not what it was when it was read.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409) && !self.is_already_exists()
    }
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Failed(other),
        }
    }
}

/// The path of a resource: below `/api/v1` or `/apis/GROUP/VERSION`, in a namespace if there is one.
pub fn path(group: &str, version: &str, namespace: Option<&str>, plural: &str) -> String {
    let root = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    match namespace.filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    }
}

/// A name as one segment of a path. Roles and bindings may have names with spaces, `#`, `?` and more.
fn segment(name: &str) -> String {
    utf8_percent_encode(name, NO_SEGMENT).to_string()
}

/// Reads one object; none if it, or its kind, is not there.
///
/// # Errors
/// When the API server says anything but 200 and 404.
pub async fn get(client: &Client, path: &str, name: &str) -> Result<Option<Value>, RequestError> {
    let request = Request::new(path).get(&segment(name), &GetParams::default());
    match send(client, request).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads one object as its JSON: one that is large, and need not be a tree in memory.
///
/// # Errors
/// As [`get`].
pub async fn get_text(
    client: &Client,
    path: &str,
    name: &str,
) -> Result<Option<String>, RequestError> {
    let request = Request::new(path).get(&segment(name), &GetParams::default());
    match send_text(client, request).await {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Some objects of a collection.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects.
    pub items: Vec<Value>,
    /// The token for those that follow, if there are any.
    pub next: Option<String>,
    /// The version of the whole collection, the same for all its pages.
    pub resource_version: String,
    /// How many bytes of JSON they are.
    pub bytes: usize,
}

/// Reads the next objects of a collection, at most `limit`.
///
/// # Errors
/// When the API server says anything but 200; 410 when the token is too old, and all must be read again.
pub async fn list_page(
    client: &Client,
    path: &str,
    limit: u32,
    token: Option<&str>,
) -> Result<Page, RequestError> {
    let mut parameters = ListParams::default().limit(limit);
    if let Some(token) = token {
        parameters = parameters.continue_token(token);
    }
    read_page(client, Request::new(path).list(&parameters)).await
}

/// Reads the metadata of the first objects of a collection, at most `limit`.
///
/// # Errors
/// When the API server says anything but 200.
pub async fn metadata_page(client: &Client, path: &str, limit: u32) -> Result<Page, RequestError> {
    let parameters = ListParams::default().limit(limit);
    read_page(client, Request::new(path).list_metadata(&parameters)).await
}

async fn read_page(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Page, RequestError> {
    let answer = send_text(client, request).await?;
    let bytes = answer.len();
    let page: Value = serde_json::from_str(&answer)
        .map_err(|error| RequestError::Failed(kube::Error::SerdeError(error)))?;
    drop(answer);
    let text = |pointer: &str| {
        let text = page.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let next = Some(text("/metadata/continue")).filter(|token| !token.is_empty());
    let resource_version = text("/metadata/resourceVersion");
    Ok(Page {
        items: items(page),
        next,
        resource_version,
        bytes,
    })
}

/// Waits until something in a collection changes after `resource_version`, or that is too old to tell; false when the
/// API server ended the watch before.
///
/// # Errors
/// When the API server does not let watch, or cannot be reached.
pub async fn changes(
    client: &Client,
    path: &str,
    resource_version: &str,
) -> Result<bool, RequestError> {
    let parameters = WatchParams::default().disable_bookmarks();
    let request = Request::new(path)
        .watch_metadata(&parameters, resource_version)
        .map_err(RequestError::Unbuildable)?;
    let events = client
        .request_events::<PartialObjectMeta<DynamicObject>>(request)
        .await?;
    let first = std::pin::pin!(events).try_next().await?;
    Ok(match first {
        Some(
            WatchEvent::Added(_)
            | WatchEvent::Modified(_)
            | WatchEvent::Deleted(_)
            | WatchEvent::Error(_),
        ) => true,
        Some(WatchEvent::Bookmark(_)) | None => false,
    })
}

/// Creates one object; fields that the API server does not know are dropped.
///
/// # Errors
/// When the API server does not.
pub async fn create(
    client: &Client,
    path: &str,
    manager: &str,
    object: &impl serde::Serialize,
) -> Result<Value, RequestError> {
    send(client, creation(path, manager, object, "")).await
}

/// Creates one object; one with fields that the API server does not know is refused, and they are named.
///
/// # Errors
/// When the API server does not.
pub async fn create_strictly(
    client: &Client,
    path: &str,
    manager: &str,
    object: &impl serde::Serialize,
) -> Result<Value, RequestError> {
    send(client, creation(path, manager, object, STRICTLY)).await
}

/// Asks whether one object would be created, as [`create_strictly`]: nothing is.
///
/// # Errors
/// When the API server would not.
pub async fn try_to_create(
    client: &Client,
    path: &str,
    manager: &str,
    object: &impl serde::Serialize,
) -> Result<Value, RequestError> {
    let options = format!("{STRICTLY}&dryRun=All");
    send(client, creation(path, manager, object, &options)).await
}

/// The request that creates an object, with more of a query.
fn creation(
    path: &str,
    manager: &str,
    object: &impl serde::Serialize,
    options: &str,
) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
    use kube::core::request::Error;
    let parameters = PostParams {
        dry_run: false,
        field_manager: Some(manager.to_owned()),
    };
    let body = serde_json::to_vec(object).map_err(Error::SerializeBody)?;
    let mut request = Request::new(path).create(&parameters, body)?;
    let uri = format!("{}{options}", request.uri());
    *request.uri_mut() =
        (uri.try_into()).map_err(|error: InvalidUri| Error::BuildRequest(error.into()))?;
    Ok(request)
}

/// Patches one object.
///
/// # Errors
/// When the API server does not.
pub async fn patch(
    client: &Client,
    path: &str,
    name: &str,
    parameters: &PatchParams,
    patch: &Patch<Value>,
) -> Result<Value, RequestError> {
    let name = segment(name);
    send(client, Request::new(path).patch(&name, parameters, patch)).await
}

/// In `metadata.managedFields` of a patch: who set which field is forgotten, and no longer recorded until somebody uses
/// server-side apply. For objects that only we write the record is half of their bytes.
pub fn no_record() -> Value {
    json!([{}])
}

/// Patches the status of one object by a merge patch.
///
/// # Errors
/// When the API server does not.
pub async fn patch_status(
    client: &Client,
    path: &str,
    name: &str,
    manager: &str,
    patch: Value,
) -> Result<Value, RequestError> {
    let parameters = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let (name, patch) = (segment(name), Patch::Merge(patch));
    let request = Request::new(path).patch_subresource("status", &name, &parameters, &patch);
    send(client, request).await
}

/// What a deletion came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The object is gone.
    Gone,
    /// Somebody's finalizer holds it.
    Waiting,
}

/// Deletes one object; that it is gone already is no error.
///
/// # Errors
/// When the API server says anything but yes and 404.
pub async fn delete(
    client: &Client,
    path: &str,
    name: &str,
    parameters: &DeleteParams,
) -> Result<Deletion, RequestError> {
    match send(
        client,
        Request::new(path).delete(&segment(name), parameters),
    )
    .await
    {
        // The API server answers with the object as long as it is there.
        Ok(answer) if answer.pointer("/metadata/deletionTimestamp").is_some() => {
            Ok(Deletion::Waiting)
        }
        Ok(_) => Ok(Deletion::Gone),
        Err(error) if error.is_not_found() => Ok(Deletion::Gone),
        Err(error) => Err(error),
    }
}

/// The objects of a collection that a label selector selects.
///
/// # Errors
/// When the API server says anything but 200.
pub async fn select(client: &Client, path: &str, labels: &str) -> Result<Vec<Value>, RequestError> {
    let parameters = ListParams::default().labels(labels);
    let request = Request::new(path).list(&parameters);
    Ok(items(send(client, request).await?))
}

/// What the objects of a collection are called and marked with, of those that a label selector selects if there is one.
///
/// # Errors
/// When the API server says anything but 200.
pub async fn metadata(
    client: &Client,
    path: &str,
    labels: Option<&str>,
) -> Result<Vec<Value>, RequestError> {
    let parameters = ListParams {
        label_selector: labels.map(str::to_owned),
        ..ListParams::default()
    };
    let request = Request::new(path).list_metadata(&parameters);
    Ok(items(send(client, request).await?))
}

fn items(mut list: Value) -> Vec<Value> {
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// Sends one request and reads the JSON of its answer.
///
/// # Errors
/// When the request cannot be built, the API server does not answer in time, or it says no.
pub async fn send(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Value, RequestError> {
    let request = request.map_err(RequestError::Unbuildable)?;
    tokio::time::timeout(DEADLINE, client.request::<Value>(request))
        .await
        .map_err(|_elapsed| RequestError::TimedOut)?
        .map_err(RequestError::from)
}

/// [`send`] for an answer that need not be a tree in memory, or not at once.
async fn send_text(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<String, RequestError> {
    let request = request.map_err(RequestError::Unbuildable)?;
    tokio::time::timeout(DEADLINE, client.request_text(request))
        .await
        .map_err(|_elapsed| RequestError::TimedOut)?
        .map_err(RequestError::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_admission_refuses_is_no_lack_of_rights() {
        for (message, expected) in [
            (
                r#"things.g "x" is forbidden: User "system:serviceaccount:n:s" cannot delete resource "things" in API group "g""#,
                true,
            ),
            (
                r#"things.g "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: user "s" cannot delete it"#,
                false,
            ),
            (
                r#"admission webhook "w.example.com" denied the request: forbidden: User "s" cannot delete it"#,
                false,
            ),
            (
                r#"users "system:serviceaccount:n:s" is forbidden: User "oxolm" cannot impersonate resource "users""#,
                false,
            ),
        ] {
            let status = Status::failure(message, "Forbidden").with_code(403);
            let refused = RequestError::Refused(status.boxed());
            assert_eq!(refused.is_lacking(), expected, "{message}");
        }
    }

    #[test]
    fn a_name_is_one_segment() {
        for (name, expected) in [
            ("system:auth-delegator", "system:auth-delegator"),
            ("a b", "a%20b"),
            ("#h", "%23h"),
            ("x?dryRun=All", "x%3FdryRun=All"),
            ("ü", "%C3%BC"),
        ] {
            assert_eq!(segment(name), expected);
        }
    }

    #[test]
    fn paths_are_those_of_the_api() {
        assert_eq!(path("", "v1", None, "namespaces"), "/api/v1/namespaces");
        assert_eq!(
            path("apps", "v1", Some("n"), "deployments"),
            "/apis/apps/v1/namespaces/n/deployments"
        );
        assert_eq!(path("g", "v1", Some(""), "things"), "/apis/g/v1/things");
    }
}
