//! What the API server says where nobody may act as an account.

use crate::error::UNIMPERSONATED;
use crate::identity::request::RequestError;

/// Whether the API server refused that we act as the account, before it looked at the request itself.
pub fn is_refused(error: &RequestError) -> bool {
    matches!(error, RequestError::Refused(status) if status.code == 403 && status.message.contains(UNIMPERSONATED))
}
