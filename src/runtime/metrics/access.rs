//! Who may see metrics: the API server says who a token belongs to, and whether that user may.
//!
//! Its answers are kept for a short time, so that a Prometheus that asks often does not make the API server answer as
//! often. Tokens are kept as their digests only.

#![expect(clippy::disallowed_types, reason = "the API server is asked")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::Reviews;
use crate::error::chain;

/// How long a yes holds: so long may somebody go on whose right was taken.
const YES_HOLDS: Duration = Duration::from_mins(1);
/// How long a no holds: so long waits somebody who was given the right.
const NO_HOLDS: Duration = Duration::from_secs(10);
/// How many answers are kept; each takes some 200 bytes.
const MOST_ANSWERS: usize = 256;
/// How many tokens are looked at at the same time; others wait.
const MOST_ASKED: usize = 4;
/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest token that is looked at, in bytes; those of service accounts have some 1000.
const LONGEST_TOKEN: usize = 16 << 10;

/// What was found out about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Yes,
    /// The token is nobody's.
    Unknown,
    /// The user may not.
    Forbidden(String),
}

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

type Question = ([u8; 32], &'static str, &'static str);

/// Decides who may do what. Cheap to clone; all clones share what they know.
#[derive(Clone)]
pub(super) struct Access {
    client: Client,
    known: Arc<Mutex<BTreeMap<Question, (Instant, Answer)>>>,
    asking: Arc<Semaphore>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    pub(super) fn new(Reviews(client): Reviews) -> Self {
        Self {
            client,
            known: Arc::default(),
            asking: Arc::new(Semaphore::new(MOST_ASKED)),
        }
    }

    /// Whether who sends these headers may `verb` the path.
    pub(super) async fn check(
        &self,
        headers: &HeaderMap,
        verb: &'static str,
        path: &'static str,
    ) -> Result<(), Refusal> {
        let Some(token) = bearer_token(headers) else {
            return Err(Refusal {
                status: StatusCode::UNAUTHORIZED,
                text: format!(
                    "Unauthorized: send the token of an account that may {verb} {path} (Authorization: Bearer TOKEN)\n"
                ),
            });
        };
        let question = (Sha256::digest(token).into(), verb, path);
        let answer = match self.known(&question) {
            Some(answer) => answer,
            None => self.ask(token, question).await?,
        };
        match answer {
            Answer::Yes => Ok(()),
            Answer::Unknown => Err(Refusal {
                status: StatusCode::UNAUTHORIZED,
                text: "Unauthorized: the API server does not accept the token: take a new one (kubectl create token)\n"
                    .to_owned(),
            }),
            Answer::Forbidden(user) => Err(Refusal {
                status: StatusCode::FORBIDDEN,
                text: format!(
                    "Forbidden: user {user:?} may not {verb} {path}: grant verb {verb} on nonResourceURL {path}, as the chart's \
                     cluster roles do\n"
                ),
            }),
        }
    }

    fn known(&self, question: &Question) -> Option<Answer> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, answer) = known.get(question)?;
        (*until > Instant::now()).then(|| answer.clone())
    }

    /// Asks the API server and keeps its answer.
    async fn ask(&self, token: &str, question: Question) -> Result<Answer, Refusal> {
        let (_, verb, path) = question;
        let asked = timeout(PATIENCE, async {
            // It is never closed.
            let _turn = self.asking.acquire().await;
            self.review(token, verb, path).await
        });
        let unanswered = |why: String| {
            warn!(why, "cannot find out who may see metrics");
            Refusal {
                status: StatusCode::SERVICE_UNAVAILABLE,
                text: format!(
                    "Service Unavailable: cannot find out who asks, and whether they may: {why}\n"
                ),
            }
        };
        let answer = match asked.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(unanswered(chain(&error))),
            Err(_elapsed) => {
                return Err(unanswered(
                    "the API server does not answer in time".to_owned(),
                ));
            }
        };
        self.keep(question, answer.clone());
        Ok(answer)
    }

    async fn review(&self, token: &str, verb: &str, path: &str) -> Result<Answer, kube::Error> {
        let spec = TokenReviewSpec {
            token: Some(token.to_owned()),
            ..TokenReviewSpec::default()
        };
        let review = TokenReview {
            spec,
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let review = reviews.create(&PostParams::default(), &review).await?;
        let status = review.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Answer::Unknown);
        };
        let name = user.username.clone().unwrap_or_default();
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let asked = may(user, verb, path);
        let review = reviews.create(&PostParams::default(), &asked).await?;
        let is_allowed = review.status.is_some_and(|status| status.allowed);
        Ok(if is_allowed {
            Answer::Yes
        } else {
            Answer::Forbidden(name)
        })
    }

    fn keep(&self, question: Question, answer: Answer) {
        let now = Instant::now();
        let holds = match answer {
            Answer::Yes => YES_HOLDS,
            Answer::Unknown | Answer::Forbidden(_) => NO_HOLDS,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (until, _)| *until > now);
        if known.len() >= MOST_ANSWERS
            && let Some(first) = known.iter().min_by_key(|(_, (until, _))| *until)
        {
            let first = *first.0;
            known.remove(&first);
        }
        known.insert(question, (now + holds, answer));
    }
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let is_token =
        scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= LONGEST_TOKEN;
    is_token.then_some(token)
}

fn may(user: UserInfo, verb: &str, path: &str) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.to_owned()),
            }),
            resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    }
}
